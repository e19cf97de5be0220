//! Patience: when something that the cluster rejected is tried again, by the class of the rejection.
//!
//! Decided here: that who may not, or is contested, asks once in a minute, and who was told to wait waits that long; what
//! is left is tried again ever more slowly. One pace for all: the scheduler plans the retries of items by it, and what comes
//! earlier than it may is answered here, without a request ([`Rests`]); statuses and orders wait by it ([`Waits`]).

use std::collections::BTreeMap;
use std::time::Duration;

use kilter_scheduler::{Jitter, Key, Retry, Timestamp};

use crate::object::Id;
use crate::request::{Class, Rejected};

/// The pause after a rejection that somebody else has to do something about, and the longest of all pauses that we choose.
pub(crate) const SLOW: Duration = Duration::from_secs(60);

/// The first pause after a rejection that may pass by itself.
const FIRST: Duration = Duration::from_secs(1);

/// How long the cluster, or somebody who looks after it, is left alone after a rejection; `None` if nothing but the pace of
/// retries says so.
pub(crate) fn pause(rejected: &Rejected) -> Option<Duration> {
    match rejected.class() {
        Class::Unauthorised | Class::Contested => Some(SLOW),
        Class::Throttled => rejected.retry_after,
        Class::Conflict
        | Class::Missing
        | Class::NotInstalled
        | Class::Terminating
        | Class::Invalid
        | Class::Transient => None,
    }
}

/// The pace at which whatever failed is tried again: for ever, because whoever has to change something may take days; ever
/// more slowly; and what failed together, when the cluster did, does not come back together.
pub(crate) fn pace(seed: u64) -> Retry {
    Retry { period: FIRST, count: None, backoff_cap: Some(SLOW), jitter: Jitter { percent: 25, seed } }
}

/// Something that could not be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// When it is tried again.
    pub(crate) due: Timestamp,
    /// Whether it waits for that even if there is something new about it.
    pub(crate) is_firm: bool,
    attempts: u32,
    word: &'static str,
}

/// What could not be done, and when it is tried again.
#[derive(Debug)]
pub(crate) struct Waits<K> {
    pace: Retry,
    /// Tells attempts of the same number apart.
    occasions: u64,
    all: BTreeMap<K, Wait>,
}

impl<K: Ord> Waits<K> {
    /// Nothing waits. The seed decides by how much retries are later than they have to be.
    pub(crate) fn new(seed: u64) -> Self {
        Self { pace: pace(seed), occasions: 0, all: BTreeMap::new() }
    }

    /// Takes note of a failure of the sort that `word` names, after which somebody asks for a pause, or nobody does;
    /// whether the last failure was of another sort.
    pub(crate) fn note(
        &mut self,
        what: K,
        word: &'static str,
        asked: Option<Duration>,
        now: Timestamp,
    ) -> bool {
        let before = self.all.remove(&what);
        let attempts = before.map_or(0, |it| it.attempts).saturating_add(1);
        self.occasions += 1;
        let pace = asked.map_or(self.pace, |period| Retry { period, backoff_cap: None, ..self.pace });
        let due = now.after(pace.delay(attempts, self.occasions));
        self.all.insert(what, Wait { due, is_firm: asked.is_some(), attempts, word });
        before.is_none_or(|before| before.word != word)
    }

    /// Takes note of a rejection; whether the last one was of another class.
    pub(crate) fn reject(&mut self, what: K, rejected: &Rejected, now: Timestamp) -> bool {
        self.note(what, rejected.class().name(), pause(rejected), now)
    }

    /// It went well, or nobody wants it any more.
    pub(crate) fn forget(&mut self, what: &K) {
        self.all.remove(what);
    }

    /// How something waits.
    pub(crate) fn get(&self, what: &K) -> Option<Wait> {
        self.all.get(what).copied()
    }

    /// Everything whose turn has come again.
    pub(crate) fn ripe(&self, now: Timestamp) -> impl Iterator<Item = &K> {
        self.all.iter().filter(move |(_, it)| it.due <= now).map(|(what, _)| what)
    }

    /// Keeps what has to wait yet, and of the rest what is wanted.
    pub(crate) fn retain(&mut self, now: Timestamp, is_wanted: impl Fn(&K) -> bool) {
        self.all.retain(|what, it| it.due > now || is_wanted(what));
    }

    /// When the first of them is tried again.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.all.values().map(|it| it.due).min()
    }
}

/// The items that are not to be tried for a while, each with why.
#[derive(Debug, Default)]
pub(crate) struct Rests(BTreeMap<Key, (Timestamp, Id, Rejected)>);

impl Rests {
    /// Why an item is not to be tried yet.
    pub(crate) fn why(&self, key: &Key, now: Timestamp) -> Option<(Id, Rejected)> {
        let (_, id, rejected) = self.0.get(key).filter(|(until, ..)| now < *until)?;
        Some((id.clone(), rejected.clone()))
    }

    /// Takes note of a rejection; whether it is one of another class than the last one of the item.
    pub(crate) fn note(&mut self, key: &Key, id: &Id, rejected: &Rejected, now: Timestamp) -> bool {
        let Some(pause) = pause(rejected) else {
            self.0.remove(key);
            return false;
        };
        let before = self.0.insert(key.clone(), (now.after(pause), id.clone(), rejected.clone()));
        before.is_none_or(|(_, _, before)| before.class() != rejected.class())
    }

    /// The item went well.
    pub(crate) fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Resource;

    #[test]
    fn who_may_not_asks_once_in_a_minute_and_is_told_of_once() {
        let (mut rests, now) = (Rests::default(), Timestamp::default());
        let (key, id) = (Key::from("eventflow/policy/shop"), Id::new(Resource::Policy, "shop", "p"));
        let rejected = Rejected { code: 403, reason: "Forbidden".to_owned(), ..Rejected::default() };
        assert!(rests.note(&key, &id, &rejected, now), "it is news");
        assert!(rests.why(&key, now.after(SLOW / 2)).is_some());
        assert!(rests.why(&key, now.after(SLOW)).is_none());
        assert!(!rests.note(&key, &id, &rejected, now.after(SLOW)), "it is none any more");
        rests.forget(&key);
        assert!(rests.why(&key, now.after(SLOW)).is_none());
    }

    /// How long something waits after each of so many rejections, one after another.
    fn pauses(rejected: &Rejected, count: usize) -> Vec<Duration> {
        let (mut waits, mut now) = (Waits::new(7), Timestamp::default());
        let mut pauses = Vec::new();
        for _ in 0..count {
            waits.reject("i", rejected, now);
            let due = waits.due().unwrap();
            pauses.push(due.since(now));
            now = due;
        }
        pauses
    }

    #[test]
    fn what_may_pass_by_itself_is_tried_ever_more_slowly_up_to_a_minute() {
        let rejected = Rejected { code: 503, ..Rejected::default() };
        for (at, pause) in pauses(&rejected, 9).into_iter().enumerate() {
            let least = (FIRST * (1 << at)).min(SLOW);
            assert!((least..=least + least / 4).contains(&pause), "{at}: {pause:?}");
        }
    }

    #[test]
    fn a_pause_that_is_asked_for_is_kept_and_each_waits_for_another_time() {
        let rejected = |code, after: Option<u64>| Rejected {
            code,
            retry_after: after.map(Duration::from_secs),
            ..Rejected::default()
        };
        for (rejected, least) in [(rejected(403, None), 60), (rejected(429, Some(120)), 120)] {
            let least = Duration::from_secs(least);
            assert!(pauses(&rejected, 3).iter().all(|it| (least..=least + least / 4).contains(it)));
        }
        let (mut waits, now) = (Waits::new(7), Timestamp::default());
        for what in ["i", "j"] {
            assert!(waits.reject(what, &rejected(403, None), now), "it is news");
            assert!(waits.get(&what).unwrap().is_firm);
        }
        assert_ne!(waits.get(&"i").unwrap().due, waits.get(&"j").unwrap().due);
        assert!(!waits.reject("i", &rejected(403, None), now), "it is none any more");
        assert!(waits.reject("i", &rejected(503, None), now) && !waits.get(&"i").unwrap().is_firm);
        waits.forget(&"i");
        waits.retain(now.after(SLOW * 2), |_| false);
        assert_eq!(waits.due(), None);
    }
}
