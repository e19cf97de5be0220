//! Neighbours, and addresses that a link answers for.

use std::net::IpAddr;

use kilter_model::declare::Declare as _;
use kilter_model::linux::neighbour::{Neighbour, NeighbourKind, NeighbourState};
use kilter_model::linux::{Mac, Name, NetnsName};
use kilter_scheduler::{Facts, Key, Kind as _, Transition};
use rustix::io::Errno;

use crate::ip;
use crate::netlink::message::{u16_at, u32_at};
use crate::netlink::rtnl::family;
use crate::netlink::{Attributes, KernelError, Message, Received, Refusal, Requests, flag, rtnl};
use crate::order::{Maker, Order, Site};

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

/// Adds a neighbour. What the kernel found out about it by itself is overruled; what somebody else put there is not.
pub(crate) fn create(
    site: &mut Site<'_>,
    neighbour: &Neighbour,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = site.index(&neighbour.link, needs)?;
    let protocol = site.shared.protocol();
    let refused = |refusal| KernelError::refused("read neighbour", neighbour.address, refusal);
    let seen = read_one(&mut site.space.requests(), index, neighbour.address, neighbour.proxy);
    let theirs = seen.map_err(refused)?.filter(|seen| seen.protocol != protocol);
    if let Some((seen, found)) =
        theirs.and_then(|seen| Some((seen.protocol, seen.item(&site.netns, neighbour.link.clone())?)))
    {
        if NeighbourKind.transition(&neighbour.key(), &found, neighbour) == Transition::Same {
            return Ok(Order::nothing().of_others(Maker::facts(site.shared, seen)));
        }
        let subject = format!("neighbour {}", neighbour.address);
        let reason = "it is not as declared, and would have to be changed".to_owned();
        return Err(KernelError::Foreign { subject, reason });
    }
    let message = message(rtnl::NEWNEIGH, flag::CREATE | flag::REPLACE, index, neighbour, protocol);
    Ok(Order::new("add neighbour", vec![message]))
}

/// Changes a neighbour; it stays whose it is.
pub(crate) fn update(
    site: &mut Site<'_>,
    neighbour: &Neighbour,
    own: Option<&Facts>,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = site.index(&neighbour.link, needs)?;
    let protocol = Maker::protocol(site.shared, own);
    let message = message(rtnl::NEWNEIGH, flag::CREATE | flag::REPLACE, index, neighbour, protocol);
    Ok(Order::new("change neighbour", vec![message]))
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
    /// How it stays; `None` for one that only lives for a while.
    fn lasting(&self) -> Option<NeighbourState> {
        match self.state {
            _ if self.proxy => Some(NeighbourState::Permanent),
            PERMANENT => Some(NeighbourState::Permanent),
            NOARP => Some(NeighbourState::Noarp),
            _ => None,
        }
    }

    /// The neighbour as an item; one that only lives for a while is none.
    pub(crate) fn item(&self, netns: &NetnsName, link: Name) -> Option<Neighbour> {
        Some(Neighbour {
            netns: netns.clone(),
            link,
            address: self.address,
            mac: self.mac,
            state: self.lasting()?,
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

/// Reads the message of a neighbour that stays; one that is learnt and forgotten by itself is left out.
pub(crate) fn decode_lasting(received: &Received<'_>) -> Option<Seen> {
    decode(received).filter(|seen| seen.lasting().is_some())
}

/// Asks for every neighbour of the namespace, or for every address that is answered for.
pub(crate) fn request_all(proxy: bool) -> Message {
    let bits = if proxy { PROXY } else { 0 };
    Message::new(rtnl::GETNEIGH, 0).body(&header(family::UNSPEC, 0, 0, bits))
}
