//! Looking: statuses, items, explanations and facts. Nothing here changes anything.

use rustc_hash::FxHashSet;

use crate::explain::Explanation;
use crate::graph::node::EdgeBits;
use crate::graph::sort_by_key;
use crate::graph::view::Item;
use crate::key::Key;
use crate::scheduler::Scheduler;
use crate::state::{Seq, State, Status};
use crate::value::{Facts, ValueRef};

/// How far a status watcher has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(Seq);

impl Cursor {
    /// As if every transaction up to this one had been read.
    pub fn after(seq: Seq) -> Self {
        Self(seq)
    }

    /// The last transaction that was read.
    pub fn seq(self) -> Seq {
        self.0
    }
}

/// What a status watcher gets.
#[derive(Clone, Debug, PartialEq)]
pub enum Changes {
    /// Every status; the watcher forgets what it knew.
    Snapshot(Vec<Status>),
    /// The statuses of the base items that changed; `NONEXISTENT` for those that are gone.
    Changed(Vec<Status>),
}

impl Scheduler {
    /// The status of an item; `NONEXISTENT` for an unknown key.
    pub fn status(&self, key: &str) -> Status {
        match self.core.graph.find(key) {
            Some(id) => self.core.graph.status(id),
            None => Status {
                key: Key::new(key),
                state: State::Nonexistent,
                exists: false,
                last: None,
                error: None,
                fields: Vec::new(),
                unmet: Vec::new(),
                held_by: Vec::new(),
                changed_by: None,
                derived: Vec::new(),
            },
        }
    }

    /// The statuses of all base items whose keys start with the prefix, by key.
    pub fn statuses(&self, prefix: &str) -> Vec<Status> {
        let graph = &self.core.graph;
        let mut ids: Vec<_> = graph
            .ids()
            .filter(|id| graph[*id].key.as_str().starts_with(prefix))
            .filter(|id| !graph[*id].is_derived() && graph.is_visible(*id))
            .collect();
        sort_by_key(graph, &mut ids, |id| *id);
        ids.into_iter().map(|id| graph.status(id)).collect()
    }

    /// Begins to watch, or goes on: first a snapshot, then what changed since the cursor.
    ///
    /// **Guarantees** that no change is lost silently: a watcher that was away for longer than the history reaches
    /// back gets a snapshot again.
    pub fn watch(&self, cursor: Option<Cursor>) -> (Changes, Cursor) {
        let newest = Cursor(self.history().newest());
        let Some(keys) = cursor.and_then(|cursor| self.history().changed_since(cursor.0)) else {
            return (Changes::Snapshot(self.statuses("")), newest);
        };
        let mut bases: FxHashSet<Key> = FxHashSet::default();
        for key in keys {
            let base = self.core.graph.find(key.as_str()).map(|id| self.core.graph.base_of(id));
            bases.insert(base.map_or(key, |base| self.core.graph[base].key.clone()));
        }
        let mut bases: Vec<Key> = bases.into_iter().collect();
        bases.sort();
        (Changes::Changed(bases.iter().map(|key| self.status(key.as_str())).collect()), newest)
    }

    /// Every item, by key.
    pub fn items(&self) -> Vec<Item> {
        let graph = &self.core.graph;
        let mut ids: Vec<_> = graph.ids().filter(|id| graph.is_visible(*id)).collect();
        sort_by_key(graph, &mut ids, |id| *id);
        ids.into_iter().map(|id| graph.item(id, &self.core.registry)).collect()
    }

    /// The keys of the items among so many vertices from this one on, in no particular order, and where to go on.
    ///
    /// For those who look at everything and may not take long: between two pages anything may happen, and
    /// [`crate::History::changed_since`] tells what did.
    pub fn page(&self, from: usize, count: usize) -> (Vec<Key>, Option<usize>) {
        let graph = &self.core.graph;
        let end = from.saturating_add(count).min(graph.slots());
        let ids = (from..end).filter_map(|slot| u32::try_from(slot).ok());
        let keys = ids.filter(|id| graph.is_visible(*id)).map(|id| graph[id].key.clone()).collect();
        (keys, (end < graph.slots()).then_some(end))
    }

    /// The keys of a base item and of what is derived from it, as far as they are there.
    pub fn family(&self, base: &str) -> Vec<Key> {
        let graph = &self.core.graph;
        let Some(id) = graph.find(base) else { return Vec::new() };
        let family = std::iter::once(&id).chain(&graph[id].derived);
        family.filter(|id| graph.is_visible(**id)).map(|id| graph[*id].key.clone()).collect()
    }

    /// The base that an item is derived from; `None` if it is a base itself, or unknown.
    pub fn base_of(&self, key: &str) -> Option<Key> {
        let graph = &self.core.graph;
        let id = graph.find(key).filter(|id| graph[*id].is_derived())?;
        Some(graph[graph.base_of(id)].key.clone())
    }

    /// The item of a key.
    pub fn item(&self, key: &str) -> Option<Item> {
        let id = self.core.graph.find(key).filter(|id| self.core.graph.is_visible(*id))?;
        Some(self.core.graph.item(id, &self.core.registry))
    }

    /// How many vertices the graph has, keys that are only waited for included.
    pub fn vertex_count(&self) -> usize {
        self.core.graph.vertex_count()
    }

    /// What is declared, by key; also values that are refused. Derived items are part of their base.
    pub fn declared(&self) -> Vec<(Key, ValueRef)> {
        let graph = &self.core.graph;
        let mut ids: Vec<_> = graph.ids().filter(|id| !graph[*id].is_derived()).collect();
        sort_by_key(graph, &mut ids, |id| *id);
        ids.into_iter()
            .filter_map(|id| {
                let node = &graph[id];
                let value = node.refused().map(|refused| &refused.value).or(node.declared.as_ref())?;
                Some((node.key.clone(), value.clone()))
            })
            .collect()
    }

    /// Why an item stands where it stands.
    pub fn explain(&self, key: &str) -> Explanation {
        self.core.graph.explain(key)
    }

    /// What is known about an item.
    pub fn facts(&self, key: &str) -> Option<Facts> {
        self.core.graph.find(key).and_then(|id| self.core.graph[id].facts.clone())
    }

    /// What is known about the items that this one needs, and about its base. Where any of several will do, about one
    /// of them that is there.
    ///
    /// **Guarantees**: it costs what the item's own dependencies cost, however many items would do for one of them.
    pub fn dependency_facts(&self, key: &str) -> Vec<(Key, Facts)> {
        let graph = &self.core.graph;
        let Some(id) = graph.find(key) else { return Vec::new() };
        let mut facts = Vec::new();
        for edge in &graph[id].needs {
            if edge.bits.has(EdgeBits::ABSENT) {
                continue;
            }
            let target = match graph[edge.target].group() {
                Some(group) if group.present == 0 => None,
                Some(group) => group.members.iter().copied().find(|member| graph[*member].exists()),
                None => Some(edge.target),
            };
            if let Some(target) = target
                && let Some(known) = &graph[target].facts
            {
                facts.push((graph[target].key.clone(), known.clone()));
            }
        }
        facts
    }
}
