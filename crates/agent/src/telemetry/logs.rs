//! Text about what happens, for people or for programs, on the error stream.
//!
//! Decided here: what is worth a line, and how loud. Values are never written: they may hold secrets.

use std::io::IsTerminal as _;
use std::str::FromStr as _;

use kilter_cli::{CommandError, chain};
use kilter_events::{EventRecord, Fatal, Opening};
use kilter_model::document::Declared;
use kilter_scheduler::{Outcome, Record};
use kilter_southbound::Finished;
use serde::{Deserialize, Serialize};
use tracing::{Subscriber, debug, error, info, warn};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::metrics::{outcome_name, type_name};
use crate::drift::Heeded;
use crate::keep::Missing;

/// What a line looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// For people.
    #[default]
    Text,
    /// For programs: one JSON object a line.
    Json,
}

/// What can be set about the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// How much is told: `off`, `error`, `warn`, `info`, `debug`, or a filter such as `info,kilter_agent=debug`.
    /// Default: off; what a person must know, the daemon says in any case.
    pub level: String,
    /// What a line looks like. Default: text.
    pub form: Form,
}

impl Default for Settings {
    fn default() -> Self {
        Self { level: "off".to_owned(), form: Form::Text }
    }
}

/// Why nothing can be told.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level is none.
    #[error("setting `level` is not a filter, hint: one of `off`, `error`, `warn`, `info`, `debug`")]
    Level(#[source] tracing_subscriber::filter::ParseError),
    /// Somebody else listens already.
    #[error("failed to begin the log")]
    Taken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Begins to write what is told.
pub fn begin(settings: &Settings) -> Result<(), LogError> {
    lines(settings, std::io::stderr)?.try_init().map_err(|taken| LogError::Taken(taken.into()))
}

/// Writes what is told wherever that is.
pub fn lines(
    settings: &Settings,
    writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
) -> Result<Box<dyn Subscriber + Send + Sync>, LogError> {
    let filter = EnvFilter::from_str(&settings.level).map_err(LogError::Level)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    Ok(match settings.form {
        Form::Text => Box::new(lines.with_target(false).with_ansi(has_colours()).finish()),
        Form::Json => Box::new(lines.json().flatten_event(true).finish()),
    })
}

/// Whether whoever reads the error stream sees colours.
fn has_colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|said| said.is_empty())
}

pub(super) fn opened(opening: &Opening) {
    let name = opening.description.lines().next().unwrap_or_default();
    debug!(event = opening.seq, follow_up_to = opening.follow_up_to, "event begins: {name}");
}

pub(super) fn finished(operation: &Finished<'_>) {
    let (key, action) = (operation.key.map(tracing::field::display), operation.action.name());
    match operation.failure() {
        Some(failure) => warn!(key, action, kind = operation.kind, "operation failed: {}", failure.message),
        None => debug!(key, action, kind = operation.kind, took = ?operation.took, "operation done"),
    }
}

pub(super) fn committed(record: &Record) {
    let operations = record.steps().iter().filter(|step| step.is_operation()).count();
    let (txn, txn_type) = (record.seq, type_name(&record.txn_type));
    let (outcome, took) = (outcome_name(&record.outcome), record.duration());
    match &record.outcome {
        Outcome::Applied | Outcome::AppliedWithPending if operations == 0 => {
            debug!(txn, txn_type, outcome, operations, ?took, "transaction ended");
        }
        Outcome::Applied | Outcome::AppliedWithPending => {
            info!(txn, txn_type, outcome, operations, ?took, "transaction ended");
        }
        Outcome::Incomplete(cause) | Outcome::Reverted(cause) => {
            warn!(txn, txn_type, outcome, operations, ?took, key = %cause.key, "transaction ended: {}", cause.error);
        }
        Outcome::RevertFailed { cause, revert } => {
            error!(
                txn, txn_type, outcome, operations, ?took, key = %cause.key,
                "transaction ended: {}; on the way back: {}: {}", cause.error, revert.key, revert.error
            );
        }
    }
}

pub(super) fn closed(record: &EventRecord) {
    for failure in record.handler_failures() {
        error!(event = record.seq, "event went wrong: {failure}");
    }
    for conflict in &record.conflicts {
        let (heard, unheard) = (&conflict.heard, &conflict.unheard);
        warn!(key = %conflict.key, field = conflict.field, %heard, %unheard, "two sources declare different things");
    }
}

pub(super) fn heeded(heeded: &Heeded) {
    for key in &heeded.contested {
        warn!(%key, "another writer keeps changing the item, it is left alone");
    }
    if heeded.blind {
        error!("the kernel can no longer be watched, drift is not noticed");
    }
}

pub(super) fn declared(declared: Result<&[Declared], &CommandError>) {
    match declared {
        Ok(declared) => info!(items = declared.len(), "the directory has changed"),
        Err(wrong) => error!("the directory cannot be used, what was declared stays: {}", chain(wrong)),
    }
}

pub(super) fn unkept(text: &str) {
    error!("what was carried out could not be kept, it is tried again: {text}");
}

pub(super) fn unremembered(missing: &Missing) {
    let count = missing.count;
    match &missing.why {
        Some(why) => warn!("{count} records of the history could not be written: {why}"),
        None => info!("the history is written again, {count} records of it are missing"),
    }
}

pub(super) fn unrecorded(text: &str) {
    warn!("{text}");
}

pub(super) fn fatal(fatal: &Fatal) {
    error!("the agent must end: {fatal}");
}
