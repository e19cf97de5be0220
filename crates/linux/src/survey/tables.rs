//! The tables of the kernel, each read once for all kinds that are read in the same go.

use std::collections::HashMap;
use std::sync::Arc;

use kilter_model::linux::{NetnsName, Rule};

use super::archive::{Content, RouteRows, Table};
use super::refused;
use crate::link::read::{Seen, decode, request_all};
use crate::netlink::rtnl::{self, family};
use crate::netlink::{KernelError, Message, Received};
use crate::shared::Shared;
use crate::space::{Space, locked};
use crate::{address, fdb, neighbour, nftables, qdisc, rule};

pub(super) const FAMILIES: [u8; 2] = [family::INET, family::INET6];

/// Tables that were read, to be used for every kind that is read in the same go.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(super) spaces: Vec<(NetnsName, Arc<Space>)>,
    links: HashMap<NetnsName, Content<Seen>>,
    addresses: HashMap<NetnsName, Content<address::Seen>>,
    rules: HashMap<NetnsName, [Content<(Rule, u8)>; 2]>,
    neighbours: HashMap<NetnsName, [Content<neighbour::Seen>; 2]>,
    fdb: HashMap<NetnsName, Content<fdb::Seen>>,
    qdiscs: HashMap<NetnsName, Content<qdisc::Seen>>,
    routes: HashMap<NetnsName, [RouteRows; 2]>,
    filters: HashMap<NetnsName, Arc<Vec<nftables::Seen>>>,
}

/// Reads one table in a namespace, against what it was.
fn read<T: PartialEq + Clone>(
    shared: &Shared,
    space: &Space,
    table: &mut Table<T>,
    asked: (&Message, u16),
    what: &'static str,
    decode: impl Fn(&Received<'_>) -> Option<T>,
) -> Result<Content<T>, KernelError> {
    table.read(&shared.archive, &mut space.requests(), asked, decode).map_err(refused(what, space))
}

impl Tables {
    /// Nothing was read of these namespaces.
    pub(crate) fn of(spaces: Vec<(NetnsName, Arc<Space>)>) -> Self {
        Self { spaces, ..Self::default() }
    }

    /// How many namespaces they are of.
    pub(crate) fn spaces_count(&self) -> usize {
        self.spaces.len()
    }

    /// Reads what every resync compares. What cannot be read is told to whoever asks for it.
    pub(crate) fn read_ahead(&mut self, shared: &Shared) {
        for (netns, space) in self.spaces.clone() {
            let _ = self.links(shared, &netns, &space);
            let _ = self.addresses(shared, &netns, &space);
            let _ = self.rules(shared, &netns, &space);
            let _ = self.neighbours(shared, &netns, &space);
            let _ = self.routes(shared, &netns, &space);
            let _ = self.filters(shared, &netns, &space);
        }
    }

    /// Whether all that tells if a kind is as it was listed has been read.
    pub(crate) fn tell_of(&self, room: &str) -> bool {
        let all = |is_read: &dyn Fn(&NetnsName) -> bool| self.spaces.iter().all(|(netns, _)| is_read(netns));
        let links = |netns: &NetnsName| self.links.contains_key(netns);
        match room {
            "link" | "existing" | "up" | "port" => all(&links),
            "address" | "reach" | "unnumbered" => {
                all(&|netns| links(netns) && self.addresses.contains_key(netns))
            }
            "route" => all(&|netns| links(netns) && self.routes.contains_key(netns)),
            "rule" => all(&|netns| self.rules.contains_key(netns)),
            "neighbour" => all(&|netns| links(netns) && self.neighbours.contains_key(netns)),
            // What stands in a table of ours is listed by a program.
            "nftables" => all(&|netns| {
                self.filters.get(netns).is_some_and(|tables| tables.iter().all(|seen| seen.digest.is_none()))
            }),
            "fdb" | "qdisc" | "sysctl" => true,
            _ => false,
        }
    }

    pub(super) fn links(
        &mut self,
        shared: &Shared,
        netns: &NetnsName,
        space: &Space,
    ) -> Result<Content<Seen>, KernelError> {
        if let Some(links) = self.links.get(netns) {
            return Ok(links.clone());
        }
        let known = shared.archive.of(netns, space);
        let asked = (&request_all(), rtnl::NEWLINK);
        let links = read(shared, space, &mut locked(&known).links, asked, "read links", decode)?;
        for seen in links.seen.iter() {
            shared.note_link(&space.name, &seen.name, seen.index);
        }
        shared.formers.keep_links(space.cookie, links.seen.iter().map(|seen| seen.index));
        self.links.insert(netns.clone(), links.clone());
        Ok(links)
    }

    pub(super) fn addresses(
        &mut self,
        shared: &Shared,
        netns: &NetnsName,
        space: &Space,
    ) -> Result<Content<address::Seen>, KernelError> {
        if let Some(addresses) = self.addresses.get(netns) {
            return Ok(addresses.clone());
        }
        let known = shared.archive.of(netns, space);
        let asked = (&address::request_all(), rtnl::NEWADDR);
        let table = &mut locked(&known).addresses;
        let addresses = read(shared, space, table, asked, "read addresses", address::decode)?;
        self.addresses.insert(netns.clone(), addresses.clone());
        Ok(addresses)
    }

    /// By family.
    pub(super) fn rules(
        &mut self,
        shared: &Shared,
        netns: &NetnsName,
        space: &Space,
    ) -> Result<[Content<(Rule, u8)>; 2], KernelError> {
        if let Some(rules) = self.rules.get(netns) {
            return Ok(rules.clone());
        }
        let known = shared.archive.of(netns, space);
        let [v4, v6] = &mut locked(&known).rules;
        let one = |table: &mut Table<(Rule, u8)>, family: u8| {
            let asked = (&rule::request_all(family), rtnl::NEWRULE);
            read(shared, space, table, asked, "read rules", |received| rule::decode(received, netns))
        };
        let rules = [one(v4, FAMILIES[0])?, one(v6, FAMILIES[1])?];
        self.rules.insert(netns.clone(), rules.clone());
        Ok(rules)
    }

    /// Every neighbour, and every address that is answered for.
    pub(super) fn neighbours(
        &mut self,
        shared: &Shared,
        netns: &NetnsName,
        space: &Space,
    ) -> Result<[Content<neighbour::Seen>; 2], KernelError> {
        if let Some(neighbours) = self.neighbours.get(netns) {
            return Ok(neighbours.clone());
        }
        let known = shared.archive.of(netns, space);
        let [own, proxies] = &mut locked(&known).neighbours;
        let one = |table: &mut Table<neighbour::Seen>, proxy: bool| {
            let asked = (&neighbour::request_all(proxy), rtnl::NEWNEIGH);
            read(shared, space, table, asked, "read neighbours", neighbour::decode_lasting)
        };
        let neighbours = [one(own, false)?, one(proxies, true)?];
        self.neighbours.insert(netns.clone(), neighbours.clone());
        Ok(neighbours)
    }

    pub(super) fn fdb(
        &mut self,
        shared: &Shared,
        netns: &NetnsName,
        space: &Space,
    ) -> Result<Content<fdb::Seen>, KernelError> {
        if let Some(fdb) = self.fdb.get(netns) {
            return Ok(fdb.clone());
        }
        let known = shared.archive.of(netns, space);
        let asked = (&fdb::request_all(), rtnl::NEWNEIGH);
        let fdb = read(shared, space, &mut locked(&known).fdb, asked, "read forwarding tables", fdb::decode)?;
        self.fdb.insert(netns.clone(), fdb.clone());
        Ok(fdb)
    }

    pub(super) fn qdiscs(
        &mut self,
        shared: &Shared,
        netns: &NetnsName,
        space: &Space,
    ) -> Result<Content<qdisc::Seen>, KernelError> {
        if let Some(qdiscs) = self.qdiscs.get(netns) {
            return Ok(qdiscs.clone());
        }
        let known = shared.archive.of(netns, space);
        let asked = (&qdisc::request_all(), rtnl::NEWQDISC);
        let qdiscs = read(shared, space, &mut locked(&known).qdiscs, asked, "read qdiscs", qdisc::decode)?;
        self.qdiscs.insert(netns.clone(), qdiscs.clone());
        Ok(qdiscs)
    }

    /// Our own routes, by family.
    pub(super) fn routes(
        &mut self,
        shared: &Shared,
        netns: &NetnsName,
        space: &Space,
    ) -> Result<[RouteRows; 2], KernelError> {
        if let Some(routes) = self.routes.get(netns) {
            return Ok(routes.clone());
        }
        let known = shared.archive.of(netns, space);
        let [v4, v6] = &mut locked(&known).routes;
        let one = |rows: &mut RouteRows, family: u8| {
            let read = rows.read(&shared.archive, &mut space.requests(), family, shared.protocol());
            read.map_err(refused("read routes", space))
        };
        let routes = [one(v4, FAMILIES[0])?, one(v6, FAMILIES[1])?];
        self.routes.insert(netns.clone(), routes.clone());
        Ok(routes)
    }

    /// Tables of packet filters.
    pub(super) fn filters(
        &mut self,
        shared: &Shared,
        netns: &NetnsName,
        space: &Space,
    ) -> Result<Arc<Vec<nftables::Seen>>, KernelError> {
        if let Some(filters) = self.filters.get(netns) {
            return Ok(Arc::clone(filters));
        }
        let filters = Arc::new(nftables::tables(shared, space)?);
        self.filters.insert(netns.clone(), Arc::clone(&filters));
        Ok(filters)
    }
}
