//! `route`: where packets go. A route has no name; the kernel tells routes apart by table, destination and metric.

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::Scope;
use super::names::{Name, NetnsName, Table};

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
    #[schemars(schema_with = "crate::linux::shape::network")]
    pub destination: IpNet,
    /// What is done with a packet; `unicast` if left out.
    #[serde(default, rename = "type", skip_serializing_if = "is_unicast")]
    pub route_type: RouteType,
    /// The gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::ip")]
    pub via: Option<IpAddr>,
    /// The link that packets leave by; found by the gateway if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::link_name")]
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
    #[schemars(schema_with = "crate::linux::shape::ip")]
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
    #[schemars(schema_with = "crate::linux::shape::ip")]
    pub via: Option<IpAddr>,
    /// The link that packets leave by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::link_name")]
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

    /// Puts the route into the one form that equal routes share: no host bits, no field that says the default.
    pub fn normalise(&mut self) {
        self.destination = self.destination.trunc();
        let said = self.metric();
        self.metric = None;
        if said != self.metric() {
            self.metric = Some(said);
        }
    }
}
