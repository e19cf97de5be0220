//! What is on its way, and what may happen to it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bytes::Bytes;
use kilter_pubsub::{Commit, SourceRead, SourceState, SourceUnavailable};

/// What arrives somewhere.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A connection was accepted, or refused.
    Opened { connection: u64, accepted: bool },
    /// A frame for a distributor.
    Up { connection: u64, frame: Bytes },
    /// A frame for a subscriber, on its connection.
    Down { connection: u64, frame: Bytes },
    /// A frame for a subscriber, said to everybody.
    Heard { subscriber: usize, life: u64, from: usize, frame: Bytes },
    /// The end of a connection, at the subscriber.
    Closed { connection: u64 },
    /// A commit for a distributor that watches.
    Commit { distributor: usize, life: u64, watch: u64, commit: Commit },
    /// Nothing more up to here.
    Progress { distributor: usize, life: u64, watch: u64, rev: u64 },
    /// A watch that ended; whether its start was forgotten.
    WatchEnded { distributor: usize, life: u64, watch: u64, compacted: bool },
    /// The answer to a read.
    Read { distributor: usize, life: u64, read: u64, answer: Result<SourceState, SourceUnavailable> },
    /// The answer to a subscriber's own read.
    OwnRead { subscriber: usize, life: u64, read: u64, answer: Result<SourceRead, SourceUnavailable> },
}

struct Waiting {
    at: u64,
    order: u64,
    arrival: Arrival,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Arrivals in the order of their time, in microseconds.
#[derive(Default)]
pub(crate) struct Network {
    waiting: BinaryHeap<Reverse<Waiting>>,
    order: u64,
}

impl Network {
    pub(crate) fn send(&mut self, at: u64, arrival: Arrival) {
        self.order += 1;
        self.waiting.push(Reverse(Waiting { at, order: self.order, arrival }));
    }

    pub(crate) fn next_at(&self) -> Option<u64> {
        self.waiting.peek().map(|Reverse(waiting)| waiting.at)
    }

    pub(crate) fn next(&mut self) -> Option<Arrival> {
        self.waiting.pop().map(|Reverse(waiting)| waiting.arrival)
    }
}

/// How bad the network is, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// What is said to everybody is lost.
    pub(crate) loss: usize,
    /// It comes twice.
    pub(crate) twice: usize,
    /// The longest delay, in milliseconds; what is said to everybody overtakes.
    pub(crate) delay: usize,
    /// Frames on connections are lost too: no transport does that, and the protocol survives it.
    pub(crate) hostile: usize,
}
