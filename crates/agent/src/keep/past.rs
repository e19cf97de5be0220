//! The past, read back: transactions, events, timelines, and what was declared as of a transaction.

use std::collections::BTreeMap;

use kilter_scheduler::{Key, Seq};
use kilter_store::embedded::View;
use kilter_store::embedded::history::History;
use kilter_store::{Range, Revision, StoreError};
use serde_json::Value as Json;

use super::{EVENTS, Keep, TRANSACTIONS, layout};
use crate::ledger::Mark;

/// A transaction as it is remembered on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct PastTxn {
    /// Its number.
    pub seq: Seq,
    /// The record as JSON.
    pub record: Json,
    revision: u64,
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

    /// The newest events before this one, the newest first, at most so many; each as JSON.
    pub fn events(&self, before: Option<u64>, limit: usize) -> Result<Vec<Json>, PastError> {
        let before = before.map_or(u64::MAX, |before| before.saturating_add(1));
        let found = self.view.history(EVENTS)?.backward(..before, limit)?;
        Ok(found.iter().filter_map(|found| serde_json::from_slice(&found.bytes).ok()).collect())
    }

    /// What every source declared when a transaction had ended.
    pub fn declared_as_of(&self, seq: Seq) -> Result<AsOf, PastError> {
        let revision = Revision(self.transaction(seq)?.revision);
        let found = match self.view.range(&Range::of(layout::DECLARED).at(revision)) {
            Err(StoreError::Compacted { .. }) => return Err(PastError::Forgotten { seq }),
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
}

fn found(history: &History, seq: Seq) -> Result<Option<PastTxn>, PastError> {
    history.get(seq)?.map(|found| parse(seq, &found.bytes)).transpose()
}

fn parse(seq: Seq, bytes: &[u8]) -> Result<PastTxn, PastError> {
    #[derive(serde::Deserialize)]
    struct Plain {
        revision: u64,
        record: Json,
    }
    let plain: Plain = serde_json::from_slice(bytes).map_err(|_| PastError::Damaged { seq })?;
    Ok(PastTxn { seq, record: plain.record, revision: plain.revision })
}
