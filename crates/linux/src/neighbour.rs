//! Neighbours, and addresses that a link answers for.

use std::net::IpAddr;

use kilter_model::linux::neighbour::{Neighbour, NeighbourState};
use kilter_model::linux::{Mac, Name, NetnsName};
use kilter_scheduler::{Facts, Key};
use rustix::io::Errno;

use crate::ip;
use crate::netlink::message::{u16_at, u32_at};
use crate::netlink::rtnl::family;
use crate::netlink::{Attributes, KernelError, Message, Received, Refusal, Requests, flag, rtnl};
use crate::order::{Order, Site};

pub(crate) const DST: u16 = 1;
pub(crate) const LLADDR: u16 = 2;
const PROTOCOL: u16 = 12;

const PROXY: u8 = 0x08;
const ROUTER: u8 = 0x80;

pub(crate) const PERMANENT: u16 = 0x80;
pub(crate) const NOARP: u16 = 0x40;

const GONE: &[Errno] = &[Errno::NOENT, Errno::NODEV];

/// What stands before the attributes of a neighbour.
pub(crate) fn header(family: u8, index: u32, state: u16, flags: u8) -> [u8; 12] {
    let mut header = [0; 12];
    header[0] = family;
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..10].copy_from_slice(&state.to_ne_bytes());
    header[10] = flags;
    header
}

fn state_number(state: NeighbourState) -> u16 {
    match state {
        NeighbourState::Permanent => PERMANENT,
        NeighbourState::Noarp => NOARP,
    }
}

fn message(kind: u16, flags: u16, index: u32, neighbour: &Neighbour, protocol: u8) -> Message {
    let family = ip::family(neighbour.address);
    let bits = if neighbour.proxy { PROXY } else { 0 } | if neighbour.router { ROUTER } else { 0 };
    let mut message =
        Message::new(kind, flags).body(&header(family, index, state_number(neighbour.state), bits));
    message.bytes(DST, &ip::bytes(neighbour.address));
    if let Some(mac) = neighbour.mac.filter(|_| !neighbour.proxy) {
        message.bytes(LLADDR, &mac.0);
    }
    if kind == rtnl::NEWNEIGH {
        message.u8(PROTOCOL, protocol);
    }
    message
}

/// Adds a neighbour. What the kernel found out about it by itself is overruled.
pub(crate) fn create(
    site: &mut Site<'_>,
    neighbour: &Neighbour,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = site.index(&neighbour.link, needs)?;
    let flags = flag::CREATE | flag::REPLACE;
    let message = message(rtnl::NEWNEIGH, flags, index, neighbour, site.shared.protocol());
    Ok(Order::new("add neighbour", vec![message]))
}

/// Removes a neighbour that is ours.
pub(crate) fn delete(
    site: &mut Site<'_>,
    neighbour: &Neighbour,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = match site.index(&neighbour.link, needs) {
        Ok(index) => index,
        Err(KernelError::NoLink { .. }) => return Ok(Order::nothing()),
        Err(error) => return Err(error),
    };
    let protocol = site.shared.protocol();
    let refused = |refusal| KernelError::refused("read neighbour", neighbour.address, refusal);
    let seen = read_one(&mut site.space.requests(), index, neighbour.address, neighbour.proxy);
    // The kernel does not look at marks when it removes one.
    if seen.map_err(refused)?.is_none_or(|seen| seen.protocol != protocol) {
        return Ok(Order::nothing());
    }
    let message = message(rtnl::DELNEIGH, 0, index, neighbour, protocol);
    Ok(Order::new("remove neighbour", vec![message]).tolerating(GONE))
}

/// A neighbour as the kernel tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) index: u32,
    pub(crate) address: IpAddr,
    pub(crate) mac: Option<Mac>,
    pub(crate) state: u16,
    pub(crate) router: bool,
    pub(crate) proxy: bool,
    pub(crate) protocol: u8,
}

impl Seen {
    /// The neighbour as an item; one that only lives for a while is none.
    pub(crate) fn item(&self, netns: &NetnsName, link: Name) -> Option<Neighbour> {
        let state = match self.state {
            _ if self.proxy => NeighbourState::Permanent,
            PERMANENT => NeighbourState::Permanent,
            NOARP => NeighbourState::Noarp,
            _ => return None,
        };
        Some(Neighbour {
            netns: netns.clone(),
            link,
            address: self.address,
            mac: self.mac,
            state,
            router: self.router,
            proxy: self.proxy,
        })
    }
}

/// Reads the message of a neighbour; entries of forwarding tables are no neighbours.
pub(crate) fn decode(received: &Received<'_>) -> Option<Seen> {
    if !matches!(received.kind, rtnl::NEWNEIGH | rtnl::DELNEIGH) {
        return None;
    }
    let header = received.payload.get(..12)?;
    if !matches!(header[0], family::INET | family::INET6) {
        return None;
    }
    let attributes = Attributes::after(received.payload, 12);
    Some(Seen {
        index: u32_at(header, 4)?,
        address: attributes.get(DST).and_then(|address| ip::read(address.payload))?,
        mac: attributes.get(LLADDR).and_then(|mac| mac.payload.try_into().ok()).map(Mac),
        state: u16_at(header, 8)?,
        router: header[10] & ROUTER != 0,
        proxy: header[10] & PROXY != 0,
        protocol: attributes.get(PROTOCOL).and_then(|protocol| protocol.as_u8()).unwrap_or(0),
    })
}

/// One neighbour.
pub(crate) fn read_one(
    requests: &mut Requests,
    index: u32,
    address: IpAddr,
    proxy: bool,
) -> Result<Option<Seen>, Refusal> {
    let bits = if proxy { PROXY } else { 0 };
    let mut request = Message::new(rtnl::GETNEIGH, 0).body(&header(ip::family(address), index, 0, bits));
    request.bytes(DST, &ip::bytes(address));
    requests.read(&request, decode)
}

/// Every neighbour of the namespace, and every address that is answered for.
pub(crate) fn read_all(requests: &mut Requests) -> Result<Vec<Seen>, Refusal> {
    let mut all = Vec::new();
    for bits in [0, PROXY] {
        let request = Message::new(rtnl::GETNEIGH, 0).body(&header(family::UNSPEC, 0, 0, bits));
        let seen: Vec<Seen> =
            requests.dump(&request, Vec::new, |seen, received| seen.extend(decode(received)))?;
        all.extend(seen);
    }
    Ok(all)
}
