//! Staging: how each kind of transaction writes what it asks into the graph, and how it is told to have ended.

use crate::graph::node::{EdgeBits, Flags, Id, NO};
use crate::graph::sort_by_key;
use crate::key::Key;
use crate::record::{Argument, Outcome, TxnType};
use crate::registry::KindId;
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

pub(crate) fn arguments(changes: Vec<Change>) -> Vec<Argument> {
    changes.into_iter().map(|change| Argument { key: change.key, value: change.value }).collect()
}

/// Stages changes; what they put carries the number of the sweep that is returned.
pub(crate) fn stage_changes(walk: &mut Walk, core: &mut Core, changes: &[Change]) -> u32 {
    core.graph.epoch += 1;
    let sweep = core.graph.epoch;
    core.graph.reserve(changes.len());
    walk.visits.reserve(changes.len());
    for (rank, change) in (0_u32..).zip(changes) {
        match &change.value {
            Some(value) => {
                let id = walk.stage_put(core, change, value, rank);
                core.graph[id].seen = sweep;
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

pub(crate) fn stage_resync(walk: &mut Walk, core: &mut Core, resync: Resync, undeclared: &Undeclared) {
    match resync {
        Resync::Full(changes) | Resync::Upstream(changes) => {
            let changes: Vec<Change> = in_order(changes);
            let sweep = stage_changes(walk, core, &changes);
            let rank = u32::try_from(changes.len()).unwrap_or(NO - 1);
            walk.stage_rest_as_removed(core, sweep, rank, undeclared);
            walk.stage_unsettled(core);
            walk.arguments = arguments(changes);
        }
        Resync::Downstream => walk.stage_unsettled(core),
        Resync::Refresh(_) => {}
    }
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

pub(crate) fn stage_late(walk: &mut Walk, core: &mut Core) {
    let mut late: Vec<Id> = core.graph.ids().filter(|id| is_late(core, *id)).collect();
    sort_by_key(&core.graph, &mut late, |id| *id);
    for (rank, id) in (0_u32..).zip(late) {
        let kind = core.registry.owner(core.graph[id].key.as_str()).unwrap_or(KindId::NONE);
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
        } else {
            walk.stage_again(core, id, rank);
        }
    }
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
        let waits = |id: Id| {
            matches!(
                core.graph.state(id),
                State::Pending | State::Unimplemented | State::Applying | State::Removing
            )
        };
        let visited = self.visits.iter().any(|visit| self.is_own(core, visit.id) && waits(visit.id));
        let asked = self
            .unchanged
            .iter()
            .any(|id| waits(*id) || core.graph[*id].derived.iter().any(|child| waits(*child)));
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
