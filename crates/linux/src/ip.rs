//! Addresses as bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::netlink::rtnl::family;

/// The bytes of an address, in network order.
pub(crate) fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// An address of four or sixteen bytes.
pub(crate) fn read(payload: &[u8]) -> Option<IpAddr> {
    match payload.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(payload).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(payload).ok()?).into()),
        _ => None,
    }
}

/// The family of an address.
pub(crate) fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { family::INET } else { family::INET6 }
}

/// The address that stands for all of its family.
pub(crate) fn unspecified(family: u8) -> Option<IpAddr> {
    match family {
        family::INET => Some(Ipv4Addr::UNSPECIFIED.into()),
        family::INET6 => Some(Ipv6Addr::UNSPECIFIED.into()),
        _ => None,
    }
}

/// A network out of what the kernel says: a missing address is everything of the family.
pub(crate) fn network(family: u8, address: Option<IpAddr>, length: u8) -> Option<IpNet> {
    IpNet::new(address.or_else(|| unspecified(family))?, length).ok()
}
