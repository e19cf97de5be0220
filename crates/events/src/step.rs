//! What the loop asks whoever drives it to do next.

use std::sync::Arc;

use kilter_scheduler::{Timestamp, Txn};

use crate::effect::Effect;
use crate::fatal::Fatal;
use crate::record::EventRecord;

/// What there is to say about an event before handlers are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Its position in the history.
    pub seq: u64,
    /// The event that it follows from.
    pub follow_up_to: Option<u64>,
    /// Its description; the first line is the name.
    pub description: Arc<str>,
    /// The handlers that will be called, in order.
    pub handlers: Vec<Arc<str>>,
}

/// What is to be done next.
#[derive(Debug)]
pub enum Step {
    /// An event begins; to be shown. Then ask again.
    Opened(Opening),
    /// Perform the transaction on the loop's scheduler, then tell [`committed`](crate::EventLoop::committed).
    Commit(Txn),
    /// Plan the transaction on the loop's scheduler and drop it, then tell [`planned`](crate::EventLoop::planned).
    Plan(Txn),
    /// An event has ended; to be shown. Then ask again.
    Closed(Arc<EventRecord>),
    /// Begin this I/O off the loop, and push its result when it is there. Then ask again.
    Perform(Effect),
    /// Nothing is to be done until somebody pushes an event, or until this moment.
    Wait(Option<Timestamp>),
    /// The agent must end, after it has pushed a shutdown (so that handlers clean up) and flushed its history.
    Fatal(Fatal),
    /// The loop has ended.
    Stopped,
}

/// What was counted since the loop was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that have ended.
    pub events: u64,
    /// Those of them in which something went wrong.
    pub failed: u64,
    /// Those of them that were taken back.
    pub reverted: u64,
    /// Healing resyncs after an error.
    pub healings: u64,
    /// Transactions of events.
    pub transactions: u64,
    /// Handlers that panicked.
    pub panics: u64,
    /// Calls of handlers that took longer than their budget.
    pub over_budget: u64,
    /// Events that were not taken into the queue.
    pub refused: u64,
}
