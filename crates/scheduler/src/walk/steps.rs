//! Steps: what an operation means for its item, in the words of the record.

use std::sync::Arc;

use super::{Choice, Core, How, OpAct, Walk};
use crate::graph::node::{EdgeBits, Flags, Id, NO, Node};
use crate::key::Key;
use crate::record::{Action, Marks, Note, Side, Step};
use crate::state::{State, Unmet};

impl Walk {
    /// The step that an operation is if it succeeds. Taken before the operation ends.
    pub(crate) fn step(&self, core: &Core, op: u32) -> Option<Step> {
        let op = &self.ops[op as usize];
        let OpAct::Act(action) = op.act else { return None };
        let node = &core.graph[op.id];
        let visit = &self.visits[node.visit as usize];
        let (after, note) = self.after(core, op.id, action);
        let value = match action {
            Action::Delete | Action::Forget | Action::Drop if after == State::Removed => None,
            Action::Delete | Action::Forget | Action::Drop => node.declared.clone(),
            Action::Observe | Action::Release | Action::Retrieve | Action::Miss | Action::Settle => {
                node.actual.clone()
            }
            Action::Refuse | Action::Hold => core.graph.side(op.id).value,
            Action::Create | Action::Update | Action::Adopt => node.declared.clone(),
        };
        let recreate = matches!(visit.choice, Choice::Recreate)
            && matches!(visit.how, How::Recreate(_))
            && !visit.bounce;
        let base = core.graph.base_of(op.id);
        let retried = self.is_retry && self.visit_of(core, base).is_some_and(|visit| visit.own);
        Some(Step {
            key: node.key.clone(),
            base: (node.base != NO).then(|| core.graph[node.base].key.clone()),
            action,
            before: visit.told.clone(),
            after: Side { state: after, value },
            error: None,
            note,
            marks: Marks {
                derived: node.is_derived(),
                property: is_property(core, node),
                revert: self.reverting,
                retry: retried,
                recreate,
            },
        })
    }

    /// Changes that no step told: compares how each visited item stands with how it was told last.
    pub(crate) fn settle(&self, core: &Core) -> Vec<Step> {
        let mut settled = Vec::new();
        for visit in &self.visits {
            if core.graph[visit.id].has(Flags::GROUP) {
                continue;
            }
            let now = core.graph.side(visit.id);
            let gone = Side { state: State::Nonexistent, value: None };
            let told = if visit.told.state == State::Removed { &gone } else { &visit.told };
            if *told != now {
                let node = &core.graph[visit.id];
                settled.push(Step {
                    key: node.key.clone(),
                    base: (node.base != NO).then(|| core.graph[node.base].key.clone()),
                    action: Action::Settle,
                    before: visit.told.clone(),
                    after: now,
                    error: None,
                    note: None,
                    marks: Marks {
                        derived: node.is_derived(),
                        property: is_property(core, node),
                        ..Marks::default()
                    },
                });
            }
        }
        settled
    }

    /// Items that wait as before, but for something else; base items only.
    pub(crate) fn stirred_keys(&self, core: &Core) -> Vec<Key> {
        let untold = |id: &&Id| self.visit_of(core, **id).is_none_or(|visit| visit.told == visit.first);
        let mut stirred: Vec<Id> =
            self.stirred.iter().filter(untold).map(|id| core.graph.base_of(*id)).collect();
        stirred.sort_unstable();
        stirred.dedup();
        stirred.retain(|id| core.graph.is_visible(*id));
        stirred.into_iter().map(|id| core.graph[id].key.clone()).collect()
    }

    fn after(&self, core: &Core, id: Id, action: Action) -> (State, Option<Arc<Note>>) {
        let node = &core.graph[id];
        let visit = &self.visits[node.visit as usize];
        let needs = || {
            let unmet = self.waiting_for(core, id);
            (!unmet.is_empty()).then(|| Arc::new(Note::Needs(unmet)))
        };
        match action {
            Action::Update | Action::Adopt if self.give_back.iter().any(|(other, _)| *other == id) => {
                (State::Obtained, None)
            }
            Action::Create | Action::Update | Action::Adopt => (State::Configured, None),
            Action::Delete => {
                if let (How::Recreate(reason), false, Choice::Recreate) =
                    (&visit.how, visit.bounce, visit.choice)
                {
                    return (State::Removed, Some(Arc::new(Note::Recreate(reason.to_string()))));
                }
                let leaves_old_base = node
                    .needs
                    .iter()
                    .any(|edge| edge.bits.has(EdgeBits::BASE) && !edge.bits.has(EdgeBits::DECLARED));
                let base_leaves = node.base != NO
                    && (leaves_old_base
                        || !core.graph.is_goal(node.base)
                        || self.visit_of(core, node.base).is_some_and(|base| base.down != NO));
                if node.declared.is_none() || base_leaves || !(node.has(Flags::DERIVED) || node.base == NO) {
                    return (State::Removed, None);
                }
                if node.refused().is_some() {
                    return (State::Invalid, None);
                }
                (State::Pending, needs())
            }
            Action::Hold => (core.graph.state(id), needs()),
            Action::Observe if !node.is_observed() => (State::Configured, None),
            Action::Observe | Action::Release => (State::Obtained, None),
            Action::Forget if core.graph.state(id) == State::Nonexistent => (State::Removed, None),
            Action::Forget => (core.graph.state(id), needs()),
            Action::Drop => (State::Removed, None),
            Action::Refuse => {
                let text = node.refused().map(|refused| {
                    refused.fields.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
                });
                (State::Invalid, text.map(|text| Arc::new(Note::Refused(text))))
            }
            Action::Retrieve | Action::Miss | Action::Settle => (core.graph.state(id), None),
        }
    }

    /// What the item waits for, or will wait for once what it stands on has gone down.
    pub(crate) fn waiting_for(&self, core: &Core, id: Id) -> Vec<Unmet> {
        let mut unmet: Vec<Unmet> = Vec::new();
        for edge in &core.graph[id].needs {
            if !edge.bits.has(EdgeBits::DECLARED) || edge.bits.has(EdgeBits::BASE) {
                continue;
            }
            let leaves = edge.bits.is_to_exist()
                && match core.graph[edge.target].group() {
                    Some(group) => group.leaving > 0 && group.leaving >= group.present,
                    None => self
                        .visit_of(core, edge.target)
                        .is_some_and(|target| matches!(target.choice, Choice::Delete | Choice::Recreate)),
                };
            if leaves || !core.graph.is_met(*edge) {
                unmet.push(core.graph.describe(*edge));
            }
        }
        unmet.sort();
        unmet
    }

    /// Writes a finished operation into the record.
    pub(crate) fn log(&mut self, core: &Core, op: u32) {
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
}

/// Whether an item needs no operation: it is derived, and its kind says so or no kind owns its key.
fn is_property(core: &Core, node: &Node) -> bool {
    node.is_property() || node.kind.get().is_some_and(|kind| core.registry.descriptor(kind).is_property())
}
