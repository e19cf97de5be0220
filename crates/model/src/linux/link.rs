//! Links: what all kinds of links share, and the one item `linux/link/NETNS/NAME` that each of them is.
//!
//! One key space for all kinds of links, because others need "the link", whatever it is. So the scheduler knows one
//! kind, `linux.link`, with a value that tells which; documents write `kind: veth`. To become another kind of link
//! is a re-creation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::Address;
use super::names::{Mac, Name, NetnsName};
use super::{Bond, Bridge, Dummy, Ifb, Loopback, Macvlan, Macvtap, Tap, Veth, Vlan, Vrf, Vxlan};

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
#[derive(Clone, Debug, PartialEq, Serialize)]
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

/// What every link has. A field that is left out is left as it is.
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
    #[schemars(schema_with = "crate::linux::shape::alias")]
    pub alias: Option<String>,
    /// More names of the link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::linux::shape::alt_names")]
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
    #[schemars(schema_with = "crate::linux::shape::link_name")]
    pub master: Option<Name>,
    /// The VRF that the link is bound to, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::link_name")]
    pub vrf: Option<Name>,
    /// The addresses of the link. Each is an item of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    /// A link in the same namespace whose addresses this one borrows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::link_name")]
    pub unnumbered: Option<Name>,
}
