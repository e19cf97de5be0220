//! What was read, as items: keys, values, and whose they are.

use std::collections::{HashMap, HashSet};

use kilter_model::linux::{
    Existing, Link, LinkAddress, LinkFields, LinkKind, LinkRef, Mac, Name, NetnsName, Port, Reach, Reading,
    Unnumbered, Up, keys,
};
use kilter_scheduler::{Expected, Facts, Key, Origin, Retrieved, Value, ValueRef};

use super::names::Names;
use crate::former::{Place, Side};
use crate::link::read::Seen;
use crate::netlink::KernelError;
use crate::netlink::rtnl::family;
use crate::order::{LinkFacts, Maker};
use crate::shared::Shared;
use crate::space::Space;
use crate::{address, fdb, mark, netns, unnumbered};

/// A namespace as an item.
pub(super) fn namespace(
    shared: &Shared,
    name: &NetnsName,
    space: &Space,
) -> Result<Option<Retrieved>, KernelError> {
    let value = netns::item(shared, name.as_str());
    // What is only opened is ours to let go, and nothing else.
    let origin = if value.is_made_here() {
        owner(netns::is_ours(shared, &space.name)?.unwrap_or(false))
    } else {
        Origin::Declared
    };
    Ok(Some(item(keys::netns(name), value, None, Some(origin))))
}

/// A link as an item. What is on it is told item by item.
pub(super) fn link_item(netns: &NetnsName, seen: &Seen, known: bool, names: &mut Names<'_>) -> Link {
    let fields = fields(names.shared, names.space.cookie, seen, Side::Link);
    let kind = if known || seen.loopback {
        seen.link_kind(names.lower(seen), names.primary(seen))
    } else {
        LinkKind::Foreign { driver: Name::new(word(seen)) }
    };
    Link { name: seen.name.clone(), netns: netns.clone(), kind, fields }
}

/// What every link has, with what is known besides.
fn fields(shared: &Shared, cookie: u64, seen: &Seen, side: Side) -> LinkFields {
    LinkFields { reading: Some(reading(shared, cookie, seen, side)), ..seen.fields() }
}

fn reading(shared: &Shared, cookie: u64, seen: &Seen, side: Side) -> Reading {
    shared.formers.reading(Place::at(cookie, seen.index, side))
}

/// The word of a document for a kind of link; the kernel's word where there is none.
pub(super) fn word(seen: &Seen) -> &str {
    if matches!(seen.kind, crate::link::read::SeenKind::Tap(_)) { "tap" } else { seen.driver() }
}

/// What a link that was heard of says about the items that are known by it; `None` is one that is not there.
pub(crate) fn link_family(
    shared: &Shared,
    (netns, cookie): (&NetnsName, u64),
    seen: &Seen,
    master: impl Fn(u32) -> Option<Name>,
) -> Vec<Heard> {
    shared.note_link(netns.as_str(), &seen.name, seen.index);
    let origin = owner(seen.is_ours());
    let lower = match (seen.lower, seen.lower_netns) {
        (Some(index), _) if mark::is_ours(index) => shared.link_made_with(index),
        (Some(index), None) => master(index).map(|name| (netns.to_string(), name.to_string())),
        _ => None,
    };
    let lower = lower.map(|(of, name)| LinkRef::seen_from(netns, &NetnsName::new(of), name));
    let kind = if seen.is_ours() || seen.loopback {
        seen.link_kind(lower, None)
    } else {
        LinkKind::Foreign { driver: Name::new(word(seen)) }
    };
    let fields = fields(shared, cookie, seen, Side::Link);
    let link = Link { name: seen.name.clone(), netns: netns.clone(), kind, fields };
    let port =
        seen.master.and_then(master).map(|master| port_item(shared, (netns, cookie), seen, &master).value);
    let existing =
        LinkFields { reading: Some(reading(shared, cookie, seen, Side::Existing)), ..link.fields.clone() };
    let existing = Existing { name: seen.name.clone(), netns: netns.clone(), fields: existing };
    vec![
        Heard { key: keys::link(netns, &seen.name), value: Some(ValueRef::new(link)), origin },
        // Whether it is declared is known to whoever listens.
        Heard {
            key: keys::existing(netns, &seen.name),
            value: Some(ValueRef::new(existing)),
            origin: Origin::Declared,
        },
        Heard {
            key: keys::up(netns, &seen.name),
            value: seen.up.then(|| up_item(shared, (netns, cookie), seen).value),
            origin: owner(is_up_by_us(shared, cookie, seen)),
        },
        Heard { key: keys::port(netns, &seen.name), value: port, origin },
    ]
}

/// One item that was heard of.
pub(crate) struct Heard {
    pub(crate) key: Key,
    pub(crate) value: Option<ValueRef>,
    pub(crate) origin: Origin,
}

pub(super) fn existing_item(shared: &Shared, netns: &NetnsName, space: &Space, seen: &Seen) -> Existing {
    let fields = fields(shared, space.cookie, seen, Side::Existing);
    Existing { name: seen.name.clone(), netns: netns.clone(), fields }
}

pub(super) fn up_item(shared: &Shared, (netns, cookie): (&NetnsName, u64), seen: &Seen) -> Retrieved {
    let up = Up { netns: netns.clone(), link: seen.name.clone(), lower: None };
    let ours = is_up_by_us(shared, cookie, seen);
    item(keys::up(netns, &seen.name), up, Some(seen.index), Some(owner(ours)))
}

/// Whether it is our doing that a link is up: it is ours, or we have switched it on.
fn is_up_by_us(shared: &Shared, cookie: u64, seen: &Seen) -> bool {
    let before = || shared.formers.field(Place::at(cookie, seen.index, Side::Up), "state");
    seen.is_ours() || before().is_some_and(|state| state == "down")
}

pub(super) fn port_item(
    shared: &Shared,
    (netns, cookie): (&NetnsName, u64),
    seen: &Seen,
    master: &Name,
) -> Retrieved {
    let reading = shared.formers.reading(Place::at(cookie, seen.index, Side::Port));
    let port = Port {
        netns: netns.clone(),
        link: seen.name.clone(),
        master: master.clone(),
        options: seen.port.clone().unwrap_or_default(),
        reading: Some(reading),
    };
    item(keys::port(netns, &seen.name), port, None, Some(owner(seen.is_ours())))
}

pub(super) fn address_item(
    shared: &Shared,
    netns: &NetnsName,
    link: &Name,
    seen: &address::Seen,
) -> Retrieved {
    let key = keys::address(netns, link, seen.address.address);
    let ours = seen.protocol == shared.protocol();
    let address = LinkAddress {
        netns: netns.clone(),
        link: link.clone(),
        vrf: None,
        after_up: false,
        address: seen.address.clone(),
        read: true,
    };
    item(key, address, None, Some(owner(ours))).by(shared, seen.protocol)
}

/// Says who made an item.
pub(super) trait By {
    fn by(self, shared: &Shared, protocol: u8) -> Self;
}

impl By for Retrieved {
    fn by(self, shared: &Shared, protocol: u8) -> Self {
        Self { facts: Maker::facts(shared, protocol), ..self }
    }
}

/// What an address lets reach: nothing while its link is down.
pub(super) fn reaches(
    shared: &Shared,
    netns: &NetnsName,
    link: &Seen,
    seen: &address::Seen,
) -> impl Iterator<Item = Retrieved> + use<> {
    let ours = seen.protocol == shared.protocol();
    let up = link.up;
    Reach::of(netns, &link.name, &seen.address)
        .filter(move |_| up)
        .map(move |(key, reach)| item(key, reach, None, Some(owner(ours))))
}

pub(super) fn unnumbered_item(
    shared: &Shared,
    netns: &NetnsName,
    link: &Seen,
    links: &[Seen],
    addresses: &[address::Seen],
) -> Option<Retrieved> {
    let protocol = shared.borrowed_protocol();
    let borrowed: Vec<&address::Seen> =
        addresses.iter().filter(|seen| seen.index == link.index && seen.protocol == protocol).collect();
    let lender = unnumbered::lender_of(&borrowed, addresses, link.index, protocol)?;
    let lender = links.iter().find(|link| link.index == lender)?;
    let value =
        Unnumbered { netns: netns.clone(), link: link.name.clone(), lender: lender.name.clone(), vrf: None };
    Some(item(keys::unnumbered(netns, &link.name), value, None, Some(Origin::Declared)))
}

/// Entries that the kernel makes by itself: the addresses of the links, and the groups it listens to.
pub(super) fn is_kernels_own(seen: &fdb::Seen, macs: &HashSet<Mac>) -> bool {
    let is_link = macs.contains(&seen.mac);
    let is_group = seen.mac.is_multicast() && seen.remote.is_none();
    (is_link && seen.remote.is_none()) || is_group
}

/// The family of the destination in the key of a route.
pub(super) fn route_family(key: &str) -> Option<u8> {
    let destination = key.split('/').nth(4)?;
    Some(if destination.contains(':') { family::INET6 } else { family::INET })
}

/// Links by what the kernel calls them in other tables.
pub(super) fn by_index(links: &[Seen]) -> HashMap<u32, &Seen> {
    links.iter().map(|link| (link.index, link)).collect()
}

pub(super) fn keys_of(expected: &[Expected]) -> HashSet<&Key> {
    expected.iter().map(|expected| &expected.key).collect()
}

pub(super) fn owner(ours: bool) -> Origin {
    if ours { Origin::Declared } else { Origin::Observed }
}

pub(super) fn item(key: Key, value: impl Value, index: Option<u32>, origin: Option<Origin>) -> Retrieved {
    let facts = index.map(|index| Facts::new(LinkFacts { index }));
    Retrieved { key, value: ValueRef::new(value), facts, origin }
}
