//! What can be set about the driver.

use std::num::NonZeroUsize;
use std::time::Duration;

/// How patient the driver is, and how much it hands out at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a create, update or delete may take once its actuator has taken it up; then it counts as failed and
    /// its answer is no longer wanted. What an actuator has not taken up fails when it is silent for that long: takes
    /// up nothing, answers nothing, and lets no deadline pass. Default: 30 s.
    pub op_deadline: Duration,
    /// The same for reading. Default: 60 s, because reading a whole kind can be long.
    pub retrieve_deadline: Duration,
    /// The most operations in one batch; what is beyond goes into further batches that run at the same time.
    /// Default: `None`, no limit.
    pub max_batch: Option<NonZeroUsize>,
    /// How long an actuator's future may go on once none of its batch is waited for any more; then it is dropped.
    /// Default: 30 s.
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
