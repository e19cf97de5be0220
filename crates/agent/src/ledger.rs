//! The ledger: what each source declares, where and since when, as far as it stands.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kilter_events::Extent;
use kilter_model::document::Place;
use kilter_scheduler::{Key, Seq, ValueRef};

use crate::confirm::Pending;
use crate::desk::Declaration;

/// What a source declares of one item, where, and since when.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The value.
    pub value: ValueRef,
    /// Where, if it comes out of a document.
    pub place: Option<Place>,
    /// The transaction that declared it as it is; `None` if that was never carried out.
    pub txn: Option<Seq>,
}

/// What a declaration changes in the ledger.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Delta {
    pub(crate) source: String,
    pub(crate) puts: Vec<(Key, Mark)>,
    pub(crate) removes: Vec<Key>,
    /// The place that a source takes when it first speaks.
    pub(crate) place: Option<u64>,
    pub(crate) leaves: bool,
}

impl Delta {
    /// Whether it changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.removes.is_empty() && self.place.is_none() && !self.leaves
    }
}

/// What a source declared before a change of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Undo {
    pub(crate) source: String,
    /// Whether it declared anything at all.
    pub(crate) existed: bool,
    pub(crate) items: BTreeMap<Key, Option<Mark>>,
}

impl Undo {
    /// The declaration that goes back.
    pub(crate) fn declaration(&self) -> Declaration {
        let puts = self.items.iter().filter_map(|(key, mark)| {
            let Mark { value, place, .. } = mark.clone()?;
            Some(crate::desk::Put { key: key.clone(), value, place })
        });
        let removes = self.items.iter().filter(|(_, mark)| mark.is_none()).map(|(key, _)| key.clone());
        let extent = if self.existed { Extent::Patch } else { Extent::Leave };
        Declaration { source: self.source.clone(), puts: puts.collect(), removes: removes.collect(), extent }
    }
}

#[derive(Debug, Default)]
struct Page {
    place: Option<u64>,
    items: BTreeMap<Key, Mark>,
}

/// What each source declares, and what else the agent knows besides the loop.
#[derive(Debug, Default)]
pub struct Ledger {
    pages: BTreeMap<String, Page>,
    /// The next place of a source that the settings do not name.
    next_place: u64,
    /// The sources that are directories.
    pub(crate) directories: Vec<String>,
    /// Where those of them are that are followed.
    pub(crate) paths: BTreeMap<String, PathBuf>,
    /// Prefixes of keys whose healing is paused.
    pub paused: Vec<String>,
    /// Items that another writer fights over, which are left alone.
    pub contested: Vec<Key>,
    /// The change that waits for its confirmation.
    pub confirmation: Option<Pending>,
    /// Why what was applied last could not be kept.
    pub unkept: Option<String>,
}

impl Ledger {
    /// What a source declares of an item.
    pub fn mark(&self, source: &str, key: &str) -> Option<&Mark> {
        self.pages.get(source)?.items.get(key)
    }

    /// What each source declares, by name.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &BTreeMap<Key, Mark>)> {
        self.pages.iter().map(|(name, page)| (name.as_str(), &page.items))
    }

    /// A source of an earlier run.
    pub(crate) fn restore(&mut self, source: &str, place: Option<u64>, items: BTreeMap<Key, Mark>) {
        self.next_place = self.next_place.max(place.map_or(0, |place| place + 1));
        self.pages.insert(source.to_owned(), Page { place, items });
    }

    /// What a declaration changes, if it is carried out by this transaction. What is declared as it was keeps its
    /// transaction.
    pub(crate) fn delta(&self, declaration: &Declaration, txn: Option<Seq>) -> Delta {
        let page = self.pages.get(&declaration.source);
        let empty = BTreeMap::new();
        let known = page.map_or(&empty, |page| &page.items);
        let mut puts = Vec::new();
        let mut named = std::collections::BTreeSet::new();
        for put in &declaration.puts {
            named.insert(&put.key);
            let old = known.get(&put.key);
            let txn = old.filter(|old| old.value == put.value).map_or(txn, |old| old.txn);
            let mark = Mark { value: put.value.clone(), place: put.place.clone(), txn };
            if old != Some(&mark) {
                puts.push((put.key.clone(), mark));
            }
        }
        let gone = |key: &&Key| match declaration.extent {
            Extent::Patch => declaration.removes.contains(key),
            Extent::Everything | Extent::Leave => true,
        };
        let removes = known.keys().filter(|key| !named.contains(key)).filter(gone).cloned().collect();
        let leaves = declaration.extent == Extent::Leave;
        let is_new = page.is_none() && !leaves && !self.directories.contains(&declaration.source);
        let place = is_new.then_some(self.next_place);
        Delta { source: declaration.source.clone(), puts, removes, place, leaves }
    }

    /// What declarations of several sources change together; those that are new take their places in this order.
    pub(crate) fn deltas(&self, declarations: &[Declaration], txn: Option<Seq>) -> Vec<Delta> {
        let mut next = self.next_place;
        let deltas = declarations.iter().map(|declaration| {
            let mut delta = self.delta(declaration, txn);
            if let Some(place) = &mut delta.place {
                *place = next;
                next += 1;
            }
            delta
        });
        deltas.collect()
    }

    /// What would have to be declared to go back behind a change.
    pub(crate) fn undo(&self, delta: &Delta) -> Undo {
        let page = self.pages.get(&delta.source);
        let old = |key: &Key| (key.clone(), page.and_then(|page| page.items.get(key).cloned()));
        let items = delta.puts.iter().map(|(key, _)| key).chain(&delta.removes).map(old).collect();
        Undo { source: delta.source.clone(), existed: page.is_some(), items }
    }

    /// A change stands.
    pub(crate) fn apply(&mut self, delta: &Delta) {
        if delta.leaves {
            self.pages.remove(&delta.source);
            return;
        }
        let page = self.pages.entry(delta.source.clone()).or_default();
        if let Some(place) = delta.place {
            page.place = Some(place);
            self.next_place = self.next_place.max(place + 1);
        }
        delta.removes.iter().for_each(|key| {
            page.items.remove(key);
        });
        page.items.extend(delta.puts.iter().cloned());
    }

    /// The sources that the settings do not name, in their places.
    pub(crate) fn placed(&self) -> Vec<&str> {
        let mut placed: Vec<(u64, &str)> =
            self.pages.iter().filter_map(|(name, page)| Some((page.place?, name.as_str()))).collect();
        placed.sort_unstable();
        placed.into_iter().map(|(_, name)| name).collect()
    }
}
