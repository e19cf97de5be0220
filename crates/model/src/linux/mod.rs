//! The kinds of a Linux network, one file each: the shape of the value, its key, and what it needs.
//!
//! Decided here: what a declaration may say and what it depends on. Not decided here: how it becomes netlink
//! messages. Start with [`keys`] for how items are named and [`link`] for what all links share.

pub mod address;
pub mod bond;
pub mod bridge;
mod compare;
pub mod dummy;
pub mod existing;
pub mod fdb;
pub mod ifb;
pub mod keys;
pub mod link;
pub mod loopback;
pub mod macvlan;
pub mod macvtap;
pub mod names;
pub mod neighbour;
pub mod netns;
pub mod nftables;
pub mod port;
pub mod qdisc;
pub mod reach;
pub mod route;
pub mod rule;
pub mod sysctl;
pub mod tap;
pub(crate) mod texts;
pub mod unnumbered;
pub mod up;
pub mod veth;
pub mod vlan;
pub mod vrf;
pub mod vxlan;

pub use address::{Address, LinkAddress, Scope};
pub use bond::Bond;
pub use bridge::{Bridge, BridgePort};
pub use compare::Reading;
pub use dummy::Dummy;
pub use existing::Existing;
pub use fdb::Fdb;
pub use ifb::Ifb;
pub use link::{AddrGenMode, AdminState, Link, LinkFields, LinkKind};
pub use loopback::Loopback;
pub use macvlan::{Macvlan, MacvlanMode};
pub use macvtap::Macvtap;
pub use names::{LinkRef, Mac, Name, NetnsName, Table};
pub use neighbour::Neighbour;
pub use netns::Netns;
pub use nftables::Nftables;
pub use port::{Port, PortOptions};
pub use qdisc::Qdisc;
pub use reach::Reach;
pub use route::{Nexthop, Route, RouteType};
pub use rule::Rule;
pub use sysctl::Sysctl;
pub use tap::Tap;
pub use unnumbered::Unnumbered;
pub use up::Up;
pub use veth::Veth;
pub use vlan::Vlan;
pub use vrf::Vrf;
pub use vxlan::Vxlan;
