//! When what failed is tried again: ever less often, and at least once a minute.

use std::time::Duration;

use kilter_scheduler::Timestamp;

use super::AGAIN;

/// The longest pause between two attempts.
const LONGEST: Duration = Duration::from_secs(60);

/// The pause behind the attempt that failed last, and its end.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// Zero if none failed.
    pause: Duration,
    pub(super) until: Timestamp,
}

impl Backoff {
    /// An attempt failed: the next one comes after a pause, twice as long as the one before.
    pub(super) fn put_off(&mut self, now: Timestamp) {
        self.pause = (self.pause * 2).clamp(AGAIN, LONGEST);
        self.until = now.after(self.pause);
    }

    /// What stood in the way may be gone: the next attempt may come at once.
    pub(super) fn relent(&mut self) {
        *self = Self::default();
    }

    /// Whether it is time for an attempt.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.until <= now
    }
}
