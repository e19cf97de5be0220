//! The numbers of the routing family: types of messages, groups of events.

pub(crate) const NEWLINK: u16 = 16;
pub(crate) const DELLINK: u16 = 17;
pub(crate) const GETLINK: u16 = 18;
pub(crate) const NEWADDR: u16 = 20;
pub(crate) const DELADDR: u16 = 21;
pub(crate) const GETADDR: u16 = 22;
pub(crate) const NEWROUTE: u16 = 24;
pub(crate) const DELROUTE: u16 = 25;
pub(crate) const GETROUTE: u16 = 26;
pub(crate) const NEWNEIGH: u16 = 28;
pub(crate) const DELNEIGH: u16 = 29;
pub(crate) const GETNEIGH: u16 = 30;
pub(crate) const NEWRULE: u16 = 32;
pub(crate) const DELRULE: u16 = 33;
pub(crate) const GETRULE: u16 = 34;
pub(crate) const NEWNETCONF: u16 = 80;
pub(crate) const NEWQDISC: u16 = 36;
pub(crate) const DELQDISC: u16 = 37;
pub(crate) const GETQDISC: u16 = 38;
pub(crate) const NEWLINKPROP: u16 = 108;
pub(crate) const DELLINKPROP: u16 = 109;

/// Groups of events.
pub(crate) mod group {
    pub(crate) const LINK: u32 = 1;
    pub(crate) const NEIGH: u32 = 3;
    pub(crate) const TC: u32 = 4;
    pub(crate) const IPV4_ADDRESS: u32 = 5;
    pub(crate) const IPV4_ROUTE: u32 = 7;
    pub(crate) const IPV4_RULE: u32 = 8;
    pub(crate) const IPV6_ADDRESS: u32 = 9;
    pub(crate) const IPV6_ROUTE: u32 = 11;
    pub(crate) const IPV6_RULE: u32 = 19;
    pub(crate) const IPV4_NETCONF: u32 = 24;
    pub(crate) const IPV6_NETCONF: u32 = 25;
}

/// Address families.
pub(crate) mod family {
    pub(crate) const UNSPEC: u8 = 0;
    pub(crate) const INET: u8 = 2;
    pub(crate) const BRIDGE: u8 = 7;
    pub(crate) const INET6: u8 = 10;
}
