//! What a person or a program sees of the graph: items, statuses, unmet dependencies.

use std::sync::Arc;

use serde::Serialize;

use super::Graph;
use super::node::{Edge, EdgeBits, Flags, Id, NO};
use crate::key::Key;
use crate::registry::Registry;
use crate::state::{Origin, State, Status, Unmet};
use crate::txn::Labels;
use crate::value::ValueRef;

/// One vertex as it is seen from outside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    /// Its key.
    pub key: Key,
    /// Its kind; `None` for a property, or while no kind owns the key.
    pub kind: Option<String>,
    /// Where it stands.
    pub state: State,
    /// The item that derives it.
    pub base: Option<Key>,
    /// What shall be.
    pub declared: Option<ValueRef>,
    /// What is.
    pub actual: Option<ValueRef>,
    /// Whose it is.
    pub origin: Origin,
    /// What users attached to it.
    pub labels: Option<Arc<Labels>>,
    /// What it needs, met or not, by text.
    pub needs: Vec<Unmet>,
    /// What it waits for.
    pub unmet: Vec<Unmet>,
    /// What keeps it from being changed or removed.
    pub held_by: Vec<Key>,
    /// Why its last operation failed.
    pub error: Option<Arc<str>>,
}

impl Graph {
    /// A dependency in words.
    pub(crate) fn describe(&self, edge: Edge) -> Unmet {
        let target = &self[edge.target];
        match target.group() {
            Some(group) => Unmet::AnyOf {
                prefixes: group.prefixes.clone(),
                matching: group.matching.as_ref().map(|predicate| predicate.name.clone()),
            },
            None if edge.bits.has(EdgeBits::ABSENT) => Unmet::Absent(target.key.clone()),
            None => Unmet::On(target.key.clone()),
        }
    }

    fn describe_needs(&self, id: Id, wanted: impl Fn(Edge) -> bool) -> Vec<Unmet> {
        let mut list: Vec<Unmet> = self[id]
            .needs
            .iter()
            .filter(|edge| !edge.bits.has(EdgeBits::BASE) && wanted(**edge))
            .map(|edge| self.describe(*edge))
            .collect();
        list.sort();
        list.dedup();
        list
    }

    /// What an item waits for. What exists does not wait for what it needed only to be created.
    pub(crate) fn unmet_of(&self, id: Id) -> Vec<Unmet> {
        let exists = self[id].exists();
        let mut unmet = self.describe_needs(id, |edge| {
            edge.bits.has(EdgeBits::DECLARED)
                && !(exists && edge.bits.has(EdgeBits::CREATE))
                && !self.is_met(edge)
        });
        if self[id].has(Flags::STUCK) && self[id].base != NO {
            unmet.push(Unmet::On(self[self[id].base].key.clone()));
        }
        unmet
    }

    /// The items that stand on this one and keep its change waiting.
    pub(crate) fn holders_of(&self, id: Id) -> Vec<Key> {
        let node = &self[id];
        if !node.has(Flags::HELD) {
            return Vec::new();
        }
        let groups = node.member_of().iter().map(|(group, _)| *group);
        let mut holders: Vec<Key> = std::iter::once(id)
            .chain(groups)
            .flat_map(|target| &self[target].dependents)
            .filter(|dependent| {
                let source = &self[dependent.source];
                let bits = source.needs[dependent.edge as usize].bits;
                bits.has(EdgeBits::ACTUAL)
                    && bits.is_to_exist()
                    && source.exists()
                    && (source.failure().is_some() || source.awaited().is_some() || source.has(Flags::HELD))
            })
            .map(|dependent| self[dependent.source].key.clone())
            .collect();
        holders.sort();
        holders.dedup();
        holders
    }

    /// Whether the vertex is an item that somebody could ask about.
    pub(crate) fn is_visible(&self, id: Id) -> bool {
        self.is_item(id) && self.state(id) != State::Nonexistent
    }

    pub(crate) fn item(&self, id: Id, registry: &Registry) -> Item {
        let node = &self[id];
        let refused = node.refused().map(|refused| refused.value.clone());
        Item {
            key: node.key.clone(),
            kind: node.kind.get().map(|kind| registry.name(kind).to_owned()),
            state: self.state(id),
            base: (node.base != NO).then(|| self[node.base].key.clone()),
            declared: refused.or_else(|| node.declared.clone()),
            actual: node.actual.clone(),
            origin: if node.is_observed() { Origin::Observed } else { Origin::Declared },
            labels: node.rare.as_ref().and_then(|rare| rare.labels.clone()),
            needs: self.describe_needs(id, |_| true),
            unmet: self.unmet_of(id),
            held_by: self.holders_of(id),
            error: node.failure().map(|failure| failure.error.clone()),
        }
    }

    /// The status of one vertex, without its derived items.
    fn status_alone(&self, id: Id) -> Status {
        let node = &self[id];
        let state = self.state(id);
        let observed = state == State::Obtained;
        Status {
            key: node.key.clone(),
            state,
            exists: node.exists(),
            last: node.last.filter(|_| !observed),
            error: node.failure().map(|failure| failure.error.clone()),
            fields: node.refused().map(|refused| refused.fields.clone()).unwrap_or_default(),
            unmet: if node.awaited().is_some() { Vec::new() } else { self.unmet_of(id) },
            held_by: self.holders_of(id),
            changed_by: (node.changed_by > 0).then_some(node.changed_by),
            derived: Vec::new(),
        }
    }

    /// The status of an item with those of its derived items.
    pub(crate) fn status(&self, id: Id) -> Status {
        let mut status = self.status_alone(id);
        let derived = self[id].derived.iter().filter(|child| self.is_visible(**child));
        status.derived = derived.map(|child| self.status_alone(*child)).collect();
        status.derived.sort_by(|a, b| a.key.cmp(&b.key));
        status
    }
}
