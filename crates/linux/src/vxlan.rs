//! What only a VXLAN has, on the wire.

use std::net::IpAddr;

use kilter_model::linux::Vxlan;

use crate::ip;
use crate::netlink::{Attributes, Message};

const ID: u16 = 1;
const GROUP: u16 = 2;
const LINK: u16 = 3;
const LOCAL: u16 = 4;
const TTL: u16 = 5;
const TOS: u16 = 6;
const LEARNING: u16 = 7;
const AGEING: u16 = 8;
const PROXY: u16 = 11;
const PORT: u16 = 15;
const GROUP6: u16 = 16;
const LOCAL6: u16 = 17;
const UDP_CSUM: u16 = 18;
const GBP: u16 = 23;
const COLLECT_METADATA: u16 = 25;

/// Writes what is said and differs from what is; `lower` is the index of the link that carries the tunnel.
pub(crate) fn write(data: &mut Message, new: &Vxlan, old: Option<&Vxlan>, lower: Option<u32>) {
    let none = Vxlan::default();
    let is_new = old.is_none();
    let old = old.unwrap_or(&none);
    if is_new {
        // The identifier and the port tell tunnels apart, so they are said even where the kernel has a default.
        data.u32(ID, new.vni.unwrap_or(0));
        data.be16(PORT, new.port());
        if new.external == Some(true) {
            data.u8(COLLECT_METADATA, 1);
        }
        if new.group_policy == Some(true) {
            data.bytes(GBP, &[]);
        }
    }
    if let Some(lower) = lower {
        data.u32(LINK, lower);
    }
    for (v4, v6, new, old) in [(GROUP, GROUP6, new.remote, old.remote), (LOCAL, LOCAL6, new.local, old.local)]
    {
        if let Some(address) = new.filter(|_| new != old) {
            data.bytes(if address.is_ipv4() { v4 } else { v6 }, &ip::bytes(address));
        }
    }
    for (kind, new, old) in [(TTL, new.ttl, old.ttl), (TOS, new.tos, old.tos)] {
        if let Some(number) = new.filter(|_| new != old) {
            data.u8(kind, number);
        }
    }
    let switches = [
        (LEARNING, new.learning, old.learning),
        (PROXY, new.proxy, old.proxy),
        (UDP_CSUM, new.udp_checksum, old.udp_checksum),
    ];
    for (kind, new, old) in switches {
        if let Some(on) = new.filter(|_| new != old) {
            data.u8(kind, u8::from(on));
        }
    }
    if let Some(ageing) = new.ageing.filter(|_| new.ageing != old.ageing) {
        data.u32(AGEING, ageing);
    }
}

/// Reads everything; the link that carries the tunnel is filled in by whoever knows links by their index.
pub(crate) fn read(data: Attributes<'_>) -> (Vxlan, Option<u32>) {
    let mut vxlan = Vxlan { external: Some(false), group_policy: Some(false), ..Vxlan::default() };
    let mut lower = None;
    for attribute in data {
        let on = || attribute.as_u8().map(|on| on != 0);
        match attribute.kind {
            ID => vxlan.vni = attribute.as_u32().filter(|vni| *vni != 0),
            LINK => lower = attribute.as_u32().filter(|index| *index != 0),
            GROUP | GROUP6 => {
                vxlan.remote = ip::read(attribute.payload).filter(|remote| !unspecified(*remote))
            }
            LOCAL | LOCAL6 => vxlan.local = ip::read(attribute.payload).filter(|local| !unspecified(*local)),
            TTL => vxlan.ttl = attribute.as_u8(),
            TOS => vxlan.tos = attribute.as_u8(),
            LEARNING => vxlan.learning = on(),
            AGEING => vxlan.ageing = attribute.as_u32(),
            PROXY => vxlan.proxy = on(),
            PORT => vxlan.port = attribute.as_be16(),
            UDP_CSUM => vxlan.udp_checksum = on(),
            GBP => vxlan.group_policy = Some(true),
            COLLECT_METADATA => vxlan.external = on(),
            _ => {}
        }
    }
    (vxlan, lower)
}

fn unspecified(address: IpAddr) -> bool {
    address.is_unspecified()
}
