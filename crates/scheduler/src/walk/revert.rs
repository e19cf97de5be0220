//! The way back: the state before the transaction is staged again, and walked to.

use super::put::restage_needs;
use super::{Before, Core, Visit, Walk};
use crate::graph::node::{EdgeBits, Flags, Id, NO};

impl Walk {
    /// Begins the way back. Everything that failed has been read by now.
    pub(crate) fn turn_back(&mut self, core: &mut Core) {
        self.steps.get_or_insert_with(|| {
            let planned = self.planned.as_deref().unwrap_or_default();
            self.as_planned.iter().map(|at| planned[*at as usize].clone()).collect()
        });
        self.reverting = true;
        self.go_back(core);
    }

    /// Stages the state before the transaction and puts the way to it in order.
    pub(crate) fn go_back(&mut self, core: &mut Core) {
        self.unwind(core);
        let visits = std::mem::take(&mut self.visits);
        // Bases first: what they derive is staged with them, and then gets back what was known about it.
        for visit in visits.iter().rev() {
            let Some(before) = visit.before() else { continue };
            if core.graph[visit.id].base == NO && !before.flags.has(Flags::DERIVED) {
                self.restore(core, visit.id, before);
            }
        }
        for visit in visits.iter().rev() {
            if let Some(before) = visit.before().filter(|_| core.graph[visit.id].base != NO) {
                let untouched = self.restore_knowledge(core, visit.id, before);
                let node = &mut core.graph[visit.id];
                if untouched && node.declared.is_none() {
                    node.flags.set(Flags::DOOMED, before.flags.has(Flags::DOOMED));
                }
            }
        }
        let count = u32::try_from(visits.len()).expect("bounded by the number of vertices");
        for (visit, rank) in visits.iter().rev().zip(0..count) {
            if core.graph[visit.id].has(Flags::GROUP) {
                continue;
            }
            if visit.before().is_none() {
                self.forget_this_walk(core, visit);
            }
            let at = self.visit(core, visit.id, rank);
            self.visits[at as usize].own |= visit.own;
            self.visits[at as usize].rank = rank;
            self.visits[at as usize].fresh = !visit.existed;
            self.visits[at as usize].comes_back = visit.existed && visit.flags.has(Flags::GOAL);
            self.visits[at as usize].told.clone_from(&visit.told);
        }
        self.contenders.clear();
        self.cascade(core);
        while !self.order(core, false) {
            self.cascade(core);
        }
        for visit in visits {
            self.leavings.push(visit.id);
        }
    }

    /// What failed, was held or got stuck on the way forward is forgotten; what did earlier is not.
    fn forget_this_walk(&mut self, core: &mut Core, visit: &Visit) {
        let seq = self.seq;
        let node = &mut core.graph[visit.id];
        for flag in [Flags::STUCK, Flags::HELD] {
            node.flags.set(flag, visit.flags.has(flag));
        }
        if let Some(rare) = node.rare.as_mut() {
            rare.failure.take_if(|failure| failure.seq == seq);
        }
    }

    /// Ends the forward walk: no operation of it will happen any more.
    pub(crate) fn unwind(&mut self, core: &mut Core) {
        for at in 0..self.visits.len() {
            self.stop_leaving(core, self.visits[at].id);
        }
        for visit in &self.visits {
            let node = &mut core.graph[visit.id];
            node.visit = NO;
            if node.base == NO {
                node.flags.set(Flags::WAS_DERIVED, false);
            }
        }
        core.graph.noticed.clear();
        self.ops.clear();
        self.stack.clear();
        self.queue.clear();
        self.downs.clear();
        self.again.clear();
        self.freed.clear();
        self.planned_at.clear();
        self.ended = 0;
        self.decided = 0;
    }

    fn restore(&mut self, core: &mut Core, id: Id, before: &Before) {
        let untouched = self.restore_knowledge(core, id, before);
        let node = &mut core.graph[id];
        node.declared.clone_from(&before.declared);
        let doomed = node.exists() && !node.has(Flags::OBSERVED) && node.declared.is_none();
        let discovered = untouched && !before.flags.has(Flags::DOOMED);
        node.flags.set(Flags::DOOMED, doomed && !discovered);
        let taken_over = before.flags.has(Flags::APPLIED);
        if node.is_observed() && !taken_over && before.actual.is_some() && !untouched {
            // What was not made here gets its old value back before it is released.
            self.give_back.push((id, before.declared.clone()));
            node.declared.clone_from(&before.actual);
        }
        restage_needs(core, id, EdgeBits::DECLARED);
        self.stage_derived(core, id, 0);
    }

    /// Releases what was not made here after it got its old value back.
    pub(crate) fn release_foreign(&mut self, core: &mut Core) {
        for (id, declared) in std::mem::take(&mut self.give_back) {
            let node = &mut core.graph[id];
            node.declared = declared;
            node.flags.set(Flags::APPLIED, false);
            restage_needs(core, id, EdgeBits::DECLARED);
            self.stage_derived(core, id, 0);
            if core.graph[id].declared.is_none() {
                self.observe_derived(core, id, 0);
            }
            self.queue.push((id, 0));
        }
        self.join(core);
        self.leave(core);
        self.again.clear();
    }

    /// Gives an item back what was known about it besides its declaration; says whether it is as it was.
    fn restore_knowledge(&mut self, core: &mut Core, id: Id, before: &Before) -> bool {
        self.visit(core, id, 0);
        let node = &mut core.graph[id];
        node.revision = before.revision;
        node.retry = before.retry;
        let untouched = node.actual == before.actual;
        for flag in [Flags::STUCK, Flags::HELD, Flags::MISSING] {
            node.flags.set(flag, untouched && before.flags.has(flag));
        }
        let base = core.graph[id].base;
        if base == NO || !core.graph.is_unfinished(base) {
            core.graph[id].flags.set(Flags::STUCK, false);
        }
        let node = &mut core.graph[id];
        if node.rare.is_some()
            || before.failure.is_some()
            || before.refused.is_some()
            || before.labels.is_some()
        {
            let rare = node.rare();
            rare.labels.clone_from(&before.labels);
            rare.failure = before.failure.clone().filter(|_| untouched);
            rare.refused.clone_from(&before.refused);
        }
        if let Some(taken) = before.refused.as_ref().and_then(|refused| refused.taken) {
            let contenders = &mut core.graph[taken].rare().contenders;
            if !contenders.contains(&id) {
                contenders.push(id);
            }
        }
        untouched
    }
}
