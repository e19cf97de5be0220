//! Reading what is: one item by its key, or everything of a kind.
//!
//! Decided here: which items there are and whose they are. What carries our mark is ours; links, addresses and what is
//! up are told also if they are not, because others stand on them; everything else of others only if it is declared, so
//! that a hundred thousand routes cost nothing. Whether a kind is as it was listed is seen with [`archive`].

mod archive;
mod items;
mod listing;
mod names;
mod one;
mod routes;
mod tables;

use kilter_model::linux::NetnsName;
use kilter_scheduler::{Answer, Expected, Listing, Retrieved};

use crate::address;
use crate::link::read::Seen;
use crate::netlink::{KernelError, Refusal};
use crate::shared::Shared;
use crate::space::{HOST, Space};
pub(crate) use archive::Archive;
use archive::Content;
pub use archive::read_after;
pub(crate) use items::link_family;
use listing::sysctl_items;
pub(crate) use names::decode_number;
pub(crate) use one::{link, one};
pub(crate) use tables::Tables;

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

/// What was read of the kernel, each table once.
pub(crate) struct Survey<'a> {
    shared: &'a Shared,
    tables: Tables,
    /// The kind that is being listed would be listed the same again, as long as nothing changes.
    lasts: bool,
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
        shared.archive.keep(&spaces);
        shared.formers.keep_namespaces(spaces.iter().map(|(_, space)| space.cookie));
        Ok(Self::resume(shared, Tables::of(spaces)))
    }

    /// Goes on with what was read before.
    pub(crate) fn resume(shared: &'a Shared, tables: Tables) -> Self {
        Self { shared, tables, lasts: true }
    }

    /// What was read, to go on with.
    pub(crate) fn into_tables(self) -> Tables {
        self.tables
    }

    /// Answers for a whole kind, by the second part of its keys.
    ///
    /// **Guarantees**: "as listed" rests on a read of every table that the listing depended on.
    pub(crate) fn answer(
        &mut self,
        room: &str,
        expected: &[Expected],
        since: Option<Listing>,
    ) -> Result<Answer, KernelError> {
        if matches!(room, "netns" | "nftables") {
            return self.answer_by_content(room, since);
        }
        let digest = self.digest(room)?;
        if let Some(since) = since {
            let same = digest.is_some_and(|digest| self.shared.archive.is_as_listed(room, since, digest));
            return Ok(if same { Answer::AsListed } else { Answer::NotAsListed });
        }
        self.lasts = expected.is_empty() || !matches!(room, "fdb" | "qdisc" | "sysctl");
        let found = self.all(room, expected)?;
        Ok(match digest.filter(|_| self.lasts) {
            Some(digest) => Answer::ListedAs(self.shared.archive.list(room, digest), found),
            None => Answer::Listed(found),
        })
    }

    /// The same for a kind of which there are few: it is listed every time.
    fn answer_by_content(&mut self, room: &str, since: Option<Listing>) -> Result<Answer, KernelError> {
        let found = self.all(room, &[])?;
        let mut digest = blake3::Hasher::new();
        for Retrieved { key, value, origin, .. } in &found {
            digest.update(format!("{key}\n{}\n{origin:?}\n", value.to_json()).as_bytes());
        }
        let digest = digest.finalize();
        let archive = &self.shared.archive;
        Ok(match since {
            Some(since) if archive.is_as_listed(room, since, digest) => Answer::AsListed,
            _ => Answer::ListedAs(archive.list(room, digest), found),
        })
    }

    /// A digest of all that the listing of a kind depends on, besides what is expected; `None` for a kind that has to be
    /// listed every time.
    fn digest(&mut self, room: &str) -> Result<Option<blake3::Hash>, KernelError> {
        let mut digest = blake3::Hasher::new();
        let spaces = self.tables.spaces.clone();
        for (netns, space) in &spaces {
            digest.update(netns.as_str().as_bytes()).update(&[0]).update(&space.cookie.to_ne_bytes());
            let mut number = |number: u64| {
                digest.update(&number.to_ne_bytes());
            };
            match room {
                "link" | "existing" | "up" | "port" => number(self.links(netns, space)?.number),
                "address" | "reach" | "unnumbered" => {
                    number(self.links(netns, space)?.number);
                    number(self.addresses(netns, space)?.number);
                }
                "route" => {
                    self.tables
                        .routes(self.shared, netns, space)?
                        .iter()
                        .for_each(|rows| number(rows.number));
                    for link in self.links(netns, space)?.seen.iter() {
                        digest.update(&link.index.to_ne_bytes()).update(link.name.as_bytes()).update(&[0]);
                    }
                }
                "rule" => {
                    let rules = self.tables.rules(self.shared, netns, space)?;
                    rules.iter().for_each(|table| number(table.number));
                }
                "neighbour" => {
                    number(self.links(netns, space)?.number);
                    let neighbours = self.tables.neighbours(self.shared, netns, space)?;
                    neighbours.iter().for_each(|table| number(table.number));
                }
                // Of these nothing is found that is not expected.
                "fdb" | "qdisc" => {}
                "sysctl" => {
                    for name in self.shared.parameters.changed_in(space) {
                        digest.update(name.as_bytes()).update(&[0]);
                    }
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(digest.finalize()))
    }

    fn links(&mut self, netns: &NetnsName, space: &Space) -> Result<Content<Seen>, KernelError> {
        self.tables.links(self.shared, netns, space)
    }

    fn addresses(&mut self, netns: &NetnsName, space: &Space) -> Result<Content<address::Seen>, KernelError> {
        self.tables.addresses(self.shared, netns, space)
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
        if expected.is_empty() && matches!(room, "fdb" | "qdisc") {
            return Ok(found);
        }
        for (netns, space) in &spaces {
            match room {
                "link" => self.link_items(netns, space, expected, &mut found)?,
                "existing" => self.existing_items(netns, space, expected, &mut found)?,
                "up" => self.up_items(netns, space, &mut found)?,
                "port" => self.port_items(netns, space, &mut found)?,
                "address" => self.address_items(netns, space, &mut found)?,
                "reach" => self.reach_items(netns, space, &mut found)?,
                "unnumbered" => self.unnumbered_items(netns, space, &mut found)?,
                "route" => self.route_items(netns, space, expected, &mut found)?,
                "rule" => self.rule_items(netns, space, expected, &mut found)?,
                "neighbour" => self.neighbour_items(netns, space, expected, &mut found)?,
                "fdb" => self.fdb_items(netns, space, expected, &mut found)?,
                "qdisc" => self.qdisc_items(netns, space, expected, &mut found)?,
                "sysctl" => {
                    sysctl_items(self.shared, netns, space, expected, &mut found)?;
                    self.lasts &= found.is_empty();
                }
                "nftables" => self.nftables_items(netns, space, &mut found)?,
                _ => {}
            }
        }
        Ok(found)
    }
}
