//! Reading one item by its key, with as little as the kernel allows.

use kilter_model::linux::{Link, Name, NetnsName, Route, Sysctl, keys};
use kilter_scheduler::{Expected, Key, Origin, Retrieved, ValueRef};

use super::items::{
    By as _, address_item, existing_item, item, link_item, namespace, owner, port_item, reaches,
    route_family, unnumbered_item, up_item,
};
use super::names::Names;
use super::{Survey, Tables, refused};
use crate::link::read::{Seen, read_all, read_one};
use crate::netlink::KernelError;
use crate::shared::Shared;
use crate::space::Space;
use crate::{address, neighbour, nftables, route, sysctl};

/// Reads one item by its key; `expected` is what it should be, if it should be.
pub(crate) fn one(
    shared: &Shared,
    key: &Key,
    expected: Option<&ValueRef>,
) -> Result<Option<Retrieved>, KernelError> {
    let mut parts = key.as_str().split('/').skip(1);
    let (Some(room), Some(netns)) = (parts.next(), parts.next()) else { return Ok(None) };
    let netns = NetnsName::new(netns);
    let space = match shared.spaces.get(netns.as_str()) {
        Ok(space) => space,
        Err(KernelError::NoNamespace { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let name = parts.next().unwrap_or_default();
    match room {
        "netns" => namespace(shared, &netns, &space),
        "link" => one_link(shared, &netns, &space, name, expected.is_some()),
        "existing" => {
            let seen = read_one(&mut space.requests(), name).map_err(refused("read link", &space))?;
            let found = |seen: Seen| {
                let existing = existing_item(shared, &netns, &space, &seen);
                item(key.clone(), existing, Some(seen.index), Some(Origin::Declared))
            };
            Ok(seen.map(found))
        }
        "up" => {
            let seen = read_one(&mut space.requests(), name).map_err(refused("read link", &space))?;
            Ok(seen.filter(|seen| seen.up).map(|seen| up_item(shared, (&netns, space.cookie), &seen)))
        }
        "port" => one_port(shared, &netns, &space, name),
        "address" => one_address(shared, &netns, &space, name, key),
        "reach" => one_reach(shared, &netns, &space, name, key),
        "unnumbered" => one_unnumbered(shared, &netns, &space, name),
        "route" => one_route(shared, &netns, &space, key, expected),
        "sysctl" => {
            let expected = expected.and_then(|value| value.downcast::<Sysctl>());
            let found = sysctl::find(shared, &space, &netns, name, expected)?;
            Ok(found.map(|found| item(key.clone(), found, None, None)))
        }
        "nftables" => one_table(shared, &netns, &space, key),
        "neighbour" => one_neighbour(shared, &netns, &space, name, key),
        "rule" | "fdb" | "qdisc" => {
            let value = expected.cloned().unwrap_or_else(|| ValueRef::new(()));
            let expected = vec![Expected { key: key.clone(), value, facts: None }];
            let mut survey = Survey::resume(shared, Tables::of(vec![(netns, space)]));
            Ok(survey.all(room, &expected)?.into_iter().find(|found| found.key == *key))
        }
        _ => Ok(None),
    }
}

/// A link as it is, by its name.
pub(crate) fn link(shared: &Shared, netns: &NetnsName, name: &str) -> Result<Option<Link>, KernelError> {
    let space = shared.spaces.get(netns.as_str())?;
    let found = one_link(shared, netns, &space, name, true)?;
    Ok(found.and_then(|found| found.value.downcast::<Link>().cloned()))
}

fn one_link(
    shared: &Shared,
    netns: &NetnsName,
    space: &Space,
    name: &str,
    known: bool,
) -> Result<Option<Retrieved>, KernelError> {
    let seen = read_one(&mut space.requests(), name).map_err(refused("read link", space))?;
    let Some(seen) = seen else { return Ok(None) };
    shared.note_link(&space.name, &seen.name, seen.index);
    let mut names = Names::new(shared, netns, space, std::slice::from_ref(&seen));
    let link = link_item(netns, &seen, known || seen.is_ours(), &mut names);
    let key = keys::link(netns, &seen.name);
    Ok(Some(item(key, link, Some(seen.index), Some(owner(seen.is_ours())))))
}

fn one_port(
    shared: &Shared,
    netns: &NetnsName,
    space: &Space,
    name: &str,
) -> Result<Option<Retrieved>, KernelError> {
    let seen = read_one(&mut space.requests(), name).map_err(refused("read link", space))?;
    let Some(seen) = seen else { return Ok(None) };
    let Some(master) = seen.master else { return Ok(None) };
    let master = crate::link::read::read_index_of(&mut space.requests(), master)
        .map_err(refused("read link", space))?;
    Ok(master.map(|master| port_item(shared, (netns, space.cookie), &seen, &master.name)))
}

fn one_address(
    shared: &Shared,
    netns: &NetnsName,
    space: &Space,
    link: &str,
    key: &Key,
) -> Result<Option<Retrieved>, KernelError> {
    let Some(address) = keys::network_at_the_end(key.as_str()) else { return Ok(None) };
    let requests = &mut space.requests();
    let index = crate::link::read::read_index(requests, link).map_err(refused("read link", space))?;
    let Some(index) = index else { return Ok(None) };
    let seen = address::read_link(requests, index).map_err(refused("read addresses", space))?;
    let found = seen
        .iter()
        .find(|seen| seen.address.address == address && seen.protocol != shared.borrowed_protocol());
    Ok(found.map(|seen| address_item(shared, netns, &Name::new(link), seen)))
}

fn one_reach(
    shared: &Shared,
    netns: &NetnsName,
    space: &Space,
    link: &str,
    key: &Key,
) -> Result<Option<Retrieved>, KernelError> {
    let requests = &mut space.requests();
    let link = read_one(requests, link).map_err(refused("read link", space))?;
    let Some(link) = link else { return Ok(None) };
    let seen = address::read_link(requests, link.index).map_err(refused("read addresses", space))?;
    let lent = seen.iter().filter(|seen| seen.protocol != shared.borrowed_protocol());
    Ok(lent.flat_map(|seen| reaches(shared, netns, &link, seen)).find(|found| found.key == *key))
}

fn one_unnumbered(
    shared: &Shared,
    netns: &NetnsName,
    space: &Space,
    name: &str,
) -> Result<Option<Retrieved>, KernelError> {
    let requests = &mut space.requests();
    let links = read_all(requests).map_err(refused("read links", space))?;
    let addresses = address::read_all(requests).map_err(refused("read addresses", space))?;
    let link = links.iter().find(|link| link.name == name);
    Ok(link.and_then(|link| unnumbered_item(shared, netns, link, &links, &addresses)))
}

fn one_neighbour(
    shared: &Shared,
    netns: &NetnsName,
    space: &Space,
    link: &str,
    key: &Key,
) -> Result<Option<Retrieved>, KernelError> {
    let mut parts = key.as_str().split('/').skip(4);
    let Some(address) = parts.next().and_then(|address| address.parse().ok()) else { return Ok(None) };
    let proxy = parts.next() == Some("proxy");
    let requests = &mut space.requests();
    let index = crate::link::read::read_index(requests, link).map_err(refused("read link", space))?;
    let Some(index) = index else { return Ok(None) };
    let seen =
        neighbour::read_one(requests, index, address, proxy).map_err(refused("read neighbour", space))?;
    let found = |seen: neighbour::Seen| {
        let ours = seen.protocol == shared.protocol();
        let neighbour = seen.item(netns, Name::new(link))?;
        Some(item(key.clone(), neighbour, None, Some(owner(ours))).by(shared, seen.protocol))
    };
    Ok(seen.and_then(found))
}

/// A route by its key: by asking where the kernel would send a packet, and by a dump only if that does not tell.
fn one_route(
    shared: &Shared,
    netns: &NetnsName,
    space: &Space,
    key: &Key,
    expected: Option<&ValueRef>,
) -> Result<Option<Retrieved>, KernelError> {
    let name = |space: &Space, index: u32| {
        let seen = crate::link::read::read_index_of(&mut space.requests(), index);
        seen.ok().flatten().map(|seen| seen.name)
    };
    if let Some(sought) = expected.and_then(|value| value.downcast::<Route>()) {
        let looked =
            route::look_up(&mut space.requests(), sought).map_err(refused("look up route", space))?;
        match looked {
            route::Looked::Found(seen) => {
                let protocol = seen.protocol;
                let route = seen.named(|index| name(space, index));
                let origin = Some(owner(protocol == shared.protocol()));
                return Ok(Some(item(key.clone(), route, None, origin).by(shared, protocol)));
            }
            route::Looked::Absent => return Ok(None),
            route::Looked::Unclear => {}
        }
    }
    let Some(family) = route_family(key.as_str()) else { return Ok(None) };
    let table = expected.and_then(|value| value.downcast::<Route>()).map(|route| route.table);
    let rows = match table {
        Some(table) => route::read_table(&mut space.requests(), family, table),
        None => route::read_rows(&mut space.requests(), family, 0),
    };
    let rows = rows.map_err(refused("read routes", space))?;
    let is_it = |seen: &route::Seen| {
        let route = &seen.route;
        keys::route(netns, route.table, route.destination, route.metric()) == *key
    };
    let found = rows.iter().filter_map(|row| route::decode_row(row, netns)).find(is_it);
    Ok(found.map(|seen| {
        let protocol = seen.protocol;
        let origin = Some(owner(protocol == shared.protocol()));
        item(key.clone(), seen.named(|index| name(space, index)), None, origin).by(shared, protocol)
    }))
}

fn one_table(
    shared: &Shared,
    netns: &NetnsName,
    space: &Space,
    key: &Key,
) -> Result<Option<Retrieved>, KernelError> {
    for seen in nftables::tables(shared, space)? {
        if keys::nftables(netns, seen.family.word(), &seen.name) == *key {
            let table = nftables::item(shared, space, netns, &seen)?;
            let ours = seen.digest.is_some();
            return Ok(table.map(|table| item(key.clone(), table, None, Some(owner(ours)))));
        }
    }
    Ok(None)
}
