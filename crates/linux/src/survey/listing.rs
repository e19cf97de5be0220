//! Everything of a kind, out of the tables of one namespace.

use std::collections::{HashMap, HashSet};

use kilter_model::declare::Declare as _;
use kilter_model::linux::{Fdb, LinkKind, Mac, Name, NetnsName, Rule, keys};
use kilter_scheduler::{Expected, Key, Origin, Retrieved, ValueRef};

use super::items::{
    By as _, address_item, by_index, existing_item, is_kernels_own, item, keys_of, link_item, namespace,
    owner, port_item, reaches, unnumbered_item, up_item,
};
use super::names::Names;
use super::{Survey, routes};
use crate::link::read::SeenKind;
use crate::netlink::KernelError;
use crate::shared::Shared;
use crate::space::Space;
use crate::{netns, nftables, sysctl};

impl Survey<'_> {
    pub(super) fn namespaces(&mut self, found: &mut Vec<Retrieved>) -> Result<(), KernelError> {
        netns::clear_all_debris(self.shared);
        for (name, space) in &self.tables.spaces {
            if name.is_host() {
                continue;
            }
            found.extend(namespace(self.shared, name, space)?);
        }
        Ok(())
    }

    pub(super) fn link_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        expected: &[Expected],
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let links = self.links(netns, space)?.seen;
        let declared: HashSet<&str> = expected.iter().map(|expected| expected.key.as_str()).collect();
        let mut names = Names::new(self.shared, netns, space, &links);
        for seen in links.iter() {
            let key = keys::link(netns, &seen.name);
            let known = seen.is_ours() || declared.contains(key.as_str());
            let link = link_item(netns, seen, known, &mut names);
            // Once it is expected, more is told of it.
            self.lasts &= known || !matches!(link.kind, LinkKind::Foreign { .. });
            found.push(item(key, link, Some(seen.index), Some(owner(seen.is_ours()))));
        }
        Ok(())
    }

    pub(super) fn existing_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        expected: &[Expected],
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let links = self.links(netns, space)?.seen;
        for Expected { key, .. } in expected {
            if let Some((owner, name)) = keys::netns_and_link(key.as_str())
                && owner == *netns
                && let Some(seen) = links.iter().find(|seen| seen.name == name)
            {
                let existing = existing_item(self.shared, netns, space, seen);
                found.push(item(key.clone(), existing, Some(seen.index), Some(Origin::Declared)));
            }
        }
        Ok(())
    }

    pub(super) fn up_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        for seen in self.links(netns, space)?.seen.iter().filter(|seen| seen.up) {
            found.push(up_item(self.shared, (netns, space.cookie), seen));
        }
        Ok(())
    }

    pub(super) fn port_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let links = self.links(netns, space)?.seen;
        for seen in links.iter() {
            let Some(master) = seen.master else { continue };
            if let Some(master) = links.iter().find(|link| link.index == master) {
                found.push(port_item(self.shared, (netns, space.cookie), seen, &master.name));
            }
        }
        Ok(())
    }

    pub(super) fn address_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let (links, addresses) = (self.links(netns, space)?.seen, self.addresses(netns, space)?.seen);
        let names: HashMap<u32, &Name> = links.iter().map(|link| (link.index, &link.name)).collect();
        for seen in addresses.iter().filter(|seen| seen.protocol != self.shared.borrowed_protocol()) {
            if let Some(link) = names.get(&seen.index) {
                found.push(address_item(self.shared, netns, link, seen));
            }
        }
        Ok(())
    }

    /// Networks that are reached by an address.
    pub(super) fn reach_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let (links, addresses) = (self.links(netns, space)?.seen, self.addresses(netns, space)?.seen);
        let links = by_index(&links);
        for seen in addresses.iter().filter(|seen| seen.protocol != self.shared.borrowed_protocol()) {
            if let Some(link) = links.get(&seen.index) {
                found.extend(reaches(self.shared, netns, link, seen));
            }
        }
        Ok(())
    }

    pub(super) fn unnumbered_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let protocol = self.shared.borrowed_protocol();
        let addresses = self.addresses(netns, space)?.seen;
        if addresses.iter().all(|seen| seen.protocol != protocol) {
            return Ok(());
        }
        let links = self.links(netns, space)?.seen;
        for link in links.iter() {
            found.extend(unnumbered_item(self.shared, netns, link, &links, &addresses));
        }
        Ok(())
    }

    pub(super) fn route_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        expected: &[Expected],
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let links = self.links(netns, space)?.seen;
        let own = self.tables.routes(self.shared, netns, space)?;
        self.lasts &= routes::items(self.shared, (netns, space), (&own, &links), expected, found)?;
        Ok(())
    }

    pub(super) fn rule_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        expected: &[Expected],
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let expected: HashMap<&Key, &ValueRef> =
            expected.iter().map(|expected| (&expected.key, &expected.value)).collect();
        let rules = self.tables.rules(self.shared, netns, space)?;
        // Several rules may have one priority: ours is the one that is meant.
        let start = found.len();
        let mut theirs: HashMap<Key, &Rule> = HashMap::new();
        for (rule, protocol) in rules.iter().flat_map(|table| table.seen.iter()) {
            let (key, ours) = (rule.key(), *protocol == self.shared.protocol());
            if ours {
                found.push(item(key, rule.clone(), None, Some(owner(true))));
            } else if let Some(expected) = expected.get(&key) {
                // Of several, one that is as expected.
                let as_expected = expected.downcast::<Rule>() == Some(rule);
                if as_expected || !theirs.contains_key(&key) {
                    theirs.insert(key, rule);
                }
            }
        }
        let ours: HashSet<Key> = found[start..].iter().map(|found| found.key.clone()).collect();
        for (key, rule) in theirs.into_iter().filter(|(key, _)| !ours.contains(key)) {
            found.push(item(key, rule.clone(), None, Some(owner(false))));
        }
        Ok(())
    }

    pub(super) fn neighbour_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        expected: &[Expected],
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let links = self.links(netns, space)?.seen;
        let (expected, links) = (keys_of(expected), by_index(&links));
        let neighbours = self.tables.neighbours(self.shared, netns, space)?;
        for seen in neighbours.iter().flat_map(|table| table.seen.iter()) {
            let Some(link) = links.get(&seen.index) else { continue };
            let Some(neighbour) = seen.item(netns, link.name.clone()) else { continue };
            let (key, ours) = (neighbour.key(), seen.protocol == self.shared.protocol());
            if ours || expected.contains(&key) {
                found.push(item(key, neighbour, None, Some(owner(ours))).by(self.shared, seen.protocol));
            }
        }
        Ok(())
    }

    pub(super) fn fdb_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        expected: &[Expected],
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let expected: HashMap<&Key, &Expected> = expected.iter().map(|one| (&one.key, one)).collect();
        let links = self.links(netns, space)?.seen;
        let known = by_index(&links);
        let macs: HashSet<Mac> = links.iter().filter_map(|link| link.mac).collect();
        for seen in self.tables.fdb(self.shared, netns, space)?.seen.iter() {
            let Some(link) = known.get(&seen.index) else { continue };
            let mut fdb = seen.item(netns, link.name.clone());
            let key = fdb.key();
            if let Some(expected) = expected.get(&key).filter(|_| !is_kernels_own(seen, &macs)) {
                if let (SeenKind::Vxlan(own), Some(said)) = (&link.kind, expected.value.downcast::<Fdb>()) {
                    // The kernel does not tell what an entry has in common with its tunnel.
                    fdb.port = fdb.port.or(said.port.filter(|port| *port == own.port()));
                    fdb.vni = fdb.vni.or(said.vni.filter(|_| said.vni == own.vni));
                }
                found.push(item(key, fdb, None, None));
            }
        }
        Ok(())
    }

    pub(super) fn qdisc_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        expected: &[Expected],
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        let expected = keys_of(expected);
        let links = self.links(netns, space)?.seen;
        let links = by_index(&links);
        for seen in self.tables.qdiscs(self.shared, netns, space)?.seen.iter() {
            if let Some(link) = links.get(&seen.index) {
                let qdisc = seen.item(netns, link.name.clone());
                let key = qdisc.key();
                if expected.contains(&key) {
                    found.push(item(key, qdisc, None, None));
                }
            }
        }
        Ok(())
    }

    pub(super) fn nftables_items(
        &mut self,
        netns: &NetnsName,
        space: &Space,
        found: &mut Vec<Retrieved>,
    ) -> Result<(), KernelError> {
        for seen in self.tables.filters(self.shared, netns, space)?.iter() {
            if seen.digest.is_some()
                && let Some(table) = nftables::item(self.shared, space, netns, seen)?
            {
                found.push(item(table.key(), table, None, Some(Origin::Declared)));
            }
        }
        Ok(())
    }
}

/// The kernel parameters that are expected, and those that we changed.
pub(super) fn sysctl_items(
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
