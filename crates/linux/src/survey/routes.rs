//! All routes of a namespace: those of ours, and those of others that are declared.
//!
//! Decided here: how a table of a hundred thousand routes is compared without spelling a hundred thousand keys. A row is
//! looked up among the expected routes by what the kernel tells routes apart by; one that is as expected is answered
//! with the expected key and value themselves.
//!
//! Rows of others are not asked for unless one of them is declared, and are never remembered.

use ipnet::IpNet;
use kilter_model::linux::route::RouteKind;
use kilter_model::linux::{Name, NetnsName, Route, Table, keys};
use kilter_scheduler::{Expected, Key, Kind as _, Retrieved, Transition};
use rustc_hash::{FxHashMap, FxHashSet};

use super::archive::RouteRows;
use super::items::{item, owner};
use super::refused;
use super::tables::FAMILIES;
use crate::link::read::Seen as SeenLink;
use crate::netlink::KernelError;
use crate::order::Maker;
use crate::route;
use crate::shared::Shared;
use crate::space::Space;

/// What tells routes of one namespace apart.
type Place = (Table, IpNet, u32);

fn place(route: &Route) -> Place {
    (route.table, route.destination, route.metric())
}

/// Adds the routes of a namespace to what was found; says whether our own rows tell it all.
pub(super) fn items(
    shared: &Shared,
    (netns, space): (&NetnsName, &Space),
    (own, links): (&[RouteRows], &[SeenLink]),
    expected: &[Expected],
    found: &mut Vec<Retrieved>,
) -> Result<bool, KernelError> {
    let prefix = keys::routes_in(netns);
    let is_here = |expected: &&Expected| expected.key.as_str().starts_with(&prefix);
    let expected: Vec<&Expected> = expected.iter().filter(is_here).collect();
    let mut taking = Taking::new(shared, netns, links, &expected, found);
    for row in own.iter().flat_map(|own| own.rows.iter()) {
        taking.take(row, true);
    }
    let families: Vec<u8> = FAMILIES.into_iter().filter(|family| taking.misses(*family)).collect();
    for family in &families {
        let rows =
            route::read_rows(&mut space.requests(), *family, 0).map_err(refused("read routes", space))?;
        rows.iter().for_each(|row| taking.take(row, false));
    }
    Ok(families.is_empty())
}

/// Turns rows into items.
struct Taking<'a> {
    shared: &'a Shared,
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
        shared: &'a Shared,
        netns: &'a NetnsName,
        links: &'a [SeenLink],
        expected: &[&'a Expected],
        found: &'a mut Vec<Retrieved>,
    ) -> Self {
        let names = links.iter().map(|link| (link.index, &link.name)).collect();
        let known =
            |expected: &&'a Expected| Some((place(expected.value.downcast::<Route>()?), Some(*expected)));
        let expected = expected.iter().filter_map(known).collect();
        Self { shared, netns, names, expected, others: FxHashSet::default(), found }
    }

    fn take(&mut self, row: &[u8], ours: bool) {
        let Some(seen) = route::decode_row(row, self.netns) else { return };
        if !ours && seen.protocol == self.shared.protocol() {
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
        let (names, facts) = (&self.names, Maker::facts(self.shared, seen.protocol));
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
            Retrieved { key, value, facts, origin: Some(owner(ours)) }
        } else {
            Retrieved { facts, ..item(expected.key.clone(), route, None, Some(owner(ours))) }
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
