//! Staging what was seen: items that nobody declared, and confirmations of operations under way.

use super::{Choice, Core, Walk};
use crate::graph::node::{EdgeBits, Flags, Id, NO};
use crate::record::Action;
use crate::state::Origin;
use crate::txn::Observation;
use crate::value::ValueRef;
use crate::walk::put::restage_needs;

impl Walk {
    /// Takes note of one observation. Each item is judged alone.
    pub(crate) fn stage_observation(&mut self, core: &mut Core, seen: &Observation, rank: u32) {
        let known = core.graph.find(seen.key.as_str());
        if known.is_none() && (seen.value.is_none() || core.registry.owner(seen.key.as_str()).is_none()) {
            self.ignored.push(seen.key.clone());
            return;
        }
        let id = core.graph.intern_key(&seen.key, &core.registry);
        let node = &core.graph[id];
        if let Some(awaited) = node.awaited() {
            let usurped = seen.origin == Origin::Observed && seen.value.is_some() && !node.exists();
            if usurped && awaited.action == Action::Create {
                self.give_way(core, id, seen, rank);
            } else {
                self.confirm(core, id, seen, rank);
            }
            return;
        }
        let declared = node.declared.is_some() || node.refused().is_some();
        if declared || node.kind.get().is_none() || (seen.value.is_none() && !node.exists()) {
            self.ignored.push(seen.key.clone());
            return;
        }
        if node.exists() && !node.has(Flags::OBSERVED) && node.has(Flags::DOOMED) {
            // It is ours and on its way out; only a refresh tells more.
            self.ignored.push(seen.key.clone());
            return;
        }
        let at = self.stage(core, id, rank);
        let unchanged = node_is(core, id, seen);
        let observed =
            core.graph[id].is_observed() || (!core.graph[id].exists() && seen.origin == Origin::Observed);
        core.graph[id].facts.clone_from(&seen.facts);
        if unchanged {
            core.graph.disturb(id);
            return;
        }
        self.visits[at as usize].note =
            Some(if seen.value.is_some() { Action::Observe } else { Action::Forget });
        core.graph.set_actual(id, seen.value.clone(), observed, &mut self.touched);
        self.enqueue_touched(rank);
        restage_needs(core, id, EdgeBits::ACTUAL);
        self.observe_derived(core, id, rank);
        self.leavings.push(id);
    }

    /// Somebody else made the item while our creation was not confirmed: it is foreign.
    fn give_way(&mut self, core: &mut Core, id: Id, seen: &Observation, rank: u32) {
        self.stage(core, id, rank);
        let node = &mut core.graph[id];
        node.rare().awaited = None;
        node.facts.clone_from(&seen.facts);
        core.graph.set_actual(id, seen.value.clone(), true, &mut self.touched);
        self.enqueue_touched(rank);
        restage_needs(core, id, EdgeBits::ACTUAL);
        self.unstick_derived(core, id, rank);
        self.learn_how(core, id);
        self.queue.push((id, rank));
    }

    /// What a foreign item derives is there with it, and is nobody's to make.
    pub(crate) fn observe_derived(&mut self, core: &mut Core, id: Id, rank: u32) {
        if core.graph[id].base != NO {
            return;
        }
        let mut derived = std::mem::take(&mut core.derived);
        derived.clear();
        let node = &core.graph[id];
        if let (Some(kind), Some(value)) =
            (node.kind.get(), node.actual.as_ref().filter(|_| node.is_observed()))
        {
            core.registry.descriptor(kind).derive(&node.key, value, &mut derived);
        }
        core.graph.epoch += 1;
        let epoch = core.graph.epoch;
        for (key, value) in derived.iter() {
            let child = core.graph.intern(key, &core.registry);
            self.leavings.push(child);
            core.graph[child].epoch = epoch;
            if self.adopt_part(core, id, child) && core.graph[child].declared.is_none() {
                self.observe_part(core, child, Some(value.clone()), rank);
            }
        }
        core.derived = derived;
        for child in core.graph[id].derived.clone() {
            if core.graph[child].epoch != epoch
                && core.graph[child].is_observed()
                && core.graph[child].declared.is_none()
            {
                self.observe_part(core, child, None, rank);
            }
        }
    }

    fn observe_part(&mut self, core: &mut Core, child: Id, value: Option<ValueRef>, rank: u32) {
        if core.graph[child].actual == value {
            return;
        }
        let at = self.stage(core, child, rank);
        let gone = value.is_none();
        self.visits[at as usize].note = Some(if gone { Action::Forget } else { Action::Observe });
        if gone {
            self.take_away(core, child);
        } else {
            core.graph.set_actual(child, value, true, &mut self.touched);
            let base = core.graph[child].base;
            if let Some(at) = core.graph.edge_to(child, base, EdgeBits::BASE) {
                core.graph[child].needs[at].bits.set(EdgeBits::ACTUAL, true);
            }
            restage_needs(core, child, EdgeBits::ACTUAL);
        }
        self.enqueue_touched(rank);
        self.queue.push((child, rank));
    }

    /// Takes an observation as the confirmation of an accepted operation.
    fn confirm(&mut self, core: &mut Core, id: Id, seen: &Observation, rank: u32) {
        let Some(awaited) = core.graph[id].awaited().cloned() else { return };
        let removal = awaited.action == Action::Delete;
        if removal != seen.value.is_none() {
            self.ignored.push(seen.key.clone());
            return;
        }
        let at = self.stage(core, id, rank);
        self.visits[at as usize].note = Some(if removal { Action::Forget } else { Action::Observe });
        core.graph[id].rare().awaited = None;
        if removal {
            self.take_away(core, id);
            self.unstick_derived(core, id, rank);
        } else {
            let same_as_asked = awaited.value.is_some() && awaited.value == seen.value;
            core.graph.set_actual(id, seen.value.clone(), false, &mut self.touched);
            let node = &mut core.graph[id];
            node.facts.clone_from(&seen.facts);
            node.flags.set(Flags::APPLIED, true);
            node.flags.set(Flags::MISSING, false);
            node.flags.set(Flags::DOOMED, node.declared.is_none());
            if same_as_asked && node.declared == awaited.value {
                let mut dropped = Vec::new();
                core.graph.settle_edges(id, &mut dropped);
                self.release_held(core, &dropped, rank);
                self.leavings.extend(dropped);
            } else {
                restage_needs(core, id, EdgeBits::ACTUAL);
            }
            self.unstick_derived(core, id, rank);
        }
        self.enqueue_touched(rank);
        self.learn_how(core, id);
        self.queue.push((id, rank));
        self.visits[at as usize].choice = Choice::Nothing;
    }

    /// Gives up waiting for a confirmation; the item has to be read.
    pub(crate) fn stage_overdue(&mut self, core: &mut Core, id: Id, rank: u32) -> bool {
        let overdue = core.graph[id].awaited().filter(|awaited| awaited.deadline <= self.now);
        let Some(awaited) = overdue.cloned() else { return false };
        let at = self.stage(core, id, rank);
        core.graph[id].rare().awaited = None;
        self.visits[at as usize].own = true;
        self.note_failure(core, id, awaited.action, &super::answer::overdue_failure());
        self.late.push((id, awaited.action));
        true
    }

    /// Lets derived items go on that waited for their base to reach its declared value.
    pub(crate) fn unstick_derived(&mut self, core: &mut Core, id: Id, rank: u32) {
        for at in 0..core.graph[id].derived.len() {
            let child = core.graph[id].derived[at];
            if core.graph[child].has(Flags::STUCK) {
                let at = self.visit(core, child, rank);
                core.graph[child].flags.set(Flags::STUCK, false);
                self.queue.push((child, rank));
                self.again.push(at);
            }
        }
    }
}

/// Whether the observation tells nothing new.
fn node_is(core: &Core, id: Id, seen: &Observation) -> bool {
    core.graph[id].actual == seen.value
}
