//! The past: the items as they were after an earlier transaction.
//!
//! Decided here: how the past is found again. Nothing is copied while it is the present: each step of a record knows
//! its item before and after, so newer transactions are taken back one by one.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::graph::node::NO;
use crate::key::Key;
use crate::scheduler::{Scheduler, Stage};
use crate::state::{Seq, State};
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

impl Scheduler {
    /// The items as they were when a transaction had just ended, by key; 0 is before the first one.
    ///
    /// `None` if the history does not reach back that far, or while a transaction is under way.
    pub fn items_at(&self, seq: Seq) -> Option<BTreeMap<Key, Past>> {
        if self.stage() != Stage::Idle || !self.history().reaches_back_to(seq) {
            return None;
        }
        let mut items = self.present();
        for record in self.history().iter().rev().take_while(|record| record.seq > seq) {
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
