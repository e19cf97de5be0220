//! Reading what is: one item by its key, or everything of a kind.
//!
//! Decided here: which items there are and whose they are. What carries our mark is ours; links, addresses and what is
//! up are told also if they are not, because others stand on them; routes, rules and neighbours of others only if they
//! are declared, so that a hundred thousand of them cost nothing.

mod names;
mod one;
mod routes;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kilter_model::declare::Declare as _;
use kilter_model::linux::{
    Existing, Link, LinkAddress, LinkKind, LinkRef, Mac, Name, NetnsName, Port, Unnumbered, Up, keys,
};
use kilter_scheduler::{Expected, Facts, Key, Origin, Retrieved, Value, ValueRef};

use crate::link::read::{Seen, read_all};
use crate::netlink::rtnl::family;
use crate::netlink::{KernelError, Refusal};
use crate::order::LinkFacts;
use crate::shared::Shared;
use crate::space::{HOST, Space};
use crate::{address, fdb, mark, neighbour, netns, nftables, qdisc, rule, sysctl, unnumbered};
use names::Names;
pub(crate) use one::{link, one};
pub(crate) use routes::Memory;

/// The names of the namespaces there are: the agent's own, those with a name, those with a place.
pub(crate) fn namespaces(shared: &Shared) -> Result<Vec<NetnsName>, Refusal> {
    let mut names = vec![NetnsName::new(HOST)];
    let mut others = shared.spaces.named()?;
    others.extend(shared.spaces.placed());
    others.sort_unstable();
    others.dedup();
    names.extend(others.iter().filter(|name| *name != HOST).map(NetnsName::new));
    Ok(names)
}

/// Tables that were read, to be used for every kind that is read in the same go.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    spaces: Vec<(NetnsName, Arc<Space>)>,
    links: HashMap<NetnsName, Arc<Vec<Seen>>>,
    addresses: HashMap<NetnsName, Arc<Vec<address::Seen>>>,
}

/// What was read of the kernel, each table once.
pub(crate) struct Survey<'a> {
    shared: &'a Shared,
    tables: Tables,
}

fn refused(what: &'static str, space: &Space) -> impl FnOnce(Refusal) -> KernelError {
    let name = space.name.clone();
    move |refusal| KernelError::refused(what, name, refusal)
}

impl<'a> Survey<'a> {
    /// Opens every namespace there is.
    pub(crate) fn everywhere(shared: &'a Shared) -> Result<Self, KernelError> {
        let names = namespaces(shared)
            .map_err(|refusal| KernelError::refused("list network namespaces", "all", refusal))?;
        let open = |name: NetnsName| Some((name.clone(), shared.spaces.get(name.as_str()).ok()?));
        let spaces: Vec<_> = names.into_iter().filter_map(open).collect();
        shared.routes.keep(&spaces);
        Ok(Self { shared, tables: Tables { spaces, ..Tables::default() } })
    }

    /// Goes on with what was read before.
    pub(crate) fn resume(shared: &'a Shared, tables: Tables) -> Self {
        Self { shared, tables }
    }

    /// What was read, to go on with.
    pub(crate) fn into_tables(self) -> Tables {
        self.tables
    }

    fn links(&mut self, netns: &NetnsName, space: &Space) -> Result<Arc<Vec<Seen>>, KernelError> {
        if let Some(links) = self.tables.links.get(netns) {
            return Ok(Arc::clone(links));
        }
        let links = read_all(&mut space.requests()).map_err(refused("read links", space))?;
        for seen in &links {
            self.shared.note_link(&space.name, &seen.name, seen.index);
        }
        let links = Arc::new(links);
        self.tables.links.insert(netns.clone(), Arc::clone(&links));
        Ok(links)
    }

    fn addresses(
        &mut self,
        netns: &NetnsName,
        space: &Space,
    ) -> Result<Arc<Vec<address::Seen>>, KernelError> {
        if let Some(addresses) = self.tables.addresses.get(netns) {
            return Ok(Arc::clone(addresses));
        }
        let read = address::read_all(&mut space.requests()).map_err(refused("read addresses", space))?;
        let addresses = Arc::new(read);
        self.tables.addresses.insert(netns.clone(), Arc::clone(&addresses));
        Ok(addresses)
    }

    /// Every item of a kind, by the second part of its keys.
    pub(crate) fn all(&mut self, room: &str, expected: &[Expected]) -> Result<Vec<Retrieved>, KernelError> {
        let mut found = Vec::new();
        if room == "netns" {
            self.namespaces(&mut found)?;
            return Ok(found);
        }
        let spaces = self.tables.spaces.clone();
        if room == "link" {
            // Other ends are known by their index, wherever they are: first all links, then what they are.
            for (netns, space) in &spaces {
                self.links(netns, space)?;
            }
        }
        for (netns, space) in &spaces {
            match room {
                "link" => self.link_items(netns, space, expected, &mut found)?,
                "existing" => self.existing_items(netns, space, expected, &mut found)?,
                "up" => self.up_items(netns, space, &mut found)?,
                "port" => self.port_items(netns, space, &mut found)?,
                "address" => self.address_items(netns, space, &mut found)?,
                "unnumbered" => self.unnumbered_items(netns, space, &mut found)?,
                "route" => self.route_items(netns, space, expected, &mut found)?,
                "rule" => self.rule_items(netns, space, expected, &mut found)?,
                "neighbour" => self.neighbour_items(netns, space, expected, &mut found)?,
                "fdb" => self.fdb_items(netns, space, &mut found)?,
                "qdisc" => self.qdisc_items(netns, space, &mut found)?,
                "sysctl" => sysctl_items(self.shared, netns, space, expected, &mut found)?,
                "nftables" => self.nftables_items(netns, space, &mut found)?,
                _ => {}
            }
        }
        Ok(found)
    }

    fn namespaces(&mut self, found: &mut Vec<Retrieved>) -> Result<(), KernelError> {
        netns::clear_all_debris(self.shared);
        for (name, space) in &self.tables.spaces {
            if name.is_host() {
                continue;
            }
            found.extend(namespace(self.shared, name, space)?);
        }
        Ok(())
    }

    fn link_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        expected: &[Expected],
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let links = self.links(netns, space)?;
        let declared: HashSet<&str> = expected.iter().map(|expected| expected.key.as_str()).collect();
        let mut names = Names::new(self.shared, netns, space, &links);
        for seen in links.iter() {
            let key = keys::link(netns, &seen.name);
            let known = seen.is_ours() || declared.contains(key.as_str());
            let link = link_item(netns, seen, known, &mut names);
            found.push(item(key, link, Some(seen.index), Some(owner(seen.is_ours()))));
        }
        Ok(())
    }

    fn existing_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        expected: &[Expected],
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let links = self.links(netns, space)?;
        for Expected { key, .. } in expected {
            if let Some((owner, name)) = keys::netns_and_link(key.as_str())
                && owner == *netns
                && let Some(seen) = links.iter().find(|seen| seen.name == name)
            {
                let existing = existing_item(netns, seen);
                found.push(item(key.clone(), existing, Some(seen.index), Some(Origin::Declared)));
            }
        }
        Ok(())
    }

    fn up_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        for seen in self.links(netns, space)?.iter().filter(|seen| seen.up) {
            found.push(up_item(netns, seen));
        }
        Ok(())
    }

    fn port_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let links = self.links(netns, space)?;
        for seen in links.iter() {
            let Some(master) = seen.master else { continue };
            if let Some(master) = links.iter().find(|link| link.index == master) {
                found.push(port_item(netns, seen, &master.name));
            }
        }
        Ok(())
    }

    fn address_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let (links, addresses) = (self.links(netns, space)?, self.addresses(netns, space)?);
        let names: HashMap<u32, &Name> = links.iter().map(|link| (link.index, &link.name)).collect();
        for seen in addresses.iter().filter(|seen| seen.protocol != self.shared.borrowed_protocol()) {
            if let Some(link) = names.get(&seen.index) {
                found.push(address_item(self.shared, netns, link, seen));
            }
        }
        Ok(())
    }

    fn unnumbered_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let protocol = self.shared.borrowed_protocol();
        let addresses = self.addresses(netns, space)?;
        if addresses.iter().all(|seen| seen.protocol != protocol) {
            return Ok(());
        }
        let links = self.links(netns, space)?;
        for link in links.iter() {
            found.extend(unnumbered_item(self.shared, netns, link, &links, &addresses));
        }
        Ok(())
    }

    fn route_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        expected: &[Expected],
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let links = self.links(netns, space)?;
        routes::items(self.shared, (netns, space), &links, expected, found)
    }

    fn rule_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        expected: &[Expected],
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let expected = keys_of(expected);
        let rules = rule::read_all(&mut space.requests(), netns).map_err(refused("read rules", space))?;
        for (rule, protocol) in rules {
            let (key, ours) = (rule.key(), protocol == self.shared.protocol());
            if ours || expected.contains(&key) {
                found.push(item(key, rule, None, Some(owner(ours))));
            }
        }
        Ok(())
    }

    fn neighbour_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        expected: &[Expected],
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let links = self.links(netns, space)?;
        let (expected, links) = (keys_of(expected), by_index(&links));
        let seen = neighbour::read_all(&mut space.requests()).map_err(refused("read neighbours", space))?;
        for seen in seen {
            let Some(link) = links.get(&seen.index) else { continue };
            let Some(neighbour) = seen.item(netns, link.name.clone()) else { continue };
            let (key, ours) = (neighbour.key(), seen.protocol == self.shared.protocol());
            if ours || expected.contains(&key) {
                found.push(item(key, neighbour, None, Some(owner(ours))));
            }
        }
        Ok(())
    }

    fn fdb_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let links = self.links(netns, space)?;
        let known = by_index(&links);
        let macs: HashSet<Mac> = links.iter().filter_map(|link| link.mac).collect();
        let seen =
            fdb::read_all(&mut space.requests(), 0).map_err(refused("read forwarding tables", space))?;
        for seen in seen {
            let Some(link) = known.get(&seen.index) else { continue };
            if !is_kernels_own(&seen, &macs) {
                let fdb = seen.item(netns, link.name.clone());
                found.push(item(fdb.key(), fdb, None, None));
            }
        }
        Ok(())
    }

    fn qdisc_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let links = self.links(netns, space)?;
        let links = by_index(&links);
        let seen = qdisc::read_all(&mut space.requests(), 0).map_err(refused("read qdiscs", space))?;
        for seen in seen {
            if let Some(link) = links.get(&seen.index) {
                let qdisc = seen.item(netns, link.name.clone());
                found.push(item(qdisc.key(), qdisc, None, None));
            }
        }
        Ok(())
    }

    fn nftables_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        for seen in nftables::tables(self.shared, space)? {
            if seen.digest.is_some()
                && let Some(table) = nftables::item(self.shared, space, netns, &seen)?
            {
                found.push(item(table.key(), table, None, Some(Origin::Declared)));
            }
        }
        Ok(())
    }
}

fn sysctl_items(
    shared: &Shared,
    netns: &NetnsName,
    space: &Space,
    expected: &[Expected],
    found: &mut Vec<Retrieved>,
) -> Result<(), KernelError> {
    let prefix = format!("linux/sysctl/{netns}/");
    let mut told: HashSet<&str> = HashSet::new();
    for Expected { key, value, .. } in expected {
        let Some(name) = key.as_str().strip_prefix(&prefix) else { continue };
        told.insert(name);
        if let Some(sysctl) = sysctl::find(shared, space, netns, name, value.downcast())? {
            found.push(item(key.clone(), sysctl, None, None));
        }
    }
    // What we changed is ours, also if nobody expects it: an earlier run may have done it.
    for name in shared.parameters.changed_in(space) {
        if !told.contains(name.as_str())
            && let Some(sysctl) = sysctl::find(shared, space, netns, &name, None)?
        {
            found.push(item(sysctl.key(), sysctl, None, Some(Origin::Declared)));
        }
    }
    Ok(())
}

fn namespace(shared: &Shared, name: &NetnsName, space: &Space) -> Result<Option<Retrieved>, KernelError> {
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
fn link_item(netns: &NetnsName, seen: &Seen, known: bool, names: &mut Names<'_>) -> Link {
    let fields = seen.fields();
    let kind = if known || seen.loopback {
        seen.link_kind(names.lower(seen), names.primary(seen))
    } else {
        LinkKind::Foreign { driver: Name::new(word(seen)) }
    };
    Link { name: seen.name.clone(), netns: netns.clone(), kind, fields }
}

/// The word of a document for a kind of link; the kernel's word where there is none.
fn word(seen: &Seen) -> &str {
    if matches!(seen.kind, crate::link::read::SeenKind::Tap(_)) { "tap" } else { seen.driver() }
}

/// What a link that was heard of says about the items that are known by it; `None` is one that is not there.
pub(crate) fn link_family(
    shared: &Shared,
    netns: &NetnsName,
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
    let link = Link { name: seen.name.clone(), netns: netns.clone(), kind, fields: seen.fields() };
    let port = seen.master.and_then(master).map(|master| port_item(netns, seen, &master).value);
    vec![
        Heard { key: keys::link(netns, &seen.name), value: Some(ValueRef::new(link)), origin },
        Heard {
            key: keys::up(netns, &seen.name),
            value: seen.up.then(|| up_item(netns, seen).value),
            origin,
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

fn existing_item(netns: &NetnsName, seen: &Seen) -> Existing {
    Existing { name: seen.name.clone(), netns: netns.clone(), fields: seen.fields() }
}

fn up_item(netns: &NetnsName, seen: &Seen) -> Retrieved {
    let up = Up { netns: netns.clone(), link: seen.name.clone(), lower: None };
    item(keys::up(netns, &seen.name), up, Some(seen.index), Some(owner(seen.is_ours())))
}

fn port_item(netns: &NetnsName, seen: &Seen, master: &Name) -> Retrieved {
    let port = Port {
        netns: netns.clone(),
        link: seen.name.clone(),
        master: master.clone(),
        options: seen.port.clone().unwrap_or_default(),
    };
    item(keys::port(netns, &seen.name), port, None, Some(owner(seen.is_ours())))
}

fn address_item(shared: &Shared, netns: &NetnsName, link: &Name, seen: &address::Seen) -> Retrieved {
    let key = keys::address(netns, link, seen.address.address);
    let ours = seen.protocol == shared.protocol();
    let address =
        LinkAddress { netns: netns.clone(), link: link.clone(), vrf: None, address: seen.address.clone() };
    item(key, address, None, Some(owner(ours)))
}

fn unnumbered_item(
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
fn is_kernels_own(seen: &fdb::Seen, macs: &HashSet<Mac>) -> bool {
    let is_link = macs.contains(&seen.mac);
    let is_group = seen.mac.is_multicast() && seen.remote.is_none();
    (is_link && seen.remote.is_none()) || is_group
}

/// The family of the destination in the key of a route.
fn route_family(key: &str) -> Option<u8> {
    let destination = key.split('/').nth(4)?;
    Some(if destination.contains(':') { family::INET6 } else { family::INET })
}

/// Links by what the kernel calls them in other tables.
fn by_index(links: &[Seen]) -> HashMap<u32, &Seen> {
    links.iter().map(|link| (link.index, link)).collect()
}

fn keys_of(expected: &[Expected]) -> HashSet<&Key> {
    expected.iter().map(|expected| &expected.key).collect()
}

fn owner(ours: bool) -> Origin {
    if ours { Origin::Declared } else { Origin::Observed }
}

fn item(key: Key, value: impl Value, index: Option<u32>, origin: Option<Origin>) -> Retrieved {
    let facts = index.map(|index| Facts::new(LinkFacts { index }));
    Retrieved { key, value: ValueRef::new(value), facts, origin }
}
