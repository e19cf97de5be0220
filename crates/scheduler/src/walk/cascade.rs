//! What shall exist, and what must be done about it.
//!
//! The goal set is the *greatest* set of the contract. Counts of unmet dependencies find what joins and what leaves it
//! without cycles in the time of the edges concerned; members of a dependency cycle join together (`cycles`).
//! Joining is computed first, with everything that is about to leave still in the set: so nothing leaves that only
//! moves to another support, and what leaves afterwards is exactly what has no support.

use super::cycles::satisfiable;
use super::{Choice, Core, How, Walk};
use crate::graph::node::{Dependent, EdgeBits, Flags, Id, NO};
use crate::record::Action;
use crate::state::State;

impl Walk {
    /// Computes the goal set and the choice of every vertex concerned.
    ///
    /// 1. what joins the goal set; 2. what leaves it; 3. what must be done with each vertex concerned;
    /// 4. what goes down because what it stands on does, which may repeat 2 and 3.
    pub(crate) fn cascade(&mut self, core: &mut Core) {
        let concerned: Vec<(Id, u32)> = self.visits.iter().map(|visit| (visit.id, visit.rank)).collect();
        self.queue.extend(concerned);
        self.join(core);
        self.leave(core);
        self.decide_from(core, 0);
        self.spread_downs(core);
    }

    /// Step 1 of [`Self::cascade`].
    pub(crate) fn join(&mut self, core: &mut Core) {
        let mut candidates: Vec<(Id, u32)> = Vec::new();
        let mut hopeless = rustc_hash::FxHashSet::default();
        let mut seen = std::mem::take(&mut self.seen);
        seen.clear();
        loop {
            while let Some((id, rank)) = self.queue.pop() {
                seen.push((id, rank));
                self.look_at_foreign(core, id, rank, true);
                if core.graph.is_goal(id) {
                    continue;
                }
                if self.belongs(core, id) {
                    self.enter(core, id, rank);
                } else if may_close_a_cycle(core, id) {
                    candidates.push((id, rank));
                }
                if !core.graph.is_goal(id) {
                    self.stirred.push(id);
                }
            }
            let Some((id, rank)) = candidates.pop() else { break };
            if !core.graph.is_goal(id) {
                for member in satisfiable(self, core, id, &mut hopeless) {
                    self.enter(core, member, rank);
                }
            }
        }
        self.seen = std::mem::replace(&mut self.queue, seen);
    }

    fn enter(&mut self, core: &mut Core, id: Id, rank: u32) {
        let at = self.visit(core, id, rank);
        if self.is_decided(at) {
            self.again.push(at);
        }
        self.visit_waiting_derived(core, id, rank);
        core.graph.set_goal(id, true, &mut self.touched);
        for at in 0..self.touched.len() {
            self.reconsider(core, self.touched[at], rank);
        }
        self.enqueue_touched(rank);
    }

    /// An item that failed earlier gets another chance when something it lacked has come.
    fn reconsider(&mut self, core: &mut Core, id: Id, rank: u32) {
        let node = &core.graph[id];
        let earlier = !self.reverting && node.failure().is_some_and(|failure| failure.seq != self.seq);
        if earlier && !node.exists() && node.unmet == 0 {
            self.stage(core, id, rank);
            core.graph[id].rare().failure = None;
            self.unstick_derived(core, id, rank);
        }
    }

    /// Step 2 of [`Self::cascade`].
    pub(crate) fn leave(&mut self, core: &mut Core) {
        while let Some((id, rank)) = self.queue.pop() {
            self.look_at_foreign(core, id, rank, false);
            if core.graph.is_goal(id) && !self.belongs(core, id) {
                let at = self.visit(core, id, rank);
                if self.is_decided(at) {
                    self.again.push(at);
                }
                self.visit_waiting_derived(core, id, rank);
                core.graph.set_goal(id, false, &mut self.touched);
                self.enqueue_touched(rank);
            } else if !core.graph.is_goal(id) {
                self.stirred.push(id);
            }
        }
    }

    /// Derived items that wait become visible with their base and vanish with it, which is worth a step.
    fn visit_waiting_derived(&mut self, core: &mut Core, id: Id, rank: u32) {
        for at in 0..core.graph[id].derived.len() {
            let child = core.graph[id].derived[at];
            if core.graph[child].has(Flags::DERIVED) && !core.graph[child].exists() {
                let at = self.visit(core, child, rank);
                if self.is_decided(at) {
                    self.again.push(at);
                }
            }
        }
    }

    /// A foreign item that is declared and lacks something exists all the same, but not as declared: what its declared
    /// value derives waits.
    fn look_at_foreign(&mut self, core: &mut Core, id: Id, rank: u32, ready: bool) {
        let node = &core.graph[id];
        if node.declared.is_none() || !node.is_observed() {
            return;
        }
        // It is there whatever it lacks, so only its status changes.
        self.stirred.push(id);
        if self.has_its_way(core, id) != ready {
            return;
        }
        let at = self.visit(core, id, rank);
        if self.is_decided(at) {
            self.again.push(at);
        }
        for at in 0..core.graph[id].derived.len() {
            let child = core.graph[id].derived[at];
            let node = &core.graph[child];
            if node.has(Flags::STUCK) == ready && !node.exists() {
                let at = self.visit(core, child, rank);
                core.graph[child].flags.set(Flags::STUCK, !ready);
                self.queue.push((child, rank));
                if self.is_decided(at) {
                    self.again.push(at);
                }
            }
        }
    }

    /// Whether a foreign item can be as declared: it lacks nothing and nothing went wrong.
    fn has_its_way(&self, core: &Core, id: Id) -> bool {
        self.is_ready(core, id) && !core.graph.is_unfinished(id)
    }

    /// An item is gone that a foreign one derives: if that one lacks something, it waits.
    pub(crate) fn wait_for_foreign_base(&self, core: &mut Core, id: Id) {
        let base = core.graph[id].base;
        if base != NO
            && core.graph[id].has(Flags::DERIVED)
            && !core.graph.is_goal(id)
            && core.graph[base].is_observed()
            && !self.has_its_way(core, base)
        {
            core.graph[id].flags.set(Flags::STUCK, true);
        }
    }

    /// Whether the vertex belongs to the goal set, given what its dependencies say.
    pub(crate) fn belongs(&self, core: &Core, id: Id) -> bool {
        let node = &core.graph[id];
        if node.has(Flags::GROUP) {
            return core.graph.is_goal(id);
        }
        (node.stands_alone() && !self.visit_of(core, id).is_some_and(|visit| visit.bounce))
            || (node.is_wanted() && self.is_ready(core, id))
    }

    /// Whether everything the vertex needs is in the goal set.
    fn is_ready(&self, core: &Core, id: Id) -> bool {
        let node = &core.graph[id];
        node.unmet == 0 && (node.unmet_create == 0 || self.keeps(core, id))
    }

    /// Whether the item exists and goes on existing, so that what it needed for its creation does not matter.
    pub(crate) fn keeps(&self, core: &Core, id: Id) -> bool {
        let visit = self.visit_of(core, id);
        if visit.is_some_and(|visit| visit.comes_back) {
            return true;
        }
        core.graph[id].exists()
            && !visit.is_some_and(|visit| visit.fresh)
            && match visit.map(|visit| (&visit.how, visit.bounce)) {
                Some((_, true) | (How::Recreate(_), false)) => false,
                Some((How::Same | How::InPlace, false)) => true,
                Some((How::Unknown, false)) | None => !core.must_recreate(id),
            }
    }

    fn is_decided(&self, at: u32) -> bool {
        at < self.decided
    }

    /// Steps 3: decides every visit from this one on.
    pub(crate) fn decide_from(&mut self, core: &mut Core, from: u32) {
        self.decided = self.decided.max(from);
        while (self.decided as usize) < self.visits.len() {
            let at = self.decided;
            self.decided += 1;
            self.decide(core, at);
        }
    }

    /// What must be done with one vertex.
    pub(crate) fn decide(&mut self, core: &mut Core, at: u32) {
        let id = self.visits[at as usize].id;
        if core.graph[id].has(Flags::GROUP) {
            return;
        }
        if self.visits[at as usize].how == How::Unknown {
            self.learn_how(core, id);
        }
        let choice = self.choose(core, at);
        if choice == Choice::Update && core.graph[id].is_observed() {
            // What was not made here gets its old value back if the transaction fails, whoever asked for the change.
            self.remember(core, at);
        }
        self.visits[at as usize].choice = choice;
        if matches!(choice, Choice::Delete | Choice::Recreate)
            && !core.graph[id].has(Flags::LEAVING)
            && !core.graph[id].has(Flags::HELD)
        {
            self.downs.push(at);
        }
        self.revised.push(at);
        if matches!(choice, Choice::Create | Choice::Recreate | Choice::Delete)
            && !core.graph[id].has(Flags::HELD)
        {
            // What it derives comes again with it, not after it has reached some value.
            let rank = self.visits[at as usize].rank;
            self.unstick_derived(core, id, rank);
        }
    }

    fn choose(&self, core: &Core, at: u32) -> Choice {
        let visit = &self.visits[at as usize];
        let node = &core.graph[visit.id];
        // A broken item is touched once in a transaction, and one that is not confirmed has to wait.
        if node.awaited().is_some() || node.failure().is_some_and(|failure| failure.seq == self.seq) {
            return Choice::Nothing;
        }
        let active = node.is_wanted() && self.is_ready(core, visit.id);
        // What failed is left alone until somebody asks again, and so is what has a refused value, unless the way back
        // leads to what it was.
        let left_alone = node.failure().is_some()
            || (node.refused().is_some() && !(self.reverting && node.actual != node.declared));
        if node.is_observed() {
            return match (&node.declared, &visit.how) {
                (Some(_), _) if !active => Choice::Note(Action::Hold),
                (Some(_), _) if left_alone => Choice::Nothing,
                (Some(_), How::InPlace) => Choice::Update,
                (Some(_), How::Same) => Choice::Adopt,
                (Some(_), _) => Choice::Nothing,
                (None, _) if visit.was == State::Configured => Choice::Note(Action::Release),
                (None, _) => Choice::Nothing,
            };
        }
        if node.exists() {
            let stays = active || (node.stands_alone() && !visit.bounce);
            let failed_to_leave = node.failure().is_some_and(|failure| failure.action == Action::Delete);
            return match (&node.declared, &visit.how) {
                // What could not be deleted is left alone until somebody asks again, or something below it has to go.
                _ if !stays && failed_to_leave && !visit.bounce => Choice::Nothing,
                _ if !stays => Choice::Delete,
                (Some(_), _) if visit.bounce => Choice::Recreate,
                (None, _) => Choice::Nothing,
                (Some(_), _) if left_alone => Choice::Nothing,
                (Some(_), How::Recreate(_)) => Choice::Recreate,
                (Some(_), How::InPlace) => Choice::Update,
                (Some(_), How::Same | How::Unknown) => Choice::Adopt,
            };
        }
        if active {
            return Choice::Create;
        }
        match (core.graph.state(visit.id), visit.was) {
            (State::Pending | State::Unimplemented | State::Missing, _) => Choice::Note(Action::Hold),
            (State::Nonexistent, State::Nonexistent) => Choice::Nothing,
            (State::Nonexistent, _) => Choice::Note(Action::Drop),
            _ => Choice::Nothing,
        }
    }

    /// Step 4 of [`Self::cascade`]: what stands on something that goes down must go down first.
    pub(crate) fn spread_downs(&mut self, core: &mut Core) {
        loop {
            while let Some(at) = self.downs.pop() {
                let (id, rank) = (self.visits[at as usize].id, self.visits[at as usize].rank);
                if core.graph[id].has(Flags::LEAVING) {
                    continue;
                }
                core.graph[id].flags.set(Flags::LEAVING, true);
                self.spread_to_dependents(core, id, rank);
                for slot in 0..core.graph[id].member_of().len() {
                    let (group, _) = core.graph[id].member_of()[slot];
                    let counts = core.graph.group_mut(group);
                    counts.leaving += 1;
                    if counts.leaving == counts.present {
                        self.spread_to_dependents(core, group, rank);
                    }
                }
            }
            self.resume_held(core);
            self.join(core);
            self.leave(core);
            if self.again.is_empty() && self.decided as usize == self.visits.len() && self.downs.is_empty() {
                return;
            }
            for at in std::mem::take(&mut self.again) {
                self.decide(core, at);
            }
            let from = self.decided;
            self.decide_from(core, from);
        }
    }

    fn spread_to_dependents(&mut self, core: &mut Core, id: Id, rank: u32) {
        if self.is_blocked(core, id) {
            self.block(core, id);
            return;
        }
        for slot in 0..core.graph[id].dependents.len() {
            let Dependent { source, edge } = core.graph[id].dependents[slot];
            let bits = core.graph[source].needs[edge as usize].bits;
            let node = &core.graph[source];
            if !bits.has(EdgeBits::ACTUAL) || !bits.is_to_exist() || !node.exists() || node.is_observed() {
                continue;
            }
            let at = self.visit(core, source, rank);
            let visit = &self.visits[at as usize];
            let down = visit.bounce || matches!(visit.choice, Choice::Delete | Choice::Recreate);
            let moves_off =
                !bits.has(EdgeBits::DECLARED) && visit.choice == Choice::Update && self.is_decided(at);
            let adopts_off =
                !bits.has(EdgeBits::DECLARED) && visit.choice == Choice::Adopt && self.is_decided(at);
            if down || moves_off || adopts_off {
                continue;
            }
            self.visits[at as usize].bounce = true;
            self.queue.push((source, rank));
            if self.is_decided(at) {
                self.again.push(at);
            }
        }
    }

    /// The vertex has left, or stays after all.
    pub(crate) fn stop_leaving(&self, core: &mut Core, id: Id) {
        if core.graph[id].has(Flags::LEAVING) {
            core.graph[id].flags.set(Flags::LEAVING, false);
            core.graph.count_in_groups(id, |group| group.leaving -= 1);
        }
    }
}

/// Whether the vertex is kept out by its dependencies alone and somebody waits for it: only then can a cycle of items
/// that need each other have become possible.
fn may_close_a_cycle(core: &Core, id: Id) -> bool {
    let node = &core.graph[id];
    node.unmet + node.unmet_create > 0
        && node.is_wanted()
        && !(node.dependents.is_empty() && node.member_of().is_empty())
}
