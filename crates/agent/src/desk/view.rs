//! What can be seen of the running agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use kilter_events::{Extent, Glance};
use kilter_model::document::Place;
use kilter_scheduler::{Key, Scheduler, Seq};

use super::declaration::Declaration;

/// What can be seen of the running agent, between two steps or in the middle of a transaction.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Items, statuses, explanations, transactions.
    pub scheduler: &'a Scheduler,
    /// Events, health, provenance, what sources declare.
    pub events: Glance<'a>,
    /// Where items are declared, and what is left alone.
    pub ledger: &'a Ledger,
}

/// Where and when a source declared an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where, if it comes out of a document.
    pub place: Option<Place>,
    /// The transaction that declared it as it is; `None` for one before the agent started that is not known.
    pub txn: Option<Seq>,
}

/// A source, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// Its name.
    pub name: Arc<str>,
    /// How many items it declares.
    pub items: usize,
    /// Whether it is a directory that the agent follows.
    pub is_directory: bool,
    /// The items that another source declares too and is heard with, by key.
    pub unheard: Vec<Key>,
}

/// A declaration of an item, as `explain` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declarer {
    /// The source.
    pub source: Arc<str>,
    /// Whether it is the one that is heard.
    pub is_heard: bool,
    /// Where and when, if that is known.
    pub mark: Option<Mark>,
}

/// What the agent knows besides the loop.
#[derive(Debug, Default)]
pub struct Ledger {
    /// By source, then by key.
    marks: BTreeMap<String, BTreeMap<Key, Mark>>,
    /// The sources that are directories.
    pub(crate) directories: Vec<String>,
    /// Prefixes of keys whose healing is paused.
    pub paused: Vec<String>,
    /// Items that another writer fights over, which are left alone.
    pub contested: Vec<Key>,
}

impl Ledger {
    /// Where and when a source declared an item.
    pub fn mark(&self, source: &str, key: &str) -> Option<&Mark> {
        self.marks.get(source)?.get(key)
    }

    /// A declaration stands.
    pub(crate) fn note(&mut self, declaration: &Declaration, txn: Option<Seq>) {
        let marks = self.marks.entry(declaration.source.clone()).or_default();
        if declaration.extent != Extent::Patch {
            marks.clear();
        }
        declaration.removes.iter().for_each(|key| {
            marks.remove(key);
        });
        for put in &declaration.puts {
            marks.insert(put.key.clone(), Mark { place: put.place.clone(), txn });
        }
        if marks.is_empty() {
            self.marks.remove(&declaration.source);
        }
    }
}

impl View<'_> {
    /// Every source in its place.
    pub fn sources(&self) -> Vec<SourceLine> {
        let mut seen: std::collections::HashSet<&Key> = std::collections::HashSet::new();
        let lines = self.events.sources().map(|(name, items)| {
            let unheard = items.keys().filter(|key| !seen.insert(key)).cloned().collect();
            let is_directory = self.ledger.directories.iter().any(|directory| **directory == **name);
            SourceLine { name: Arc::clone(name), items: items.len(), is_directory, unheard }
        });
        lines.collect()
    }

    /// Who declares an item, the one that is heard first.
    pub fn declarers(&self, key: &str) -> Vec<Declarer> {
        let sources = self.events.provenance(key).sources.into_iter().enumerate();
        let declarers = sources.map(|(at, source)| Declarer {
            mark: self.ledger.mark(&source, key).cloned(),
            is_heard: at == 0,
            source,
        });
        declarers.collect()
    }
}
