//! Healing: when the loop resyncs by itself, and when it gives up.
//!
//! Decided here: a failure leads to one healing resync after a delay, however many failures there are in between; a
//! healing resync that fails is tried again with a growing delay, a configured number of times. Not decided here:
//! which failures need healing; see [`crate::turn`].

use std::sync::Arc;
use std::time::Duration;

use kilter_scheduler::{Retry, Timestamp};

use crate::builtin::HealingResync;
use crate::settings::Settings;

/// What follows from the failure of a healing resync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    /// Another attempt.
    TryAgain,
    /// It is hopeless.
    GiveUp,
}

/// When the loop resyncs by itself.
#[derive(Debug)]
pub(crate) struct Healing {
    retry: Retry,
    /// The one that is planned: when, and what went wrong first.
    planned: Option<(Timestamp, Arc<str>)>,
    /// Attempts that failed in a row.
    failed: u32,
    period: Option<Duration>,
    next_periodic: Option<Timestamp>,
}

impl Healing {
    /// As the settings say.
    pub(crate) fn of(settings: &Settings) -> Self {
        let period = settings.periodic_healing.then_some(settings.periodic_interval);
        Self::new(settings.healing_retry(), period)
    }

    fn new(retry: Retry, period: Option<Duration>) -> Self {
        Self { retry, planned: None, failed: 0, period, next_periodic: None }
    }

    /// Periodic healing begins with the first resync.
    pub(crate) fn start_periodic(&mut self, now: Timestamp) {
        if self.next_periodic.is_none() {
            self.next_periodic = self.period.map(|period| now.after(period));
        }
    }

    /// Plans a healing resync, unless one is planned.
    pub(crate) fn plan(&mut self, error: &Arc<str>, now: Timestamp) {
        if self.planned.is_none() {
            let delay = self.retry.delay(self.failed + 1, now.0);
            self.planned = Some((now.after(delay), Arc::clone(error)));
        }
    }

    /// What is planned: what went wrong.
    pub(crate) fn planned(&self) -> Option<&Arc<str>> {
        self.planned.as_ref().map(|(_, error)| error)
    }

    /// The resync that is due.
    pub(crate) fn due(&mut self, now: Timestamp) -> Option<HealingResync> {
        if let Some((_, error)) = self.planned.take_if(|(at, _)| *at <= now) {
            return Some(HealingResync::AfterError { error, attempt: self.failed + 1 });
        }
        let at = self.next_periodic.filter(|at| *at <= now)?;
        // Periods that were missed are not made up for.
        let next = |period| if at.after(period) > now { at.after(period) } else { now.after(period) };
        self.next_periodic = self.period.map(next);
        Some(HealingResync::Periodic)
    }

    /// When [`Self::due`] has to be asked next.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.planned.as_ref().map(|(at, _)| *at).into_iter().chain(self.next_periodic).min()
    }

    /// An after-error resync went well.
    pub(crate) fn healed(&mut self) {
        self.failed = 0;
    }

    /// An after-error resync failed.
    pub(crate) fn fail(&mut self) -> AfterFailure {
        self.failed += 1;
        if self.retry.allows(self.failed + 1) { AfterFailure::TryAgain } else { AfterFailure::GiveUp }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healing(attempts: u32) -> Healing {
        let retry = Retry { period: Duration::from_secs(5), count: Some(attempts), ..Retry::default() };
        Healing::new(retry, Some(Duration::from_secs(60)))
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::default().after(Duration::from_secs(seconds))
    }

    #[test]
    fn attempts_are_further_and_further_apart_and_then_it_gives_up() {
        let mut healing = healing(3);
        let mut now = at(0);
        let mut delays = Vec::new();
        loop {
            healing.plan(&"broken".into(), now);
            healing.plan(&"also broken".into(), now);
            let due = healing.deadline().unwrap();
            delays.push(due.since(now).as_secs());
            now = due;
            assert!(
                matches!(healing.due(now), Some(HealingResync::AfterError { error, .. }) if &*error == "broken")
            );
            if healing.fail() == AfterFailure::GiveUp {
                break;
            }
        }
        assert_eq!(delays, [5, 10, 20]);
    }

    #[test]
    fn success_forgets_the_attempts() {
        let mut healing = healing(2);
        assert_eq!(healing.fail(), AfterFailure::TryAgain);
        healing.healed();
        assert_eq!(healing.fail(), AfterFailure::TryAgain);
        assert_eq!(healing.fail(), AfterFailure::GiveUp);
    }

    #[test]
    fn missed_periods_are_not_made_up_for() {
        let mut healing = healing(1);
        healing.start_periodic(at(0));
        assert_eq!(healing.due(at(59)), None);
        assert_eq!(healing.due(at(1000)), Some(HealingResync::Periodic));
        assert_eq!(healing.deadline(), Some(at(1060)));
    }
}
