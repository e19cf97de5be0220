//! What changes when an operation does not do what was planned.

use super::{Choice, Core, Op, OpAct, OpState, Walk};
use crate::graph::node::{Dependent, EdgeBits, Flags, Id, NO};
use crate::record::Action;

impl Walk {
    /// A failed item has been read, or cannot be: draws the consequences.
    ///
    /// * It exists: what needs it may go on; what it stands on has to stay; its derived items wait.
    /// * It does not exist: whatever needs it is held.
    pub(crate) fn resolve(&mut self, core: &mut Core, op: u32, id: Id, action: Action) {
        let rank = self.rank_of(core, id);
        let node = &mut core.graph[id];
        if !node.exists() && node.declared.is_none() && node.refused().is_none() {
            // Nobody asks for it and it is not there: nothing is left that could have failed.
            node.rare().failure = None;
            self.leavings.push(id);
        }
        let node = &core.graph[id];
        let reached = node.exists() && node.actual == node.declared;
        if action == Action::Delete && !node.exists() {
            // It is gone after all; only what was asked of it besides is unfinished.
            if op != NO {
                self.let_go(core, op);
            }
        } else if op != NO {
            if reached && action != Action::Delete {
                let mut dropped = Vec::new();
                core.graph.settle_edges(id, &mut dropped);
                self.release_held(core, &dropped, rank);
                self.leavings.extend(dropped);
                self.let_go(core, op);
            } else if node.exists() && action != Action::Delete {
                self.keep_both_edges(core, id);
                self.hold_back(core, op);
            } else if node.exists() {
                // It stays, so what it needed to be created does not count.
                let at = node.visit;
                self.visits[at as usize].bounce = false;
                self.visits[at as usize].fresh = false;
                self.hold_back(core, op);
            } else {
                self.free_downs(core, op);
            }
        }
        self.distrust(core, id);
    }

    /// What had to go and waited for a creation under way need not wait for it any more: it did not happen. Neither
    /// need those who waited only because it is nicer.
    pub(crate) fn free_downs(&mut self, core: &Core, op: u32) {
        let mut released = Vec::new();
        for link in std::mem::take(&mut self.ops[op as usize].next) {
            let op = &mut self.ops[link.to as usize];
            let lets_go = link.soft || matches!(op.act, OpAct::Act(Action::Delete) | OpAct::GroupDown);
            if lets_go && op.state == OpState::Waiting && op.waits > 0 {
                op.waits -= 1;
                if op.waits == 0 {
                    released.push(link.to);
                }
            }
        }
        self.stack_up(core, &mut released);
    }

    /// What was read is neither the old nor the new value: the dependencies of both count.
    fn keep_both_edges(&mut self, core: &mut Core, id: Id) {
        for edge in &mut core.graph[id].needs {
            if edge.bits.has(EdgeBits::DECLARED) {
                edge.bits.set(EdgeBits::ACTUAL, true);
            }
        }
    }

    /// Judges an item again that did not do what was planned, with its derived items.
    pub(crate) fn distrust(&mut self, core: &mut Core, id: Id) {
        let rank = self.rank_of(core, id);
        for at in 0..core.graph[id].derived.len() {
            let child = core.graph[id].derived[at];
            let node = &core.graph[child];
            if node.has(Flags::DERIVED) && !node.exists() {
                let at = self.visit(core, child, rank);
                core.graph[child].flags.set(Flags::STUCK, true);
                self.queue.push((child, rank));
                self.again.push(at);
            } else if node.visit != NO && node.has(Flags::DERIVED) {
                self.distrust_derived(core, child, rank);
            }
        }
        self.queue.push((id, rank));
        let at = self.visit(core, id, rank);
        self.again.push(at);
    }

    /// A derived item that exists stays as it is, unless it is already on its way out.
    fn distrust_derived(&mut self, core: &mut Core, child: Id, rank: u32) {
        let at = core.graph[child].visit;
        let (down, up) = (self.visits[at as usize].down, self.visits[at as usize].up);
        let state = |walk: &Self, op: u32| (op != NO).then(|| walk.ops[op as usize].state);
        if state(self, down) == Some(OpState::Issued) {
            core.graph[child].flags.set(Flags::STUCK, true);
            self.queue.push((child, rank));
        } else if state(self, down) == Some(OpState::Waiting) {
            let mut below = core.graph[child].needs.iter().filter(|edge| edge.bits.has(EdgeBits::ACTUAL));
            let other_leaves = below.any(|edge| core.graph[edge.target].has(Flags::LEAVING));
            if !other_leaves {
                self.visits[at as usize].bounce = false;
                self.stop_leaving(core, child);
                self.kill(down);
                self.queue.push((child, rank));
            }
        }
        if state(self, up) == Some(OpState::Waiting) {
            self.kill(up);
        }
        self.again.push(at);
    }

    /// Counts a failed operation as done for those who waited for it.
    fn let_go(&mut self, core: &Core, op: u32) {
        let mut released = Vec::new();
        self.release(op, &mut released);
        self.stack_up(core, &mut released);
    }

    /// What waited for an operation that will not happen stays as it is, and so does what waited for that.
    pub(crate) fn hold_back(&mut self, core: &mut Core, op: u32) {
        let mut held = vec![op];
        let mut freed = Vec::new();
        let mut stopped = Vec::new();
        self.stop_leaving(core, self.ops[op as usize].id);
        while let Some(op) = held.pop() {
            for link in std::mem::take(&mut self.ops[op as usize].next) {
                if link.soft {
                    freed.push(link.to);
                    continue;
                }
                let Op { id, act, state, .. } = self.ops[link.to as usize];
                if state != OpState::Waiting {
                    continue;
                }
                let comes = self.ops[op as usize].act == OpAct::Act(Action::Create);
                match act {
                    // It waited for something to come, which is there, though not as it should be.
                    OpAct::Act(Action::Update | Action::Adopt) if comes => freed.push(link.to),
                    OpAct::Act(Action::Delete | Action::Update | Action::Adopt) | OpAct::GroupDown => {
                        self.ops[link.to as usize].state = OpState::Dead;
                        self.ended += 1;
                        held.push(link.to);
                        if !core.graph[id].has(Flags::GROUP) {
                            core.graph[id].flags.set(Flags::HELD, true);
                            self.stop_leaving(core, id);
                            self.held.push(id);
                            stopped.push(id);
                        }
                    }
                    OpAct::Act(Action::Create) if id == self.ops[op as usize].id => {
                        // Its going down is held, so it is still there: those who wait for it need not.
                        self.ops[link.to as usize].state = OpState::Dead;
                        self.ended += 1;
                        let awaited = core.graph[id].awaited().is_some();
                        if core.graph.is_goal(id) && !awaited {
                            freed.extend(self.ops[link.to as usize].next.iter().map(|link| link.to));
                            self.ops[link.to as usize].next.clear();
                        }
                    }
                    // What is not there is no member of its groups.
                    OpAct::GroupUp if !core.graph[self.ops[op as usize].id].exists() => {}
                    OpAct::Act(_) | OpAct::GroupUp => freed.push(link.to),
                }
            }
        }
        let mut released = Vec::new();
        for op in freed {
            let op_ref = &mut self.ops[op as usize];
            if op_ref.state == OpState::Waiting && op_ref.waits > 0 {
                op_ref.waits -= 1;
                if op_ref.waits == 0 {
                    released.push(op);
                }
            }
        }
        self.stack_up(core, &mut released);
        for id in stopped {
            let at = core.graph[id].visit;
            self.visits[at as usize].bounce = false;
            self.distrust(core, id);
        }
    }

    /// Takes an operation out of the order.
    pub(crate) fn kill(&mut self, op: u32) {
        if self.ops[op as usize].state != OpState::Waiting {
            return;
        }
        self.ops[op as usize].state = OpState::Dead;
        self.ended += 1;
        // A member that does not come is no member: the group goes on waiting for another one.
        let Self { ops, .. } = self;
        let mut links = std::mem::take(&mut ops[op as usize].next);
        links.retain(|link| ops[link.to as usize].act != OpAct::GroupUp);
        ops[op as usize].next = links;
        let mut freed = std::mem::take(&mut self.freed);
        self.release(op, &mut freed);
        self.freed = freed;
    }

    /// Repeats cascade and order for what an answer concerns.
    ///
    /// 1. what joins and leaves the goal set;
    /// 2. new choices for what that concerns;
    /// 3. operations that are not wanted any more are taken out, new ones made and linked;
    /// 4. what became free goes on the stack.
    pub(crate) fn amend(&mut self, core: &mut Core) {
        if self.again.is_empty() && self.queue.is_empty() {
            return;
        }
        self.revised.clear();
        self.resumed = 0;
        self.join(core);
        self.leave(core);
        for at in std::mem::take(&mut self.again) {
            let id = self.visits[at as usize].id;
            self.learn_how(core, id);
            self.decide(core, at);
        }
        let from = self.decided;
        self.decide_from(core, from);
        self.spread_downs(core);
        let mut revised = std::mem::take(&mut self.revised);
        revised.sort_unstable();
        revised.dedup();
        self.relink(core, &revised);
    }

    /// Replaces the waiting operations of these visits by those of their new choices.
    fn relink(&mut self, core: &mut Core, list: &[u32]) {
        let mut made: Vec<u32> = Vec::new();
        for at in list {
            let visit = &self.visits[*at as usize];
            if core.graph[visit.id].has(Flags::GROUP) {
                continue;
            }
            let (down, up, choice) = (visit.down, visit.up, visit.choice);
            let busy =
                [down, up].iter().any(|op| *op != NO && self.ops[*op as usize].state == OpState::Issued);
            let unread = self.readbacks.iter().any(|readback| readback.id == visit.id);
            if busy || unread || self.still_right(core, *at, choice) {
                continue;
            }
            for op in [down, up] {
                if op != NO {
                    self.kill(op);
                }
            }
            if self.may_act(core, *at, choice) {
                made.push(*at);
            }
        }
        for at in &made {
            self.visits[*at as usize].down = NO;
            self.visits[*at as usize].up = NO;
            self.visits[*at as usize].note = None;
            self.make_ops(core, *at);
        }
        for at in &made {
            self.link_needs(core, *at);
            self.link_dependents(core, *at);
        }
        for at in &made {
            self.link_memberships(core, *at);
        }
        let mut ready: Vec<u32> = std::mem::take(&mut self.freed);
        for at in made {
            ready.extend(
                [self.visits[at as usize].down, self.visits[at as usize].up].iter().filter(|op| **op != NO),
            );
        }
        ready.sort_unstable();
        ready.dedup();
        ready.retain(|op| {
            let op = &self.ops[*op as usize];
            op.state == OpState::Waiting && op.waits == 0
        });
        self.stack_up(core, &mut ready);
    }

    /// Whether the waiting operations already are those of the choice.
    fn still_right(&self, core: &Core, at: u32, choice: Choice) -> bool {
        let visit = &self.visits[at as usize];
        let live = |op: u32| op != NO && self.ops[op as usize].state == OpState::Waiting;
        let act = |op: u32| live(op).then(|| self.ops[op as usize].act);
        let create = Some(OpAct::Act(Action::Create));
        match choice {
            Choice::Create => !live(visit.down) && act(visit.up) == create,
            Choice::Recreate => live(visit.down) && act(visit.up) == create,
            Choice::Delete => live(visit.down) && !live(visit.up),
            Choice::Update => act(visit.up) == Some(OpAct::Act(Action::Update)) && !live(visit.down),
            Choice::Adopt => {
                act(visit.up) == Some(OpAct::Act(Action::Adopt)) || core.graph[visit.id].has(Flags::HELD)
            }
            Choice::Nothing => !live(visit.down) && !live(visit.up),
            Choice::Note(action) => act(visit.up) == Some(OpAct::Act(action)),
        }
    }

    /// Whether a new choice leads to operations: a broken item is touched once in a transaction, a held one waits.
    fn may_act(&self, core: &Core, at: u32, choice: Choice) -> bool {
        let visit = &self.visits[at as usize];
        let node = &core.graph[visit.id];
        let failed_now = node.failure().is_some_and(|failure| failure.seq == self.seq);
        match choice {
            Choice::Nothing => false,
            // The step that took it down has told already that it waits.
            Choice::Note(Action::Hold) => visit.down == NO && !failed_now,
            Choice::Note(_) => !failed_now,
            Choice::Adopt | Choice::Update | Choice::Create | Choice::Delete | Choice::Recreate => {
                !failed_now && !node.has(Flags::HELD)
            }
        }
    }

    /// Links a new operation with those of its dependents, which were linked before it was made.
    fn link_dependents(&mut self, core: &Core, at: u32) {
        let visit = &self.visits[at as usize];
        let (id, down, up) = (visit.id, visit.down, visit.up);
        for slot in 0..core.graph[id].dependents.len() {
            let Dependent { source, edge } = core.graph[id].dependents[slot];
            let bits = core.graph[source].needs[edge as usize].bits;
            let Some(other) = self.visits.get(core.graph[source].visit as usize) else { continue };
            let (other_down, other_up) = (other.down, other.up);
            let waiting = |walk: &Self, op: u32| op != NO && walk.ops[op as usize].state == OpState::Waiting;
            if down != NO && bits.has(EdgeBits::ACTUAL) && bits.is_to_exist() {
                if other_down != NO {
                    self.link(other_down, down, false);
                } else if other_up != NO && !bits.has(EdgeBits::DECLARED) {
                    self.link(other_up, down, false);
                }
            }
            let coming = |walk: &Self, op: u32| op != NO && walk.ops[op as usize].state == OpState::Issued;
            if down != NO && coming(self, other_up) && bits.has(EdgeBits::DECLARED) && bits.is_to_exist() {
                // It is being made right now; what comes of it has to leave first.
                self.link(other_up, down, false);
            }
            if up != NO
                && waiting(self, other_up)
                && bits.has(EdgeBits::DECLARED)
                && !bits.has(EdgeBits::ABSENT)
                && self.ops[up as usize].act == OpAct::Act(Action::Create)
            {
                self.link(up, other_up, false);
            }
        }
    }
}
