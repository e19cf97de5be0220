//! Reading back: what became of an item whose operation failed, and what reading an item tells about its parts.

use std::sync::Arc;

use super::{Core, OpAct, OpState, Walk};
use crate::descriptor::{Reads, Transition};
use crate::graph::node::{EdgeBits, Flags, Id, NO};
use crate::operation::{Failure, Retrieved};
use crate::record::{Action, Marks, Side, Step};
use crate::state::Origin;
use crate::value::ValueRef;
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
    /// Has the item of a failed operation read, by its key, or assumes what it can if nobody can read it.
    pub(crate) fn read_back(&mut self, core: &mut Core, op: u32, id: Id, action: Action) {
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
    pub(crate) fn read(&mut self, core: &mut Core, op: u32, answer: Result<Option<Retrieved>, Failure>) {
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
                core.graph.disturb(id);
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
        let rank = self.rank_of(core, id);
        self.take_away(core, id);
        self.unstick_derived(core, id, rank);
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

/// Whether a value that was read is what was applied, with what the declaration leaves open filled in.
///
/// **Why**: a world tells more than was declared. If what it tells became the remembered value, every resync would
/// take that in and then adopt the declaration again, item by item, to end where it began.
pub(crate) fn is_as_applied(core: &Core, id: Id, read: &ValueRef) -> bool {
    let node = &core.graph[id];
    let (Some(actual), Some(declared), Some(kind)) = (&node.actual, &node.declared, node.kind.get()) else {
        return false;
    };
    node.has(Flags::APPLIED)
        && actual == declared
        && core.registry.descriptor(kind).transition(&node.key, read, declared) == Transition::Same
}

/// Whether reading the base tells about the item.
fn is_part(core: &Core, child: Id) -> bool {
    let kind = core.graph[child].kind.get();
    kind.is_none_or(|kind| core.registry.descriptor(kind).reads() == Reads::WithBase)
}
