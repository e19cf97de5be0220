//! The heart of Kilter: turns a declared change into a plan, one transaction, a revert, a hold, a retry or a resync,
//! through a graph of items and their dependencies.
//!
//! **A plan is the walk taken in a world where everything succeeds.** The scheduler is a pure, resumable walk: it yields
//! the operations that may run now and is told how each ended. There is no I/O, no clock, no thread and no async code
//! here. Read [`scheduler`] for the life of a transaction, [`walk`] for its steps, [`graph`] for what is remembered.

mod bounded;
mod dependency;
mod descriptor;
mod explain;
mod graph;
mod history;
mod invariant;
mod journal;
mod key;
mod look;
mod merge;
mod operation;
mod past;
mod plan;
mod record;
mod refresh;
mod registry;
pub mod render;
mod resync;
mod scheduler;
pub mod span;
mod staging;
mod state;
mod txn;
mod value;
mod walk;
mod weigh;

pub use bounded::{Bounded, Entry, Limits};
pub use dependency::{Added, Needs, Predicate};
pub use descriptor::{Derived, Descriptor, Kind, Reads, Transition, describe};
pub use explain::{Explanation, Link, Why};
pub use graph::view::Item;
pub use history::{History, Moment};
pub use journal::Told;
pub use key::{Key, KeyPattern, PatternError};
pub use look::{Changes, Cursor};
pub use merge::merge_fields;
pub use operation::{Act, Answer, Expected, Failure, Listing, OpId, Operation, Retrieved};
pub use past::{Past, PastNeed};
pub use plan::{Plan, PlanHash, Stale};
pub use record::{Action, Argument, Cause, Executed, Marks, Note, Outcome, Record, Side, Step, TxnType};
pub use registry::{KindId, RegisterError, Registry};
pub use scheduler::{Scheduler, Settings, Stage};
pub use state::{FieldError, Origin, Seq, State, Status, Timestamp, Unmet};
pub use txn::{
    Change, Jitter, Labels, Observation, OnFailure, Request, Resync, Retry, RetryOrder, Txn, Undeclared,
};
pub use value::{Facts, Value, ValueRef};
