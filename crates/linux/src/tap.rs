//! Tap and tun devices: made through the device file, not over netlink, and removed like any link.

use std::fs::OpenOptions;

use kilter_model::linux::Tap;

use crate::link::read::SeenKind;
use crate::netlink::{Attributes, KernelError, Refusal};
use crate::order::Site;
use crate::syscall::{TunRequest, make_tun};

const IFF_TUN: u16 = 0x0001;
const IFF_TAP: u16 = 0x0002;
const IFF_MULTI_QUEUE: u16 = 0x0100;
const IFF_NO_PI: u16 = 0x1000;
const IFF_VNET_HDR: u16 = 0x4000;

const OWNER: u16 = 1;
const GROUP: u16 = 2;
const TYPE: u16 = 3;
const PI: u16 = 4;
const VNET_HDR: u16 = 5;
const MULTI_QUEUE: u16 = 7;

/// Makes a device that stays without a program, and gives its index.
pub(crate) fn make(site: &Site<'_>, name: &str, tap: &Tap, is_tap: bool) -> Result<u32, KernelError> {
    let index = site.shared.indexes.next();
    ask(site, ("add link", name), tap, is_tap, Some(index))?;
    Ok(index)
}

/// Gives a device that is there another owner; `tap` says how it was made.
pub(crate) fn own(site: &Site<'_>, name: &str, tap: &Tap, is_tap: bool) -> Result<(), KernelError> {
    ask(site, ("change link", name), tap, is_tap, None)
}

fn ask(
    site: &Site<'_>,
    (operation, name): (&'static str, &str),
    tap: &Tap,
    is_tap: bool,
    index: Option<u32>,
) -> Result<(), KernelError> {
    let mut flags = if is_tap { IFF_TAP } else { IFF_TUN };
    for (bit, on) in [
        (IFF_NO_PI, tap.packet_info != Some(true)),
        (IFF_VNET_HDR, tap.vnet_header == Some(true)),
        (IFF_MULTI_QUEUE, tap.multi_queue == Some(true)),
    ] {
        flags |= if on { bit } else { 0 };
    }
    let request =
        TunRequest { name: name.to_owned(), flags, index, owner: tap.owner, group: tap.owner_group };
    site.shared.spaces.counters().wrote();
    // The namespace of the device is the one in which its file is opened.
    let made = site.space.inside(|| -> Result<(), Refusal> {
        let tun = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
        Ok(make_tun(&tun, &request)?)
    });
    match made.and_then(|made| made) {
        Ok(()) => Ok(()),
        Err(refusal) if refusal.is_any(&[rustix::io::Errno::NOENT, rustix::io::Errno::NODEV]) => {
            Err(KernelError::Unimplemented {
                operation,
                subject: name.to_owned(),
                feature: "tun and tap links (CONFIG_TUN, /dev/net/tun)".to_owned(),
            })
        }
        Err(refusal) => Err(KernelError::refused(operation, name, refusal)),
    }
}

/// Reads everything.
pub(crate) fn read(data: Attributes<'_>) -> SeenKind {
    const IS_TAP: u8 = 2;
    let mut tap = Tap::default();
    let mut is_tap = false;
    for attribute in data {
        let on = || attribute.as_u8().map(|on| on != 0);
        match attribute.kind {
            OWNER => tap.owner = attribute.as_u32(),
            GROUP => tap.owner_group = attribute.as_u32(),
            TYPE => is_tap = attribute.as_u8() == Some(IS_TAP),
            PI => tap.packet_info = on(),
            VNET_HDR => tap.vnet_header = on(),
            MULTI_QUEUE => tap.multi_queue = on(),
            _ => {}
        }
    }
    if is_tap { SeenKind::Tap(tap) } else { SeenKind::Tun(tap) }
}
