//! Resync: re-reading what is, and re-declaring what shall be.
//!
//! What a refresh finds changes only what is remembered. A fresh agent never deletes what it has not been told about
//! yet: only a full or upstream resync, which says what shall be, removes what it does not name.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::descriptor::Reads;
use crate::graph::node::{EdgeBits, Flags, Id, NO, Node};
use crate::key::Key;
use crate::operation::{Act, Expected, OpId, Operation, Retrieved};
use crate::record::Action;
use crate::registry::KindId;
use crate::state::{Origin, State};
use crate::txn::{Change, Undeclared};
use crate::walk::put::restage_needs;
use crate::walk::readback::{is_as_applied, is_equivalent};
use crate::walk::{Core, Walk};

/// What a resync still has to read.
pub(crate) struct Refresh {
    /// Kinds by rounds; a round is read after the one before it.
    rounds: std::collections::VecDeque<Vec<KindId>>,
    /// Items to be read by key, instead of kinds.
    keys: Vec<Id>,
    under_way: FxHashMap<OpId, Reading>,
    next_op: u32,
    /// Kinds that were read in full.
    read: Vec<KindId>,
    found: Vec<(KindId, Vec<Retrieved>)>,
    found_keys: Vec<(Id, Option<Retrieved>)>,
    handed_out: bool,
    /// What is about to be declared: on the first resync, systems that cannot name things correlate with it.
    announced: Vec<(KindId, Expected)>,
    /// The keys that are about to be declared and were not before.
    announced_keys: FxHashSet<Key>,
}

enum Reading {
    Kind(KindId),
    Item(Id),
}

impl Refresh {
    /// Reads every kind that can be read.
    pub(crate) fn everything(core: &Core, declared: &[Change]) -> Self {
        let readable = |kind: &KindId| core.registry.descriptor(*kind).reads() == Reads::Itself;
        let rounds =
            core.registry.read_order().into_iter().map(|round| round.into_iter().filter(readable).collect());
        let mut announced = Vec::new();
        let mut announced_keys = FxHashSet::default();
        for change in declared {
            let Some(value) = &change.value else { continue };
            let node = core.graph.find(change.key.as_str()).map(|id| &core.graph[id]);
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
            let Some(round) = self.rounds.pop_front() else { break };
            let expected = self.expected(core, &round);
            for (kind, expected) in round.into_iter().zip(expected) {
                let act = Act::RetrieveAll { expected };
                operations.push(self.hand_out(kind, act, Reading::Kind(kind)));
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

    /// What is expected of each of these kinds, in the order of the keys; one pass over the graph for all of them.
    fn expected(&self, core: &Core, kinds: &[KindId]) -> Vec<Vec<Expected>> {
        let mut lists: Vec<Vec<Expected>> = vec![Vec::new(); kinds.len()];
        let mut places: Vec<Option<usize>> = Vec::new();
        for (at, kind) in kinds.iter().enumerate() {
            if core.registry.descriptor(*kind).correlates() {
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
            Reading::Kind(kind) => Some(Key::new(core.registry.name(*kind))),
            Reading::Item(id) => Some(core.graph[*id].key.clone()),
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.under_way.is_empty() && self.rounds.is_empty() && self.handed_out
    }

    /// Takes an answer; `None` if the actuator could not read, which leaves what is remembered.
    pub(crate) fn answer(&mut self, op: OpId, found: Option<Vec<Retrieved>>) {
        let reading = self.under_way.remove(&op).expect("a read is answered once, after it was handed out");
        match (reading, found) {
            (_, None) => {}
            (Reading::Kind(kind), Some(found)) => {
                self.read.push(kind);
                self.found.push((kind, found));
            }
            (Reading::Item(id), Some(found)) => self.found_keys.push((id, found.into_iter().next())),
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
        for (kind, list) in std::mem::take(&mut self.found) {
            for found in list {
                let known = core.graph.find(found.key.as_str()).filter(|id| core.graph[*id].kind == kind);
                let id = match known {
                    Some(id) => id,
                    None if core.registry.owner(found.key.as_str()) == Some(kind) => {
                        core.graph.intern_key(&found.key, &core.registry)
                    }
                    None => {
                        walk.ignored.push(found.key);
                        continue;
                    }
                };
                if core.graph[id].seen != sweep {
                    let announced = found.origin.is_none() && self.announced_keys.contains(&found.key);
                    walk.take_in(core, id, found, sweep, announced);
                }
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

impl Walk {
    /// An item was read.
    fn take_in(&mut self, core: &mut Core, id: Id, found: Retrieved, sweep: u32, announced: bool) {
        let node = &mut core.graph[id];
        node.seen = sweep;
        let known_as_ours = announced
            || node.declared.is_some()
            || node.refused().is_some()
            || (node.exists() && !node.has(Flags::OBSERVED));
        let observed = match found.origin {
            Some(origin) => origin == Origin::Observed,
            None => !known_as_ours,
        };
        let ours_as_before = node.has(Flags::OBSERVED) == observed;
        let rank = 0;
        let same = ours_as_before
            && (is_equivalent(core, id, &found.value) || is_as_applied(core, id, &found.value));
        let node = &mut core.graph[id];
        if found.facts.is_some() || !same {
            node.facts = found.facts;
        }
        if same && node.awaited().is_none() {
            if !node.derived.is_empty() && node.actual.as_ref() != Some(&found.value) {
                self.learn_parts(core, id, Some(&found.value));
                self.again.clear();
            }
            return;
        }
        self.visit(core, id, rank);
        let existed = core.graph[id].exists();
        let undeclared = core.graph[id].declared.is_none() && core.graph[id].refused().is_none();
        if undeclared && observed && !existed {
            let at = core.graph[id].visit;
            self.visits[at as usize].note = Some(Action::Observe);
        }
        core.graph.set_actual(id, Some(found.value.clone()), observed, &mut self.touched);
        self.enqueue_touched(rank);
        if let Some(rare) = core.graph[id].rare.as_mut() {
            rare.awaited = None;
        }
        if let Some(at) = core.graph[id].needs.iter().position(|edge| edge.bits.has(EdgeBits::BASE)) {
            core.graph[id].needs[at].bits.set(EdgeBits::ACTUAL, true);
        }
        restage_needs(core, id, EdgeBits::ACTUAL);
        self.learn_how(core, id);
        if undeclared && observed {
            self.observe_derived(core, id, rank);
        } else {
            self.learn_parts(core, id, Some(&found.value));
        }
        self.again.clear();
    }

    /// An item that was there was not found.
    fn miss(&mut self, core: &mut Core, id: Id) {
        if !core.graph[id].exists() {
            return;
        }
        let rank = 0;
        let at = self.visit(core, id, rank);
        let node = &core.graph[id];
        let (declared, made_here) = (node.declared.is_some(), node.has(Flags::APPLIED));
        if node.declared.is_none() && node.is_observed() {
            self.visits[at as usize].note = Some(Action::Forget);
        }
        let observed = node.is_observed();
        let refused = node.refused().is_some();
        let failure = node.failure().cloned();
        self.take_away(core, id);
        self.unstick_derived(core, id, rank);
        let node = &mut core.graph[id];
        if refused {
            node.declared = None;
        }
        node.flags.set(Flags::MISSING, declared && made_here && !refused);
        if failure.is_some() && declared {
            node.rare().failure = failure;
        }
        restage_needs(core, id, EdgeBits::DECLARED);
        self.learn_parts(core, id, None);
        self.again.clear();
        if observed && core.graph[id].declared.is_none() {
            self.observe_derived(core, id, rank);
        }
    }

    /// Items of ours that the actual value of a base derives and that were read by themselves belong to it.
    fn link_leftovers(&mut self, core: &mut Core) {
        for at in 0..self.visits.len() {
            let id = self.visits[at].id;
            let node = &core.graph[id];
            let (Some(kind), Some(value), NO) = (node.kind.get(), &node.actual, node.base) else { continue };
            let mut derived = std::mem::take(&mut core.derived);
            derived.clear();
            core.registry.descriptor(kind).derive(&node.key, value, &mut derived);
            for (key, _) in derived.iter() {
                let Some(child) = core.graph.find(key) else { continue };
                let node = &core.graph[child];
                if node.exists() && node.base == NO && node.declared.is_none() && child != id {
                    core.graph.link_base(child, id);
                    core.graph[child].flags.set(Flags::WAS_DERIVED, true);
                    core.graph.add_edge(child, id, EdgeBits::BASE.with(EdgeBits::ACTUAL));
                }
            }
            core.derived = derived;
        }
    }

    /// Everything that is not as it should be is looked at again: failed, held, missing, half done.
    pub(crate) fn stage_unsettled(&mut self, core: &mut Core) {
        let mut unsettled: Vec<Id> = core
            .graph
            .ids()
            .filter(|id| {
                let node = &core.graph[*id];
                node.failure().is_some()
                    || node.has(Flags::HELD)
                    || node.has(Flags::MISSING)
                    || node.has(Flags::STUCK)
                    || (node.declared.is_some() && node.exists() && !node.has(Flags::APPLIED))
                    || node.refused().is_some()
                    || (node.exists() && node.declared.is_none() && node.has(Flags::DOOMED))
            })
            .map(|id| core.graph.base_of(id))
            .collect();
        unsettled.sort_unstable();
        unsettled.dedup();
        crate::graph::sort_by_key(&core.graph, &mut unsettled, |id| *id);
        for (rank, id) in (0_u32..).zip(unsettled) {
            self.stage_again(core, id, rank);
        }
    }

    /// Removes every declaration that the resync did not name, and the leftovers of ours that it does not spare.
    pub(crate) fn stage_rest_as_removed(
        &mut self,
        core: &mut Core,
        sweep: u32,
        rank: u32,
        undeclared: &Undeclared,
    ) {
        let mut rest: Vec<Id> = core
            .graph
            .ids()
            .filter(|id| {
                let node = &core.graph[*id];
                let orphan = node.base == NO || core.graph[node.base].declared.is_none();
                let base = (node.base != NO).then(|| &core.graph[node.base].key);
                let leftover = node.exists()
                    && !node.has(Flags::OBSERVED)
                    && orphan
                    && undeclared.removes(&node.key, base);
                node.seen != sweep
                    && !node.has(Flags::DERIVED)
                    && (node.declared.is_some() || node.refused().is_some() || leftover)
                    && core.graph.state(*id) != State::Nonexistent
            })
            .collect();
        crate::graph::sort_by_key(&core.graph, &mut rest, |id| *id);
        for (more, id) in (0_u32..).zip(rest) {
            self.stage_remove(core, id, rank + more);
        }
    }
}
