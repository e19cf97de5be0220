//! The agent's clock: begins at the wall clock and never steps.

use kilter_scheduler::Timestamp;
use kilter_southbound::{Clock, SystemClock};
use tokio::time::Instant;

/// Tells the time since the start on top of the wall clock as it was then.
///
/// **Guarantees** that time does not go back, whatever is done to the wall clock: deadlines stay where they are.
#[derive(Clone, Copy, Debug)]
pub struct SteadyClock {
    began: Timestamp,
    since: Instant,
}

impl SteadyClock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Self { began: SystemClock.now(), since: Instant::now() }
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        self.began.after(self.since.elapsed())
    }
}
