//! The keys of the Linux items: which namespace, which link, which thing on it.
//!
//! Every key names its namespace; the agent's own one is spelt `host`. Every key can be rebuilt from what the kernel
//! tells: a route has no name, so its key is what the kernel tells routes apart by.
//!
//! | key | item |
//! |---|---|
//! | `linux/netns/NAME` | a namespace |
//! | `linux/link/NETNS/NAME` | a link of any kind, declared or observed |
//! | `linux/existing/NETNS/NAME` | what is configured on a link that somebody else makes |
//! | `linux/up/NETNS/LINK` | the link is up |
//! | `linux/port/NETNS/LINK` | the link belongs to a bridge, bond or VRF |
//! | `linux/address/NETNS/LINK/IP/LENGTH` | an address of a link |
//! | `linux/unnumbered/NETNS/LINK` | the link borrows an address |
//! | `linux/route/NETNS/TABLE/IP/LENGTH/METRIC` | a route |
//! | `linux/reach/NETNS/LINK/IP/LENGTH` | a network is reached directly over a link by a route; a property |
//! | `linux/rule/NETNS/FAMILY/PRIORITY` | a policy rule |
//! | `linux/neighbour/NETNS/LINK/IP` | a neighbour; `linux/neighbour/NETNS/LINK/IP/proxy` an address answered for |
//! | `linux/fdb/NETNS/LINK/OWNER/MAC/VLAN/REMOTE` | an entry of a forwarding table |
//! | `linux/sysctl/NETNS/NAME` | a kernel parameter |
//! | `linux/nftables/NETNS/FAMILY/NAME` | an nftables table |
//! | `linux/qdisc/NETNS/LINK/PARENT` | a queueing discipline |

use kilter_scheduler::Needs;
use std::net::IpAddr;

use ipnet::IpNet;
use kilter_scheduler::Key;

use super::names::{NetnsName, Table};

/// The key of a namespace.
pub fn netns(name: &NetnsName) -> Key {
    Key::from(format!("linux/netns/{name}"))
}

/// The key of a link.
pub fn link(netns: &NetnsName, name: &str) -> Key {
    Key::from(format!("linux/link/{netns}/{name}"))
}

/// The key of what is configured on a link that somebody else makes.
pub fn existing(netns: &NetnsName, name: &str) -> Key {
    Key::from(format!("linux/existing/{netns}/{name}"))
}

/// The key of a link's being up.
pub fn up(netns: &NetnsName, link: &str) -> Key {
    Key::from(format!("linux/up/{netns}/{link}"))
}

/// Whether it is the key of a link being up.
pub fn is_up(key: &str) -> bool {
    key.starts_with("linux/up/")
}

/// The key of a link's binding to its bridge, bond or VRF.
pub fn port(netns: &NetnsName, link: &str) -> Key {
    Key::from(format!("linux/port/{netns}/{link}"))
}

/// The key of an address of a link.
pub fn address(netns: &NetnsName, link: &str, address: IpNet) -> Key {
    Key::from(format!("linux/address/{netns}/{link}/{address}"))
}

/// The prefix of the keys of all addresses of a link.
pub fn addresses(netns: &NetnsName, link: &str) -> String {
    format!("linux/address/{netns}/{link}/")
}

/// The prefix of the keys of all addresses in a namespace.
pub fn addresses_in(netns: &NetnsName) -> String {
    format!("linux/address/{netns}/")
}

/// The key of a link's borrowing an address.
pub fn unnumbered(netns: &NetnsName, link: &str) -> Key {
    Key::from(format!("linux/unnumbered/{netns}/{link}"))
}

/// The key of a route.
pub fn route(netns: &NetnsName, table: Table, destination: IpNet, metric: u32) -> Key {
    Key::from(format!("linux/route/{netns}/{table}/{destination}/{metric}"))
}

/// How the keys of the routes of a namespace begin.
pub fn routes_in(netns: &NetnsName) -> String {
    format!("linux/route/{netns}/")
}

/// The key of an nftables table.
pub fn nftables(netns: &NetnsName, family: &str, name: &str) -> Key {
    Key::from(format!("linux/nftables/{netns}/{family}/{name}"))
}

/// The key of the property that a network is reached directly over a link.
pub fn reach(netns: &NetnsName, link: &str, destination: IpNet) -> Key {
    Key::from(format!("linux/reach/{netns}/{link}/{destination}"))
}

/// The prefix of the keys of all networks that are reached directly over a link.
pub fn reaches(netns: &NetnsName, link: &str) -> String {
    format!("linux/reach/{netns}/{link}/")
}

/// The prefix of the keys of all networks that are reached directly in a namespace.
pub fn reaches_in(netns: &NetnsName) -> String {
    format!("linux/reach/{netns}/")
}

/// The network at the end of an address, reach or route-like key: its last two segments.
pub fn network_at_the_end(key: &str) -> Option<IpNet> {
    let mut parts = key.rsplitn(3, '/');
    let (length, address) = (parts.next()?, parts.next()?);
    IpNet::new(address.parse::<IpAddr>().ok()?, length.parse().ok()?).ok()
}

/// The namespace and the name out of `linux/SPACE/NETNS/NAME` or a longer key: segments three and four.
pub fn netns_and_link(key: &str) -> Option<(NetnsName, &str)> {
    let mut parts = key.split('/').skip(2);
    Some((NetnsName::new(parts.next()?), parts.next()?))
}

/// Needs the namespace; the agent's own is there anyway.
pub(crate) fn need_netns(netns: &NetnsName, needs: &mut Needs) {
    if !netns.is_host() {
        needs.on(format_args!("linux/netns/{netns}"));
    }
}
