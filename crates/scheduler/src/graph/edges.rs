//! Edges: added and removed in constant time in both directions, with the counts of unmet dependencies kept.

use super::Graph;
use super::node::{Dependent, Edge, EdgeBits, Flags, Id, NO};

impl Graph {
    /// Whether a dependency is met.
    pub(crate) fn is_met(&self, edge: Edge) -> bool {
        if edge.bits.has(EdgeBits::ABSENT) {
            !self[edge.target].is_observed()
        } else {
            self.is_goal(edge.target)
        }
    }

    /// The position of the edge of this shape to this target.
    pub(crate) fn edge_to(&self, source: Id, target: Id, shape: EdgeBits) -> Option<usize> {
        self[source].needs.iter().position(|edge| edge.target == target && edge.bits.shape() == shape.shape())
    }

    /// Adds an edge, for the declared or the actual value as its bits say.
    pub(crate) fn add_edge(&mut self, source: Id, target: Id, bits: EdgeBits) {
        let slot = u32::try_from(self[target].dependents.len()).expect("bounded by the number of vertices");
        let edge = Edge { target, slot, bits };
        let at = u32::try_from(self[source].needs.len()).expect("bounded by the number of vertices");
        self[source].needs.push(edge);
        self[target].dependents.push(Dependent { source, edge: at });
        if bits.has(EdgeBits::DECLARED) && !self.is_met(edge) {
            self.count_unmet(source, bits, true);
        }
    }

    /// Notes that the declared value has the edge, or has it no longer.
    pub(crate) fn set_declared_edge(&mut self, source: Id, at: usize, on: bool) {
        let edge = self[source].needs[at];
        if edge.bits.has(EdgeBits::DECLARED) == on {
            return;
        }
        self[source].needs[at].bits.set(EdgeBits::DECLARED, on);
        if !self.is_met(edge) {
            self.count_unmet(source, edge.bits, on);
        }
    }

    /// Removes an edge; another edge may take its position. A group that nobody asks for is dropped by
    /// [`Self::drop_idle_groups`].
    pub(crate) fn remove_edge(&mut self, source: Id, at: usize) {
        self.set_declared_edge(source, at, false);
        let Edge { target, slot, .. } = self[source].needs.swap_remove(at);
        if let Some(moved) = self[source].needs.get(at).copied() {
            self[moved.target].dependents[moved.slot as usize].edge =
                u32::try_from(at).expect("bounded by the number of vertices");
        }
        self[target].dependents.swap_remove(slot as usize);
        if let Some(moved) = self[target].dependents.get(slot as usize).copied() {
            self[moved.source].needs[moved.edge as usize].slot = slot;
        }
        if self[target].has(Flags::GROUP) && self[target].dependents.is_empty() {
            self.idle_groups.push(target);
        } else if self[target].dependents.is_empty() {
            self.orphans.push(target);
        }
    }

    /// Makes the edges of the actual value those of the declared value, and drops the others.
    pub(crate) fn settle_edges(&mut self, id: Id, dropped: &mut Vec<Id>) {
        self.keep_declared_edges(id, true, dropped);
    }

    /// Forgets the edges of the actual value.
    pub(crate) fn clear_actual_edges(&mut self, id: Id, dropped: &mut Vec<Id>) {
        self.keep_declared_edges(id, false, dropped);
    }

    fn keep_declared_edges(&mut self, id: Id, actual: bool, dropped: &mut Vec<Id>) {
        let mut at = 0;
        while at < self[id].needs.len() {
            let edge = self[id].needs[at];
            if edge.bits.has(EdgeBits::DECLARED) {
                self[id].needs[at].bits.set(EdgeBits::ACTUAL, actual);
                at += 1;
            } else {
                dropped.push(edge.target);
                self.remove_edge(id, at);
            }
        }
    }

    /// Parts an item from the base that derived it.
    pub(crate) fn unlink_base(&mut self, id: Id) {
        let base = self[id].base;
        if let Some(at) = self.edge_to(id, base, EdgeBits::BASE) {
            self.remove_edge(id, at);
        }
        self.leave_base(id);
    }

    fn leave_base(&mut self, id: Id) {
        let base = std::mem::replace(&mut self[id].base, NO);
        let place = self[id].place;
        self[base].derived.swap_remove(place as usize);
        if let Some(moved) = self[base].derived.get(place as usize).copied() {
            self[moved].place = place;
        }
    }

    /// Notes that a base derives an item. What another base made of it is remembered by the edge alone.
    pub(crate) fn link_base(&mut self, id: Id, base: Id) {
        if self[id].base != NO {
            self.leave_base(id);
        }
        self[id].place = u32::try_from(self[base].derived.len()).expect("bounded by the number of vertices");
        self[id].base = base;
        self[base].derived.push(id);
    }
}
