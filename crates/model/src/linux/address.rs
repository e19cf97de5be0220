//! `address`: an address of a link, derived from the link that lists it.

use kilter_scheduler::{FieldError, Key, Kind, Needs, Transition};
use std::net::Ipv4Addr;

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::compare::{Compared, error};
use super::names::{Name, NetnsName};

/// How far an address or a route is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Everywhere.
    Global,
    /// In this site.
    Site,
    /// On this link.
    Link,
    /// On this host.
    Host,
}

/// An address as a link lists it: `10.0.0.1/24`, or the long form with more fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address and the length of its prefix.
    pub address: IpNet,
    /// The other end of a point-to-point link.
    pub peer: Option<IpNet>,
    /// The broadcast address; IPv4 only.
    pub broadcast: Option<Ipv4Addr>,
    /// How far the address is valid; `None` is what the kernel takes.
    pub scope: Option<Scope>,
    /// Adds no route to the network of the address.
    pub no_prefix_route: bool,
    /// For how many seconds the address is valid; `None` is forever.
    pub valid_for: Option<u32>,
    /// For how many seconds the address is preferred as a source; `None` is as long as it is valid.
    pub preferred_for: Option<u32>,
}

impl Address {
    /// An address with nothing special about it.
    pub fn new(address: IpNet) -> Self {
        Self {
            address,
            peer: None,
            broadcast: None,
            scope: None,
            no_prefix_route: false,
            valid_for: None,
            preferred_for: None,
        }
    }

    /// Whether the kernel makes the route to its network only while the link is up.
    pub(crate) fn wants_up(&self) -> bool {
        self.address.addr().is_ipv6() && self.valid_for.is_some() && !self.no_prefix_route
    }

    /// Puts the address into the one form that equal addresses share: no field that says what goes without saying.
    pub(crate) fn normalise(&mut self) {
        let usual = if self.address.addr().is_loopback() { Scope::Host } else { Scope::Global };
        self.scope = self.scope.filter(|scope| *scope != usual);
        self.preferred_for = self.preferred_for.filter(|time| Some(*time) != self.valid_for);
    }

    /// Whether the short form says everything.
    pub fn is_plain(&self) -> bool {
        *self == Self::new(self.address)
    }
}

/// An address of a link, as an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkAddress {
    /// The namespace of the link.
    #[serde(default, skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The link.
    pub link: Name,
    /// The VRF that the link is bound to first; says nothing about the address itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrf: Option<Name>,
    /// The link is switched on first: the kernel makes the route to the network of an IPv6 address that does not stay
    /// only while its link is up. Says nothing about the address itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_up: bool,
    /// The address.
    pub address: Address,
    /// The address was read, so its lifetimes are what is left of them.
    #[serde(skip)]
    pub read: bool,
}

/// The long form.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct AddressFields {
    /// The address and the length of its prefix.
    #[schemars(schema_with = "crate::linux::texts::cidr")]
    address: IpNet,
    /// The other end of a point-to-point link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::cidr")]
    peer: Option<IpNet>,
    /// The broadcast address; IPv4 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::ipv4")]
    broadcast: Option<Ipv4Addr>,
    /// How far the address is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<Scope>,
    /// Adds no route to the network of the address.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    no_prefix_route: bool,
    /// For how many seconds the address is valid; forever if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_294_u32))]
    valid_for: Option<u32>,
    /// For how many seconds the address is preferred as a source; as long as it is valid if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_294_u32))]
    preferred_for: Option<u32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Form {
    Short(IpNet),
    Long(AddressFields),
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_plain() {
            return self.address.serialize(serializer);
        }
        let Self { address, peer, broadcast, scope, no_prefix_route, valid_for, preferred_for } =
            self.clone();
        AddressFields { address, peer, broadcast, scope, no_prefix_route, valid_for, preferred_for }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Form::deserialize(deserializer)? {
            Form::Short(address) => Self::new(address),
            Form::Long(fields) => {
                let AddressFields {
                    address,
                    peer,
                    broadcast,
                    scope,
                    no_prefix_route,
                    valid_for,
                    preferred_for,
                } = fields;
                Self { address, peer, broadcast, scope, no_prefix_route, valid_for, preferred_for }
            }
        })
    }
}

impl JsonSchema for Address {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Address".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [super::texts::cidr(generator), AddressFields::json_schema(generator)] })
    }
}

impl Address {
    /// What is wrong between the fields; `path` is where the address stands.
    pub(crate) fn check(&self, path: &str, errors: &mut Vec<FieldError>) {
        let field = |name: &str| format!("{path}.{name}");
        let is_ipv4 = self.address.addr().is_ipv4();
        let ip = self.address.addr();
        if ip.is_multicast() || ip.is_unspecified() {
            errors.push(error(path, format!("`{ip}` cannot be the address of a link")));
        }
        if self.peer.is_some_and(|peer| peer.addr().is_ipv4() != is_ipv4) {
            errors.push(error(field("peer"), "must be of the same family as the address"));
        }
        let length = self.address.prefix_len();
        if self.peer.is_some_and(|peer| peer.addr().is_ipv4() == is_ipv4 && peer.prefix_len() != length) {
            errors.push(error(
                field("peer"),
                format!(
                    "must have the prefix length of the address, {length}: the kernel keeps one for both"
                ),
            ));
        }
        if self.broadcast.is_some() && !is_ipv4 {
            errors.push(error(field("broadcast"), "is for IPv4 addresses only"));
        }
        if self.scope.is_some() && !is_ipv4 {
            errors.push(error(
                field("scope"),
                "is for IPv4 addresses only; the kernel knows that of an IPv6 address",
            ));
        }
        if is_ipv4 && self.preferred_for.is_some() && self.valid_for.is_none() {
            errors.push(error(
                field("preferred-for"),
                "of an IPv4 address needs `valid-for`: the kernel counts neither of one that is valid forever",
            ));
        }
        let valid_for = self.valid_for.unwrap_or(u32::MAX);
        if self.preferred_for.is_some_and(|preferred_for| preferred_for > valid_for) {
            errors.push(error(
                field("preferred-for"),
                format!("must not be longer than `valid-for`, {valid_for}"),
            ));
        }
    }
}

/// Whether two addresses have the same lifetimes. The kernel counts them down: of one that was read, less is left.
fn lives_alike(old: &LinkAddress, new: &LinkAddress) -> bool {
    let is_left = |old_time: Option<u32>, new_time: Option<u32>| match (old_time, new_time) {
        (None, None) => true,
        (Some(old_time), Some(new_time)) => match (old.read, new.read) {
            (false, false) => old_time == new_time,
            (true, false) => old_time <= new_time,
            (false, true) => old_time >= new_time,
            (true, true) => true,
        },
        (Some(_), None) | (None, Some(_)) => false,
    };
    let preferred = |address: &Address| address.preferred_for.or(address.valid_for);
    is_left(old.address.valid_for, new.address.valid_for)
        && is_left(preferred(&old.address), preferred(&new.address))
}

/// Describes `linux.address`.
pub struct AddressKind;

impl Kind for AddressKind {
    type Value = LinkAddress;
    const NAME: &'static str = "linux.address";
    const KEYS: &'static [&'static str] = &["linux/address/*/*/*/*"];

    /// The link, and its binding to a VRF first: binding a link moves its routes.
    fn needs(&self, _key: &Key, address: &LinkAddress, needs: &mut Needs) {
        let LinkAddress { netns, link, vrf, after_up, .. } = address;
        needs.on(format_args!("linux/link/{netns}/{link}"));
        if *after_up {
            needs.on(format_args!("linux/up/{netns}/{link}"));
        }
        if vrf.is_some() {
            needs.on(format_args!("linux/port/{netns}/{link}"));
        }
    }

    /// Lifetimes can be changed, and the flag of an IPv6 address; the rest is part of what the kernel knows the address by.
    fn transition(&self, _key: &Key, old: &LinkAddress, new: &LinkAddress) -> Transition {
        let mut compared = Compared::after(old.read);
        compared.field(&lives_alike(old, new), &true);
        let (old, new) = (&old.address, &new.address);
        compared.fixed("peer", &old.peer, &new.peer);
        compared.fixed_optional("broadcast", &old.broadcast, &new.broadcast);
        compared.fixed_optional("scope", &old.scope, &new.scope);
        if new.address.addr().is_ipv4() {
            compared.fixed("no-prefix-route", &old.no_prefix_route, &new.no_prefix_route);
        } else {
            compared.field(&old.no_prefix_route, &new.no_prefix_route);
        }
        compared.transition()
    }

    fn reads_after(&self) -> &[&str] {
        &["linux.link"]
    }
}
