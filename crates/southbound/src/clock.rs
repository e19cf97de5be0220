//! Where the time comes from: the scheduler is told the time, so the driver has to ask somebody.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kilter_scheduler::Timestamp;

/// Tells the time that goes into records.
///
/// Deadlines do not use it: they run on tokio's clock, which a step of the wall clock does not move.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The wall clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A machine whose clock stands before 1970 is at the beginning of time.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp::default().after(since_epoch)
    }
}
