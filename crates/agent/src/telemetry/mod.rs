//! Telemetry: what the agent does, as numbers, as text and as traces.
//!
//! Decided here: who is told what, by looking on as an [`Audience`] like any other. Not decided here: what happens;
//! nothing in this folder changes anything. Numbers are in [`metrics`] and told by
//! [`scrape`], text is in [`logs`], spans in [`traces`].

pub(crate) mod delivery;
pub mod logs;
pub mod metrics;
pub mod scrape;
pub mod traces;

use std::time::SystemTime;

use kilter_cli::CommandError;
use kilter_events::{EventRecord, Fatal, Opening};
use kilter_model::document::Declared;
use kilter_scheduler::{Plan, Record, Scheduler, Seq};
use kilter_southbound::{Decision, Finished};
use serde::{Deserialize, Serialize};

use crate::drift::Heeded;
use crate::drive::{Audience, Pursuit};
use crate::keep::Missing;

pub use metrics::Metrics;
pub use traces::{TraceError, Traces};

/// What can be set about telemetry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// The text.
    pub logs: logs::Settings,
    /// The numbers.
    pub metrics: scrape::Settings,
    /// The traces.
    pub traces: traces::Settings,
}

/// Looks on beside another audience, and passes everything on to it.
pub struct Watched<A> {
    inner: A,
    metrics: Metrics,
    traces: Option<Traces>,
}

impl<A: Audience> Watched<A> {
    /// Looks on beside this audience.
    pub fn new(inner: A, metrics: Metrics, traces: Option<Traces>) -> Self {
        Self { inner, metrics, traces }
    }

    /// The audience, when everything is over.
    pub fn into_inner(self) -> A {
        self.inner
    }
}

impl<A: Audience> Audience for Watched<A> {
    fn opened(&mut self, opening: &Opening) {
        logs::opened(opening);
        if let Some(traces) = &mut self.traces {
            traces.opened(opening, SystemTime::now());
        }
        self.inner.opened(opening);
    }

    fn planned(&mut self, plan: &Plan, declares: bool) -> Decision {
        self.inner.planned(plan, declares)
    }

    fn finished(&mut self, operation: Finished<'_>) {
        self.metrics.finished(&operation);
        logs::finished(&operation);
        if let Some(traces) = &mut self.traces {
            traces.finished(&operation, SystemTime::now());
        }
        self.inner.finished(operation);
    }

    fn committed(&mut self, record: &Record) {
        self.metrics.committed(record);
        logs::committed(record);
        if let Some(traces) = &mut self.traces {
            traces.committed(record);
        }
        self.inner.committed(record);
    }

    fn closed(&mut self, record: &EventRecord) {
        self.metrics.closed(record);
        logs::closed(record);
        if let Some(traces) = &mut self.traces {
            traces.closed(record);
        }
        self.inner.closed(record);
    }

    fn waiting(&mut self, scheduler: &Scheduler, settled: bool) -> Pursuit {
        self.metrics.waiting(settled);
        self.inner.waiting(scheduler, settled)
    }

    fn heeded(&mut self, heeded: &Heeded) {
        self.metrics.heeded(heeded);
        logs::heeded(heeded);
        self.inner.heeded(heeded);
    }

    fn declared(&mut self, declared: Result<&[Declared], &CommandError>) {
        logs::declared(declared);
        self.inner.declared(declared);
    }

    fn unkept(&mut self, text: &str) {
        logs::unkept(text);
        self.inner.unkept(text);
    }

    fn unremembered(&mut self, missing: &Missing) {
        self.metrics.unremembered(missing);
        logs::unremembered(missing);
        self.inner.unremembered(missing);
    }

    fn unrecorded(&mut self, text: &str) {
        logs::unrecorded(text);
        self.inner.unrecorded(text);
    }

    fn alive(&mut self) {
        self.inner.alive();
    }

    fn gone_back(&mut self, id: Seq, record: Option<&Record>) {
        self.inner.gone_back(id, record);
    }

    fn stopping(&mut self) {
        self.inner.stopping();
    }

    fn fatal(&mut self, fatal: &Fatal) {
        logs::fatal(fatal);
        self.inner.fatal(fatal);
    }
}
