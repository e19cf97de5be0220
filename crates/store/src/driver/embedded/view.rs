//! Reading: everything as it is at one moment.

use std::iter::Peekable;
use std::ops::Bound;

use redb::{ReadOnlyTable, ReadTransaction};

use super::history::History;
use super::tables::{COMMITS, CURRENT, NUMBERS, PAST, Version, item, number, number_of};
use super::translate::{READ, Trying};
use crate::{Change, Item, Range, Revision, Snapshot, StoreError, Told};

/// Items and histories as they are at one moment, whatever is written meanwhile.
///
/// **Assumes** that it is dropped soon: what it shows keeps its room in the file until then.
pub struct View {
    txn: ReadTransaction,
    head: Revision,
    oldest: Revision,
    current: ReadOnlyTable<&'static str, Version>,
    past: ReadOnlyTable<(&'static str, u64), Version>,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("head", &self.head).field("oldest", &self.oldest).finish_non_exhaustive()
    }
}

impl View {
    pub(super) fn new(txn: ReadTransaction) -> Result<Self, StoreError> {
        let numbers = txn.open_table(NUMBERS).trying(READ)?;
        let head = Revision(number_of(&numbers, number::HEAD)?);
        let oldest = Revision(number_of(&numbers, number::OLDEST)?);
        let current = txn.open_table(CURRENT).trying(READ)?;
        let past = txn.open_table(PAST).trying(READ)?;
        Ok(Self { txn, head, oldest, current, past })
    }

    /// The newest revision.
    pub fn revision(&self) -> Revision {
        self.head
    }

    /// The oldest revision that is kept.
    pub fn oldest(&self) -> Revision {
        self.oldest
    }

    /// The item under a key.
    pub fn get(&self, key: &str) -> Result<Option<Item>, StoreError> {
        let stored = self.current.get(key).trying(READ)?;
        Ok(stored.map(|stored| item(key, stored.value())))
    }

    /// The items of a range as of one revision.
    pub fn range(&self, range: &Range) -> Result<Snapshot, StoreError> {
        range.check()?;
        let revision = range.at.unwrap_or(self.head);
        self.check(revision)?;
        let mut page = Page { limit: range.limit.unwrap_or(usize::MAX), ..Page::default() };
        if revision == self.head {
            for entry in self.present(range)? {
                let (key, stored) = entry.trying(READ)?;
                if !key.value().starts_with(&range.prefix) || !page.add(item(key.value(), stored.value())) {
                    break;
                }
            }
        } else {
            let mut keys = self.ever(range)?;
            while let Some(key) = keys.next_key()? {
                if self.item_at(&key, revision)?.is_some_and(|found| !page.add(found)) {
                    break;
                }
            }
        }
        Ok(Snapshot { revision, items: page.items, more: page.more })
    }

    /// A history, which may not have begun.
    pub fn history(&self, name: &str) -> Result<History, StoreError> {
        History::open(&self.txn, name)
    }

    /// Commits behind a revision in order, at most so many.
    pub(super) fn commits(&self, after: Revision, limit: usize) -> Result<Vec<Told>, StoreError> {
        self.check(after)?;
        let commits = self.txn.open_table(COMMITS).trying(READ)?;
        let mut told = Vec::new();
        for entry in commits.range(after.0 + 1..).trying(READ)?.take(limit) {
            let (revision, keys) = entry.trying(READ)?;
            let revision = Revision(revision.value());
            let changes = keys.value().into_iter().map(|(key, put)| self.change(key, put, revision));
            told.push(Told { revision, changes: changes.collect::<Result<_, _>>()? });
        }
        Ok(told)
    }

    /// Refuses a revision that is not kept, or has not happened.
    pub(super) fn check(&self, asked: Revision) -> Result<(), StoreError> {
        if asked < self.oldest {
            return Err(StoreError::Compacted { asked, oldest: self.oldest });
        }
        if asked > self.head {
            return Err(StoreError::Ahead { asked, head: self.head });
        }
        Ok(())
    }

    fn change(&self, key: &str, put: bool, revision: Revision) -> Result<Change, StoreError> {
        if !put {
            return Ok(Change::Deleted(key.to_owned()));
        }
        match self.item_at(key, revision)? {
            Some(item) => Ok(Change::Put(item)),
            None => Err(StoreError::Corrupt {
                attempt: READ.to_owned(),
                source: std::sync::Arc::new(Lost { key: key.to_owned(), revision }),
            }),
        }
    }

    /// The item under a key as it was at a revision that is kept.
    fn item_at(&self, key: &str, at: Revision) -> Result<Option<Item>, StoreError> {
        if at < self.head {
            let mut later = self.past.range((key, at.0 + 1)..=(key, u64::MAX)).trying(READ)?;
            if let Some(entry) = later.next() {
                let (_, stored) = entry.trying(READ)?;
                let found = item(key, stored.value());
                return Ok(Some(found).filter(|found| found.modified <= at));
            }
        }
        Ok(self.get(key)?.filter(|found| found.modified <= at))
    }

    /// What is there from the beginning of a range on.
    fn present(&self, range: &Range) -> Result<redb::Range<'_, &'static str, Version>, StoreError> {
        let start = match &range.after {
            Some(after) if *after >= range.prefix => Bound::Excluded(after.as_str()),
            Some(_) | None => Bound::Included(range.prefix.as_str()),
        };
        self.current.range::<&str>((start, Bound::Unbounded)).trying(READ)
    }

    /// The keys of a range that are there, or were at some revision that is kept.
    fn ever(&self, range: &Range) -> Result<Keys<'_>, StoreError> {
        let start = match &range.after {
            Some(after) if *after >= range.prefix => Bound::Excluded((after.as_str(), u64::MAX)),
            Some(_) | None => Bound::Included((range.prefix.as_str(), 0)),
        };
        let past = self.past.range::<(&str, u64)>((start, Bound::Unbounded)).trying(READ)?;
        let past = past.map(|entry| Ok(entry.trying(READ)?.0.value().0.to_owned()));
        let present = self.present(range)?.map(|entry| Ok(entry.trying(READ)?.0.value().to_owned()));
        Ok(Keys::of(range.prefix.clone(), [Box::new(present), Box::new(past)]))
    }
}

/// Items up to a limit.
#[derive(Default)]
struct Page {
    limit: usize,
    items: Vec<Item>,
    more: bool,
}

impl Page {
    /// Takes an item; false when the page was full already.
    fn add(&mut self, item: Item) -> bool {
        self.more = self.items.len() == self.limit;
        if !self.more {
            self.items.push(item);
        }
        !self.more
    }
}

/// A commit names an item that is not there.
#[derive(Debug, thiserror::Error)]
#[error("`{key}` was put by revision {revision}, and cannot be found")]
struct Lost {
    key: String,
    revision: Revision,
}

type KeyIterator<'a> = Box<dyn Iterator<Item = Result<String, StoreError>> + 'a>;

/// Sorted keys below a prefix, from two sorted sources, each key once.
struct Keys<'a> {
    prefix: String,
    sources: [Peekable<KeyIterator<'a>>; 2],
}

impl<'a> Keys<'a> {
    fn of(prefix: String, sources: [KeyIterator<'a>; 2]) -> Self {
        Self { prefix, sources: sources.map(Iterator::peekable) }
    }

    fn next_key(&mut self) -> Result<Option<String>, StoreError> {
        let mut least: Option<String> = None;
        for source in &mut self.sources {
            match source.peek() {
                Some(Ok(key)) if least.as_ref().is_none_or(|least| key < least) => least = Some(key.clone()),
                Some(Err(error)) => return Err(error.clone()),
                Some(Ok(_)) | None => {}
            }
        }
        let Some(key) = least.filter(|key| key.starts_with(&self.prefix)) else { return Ok(None) };
        for source in &mut self.sources {
            while source.next_if(|next| next.as_ref().is_ok_and(|next| *next == key)).is_some() {}
        }
        Ok(Some(key))
    }
}
