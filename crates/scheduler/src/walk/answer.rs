//! Answers: what became of an operation, and what the graph knows afterwards.

use std::sync::Arc;

use super::{Core, Op, OpAct, OpState, Walk};
use crate::descriptor::{Reads, Transition};
use crate::graph::node::{Awaited, EdgeBits, Failed, Flags, Id, NO};
use crate::operation::{Act, Answer, Failure, OpId, Operation, Retrieved};
use crate::record::{Action, Cause, Marks, Side, Step};
use crate::state::Origin;
use crate::txn::OnFailure;
use crate::value::{Facts, ValueRef};
use crate::walk::put::restage_needs;

/// A failed operation whose effect is not known until its item has been read.
pub(crate) struct Readback {
    /// The operation that failed; none for a confirmation that did not come.
    pub(crate) op: u32,
    /// The operation that reads.
    pub(crate) reads: u32,
    pub(crate) id: Id,
    pub(crate) action: Action,
}

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
        if !self.break_cycles(core, &ended) {
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
            | Answer::Listed(_) => {
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
        let mut stack = std::mem::take(&mut self.stack);
        self.push_released(core, &mut released, &mut stack);
        self.stack = stack;
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
                let foreign = action != Action::Create && node.has(Flags::OBSERVED);
                let declared = node.declared.clone();
                core.graph.set_actual(id, declared, foreign, &mut self.touched);
                let mut dropped = Vec::new();
                core.graph.settle_edges(id, &mut dropped);
                self.release_held(core, &dropped, rank);
                self.leavings.extend(dropped);
                self.enqueue_touched(rank);
            }
            Action::Delete => {
                node.last = Some(Action::Delete);
                self.take_away(core, id);
            }
            Action::Release => node.flags.set(Flags::APPLIED, false),
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
        if let Some(mut step) = step {
            step.after = core.graph.side(id);
            step.note = None;
            self.log_step(core, id, step);
        }
        self.ops[op as usize].state = OpState::Dead;
        self.ended += 1;
        self.deadlines.push((deadline, core.graph[id].key.clone()));
        self.hold_back(core, op);
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

    /// Has the item of a failed operation read, by its key, or assumes what it can if nobody can read it.
    fn read_back(&mut self, core: &mut Core, op: u32, id: Id, action: Action) {
        let node = &core.graph[id];
        let reads = node.kind.get().map_or(Reads::WithBase, |kind| core.registry.descriptor(kind).reads());
        let whom = match reads {
            Reads::Itself => Some(id),
            Reads::WithBase if node.base != NO && core.graph[node.base].kind.get().is_some() => {
                Some(node.base)
            }
            Reads::WithBase | Reads::Never => None,
        };
        match whom {
            Some(whom) => {
                let rank = self.rank_of(core, id);
                self.visit(core, whom, rank);
                let reads = self.push_op(whom, OpAct::Act(Action::Retrieve));
                self.readbacks.push(Readback { op, reads, id, action });
                self.stack.push(reads);
            }
            None => {
                let gone = action == Action::Create || (action == Action::Delete && !core.graph[id].exists());
                if gone && core.graph[id].exists() {
                    self.lose(core, id);
                }
                self.resolve(core, op, id, action);
            }
        }
    }

    /// An item was read after a failure.
    fn read(&mut self, core: &mut Core, op: u32, answer: Result<Option<Retrieved>, Failure>) {
        self.ops[op as usize].state = OpState::Done;
        self.ended += 1;
        let Some(at) = self.readbacks.iter().position(|readback| readback.reads == op) else { return };
        let readback = self.readbacks.swap_remove(at);
        let read = self.ops[op as usize].id;
        let marks =
            Marks { derived: core.graph[read].is_derived(), revert: self.reverting, ..Marks::default() };
        let before = self.visits[core.graph[read].visit as usize].told.clone();
        let mut error: Option<Arc<str>> = None;
        let mut value = None;
        match answer {
            Err(failure) => error = Some(failure.message),
            Ok(found) => {
                value = found.as_ref().map(|found| found.value.clone());
                self.learn(core, read, found);
            }
        }
        let base = core.graph[read].base;
        let step = Step {
            base: (base != NO).then(|| core.graph[base].key.clone()),
            key: core.graph[read].key.clone(),
            action: Action::Retrieve,
            before,
            after: Side { state: core.graph.state(read), value },
            error,
            note: None,
            marks,
        };
        self.log_step(core, read, step);
        if read != readback.id {
            // Reading the base for a part of it may have told something about the base itself.
            let rank = self.rank_of(core, read);
            let at = self.visit(core, read, rank);
            self.queue.push((read, rank));
            self.again.push(at);
        }
        self.resolve(core, readback.op, readback.id, readback.action);
    }

    /// Writes what was read of an item into the graph, with what that says about the derived items that are part of it.
    pub(crate) fn learn(&mut self, core: &mut Core, id: Id, found: Option<Retrieved>) {
        match found {
            None if core.graph[id].exists() => self.lose(core, id),
            None => {}
            Some(Retrieved { value, facts, origin, .. }) => {
                let was_observed = core.graph[id].is_observed();
                let observed = origin.map_or(was_observed, |origin| origin == Origin::Observed);
                let rank = self.rank_of(core, id);
                core.graph[id].facts = facts;
                if observed != was_observed || !is_equivalent(core, id, &value) {
                    core.graph.set_actual(id, Some(value.clone()), observed, &mut self.touched);
                    self.enqueue_touched(rank);
                    restage_needs(core, id, EdgeBits::ACTUAL);
                    self.learn_how(core, id);
                }
                self.learn_parts(core, id, Some(&value));
            }
        }
    }

    /// The item turned out not to exist.
    pub(crate) fn lose(&mut self, core: &mut Core, id: Id) {
        let failure = core.graph[id].failure().cloned();
        let missing =
            core.graph[id].has(Flags::APPLIED) && core.graph[id].declared.is_some() && failure.is_none();
        self.take_away(core, id);
        core.graph[id].flags.set(Flags::MISSING, missing);
        if failure.is_some() {
            core.graph[id].rare().failure = failure;
        }
        self.learn_parts(core, id, None);
    }

    /// Derived items that are part of their base exist exactly if the value that was read derives them.
    pub(crate) fn learn_parts(&mut self, core: &mut Core, id: Id, read: Option<&ValueRef>) {
        if core.graph[id].base != NO {
            return;
        }
        let mut derived = std::mem::take(&mut core.derived);
        derived.clear();
        let node = &core.graph[id];
        if let (Some(kind), Some(value)) = (node.kind.get(), read) {
            core.registry.descriptor(kind).derive(&node.key, value, &mut derived);
        }
        core.graph.epoch += 1;
        let epoch = core.graph.epoch;
        for (key, value) in derived.iter() {
            let child = core.graph.intern(key, &core.registry);
            core.graph[child].epoch = epoch;
            self.leavings.push(child);
            if is_part(core, child) && self.adopt_part(core, id, child) {
                self.set_part(core, child, Some(value.clone()));
            }
        }
        core.derived = derived;
        for child in core.graph[id].derived.clone() {
            if core.graph[child].epoch != epoch && is_part(core, child) {
                self.set_part(core, child, None);
            }
        }
    }

    /// Makes a part known to its base; `false` if the key belongs to somebody else.
    pub(crate) fn adopt_part(&mut self, core: &mut Core, base: Id, child: Id) -> bool {
        let node = &core.graph[child];
        if node.base == base {
            return true;
        }
        if child == base
            || node.base != NO
            || node.declared.is_some()
            || node.refused().is_some()
            || node.exists()
        {
            return false;
        }
        core.graph.link_base(child, base);
        core.graph[child].flags.set(Flags::WAS_DERIVED, true);
        core.graph.add_edge(child, base, EdgeBits::BASE.with(EdgeBits::ACTUAL));
        true
    }

    fn set_part(&mut self, core: &mut Core, child: Id, value: Option<ValueRef>) {
        if core.graph[child].actual == value {
            if value.is_none() && core.graph[child].has(Flags::WAS_DERIVED) {
                core.graph.unlink_base(child);
            }
            return;
        }
        let base = core.graph[child].base;
        let rank = self.rank_of(core, base);
        let at = self.visit(core, child, rank);
        if value.is_none() {
            let failure = core.graph[child].failure().cloned();
            self.take_away(core, child);
            if failure.is_some() && core.graph[child].declared.is_some() {
                core.graph[child].rare().failure = failure;
            }
        } else {
            // A part of a foreign item is ours if we made it, or tried to.
            let node = &core.graph[child];
            let ours = node.has(Flags::APPLIED)
                || node.failure().is_some_and(|failure| failure.action == Action::Create);
            let observed = core.graph[base].is_observed() && !ours;
            let doomed = core.graph[base].has(Flags::DOOMED) && core.graph[child].declared.is_none();
            core.graph[child].flags.set(Flags::DOOMED, doomed);
            core.graph.set_actual(child, value, observed, &mut self.touched);
            if let Some(at) = core.graph.edge_to(child, base, EdgeBits::BASE) {
                core.graph[child].needs[at].bits.set(EdgeBits::ACTUAL, true);
            }
            restage_needs(core, child, EdgeBits::ACTUAL);
        }
        self.learn_how(core, child);
        self.enqueue_touched(rank);
        self.queue.push((child, rank));
        self.again.push(at);
    }

    /// Writes a finished operation into the record.
    fn log(&mut self, core: &Core, op: u32) {
        if self.steps.is_none() && self.planned.is_some() {
            let planned = self.planned_at.get(op as usize).copied().unwrap_or(NO);
            if planned != NO {
                self.as_planned.push(planned);
                if let Some(steps) = &self.planned {
                    let at = core.graph[self.ops[op as usize].id].visit;
                    self.visits[at as usize].told.clone_from(&steps[planned as usize].after);
                }
                return;
            }
            if !matches!(self.ops[op as usize].act, OpAct::Act(_)) {
                return;
            }
        }
        if let Some(step) = self.step(core, op) {
            self.log_step(core, self.ops[op as usize].id, step);
        }
    }

    /// Remembers how an item was told. A read tells what was found, not how the item stands.
    fn tell(&mut self, core: &Core, id: Id, step: &Step) {
        if step.action != Action::Retrieve
            && let Some(visit) = self.visits.get_mut(core.graph[id].visit as usize)
        {
            visit.told.clone_from(&step.after);
        }
    }

    /// Writes a step that was not planned into the record.
    pub(crate) fn log_step(&mut self, core: &Core, id: Id, step: Step) {
        self.tell(core, id, &step);
        if self.steps.is_none() {
            let planned = self.planned.as_deref().unwrap_or_default();
            self.steps = Some(self.as_planned.iter().map(|at| planned[*at as usize].clone()).collect());
        }
        if let Some(steps) = &mut self.steps {
            steps.push(step);
        }
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

/// Whether a value that was read says the same about the item itself as what is remembered.
pub(crate) fn is_equivalent(core: &Core, id: Id, read: &ValueRef) -> bool {
    let node = &core.graph[id];
    match (&node.actual, node.kind.get()) {
        (None, _) => false,
        (Some(actual), _) if actual == read => true,
        (Some(_), None) => false,
        (Some(actual), Some(kind)) => {
            core.registry.descriptor(kind).transition(&node.key, actual, read) == Transition::Same
        }
    }
}

/// Whether reading the base tells about the item.
fn is_part(core: &Core, child: Id) -> bool {
    let kind = core.graph[child].kind.get();
    kind.is_none_or(|kind| core.registry.descriptor(kind).reads() == Reads::WithBase)
}

/// Why an operation that was accepted counts as failed.
pub(crate) fn overdue_failure() -> Failure {
    Failure::retriable("not confirmed in time")
}
