//! The order of operations: what must wait for what, and the one sequence that is the plan.
//!
//! * A vertex comes up after everything it needs has come up, and after its own going down.
//! * A vertex goes down after everything that needs it to exist has gone down or has moved off it.
//! * Obsolete derived items leave before their base changes; new and changed ones follow it.
//!
//! All of it is read from the side of the dependent, so that a popular item costs nothing unless it moves itself.

use super::knots::Knots;
use super::{Choice, Core, Link, Op, OpAct, OpState, Walk};
use crate::graph::node::{Edge, EdgeBits, Flags, Id, NO};
use crate::graph::sort_by_key;
use crate::record::{Action, Step};
use crate::state::State;

impl Walk {
    /// Makes the operations of all visits and puts them in order. `false`: a vertex must bounce to break a circle of
    /// changes; the cascade has to run again.
    pub(crate) fn order(&mut self, core: &mut Core, plan: bool) -> bool {
        self.ops.clear();
        self.ops.reserve(self.visits.len());
        for visit in &mut self.visits {
            visit.down = NO;
            visit.up = NO;
        }
        let count = u32::try_from(self.visits.len()).expect("bounded by the number of vertices");
        self.link_from(core, 0, count);
        let sequence = loop {
            let sequence = self.rehearse(core);
            if sequence.len() == self.ops.len() {
                break sequence;
            }
            match self.break_cycles(core, &sequence) {
                Knots::Bounce => return false,
                Knots::Loosened => {}
                Knots::None => unreachable!("what waits outside of a knot waits for something that comes"),
            }
        };
        if plan {
            self.planned_at = vec![NO; self.ops.len()];
            let mut steps: Vec<Step> = Vec::with_capacity(sequence.len());
            for op in &sequence {
                if let Some(step) = self.step(core, *op) {
                    self.planned_at[*op as usize] = u32::try_from(steps.len()).unwrap_or(NO);
                    let at = core.graph[self.ops[*op as usize].id].visit;
                    self.visits[at as usize].told.clone_from(&step.after);
                    steps.push(step);
                }
            }
            for visit in &mut self.visits {
                visit.told.clone_from(&visit.first);
            }
            self.planned = Some(steps);
        }
        self.stack = self.roots(core);
        true
    }

    /// Makes and links the operations of the visits in this range.
    pub(crate) fn link_from(&mut self, core: &mut Core, from: u32, to: u32) {
        for at in from..to {
            self.make_ops(core, at);
        }
        for at in from..to {
            self.link_needs(core, at);
        }
        for at in from..to {
            self.link_memberships(core, at);
        }
    }

    pub(crate) fn make_ops(&mut self, core: &Core, at: u32) {
        let visit = &self.visits[at as usize];
        let (id, choice, note) = (visit.id, visit.choice, visit.note);
        if let Some(note) = note {
            self.push_op(id, OpAct::Act(note));
        }
        if core.graph[id].has(Flags::HELD) && !matches!(choice, Choice::Note(_)) {
            return;
        }
        if let Choice::Delete | Choice::Recreate = choice {
            let down = self.push_op(id, OpAct::Act(Action::Delete));
            self.visits[at as usize].down = down;
        }
        let up = match choice {
            Choice::Create | Choice::Recreate => Action::Create,
            Choice::Update => Action::Update,
            Choice::Adopt if self.changes_something(core, at) => Action::Adopt,
            Choice::Note(action) if note.is_none() && self.is_news(core, at, action) => action,
            Choice::Nothing | Choice::Delete | Choice::Adopt | Choice::Note(_) => return,
        };
        let up = self.push_op(id, OpAct::Act(up));
        self.visits[at as usize].up = up;
        let down = self.visits[at as usize].down;
        if down != NO {
            self.link(down, up, false);
        }
    }

    /// Whether taking the declared value over changes what is remembered.
    fn changes_something(&self, core: &Core, at: u32) -> bool {
        let visit = &self.visits[at as usize];
        let node = &core.graph[visit.id];
        !node.has(Flags::APPLIED)
            || (visit.was != State::Configured && visit.note.is_none())
            || node.actual != node.declared
            || node
                .needs
                .iter()
                .any(|edge| edge.bits.has(EdgeBits::ACTUAL) != edge.bits.has(EdgeBits::DECLARED))
    }

    /// Whether a note tells something that was not so before.
    fn is_news(&self, core: &Core, at: u32, action: Action) -> bool {
        let visit = &self.visits[at as usize];
        let node = &core.graph[visit.id];
        if action != Action::Hold {
            return true;
        }
        let changed = visit.before().is_some_and(|before| before.declared != node.declared);
        visit.was != core.graph.state(visit.id) || changed
    }

    pub(crate) fn push_op(&mut self, id: Id, act: OpAct) -> u32 {
        let at = u32::try_from(self.ops.len()).expect("bounded by the number of vertices");
        let waits = u32::from(act == OpAct::GroupUp);
        self.ops.push(Op { id, act, state: OpState::Waiting, waits, next: smallvec::SmallVec::new() });
        at
    }

    /// Lets one operation wait for another, unless that one has ended.
    pub(crate) fn link(&mut self, first: u32, then: u32, soft: bool) {
        let op = &mut self.ops[first as usize];
        if matches!(op.state, OpState::Done | OpState::Dead) {
            return;
        }
        op.next.push(Link { to: then, soft });
        if self.ops[then as usize].act != OpAct::GroupUp {
            self.ops[then as usize].waits += 1;
        }
    }

    pub(crate) fn link_needs(&mut self, core: &mut Core, at: u32) {
        let visit = &self.visits[at as usize];
        let (id, down, up, rank) = (visit.id, visit.down, visit.up, visit.rank);
        if (down == NO && up == NO) || core.graph[id].has(Flags::GROUP) {
            return;
        }
        let up_act = (up != NO).then(|| self.ops[up as usize].act);
        let moves = matches!(up_act, Some(OpAct::Act(Action::Update | Action::Adopt)));
        for slot in 0..core.graph[id].needs.len() {
            let edge = core.graph[id].needs[slot];
            if edge.bits.has(EdgeBits::ACTUAL) && edge.bits.is_to_exist() {
                let lets_go = if down != NO {
                    down
                } else if moves && !edge.bits.has(EdgeBits::DECLARED) {
                    up
                } else {
                    NO
                };
                if lets_go != NO {
                    self.link_letting_go(core, edge, lets_go, rank);
                }
            }
            if edge.bits.has(EdgeBits::DECLARED)
                && !edge.bits.has(EdgeBits::ABSENT)
                && let Some(OpAct::Act(action)) = up_act
            {
                self.link_coming(core, edge, up, action, rank);
            }
        }
    }

    /// The target leaves, or a base changes, only after `lets_go`.
    fn link_letting_go(&mut self, core: &mut Core, edge: Edge, lets_go: u32, rank: u32) {
        if let Some(group) = core.graph[edge.target].group() {
            if group.leaving > 0 && group.leaving == group.present {
                let at = self.visit(core, edge.target, rank);
                if self.visits[at as usize].down == NO {
                    self.visits[at as usize].down = self.push_op(edge.target, OpAct::GroupDown);
                }
                self.link(lets_go, self.visits[at as usize].down, false);
            }
            return;
        }
        let Some(target) = self.visits.get(core.graph[edge.target].visit as usize) else { return };
        let (down, up) = (target.down, target.up);
        if down != NO {
            self.link(lets_go, down, false);
        } else if up != NO && edge.bits.has(EdgeBits::BASE) && !edge.bits.has(EdgeBits::DECLARED) {
            self.link(lets_go, up, false);
        }
    }

    /// `up` waits for what it needs.
    fn link_coming(&mut self, core: &mut Core, edge: Edge, up: u32, action: Action, rank: u32) {
        let note = !matches!(action, Action::Create | Action::Update | Action::Adopt);
        if let Some(group) = core.graph[edge.target].group() {
            if !note
                && core.graph.is_goal(edge.target)
                && group.present <= group.leaving
                && !(edge.bits.has(EdgeBits::CREATE) && action != Action::Create)
            {
                let at = self.visit(core, edge.target, rank);
                if self.visits[at as usize].up == NO {
                    self.visits[at as usize].up = self.push_op(edge.target, OpAct::GroupUp);
                }
                self.link(self.visits[at as usize].up, up, false);
            }
            return;
        }
        let base = edge.bits.has(EdgeBits::BASE);
        let Some(target) = self.visits.get(core.graph[edge.target].visit as usize) else { return };
        if target.up == NO || (note && !base) {
            return;
        }
        let soft = match self.ops[target.up as usize].act {
            OpAct::Act(Action::Create) => edge.bits.has(EdgeBits::CREATE) && action != Action::Create,
            OpAct::Act(Action::Update | Action::Adopt | Action::Hold) => !base,
            OpAct::Act(_) | OpAct::GroupUp | OpAct::GroupDown => return,
        };
        self.link(target.up, up, soft);
    }

    pub(crate) fn link_memberships(&mut self, core: &Core, at: u32) {
        let visit = &self.visits[at as usize];
        let (id, down, up) = (visit.id, visit.down, visit.up);
        for (group, _) in core.graph[id].member_of() {
            let Some(group) = self.visits.get(core.graph[*group].visit as usize) else { continue };
            let (group_down, group_up) = (group.down, group.up);
            if down != NO && group_down != NO {
                self.link(group_down, down, false);
            }
            if up != NO && group_up != NO && self.ops[up as usize].act == OpAct::Act(Action::Create) {
                self.link(up, group_up, false);
            }
        }
    }

    /// Walks the operations in a world that always says yes, one at a time.
    fn rehearse(&self, core: &Core) -> Vec<u32> {
        let mut waits: Vec<u32> = self.ops.iter().map(|op| op.waits).collect();
        let mut stack = self.roots(core);
        let mut sequence = Vec::with_capacity(self.ops.len());
        let mut released = Vec::new();
        while let Some(op) = stack.pop() {
            sequence.push(op);
            for link in &self.ops[op as usize].next {
                let left = &mut waits[link.to as usize];
                if *left == 0 {
                    continue;
                }
                *left -= 1;
                if *left == 0 {
                    released.push(link.to);
                }
            }
            self.push_released(core, &mut released, &mut stack);
        }
        sequence
    }

    /// Puts operations on the stack such that dependents come before derived items, each by key.
    fn push_released(&self, core: &Core, released: &mut Vec<u32>, stack: &mut Vec<u32>) {
        if released.len() > 1 {
            sort_by_key(&core.graph, released, |op| self.ops[*op as usize].id);
            released.sort_by_key(|op| core.graph[self.ops[*op as usize].id].is_derived());
        }
        stack.extend(released.drain(..).rev());
    }

    /// Puts operations that may run on the walk's own stack.
    pub(crate) fn stack_up(&mut self, core: &Core, released: &mut Vec<u32>) {
        let mut stack = std::mem::take(&mut self.stack);
        self.push_released(core, released, &mut stack);
        self.stack = stack;
    }

    /// The operations that wait for nothing, the first one last.
    pub(crate) fn roots(&self, core: &Core) -> Vec<u32> {
        let mut roots: Vec<(u32, bool, bool, u32)> = Vec::new();
        for (at, op) in self.ops.iter().enumerate() {
            if op.waits == 0 && op.state == OpState::Waiting {
                let plain = matches!(
                    op.act,
                    OpAct::Act(
                        Action::Create | Action::Update | Action::Delete | Action::Adopt | Action::Hold
                    )
                );
                let at = u32::try_from(at).expect("bounded by the number of vertices");
                roots.push((self.rank_of(core, op.id), plain, core.graph[op.id].is_derived(), at));
            }
        }
        let key = |root: &(u32, bool, bool, u32)| core.graph[self.ops[root.3 as usize].id].key.as_str();
        roots.sort_by(|a, b| (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)).then_with(|| key(a).cmp(key(b))));
        roots.into_iter().rev().map(|root| root.3).collect()
    }
}
