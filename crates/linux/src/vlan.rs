//! What only a VLAN has, on the wire.

use kilter_model::linux::LinkRef;
use kilter_model::linux::vlan::{Vlan, VlanProtocol};

use crate::netlink::message::u32_at;
use crate::netlink::{Attributes, Message};

const ID: u16 = 1;
const FLAGS: u16 = 2;
const PROTOCOL: u16 = 5;

const REORDER_HEADER: u32 = 1;
const GVRP: u32 = 2;
const LOOSE_BINDING: u32 = 4;
const MVRP: u32 = 8;

/// Writes what is said and differs from what is.
pub(crate) fn write(data: &mut Message, new: &Vlan, old: Option<&Vlan>) {
    if old.is_none() {
        data.u16(ID, new.id);
        data.be16(PROTOCOL, if new.protocol == VlanProtocol::Dot1q { 0x8100 } else { 0x88a8 });
    }
    let (mut flags, mut mask) = (0, 0);
    let switches = [
        (REORDER_HEADER, new.reorder_header, old.and_then(|old| old.reorder_header)),
        (GVRP, new.gvrp, old.and_then(|old| old.gvrp)),
        (LOOSE_BINDING, new.loose_binding, old.and_then(|old| old.loose_binding)),
        (MVRP, new.mvrp, old.and_then(|old| old.mvrp)),
    ];
    for (bit, new, old) in switches {
        if let Some(on) = new.filter(|_| new != old) {
            mask |= bit;
            flags |= if on { bit } else { 0 };
        }
    }
    if mask != 0 {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&u32::to_ne_bytes(flags));
        payload[4..].copy_from_slice(&u32::to_ne_bytes(mask));
        data.bytes(FLAGS, &payload);
    }
}

/// Reads everything; `link` is the link below.
pub(crate) fn read(data: Attributes<'_>, link: LinkRef) -> Vlan {
    let flags = data.get(FLAGS).and_then(|flags| u32_at(flags.payload, 0));
    let switch = |bit: u32| flags.map(|flags| flags & bit != 0);
    let protocol = data.get(PROTOCOL).and_then(|protocol| protocol.as_be16());
    Vlan {
        link,
        id: data.get(ID).and_then(|id| id.as_u16()).unwrap_or(0),
        protocol: if protocol == Some(0x88a8) { VlanProtocol::Dot1ad } else { VlanProtocol::Dot1q },
        reorder_header: switch(REORDER_HEADER),
        gvrp: switch(GVRP),
        mvrp: switch(MVRP),
        loose_binding: switch(LOOSE_BINDING),
    }
}
