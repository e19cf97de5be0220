//! Refresh: what a resync has to read, and taking in what was read.
//!
//! Decided here: which kinds and items are read when, and what each read is asked with. What an item that was read, or was
//! not found, means for the graph is in [`crate::resync`].

use rustc_hash::{FxHashMap, FxHashSet};

use crate::descriptor::Reads;
use crate::graph::node::{Id, NO, Node};
use crate::key::Key;
use crate::operation::{Act, Expected, Listing, OpId, Operation, Retrieved};
use crate::registry::KindId;
use crate::txn::Change;
use crate::walk::{Core, Walk};

/// What a resync still has to read.
pub(crate) struct Refresh {
    /// Kinds by rounds; a round is read after the one before it.
    rounds: std::collections::VecDeque<Vec<KindId>>,
    /// Kinds that are not as they were listed, and are read in full as the next round.
    in_full: Vec<KindId>,
    /// Items to be read by key, instead of kinds.
    keys: Vec<Id>,
    under_way: FxHashMap<OpId, Reading>,
    next_op: u32,
    /// Kinds that were read in full.
    read: Vec<KindId>,
    found: Vec<(KindId, Option<Listing>, Vec<Retrieved>)>,
    found_keys: Vec<(Id, Option<Retrieved>)>,
    handed_out: bool,
    /// What is about to be declared: on the first resync, systems that cannot name things correlate with it.
    announced: Vec<(KindId, Expected)>,
    /// The keys that are about to be declared and were not before.
    announced_keys: FxHashSet<Key>,
}

enum Reading {
    Kind(KindId, Option<Listing>),
    Item(Id),
}

/// What a read brought.
pub(crate) enum Read {
    /// The actuator could not read, which leaves what is remembered.
    Nothing,
    /// The item, or everything of the kind.
    Found(Vec<Retrieved>),
    /// Everything of the kind, as a listing that can be asked about.
    Listed(Listing, Vec<Retrieved>),
    /// Everything is as in the listing that was asked about.
    AsListed,
    /// Something may not be.
    NotAsListed,
}

impl Refresh {
    /// Reads every kind that can be read.
    /// What is about to be declared comes with its vertices, if there are any.
    pub(crate) fn everything<'a>(core: &Core, declared: impl Iterator<Item = (&'a Change, Id)>) -> Self {
        let readable = |kind: &KindId| core.registry.descriptor(*kind).reads() == Reads::Itself;
        let rounds =
            core.registry.read_order().into_iter().map(|round| round.into_iter().filter(readable).collect());
        let mut announced = Vec::new();
        let mut announced_keys = FxHashSet::default();
        for (change, place) in declared {
            let Some(value) = &change.value else { continue };
            let node = (place != NO).then(|| &core.graph[place]);
            if node.is_none_or(|node| node.declared.is_none()) {
                announced_keys.insert(change.key.clone());
            }
            if node.is_some_and(Node::exists) {
                continue;
            }
            if let Some(kind) = core.registry.owner(change.key.as_str())
                && core.registry.descriptor(kind).correlates()
            {
                let expected = Expected { key: change.key.clone(), value: value.clone(), facts: None };
                announced.push((kind, expected));
            }
        }
        Self { announced, announced_keys, ..Self::of_items(Vec::new(), rounds.collect()) }
    }

    /// Reads these items.
    pub(crate) fn of_items(keys: Vec<Id>, rounds: std::collections::VecDeque<Vec<KindId>>) -> Self {
        Self {
            rounds,
            keys,
            in_full: Vec::new(),
            under_way: FxHashMap::default(),
            next_op: 0,
            read: Vec::new(),
            found: Vec::new(),
            found_keys: Vec::new(),
            handed_out: false,
            announced: Vec::new(),
            announced_keys: FxHashSet::default(),
        }
    }

    /// The reads that may run now.
    pub(crate) fn ready(&mut self, core: &Core) -> Vec<Operation> {
        let mut operations = Vec::new();
        if !self.handed_out {
            self.handed_out = true;
            for id in std::mem::take(&mut self.keys) {
                let node = &core.graph[id];
                let Some(kind) = node.kind.get() else { continue };
                let act = Act::Retrieve {
                    key: node.key.clone(),
                    expected: node.actual.clone().or_else(|| node.declared.clone()),
                    facts: node.facts.clone(),
                };
                operations.push(self.hand_out(kind, act, Reading::Item(id)));
            }
        }
        while self.under_way.is_empty() {
            let in_full = std::mem::take(&mut self.in_full);
            let asked_again = !in_full.is_empty();
            let round = if asked_again { Some(in_full) } else { self.rounds.pop_front() };
            let Some(round) = round else { break };
            let since: Vec<Option<Listing>> =
                round.iter().map(|kind| self.since(core, *kind).filter(|_| !asked_again)).collect();
            let expected = self.expected(core, &round, &since);
            for ((kind, expected), since) in round.into_iter().zip(expected).zip(since) {
                let act = Act::RetrieveAll { expected, since };
                operations.push(self.hand_out(kind, act, Reading::Kind(kind, since)));
            }
        }
        operations
    }

    fn hand_out(&mut self, kind: KindId, act: Act, reading: Reading) -> Operation {
        let id = OpId(self.next_op);
        self.next_op += 1;
        self.under_way.insert(id, reading);
        Operation { id, kind, act }
    }

    /// The listing that says all that is expected of a kind, if there is one.
    fn since(&self, core: &Core, kind: KindId) -> Option<Listing> {
        let announced = self.announced.iter().any(|(other, _)| *other == kind);
        core.graph.listings.get(kind).filter(|_| !announced)
    }

    /// What is expected of each of these kinds, in the order of the keys; one pass over the graph for all of them.
    fn expected(&self, core: &Core, kinds: &[KindId], since: &[Option<Listing>]) -> Vec<Vec<Expected>> {
        let mut lists: Vec<Vec<Expected>> = vec![Vec::new(); kinds.len()];
        let mut places: Vec<Option<usize>> = Vec::new();
        for (at, kind) in kinds.iter().enumerate() {
            if since[at].is_none() && core.registry.descriptor(*kind).correlates() {
                places.resize(places.len().max(kind.index() + 1), None);
                places[kind.index()] = Some(at);
            }
        }
        if places.is_empty() {
            return lists;
        }
        let place = |kind: KindId| places.get(kind.index()).copied().flatten();
        for node in core.graph.ids().map(|id| &core.graph[id]) {
            if let (Some(at), Some(value)) = (place(node.kind), &node.actual) {
                let (key, value) = (node.key.clone(), value.clone());
                lists[at].push(Expected { key, value, facts: node.facts.clone() });
            }
        }
        for (kind, announced) in &self.announced {
            if let Some(at) = place(*kind) {
                lists[at].push(announced.clone());
            }
        }
        for list in &mut lists {
            list.sort_by(|a, b| a.key.cmp(&b.key));
        }
        lists
    }

    /// What an operation reads: an item, or a kind by its name.
    pub(crate) fn what(&self, core: &Core, op: OpId) -> Option<Key> {
        match self.under_way.get(&op)? {
            Reading::Kind(kind, _) => Some(Key::new(core.registry.name(*kind))),
            Reading::Item(id) => Some(core.graph[*id].key.clone()),
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.under_way.is_empty() && self.rounds.is_empty() && self.in_full.is_empty() && self.handed_out
    }

    /// Takes an answer. One that says that everything is as listed says that what is remembered is right.
    pub(crate) fn answer(&mut self, op: OpId, read: Read) {
        let reading = self.under_way.remove(&op).expect("a read is answered once, after it was handed out");
        match (reading, read) {
            (_, Read::Nothing | Read::AsListed) => {}
            (Reading::Kind(kind, Some(_)), Read::NotAsListed) => self.in_full.push(kind),
            (Reading::Kind(kind, _), Read::Found(found)) => {
                self.read.push(kind);
                self.found.push((kind, None, found));
            }
            (Reading::Kind(kind, _), Read::Listed(listing, found)) => {
                self.read.push(kind);
                self.found.push((kind, Some(listing), found));
            }
            (Reading::Item(id), Read::Found(found) | Read::Listed(_, found)) => {
                self.found_keys.push((id, found.into_iter().next()));
            }
            (Reading::Kind(_, None) | Reading::Item(_), Read::NotAsListed) => {}
        }
    }

    /// Writes what was found into the graph.
    pub(crate) fn apply(mut self, walk: &mut Walk, core: &mut Core) {
        core.graph.epoch += 1;
        let sweep = core.graph.epoch;
        let mut again: Vec<Id> = Vec::new();
        for (id, found) in std::mem::take(&mut self.found_keys) {
            match found {
                Some(found) => walk.take_in(core, id, found, sweep, false),
                None => walk.miss(core, id),
            }
            // A derived item is declared by its base.
            let base = core.graph.base_of(id);
            if core.graph[base].declared.is_some() || core.graph[base].refused().is_some() {
                again.push(base);
            }
        }
        again.sort_unstable();
        again.dedup();
        for id in again {
            walk.stage_again(core, id, 0);
        }
        for (kind, listing, list) in std::mem::take(&mut self.found) {
            core.graph.listings.forget(kind);
            let mut told_apart = true;
            for found in list {
                told_apart &= found.origin.is_some();
                let known = core.graph.find(found.key.as_str()).filter(|id| core.graph[*id].kind == kind);
                let id = match known {
                    Some(id) => id,
                    None if core.registry.owner(found.key.as_str()) == Some(kind) => {
                        core.graph.intern_key(&found.key, &core.registry)
                    }
                    None => {
                        walk.ignored.push(found.key);
                        told_apart = false;
                        continue;
                    }
                };
                if core.graph[id].seen != sweep {
                    let announced = found.origin.is_none() && self.announced_keys.contains(&found.key);
                    walk.take_in(core, id, found, sweep, announced);
                }
            }
            // Whose an item is may depend on what is declared, unless the system tells.
            if let Some(listing) = listing.filter(|_| told_apart) {
                core.graph.listings.keep(kind, listing);
            }
        }
        if self.read.is_empty() {
            return;
        }
        let mut was_read = vec![false; usize::from(u16::MAX) + 1];
        for kind in &self.read {
            was_read[kind.index()] = true;
        }
        let mut missing: Vec<Id> = core
            .graph
            .ids()
            .filter(|id| {
                let node = &core.graph[*id];
                node.exists()
                    && node.seen != sweep
                    && node.kind.get().is_some_and(|kind| was_read[kind.index()])
            })
            .collect();
        crate::graph::sort_by_key(&core.graph, &mut missing, |id| *id);
        for id in missing {
            walk.miss(core, id);
        }
        walk.link_leftovers(core);
    }
}
