//! Answers: what became of an operation, and what the graph knows afterwards.

use std::sync::Arc;

use super::knots::Knots;
use super::{Core, How, Op, OpAct, OpState, Walk};
use crate::graph::node::{Awaited, EdgeBits, Failed, Flags, Id, NO};
use crate::operation::{Act, Answer, Failure, OpId, Operation};
use crate::record::{Action, Cause, Marks, Step, TxnType};
use crate::txn::OnFailure;
use crate::value::Facts;

impl Walk {
    /// The next operation that may run, in plan order.
    pub(crate) fn next(&mut self, core: &mut Core) -> Option<Operation> {
        self.pump(core);
        let op = self.stack.pop()?;
        let operation = self.operation(core, op).expect("only operations for a driver are left on top");
        self.ops[op as usize].state = OpState::Issued;
        self.issued += 1;
        Some(operation)
    }

    /// Does everything that needs no driver, until an operation that does is on top or nothing is left.
    pub(crate) fn pump(&mut self, core: &mut Core) {
        while !self.done {
            let Some(op) = self.stack.last().copied() else {
                if self.issued > 0 {
                    return;
                }
                if self.turns_back() {
                    self.turn_back(core);
                } else if !(self.has_waiting() && self.cancelled.is_none() && self.untie(core)) {
                    self.close(core);
                }
                continue;
            };
            let reads = self.ops[op as usize].act == OpAct::Act(Action::Retrieve);
            let tells = self.ops[op as usize].act == OpAct::Act(Action::Refuse);
            let stopped =
                (self.turns_back() || (self.cancelled.is_some() && !self.reverting)) && !reads && !tells;
            let op_ref = &self.ops[op as usize];
            if stopped || op_ref.state != OpState::Waiting || op_ref.waits > 0 {
                self.stack.pop();
            } else if self.operation(core, op).is_some() {
                return;
            } else {
                self.stack.pop();
                self.succeed(core, op, None);
            }
        }
    }

    /// Whether the way back has to be taken and has not been begun.
    fn turns_back(&self) -> bool {
        self.revert_cause.is_some() && !self.reverting
    }

    /// Nothing is left to do. A transaction that is all or nothing and could not do something goes back first.
    fn close(&mut self, core: &mut Core) {
        if self.on_failure == OnFailure::Revert && !self.reverting && self.revert_cause.is_none() {
            let held = self.held.iter().any(|id| core.graph[*id].has(Flags::HELD) && self.is_own(core, *id));
            if held {
                self.revert_cause = self.failures.first().cloned();
                if self.revert_cause.is_some() {
                    return;
                }
            }
        }
        if self.cancelled.is_some() && !self.reverting {
            self.give_up(core);
        }
        self.release_foreign(core);
        self.done = true;
    }

    /// Starts nothing further: what was not begun has failed.
    pub(crate) fn cancel(&mut self, core: &mut Core, reason: &str) {
        if self.cancelled.is_some() || self.done || self.reverting {
            return;
        }
        let reason: Arc<str> = format!("cancelled: {reason}").into();
        self.cancelled = Some(reason.clone());
        if self.on_failure == OnFailure::Revert && self.revert_cause.is_none() {
            let waiting = |op: &&u32| self.ops[**op as usize].state == OpState::Waiting;
            let next = self.stack.iter().rev().find(waiting).copied();
            let next = next.or_else(|| {
                (0_u32..).zip(&self.ops).find(|(_, op)| op.state == OpState::Waiting).map(|(at, _)| at)
            });
            if let Some(next) = next {
                let key = core.graph[self.ops[next as usize].id].key.clone();
                let cause = Cause { key, error: reason };
                self.revert_cause = Some(cause.clone());
                self.failures.push(cause);
            }
        }
        self.pump(core);
    }

    /// Marks what was not begun as failed.
    fn give_up(&mut self, core: &mut Core) {
        let Some(reason) = self.cancelled.clone() else { return };
        for at in 0..self.ops.len() {
            let Op { id, act: OpAct::Act(action), state: OpState::Waiting, .. } = self.ops[at] else {
                continue;
            };
            if !matches!(action, Action::Create | Action::Update | Action::Delete)
                || core.graph[id].failure().is_some()
            {
                continue;
            }
            self.note_failure(core, id, action, &Failure::retriable(reason.clone()));
            let node = &core.graph[id];
            let cause = Cause { key: node.key.clone(), error: reason.clone() };
            let step = Step {
                key: node.key.clone(),
                base: (node.base != NO).then(|| core.graph[node.base].key.clone()),
                action: Action::Hold,
                before: self.visits[node.visit as usize].told.clone(),
                after: core.graph.side(id),
                error: Some(reason.clone()),
                note: None,
                marks: Marks { derived: node.is_derived(), ..Marks::default() },
            };
            self.failures.push(cause);
            self.log_step(core, id, step);
            let rank = self.rank_of(core, id);
            self.queue.push((id, rank));
        }
        self.leave(core);
        self.again.clear();
    }

    /// Whether operations are left that nothing will release any more.
    fn has_waiting(&self) -> bool {
        self.ops.len() > self.ended
    }

    /// Loosens operations that wait for each other after an answer changed the order.
    fn untie(&mut self, core: &mut Core) -> bool {
        let ended: Vec<u32> = (0_u32..)
            .zip(&self.ops)
            .filter(|(_, op)| op.state != OpState::Waiting)
            .map(|(at, _)| at)
            .collect();
        if ended.len() == self.ops.len() {
            self.ended = self.ops.len();
            return false;
        }
        if self.break_cycles(core, &ended) == Knots::Bounce {
            self.amend(core);
        }
        self.stack = self.roots(core);
        if self.stack.is_empty() {
            // What is left waits for something that is held; it stays as it is.
            for op in &mut self.ops {
                if op.state == OpState::Waiting {
                    op.state = OpState::Dead;
                }
            }
            self.ended = self.ops.len();
            return false;
        }
        true
    }

    /// The operation for the driver, or `None` if the scheduler can do it alone.
    fn operation(&self, core: &Core, op: u32) -> Option<Operation> {
        let Op { id, act: OpAct::Act(action), .. } = self.ops[op as usize] else { return None };
        let node = &core.graph[id];
        let kind = node.kind.get()?;
        if action != Action::Retrieve && core.registry.descriptor(kind).is_property() {
            return None;
        }
        let key = node.key.clone();
        let facts = node.facts.clone();
        let act = match action {
            Action::Create => Act::Create { key, value: node.declared.clone()? },
            Action::Update => {
                Act::Update { key, old: node.actual.clone()?, new: node.declared.clone()?, facts }
            }
            Action::Delete => Act::Delete { key, value: node.actual.clone()?, facts },
            Action::Retrieve => {
                Act::Retrieve { key, expected: node.actual.clone().or_else(|| node.declared.clone()), facts }
            }
            Action::Hold
            | Action::Observe
            | Action::Forget
            | Action::Adopt
            | Action::Release
            | Action::Refuse
            | Action::Drop
            | Action::Miss
            | Action::Settle => return None,
        };
        Some(Operation { id: OpId(op), kind, act })
    }

    /// Takes the answer to an operation.
    pub(crate) fn answer(&mut self, core: &mut Core, id: OpId, answer: Answer) {
        let op = id.0;
        assert_eq!(
            self.ops[op as usize].state,
            OpState::Issued,
            "an operation is answered once, after it was handed out"
        );
        self.issued -= 1;
        let reads = self.ops[op as usize].act == OpAct::Act(Action::Retrieve);
        match answer {
            Answer::Done { facts } if !reads => self.succeed(core, op, facts),
            Answer::Accepted { within } if !reads => self.accept(core, op, within),
            Answer::Failed(failure) if reads => self.read(core, op, Err(failure)),
            Answer::Failed(failure) => self.fail_op(core, op, failure),
            Answer::Found(found) if reads => self.read(core, op, Ok(Some(found))),
            Answer::Absent if reads => self.read(core, op, Ok(None)),
            Answer::Done { .. }
            | Answer::Accepted { .. }
            | Answer::Found(_)
            | Answer::Absent
            | Answer::Listed(_)
            | Answer::ListedAs(..)
            | Answer::AsListed
            | Answer::NotAsListed => {
                let failure =
                    Failure::lasting("the actuator gave an answer that does not belong to the operation");
                if reads { self.read(core, op, Err(failure)) } else { self.fail_op(core, op, failure) }
            }
        }
        self.amend(core);
        self.pump(core);
    }

    /// An operation did what it should.
    pub(crate) fn succeed(&mut self, core: &mut Core, op: u32, facts: Option<Facts>) {
        self.log(core, op);
        let Op { id, act, .. } = self.ops[op as usize];
        if let OpAct::Act(action) = act {
            self.apply(core, id, action, facts);
            let came = matches!(action, Action::Create | Action::Update);
            if came && !core.graph.is_goal(id) {
                // What it needs was lost while it was being made.
                self.again.push(core.graph[id].visit);
            }
        }
        self.end(core, op);
        if !self.again.is_empty() {
            self.amend(core);
        }
    }

    /// Marks an operation as done and releases what waited for it.
    pub(crate) fn end(&mut self, core: &Core, op: u32) {
        self.ops[op as usize].state = OpState::Done;
        self.ended += 1;
        let mut released = std::mem::take(&mut self.released);
        self.release(op, &mut released);
        self.stack_up(core, &mut released);
        self.released = released;
    }

    /// Counts down what waits for an operation.
    pub(crate) fn release(&mut self, op: u32, released: &mut Vec<u32>) {
        for link in std::mem::take(&mut self.ops[op as usize].next) {
            let next = &mut self.ops[link.to as usize];
            if next.waits == 0 || next.state != OpState::Waiting {
                continue;
            }
            next.waits -= 1;
            if next.waits == 0 {
                released.push(link.to);
            }
        }
    }

    /// Writes the effect of a successful step into the graph.
    fn apply(&mut self, core: &mut Core, id: Id, action: Action, facts: Option<Facts>) {
        let rank = self.rank_of(core, id);
        let seq = self.seq;
        let node = &mut core.graph[id];
        node.changed_by = seq;
        match action {
            Action::Create | Action::Update | Action::Adopt => {
                if action != Action::Adopt {
                    node.last = Some(action);
                }
                node.flags.set(Flags::APPLIED, true);
                node.flags.set(Flags::MISSING, false);
                if facts.is_some() || action == Action::Create {
                    node.facts = facts;
                }
                if action == Action::Create {
                    // It has come up: what it went down for is over.
                    let visit = &mut self.visits[node.visit as usize];
                    visit.how = How::Same;
                    visit.bounce = false;
                }
                let foreign = action != Action::Create && node.has(Flags::OBSERVED);
                let declared = node.declared.clone();
                let visit = &self.visits[core.graph[id].visit as usize];
                if action == Action::Adopt && visit.listed {
                    core.graph.set_actual_as_listed(id, declared, foreign, &mut self.touched);
                } else {
                    core.graph.set_actual(id, declared, foreign, &mut self.touched);
                }
                let mut dropped = Vec::new();
                core.graph.settle_edges(id, &mut dropped);
                self.release_held(core, &dropped, rank);
                self.leavings.extend(dropped);
                self.enqueue_touched(rank);
            }
            Action::Delete => {
                node.last = Some(Action::Delete);
                self.take_away(core, id);
                self.wait_for_foreign_base(core, id);
            }
            Action::Release => {
                node.flags.set(Flags::APPLIED, false);
                core.graph.disturb(id);
            }
            Action::Hold | Action::Drop | Action::Observe | Action::Forget | Action::Refuse => {}
            Action::Retrieve | Action::Miss | Action::Settle => {}
        }
    }

    /// The item is gone.
    pub(crate) fn take_away(&mut self, core: &mut Core, id: Id) {
        let rank = self.rank_of(core, id);
        let held: Vec<Id> = core.graph[id]
            .needs
            .iter()
            .filter(|edge| edge.bits.has(EdgeBits::ACTUAL))
            .map(|edge| edge.target)
            .collect();
        self.stop_leaving(core, id);
        core.graph.set_actual(id, None, false, &mut self.touched);
        self.enqueue_touched(rank);
        let node = &mut core.graph[id];
        node.facts = None;
        for flag in [Flags::APPLIED, Flags::MISSING, Flags::DOOMED, Flags::HELD] {
            node.flags.set(flag, false);
        }
        if let Some(rare) = node.rare.as_mut() {
            rare.failure = None;
        }
        let mut dropped = Vec::new();
        core.graph.clear_actual_edges(id, &mut dropped);
        self.leavings.extend(dropped);
        self.leavings.push(id);
        self.release_held(core, &held, rank);
        if core.graph[id].has(Flags::WAS_DERIVED) && core.graph[id].base != NO {
            self.leavings.push(core.graph[id].base);
            core.graph.unlink_base(id);
        }
    }

    /// An operation was accepted: its effect comes later.
    fn accept(&mut self, core: &mut Core, op: u32, within: std::time::Duration) {
        let Op { id, act: OpAct::Act(action), .. } = self.ops[op as usize] else { return };
        let deadline = self.now.after(within);
        let step = self.step(core, op);
        let node = &mut core.graph[id];
        node.last = Some(action);
        node.changed_by = self.seq;
        let value = if action == Action::Delete { None } else { node.declared.clone() };
        node.rare().awaited = Some(Awaited { action, value, deadline });
        core.graph.disturb(id);
        if let Some(mut step) = step {
            step.after = core.graph.side(id);
            step.note = None;
            self.log_step(core, id, step);
        }
        self.ops[op as usize].state = OpState::Dead;
        self.ended += 1;
        self.deadlines.push((deadline, core.graph[id].key.clone()));
        if action == Action::Create {
            self.free_downs(core, op);
        } else {
            self.hold_back(core, op);
        }
        self.distrust(core, id);
    }

    /// An operation failed: its item is read before anything else is decided about it.
    fn fail_op(&mut self, core: &mut Core, op: u32, failure: Failure) {
        let Op { id, act: OpAct::Act(action), .. } = self.ops[op as usize] else { return };
        let step = self.step(core, op);
        self.note_failure(core, id, action, &failure);
        if let Some(mut step) = step {
            step.after = core.graph.side(id);
            step.note = None;
            step.error = Some(failure.message.clone());
            self.log_step(core, id, step);
        }
        self.ops[op as usize].state = OpState::Dead;
        self.ended += 1;
        self.fail(core, Cause { key: core.graph[id].key.clone(), error: failure.message.clone() });
        self.read_back(core, op, id, action);
    }

    /// Remembers the failure on the item, with the retry that follows from it.
    pub(crate) fn note_failure(&mut self, core: &mut Core, id: Id, action: Action, failure: &Failure) {
        let base = core.graph.base_of(id);
        let retried = self.is_retry && self.visit_of(core, base).is_some_and(|visit| visit.own);
        let attempts = if retried { self.attempt } else { 0 };
        let will_revert = self.on_failure == OnFailure::Revert && !self.reverting && self.is_own(core, id);
        // A resync of what is declares nothing: its retry, if it has one, stands in for what each item was declared with.
        if self.retry.is_some() && matches!(self.txn_type, TxnType::DownstreamResync) {
            core.graph[id].retry = core.graph.retry_number(self.retry);
        }
        let next_attempt = core
            .graph
            .retry_of(id)
            .filter(|retry| failure.retriable && !will_revert && retry.allows(attempts + 1))
            .map(|_| attempts + 1);
        let seq = self.seq;
        let node = &mut core.graph[id];
        node.last = Some(action);
        node.changed_by = seq;
        node.rare().failure =
            Some(Failed { action, error: failure.message.clone(), seq, next_attempt, attempts });
    }

    /// Confirmations that did not come in time: the items have to be read.
    pub(crate) fn read_overdue(&mut self, core: &mut Core) {
        for (id, action) in std::mem::take(&mut self.late) {
            self.overdue(core, id, action);
        }
    }

    fn overdue(&mut self, core: &mut Core, id: Id, action: Action) {
        let failure = overdue_failure();
        let node = &core.graph[id];
        let marks = Marks { derived: node.is_derived(), ..Marks::default() };
        let step = Step {
            key: node.key.clone(),
            base: (node.base != NO).then(|| core.graph[node.base].key.clone()),
            action: Action::Miss,
            before: self.visits[node.visit as usize].told.clone(),
            after: core.graph.side(id),
            error: Some(failure.message.clone()),
            note: None,
            marks,
        };
        self.log_step(core, id, step);
        self.fail(core, Cause { key: core.graph[id].key.clone(), error: failure.message.clone() });
        self.read_back(core, NO, id, action);
    }

    /// Notes something that went wrong. The first of the transaction's own items decides about the way back.
    pub(crate) fn fail(&mut self, core: &Core, cause: Cause) {
        if self.reverting {
            self.revert_failures.push(cause);
            return;
        }
        let own = core.graph.find(cause.key.as_str()).is_some_and(|id| self.is_own(core, id));
        if own && self.on_failure == OnFailure::Revert && self.revert_cause.is_none() {
            self.revert_cause = Some(cause.clone());
        }
        self.failures.push(cause);
    }
}

/// Why an operation that was accepted counts as failed.
pub(crate) fn overdue_failure() -> Failure {
    Failure::retriable("not confirmed in time")
}
