//! All routes of a namespace: those of ours, and those of others that are declared.
//!
//! Decided here: how a table of a hundred thousand routes is compared without spelling a hundred thousand keys. A row is
//! looked up among the expected routes by what the kernel tells routes apart by; one that is as expected is answered
//! with the expected key and value themselves. A table that is byte by byte what it was is not looked at again.
//!
//! Rows of others are not asked for unless one of them is declared, and are never remembered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ipnet::IpNet;
use kilter_model::linux::route::RouteKind;
use kilter_model::linux::{Name, NetnsName, Route, Table, keys};
use kilter_scheduler::{Expected, Key, Kind as _, Retrieved, Transition};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{item, owner, refused};
use crate::link::read::Seen as SeenLink;
use crate::netlink::KernelError;
use crate::netlink::rtnl::family;
use crate::route::{self, Rows};
use crate::shared::Shared;
use crate::space::{Space, locked};

const FAMILIES: [u8; 2] = [family::INET, family::INET6];

/// What tells routes of one namespace apart.
type Place = (Table, IpNet, u32);

fn place(route: &Route) -> Place {
    (route.table, route.destination, route.metric())
}

/// What the tables of our routes were answered with, by namespace.
///
/// **Guarantees**: as long as our own routes, the names of the links and what is expected are the same, so is the answer.
/// It grows with our own routes only.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<HashMap<NetnsName, Arc<Remembered>>>);

#[derive(Debug)]
struct Remembered {
    /// Of everything that the answer depends on.
    digest: blake3::Hash,
    items: Vec<Retrieved>,
}

impl Memory {
    /// What was answered, if it was answered to the same.
    fn of(&self, netns: &NetnsName, digest: blake3::Hash) -> Option<Arc<Remembered>> {
        locked(&self.0).get(netns).filter(|known| known.digest == digest).cloned()
    }

    fn remember(&self, netns: &NetnsName, digest: blake3::Hash, items: Vec<Retrieved>) {
        locked(&self.0).insert(netns.clone(), Arc::new(Remembered { digest, items }));
    }

    fn forget(&self, netns: &NetnsName) {
        locked(&self.0).remove(netns);
    }

    /// Forgets the namespaces that are not there.
    pub(super) fn keep(&self, spaces: &[(NetnsName, Arc<Space>)]) {
        locked(&self.0).retain(|netns, _| spaces.iter().any(|(there, _)| there == netns));
    }
}

/// Adds the routes of a namespace to what was found.
pub(super) fn items(
    shared: &Shared,
    (netns, space): (&NetnsName, &Space),
    links: &[SeenLink],
    expected: &[Expected],
    found: &mut Vec<Retrieved>,
) -> Result<(), KernelError> {
    let prefix = keys::routes_in(netns);
    let is_here = |expected: &&Expected| expected.key.as_str().starts_with(&prefix);
    let expected: Vec<&Expected> = expected.iter().filter(is_here).collect();
    let mut own: Vec<Rows> = Vec::new();
    for family in FAMILIES {
        let rows = route::read_rows(&mut space.requests(), family, shared.protocol());
        own.push(rows.map_err(refused("read routes", space))?);
    }
    let digest = digest(&own, links, &expected);
    if let Some(known) = shared.routes.of(netns, digest) {
        found.extend_from_slice(&known.items);
        return Ok(());
    }
    let start = found.len();
    let mut taking = Taking::new(shared.protocol(), netns, links, &expected, found);
    for row in own.iter().flat_map(Rows::iter) {
        taking.take(row, true);
    }
    let families: Vec<u8> = FAMILIES.into_iter().filter(|family| taking.misses(*family)).collect();
    for family in &families {
        let rows =
            route::read_rows(&mut space.requests(), *family, 0).map_err(refused("read routes", space))?;
        rows.iter().for_each(|row| taking.take(row, false));
    }
    if families.is_empty() {
        shared.routes.remember(netns, digest, found[start..].to_vec());
    } else {
        shared.routes.forget(netns);
    }
    Ok(())
}

/// What the answer depends on, in a few bytes.
fn digest(own: &[Rows], links: &[SeenLink], expected: &[&Expected]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for rows in own {
        hasher.update(&(rows.as_bytes().len() as u64).to_ne_bytes()).update(rows.as_bytes());
    }
    for link in links {
        hasher.update(&link.index.to_ne_bytes()).update(link.name.as_bytes()).update(&[0]);
    }
    // Together, since hashing many short texts one by one costs more than copying them.
    let mut keys =
        String::with_capacity(expected.iter().map(|expected| expected.key.as_str().len() + 1).sum());
    for expected in expected {
        keys.push('\n');
        keys.push_str(expected.key.as_str());
    }
    hasher.update(keys.as_bytes());
    hasher.finalize()
}

/// Turns rows into items.
struct Taking<'a> {
    protocol: u8,
    netns: &'a NetnsName,
    names: FxHashMap<u32, &'a Name>,
    /// What is expected; nothing stands in the place of what was found.
    expected: FxHashMap<Place, Option<&'a Expected>>,
    /// What was not expected and was found: a dump that was made again tells of a route twice.
    others: FxHashSet<Place>,
    found: &'a mut Vec<Retrieved>,
}

impl<'a> Taking<'a> {
    fn new(
        protocol: u8,
        netns: &'a NetnsName,
        links: &'a [SeenLink],
        expected: &[&'a Expected],
        found: &'a mut Vec<Retrieved>,
    ) -> Self {
        let names = links.iter().map(|link| (link.index, &link.name)).collect();
        let known =
            |expected: &&'a Expected| Some((place(expected.value.downcast::<Route>()?), Some(*expected)));
        let expected = expected.iter().filter_map(known).collect();
        Self { protocol, netns, names, expected, others: FxHashSet::default(), found }
    }

    fn take(&mut self, row: &[u8], ours: bool) {
        let Some(seen) = route::decode_row(row, self.netns) else { return };
        if !ours && seen.protocol == self.protocol {
            return;
        }
        let place = place(&seen.route);
        let expected = match self.expected.get_mut(&place) {
            Some(expected) => match expected.take() {
                None => return,
                expected => expected,
            },
            None if !ours || !self.others.insert(place) => return,
            None => None,
        };
        let names = &self.names;
        let route = seen.named(|index| names.get(&index).map(|name| (*name).clone()));
        let Some(expected) = expected else {
            let key: Key = keys::route(self.netns, place.0, place.1, place.2);
            return self.found.push(item(key, route, None, Some(owner(ours))));
        };
        let as_expected = expected.value.downcast::<Route>().is_some_and(|expected_route| {
            RouteKind.transition(&expected.key, &route, expected_route) == Transition::Same
        });
        self.found.push(if as_expected {
            let (key, value) = (expected.key.clone(), expected.value.clone());
            Retrieved { key, value, facts: None, origin: Some(owner(ours)) }
        } else {
            item(expected.key.clone(), route, None, Some(owner(ours)))
        });
    }

    /// Whether a route of this family is expected and was not found.
    fn misses(&self, family: u8) -> bool {
        let is_missing = |((_, destination, _), expected): (&Place, &Option<&Expected>)| {
            expected.is_some() && crate::ip::family(destination.addr()) == family
        };
        self.expected.iter().any(is_missing)
    }
}
