//! Handlers: what an event means for one domain. They are called one after another, each isolated from the others.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::draft::Draft;
use crate::error::{HandlerError, Severity, chain};
use crate::event::Event;
use crate::inputs::Inputs;

/// Reacts to events: changes its own state and drafts what shall be declared.
///
/// The order of handlers is the order of registration, reversed for reverse updates. If one reads the state of
/// another, it stands after it. Nothing here may wait: I/O is [asked for](Draft::ask).
///
/// A handler that drafts anything must take every resync; otherwise its items are removed by it.
///
/// **Assumes** that what a handler does depends only on what it was given, in order: a run can then be replayed.
pub trait Handler: Send {
    /// The name, for people and for provenance.
    fn name(&self) -> &str;

    /// Whether the event is any of its business.
    fn handles(&self, event: &Event) -> bool;

    /// Computes anew everything it declares. `count` is 1 for the startup resync.
    fn resync(
        &mut self,
        event: &Event,
        inputs: &Inputs,
        count: u64,
        draft: &mut Draft<'_>,
    ) -> Result<(), HandlerError>;

    /// Reacts to an update; describes the change, or leaves the text empty.
    fn update(&mut self, event: &Event, draft: &mut Draft<'_>) -> Result<String, HandlerError>;

    /// Undoes what `update` did to its own state. What was drafted is taken back by the loop.
    fn revert(&mut self, event: &Event) -> Result<(), HandlerError>;

    /// Its own state as text, so that verification can tell whether a resync changes it.
    fn own_state(&self) -> Option<String> {
        None
    }
}

/// Measures how long handlers take. The reading only grows.
pub trait Stopwatch: Send {
    /// The reading.
    fn read(&self) -> Duration;
}

impl<F: Fn() -> Duration + Send> Stopwatch for F {
    fn read(&self) -> Duration {
        self()
    }
}

/// How a call of a handler failed.
#[derive(Debug)]
pub(crate) struct CallError {
    pub(crate) severity: Severity,
    pub(crate) panicked: bool,
    pub(crate) text: String,
}

/// Calls into a handler. A panic aborts the event, and stays inside.
pub(crate) fn call<T>(work: impl FnOnce() -> Result<T, HandlerError>) -> Result<T, CallError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => {
            let text = chain(&*error.source);
            Err(CallError { severity: error.severity, panicked: false, text })
        }
        Err(payload) => {
            let text = format!("panicked: {}", message(&*payload));
            Err(CallError { severity: Severity::Abort, panicked: true, text })
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}
