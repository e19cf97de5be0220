//! Counters of what should not happen often, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// The live counters, shared with every batch that is under way.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    late_answers: AtomicU64,
    panics: AtomicU64,
    dropped_batches: AtomicU64,
}

/// What a driver has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answers that nobody waited for any more: after the deadline, or after the transaction.
    pub late_answers: u64,
    /// Batches that ended in a panic of their actuator.
    pub panics: u64,
    /// Batches whose future was dropped because it did not end within the grace.
    pub dropped_batches: u64,
}

impl Counters {
    pub(crate) fn late_answer(&self) {
        self.late_answers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn dropped_batch(&self) {
        self.dropped_batches.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn seen(&self) -> Counts {
        Counts {
            late_answers: self.late_answers.load(Ordering::Relaxed),
            panics: self.panics.load(Ordering::Relaxed),
            dropped_batches: self.dropped_batches.load(Ordering::Relaxed),
        }
    }
}
