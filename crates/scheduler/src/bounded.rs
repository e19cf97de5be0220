//! The one rule by which a history is bounded: age, count and bytes, with a permanent beginning.
//!
//! Decided here: what is kept and what is dropped. Not decided here: what a record is; see [`Entry`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

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
    /// One day, 100 000 records, 64 MiB, and the first hour.
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

/// A record that a bounded history can keep.
pub trait Entry {
    /// Its position; it grows with every record.
    fn seq(&self) -> Seq;
    /// When it began.
    fn start(&self) -> Timestamp;
    /// When it ended.
    fn stop(&self) -> Timestamp;
    /// About how many bytes it occupies.
    fn weight(&self) -> usize;
}

/// Records, bounded by age, count and bytes.
#[derive(Debug)]
pub struct Bounded<R> {
    limits: Limits,
    permanent: Vec<Weighed<R>>,
    recent: VecDeque<Weighed<R>>,
    permanent_bytes: usize,
    bytes: usize,
    began: Option<Timestamp>,
}

#[derive(Debug)]
struct Weighed<R> {
    record: Arc<R>,
    weight: usize,
}

impl<R: Entry> Bounded<R> {
    /// Nothing yet, within these bounds.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            permanent: Vec::new(),
            recent: VecDeque::new(),
            permanent_bytes: 0,
            bytes: 0,
            began: None,
        }
    }

    /// Adds the newest record and drops what is past the bounds.
    pub fn push(&mut self, record: Arc<R>, now: Timestamp) {
        let limits = &self.limits;
        if limits.count == 0 {
            return;
        }
        let began = *self.began.get_or_insert(record.start());
        let weight = record.weight();
        let early = record.start().since(began) < limits.permanent;
        let room =
            self.permanent.len() < limits.count / 2 && self.permanent_bytes + weight <= limits.bytes / 2;
        // The beginning is one piece: once a record did not fit, later ones do not belong to it.
        if early && room && self.recent.is_empty() {
            self.permanent_bytes += weight;
            self.permanent.push(Weighed { record, weight });
        } else {
            self.bytes += weight;
            self.recent.push_back(Weighed { record, weight });
        }
        self.trim(now);
    }

    /// Drops what is past the bounds. The newest record always stays.
    pub fn trim(&mut self, now: Timestamp) {
        let limits = &self.limits;
        while self.recent.len() > 1 {
            let oldest = &self.recent[0];
            let too_old = now.since(oldest.record.stop()) > limits.age;
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
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<R>> {
        self.permanent.iter().chain(&self.recent).map(|weighed| &weighed.record)
    }

    /// The record at a position.
    pub fn get(&self, seq: Seq) -> Option<&Arc<R>> {
        let in_permanent = self.permanent.binary_search_by_key(&seq, |weighed| weighed.record.seq());
        let in_recent = self.recent.binary_search_by_key(&seq, |weighed| weighed.record.seq());
        let early = in_permanent.ok().map(|at| &self.permanent[at].record);
        early.or_else(|| in_recent.ok().map(|at| &self.recent[at].record))
    }

    /// About how many bytes the record at a position occupies, as it was weighed when it was added.
    pub fn weight(&self, seq: Seq) -> Option<usize> {
        let newest = self.recent.back().or(self.permanent.last());
        let newest = newest.filter(|weighed| weighed.record.seq() == seq);
        let all = || self.permanent.iter().chain(&self.recent).find(|weighed| weighed.record.seq() == seq);
        newest.or_else(all).map(|weighed| weighed.weight)
    }

    /// The oldest position from which on nothing is missing; `None` if nothing is remembered.
    pub fn complete_since(&self) -> Option<Seq> {
        let first = self.permanent.first().map(|weighed| weighed.record.seq());
        let last = self.permanent.last().map(|weighed| weighed.record.seq());
        match self.recent.front().map(|weighed| weighed.record.seq()) {
            Some(recent) if last.is_none_or(|last| last + 1 != recent) => Some(recent),
            Some(_) | None => first,
        }
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
}
