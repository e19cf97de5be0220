//! Knots: operations that wait for each other. Items that need each other come up and go down one after another all
//! the same; the rules here say who is first and who is last.

use super::{Core, OpAct, OpState, Walk};
use crate::graph::node::{Id, NO};
use crate::record::Action;

/// What became of the knots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knots {
    /// There were none.
    None,
    Loosened,
    /// A vertex has to go down and come up instead of changing in place: the cascade has to run again.
    Bounce,
}

impl Walk {
    /// Loosens every knot among the operations that are not in `sequence`.
    ///
    /// * An order that is only nicer goes first.
    /// * Of items that come up, one that also waits for something outside the knot begins (else the first by key): it
    ///   does not wait for the others.
    /// * Of items that go down, one that was asked to go (else the first by key) is last: the others do not wait for it.
    /// * If changes in place are part of the knot, the first by key is made by going down and coming up instead.
    pub(crate) fn break_cycles(&mut self, core: &Core, sequence: &[u32]) -> Knots {
        let mut stuck = vec![true; self.ops.len()];
        for op in sequence {
            stuck[*op as usize] = false;
        }
        for (at, op) in self.ops.iter().enumerate() {
            stuck[at] &= op.state == OpState::Waiting;
        }
        let knots = self.knots(&stuck);
        for knot in &knots {
            if !self.loosen(core, knot) {
                return Knots::Bounce;
            }
        }
        if knots.is_empty() { Knots::None } else { Knots::Loosened }
    }

    fn loosen(&mut self, core: &Core, knot: &[u32]) -> bool {
        let inside: rustc_hash::FxHashSet<u32> = knot.iter().copied().collect();
        if self.cut(knot, |link| link.soft && inside.contains(&link.to)) {
            return true;
        }
        let key = |op: &u32| core.graph[self.ops[*op as usize].id].key.clone();
        let acts = |op: &u32| self.ops[*op as usize].act;
        let all_down =
            knot.iter().all(|op| matches!(acts(op), OpAct::Act(Action::Delete) | OpAct::GroupDown));
        let moves: Vec<u32> = knot
            .iter()
            .copied()
            .filter(|op| matches!(acts(op), OpAct::Act(Action::Update | Action::Adopt)))
            .collect();
        let foreign = |op: &u32| core.graph[self.ops[*op as usize].id].is_observed();
        if let Some(op) = moves.iter().filter(|op| !foreign(op)).min_by_key(|op| key(op)) {
            let id = self.ops[*op as usize].id;
            let at = core.graph[id].visit;
            self.visits[at as usize].bounce = true;
            self.queue.push((id, self.visits[at as usize].rank));
            self.again.push(at);
            return false;
        }
        // What was not made here cannot go down and come up; it changes first.
        if let Some(first) = moves.iter().copied().min_by_key(key) {
            return self.cut(knot, |link| link.to == first);
        }
        // A derived item neither comes before its base nor outlives it.
        let members: rustc_hash::FxHashSet<Id> = knot.iter().map(|op| self.ops[*op as usize].id).collect();
        let items = || {
            knot.iter().copied().filter(|op| {
                matches!(acts(op), OpAct::Act(_))
                    && !members.contains(&core.graph[self.ops[*op as usize].id].base)
            })
        };
        if all_down {
            let asked = |op: &u32| {
                let node = &core.graph[self.ops[*op as usize].id];
                self.visits[node.visit as usize].own && node.declared.is_none()
            };
            // Who holds a group keeps its other members waiting too, so it should not be the one to be overtaken.
            let holds_group = |op: &u32| {
                let mut links = self.ops[*op as usize].next.iter().filter(|link| inside.contains(&link.to));
                links.any(|link| acts(&link.to) == OpAct::GroupDown)
            };
            let last = items().min_by_key(|op| (holds_group(op), !asked(op), key(op)));
            let Some(last) = last else { return false };
            let groups: Vec<u32> = self.ops[last as usize]
                .next
                .iter()
                .map(|link| link.to)
                .filter(|to| inside.contains(to) && acts(to) == OpAct::GroupDown)
                .collect();
            // Members of its groups that are not part of the knot still wait for it.
            let others: Vec<u32> = groups
                .iter()
                .flat_map(|group| self.ops[*group as usize].next.iter().map(|link| link.to))
                .filter(|to| !inside.contains(to))
                .collect();
            for other in others {
                self.link(last, other, false);
            }
            return self.cut(&[last], |link| inside.contains(&link.to));
        }
        let mut within: rustc_hash::FxHashMap<u32, u32> = rustc_hash::FxHashMap::default();
        for op in knot {
            for link in &self.ops[*op as usize].next {
                *within.entry(link.to).or_default() += 1;
            }
        }
        let outside = |op: &u32| self.ops[*op as usize].waits > within.get(op).copied().unwrap_or(0);
        let first = items().filter(outside).min_by_key(key).or_else(|| items().min_by_key(key));
        let Some(first) = first else { return false };
        for down in self.leaving_members(core, knot, first) {
            self.link(down, first, false);
        }
        self.cut(knot, |link| link.to == first)
    }

    /// Of the groups in the knot that `first` waits for, the members' going down. Whoever comes before the new members
    /// has to come after the old ones are gone.
    fn leaving_members(&self, core: &Core, knot: &[u32], first: u32) -> Vec<u32> {
        knot.iter()
            .map(|op| &self.ops[*op as usize])
            .filter(|op| op.act == OpAct::GroupUp && op.next.iter().any(|link| link.to == first))
            .filter_map(|op| core.graph[op.id].group())
            .flat_map(|group| &group.members)
            .filter_map(|member| self.visit_of(core, *member))
            .map(|visit| visit.down)
            .filter(|down| *down != NO)
            .collect()
    }

    /// Removes links of these operations; says whether there were any.
    fn cut(&mut self, from: &[u32], which: impl Fn(&super::Link) -> bool) -> bool {
        let mut any = false;
        for op in from {
            let mut at = 0;
            while at < self.ops[*op as usize].next.len() {
                let link = self.ops[*op as usize].next[at];
                if which(&link) {
                    self.ops[*op as usize].next.swap_remove(at);
                    let waits = &mut self.ops[link.to as usize].waits;
                    *waits = waits.saturating_sub(1);
                    any = true;
                } else {
                    at += 1;
                }
            }
        }
        any
    }

    /// The strongly connected parts with more than one operation (Tarjan's algorithm with an explicit stack).
    fn knots(&self, stuck: &[bool]) -> Vec<Vec<u32>> {
        let count = self.ops.len();
        let mut number = vec![NO; count];
        let mut low = vec![0_u32; count];
        let mut on_path = vec![false; count];
        let mut path: Vec<u32> = Vec::new();
        let mut knots = Vec::new();
        let mut next_number = 0_u32;
        for start in 0..count {
            if !stuck[start] || number[start] != NO {
                continue;
            }
            let mut calls: Vec<(usize, usize)> = vec![(start, 0)];
            while let Some((op, link)) = calls.last_mut() {
                let op = *op;
                if *link == 0 {
                    number[op] = next_number;
                    low[op] = next_number;
                    next_number += 1;
                    path.push(u32::try_from(op).expect("bounded by the number of operations"));
                    on_path[op] = true;
                }
                let following = self.ops[op].next.get(*link).copied();
                *link += 1;
                match following {
                    Some(link) => {
                        let to = link.to as usize;
                        if stuck[to] && number[to] == NO {
                            calls.push((to, 0));
                        } else if stuck[to] && on_path[to] {
                            low[op] = low[op].min(number[to]);
                        }
                    }
                    None => {
                        calls.pop();
                        if let Some((parent, _)) = calls.last() {
                            low[*parent] = low[*parent].min(low[op]);
                        }
                        if low[op] == number[op] {
                            let from = path.iter().rposition(|other| *other as usize == op).unwrap_or(0);
                            let knot = path.split_off(from);
                            for member in &knot {
                                on_path[*member as usize] = false;
                            }
                            if knot.len() > 1 {
                                knots.push(knot);
                            }
                        }
                    }
                }
            }
        }
        knots
    }
}
