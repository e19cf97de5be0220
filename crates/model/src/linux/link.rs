//! Links: what all kinds of links share, and the one item `linux/link/NETNS/NAME` that each of them is.
//!
//! One key space for all kinds of links, because others need "the link", whatever it is. So the scheduler knows one
//! kind, `linux.link`, with a value that tells which; documents write `kind: veth`. To become another kind of link
//! is a re-creation.

use kilter_scheduler::{Derived, FieldError, Key, Kind, Needs, Transition};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::{Address, LinkAddress};
use super::compare::{Compared, Reading, error, twice};
use super::names::{LinkRef, Mac, Name, NetnsName};
use super::port::{Port, PortOptions};
use super::reach::Reach;
use super::unnumbered::Unnumbered;
use super::up::Up;
use super::{Bond, Bridge, Dummy, Ifb, Loopback, Macvlan, Macvtap, Tap, Veth, Vlan, Vrf, Vxlan};
use super::{keys, loopback};

/// A link: a network device that is declared to be made, or one that was observed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Link {
    /// The name of the link in its namespace.
    pub name: Name,
    /// The namespace.
    #[serde(skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// What kind of link it is, with what only that kind has.
    #[serde(flatten)]
    pub kind: LinkKind,
    /// What every link has.
    #[serde(flatten)]
    pub fields: LinkFields,
}

/// What kind of link it is, with what only that kind has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LinkKind {
    /// One end of a pair.
    Veth(Veth),
    /// A bridge.
    Bridge(Bridge),
    /// A VXLAN tunnel end.
    Vxlan(Vxlan),
    /// A tap device: frames to and from a program.
    Tap(Tap),
    /// A tun device: packets to and from a program.
    Tun(Tap),
    /// A link with a hardware address of its own on top of another.
    Macvlan(Macvlan),
    /// The same, for a program.
    Macvtap(Macvtap),
    /// An intermediate functional block.
    Ifb(Ifb),
    /// A link that drops everything.
    Dummy(Dummy),
    /// A tagged VLAN on another link.
    Vlan(Vlan),
    /// A virtual routing and forwarding domain.
    Vrf(Vrf),
    /// Several links as one.
    Bond(Bond),
    /// The loopback link, which every namespace has.
    Loopback(Loopback),
    /// A link that nobody declared, as it was observed. Never declared; derives nothing, because what is on it is
    /// observed item by item.
    Foreign {
        /// What the kernel calls its kind; empty for hardware.
        driver: Name,
    },
}

impl LinkKind {
    /// The word for the kind in a document.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Veth(_) => "veth",
            Self::Bridge(_) => "bridge",
            Self::Vxlan(_) => "vxlan",
            Self::Tap(_) => "tap",
            Self::Tun(_) => "tun",
            Self::Macvlan(_) => "macvlan",
            Self::Macvtap(_) => "macvtap",
            Self::Ifb(_) => "ifb",
            Self::Dummy(_) => "dummy",
            Self::Vlan(_) => "vlan",
            Self::Vrf(_) => "vrf",
            Self::Bond(_) => "bond",
            Self::Loopback(_) => "loopback",
            Self::Foreign { .. } => "foreign",
        }
    }
}

/// Whether a link is to be up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AdminState {
    /// Up.
    Up,
    /// Down.
    Down,
}

/// How a link makes its IPv6 link-local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AddrGenMode {
    /// From the hardware address.
    Eui64,
    /// Not at all: right for ports of a bridge.
    None,
    /// From a secret of the host.
    StablePrivacy,
    /// At random.
    Random,
}

/// What every link has. A field that is left out is left as it is; one that is not said any more gets back what it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LinkFields {
    /// Whether the link is to be up. Links that are made here are up unless it says `down`; an `existing` link is
    /// left as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<AdminState>,
    /// The largest packet, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 68, max = 65536))]
    pub mtu: Option<u32>,
    /// The hardware address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
    /// A description that the kernel keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::alias")]
    pub alias: Option<String>,
    /// More names of the link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::linux::texts::alt_names")]
    pub alt_names: Vec<String>,
    /// The group of links that this one belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_295_u32))]
    pub group: Option<u32>,
    /// How the IPv6 link-local address is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addr_gen_mode: Option<AddrGenMode>,
    /// How many packets may wait for the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_295_u32))]
    pub tx_queue_len: Option<u32>,
    /// The bridge or bond that the link is a port of, in the same namespace. The bridge may list its ports instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::link_name")]
    pub master: Option<Name>,
    /// The VRF that the link is bound to, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::link_name")]
    pub vrf: Option<Name>,
    /// The addresses of the link. Each is an item of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    /// A link in the same namespace whose addresses this one borrows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::link_name")]
    pub unnumbered: Option<Name>,
    /// That the fields were read; what is declared has none.
    #[serde(rename = "~reading", default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub reading: Option<Reading>,
}

impl Link {
    /// The optional fields that get another value if this link is to become another one.
    pub fn given(&self, new: &Self) -> Vec<&'static str> {
        let mut compared = Compared::gathering();
        self.kind.compare(&new.kind, &mut compared);
        self.fields.compare(&new.fields, &mut compared);
        compared.given()
    }

    /// Whether the link is to be up.
    pub fn is_up(&self) -> bool {
        self.fields.state != Some(AdminState::Down)
    }

    /// Puts the link into the one form that equal links share.
    pub fn normalise(&mut self) {
        if self.is_up() {
            self.fields.state = None;
        }
        self.fields.normalise();
        if let Some(lower) = self.kind.lower_mut() {
            lower.normalise(&self.netns);
        }
    }
}

impl LinkKind {
    /// The other link that this one is made on or with.
    pub fn lower(&self) -> Option<&LinkRef> {
        match self {
            Self::Veth(veth) => veth.peer.as_ref(),
            Self::Vxlan(vxlan) => vxlan.link.as_ref(),
            Self::Macvlan(macvlan) => Some(&macvlan.link),
            Self::Macvtap(macvtap) => Some(&macvtap.link),
            Self::Vlan(vlan) => Some(&vlan.link),
            Self::Bridge(_)
            | Self::Tap(_)
            | Self::Tun(_)
            | Self::Ifb(_)
            | Self::Dummy(_)
            | Self::Vrf(_)
            | Self::Bond(_)
            | Self::Loopback(_)
            | Self::Foreign { .. } => None,
        }
    }

    fn lower_mut(&mut self) -> Option<&mut LinkRef> {
        match self {
            Self::Veth(veth) => veth.peer.as_mut(),
            Self::Vxlan(vxlan) => vxlan.link.as_mut(),
            Self::Macvlan(macvlan) => Some(&mut macvlan.link),
            Self::Macvtap(macvtap) => Some(&mut macvtap.link),
            Self::Vlan(vlan) => Some(&mut vlan.link),
            Self::Bridge(_)
            | Self::Tap(_)
            | Self::Tun(_)
            | Self::Ifb(_)
            | Self::Dummy(_)
            | Self::Vrf(_)
            | Self::Bond(_)
            | Self::Loopback(_)
            | Self::Foreign { .. } => None,
        }
    }

    /// Compares what only the kind has; another kind is a re-creation.
    fn compare(&self, new: &Self, compared: &mut Compared<'_>) {
        match (self, new) {
            (Self::Veth(old), Self::Veth(new)) => compared.fixed_optional("peer", &old.peer, &new.peer),
            (Self::Bridge(old), Self::Bridge(new)) => old.compare(new, compared),
            (Self::Vxlan(old), Self::Vxlan(new)) => old.compare(new, compared),
            (Self::Tap(old), Self::Tap(new)) | (Self::Tun(old), Self::Tun(new)) => old.compare(new, compared),
            (Self::Macvlan(old), Self::Macvlan(new)) => old.compare(new, compared),
            (Self::Macvtap(old), Self::Macvtap(new)) => old.compare(new, compared),
            (Self::Vlan(old), Self::Vlan(new)) => old.compare(new, compared),
            (Self::Vrf(old), Self::Vrf(new)) => compared.fixed("table", &old.table, &new.table),
            (Self::Bond(old), Self::Bond(new)) => old.compare(new, compared),
            // Seen before it was declared: the actuator finds out what differs.
            (Self::Foreign { driver }, new) if driver == new.word() => compared.field(&false, &true),
            (Self::Foreign { .. }, Self::Loopback(_)) => compared.field(&false, &true),
            (old, new) => compared.fixed("kind", &old.shown(), &new.shown()),
        }
    }

    fn shown(&self) -> &str {
        if let Self::Foreign { driver } = self {
            if driver.is_empty() { "hardware" } else { driver }
        } else {
            self.word()
        }
    }
}

/// What is wrong between the fields of a link.
pub(crate) fn check(link: &Link) -> Vec<FieldError> {
    let mut errors = Vec::new();
    link.fields.check(&link.name, &mut errors);
    let is_itself = |lower: &LinkRef| lower.name == link.name && *lower.netns(&link.netns) == link.netns;
    if link.kind.lower().is_some_and(is_itself) {
        let path = if matches!(link.kind, LinkKind::Veth(_)) { "peer" } else { "link" };
        errors.push(error(path, "names the link itself"));
    }
    match &link.kind {
        LinkKind::Veth(veth) if veth.peer.is_none() => errors.push(error("", "a `veth` needs `peer`")),
        LinkKind::Bridge(bridge) => bridge.check(&link.name, &mut errors),
        LinkKind::Vxlan(vxlan) => vxlan.check(&mut errors),
        LinkKind::Bond(bond) => bond.check(&link.name, &mut errors),
        LinkKind::Loopback(_) => loopback::check(link, &mut errors),
        LinkKind::Foreign { .. } => errors.push(error("kind", "a foreign link is observed, never declared")),
        LinkKind::Veth(_)
        | LinkKind::Tap(_)
        | LinkKind::Tun(_)
        | LinkKind::Macvlan(_)
        | LinkKind::Macvtap(_)
        | LinkKind::Ifb(_)
        | LinkKind::Dummy(_)
        | LinkKind::Vlan(_)
        | LinkKind::Vrf(_) => {}
    }
    errors
}

impl LinkFields {
    /// Puts the fields into the one form that equal fields share.
    pub(crate) fn normalise(&mut self) {
        self.alt_names.sort_unstable();
        self.addresses.iter_mut().for_each(Address::normalise);
    }

    /// What is wrong between the fields that every link has.
    pub(crate) fn check(&self, name: &str, errors: &mut Vec<FieldError>) {
        if self.mac.is_some_and(|mac| mac.is_multicast() || mac.is_zero()) {
            errors.push(error("mac", "must be the address of one station"));
        }
        if self.master.is_some() && self.vrf.is_some() {
            errors.push(error("vrf", "a link belongs to a `master` or to a `vrf`, not to both"));
        }
        for (path, other) in [("master", &self.master), ("vrf", &self.vrf), ("unnumbered", &self.unnumbered)]
        {
            if other.as_deref() == Some(name) {
                errors.push(error(path, "names the link itself"));
            }
        }
        for (at, address) in self.addresses.iter().enumerate() {
            address.check(&format!("addresses[{at}]"), errors);
        }
        let listed: Vec<_> = self.addresses.iter().map(|address| address.address).collect();
        twice("addresses", &listed, errors);
        let has_ipv6 = listed.iter().any(|address| address.addr().is_ipv6());
        if has_ipv6 && self.mtu.is_some_and(|mtu| mtu < 1280) {
            errors.push(error("mtu", "must be at least 1280 on a link with an IPv6 address"));
        }
        for (at, alt_name) in self.alt_names.iter().enumerate() {
            if alt_name == name {
                errors.push(error(format!("alt-names[{at}]"), "is the name of the link already"));
            }
        }
    }

    /// The optional fields that get another value if these fields are to become others.
    pub fn given(&self, new: &Self) -> Vec<&'static str> {
        let mut compared = Compared::gathering();
        self.compare(new, &mut compared);
        compared.given()
    }

    /// Compares what the link's own operation puts on it; what it derives is compared on its own.
    pub(crate) fn compare(&self, new: &Self, compared: &mut Compared<'_>) {
        if new.state == Some(AdminState::Down) {
            compared.field(&self.state, &new.state);
        }
        compared.optional("mtu", &self.mtu, &new.mtu);
        compared.optional("mac", &self.mac, &new.mac);
        compared.optional("alias", &self.alias, &new.alias);
        if self.reading.as_ref().is_some_and(|read| !read.ours) {
            // More names that others gave are theirs.
            let lacks = |name: &String| !self.alt_names.contains(name);
            compared.field(&false, &new.alt_names.iter().any(lacks));
        } else {
            compared.field(&self.alt_names, &new.alt_names);
        }
        compared.optional("group", &self.group, &new.group);
        compared.optional("addr-gen-mode", &self.addr_gen_mode, &new.addr_gen_mode);
        compared.optional("tx-queue-len", &self.tx_queue_len, &new.tx_queue_len);
    }

    /// What is an item of its own: addresses, the binding, borrowing, and being up.
    pub(crate) fn derive(&self, netns: &NetnsName, link: &Name, up: Option<Up>, derived: &mut Derived) {
        for address in &self.addresses {
            let key = format_args!("linux/address/{netns}/{link}/{}", address.address).to_string();
            let (netns, link) = (netns.clone(), link.clone());
            let (vrf, after_up) = (self.vrf.clone(), up.is_some() && address.wants_up());
            let address = address.clone();
            derived.item(key, LinkAddress { netns, link, vrf, after_up, address, read: false });
        }
        if self.state != Some(AdminState::Down) {
            for (key, reach) in self.addresses.iter().flat_map(|address| Reach::of(netns, link, address)) {
                derived.item(key, reach);
            }
        }
        if let Some(master) = self.master.as_ref().or(self.vrf.as_ref()) {
            port(netns, link, master, PortOptions::default(), derived);
        }
        if let Some(lender) = &self.unnumbered {
            let (netns, link, vrf) = (netns.clone(), link.clone(), self.vrf.clone());
            let key = keys::unnumbered(&netns, &link);
            derived.item(key, Unnumbered { netns, link, lender: lender.clone(), vrf });
        }
        if let Some(up) = up {
            derived.item(keys::up(netns, link), up);
        }
    }
}

fn port(netns: &NetnsName, link: &Name, master: &Name, options: PortOptions, derived: &mut Derived) {
    let key = keys::port(netns, link);
    derived.item(
        key,
        Port { netns: netns.clone(), link: link.clone(), master: master.clone(), options, reading: None },
    );
}

/// Describes `linux.link`: every kind of link.
pub struct AnyLinkKind;

impl Kind for AnyLinkKind {
    type Value = Link;
    const NAME: &'static str = "linux.link";
    const KEYS: &'static [&'static str] = &["linux/link/*/*"];

    fn validate(&self, _key: &Key, link: &Link) -> Vec<FieldError> {
        check(link)
    }

    /// The namespace, and the link it is made on or with. The two ends of a pair need each other, and each needs both
    /// namespaces: whichever is created first makes the pair.
    fn needs(&self, _key: &Key, link: &Link, needs: &mut Needs) {
        keys::need_netns(&link.netns, needs);
        if let Some(lower) = link.kind.lower() {
            keys::need_netns(lower.netns(&link.netns), needs);
            needs.on(format_args!("linux/link/{}/{}", lower.netns(&link.netns), lower.name));
        }
    }

    fn derive(&self, _key: &Key, link: &Link, derived: &mut Derived) {
        let Link { name, netns, kind, fields } = link;
        if matches!(kind, LinkKind::Foreign { .. }) {
            return;
        }
        let lower = if let LinkKind::Vlan(vlan) = kind { Some(vlan.link.clone()) } else { None };
        let up = link.is_up().then(|| Up { netns: netns.clone(), link: name.clone(), lower });
        fields.derive(netns, name, up, derived);
        if let LinkKind::Bridge(bridge) = kind {
            for one in &bridge.ports {
                port(netns, &one.link, name, one.options.clone(), derived);
            }
        }
        if let LinkKind::Bond(bond) = kind {
            for link in &bond.ports {
                port(netns, link, name, PortOptions::default(), derived);
            }
        }
    }

    fn transition(&self, _key: &Key, old: &Link, new: &Link) -> Transition {
        let mut compared = Compared::giving_back(old.fields.reading.as_ref());
        old.kind.compare(&new.kind, &mut compared);
        old.fields.compare(&new.fields, &mut compared);
        if matches!(new.kind, LinkKind::Ifb(_)) {
            // The kernel gives it a hardware address when it makes it, and no other one.
            compared.fixed_optional("mac", &old.fields.mac, &new.fields.mac);
        }
        compared.transition()
    }

    fn reads_after(&self) -> &[&str] {
        &["linux.netns"]
    }

    /// A link that is declared is read as what it is, even if somebody else made it.
    fn correlates(&self) -> bool {
        true
    }
}
