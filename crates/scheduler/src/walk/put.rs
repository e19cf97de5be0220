//! Staging a declaration: the value, its dependencies and what it derives.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Core, How, Walk};
use crate::dependency::{Need, Until};
use crate::descriptor::Transition;
use crate::graph::node::{EdgeBits, Flags, Id, NO, Refused};
use crate::record::{Action, Cause};
use crate::staging::is_waiting;
use crate::state::FieldError;
use crate::txn::Change;
use crate::value::ValueRef;

impl Walk {
    /// Declares a value for a base item.
    pub(crate) fn stage_put(
        &mut self,
        core: &mut Core,
        id: Id,
        change: &Change,
        value: &ValueRef,
        rank: u32,
    ) {
        let retry = core.graph.retry_number(self.retry);
        if is_settled(core, id, value) {
            let node = &mut core.graph[id];
            node.revision = self.seq;
            node.retry = retry;
            if node.rare.as_ref().and_then(|rare| rare.labels.as_ref()) != change.labels.as_ref() {
                node.rare().labels.clone_from(&change.labels);
            }
            self.unchanged.push(id);
            let derived = &core.graph[id].derived;
            self.unchanged_waits |=
                is_waiting(&core.graph, id) || derived.iter().any(|child| is_waiting(&core.graph, *child));
            return;
        }
        let at = self.stage(core, id, rank);
        self.visits[at as usize].own = true;
        let node = &mut core.graph[id];
        node.revision = self.seq;
        node.retry = retry;
        if change.labels.is_some() || node.rare.is_some() {
            node.rare().labels.clone_from(&change.labels);
        }
        self.declare(core, id, value, rank);
    }

    /// Declares the value again that the vertex has: tries again what failed, compares again what was read.
    pub(crate) fn stage_again(&mut self, core: &mut Core, id: Id, rank: u32) {
        let node = &core.graph[id];
        let Some(value) =
            node.refused().map(|refused| refused.value.clone()).or_else(|| node.declared.clone())
        else {
            self.stage(core, id, rank);
            self.forgive(core, id);
            for child in core.graph[id].derived.clone() {
                self.doom_leftover(core, child, rank);
            }
            return;
        };
        self.stage(core, id, rank);
        self.declare(core, id, &value, rank);
    }

    fn declare(&mut self, core: &mut Core, id: Id, value: &ValueRef, rank: u32) {
        self.forgive(core, id);
        self.prefer_declared(core, id, rank);
        if let Some(refused) = self.judge(core, id, value) {
            self.refuse(core, id, refused, rank);
            return;
        }
        let node = &mut core.graph[id];
        if let Some(rare) = node.rare.as_mut() {
            rare.refused = None;
        }
        node.declared = Some(value.clone());
        node.flags.set(Flags::DOOMED, false);
        self.learn_how(core, id);
        if let Some(refused) = self.protect_foreign(core, id, value) {
            self.refuse(core, id, refused, rank);
            return;
        }
        restage_needs(core, id, EdgeBits::DECLARED);
        self.stage_derived(core, id, rank);
    }

    /// Of an item that is declared and derived by one and the same transaction, the declaration wins, whatever the order
    /// of the keys: so a restart decides as before.
    fn prefer_declared(&mut self, core: &mut Core, id: Id, rank: u32) {
        let node = &core.graph[id];
        let fresh = self.visit_of(core, id).and_then(|visit| visit.before());
        let fresh = fresh.is_some_and(|before| !before.flags.has(Flags::DERIVED));
        if !node.has(Flags::DERIVED) || !fresh {
            return;
        }
        let base = node.base;
        let Some(value) = core.graph[base].declared.clone() else { return };
        let message = format!("derives `{}`, which is declared already", node.key);
        self.refuse(core, base, refusal(&value, message, Some(id)), rank);
        if core.graph[id].base == base && !core.graph[id].has(Flags::DERIVED) {
            core.graph.unlink_base(id);
            core.graph[id].flags.set(Flags::WAS_DERIVED, false);
        }
    }

    /// Lets an item that failed or was stuck try again, with its derived items.
    pub(crate) fn forgive(&mut self, core: &mut Core, id: Id) {
        let node = &mut core.graph[id];
        node.flags.set(Flags::STUCK, false);
        if let Some(rare) = node.rare.as_mut() {
            rare.failure = None;
        }
        if node.has(Flags::HELD) {
            node.flags.set(Flags::HELD, false);
            self.release_below(core, id);
        }
    }

    /// Why a value cannot be declared, if it cannot.
    fn judge(&mut self, core: &mut Core, id: Id, value: &ValueRef) -> Option<Refused> {
        let node = &core.graph[id];
        if node.has(Flags::DERIVED) {
            let owner = core.graph[node.base].key.clone();
            return Some(refusal(value, format!("`{owner}` derives this item"), Some(id)));
        }
        let descriptor = core.registry.descriptor(node.kind.get()?);
        let fields = descriptor.validate(&node.key, value);
        if !fields.is_empty() {
            return Some(Refused { value: value.clone(), fields, taken: None });
        }
        core.derived.clear();
        descriptor.derive(&node.key, value, &mut core.derived);
        for (key, _) in core.derived.iter() {
            let Some(taken) = core.graph.find(key) else { continue };
            let other = &core.graph[taken];
            let free = other.base == id || (!other.has(Flags::DERIVED) && other.declared.is_none());
            if taken == id || !free {
                let by = if other.base == NO {
                    "declared".to_owned()
                } else {
                    format!("derived from `{}`", core.graph[other.base].key)
                };
                return Some(refusal(value, format!("derives `{key}`, which is {by} already"), Some(taken)));
            }
        }
        None
    }

    /// What exists and was not made here is never deleted, also not to create it again.
    fn protect_foreign(&mut self, core: &Core, id: Id, value: &ValueRef) -> Option<Refused> {
        let node = &core.graph[id];
        let visit = &self.visits[node.visit as usize];
        match &visit.how {
            How::Recreate(reason) if node.is_observed() => Some(refusal(
                value,
                format!(
                    "exists already and was not made here; the change ({reason}) would have to delete it"
                ),
                None,
            )),
            How::Unknown | How::Same | How::InPlace | How::Recreate(_) => None,
        }
    }

    /// Refuses a value: what was applied stays, and nothing new is created.
    pub(crate) fn refuse(&mut self, core: &mut Core, id: Id, refused: Refused, rank: u32) {
        if let Some(taken) = refused.taken {
            let contenders = &mut core.graph[taken].rare().contenders;
            if !contenders.contains(&id) {
                contenders.push(id);
            }
        }
        let was_derived = core.graph[id].has(Flags::DERIVED);
        let at = self.visit(core, id, rank);
        let visit = &self.visits[at as usize];
        let before = visit.before().and_then(|before| before.refused.as_ref());
        let news =
            before.is_none_or(|before| before.value != refused.value || before.fields != refused.fields);
        if news || visit.own {
            let error = refused.fields.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            self.fail(core, Cause { key: core.graph[id].key.clone(), error: error.into() });
        }
        if news {
            self.visits[at as usize].note = Some(Action::Refuse);
        }
        let node = &mut core.graph[id];
        node.rare().refused = Some(refused);
        if was_derived && node.base != NO && self.visits[at as usize].own {
            return;
        }
        if node.is_observed() && !node.has(Flags::APPLIED) {
            node.declared = None;
        } else {
            node.declared = node.actual.clone();
        }
        self.learn_how(core, id);
        restage_needs(core, id, EdgeBits::DECLARED);
        self.stage_derived(core, id, rank);
    }

    /// Computes how the actual value becomes the declared one.
    pub(crate) fn learn_how(&mut self, core: &Core, id: Id) {
        let node = &core.graph[id];
        let how = match (&node.actual, &node.declared) {
            (Some(actual), Some(declared)) if actual.is_identical(declared) => How::Same,
            (Some(actual), Some(declared)) => match node.kind.get() {
                None if actual == declared => How::Same,
                None => How::InPlace,
                Some(kind) => match core.registry.descriptor(kind).transition(&node.key, actual, declared) {
                    Transition::Same => How::Same,
                    Transition::InPlace => How::InPlace,
                    Transition::Recreate { reason } => How::Recreate(reason.into()),
                },
            },
            _ => How::Unknown,
        };
        if let Some(visit) = self.visits.get_mut(node.visit as usize) {
            visit.how = how;
        }
    }

    /// Writes what the value of a base derives: new and changed items are declared, obsolete ones withdrawn.
    pub(crate) fn stage_derived(&mut self, core: &mut Core, id: Id, rank: u32) {
        if core.graph[id].base != NO {
            return;
        }
        core.graph.epoch += 1;
        let epoch = core.graph.epoch;
        let mut derived = std::mem::take(&mut core.derived);
        derived.clear();
        let node = &core.graph[id];
        if let (Some(kind), Some(value)) = (node.kind.get(), node.declared.as_ref()) {
            core.registry.descriptor(kind).derive(&node.key, value, &mut derived);
        }
        if derived.is_empty() && core.graph[id].derived.is_empty() {
            core.derived = derived;
            return;
        }
        for (key, value) in derived.iter() {
            let child = core.graph.intern(key, &core.registry);
            core.graph[child].epoch = epoch;
            self.declare_derived(core, id, child, value, rank);
        }
        core.derived = derived;
        let children = core.graph[id].derived.clone();
        for child in children {
            if core.graph[child].epoch != epoch {
                self.withdraw(core, child, rank);
                self.doom_leftover(core, child, rank);
            }
        }
    }

    fn declare_derived(&mut self, core: &mut Core, base: Id, child: Id, value: &ValueRef, rank: u32) {
        let linked = core.graph[child].base == base;
        if linked && core.graph[child].has(Flags::DERIVED) && is_settled(core, child, value) {
            return;
        }
        self.stage(core, child, rank);
        if !linked {
            let moves = core.graph[child].base != NO;
            core.graph.link_base(child, base);
            if moves && core.graph[child].exists() {
                // It was part of another base: it leaves with that one and comes again with this one.
                let at = core.graph[child].visit;
                self.visits[at as usize].bounce = true;
            }
        }
        let node = &mut core.graph[child];
        node.flags.set(Flags::DERIVED, true);
        node.flags.set(Flags::WAS_DERIVED, false);
        node.flags.set(Flags::DOOMED, false);
        let stays = node.exists() && !self.visits[node.visit as usize].bounce;
        match core.graph.edge_to(child, base, EdgeBits::BASE) {
            Some(at) => core.graph.set_declared_edge(child, at, true),
            None => {
                let mut bits = EdgeBits::BASE.with(EdgeBits::DECLARED);
                bits.set(EdgeBits::ACTUAL, stays);
                core.graph.add_edge(child, base, bits);
            }
        }
        let retry = core.graph[base].retry;
        core.graph[child].retry = retry;
        self.forgive(core, child);
        if let Some(kind) = core.graph[child].kind.get() {
            let fields = core.registry.descriptor(kind).validate(&core.graph[child].key, value);
            if !fields.is_empty() {
                self.refuse(core, child, Refused { value: value.clone(), fields, taken: None }, rank);
                return;
            }
        }
        let node = &mut core.graph[child];
        if let Some(rare) = node.rare.as_mut() {
            rare.refused = None;
        }
        node.declared = Some(value.clone());
        self.learn_how(core, child);
        restage_needs(core, child, EdgeBits::DECLARED);
    }
}

fn refusal(value: &ValueRef, message: String, taken: Option<Id>) -> Refused {
    Refused { value: value.clone(), fields: vec![FieldError { path: String::new(), message }], taken }
}

/// Whether declaring this value asks for nothing: it is declared, and either there or rightly waiting.
fn is_settled(core: &Core, id: Id, value: &ValueRef) -> bool {
    let node = &core.graph[id];
    node.declared.as_ref() == Some(value)
        && node.rare.as_ref().is_none_or(|rare| rare.failure.is_none() && rare.refused.is_none())
        && !node.has(Flags::HELD)
        && !node.has(Flags::MISSING)
        && !node.has(Flags::STUCK)
        && if node.exists() {
            // What was applied is most often the very value that was declared, which was compared above.
            let applied =
                |(actual, declared): (&ValueRef, &ValueRef)| actual.is_identical(declared) || actual == value;
            node.has(Flags::APPLIED)
                && node.has(Flags::GOAL)
                && node.actual.as_ref().zip(node.declared.as_ref()).is_some_and(applied)
        } else {
            !node.has(Flags::GOAL)
        }
        && node.derived.iter().all(|child| {
            let child = &core.graph[*child];
            child.has(Flags::DERIVED)
                && child.failure().is_none()
                && !child.has(Flags::HELD)
                && !child.has(Flags::MISSING)
                && !child.has(Flags::STUCK)
        })
}

/// Writes the dependencies of the declared or the actual value, as the bit says.
pub(crate) fn restage_needs(core: &mut Core, id: Id, bit: EdgeBits) {
    let mut needs = std::mem::take(&mut core.needs);
    needs.clear();
    let node = &core.graph[id];
    let value = if bit == EdgeBits::DECLARED { &node.declared } else { &node.actual };
    if let (Some(kind), Some(value)) = (node.kind.get(), value) {
        core.registry.descriptor(kind).needs(&node.key, value, &mut needs);
    }
    let old = core.graph[id].needs.len();
    let mut kept: SmallVec<[bool; 8]> = SmallVec::from_elem(false, old);
    let mut known: FxHashMap<(Id, u8), usize> = FxHashMap::default();
    let mut listed = 0_usize;
    for (need, until) in needs.iter() {
        listed += 1;
        let (target, mut shape) = match need {
            Need::On(key) => (core.graph.intern(key, &core.registry), EdgeBits::PLAIN),
            Need::Absent(key) => (core.graph.intern(key, &core.registry), EdgeBits::ABSENT),
            Need::AnyOf { prefixes, matching } => {
                (core.graph.intern_group(prefixes, matching), EdgeBits::PLAIN)
            }
        };
        if until == Until::Created {
            shape = shape.with(EdgeBits::CREATE);
        }
        // An item that needs itself is a cycle of one: met by being there.
        if target == id && !shape.has(EdgeBits::ABSENT) {
            continue;
        }
        let at = if listed > 16 || old > 16 {
            if known.is_empty() {
                known.extend(
                    core.graph[id]
                        .needs
                        .iter()
                        .enumerate()
                        .map(|(at, edge)| ((edge.target, edge.bits.shape()), at)),
                );
            }
            known.get(&(target, shape.shape())).copied()
        } else {
            core.graph.edge_to(id, target, shape)
        };
        match at {
            Some(at) => {
                if bit == EdgeBits::DECLARED {
                    core.graph.set_declared_edge(id, at, true);
                } else {
                    core.graph[id].needs[at].bits.set(EdgeBits::ACTUAL, true);
                }
                if at < kept.len() {
                    kept[at] = true;
                }
            }
            None => {
                core.graph.add_edge(id, target, shape.with(bit));
                if !known.is_empty() {
                    known.insert((target, shape.shape()), core.graph[id].needs.len() - 1);
                }
            }
        }
    }
    core.needs = needs;
    let other = if bit == EdgeBits::DECLARED { EdgeBits::ACTUAL } else { EdgeBits::DECLARED };
    for at in (0..old).rev() {
        let bits = core.graph[id].needs[at].bits;
        if kept[at] || bits.has(EdgeBits::BASE) || !bits.has(bit) {
            continue;
        }
        if bits.has(other) {
            if bit == EdgeBits::DECLARED {
                core.graph.set_declared_edge(id, at, false);
            } else {
                core.graph[id].needs[at].bits.set(EdgeBits::ACTUAL, false);
            }
        } else {
            core.graph.remove_edge(id, at);
        }
    }
}
