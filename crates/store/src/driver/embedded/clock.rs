//! Time for leases, from outside.

use std::fmt;
use std::time::{Duration, Instant};

/// Where the store reads the time that its leases run on.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time since some fixed moment; never steps back.
    fn now(&self) -> Duration;
}

/// The machine's clock that does not step.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic {
    started: Instant,
}

impl Default for Monotonic {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}
