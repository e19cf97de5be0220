//! Staging: how each kind of transaction writes what it asks into the graph, and how it is told to have ended.

use crate::descriptor::Reads;
use crate::graph::node::{EdgeBits, Flags, Id, NO};
use crate::graph::{DeclaredLast, Graph, sort_by_key};
use crate::key::Key;
use crate::record::{Argument, Outcome, TxnType};
use crate::state::{Seq, State};
use crate::txn::{Change, Request, Resync, RetryOrder, Undeclared};
use crate::walk::put::restage_needs;
use crate::walk::{Core, How, Walk};

pub(crate) fn txn_type(request: &Request) -> TxnType {
    match request {
        Request::Changes { on_failure, .. } => TxnType::Changes { on_failure: *on_failure },
        Request::Resync(Resync::Full(_)) => TxnType::FullResync,
        Request::Resync(Resync::Upstream(_)) => TxnType::UpstreamResync,
        Request::Resync(Resync::Downstream) => TxnType::DownstreamResync,
        Request::Resync(Resync::Refresh(_)) => TxnType::Refresh,
        Request::Notification(_) => TxnType::Notification,
        Request::Retry(order) => TxnType::Retry { of: order.of, attempt: order.attempt },
        Request::LateKind => TxnType::LateKind,
        Request::Overdue(_) => TxnType::Overdue,
    }
}

/// By key; of several changes of one key the last wins.
pub(crate) fn in_order(mut changes: Vec<Change>) -> Vec<Change> {
    if !changes.is_sorted_by(|a, b| a.key < b.key) {
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        let mut at = 0;
        changes.dedup_by(|later, earlier| {
            at += 1;
            let same = later.key == earlier.key;
            if same {
                std::mem::swap(later, earlier);
            }
            same
        });
    }
    changes
}

/// What a resync declares.
pub(crate) struct Declared {
    /// As it was asked.
    changes: Vec<Change>,
    /// For each place by key, which of them; empty if they were asked by key.
    by_key: Vec<u32>,
    /// The vertex of each by key, if there is one.
    places: Vec<Id>,
    /// Whether the same, asked again, may be recognised: no key was asked for twice.
    is_plain: bool,
    /// Whether all of them were declared the last time, and are there.
    pub(crate) is_there: bool,
}

impl Declared {
    /// Finds the order of changes and their vertices. Those that were declared the last time, in the same order, are
    /// recognised by one look at each.
    pub(crate) fn new(graph: &Graph, changes: Vec<Change>) -> Self {
        let DeclaredLast { ids, by_key } = &graph.declared_last;
        let mut is_there = true;
        let is_same = |(place, id): (usize, &Id)| {
            let (node, change) = (&graph[*id], in_place(&changes, by_key, place));
            is_there &= node.declared.is_some() && node.exists() && change.value.is_some();
            node.key == change.key
        };
        if ids.len() == changes.len() && ids.iter().enumerate().all(is_same) {
            return Self { changes, by_key: by_key.clone(), places: ids.clone(), is_plain: true, is_there };
        }
        let by_key = order_of(&changes);
        let is_plain = by_key.is_some();
        let changes = if is_plain { changes } else { in_order(changes) };
        let by_key = by_key.unwrap_or_default();
        let find = |place| graph.find(in_place(&changes, &by_key, place).key.as_str()).unwrap_or(NO);
        let places = (0..changes.len()).map(find).collect();
        Self { changes, by_key, places, is_plain, is_there: false }
    }

    /// The changes by key, each with its vertex.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (&Change, Id)> {
        let change = |place| in_place(&self.changes, &self.by_key, place);
        self.places.iter().enumerate().map(move |(place, id)| (change(place), *id))
    }
}

/// The change at a place by key.
fn in_place<'a>(changes: &'a [Change], by_key: &[u32], place: usize) -> &'a Change {
    &changes[by_key.get(place).map_or(place, |at| *at as usize)]
}

/// Which of the changes is at each place by key; empty if they are in order, `None` if one key is there twice.
fn order_of(changes: &[Change]) -> Option<Vec<u32>> {
    if changes.is_sorted_by(|a, b| a.key < b.key) {
        return Some(Vec::new());
    }
    let count = u32::try_from(changes.len()).ok()?;
    let mut by_key: Vec<u32> = (0..count).collect();
    let key = |at: u32| &changes[at as usize].key;
    by_key.sort_by(|a, b| key(*a).cmp(key(*b)));
    let is_twice = by_key.windows(2).any(|pair| key(pair[0]) == key(pair[1]));
    (!is_twice).then_some(by_key)
}

fn argument(change: Change) -> Argument {
    Argument { key: change.key, value: change.value }
}

pub(crate) fn arguments(changes: Vec<Change>) -> Vec<Argument> {
    changes.into_iter().map(argument).collect()
}

/// The arguments by key.
fn arguments_in_order(changes: Vec<Change>, by_key: &[u32]) -> Vec<Argument> {
    if by_key.is_empty() {
        return arguments(changes);
    }
    let mut changes: Vec<Option<Change>> = changes.into_iter().map(Some).collect();
    let taken = by_key.iter().filter_map(|at| changes[*at as usize].take());
    taken.map(argument).collect()
}

/// Stages changes in key order.
pub(crate) fn stage_changes(walk: &mut Walk, core: &mut Core, changes: &[Change]) {
    let mut places = vec![NO; changes.len()];
    walk.visits.reserve(changes.len());
    stage_placed(walk, core, changes, &[], &mut places);
}

/// Stages changes in key order, each at its vertex if one is named; names those that were not. What they put carries the
/// number of the sweep that is returned.
fn stage_placed(
    walk: &mut Walk,
    core: &mut Core,
    changes: &[Change],
    by_key: &[u32],
    places: &mut [Id],
) -> u32 {
    core.graph.epoch += 1;
    let sweep = core.graph.epoch;
    core.graph.reserve(places.iter().filter(|place| **place == NO).count());
    for (rank, (at, place)) in (0_u32..).zip(places.iter_mut().enumerate()) {
        let change = in_place(changes, by_key, at);
        match &change.value {
            Some(value) => {
                if *place == NO {
                    *place = core.graph.intern_key(&change.key, &core.registry);
                }
                walk.stage_put(core, *place, change, value, rank);
                core.graph[*place].seen = sweep;
            }
            None => {
                if let Some(id) = core.graph.find(change.key.as_str()) {
                    walk.stage_remove(core, id, rank);
                }
            }
        }
    }
    sweep
}

/// Stages a resync after its reads.
pub(crate) fn stage_resync(walk: &mut Walk, core: &mut Core, resync: Pending, undeclared: &Undeclared) {
    match resync {
        Pending::Declare(Declared { changes, by_key, mut places, is_plain, .. }) => {
            let sweep = stage_placed(walk, core, &changes, &by_key, &mut places);
            let rank = u32::try_from(changes.len()).unwrap_or(NO - 1);
            let removed = walk.stage_rest_as_removed(core, sweep, rank, undeclared);
            walk.stage_unsettled(core, removed);
            walk.arguments = arguments_in_order(changes, &by_key);
            let is_whole = is_plain && !places.contains(&NO);
            core.graph.declared_last =
                if is_whole { DeclaredLast { ids: places, by_key } } else { DeclaredLast::default() };
        }
        Pending::Downstream => walk.stage_unsettled(core, None),
        Pending::Refresh => {}
    }
}

/// What is left of a resync when its reads are over.
pub(crate) enum Pending {
    Declare(Declared),
    Downstream,
    Refresh,
}

/// Whether a failed item has not been declared anew since.
pub(crate) fn is_retry_wanted(core: &Core, key: &Key, revision: Seq) -> bool {
    let Some(id) = core.graph.find(key.as_str()) else { return false };
    let node = &core.graph[id];
    let failed = |id: Id| core.graph[id].failure().is_some_and(|failure| failure.next_attempt.is_some());
    node.revision <= revision && (failed(id) || node.derived.iter().any(|child| failed(*child)))
}

pub(crate) fn stage_retry(walk: &mut Walk, core: &mut Core, order: &RetryOrder) {
    walk.is_retry = true;
    walk.attempt = order.attempt;
    for (rank, (key, revision)) in (0_u32..).zip(&order.items) {
        if !is_retry_wanted(core, key, *revision) {
            continue;
        }
        let Some(id) = core.graph.find(key.as_str()) else { continue };
        walk.stage_again(core, id, rank);
        let at = core.graph[id].visit;
        walk.visits[at as usize].own = true;
        for at in 0..core.graph[id].derived.len() {
            let child = core.graph[id].derived[at];
            walk.stage(core, child, rank);
            walk.forgive(core, child);
        }
    }
}

pub(crate) fn stage_late_is_needed(core: &Core) -> bool {
    core.graph.ids().any(|id| is_late(core, id))
}

pub(crate) fn is_late(core: &Core, id: Id) -> bool {
    core.graph[id].kind.get().is_none() && core.registry.owner(core.graph[id].key.as_str()).is_some()
}

/// Gives the items of a late kind to it. Those that it reads are looked at first: what is there already is taken over.
pub(crate) fn stage_late(walk: &mut Walk, core: &mut Core) -> Vec<Id> {
    let mut late: Vec<Id> = core.graph.ids().filter(|id| is_late(core, *id)).collect();
    sort_by_key(&core.graph, &mut late, |id| *id);
    let mut reads = Vec::new();
    for (rank, id) in (0_u32..).zip(late) {
        let Some(kind) = core.registry.owner(core.graph[id].key.as_str()) else { continue };
        if core.graph[id].declared.is_none() {
            core.graph[id].kind = kind;
            continue;
        }
        walk.stage(core, id, rank);
        if core.graph[id].exists() {
            // It was a property, there with its base; from now on somebody makes it.
            walk.take_away(core, id);
        }
        core.graph[id].kind = kind;
        if core.graph[id].has(Flags::DERIVED) {
            let base = core.graph[id].base;
            walk.stage_derived(core, base, rank);
            restage_needs(core, id, EdgeBits::DECLARED);
        } else if core.registry.descriptor(kind).reads() == Reads::Itself {
            reads.push(id);
        } else {
            walk.stage_again(core, id, rank);
        }
    }
    reads
}

/// Whether an item has not come to be what it shall be, and nothing failed.
pub(crate) fn is_waiting(graph: &Graph, id: Id) -> bool {
    matches!(graph.state(id), State::Pending | State::Unimplemented | State::Applying | State::Removing)
}

impl Walk {
    /// How the transaction ended.
    pub(crate) fn outcome(&self, core: &Core) -> Outcome {
        if let Some(cause) = self.revert_cause.clone() {
            return match self.revert_failures.first() {
                None => Outcome::Reverted(cause),
                Some(revert) => Outcome::RevertFailed { cause, revert: revert.clone() },
            };
        }
        if let Some(cause) = self.failures.first() {
            return Outcome::Incomplete(cause.clone());
        }
        let waits = |id: Id| is_waiting(&core.graph, id);
        let visited = self.visits.iter().any(|visit| self.is_own(core, visit.id) && waits(visit.id));
        // What waits and was asked for as it is was looked at when that was found; only a visit can have changed it.
        let asked = if self.visits.is_empty() {
            self.unchanged_waits
        } else {
            self.unchanged
                .iter()
                .any(|id| waits(*id) || core.graph[*id].derived.iter().any(|child| waits(*child)))
        };
        if visited || asked { Outcome::AppliedWithPending } else { Outcome::Applied }
    }

    /// Orders the transaction's own changes for people: removals, re-creations, creations, updates, each by key.
    pub(crate) fn rank_own(&mut self, core: &Core) {
        let class = |walk: &Self, id: Id| {
            let node = &core.graph[id];
            let recreate = walk.visit_of(core, id).is_some_and(|visit| matches!(visit.how, How::Recreate(_)));
            match (node.declared.is_some(), node.exists()) {
                (false, _) => 0_u8,
                (true, true) if recreate => 1,
                (true, false) => 2,
                (true, true) => 3,
            }
        };
        let mut classes: Vec<(u8, u32)> = Vec::new();
        for visit in &self.visits {
            let at = visit.rank as usize;
            if classes.len() <= at {
                classes.resize(at + 1, (u8::MAX, NO));
            }
            if core.graph[visit.id].base == NO || classes[at].0 == u8::MAX {
                classes[at] = (class(self, visit.id), visit.rank);
            }
        }
        let mut order: Vec<(u8, u32)> = classes.into_iter().filter(|(class, _)| *class != u8::MAX).collect();
        order.sort_by_key(|(class, _)| *class);
        let mut new_rank = vec![0_u32; order.iter().map(|(_, rank)| *rank as usize + 1).max().unwrap_or(0)];
        for (position, (_, rank)) in (0_u32..).zip(&order) {
            new_rank[*rank as usize] = position;
        }
        for visit in &mut self.visits {
            visit.rank = new_rank[visit.rank as usize];
        }
        for (_, rank) in &mut self.queue {
            if let Some(new) = new_rank.get(*rank as usize) {
                *rank = *new;
            }
        }
    }
}
