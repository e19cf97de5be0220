//! The numbers of a link's attributes.

pub(crate) const ADDRESS: u16 = 1;
pub(crate) const IFNAME: u16 = 3;
pub(crate) const MTU: u16 = 4;
pub(crate) const LINK: u16 = 5;
pub(crate) const MASTER: u16 = 10;
pub(crate) const TXQLEN: u16 = 13;
pub(crate) const LINKINFO: u16 = 18;
pub(crate) const IFALIAS: u16 = 20;
pub(crate) const AF_SPEC: u16 = 26;
pub(crate) const GROUP: u16 = 27;
pub(crate) const NET_NS_FD: u16 = 28;
pub(crate) const EXT_MASK: u16 = 29;
pub(crate) const LINK_NETNSID: u16 = 37;
pub(crate) const PROP_LIST: u16 = 52;
pub(crate) const ALT_IFNAME: u16 = 53;

pub(crate) const INFO_KIND: u16 = 1;
pub(crate) const INFO_DATA: u16 = 2;
pub(crate) const INFO_SLAVE_KIND: u16 = 4;
pub(crate) const INFO_SLAVE_DATA: u16 = 5;

pub(crate) const VETH_INFO_PEER: u16 = 1;

pub(crate) const INET6: u16 = 10;
pub(crate) const INET6_ADDR_GEN_MODE: u16 = 8;

/// The link is up.
pub(crate) const IFF_UP: u32 = 1;
/// The link is a loopback.
pub(crate) const IFF_LOOPBACK: u32 = 8;

/// Leaves the counters out of what is read: they are most of it.
pub(crate) const SKIP_STATS: u32 = 1 << 3;
