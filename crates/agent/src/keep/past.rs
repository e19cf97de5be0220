//! The past, read back: transactions, events, timelines, and what was declared as of a transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use kilter_events::{Conflict, EventRecord, Failure, Method};
use kilter_scheduler::{Key, Past as PastItem, Record, Seq, State, Timestamp};
use kilter_store::embedded::View;
use kilter_store::embedded::history::History;
use kilter_store::{Range, Revision, StoreError};
use serde::Deserialize;

use super::{EVENTS, Keep, TRANSACTIONS, layout};
use crate::ledger::Mark;

/// How many transactions are read at once on the way back through a run.
const BATCH: usize = 256;

/// A transaction as it is remembered on disk.
#[derive(Clone, Debug, Deserialize)]
pub struct PastTxn {
    /// The record; its values are plain JSON.
    pub record: Record,
    /// What was declared when it had ended.
    revision: u64,
    /// The first transaction of the run that it belongs to: the graph was empty before.
    since: Seq,
}

/// What a handler did about an event, as it is remembered on disk.
#[derive(Clone, Debug, Deserialize)]
pub struct PastHandler {
    /// The handler.
    pub handler: Arc<str>,
    /// Whether it took back what it had done.
    pub revert: bool,
    /// What it changed, in its words.
    pub change: String,
    /// What went wrong, with its causes.
    pub error: Option<Arc<str>>,
}

/// An event as it is remembered on disk.
#[derive(Clone, Debug, Deserialize)]
pub struct PastEvent {
    /// Its position in the history.
    pub seq: u64,
    /// When it began.
    pub start: Timestamp,
    /// When it ended.
    pub stop: Timestamp,
    /// The event that it follows from.
    pub follow_up_to: Option<u64>,
    /// Its name.
    pub name: Arc<str>,
    /// Its description; the first line is the name.
    pub description: Arc<str>,
    /// What it asked for.
    pub method: Method,
    /// What handlers did, in the order of the calls.
    pub handlers: Vec<PastHandler>,
    /// The transaction.
    pub txn: Option<Seq>,
    /// Everything that went wrong.
    pub failures: Vec<Failure>,
    /// External declarations that contradict each other.
    pub conflicts: Vec<Conflict>,
}

impl From<&EventRecord> for PastEvent {
    fn from(record: &EventRecord) -> Self {
        let handlers = record.handlers.iter().map(|one| PastHandler {
            handler: Arc::clone(&one.handler),
            revert: one.revert,
            change: one.change.clone(),
            error: one.error.clone(),
        });
        Self {
            seq: record.seq,
            start: record.start,
            stop: record.stop,
            follow_up_to: record.follow_up_to,
            name: Arc::clone(&record.name),
            description: Arc::clone(&record.description),
            method: record.method,
            handlers: handlers.collect(),
            txn: record.txn.as_ref().map(|txn| txn.seq),
            failures: record.failures.clone(),
            conflicts: record.conflicts.clone(),
        }
    }
}

/// What every source declared when a transaction had ended.
pub type AsOf = BTreeMap<String, BTreeMap<Key, Mark>>;

/// Why the past cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    /// It is not remembered any more, or has not happened.
    #[error("transaction #{seq} is not remembered, hint: `txn list` shows those that are")]
    Forgotten {
        /// The transaction.
        seq: Seq,
    },
    /// What was declared then is given up; later moments are kept.
    #[error(
        "what was declared after transaction #{seq} is not kept any more, hint: what was since #{since} is"
    )]
    GivenUp {
        /// The transaction.
        seq: Seq,
        /// The oldest transaction that can be gone back to.
        since: Seq,
    },
    /// The store cannot be read.
    #[error("failed to read the state directory")]
    Store(#[from] StoreError),
    /// What lies there is not what was written.
    #[error("what is remembered of transaction #{seq} cannot be read")]
    Damaged {
        /// The transaction.
        seq: Seq,
    },
}

/// The past, as it is at one moment. Reading blocks: ask from a thread that may.
#[derive(Debug)]
pub struct Past {
    view: View,
    keep: Keep,
}

impl Keep {
    /// The past, to be read at leisure.
    pub fn past(&self) -> Result<Past, StoreError> {
        Ok(Past { view: self.store.view()?, keep: self.clone() })
    }
}

impl Past {
    /// The newest transactions before this one, the newest first, at most so many.
    pub fn transactions(&self, before: Option<Seq>, limit: usize) -> Result<Vec<PastTxn>, PastError> {
        let found = self.view.history(TRANSACTIONS)?.backward(..before.unwrap_or(u64::MAX), limit)?;
        found.into_iter().map(|found| parse(found.seq, &found.bytes)).collect()
    }

    /// The oldest transaction that is remembered.
    pub fn oldest(&self) -> Result<Option<Seq>, PastError> {
        Ok(self.view.history(TRANSACTIONS)?.first())
    }

    /// A transaction.
    pub fn transaction(&self, seq: Seq) -> Result<PastTxn, PastError> {
        let found = self.view.history(TRANSACTIONS)?.get(seq)?;
        found.map_or(Err(PastError::Forgotten { seq }), |found| parse(seq, &found.bytes))
    }

    /// The transactions that changed an item, the newest first, at most so many.
    pub fn timeline(&self, key: &str, limit: usize) -> Result<Vec<PastTxn>, PastError> {
        let history = self.view.history(TRANSACTIONS)?;
        let seqs = history.timeline(key, .., limit)?;
        seqs.into_iter().filter_map(|seq| found(&history, seq).transpose()).collect()
    }

    /// The newest events before this one, the newest first, at most so many.
    pub fn events(&self, before: Option<u64>, limit: usize) -> Result<Vec<PastEvent>, PastError> {
        let before = before.map_or(u64::MAX, |before| before.saturating_add(1));
        let found = self.view.history(EVENTS)?.backward(..before, limit)?;
        Ok(found.iter().filter_map(|found| serde_json::from_slice(&found.bytes).ok()).collect())
    }

    /// The items as they were when a transaction had just ended, by key; their values are plain JSON.
    ///
    /// Every run begins with an empty graph, so what the transactions of the run did to each item last tells how it
    /// stood. A run of which a transaction is missing tells nothing.
    pub fn items_at(&self, seq: Seq) -> Result<BTreeMap<Key, PastItem>, PastError> {
        let since = self.transaction(seq)?.since;
        let history = self.view.history(TRANSACTIONS)?;
        let mut last: BTreeMap<Key, Option<PastItem>> = BTreeMap::new();
        let mut next = seq;
        while next >= since {
            for found in history.backward(since..=next, BATCH)? {
                if found.seq != next {
                    return Err(PastError::Forgotten { seq });
                }
                next = found.seq - 1;
                note_last(&mut last, &parse(found.seq, &found.bytes)?.record);
            }
            // Nothing is left of the run, and its beginning was not met.
            if next >= since && history.get(next)?.is_none() {
                return Err(PastError::Forgotten { seq });
            }
        }
        Ok(last.into_iter().filter_map(|(key, item)| Some((key, item?))).collect())
    }

    /// What every source declared when a transaction had ended.
    pub fn declared_as_of(&self, seq: Seq) -> Result<AsOf, PastError> {
        let revision = Revision(self.transaction(seq)?.revision);
        let found = match self.view.range(&Range::of(layout::DECLARED).at(revision)) {
            Err(StoreError::Compacted { oldest, .. }) => return Err(self.given_up(seq, oldest)?),
            found => found?,
        };
        let mut as_of = AsOf::new();
        for item in found.items {
            let (source, key) = layout::parse_declared(&item.key).ok_or(PastError::Damaged { seq })?;
            let json = serde_json::from_slice(&item.value).map_err(|_| PastError::Damaged { seq })?;
            let mark =
                layout::read_mark(&key, json, self.keep.codec).map_err(|_| PastError::Damaged { seq })?;
            as_of.entry(source.to_owned()).or_default().insert(key, mark);
        }
        Ok(as_of)
    }

    /// What is gone, and from which transaction on it is not.
    fn given_up(&self, seq: Seq, oldest: Revision) -> Result<PastError, PastError> {
        let history = self.view.history(TRANSACTIONS)?;
        let mut after = seq;
        loop {
            let found = history.forward(after + 1.., BATCH)?;
            let Some(newest) = found.last().map(|found| found.seq) else {
                return Ok(PastError::Forgotten { seq });
            };
            for found in found {
                let txn = parse(found.seq, &found.bytes)?;
                if txn.revision >= oldest.0 {
                    return Ok(PastError::GivenUp { seq, since: found.seq });
                }
            }
            after = newest;
        }
    }
}

/// Notes how a transaction left its items, unless a later one is noted already.
fn note_last(last: &mut BTreeMap<Key, Option<PastItem>>, record: &Record) {
    for step in record.changes().rev() {
        last.entry(step.key.clone()).or_insert_with(|| {
            let is_there = !matches!(step.after.state, State::Nonexistent | State::Removed);
            is_there.then(|| PastItem {
                state: step.after.state,
                value: step.after.value.clone(),
                base: step.base.clone(),
            })
        });
    }
}

fn found(history: &History, seq: Seq) -> Result<Option<PastTxn>, PastError> {
    history.get(seq)?.map(|found| parse(seq, &found.bytes)).transpose()
}

fn parse(seq: Seq, bytes: &[u8]) -> Result<PastTxn, PastError> {
    serde_json::from_slice(bytes).map_err(|_| PastError::Damaged { seq })
}
