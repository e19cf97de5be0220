//! How long things took since the agent began, added up by what was done.
//!
//! Decided here: which things are timed: the parts of a transaction, and every operation by kind. Not decided here: how that
//! is told. **Why** not each call into the graph: that would take longer than the calls.

use std::collections::BTreeMap;
use std::time::Duration;

use kilter_southbound::Finished;

/// How often something was done, and how long that took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How often.
    pub count: u32,
    /// Altogether.
    pub total: Duration,
    /// The shortest time.
    pub min: Duration,
    /// The longest time.
    pub max: Duration,
}

impl Timing {
    /// How long it took on average.
    pub fn average(&self) -> Duration {
        self.total.checked_div(self.count).unwrap_or_default()
    }

    fn add(&mut self, took: Duration) {
        self.count = self.count.saturating_add(1);
        self.total += took;
        (self.min, self.max) = (self.min.min(took), self.max.max(took));
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self { count: 0, total: Duration::ZERO, min: Duration::MAX, max: Duration::ZERO }
    }
}

/// Timings by the name of what was done.
pub type Timed = BTreeMap<&'static str, Timing>;

/// Everything that is timed.
#[derive(Clone, Debug, Default)]
pub struct Timings {
    /// The parts of transactions: `plan`, `execute`, `keep`, and `commit` for the whole.
    pub transactions: Timed,
    /// Operations by kind, and by what was done.
    pub kinds: BTreeMap<String, Timed>,
}

impl Timings {
    /// A part of a transaction has ended.
    pub(crate) fn part(&mut self, name: &'static str, took: Duration) {
        self.transactions.entry(name).or_default().add(took);
    }

    /// An operation was answered.
    pub(crate) fn finished(&mut self, operation: &Finished<'_>) {
        let (kind, action) = (operation.kind, operation.action.name());
        if !self.kinds.contains_key(kind) {
            self.kinds.insert(kind.to_owned(), Timed::new());
        }
        if let Some(timed) = self.kinds.get_mut(kind) {
            timed.entry(action).or_default().add(operation.took);
        }
    }

    /// Operations of all kinds, by what was done.
    pub fn operations(&self) -> Timed {
        let mut all = Timed::new();
        for (action, timing) in self.kinds.values().flatten() {
            let sum = all.entry(action).or_default();
            sum.count = sum.count.saturating_add(timing.count);
            sum.total += timing.total;
            (sum.min, sum.max) = (sum.min.min(timing.min), sum.max.max(timing.max));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_added_up_with_the_shortest_and_the_longest() {
        let mut timings = Timings::default();
        for millis in [2, 1, 6] {
            timings.part("plan", Duration::from_millis(millis));
        }
        let plan = timings.transactions["plan"];
        assert_eq!((plan.count, plan.total), (3, Duration::from_millis(9)));
        assert_eq!((plan.min, plan.max), (Duration::from_millis(1), Duration::from_millis(6)));
        assert_eq!(plan.average(), Duration::from_millis(3));
        assert_eq!(Timing::default().average(), Duration::ZERO);
    }
}
