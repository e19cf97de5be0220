//! The history of events, and the questions it answers. How it is bounded is the scheduler's rule:
//! [`kilter_scheduler::Bounded`].

use std::sync::Arc;

use kilter_scheduler::{Bounded, Limits, Timestamp};

use crate::record::EventRecord;

/// Which events are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// Every one.
    All,
    /// The one at this position.
    Seq(u64),
    /// Those from one position to another, both included.
    Range(u64, u64),
    /// Those that were under way at some moment of this time; an end that is left open is not looked at.
    Window {
        /// Not those that ended before.
        since: Option<Timestamp>,
        /// Not those that began after.
        until: Option<Timestamp>,
    },
    /// The oldest ones.
    First(usize),
    /// The newest ones.
    Last(usize),
}

/// What happened, event by event.
#[derive(Debug)]
pub struct EventHistory(Bounded<EventRecord>);

impl EventHistory {
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Bounded::new(limits))
    }

    pub(crate) fn push(&mut self, record: Arc<EventRecord>, now: Timestamp) {
        self.0.push(record, now);
    }

    pub(crate) fn trim(&mut self, now: Timestamp) {
        self.0.trim(now);
    }

    /// The records that are asked for, oldest first.
    pub fn query(&self, query: Query) -> Vec<Arc<EventRecord>> {
        let all = || self.0.iter().cloned();
        // The newest are asked for most: they are found from the end.
        let reversed = |mut newest: Vec<Arc<EventRecord>>| {
            newest.reverse();
            newest
        };
        match query {
            Query::All => all().collect(),
            Query::Seq(seq) => self.0.get(seq).cloned().into_iter().collect(),
            Query::Range(from, to) => {
                let newest = all().rev().skip_while(|record| record.seq > to);
                reversed(newest.take_while(|record| record.seq >= from).collect())
            }
            Query::Window { since, until } => all()
                .filter(|record| since.is_none_or(|since| record.stop >= since))
                .filter(|record| until.is_none_or(|until| record.start <= until))
                .collect(),
            Query::First(count) => all().take(count).collect(),
            Query::Last(count) => reversed(all().rev().take(count).collect()),
        }
    }

    /// Every record, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<EventRecord>> {
        self.0.iter()
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// About how many bytes the records occupy.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
