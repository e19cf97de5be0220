//! What can be seen of the running agent.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use kilter_events::Glance;
use kilter_scheduler::{Key, Scheduler};

use crate::keep::Keep;
use crate::ledger::{Ledger, Mark};
use crate::timings::Timings;

/// What can be seen of the running agent, between two steps or in the middle of a transaction.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Items, statuses, explanations, transactions.
    pub scheduler: &'a Scheduler,
    /// Events, health, provenance, what sources declare.
    pub events: Glance<'a>,
    /// Where items are declared, and what is left alone.
    pub ledger: &'a Ledger,
    /// The state directory, if there is one.
    pub keep: Option<&'a Keep>,
    /// How long things took.
    pub timings: &'a Timings,
}

/// A source, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// Its name.
    pub name: Arc<str>,
    /// How many items it declares.
    pub items: usize,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Where that is, if it is followed.
    pub path: Option<PathBuf>,
    /// The items that another source declares too and is heard with, by key.
    pub unheard: Vec<Key>,
}

/// A declaration of an item, as `explain` shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Declarer {
    /// The source.
    pub source: Arc<str>,
    /// Whether it is the one that is heard.
    pub is_heard: bool,
    /// Where and when, if that is known.
    pub mark: Option<Mark>,
}

impl View<'_> {
    /// Every source in its place.
    pub fn sources(&self) -> Vec<SourceLine> {
        let mut seen: HashSet<&Key> = HashSet::new();
        let lines = self.events.sources().map(|(name, items)| {
            let unheard = items.keys().filter(|key| !seen.insert(key)).cloned().collect();
            let is_directory = self.ledger.directories.iter().any(|directory| **directory == **name);
            let path = self.ledger.paths.get(&**name).cloned();
            SourceLine { name: Arc::clone(name), items: items.len(), is_directory, path, unheard }
        });
        lines.filter(|line| line.items > 0 || line.is_directory).collect()
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
