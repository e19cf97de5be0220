//! What only a bond has, on the wire.

use std::net::IpAddr;

use kilter_model::linux::bond::{Bond, BondMode, HashPolicy, LacpRate};

use crate::ip;
use crate::netlink::{Attributes, Message};

const MODE: u16 = 1;
const MIIMON: u16 = 3;
const UPDELAY: u16 = 4;
const DOWNDELAY: u16 = 5;
const ARP_INTERVAL: u16 = 7;
const ARP_IP_TARGET: u16 = 8;
const PRIMARY: u16 = 11;
const XMIT_HASH_POLICY: u16 = 14;
const MIN_LINKS: u16 = 18;
const AD_LACP_RATE: u16 = 21;
const NS_IP6_TARGET: u16 = 31;

const MODES: &[BondMode] = &[
    BondMode::BalanceRr,
    BondMode::ActiveBackup,
    BondMode::BalanceXor,
    BondMode::Broadcast,
    BondMode::Lacp,
    BondMode::BalanceTlb,
    BondMode::BalanceAlb,
];

const HASHES: &[HashPolicy] = &[
    HashPolicy::Layer2,
    HashPolicy::Layer34,
    HashPolicy::Layer23,
    HashPolicy::Encap23,
    HashPolicy::Encap34,
    HashPolicy::VlanSrcMac,
];

/// Writes what is said and differs from what is; `primary` is the index of the preferred port.
pub(crate) fn write(data: &mut Message, new: &Bond, old: Option<&Bond>, primary: Option<u32>) {
    let none = Bond::default();
    if old.is_none_or(|old| old.mode != new.mode) {
        data.u8(MODE, place(MODES, new.mode));
    }
    let old = old.unwrap_or(&none);
    let numbers = [
        (MIIMON, new.miimon, old.miimon),
        (UPDELAY, new.up_delay, old.up_delay),
        (DOWNDELAY, new.down_delay, old.down_delay),
        (ARP_INTERVAL, new.arp_interval, old.arp_interval),
        (MIN_LINKS, new.min_links, old.min_links),
    ];
    for (kind, new, old) in numbers {
        if let Some(number) = new.filter(|_| new != old) {
            data.u32(kind, number);
        }
    }
    if new.arp_targets != old.arp_targets {
        for (kind, v4) in [(ARP_IP_TARGET, true), (NS_IP6_TARGET, false)] {
            let targets: Vec<IpAddr> =
                new.arp_targets.iter().copied().filter(|target| target.is_ipv4() == v4).collect();
            if !targets.is_empty() {
                data.nest(kind, |list| {
                    (0_u16..).zip(targets).for_each(|(at, target)| list.bytes(at, &ip::bytes(target)));
                });
            }
        }
    }
    if let Some(primary) = primary {
        data.u32(PRIMARY, primary);
    }
    if let Some(rate) = new.lacp_rate.filter(|_| new.lacp_rate != old.lacp_rate) {
        data.u8(AD_LACP_RATE, u8::from(rate == LacpRate::Fast));
    }
    if let Some(policy) = new.hash_policy.filter(|_| new.hash_policy != old.hash_policy) {
        data.u8(XMIT_HASH_POLICY, place(HASHES, policy));
    }
}

/// Reads everything, and the index of the preferred port; the ports are items of their own.
pub(crate) fn read(data: Attributes<'_>) -> (Bond, Option<u32>) {
    let mut bond = Bond::default();
    let mut primary = None;
    for attribute in data {
        match attribute.kind {
            MODE => {
                let mode = attribute.as_u8().and_then(|mode| MODES.get(usize::from(mode)));
                bond.mode = mode.copied().unwrap_or_default();
            }
            MIIMON => bond.miimon = attribute.as_u32(),
            UPDELAY => bond.up_delay = attribute.as_u32(),
            DOWNDELAY => bond.down_delay = attribute.as_u32(),
            ARP_INTERVAL => bond.arp_interval = attribute.as_u32(),
            MIN_LINKS => bond.min_links = attribute.as_u32(),
            ARP_IP_TARGET | NS_IP6_TARGET => {
                bond.arp_targets.extend(attribute.nested().filter_map(|target| ip::read(target.payload)));
            }
            PRIMARY => primary = attribute.as_u32().filter(|index| *index != 0),
            AD_LACP_RATE => {
                let rate = |rate| if rate == 0 { LacpRate::Slow } else { LacpRate::Fast };
                bond.lacp_rate = attribute.as_u8().map(rate);
            }
            XMIT_HASH_POLICY => {
                let policy = attribute.as_u8().and_then(|policy| HASHES.get(usize::from(policy)));
                bond.hash_policy = policy.copied();
            }
            _ => {}
        }
    }
    (bond, primary)
}

fn place<T: PartialEq>(list: &[T], one: T) -> u8 {
    list.iter().position(|other| *other == one).and_then(|at| u8::try_from(at).ok()).unwrap_or(0)
}
