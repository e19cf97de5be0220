//! Holds: an item is never removed while something that needs it to exist is still there. What cannot be removed keeps
//! what it stands on, and that goes on by itself once the holder is gone.

use super::{Choice, Core, Walk};
use crate::graph::node::{Dependent, EdgeBits, Flags, Id};
use crate::state::State;

impl Walk {
    /// Whether something stands on the vertex that cannot go in this transaction: it failed here, or an operation on it
    /// is not confirmed.
    pub(super) fn is_blocked(&self, core: &Core, id: Id) -> bool {
        self.holders(core, id).any(|source| {
            let node = &core.graph[source];
            node.awaited().is_some()
                || node.has(Flags::HELD)
                || node.failure().is_some_and(|failure| failure.seq == self.seq)
        })
    }

    /// The items that exist and need this one to exist.
    fn holders<'a>(&'a self, core: &'a Core, id: Id) -> impl Iterator<Item = Id> + 'a {
        core.graph[id].dependents.iter().filter_map(move |Dependent { source, edge }| {
            let bits = core.graph[*source].needs[*edge as usize].bits;
            let node = &core.graph[*source];
            let holds =
                bits.has(EdgeBits::ACTUAL) && bits.is_to_exist() && node.exists() && !node.is_observed();
            holds.then_some(*source)
        })
    }

    /// Keeps a vertex, or the leaving members of a group, as they are, with what they stand on.
    pub(super) fn block(&mut self, core: &mut Core, id: Id) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if let Some(group) = core.graph[id].group() {
                open.extend(group.members.iter().filter(|member| core.graph[**member].has(Flags::LEAVING)));
                continue;
            }
            if core.graph[id].has(Flags::HELD) {
                continue;
            }
            core.graph[id].flags.set(Flags::HELD, true);
            self.held.push(id);
            self.stop_leaving(core, id);
            let Some(visit) = self.visits.get_mut(core.graph[id].visit as usize) else { continue };
            if std::mem::take(&mut visit.bounce) {
                self.again.push(core.graph[id].visit);
                self.queue.push((id, self.visits[core.graph[id].visit as usize].rank));
            }
            let below = core.graph[id].needs.iter().filter(|edge| edge.bits.has(EdgeBits::ACTUAL));
            open.extend(below.map(|edge| edge.target).filter(|target| {
                core.graph[*target].has(Flags::GROUP) || core.graph[*target].has(Flags::LEAVING)
            }));
        }
    }

    /// Lets held items go on if everything that holds them goes in this transaction.
    pub(super) fn resume_held(&mut self, core: &mut Core) {
        let from = std::mem::replace(&mut self.resumed, self.revised.len()).min(self.revised.len());
        for at in from..self.revised.len() {
            let visit = &self.visits[self.revised[at] as usize];
            let (id, rank, goes) = (visit.id, visit.rank, self.goes(core, visit.id));
            let node = &core.graph[id];
            let broken = core.graph.is_unfinished(id);
            let moves = !broken && matches!(visit.choice, Choice::Update | Choice::Adopt);
            let was_broken =
                matches!(visit.was, State::Failed | State::Retrying | State::Applying | State::Removing);
            let recovered = !broken && was_broken;
            if !goes && !moves && !recovered {
                continue;
            }
            let targets: Vec<Id> = node
                .needs
                .iter()
                .filter(|edge| edge.bits.has(EdgeBits::ACTUAL))
                .filter(|edge| goes || recovered || !edge.bits.has(EdgeBits::DECLARED))
                .map(|edge| edge.target)
                .collect();
            self.release_held(core, &targets, rank);
        }
    }

    /// Whether the vertex goes down in this transaction.
    fn goes(&self, core: &Core, id: Id) -> bool {
        let node = &core.graph[id];
        let broken =
            node.awaited().is_some() || node.failure().is_some_and(|failure| failure.seq == self.seq);
        !broken
            && !node.has(Flags::HELD)
            && self
                .visit_of(core, id)
                .is_some_and(|visit| matches!(visit.choice, Choice::Delete | Choice::Recreate))
    }

    /// Lets items go on whose change waited for something that stood on them, unless something else still does.
    pub(crate) fn release_held(&mut self, core: &mut Core, targets: &[Id], rank: u32) {
        let mut open: Vec<Id> = targets.iter().rev().copied().collect();
        while let Some(id) = open.pop() {
            if let Some(group) = core.graph[id].group() {
                open.extend(group.members.iter().rev());
            }
            if core.graph[id].has(Flags::HELD) && !self.is_held(core, id) {
                core.graph[id].flags.set(Flags::HELD, false);
                let at = self.visit(core, id, rank);
                self.learn_how(core, id);
                self.again.push(at);
                self.unstick_derived(core, id, rank);
                open.extend(below(core, id));
            }
        }
    }

    /// What was held itself held what it stands on.
    pub(super) fn release_below(&mut self, core: &mut Core, id: Id) {
        let targets: Vec<Id> = below(core, id).collect();
        let rank = self.rank_of(core, id);
        self.release_held(core, &targets, rank);
    }

    /// Whether something that failed, is not confirmed or is held itself stands on the vertex and does not go.
    fn is_held(&self, core: &Core, id: Id) -> bool {
        let groups = core.graph[id].member_of().iter().map(|(group, _)| *group);
        std::iter::once(id).chain(groups).any(|target| {
            self.holders(core, target).any(|source| {
                let node = &core.graph[source];
                let stuck = node.failure().is_some() || node.awaited().is_some() || node.has(Flags::HELD);
                stuck && !self.goes(core, source) && !self.moves_off(core, source, target)
            })
        })
    }

    /// Whether the vertex changes in this transaction so that it does not need the target any more.
    fn moves_off(&self, core: &Core, source: Id, target: Id) -> bool {
        let failed = core.graph[source].failure().is_some_and(|failure| failure.seq == self.seq);
        let moves = !failed
            && self
                .visit_of(core, source)
                .is_some_and(|visit| matches!(visit.choice, Choice::Update | Choice::Adopt));
        moves
            && core.graph[source]
                .needs
                .iter()
                .all(|edge| edge.target != target || !edge.bits.has(EdgeBits::DECLARED))
    }
}

/// What the vertex stands on.
fn below(core: &Core, id: Id) -> impl Iterator<Item = Id> {
    core.graph[id].needs.iter().filter(|edge| edge.bits.has(EdgeBits::ACTUAL)).map(|edge| edge.target)
}
