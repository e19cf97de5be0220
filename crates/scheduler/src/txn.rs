//! Transactions: what is asked of the scheduler, as a value.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::state::{Origin, Seq};
use crate::value::{Facts, ValueRef};

/// What is asked of one item: `put` a value, or `remove` it.
#[derive(Clone, Debug)]
pub struct Change {
    /// The item.
    pub key: Key,
    /// The declared value; `None` removes.
    pub value: Option<ValueRef>,
    /// What users attach to the item; opaque to scheduling.
    pub labels: Option<Arc<Labels>>,
}

/// Labels that users attach to an item.
pub type Labels = std::collections::BTreeMap<String, String>;

impl Change {
    /// Declares a value.
    pub fn put(key: impl Into<Key>, value: ValueRef) -> Self {
        Self { key: key.into(), value: Some(value), labels: None }
    }

    /// Removes the declaration.
    pub fn remove(key: impl Into<Key>) -> Self {
        Self { key: key.into(), value: None, labels: None }
    }
}

/// What was seen of one item that nobody declared.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The item.
    pub key: Key,
    /// What it is; `None` means it is gone.
    pub value: Option<ValueRef>,
    /// What the observation teaches.
    pub facts: Option<Facts>,
    /// Whose it is: what carries our mark confirms an operation that waits for it, anything else is foreign.
    pub origin: Origin,
}

/// What happens after the first failure of one of the transaction's own items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// Best effort: go on with everything that does not depend on it.
    #[default]
    Continue,
    /// All or nothing: go back to where the transaction started.
    Revert,
}

/// When failed items are tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The delay before the first attempt.
    pub period: Duration,
    /// How many attempts are made; `None` is unlimited.
    pub count: Option<u32>,
    /// Doubles the delay after each attempt, up to this cap; `None` keeps the period.
    pub backoff_cap: Option<Duration>,
    /// How much longer each delay may be.
    pub jitter: Jitter,
}

/// How much longer delays may be, so that what failed at the same moment is not tried again at the same moment.
///
/// **Why** a seed: the caller throws the dice once, and the scheduler stays deterministic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jitter {
    /// The most by which a delay is longer, in hundredths of it. Default: 0.
    pub percent: u8,
    /// What decides by how much: another one for each program.
    pub seed: u64,
}

impl Jitter {
    /// By how much a delay is longer; as good as random, and the same for the same seed and occasion.
    fn of(self, delay: Duration, occasion: u64) -> Duration {
        let mut mixed = self.seed.wrapping_add(occasion.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = u32::try_from((mixed ^ (mixed >> 31)) >> 48).unwrap_or(u32::MAX);
        delay.saturating_mul(u32::from(self.percent)) / 100 / 65_536 * share
    }
}

impl Default for Retry {
    /// One second, three attempts, doubling up to a minute.
    fn default() -> Self {
        Self {
            period: Duration::from_secs(1),
            count: Some(3),
            backoff_cap: Some(Duration::from_secs(60)),
            jitter: Jitter::default(),
        }
    }
}

impl Retry {
    /// The delay before this attempt (the first is 1); the occasion tells attempts of the same number apart.
    pub fn delay(&self, attempt: u32, occasion: u64) -> Duration {
        let delay = match self.backoff_cap {
            None => self.period,
            Some(cap) => self
                .period
                .saturating_mul(1_u32 << attempt.saturating_sub(1).min(31))
                .min(cap.max(self.period)),
        };
        delay.saturating_add(self.jitter.of(delay, occasion))
    }

    /// Whether this attempt (the first is 1) is still allowed.
    pub fn allows(&self, attempt: u32) -> bool {
        self.count.is_none_or(|count| attempt <= count)
    }
}

/// What a full or upstream resync makes of items that carry our mark and that nobody declares: an earlier agent made
/// them, and what it was told may be lost.
///
/// What was declared to this very scheduler and is not named by the resync is removed in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Undeclared {
    /// They are removed.
    #[default]
    Remove,
    /// They are left alone, as `DISCOVERED`.
    Keep,
    /// Those of them that are named here, or derived from one that is, are removed; the others are left alone.
    RemoveOnly(Arc<BTreeSet<Key>>),
}

impl Undeclared {
    /// Whether an item is removed, or one derived from this base.
    pub(crate) fn removes(&self, key: &Key, base: Option<&Key>) -> bool {
        match self {
            Self::Remove => true,
            Self::Keep => false,
            Self::RemoveOnly(keys) => keys.contains(key) || base.is_some_and(|base| keys.contains(base)),
        }
    }
}

/// What is recomputed and re-read.
#[derive(Clone, Debug)]
pub enum Resync {
    /// The declared state is replaced by these items and the actual state is re-read.
    Full(Vec<Change>),
    /// The declared state is replaced by these items; the remembered actual state is trusted.
    Upstream(Vec<Change>),
    /// The actual state is re-read; the declared state is trusted.
    Downstream,
    /// Like downstream, for these items only: each is read by its key.
    Refresh(Vec<Key>),
}

/// A retry that is due: which items, and as of which declaration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryOrder {
    /// The transaction whose failures are retried.
    pub of: Seq,
    /// Which attempt it is; the first is 1.
    pub attempt: u32,
    /// The base items, each with the transaction that last declared it. A newer declaration wins.
    pub items: Vec<(Key, Seq)>,
}

/// What a transaction asks.
#[derive(Clone, Debug)]
pub enum Request {
    /// Declares and removes items.
    Changes {
        /// The changes; the last one of a key wins.
        changes: Vec<Change>,
        /// What happens after a failure.
        on_failure: OnFailure,
    },
    /// Recomputes and re-reads.
    Resync(Resync),
    /// Tells what was seen of items that nobody declared, and confirms operations that wait for it.
    Notification(Vec<Observation>),
    /// Tries failed items again.
    Retry(RetryOrder),
    /// Makes items real whose kind has been registered since.
    LateKind,
    /// Gives up waiting for the confirmation of these items.
    Overdue(Vec<Key>),
}

/// Changes applied together.
#[derive(Clone, Debug)]
pub struct Txn {
    /// What is asked.
    pub request: Request,
    /// Who asks, and why; for people.
    pub description: String,
    /// Whether and when failed items are tried again: those that this declares, or all that a downstream resync fails to
    /// mend. Without it, a downstream resync leaves each item the retry it was declared with.
    pub retry: Option<Retry>,
    /// What a resync makes of items of ours that nobody declares.
    pub undeclared: Undeclared,
}

impl Txn {
    /// A transaction over a request.
    pub fn new(request: Request) -> Self {
        Self { request, description: String::new(), retry: None, undeclared: Undeclared::default() }
    }

    /// Declares and removes items, best effort.
    pub fn changes(changes: Vec<Change>) -> Self {
        Self::new(Request::Changes { changes, on_failure: OnFailure::Continue })
    }

    /// Declares and removes items, all or nothing.
    pub fn all_or_nothing(changes: Vec<Change>) -> Self {
        Self::new(Request::Changes { changes, on_failure: OnFailure::Revert })
    }

    /// Recomputes and re-reads.
    pub fn resync(resync: Resync) -> Self {
        Self::new(Request::Resync(resync))
    }

    /// Tells what was seen.
    pub fn notification(seen: Vec<Observation>) -> Self {
        Self::new(Request::Notification(seen))
    }

    /// Retries failed items.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Says what a resync makes of items of ours that nobody declares.
    #[must_use]
    pub fn with_undeclared(mut self, undeclared: Undeclared) -> Self {
        self.undeclared = undeclared;
        self
    }

    /// Describes the transaction.
    #[must_use]
    pub fn described(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jitter_makes_delays_longer_by_its_share_at_most_and_each_occasion_differently() {
        let retry = Retry { jitter: Jitter { percent: 20, seed: 7 }, ..Retry::default() };
        let delays: Vec<Duration> = (0..1000).map(|occasion| retry.delay(5, occasion)).collect();
        let (least, most) = (Duration::from_secs(16), Duration::from_millis(19_200));
        assert!(delays.iter().all(|delay| (least..=most).contains(delay)));
        let in_tenth = |tenth: u32| {
            let bounds = least + (most - least) * tenth / 10..least + (most - least) * (tenth + 1) / 10;
            delays.iter().filter(|delay| bounds.contains(delay)).count()
        };
        assert!((0..10).map(in_tenth).all(|count| count > 50), "they are spread");
        assert_eq!(delays[3], retry.delay(5, 3), "the same dice fall in the same way");
        let other = Retry { jitter: Jitter { percent: 20, seed: 8 }, ..Retry::default() };
        assert_ne!(delays[3], other.delay(5, 3));
        assert_eq!(Retry::default().delay(5, 3), least);
    }
}
