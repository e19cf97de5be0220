//! The past: the items as they were after an earlier transaction.
//!
//! Decided here: how the past is found again. Nothing is copied while it is the present: each step of a record knows
//! its item before and after, so newer transactions are taken back one by one.

use std::collections::BTreeMap;
use std::ops::Bound;

use serde::Serialize;

use crate::dependency::{Need, Needs, Predicate, Until};
use crate::graph::node::NO;
use crate::key::Key;
use crate::scheduler::{Scheduler, Stage};
use crate::state::{Seq, State, Unmet};
use crate::value::ValueRef;

/// An item as it was after a transaction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Past {
    /// Where it stood.
    pub state: State,
    /// What it was, or was to be if it did not exist.
    pub value: Option<ValueRef>,
    /// The item that derived it.
    pub base: Option<Key>,
}

impl Past {
    /// Whether it was there for real. What was not as declared counts as absent: records do not say whether somebody had
    /// made it all the same.
    fn is_there(&self) -> bool {
        matches!(self.state, State::Configured | State::Obtained | State::Discovered | State::Removing)
    }

    /// Whether it was there without having been asked for.
    fn is_observed(&self) -> bool {
        matches!(self.state, State::Obtained | State::Discovered)
    }
}

/// Something that an item of the past needed.
#[derive(Clone, Debug)]
pub struct PastNeed {
    /// What it needed.
    pub what: Unmet,
    matching: Option<Predicate>,
    /// It was needed only until the item was there, and it was.
    is_over: bool,
}

impl PastNeed {
    /// Whether it was met among these items.
    pub fn is_met(&self, items: &BTreeMap<Key, Past>) -> bool {
        if self.is_over {
            return true;
        }
        match &self.what {
            Unmet::On(key) => items.get(key).is_some_and(Past::is_there),
            Unmet::Absent(key) => !items.get(key).is_some_and(Past::is_observed),
            Unmet::AnyOf { prefixes, .. } => prefixes.iter().any(|prefix| {
                let from = items.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
                let mut members = from.take_while(|(key, _)| key.as_str().starts_with(prefix));
                let fits = |key: &Key| self.matching.as_ref().is_none_or(|matching| matching.test(key));
                members.any(|(key, past)| past.is_there() && fits(key))
            }),
        }
    }
}

impl Scheduler {
    /// What an item of the past needed, as its kind says of the value it had.
    pub fn needs_then(&self, key: &Key, past: &Past) -> Vec<PastNeed> {
        let (Some(kind), Some(value)) = (self.registry().owner(key.as_str()), &past.value) else {
            return Vec::new();
        };
        let mut needs = Needs::default();
        self.registry().descriptor(kind).needs(key, value, &mut needs);
        // What needs itself does not wait for itself.
        let others =
            needs.iter().filter(|(need, _)| !matches!(need, Need::On(needed) if *needed == key.as_str()));
        let needed = others.map(|(need, until)| {
            let (what, matching) = match need {
                Need::On(key) => (Unmet::On(Key::from(key)), None),
                Need::Absent(key) => (Unmet::Absent(Key::from(key)), None),
                Need::AnyOf { prefixes, matching } => {
                    let name = matching.map(|matching| matching.name.clone());
                    (Unmet::AnyOf { prefixes: prefixes.to_vec(), matching: name }, matching.cloned())
                }
            };
            PastNeed { what, matching, is_over: until == Until::Created && past.is_there() }
        });
        needed.collect()
    }

    /// The items as they were when a transaction had just ended, by key; 0 is before the first one.
    ///
    /// `None` if the history does not reach back that far, or while a transaction is under way.
    pub fn items_at(&self, seq: Seq) -> Option<BTreeMap<Key, Past>> {
        if self.stage() != Stage::Idle || !self.history().reaches_back_to(seq) {
            return None;
        }
        // What was before it started over is not found by going back from what is.
        let before = self.before.iter().find(|(last, _)| seq <= *last);
        let (last, mut items) = match before {
            Some((last, items)) => (*last, items.clone()),
            None => (Seq::MAX, self.present()),
        };
        let newer = self.history().iter().rev().skip_while(|record| record.seq > last);
        for record in newer.take_while(|record| record.seq > seq) {
            for step in record.changes().rev() {
                if matches!(step.before.state, State::Nonexistent | State::Removed) {
                    items.remove(&step.key);
                    continue;
                }
                let (state, value) = (step.before.state, step.before.value.clone());
                items.remove(&step.key);
                let base = step.base.clone();
                items.insert(step.key.clone(), Past { state, value, base });
            }
        }
        Some(items)
    }

    /// Remembers the items as they are, for those who ask for the past after it has started over; forgets those that the
    /// history does not reach back to.
    pub(crate) fn remember_items(&mut self) {
        let (last, items, since) = (self.last_seq(), self.present(), self.history().complete_since());
        self.before.retain(|(last, _)| *last + 1 >= since);
        self.before.push((last, items));
    }

    fn present(&self) -> BTreeMap<Key, Past> {
        let graph = &self.core.graph;
        let visible = graph.ids().filter(|id| graph.is_visible(*id));
        let items = visible.map(|id| {
            let node = &graph[id];
            let to_be = node.refused().map(|refused| &refused.value).or(node.declared.as_ref());
            let base = (node.base != NO).then(|| graph[node.base].key.clone());
            (
                node.key.clone(),
                Past { state: graph.state(id), value: node.actual.as_ref().or(to_be).cloned(), base },
            )
        });
        items.collect()
    }
}
