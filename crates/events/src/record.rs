//! Records: one event as it is remembered.

use std::sync::Arc;
use std::time::Duration;

use kilter_scheduler::{Entry, Key, Record, Seq, Timestamp, ValueRef};
use serde::{Serialize, Serializer};

use crate::error::{Failure, Place, Severity};
use crate::event::Method;
use crate::external::Conflict;

/// What one handler did about an event.
#[derive(Clone, Debug, Serialize)]
pub struct HandlerRecord {
    /// The handler.
    pub handler: Arc<str>,
    /// Whether it took back what it had done.
    pub revert: bool,
    /// What it changed, in its words.
    pub change: String,
    /// What went wrong, with its causes.
    pub error: Option<Arc<str>>,
    /// How long it took.
    #[serde(serialize_with = "nanoseconds")]
    pub took: Duration,
    /// Whether that is more than its budget.
    pub over_budget: bool,
}

fn nanoseconds<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

/// Something that verification found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Difference {
    /// What is declared is not what the handlers say when they are asked anew.
    Declared {
        /// The handler that drafts it, or drafted it.
        handler: Option<Arc<str>>,
        /// The item.
        key: Key,
        /// What is declared.
        declared: Option<ValueRef>,
        /// What the handlers say.
        anew: Option<ValueRef>,
    },
    /// Something would be done although nothing is declared differently.
    Planned {
        /// The handler that drafted the item or its base.
        handler: Option<Arc<str>>,
        /// The item.
        key: Key,
        /// What would be done.
        action: &'static str,
    },
    /// A handler's own state is another one after a resync.
    OwnState {
        /// The handler.
        handler: Arc<str>,
        /// What it was.
        before: String,
        /// What it is.
        after: String,
    },
}

/// One event as it is remembered.
#[derive(Clone, Debug, Serialize)]
pub struct EventRecord {
    /// Its position in the history; 0 is the startup resync.
    pub seq: u64,
    /// When it began.
    pub start: Timestamp,
    /// When it ended.
    pub stop: Timestamp,
    /// The event that it follows from.
    pub follow_up_to: Option<u64>,
    /// Its name.
    pub name: Arc<str>,
    /// Its description; the first line is the name.
    pub description: Arc<str>,
    /// What it asked for.
    pub method: Method,
    /// What handlers did, in the order of the calls.
    pub handlers: Vec<HandlerRecord>,
    /// Why the transaction failed, with its causes.
    pub txn_error: Option<Arc<str>>,
    /// The transaction.
    pub txn: Option<Arc<Record>>,
    /// About how many bytes the transaction occupies: the scheduler has weighed it.
    #[serde(skip)]
    pub(crate) txn_weight: usize,
    /// Everything that went wrong; the first is what the producer was told.
    pub failures: Vec<Failure>,
    /// External declarations that contradict each other.
    pub conflicts: Vec<Conflict>,
    /// What verification found.
    pub differences: Vec<Difference>,
}

impl EventRecord {
    /// What went wrong first.
    pub fn cause(&self) -> Option<&Failure> {
        self.failures.first()
    }

    /// Whether something in it says that the agent must end.
    pub fn is_fatal(&self) -> bool {
        self.failures.iter().any(|failure| failure.severity == Severity::Fatal)
    }

    /// Whether a handler went wrong, apart from the transaction.
    pub fn handler_failures(&self) -> impl Iterator<Item = &Failure> {
        self.failures.iter().filter(|failure| !matches!(failure.place, Place::Commit))
    }

    /// How long it took.
    pub fn duration(&self) -> Duration {
        self.stop.since(self.start)
    }
}

impl Entry for EventRecord {
    fn seq(&self) -> Seq {
        self.seq
    }

    fn start(&self) -> Timestamp {
        self.start
    }

    fn stop(&self) -> Timestamp {
        self.stop
    }

    /// The transaction is counted: this record may be the last one that keeps it.
    fn weight(&self) -> usize {
        let text = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        let handlers = self.handlers.iter().map(|one| size_of_val(one) + one.change.len() + text(&one.error));
        let failures = self.failures.iter().map(|one| size_of_val(one) + one.text.len());
        size_of::<Self>()
            + self.name.len()
            + self.description.len()
            + text(&self.txn_error)
            + handlers.sum::<usize>()
            + failures.sum::<usize>()
            + size_of_val(self.conflicts.as_slice())
            + size_of_val(self.differences.as_slice())
            + self.txn_weight
    }
}
