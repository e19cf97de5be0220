//! What goes wrong with an event, as values: the first cause stays the first.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How serious an error of a handler is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Something is wrong; best-effort events go on.
    Plain,
    /// This event must not go on, and nothing of it is committed.
    Abort,
    /// The agent must end.
    Fatal,
}

/// What a handler answers when it fails.
#[derive(Debug, thiserror::Error)]
#[error("the handler reports a {severity:?} error")]
pub struct HandlerError {
    /// How serious it is.
    pub severity: Severity,
    /// What went wrong.
    #[source]
    pub source: Box<dyn Error + Send + Sync>,
}

impl HandlerError {
    /// Something is wrong; best-effort events go on, and healing follows.
    pub fn plain(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { severity: Severity::Plain, source: source.into() }
    }

    /// This event must not go on: nothing is committed, and healing follows.
    pub fn abort(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { severity: Severity::Abort, source: source.into() }
    }

    /// The agent must end.
    pub fn fatal(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { severity: Severity::Fatal, source: source.into() }
    }
}

/// Where something went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Before handlers were called.
    Preparation,
    /// In a handler's `handles`, `update` or `resync`.
    Handler(Arc<str>),
    /// In a handler's `revert`.
    Revert(Arc<str>),
    /// In the transaction.
    Commit,
}

/// One thing that went wrong with an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub struct Failure {
    /// Where.
    pub place: Place,
    /// How serious it is.
    pub severity: Severity,
    /// Whether a handler panicked, so that its state is suspect.
    pub panicked: bool,
    /// What, with its causes.
    pub text: Arc<str>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Preparation => {}
            Place::Handler(handler) => write!(f, "{handler}: ")?,
            Place::Revert(handler) => write!(f, "{handler} (revert): ")?,
            Place::Commit => f.write_str("transaction: ")?,
        }
        f.write_str(&self.text)
    }
}

/// What the producer of a blocking event is told when it did not go well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// It failed; the first thing that went wrong is the source.
    #[error("event #{seq} `{name}` failed")]
    Failed {
        /// Its position in the history.
        seq: u64,
        /// Its name.
        name: Arc<str>,
        /// What went wrong first.
        #[source]
        cause: Failure,
    },
    /// It was not looked at, because the loop is ending after a fatal error.
    #[error("the event loop is aborting after a fatal error")]
    Aborting,
    /// It was not looked at, because the loop has ended or could not go on.
    #[error("the event was aborted")]
    Aborted,
    /// It was not taken into the queue.
    #[error("the event was refused: {0}")]
    Refused(crate::queue::PushError),
}

/// An error with all its causes, on one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
