//! Addresses of links.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use kilter_model::linux::{Address, LinkAddress, Scope};
use kilter_scheduler::{Facts, Key};
use rustix::io::Errno;

use crate::ip;
use crate::netlink::message::u32_at;
use crate::netlink::{Attributes, KernelError, Message, Received, Refusal, Requests, flag, rtnl};
use crate::order::{Maker, Order, Site};

const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const BROADCAST: u16 = 4;
const CACHEINFO: u16 = 6;
const FLAGS: u16 = 8;
const PROTO: u16 = 11;

const NO_PREFIX_ROUTE: u32 = 0x200;
const FOREVER: u32 = u32::MAX;

/// Refusals that mean that an address is gone already, or its link is.
pub(crate) const GONE: &[Errno] = &[Errno::ADDRNOTAVAIL, Errno::NODEV];

/// Adds an address to a link.
pub(crate) fn create(
    site: &mut Site<'_>,
    address: &LinkAddress,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = site.index(&address.link, needs)?;
    let message =
        message(rtnl::NEWADDR, flag::CREATE | flag::EXCL, index, &address.address, site.shared.protocol());
    Ok(Order::new("add address", vec![message]))
}

/// Changes lifetimes and flags of an address; it stays whose it is.
pub(crate) fn update(
    site: &mut Site<'_>,
    new: &LinkAddress,
    own: Option<&Facts>,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = site.index(&new.link, needs)?;
    let protocol = Maker::protocol(site.shared, own);
    let message = message(rtnl::NEWADDR, flag::CREATE | flag::REPLACE, index, &new.address, protocol);
    Ok(Order::new("change address", vec![message]))
}

/// Removes an address that is ours. One that somebody put there since is left.
pub(crate) fn delete(
    site: &mut Site<'_>,
    address: &LinkAddress,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = match site.index(&address.link, needs) {
        Ok(index) => index,
        Err(KernelError::NoLink { .. }) => return Ok(Order::nothing()),
        Err(error) => return Err(error),
    };
    let protocol = site.shared.protocol();
    if !is_there(&site.space, index, address.address.address, protocol)? {
        return Ok(Order::nothing());
    }
    let message = message(rtnl::DELADDR, 0, index, &address.address, protocol);
    Ok(Order::new("remove address", vec![message]).tolerating(GONE))
}

/// Whether the link has the address with our mark: the kernel does not look at marks when it removes one.
pub(crate) fn is_there(
    space: &crate::space::Space,
    index: u32,
    address: IpNet,
    protocol: u8,
) -> Result<bool, KernelError> {
    let seen = read_link(&mut space.requests(), index);
    let refused = |refusal| KernelError::refused("read address", address, refusal);
    Ok(seen.map_err(refused)?.iter().any(|seen| seen.address.address == address && seen.protocol == protocol))
}

/// The message about an address.
pub(crate) fn message(kind: u16, flags: u16, index: u32, address: &Address, protocol: u8) -> Message {
    let ip = address.address.addr();
    let length = address.peer.map_or(address.address.prefix_len(), |peer| peer.prefix_len());
    let scope = address.scope.map_or_else(|| usual_scope(ip), scope_number);
    let mut body = [0; 8];
    body[..4].copy_from_slice(&[ip::family(ip), length, 0, scope]);
    body[4..].copy_from_slice(&index.to_ne_bytes());
    let mut message = Message::new(kind, flags).body(&body);
    message.bytes(LOCAL, &ip::bytes(ip));
    message.bytes(ADDRESS, &ip::bytes(address.peer.map_or(ip, |peer| peer.addr())));
    if kind == rtnl::DELADDR {
        return message;
    }
    if let Some(broadcast) = address.broadcast {
        message.bytes(BROADCAST, &broadcast.octets());
    }
    if address.no_prefix_route {
        message.u32(FLAGS, NO_PREFIX_ROUTE);
    }
    if address.valid_for.is_some() || address.preferred_for.is_some() {
        let valid = address.valid_for.unwrap_or(FOREVER);
        let preferred = address.preferred_for.unwrap_or(valid);
        let mut times = [0; 16];
        times[..4].copy_from_slice(&preferred.to_ne_bytes());
        times[4..8].copy_from_slice(&valid.to_ne_bytes());
        message.bytes(CACHEINFO, &times);
    }
    message.u8(PROTO, protocol);
    message
}

pub(crate) fn scope_number(scope: Scope) -> u8 {
    match scope {
        Scope::Global => 0,
        Scope::Site => 200,
        Scope::Link => 253,
        Scope::Host => 254,
    }
}

pub(crate) fn scope_of(number: u8) -> Option<Scope> {
    [Scope::Global, Scope::Site, Scope::Link, Scope::Host]
        .into_iter()
        .find(|scope| scope_number(*scope) == number)
}

/// The scope that an address has if nobody says one.
fn usual_scope(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(ip) if ip.is_loopback() => scope_number(Scope::Host),
        IpAddr::V6(ip) if ip.is_loopback() => scope_number(Scope::Host),
        IpAddr::V6(ip) if ip.is_unicast_link_local() => scope_number(Scope::Link),
        IpAddr::V4(_) | IpAddr::V6(_) => 0,
    }
}

/// An address as the kernel tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) index: u32,
    pub(crate) address: Address,
    pub(crate) protocol: u8,
}

/// Reads the message of an address.
pub(crate) fn decode(received: &Received<'_>) -> Option<Seen> {
    if !matches!(received.kind, rtnl::NEWADDR | rtnl::DELADDR) {
        return None;
    }
    let [family, length, flags, scope] = received.payload.get(..4)?.try_into().ok()?;
    let index = u32_at(received.payload, 4)?;
    let attributes = Attributes::after(received.payload, 8);
    let mut flags = u32::from(flags);
    let (mut local, mut peer, mut broadcast, mut times, mut protocol) = (None, None, None, None, 0);
    for attribute in attributes {
        match attribute.kind {
            LOCAL => local = ip::read(attribute.payload),
            ADDRESS => peer = ip::read(attribute.payload),
            BROADCAST => {
                broadcast = <[u8; 4]>::try_from(attribute.payload).ok().map(Ipv4Addr::from);
            }
            FLAGS => flags = attribute.as_u32().unwrap_or(flags),
            PROTO => protocol = attribute.as_u8().unwrap_or(0),
            CACHEINFO => times = Some((u32_at(attribute.payload, 0)?, u32_at(attribute.payload, 4)?)),
            _ => {}
        }
    }
    let ip = local.or(peer)?;
    if ip::family(ip) != family {
        return None;
    }
    let finite = |time: u32| (time != FOREVER).then_some(time);
    let valid_for = times.and_then(|(_, valid)| finite(valid));
    let preferred_for =
        times.and_then(|(preferred, _)| finite(preferred)).filter(|time| Some(*time) != valid_for);
    let address = Address {
        address: IpNet::new(ip, length).ok()?,
        peer: peer.filter(|peer| *peer != ip).and_then(|peer| IpNet::new(peer, length).ok()),
        broadcast,
        scope: scope_of(scope).filter(|_| scope != usual_scope(ip)),
        no_prefix_route: flags & NO_PREFIX_ROUTE != 0,
        valid_for,
        preferred_for,
    };
    Some(Seen { index, address, protocol })
}

/// The addresses of one link; the kernel filters.
pub(crate) fn read_link(requests: &mut Requests, index: u32) -> Result<Vec<Seen>, Refusal> {
    let mut body = [0; 8];
    body[4..].copy_from_slice(&index.to_ne_bytes());
    let request = Message::new(rtnl::GETADDR, 0).body(&body);
    match requests.dump(&request, Vec::new, |seen, received| seen.extend(decode(received))) {
        Err(refusal) if refusal.is(Errno::NODEV) => Ok(Vec::new()),
        read => read.map(|seen: Vec<Seen>| seen.into_iter().filter(|seen| seen.index == index).collect()),
    }
}

/// Asks for every address of the namespace.
pub(crate) fn request_all() -> Message {
    Message::new(rtnl::GETADDR, 0).body(&[0; 8])
}

/// Every address of the namespace.
pub(crate) fn read_all(requests: &mut Requests) -> Result<Vec<Seen>, Refusal> {
    requests.dump(&request_all(), Vec::new, |seen, received| seen.extend(decode(received)))
}
