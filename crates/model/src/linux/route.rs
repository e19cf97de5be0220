//! `route`: where packets go. A route has no name; the kernel tells routes apart by table, destination and metric.

use kilter_scheduler::{Derived, FieldError, Key, Kind, Needs, Predicate, Transition};
use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::Scope;
use super::compare::{Compared, error, twice};
use super::keys;
use super::names::{Name, NetnsName, Table};
use crate::declare::Declare;

/// What a route does with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RouteType {
    /// Sends it on.
    #[default]
    Unicast,
    /// Drops it.
    Blackhole,
    /// Drops it and says that the host is unreachable.
    Unreachable,
    /// Drops it and says that it is prohibited.
    Prohibit,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Route {
    /// The namespace; the agent's own if left out.
    #[serde(default, skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The destination; `0.0.0.0/0` and `::/0` are everything.
    #[schemars(schema_with = "crate::linux::texts::network")]
    pub destination: IpNet,
    /// What is done with a packet; `unicast` if left out.
    #[serde(default, rename = "type", skip_serializing_if = "is_unicast")]
    pub route_type: RouteType,
    /// The gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::ip")]
    pub via: Option<IpAddr>,
    /// The link that packets leave by; found by the gateway if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::link_name")]
    pub link: Option<Name>,
    /// Takes the gateway as directly reachable over the link, whatever the addresses say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub onlink: bool,
    /// Several gateways that share the packets, instead of `via` and `link`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nexthops: Vec<Nexthop>,
    /// The routing table; `main` if left out.
    #[serde(default, skip_serializing_if = "Table::is_main")]
    pub table: Table,
    /// The metric: lower wins. 0 for IPv4 and 1024 for IPv6 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_295_u32))]
    pub metric: Option<u32>,
    /// The source address that is preferred for packets of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::ip")]
    pub source: Option<IpAddr>,
    /// How far the destination is; by default `link` without a gateway and `global` with one. IPv4 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The largest packet on this route, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 68, max = 65535))]
    pub mtu: Option<u32>,
}

/// One of several gateways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Nexthop {
    /// The gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::ip")]
    pub via: Option<IpAddr>,
    /// The link that packets leave by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::link_name")]
    pub link: Option<Name>,
    /// The share of the packets; 1 if left out.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 256))]
    pub weight: u16,
    /// Takes the gateway as directly reachable over the link.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub onlink: bool,
}

fn one() -> u16 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_one(weight: &u16) -> bool {
    *weight == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_unicast(route_type: &RouteType) -> bool {
    *route_type == RouteType::Unicast
}

impl Route {
    /// The metric that the kernel takes if none is said.
    pub const IPV6_METRIC: u32 = 1024;

    /// The metric as the kernel has it.
    pub fn metric(&self) -> u32 {
        match (self.destination, self.metric) {
            (IpNet::V6(_), None | Some(0)) => Self::IPV6_METRIC,
            (IpNet::V4(_), None) => 0,
            (_, Some(metric)) => metric,
        }
    }

    /// The gateways: one, or several that share the packets.
    pub fn gateways(&self) -> impl Iterator<Item = (Option<IpAddr>, Option<&Name>, bool)> {
        let one = self.nexthops.is_empty().then_some((self.via, self.link.as_ref(), self.onlink));
        let many = self.nexthops.iter().map(|hop| (hop.via, hop.link.as_ref(), hop.onlink));
        one.into_iter().chain(many)
    }

    /// The scope that the kernel takes if none is said.
    fn usual_scope(&self) -> Scope {
        let is_direct =
            self.route_type == RouteType::Unicast && self.gateways().all(|(via, _, _)| via.is_none());
        if is_direct { Scope::Link } else { Scope::Global }
    }
}

impl Declare for Route {
    const WORD: &'static str = "route";
    const ABOUT: &'static str = "Where packets for a destination go.";

    fn key(&self) -> Key {
        keys::route(&self.netns, self.table, self.destination, self.metric())
    }

    /// No host bits, and no field that says what goes without saying.
    fn normalise(&mut self) {
        self.destination = self.destination.trunc();
        let said = self.metric();
        self.metric = None;
        if said != self.metric() {
            self.metric = Some(said);
        }
        if self.scope == Some(self.usual_scope()) {
            self.scope = None;
        }
    }

    fn check(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.check_families(&mut errors);
        self.check_gateways(&mut errors);
        if self.scope.is_some() && self.destination.addr().is_ipv6() {
            errors.push(error("scope", "is for IPv4 routes only"));
        }
        if self.destination.addr().is_multicast() {
            errors.push(error("destination", "is multicast, which these routes are not for"));
        }
        errors
    }
}

impl Route {
    /// Puts the route into the one form that equal routes share.
    pub fn normalise(&mut self) {
        Declare::normalise(self);
    }

    /// Every address is of the destination's family.
    fn check_families(&self, errors: &mut Vec<FieldError>) {
        let is_ipv4 = self.destination.addr().is_ipv4();
        let family = if is_ipv4 { "IPv4" } else { "IPv6" };
        let mut check = |path: String, address: Option<IpAddr>| {
            if address.is_some_and(|address| address.is_ipv4() != is_ipv4) {
                errors.push(error(path, format!("must be an {family} address, like the destination")));
            }
        };
        check("via".to_owned(), self.via);
        check("source".to_owned(), self.source);
        for (at, hop) in self.nexthops.iter().enumerate() {
            check(format!("nexthops[{at}].via"), hop.via);
        }
    }

    fn check_gateways(&self, errors: &mut Vec<FieldError>) {
        let word = match self.route_type {
            RouteType::Unicast => "",
            RouteType::Blackhole => "blackhole",
            RouteType::Unreachable => "unreachable",
            RouteType::Prohibit => "prohibit",
        };
        let said = [
            ("via", self.via.is_some()),
            ("link", self.link.is_some()),
            ("onlink", self.onlink),
            ("nexthops", !self.nexthops.is_empty()),
        ];
        if self.route_type != RouteType::Unicast {
            for (path, _) in said.iter().filter(|(_, is_said)| *is_said) {
                errors.push(error(*path, format!("a route of type `{word}` goes nowhere")));
            }
            return;
        }
        if said.iter().all(|(_, is_said)| !is_said) {
            errors.push(error("", "a `route` needs `via`, `link` or `nexthops`"));
        }
        if !self.nexthops.is_empty() {
            for (path, _) in said[..3].iter().filter(|(_, is_said)| *is_said) {
                errors.push(error(*path, "stands in `nexthops` when there are several"));
            }
        }
        if self.nexthops.len() == 1 {
            errors.push(error("nexthops", "one gateway is written with `via` and `link`"));
        }
        twice("nexthops", &self.nexthops, errors);
        if self.onlink && (self.via.is_none() || self.link.is_none()) {
            errors.push(error("onlink", "needs `via` and `link`"));
        }
        for (at, hop) in self.nexthops.iter().enumerate() {
            if hop.via.is_none() && hop.link.is_none() {
                errors.push(error(format!("nexthops[{at}]"), "needs `via` or `link`"));
            }
            if hop.onlink && (hop.via.is_none() || hop.link.is_none()) {
                errors.push(error(format!("nexthops[{at}].onlink"), "needs `via` and `link`"));
            }
        }
        for (path, via) in [("via", self.via)] {
            if via.is_some_and(|via| via.is_unspecified() || via.is_multicast()) {
                errors.push(error(path, "must be the address of one host"));
            }
        }
    }
}

/// Describes `linux.route`.
pub struct RouteKind;

impl Kind for RouteKind {
    type Value = Route;
    const NAME: &'static str = "linux.route";
    const KEYS: &'static [&'static str] = &["linux/route/*/*/*/*/*"];

    fn validate(&self, _key: &Key, route: &Route) -> Vec<FieldError> {
        route.check()
    }

    /// The link up, the gateway reachable over an address or a direct route, the source an address of the namespace.
    fn needs(&self, _key: &Key, route: &Route, needs: &mut Needs) {
        keys::need_netns(&route.netns, needs);
        if route.route_type == RouteType::Unicast {
            for (via, link, onlink) in route.gateways() {
                need_gateway(&route.netns, via, link, onlink, needs);
            }
        }
        if let Some(source) = route.source {
            let has = Predicate::new(format!("with {source}"), move |key: &Key| {
                keys::network_at_the_end(key.as_str()).is_some_and(|network| network.addr() == source)
            });
            needs.any_of([keys::addresses_in(&route.netns)], Some(has));
        }
    }

    /// A direct route makes its destination reachable for the gateways of others.
    fn derive(&self, _key: &Key, route: &Route, derived: &mut Derived) {
        if route.route_type != RouteType::Unicast {
            return;
        }
        let mut links: Vec<&Name> =
            route.gateways().filter(|(via, _, _)| via.is_none()).filter_map(|(_, link, _)| link).collect();
        links.sort_unstable();
        links.dedup();
        for link in links {
            derived.item(keys::reach(&route.netns, link, route.destination), ());
        }
    }

    /// The kernel replaces a route under the same table, destination and metric in one step.
    fn transition(&self, _key: &Key, old: &Route, new: &Route) -> Transition {
        let mut compared = Compared::default();
        compared.field(&old.route_type, &new.route_type);
        compared.field(&old.via, &new.via);
        compared.optional("link", &old.link, &new.link);
        compared.field(&old.onlink, &new.onlink);
        let as_said = |(old, new): (&Nexthop, &Nexthop)| {
            let link = new.link.clone().or_else(|| old.link.clone());
            *old == Nexthop { link, ..new.clone() }
        };
        let same =
            old.nexthops.len() == new.nexthops.len() && old.nexthops.iter().zip(&new.nexthops).all(as_said);
        compared.field(&same, &true);
        compared.field(&old.source, &new.source);
        compared.field(&old.scope, &new.scope);
        compared.field(&old.mtu, &new.mtu);
        compared.transition()
    }

    fn reads_after(&self) -> &[&str] {
        &["linux.link"]
    }

    /// Routes of others are read only if they are expected.
    fn correlates(&self) -> bool {
        true
    }
}

fn need_gateway(
    netns: &NetnsName,
    via: Option<IpAddr>,
    link: Option<&Name>,
    onlink: bool,
    needs: &mut Needs,
) {
    if let Some(link) = link {
        needs.on(format_args!("linux/up/{netns}/{link}"));
    }
    let Some(via) = via.filter(|via| !onlink && !is_link_local(*via)) else { return };
    let contains = Predicate::new(format!("containing {via}"), move |key: &Key| {
        keys::network_at_the_end(key.as_str()).is_some_and(|network| {
            network.contains(&via) && network.addr() != via || is_host_route(key, network, via)
        })
    });
    let reaches = link.map_or_else(|| keys::reaches_in(netns), |link| keys::reaches(netns, link));
    needs.any_of([reaches], Some(contains));
}

/// Whether the key is that of a direct route to the gateway alone; an address equal to the gateway is this host.
fn is_host_route(key: &Key, network: IpNet, via: IpAddr) -> bool {
    key.as_str().starts_with("linux/reach/") && !keys::is_by_address(key.as_str()) && network.contains(&via)
}

/// Whether the address is one of those that every IPv6 link has.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}
