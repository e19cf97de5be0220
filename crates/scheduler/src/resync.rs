//! Resync: what was read becomes what is known, and what shall be is declared again.
//!
//! What a refresh finds changes only what is remembered. A fresh agent never deletes what it has not been told about
//! yet: only a full or upstream resync, which says what shall be, removes what it does not name. What is read, and when,
//! is in [`crate::refresh`].

use crate::graph::node::{EdgeBits, Flags, Id, NO, Node};
use crate::operation::Retrieved;
use crate::record::Action;
use crate::state::{Origin, State};
use crate::txn::Undeclared;
use crate::walk::put::restage_needs;
use crate::walk::readback::{is_as_applied, is_equivalent};
use crate::walk::{Core, Walk};

impl Walk {
    /// An item was read.
    pub(crate) fn take_in(&mut self, core: &mut Core, id: Id, found: Retrieved, sweep: u32, announced: bool) {
        let node = &mut core.graph[id];
        node.seen = sweep;
        let known_as_ours = announced
            || node.declared.is_some()
            || node.refused().is_some()
            || (node.exists() && !node.has(Flags::OBSERVED));
        let observed = match found.origin {
            Some(origin) => origin == Origin::Observed,
            None => !known_as_ours,
        };
        let ours_as_before = node.has(Flags::OBSERVED) == observed;
        let rank = 0;
        let same = ours_as_before
            && (is_equivalent(core, id, &found.value) || is_as_applied(core, id, &found.value));
        let node = &mut core.graph[id];
        if found.facts.is_some() || !same {
            node.facts = found.facts;
        }
        if same && node.awaited().is_none() {
            if !node.derived.is_empty() && node.actual.as_ref() != Some(&found.value) {
                self.learn_parts(core, id, Some(&found.value));
                self.again.clear();
            }
            return;
        }
        let at = self.visit(core, id, rank);
        self.visits[at as usize].listed = true;
        let existed = core.graph[id].exists();
        let undeclared = core.graph[id].declared.is_none() && core.graph[id].refused().is_none();
        if undeclared && observed && !existed {
            let at = core.graph[id].visit;
            self.visits[at as usize].note = Some(Action::Observe);
        }
        core.graph.set_actual(id, Some(found.value.clone()), observed, &mut self.touched);
        self.enqueue_touched(rank);
        if let Some(rare) = core.graph[id].rare.as_mut() {
            rare.awaited = None;
        }
        if let Some(at) = core.graph[id].needs.iter().position(|edge| edge.bits.has(EdgeBits::BASE)) {
            core.graph[id].needs[at].bits.set(EdgeBits::ACTUAL, true);
        }
        restage_needs(core, id, EdgeBits::ACTUAL);
        self.learn_how(core, id);
        if undeclared && observed {
            self.observe_derived(core, id, rank);
        } else {
            self.learn_parts(core, id, Some(&found.value));
        }
        self.again.clear();
    }

    /// An item that was there was not found.
    pub(crate) fn miss(&mut self, core: &mut Core, id: Id) {
        if !core.graph[id].exists() {
            return;
        }
        let rank = 0;
        let at = self.visit(core, id, rank);
        let node = &core.graph[id];
        let (declared, made_here) = (node.declared.is_some(), node.has(Flags::APPLIED));
        if node.declared.is_none() && node.is_observed() {
            self.visits[at as usize].note = Some(Action::Forget);
        }
        let observed = node.is_observed();
        let refused = node.refused().is_some();
        let failure = node.failure().cloned();
        self.take_away(core, id);
        self.unstick_derived(core, id, rank);
        let node = &mut core.graph[id];
        if refused {
            node.declared = None;
        }
        node.flags.set(Flags::MISSING, declared && made_here && !refused);
        if failure.is_some() && declared {
            node.rare().failure = failure;
        }
        restage_needs(core, id, EdgeBits::DECLARED);
        self.learn_parts(core, id, None);
        self.again.clear();
        if observed && core.graph[id].declared.is_none() {
            self.observe_derived(core, id, rank);
        }
    }

    /// Items of ours that the actual value of a base derives and that were read by themselves belong to it.
    pub(crate) fn link_leftovers(&mut self, core: &mut Core) {
        for at in 0..self.visits.len() {
            let id = self.visits[at].id;
            let node = &core.graph[id];
            let (Some(kind), Some(value), NO) = (node.kind.get(), &node.actual, node.base) else { continue };
            let mut derived = std::mem::take(&mut core.derived);
            derived.clear();
            core.registry.descriptor(kind).derive(&node.key, value, &mut derived);
            for (key, _) in derived.iter() {
                let Some(child) = core.graph.find(key) else { continue };
                let node = &core.graph[child];
                if node.exists() && node.base == NO && node.declared.is_none() && child != id {
                    core.graph.link_base(child, id);
                    core.graph[child].flags.set(Flags::WAS_DERIVED, true);
                    core.graph.add_edge(child, id, EdgeBits::BASE.with(EdgeBits::ACTUAL));
                }
            }
            core.derived = derived;
        }
    }

    /// Everything that is not as it should be is looked at again: failed, held, missing, half done; found already, or to
    /// be found.
    pub(crate) fn stage_unsettled(&mut self, core: &mut Core, found: Option<Vec<Id>>) {
        let mut unsettled =
            found.unwrap_or_else(|| core.graph.ids().filter(|id| is_unsettled(&core.graph[*id])).collect());
        for id in &mut unsettled {
            *id = core.graph.base_of(*id);
        }
        unsettled.sort_unstable();
        unsettled.dedup();
        crate::graph::sort_by_key(&core.graph, &mut unsettled, |id| *id);
        for (rank, id) in (0_u32..).zip(unsettled) {
            self.stage_again(core, id, rank);
        }
    }

    /// Removes every declaration that the resync did not name, and the leftovers of ours that it does not spare. If there
    /// are none, gives what is unsettled: one look at the graph was enough for both.
    pub(crate) fn stage_rest_as_removed(
        &mut self,
        core: &mut Core,
        sweep: u32,
        rank: u32,
        undeclared: &Undeclared,
    ) -> Option<Vec<Id>> {
        let is_rest = |id: Id, node: &Node| {
            if node.seen == sweep || node.has(Flags::DERIVED) {
                return false;
            }
            let orphan = node.base == NO || core.graph[node.base].declared.is_none();
            let base = (node.base != NO).then(|| &core.graph[node.base].key);
            let leftover =
                node.exists() && !node.has(Flags::OBSERVED) && orphan && undeclared.removes(&node.key, base);
            (node.declared.is_some() || node.refused().is_some() || leftover)
                && core.graph.state(id) != State::Nonexistent
        };
        // As long as nothing is staged, what was found as it should be still is, and need not be looked at again.
        let mut settled = vec![false; if self.visits.is_empty() { core.graph.slots() } else { 0 }];
        if !settled.is_empty() {
            self.unchanged.iter().for_each(|id| settled[*id as usize] = true);
        }
        let (mut rest, mut unsettled) = (Vec::new(), Vec::new());
        for id in core.graph.ids_without(&settled) {
            let node = &core.graph[id];
            rest.extend(is_rest(id, node).then_some(id));
            unsettled.extend(is_unsettled(node).then_some(id));
        }
        if rest.is_empty() {
            return Some(unsettled);
        }
        crate::graph::sort_by_key(&core.graph, &mut rest, |id| *id);
        for (more, id) in (0_u32..).zip(rest) {
            self.stage_remove(core, id, rank + more);
        }
        None
    }
}

/// Whether an item is not as it should be: failed, held, missing, half done.
fn is_unsettled(node: &Node) -> bool {
    node.failure().is_some()
        || node.has(Flags::HELD)
        || node.has(Flags::MISSING)
        || node.has(Flags::STUCK)
        || (node.declared.is_some() && node.exists() && !node.has(Flags::APPLIED))
        || node.refused().is_some()
        || (node.exists() && node.declared.is_none() && node.has(Flags::DOOMED))
}
