//! History: what happened, bounded by age, count and bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::key::Key;
use crate::record::{Record, Step};
use crate::state::{Seq, Timestamp};

/// The bounds of a history. All of them hold, also for the permanent beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Records older than this are dropped, unless they belong to the permanent beginning.
    pub age: Duration,
    /// At most this many records.
    pub count: usize,
    /// At most about this many bytes.
    pub bytes: usize,
    /// Records that began this long after the first one outlive their age, since the beginning explains the rest.
    /// At most half of `count` and of `bytes` belongs to them.
    pub permanent: Duration,
}

impl Default for Limits {
    /// One day, 100 000 transactions, 64 MiB, and the first hour.
    fn default() -> Self {
        Self {
            age: Duration::from_secs(24 * 3600),
            count: 100_000,
            bytes: 64 << 20,
            permanent: Duration::from_secs(3600),
        }
    }
}

impl Limits {
    /// Remembers nothing.
    pub fn nothing() -> Self {
        Self { age: Duration::ZERO, count: 0, bytes: 0, permanent: Duration::ZERO }
    }
}

/// What happened.
#[derive(Debug, Default)]
pub struct History {
    limits: Option<Limits>,
    permanent: Vec<Entry>,
    recent: VecDeque<Entry>,
    permanent_bytes: usize,
    bytes: usize,
    began: Option<Timestamp>,
    newest: Seq,
}

#[derive(Debug)]
struct Entry {
    record: Arc<Record>,
    weight: usize,
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
        Self { limits: Some(limits), ..Self::default() }
    }

    pub(crate) fn push(&mut self, record: Arc<Record>, now: Timestamp) {
        let limits = self.limits.clone().unwrap_or_default();
        self.newest = record.seq;
        if limits.count == 0 {
            return;
        }
        let began = *self.began.get_or_insert(record.start);
        let weight = record.weight();
        let early = record.start.since(began) < limits.permanent;
        let room =
            self.permanent.len() < limits.count / 2 && self.permanent_bytes + weight <= limits.bytes / 2;
        // The beginning is one piece: once a record did not fit, later ones do not belong to it.
        if early && room && self.recent.is_empty() {
            self.permanent_bytes += weight;
            self.permanent.push(Entry { record, weight });
        } else {
            self.bytes += weight;
            self.recent.push_back(Entry { record, weight });
        }
        self.trim(now);
    }

    /// Drops what is past the bounds. The newest record always stays.
    pub fn trim(&mut self, now: Timestamp) {
        let Some(limits) = &self.limits else { return };
        while self.recent.len() > 1 {
            let oldest = &self.recent[0];
            let too_old = now.since(oldest.record.stop) > limits.age;
            let too_many = self.permanent.len() + self.recent.len() > limits.count;
            let too_big = self.permanent_bytes + self.bytes > limits.bytes;
            if !(too_old || too_many || too_big) {
                break;
            }
            self.bytes -= oldest.weight;
            self.recent.pop_front();
        }
    }

    /// Every record, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Record>> {
        self.permanent.iter().chain(&self.recent).map(|entry| &entry.record)
    }

    /// The record of a transaction.
    pub fn get(&self, seq: Seq) -> Option<&Arc<Record>> {
        let place = |at: Result<usize, usize>| at.ok();
        let in_permanent = place(self.permanent.binary_search_by_key(&seq, |entry| entry.record.seq));
        let in_recent = place(self.recent.binary_search_by_key(&seq, |entry| entry.record.seq));
        in_permanent
            .map(|at| &self.permanent[at].record)
            .or_else(|| in_recent.map(|at| &self.recent[at].record))
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
        let first = |entry: Option<&Entry>| entry.map_or(self.newest + 1, |entry| entry.record.seq);
        let recent = first(self.recent.front());
        let is_one_piece = self.permanent.last().is_some_and(|last| last.record.seq + 1 == recent);
        if is_one_piece { first(self.permanent.first()) } else { recent }
    }

    /// Whether every transaction that came after this one is remembered.
    pub fn reaches_back_to(&self, seq: Seq) -> bool {
        seq <= self.newest && seq + 1 >= self.complete_since()
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.permanent.len() + self.recent.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About how many bytes the records occupy.
    pub fn bytes(&self) -> usize {
        self.permanent_bytes + self.bytes
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
