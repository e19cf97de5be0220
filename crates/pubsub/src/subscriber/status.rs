//! What a subscriber says about itself.

use std::time::Duration;

use crate::change::{Revision, Topic};
use crate::digest::Digest;

/// What a subscriber has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriberCounts {
    /// Slices that were applied.
    pub slices: u64,
    /// Slices and stretches that were there already.
    pub duplicates: u64,
    /// Slices of a log or topic that is not followed, and messages of the first design.
    pub foreign: u64,
    /// Times something was missing.
    pub gaps: u64,
    /// Times it had to be asked for.
    pub fetches: u64,
    /// Stretches that were applied.
    pub ranges: u64,
    /// Changes that came in stretches.
    pub fetched: u64,
    /// Comparisons by digest that were applied.
    pub deltas: u64,
    /// Snapshots that were applied.
    pub snapshots: u64,
    /// Reads of the source itself.
    pub source_reads: u64,
    /// Digests that were compared at the same position, and were equal.
    pub equal_digests: u64,
    /// Digests that were not.
    pub mismatches: u64,
    /// Times everything moved to another log.
    pub rebases: u64,
    /// Frames that could not be read.
    pub garbled: u64,
    /// Snapshots whose end did not fit.
    pub spoiled: u64,
    /// Times a session was lost or given up.
    pub sessions_lost: u64,
}

/// How near a subscriber is to what is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearness {
    /// What was counted.
    pub counts: SubscriberCounts,
    /// How many revisions of the log the topic that is furthest behind lacks, as far as is known.
    pub lag: Revision,
    /// For how long there has been no word from a publisher.
    pub age: Duration,
}

/// Where a topic stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicStatus {
    /// The topic.
    pub topic: Topic,
    /// How far it is; nothing if it was never complete.
    pub applied: Option<Revision>,
    /// Whether it gets what happens, and nothing is known to be missing.
    pub is_live: bool,
    /// How many items it has.
    pub items: usize,
    /// Their digest.
    pub digest: Digest,
}
