//! What only a bridge has, on the wire.

use kilter_model::linux::Bridge;

use crate::netlink::{Attributes, Message};

const FORWARD_DELAY: u16 = 1;
const HELLO_TIME: u16 = 2;
const MAX_AGE: u16 = 3;
const AGEING_TIME: u16 = 4;
const STP_STATE: u16 = 5;
const PRIORITY: u16 = 6;
const VLAN_FILTERING: u16 = 7;
const GROUP_FWD_MASK: u16 = 9;
const MCAST_SNOOPING: u16 = 23;

/// The kernel counts the times of a bridge in hundredths of a second.
const TICKS: u32 = 100;

/// Writes what is said and differs from what is.
pub(crate) fn write(data: &mut Message, new: &Bridge, old: Option<&Bridge>) {
    let none = Bridge::default();
    let old = old.unwrap_or(&none);
    let times = [
        (FORWARD_DELAY, new.forward_delay, old.forward_delay),
        (HELLO_TIME, new.hello_time, old.hello_time),
        (MAX_AGE, new.max_age, old.max_age),
        (AGEING_TIME, new.ageing_time, old.ageing_time),
    ];
    for (kind, new, old) in times {
        if let Some(seconds) = new.filter(|_| new != old) {
            data.u32(kind, seconds.saturating_mul(TICKS));
        }
    }
    if let Some(on) = new.stp.filter(|_| new.stp != old.stp) {
        data.u32(STP_STATE, u32::from(on));
    }
    if let Some(priority) = new.priority.filter(|_| new.priority != old.priority) {
        data.u16(PRIORITY, priority);
    }
    if let Some(on) = new.vlan_filtering.filter(|_| new.vlan_filtering != old.vlan_filtering) {
        data.u8(VLAN_FILTERING, u8::from(on));
    }
    if let Some(mask) = new.group_forward_mask.filter(|_| new.group_forward_mask != old.group_forward_mask) {
        data.u16(GROUP_FWD_MASK, mask);
    }
    if let Some(on) = new.multicast_snooping.filter(|_| new.multicast_snooping != old.multicast_snooping) {
        data.u8(MCAST_SNOOPING, u8::from(on));
    }
}

/// Reads everything; the ports are items of their own.
pub(crate) fn read(data: Attributes<'_>) -> Bridge {
    let mut bridge = Bridge::default();
    for attribute in data {
        let seconds = || attribute.as_u32().map(|ticks| ticks / TICKS);
        match attribute.kind {
            FORWARD_DELAY => bridge.forward_delay = seconds(),
            HELLO_TIME => bridge.hello_time = seconds(),
            MAX_AGE => bridge.max_age = seconds(),
            AGEING_TIME => bridge.ageing_time = seconds(),
            STP_STATE => bridge.stp = attribute.as_u32().map(|state| state != 0),
            PRIORITY => bridge.priority = attribute.as_u16(),
            VLAN_FILTERING => bridge.vlan_filtering = attribute.as_u8().map(|on| on != 0),
            GROUP_FWD_MASK => bridge.group_forward_mask = attribute.as_u16(),
            MCAST_SNOOPING => bridge.multicast_snooping = attribute.as_u8().map(|on| on != 0),
            _ => {}
        }
    }
    bridge
}
