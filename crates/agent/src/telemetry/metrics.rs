//! Numbers, in the form that Prometheus reads.
//!
//! Decided here: what is counted and what it is called. How many items stand where follows from the steps of the
//! records: each says where its item stood before and after, and together they tell every change.

use std::fmt;
use std::sync::Arc;

use kilter_events::{EventRecord, Method};
use kilter_scheduler::{Outcome, Record, State, TxnType};
use kilter_southbound::Finished;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::delivery::Delivery;
use crate::drift::Heeded;
use crate::keep::Missing;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Standing {
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Ended {
    r#type: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Done {
    kind: String,
    action: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Happened {
    method: &'static str,
    result: &'static str,
}

/// From a tenth of a millisecond to about half a minute.
fn span() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 4.0, 10))
}

/// What is counted. Cloning is cheap: the numbers are shared.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    items: Family<Standing, Gauge>,
    transactions: Family<Ended, Counter>,
    transaction_seconds: Histogram,
    operations: Family<Done, Counter>,
    operation_seconds: Histogram,
    events: Family<Happened, Counter>,
    event_seconds: Histogram,
    healed: Counter,
    contested: Counter,
    unremembered: Gauge,
    blind: Gauge,
    settled: Gauge,
    delivery: Delivery,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Arc::default(),
            items: Family::default(),
            transactions: Family::default(),
            transaction_seconds: span(),
            operations: Family::default(),
            operation_seconds: span(),
            events: Family::default(),
            event_seconds: span(),
            healed: Counter::default(),
            contested: Counter::default(),
            unremembered: Gauge::default(),
            blind: Gauge::default(),
            settled: Gauge::default(),
            delivery: Delivery::default(),
        };
        metrics.registry = Arc::new(metrics.register());
        metrics
    }
}

impl Metrics {
    fn register(&self) -> Registry {
        let mut registry = Registry::with_prefix("kilter");
        registry.register("items", "Items by state, derived ones included", self.items.clone());
        registry.register("transactions", "Transactions by type and outcome", self.transactions.clone());
        let seconds = self.transaction_seconds.clone();
        registry.register("transaction_seconds", "How long transactions took", seconds);
        registry.register("operations", "Operations by kind, action and result", self.operations.clone());
        let seconds = self.operation_seconds.clone();
        registry.register("operation_seconds", "How long operations took, from hand-out to answer", seconds);
        registry.register("events", "Events by method and result", self.events.clone());
        registry.register("event_seconds", "How long events took", self.event_seconds.clone());
        registry.register("healed", "Operations that healed drift", self.healed.clone());
        registry.register(
            "contested",
            "Items that another writer has begun to fight over",
            self.contested.clone(),
        );
        let unremembered = self.unremembered.clone();
        registry.register(
            "unremembered",
            "Records that are missing in the history of this run",
            unremembered,
        );
        registry.register("blind", "1 while the kernel cannot be watched", self.blind.clone());
        registry.register("settled", "1 while nothing is left to do, not even later", self.settled.clone());
        self.delivery.register(&mut registry);
        registry
    }

    /// What is counted of delivery.
    pub(crate) fn delivery(&self) -> Delivery {
        self.delivery.clone()
    }

    /// Everything that was counted, as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).expect("writing to a string cannot fail");
        text
    }

    pub(super) fn finished(&self, operation: &Finished<'_>) {
        let result = if operation.failure().is_some() { "failed" } else { "done" };
        let labels = Done { kind: operation.kind.to_owned(), action: operation.action.name(), result };
        self.operations.get_or_create(&labels).inc();
        self.operation_seconds.observe(operation.took.as_secs_f64());
    }

    pub(super) fn committed(&self, record: &Record) {
        let (r#type, outcome) = (type_name(&record.txn_type), outcome_name(&record.outcome));
        self.transactions.get_or_create(&Ended { r#type, outcome }).inc();
        self.transaction_seconds.observe(record.duration().as_secs_f64());
        for step in record.changes() {
            let (before, after) = (step.before.state, step.after.state);
            if before != after {
                self.count_item(before, -1);
                self.count_item(after, 1);
            }
        }
        if matches!(record.txn_type, TxnType::Refresh | TxnType::DownstreamResync) {
            let healed = record.steps().iter().filter(|step| step.is_operation() && step.error.is_none());
            self.healed.inc_by(u64::try_from(healed.count()).unwrap_or(u64::MAX));
        }
    }

    fn count_item(&self, state: State, by: i64) {
        if !matches!(state, State::Nonexistent | State::Removed) {
            self.items.get_or_create(&Standing { state: state.name() }).inc_by(by);
        }
    }

    pub(super) fn closed(&self, record: &EventRecord) {
        let method = match record.method {
            Method::Update { .. } => "update",
            Method::Resync(_) => "resync",
            Method::Notification => "notification",
        };
        let result = if record.failures.is_empty() { "done" } else { "failed" };
        self.events.get_or_create(&Happened { method, result }).inc();
        self.event_seconds.observe(record.duration().as_secs_f64());
    }

    pub(super) fn waiting(&self, settled: bool) {
        self.settled.set(i64::from(settled));
    }

    pub(super) fn unremembered(&self, missing: &Missing) {
        self.unremembered.set(i64::try_from(missing.count).unwrap_or(i64::MAX));
    }

    pub(super) fn heeded(&self, heeded: &Heeded) {
        self.contested.inc_by(u64::try_from(heeded.contested.len()).unwrap_or(u64::MAX));
        if heeded.blind {
            self.blind.set(1);
        }
    }
}

/// A type of transaction, for programs.
pub(super) fn type_name(txn_type: &TxnType) -> &'static str {
    match txn_type {
        TxnType::Changes { .. } => "changes",
        TxnType::FullResync => "full-resync",
        TxnType::UpstreamResync => "upstream-resync",
        TxnType::DownstreamResync => "downstream-resync",
        TxnType::Refresh => "refresh",
        TxnType::Notification => "notification",
        TxnType::Retry { .. } => "retry",
        TxnType::LateKind => "late-kind",
        TxnType::Overdue => "overdue",
    }
}

/// An outcome, for programs.
pub(super) fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Applied => "applied",
        Outcome::AppliedWithPending => "pending",
        Outcome::Incomplete(_) => "incomplete",
        Outcome::Reverted(_) => "reverted",
        Outcome::RevertFailed { .. } => "revert-failed",
    }
}
