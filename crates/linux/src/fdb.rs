//! Entries of forwarding tables: of a VXLAN, or of the bridge that a link is a port of.

use std::net::IpAddr;

use kilter_model::linux::fdb::{Fdb, FdbState, FdbTable};
use kilter_model::linux::{Mac, Name, NetnsName};
use kilter_scheduler::{Facts, Key};
use rustix::io::Errno;

use crate::ip;
use crate::neighbour::{DST, LLADDR, NOARP, PERMANENT, header};
use crate::netlink::message::{u16_at, u32_at};
use crate::netlink::rtnl::family;
use crate::netlink::{Attributes, KernelError, Message, Received, flag, rtnl};
use crate::order::{Order, Site};

const VLAN: u16 = 5;
const PORT: u16 = 6;
const VNI: u16 = 7;
const MASTER: u16 = 9;

const SELF: u8 = 0x02;
const OF_MASTER: u8 = 0x04;

const GONE: &[Errno] = &[Errno::NOENT, Errno::NODEV];

fn message(kind: u16, flags: u16, index: u32, fdb: &Fdb) -> Message {
    let state = match fdb.state {
        FdbState::Permanent => PERMANENT,
        FdbState::Static => NOARP,
    };
    let owner = if fdb.table == FdbTable::Own { SELF } else { OF_MASTER };
    let mut message = Message::new(kind, flags).body(&header(family::BRIDGE, index, state, owner));
    message.bytes(LLADDR, &fdb.mac.0);
    if let Some(vlan) = fdb.vlan {
        message.u16(VLAN, vlan);
    }
    if let Some(remote) = fdb.remote {
        message.bytes(DST, &ip::bytes(remote));
    }
    if let Some(port) = fdb.port {
        message.be16(PORT, port);
    }
    if let Some(vni) = fdb.vni {
        message.u32(VNI, vni);
    }
    message
}

/// Adds an entry: one of several for an address that floods, the only one otherwise.
pub(crate) fn create(site: &mut Site<'_>, fdb: &Fdb, needs: &[(Key, Facts)]) -> Result<Order, KernelError> {
    let index = site.index(&fdb.link, needs)?;
    let more = if fdb.is_flood() && fdb.remote.is_some() { flag::APPEND } else { flag::EXCL };
    let message = message(rtnl::NEWNEIGH, flag::CREATE | more, index, fdb);
    Ok(Order::new("add forwarding entry", vec![message]))
}

/// Puts an entry in the place of another.
pub(crate) fn update(site: &mut Site<'_>, fdb: &Fdb, needs: &[(Key, Facts)]) -> Result<Order, KernelError> {
    let index = site.index(&fdb.link, needs)?;
    let message = message(rtnl::NEWNEIGH, flag::CREATE | flag::REPLACE, index, fdb);
    Ok(Order::new("change forwarding entry", vec![message]))
}

/// Removes an entry.
pub(crate) fn delete(site: &mut Site<'_>, fdb: &Fdb, needs: &[(Key, Facts)]) -> Result<Order, KernelError> {
    match site.index(&fdb.link, needs) {
        Ok(index) => {
            let message = message(rtnl::DELNEIGH, 0, index, fdb);
            Ok(Order::new("remove forwarding entry", vec![message]).tolerating(GONE))
        }
        Err(KernelError::NoLink { .. }) => Ok(Order::nothing()),
        Err(error) => Err(error),
    }
}

/// An entry as the kernel tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) index: u32,
    pub(crate) mac: Mac,
    pub(crate) table: FdbTable,
    pub(crate) vlan: Option<u16>,
    pub(crate) remote: Option<IpAddr>,
    pub(crate) port: Option<u16>,
    pub(crate) vni: Option<u32>,
    pub(crate) state: FdbState,
}

impl Seen {
    /// The entry as an item.
    pub(crate) fn item(&self, netns: &NetnsName, link: Name) -> Fdb {
        Fdb {
            netns: netns.clone(),
            link,
            mac: self.mac,
            table: self.table,
            vlan: self.vlan,
            remote: self.remote,
            port: self.port,
            vni: self.vni,
            state: self.state,
        }
    }
}

/// Reads the message of an entry; what is learnt and forgotten by itself is left out.
pub(crate) fn decode(received: &Received<'_>) -> Option<Seen> {
    if !matches!(received.kind, rtnl::NEWNEIGH | rtnl::DELNEIGH) {
        return None;
    }
    let header = received.payload.get(..12)?;
    let state = u16_at(header, 8)?;
    if header[0] != family::BRIDGE || state & (PERMANENT | NOARP) == 0 {
        return None;
    }
    let attributes = Attributes::after(received.payload, 12);
    // A bridge tells of its entries without saying whose table they are in: the master is named instead.
    let of_bridge = header[10] & OF_MASTER != 0 || attributes.get(MASTER).is_some();
    Some(Seen {
        index: u32_at(header, 4)?,
        mac: Mac(attributes.get(LLADDR)?.payload.try_into().ok()?),
        table: if of_bridge { FdbTable::Bridge } else { FdbTable::Own },
        vlan: attributes.get(VLAN).and_then(|vlan| vlan.as_u16()),
        remote: attributes.get(DST).and_then(|remote| ip::read(remote.payload)),
        port: attributes.get(PORT).and_then(|port| port.as_be16()),
        vni: attributes.get(VNI).and_then(|vni| vni.as_u32()),
        state: if state & PERMANENT != 0 { FdbState::Permanent } else { FdbState::Static },
    })
}

/// Asks for every entry of every forwarding table.
pub(crate) fn request_all() -> Message {
    Message::new(rtnl::GETNEIGH, 0).body(&header(family::BRIDGE, 0, 0, 0))
}
