//! History: the transactions that happened. How it is bounded is in [`crate::bounded`].

use std::sync::Arc;

use crate::bounded::{Bounded, Entry, Limits};
use crate::key::Key;
use crate::record::{Record, Step};
use crate::state::{Seq, Timestamp};

/// What happened.
#[derive(Debug)]
pub struct History {
    kept: Bounded<Record>,
    newest: Seq,
}

impl Entry for Record {
    fn seq(&self) -> Seq {
        self.seq
    }

    fn start(&self) -> Timestamp {
        self.start
    }

    fn stop(&self) -> Timestamp {
        self.stop
    }

    fn weight(&self) -> usize {
        Record::weight(self)
    }
}

/// One change of one item.
#[derive(Clone, Debug)]
pub struct Moment<'a> {
    /// The transaction.
    pub seq: Seq,
    /// When it began.
    pub at: Timestamp,
    /// The step.
    pub step: &'a Step,
}

impl History {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { kept: Bounded::new(limits), newest: 0 }
    }

    /// Transactions up to this one were carried out and are not remembered.
    pub(crate) fn continue_after(&mut self, seq: Seq) {
        self.newest = seq;
    }

    pub(crate) fn push(&mut self, record: Arc<Record>, now: Timestamp) {
        self.newest = record.seq;
        self.kept.push(record, now);
    }

    /// Drops what is past the bounds. The newest record always stays.
    pub fn trim(&mut self, now: Timestamp) {
        self.kept.trim(now);
    }

    /// Every record, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Record>> {
        self.kept.iter()
    }

    /// The record of a transaction.
    pub fn get(&self, seq: Seq) -> Option<&Arc<Record>> {
        self.kept.get(seq)
    }

    /// About how many bytes the record of a transaction occupies; `None` if it is not remembered.
    pub fn weight(&self, seq: Seq) -> Option<usize> {
        self.kept.weight(seq)
    }

    /// The records of transactions that began in this time, oldest first.
    pub fn between(&self, since: Timestamp, until: Timestamp) -> impl Iterator<Item = &Arc<Record>> {
        self.iter().filter(move |record| record.start >= since && record.start <= until)
    }

    /// What happened to one item, oldest first.
    pub fn timeline<'a>(&'a self, key: &'a str) -> impl Iterator<Item = Moment<'a>> {
        self.iter().flat_map(move |record| {
            record.changes().filter(move |step| step.key.as_str() == key).map(|step| Moment {
                seq: record.seq,
                at: record.start,
                step,
            })
        })
    }

    /// The last transaction that ended, remembered or not; zero if there was none.
    pub fn newest(&self) -> Seq {
        self.newest
    }

    /// The oldest transaction from which on nothing is missing; the one to come if nothing is remembered.
    pub fn complete_since(&self) -> Seq {
        self.kept.complete_since().unwrap_or(self.newest + 1)
    }

    /// Whether every transaction that came after this one is remembered.
    pub fn reaches_back_to(&self, seq: Seq) -> bool {
        seq <= self.newest && seq + 1 >= self.complete_since()
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// About how many bytes the records occupy.
    pub fn bytes(&self) -> usize {
        self.kept.bytes()
    }

    /// Every item that changed after a transaction, each once; `None` if the history does not reach back that far.
    pub fn changed_since(&self, seq: Seq) -> Option<Vec<Key>> {
        if !self.reaches_back_to(seq) {
            return None;
        }
        let mut keys: Vec<Key> = Vec::new();
        for record in self.iter().rev().take_while(|record| record.seq > seq) {
            keys.extend(record.changes().map(|step| step.base.as_ref().unwrap_or(&step.key).clone()));
            keys.extend(record.stirred.iter().cloned());
        }
        keys.sort();
        keys.dedup();
        Some(keys)
    }
}
