//! The clock of a process: it begins anywhere, and runs a little fast or slow.

use std::time::Duration;

use kilter_pubsub::Moment;

/// Parts of a whole.
const WHOLE: i128 = 1_000_000;

/// A clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// What it shows at the beginning, in microseconds.
    pub(crate) offset: u64,
    /// How much it gains, in millionths; what it loses is negative.
    pub(crate) gain: i32,
}

impl Clock {
    /// What it shows.
    pub(crate) fn at(self, now: u64) -> Moment {
        let run = i128::from(now) * (WHOLE + i128::from(self.gain)) / WHOLE;
        Moment(Duration::from_micros(self.offset + u64::try_from(run).expect("no clock runs backwards")))
    }

    /// When it shows at least this.
    pub(crate) fn when(self, due: Moment) -> u64 {
        let due = due.0.as_nanos().div_ceil(1000).saturating_sub(u128::from(self.offset));
        let due = i128::try_from(due).unwrap_or(i128::MAX / WHOLE / 2);
        let rate = WHOLE + i128::from(self.gain);
        u64::try_from((due.saturating_mul(WHOLE) + rate - 1) / rate).unwrap_or(u64::MAX)
    }
}
