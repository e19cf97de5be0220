//! What can be set about the driver.

use std::num::NonZeroUsize;
use std::time::Duration;

use kilter_scheduler::span;
use serde::{Deserialize, Serialize};

/// How patient the driver is, and how much it hands out at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// How long a create, update or delete may take once its actuator has taken it up; then it counts as failed and
    /// its answer is no longer wanted. What an actuator has not taken up fails when it is silent for that long: takes
    /// up nothing, answers nothing, and lets no deadline pass. Default: 30 s.
    #[serde(with = "span")]
    pub op_deadline: Duration,
    /// The same for reading. Default: 60 s, because reading a whole kind can be long.
    #[serde(with = "span")]
    pub retrieve_deadline: Duration,
    /// The most operations in one batch; what is beyond goes into further batches that run at the same time.
    /// Default: `None`, no limit.
    pub max_batch: Option<NonZeroUsize>,
    /// How long an actuator's future may go on once none of its batch is waited for any more; then it is dropped.
    /// Default: 30 s.
    #[serde(with = "span")]
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            op_deadline: Duration::from_secs(30),
            retrieve_deadline: Duration::from_secs(60),
            max_batch: None,
            grace: Duration::from_secs(30),
        }
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting `{field}` must be greater than 0")]
pub struct SettingsError {
    /// The setting.
    pub field: &'static str,
}

impl Settings {
    /// Checks every setting; the error names the first one that cannot be: without time, nothing can be done.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let spans = [("op-deadline", self.op_deadline), ("retrieve-deadline", self.retrieve_deadline)];
        match spans.into_iter().find(|(_, span)| span.is_zero()) {
            Some((field, _)) => Err(SettingsError { field }),
            None => Ok(()),
        }
    }
}
