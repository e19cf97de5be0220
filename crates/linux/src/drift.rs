//! Drift: what is done about what was noticed. Pure and without a clock; time is an argument.
//!
//! Decided here: which items are read again and which are only observed ([`sort`]), and when an item may be healed
//! ([`Healing`]). An item that is changed back by another writer again and again is *contested*: it is not healed until
//! somebody says so, because two writers that flap a network are worse than one that is wrong.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use kilter_model::linux::{Link, LinkKind, NetnsName};
use kilter_scheduler::{
    Item, Key, Observation, Origin, Resync, Scheduler, Timestamp, Transition, Txn, Unmet, ValueRef, span,
};
use serde::{Deserialize, Serialize};

use crate::watch::Noticed;

/// What follows from what was noticed.
#[derive(Clone, Debug, Default)]
pub struct Sorted {
    /// Declared items that are not as they should be: to be read by their keys, and so healed.
    pub drifted: Vec<Key>,
    /// What stands on items that are gone: the kernel takes it along, often without a word. To be read with them.
    pub affected: Vec<Key>,
    /// Items that may or may not be as they should be: events of their namespace were lost, or what was heard does not
    /// tell. To be read by their keys, without counting as drift.
    pub unclear: Vec<Key>,
    /// Items that nobody declared, to be told to the scheduler.
    pub observed: Vec<Observation>,
}

/// Sorts what was noticed by what the scheduler knows.
///
/// An item that is as the scheduler believes is left out: an echo of our own doing, or somebody who put it right.
pub fn sort(scheduler: &Scheduler, noticed: Vec<Noticed>) -> Sorted {
    let mut sorted = Sorted::default();
    let mut drifted = BTreeSet::new();
    let mut observed: BTreeMap<Key, Observation> = BTreeMap::new();
    let mut gone: BTreeSet<Key> = BTreeSet::new();
    let mut unclear: BTreeSet<Key> = BTreeSet::new();
    let mut lost: BTreeSet<NetnsName> = BTreeSet::new();
    for noticed in noticed {
        let observation = match noticed {
            Noticed::Item(observation) => observation,
            Noticed::Overrun { netns } => {
                lost.insert(netns);
                continue;
            }
        };
        let key = &observation.key;
        let item = scheduler.item(key.as_str());
        let is_ours = item.as_ref().is_some_and(|item| item.declared.is_some() || item.base.is_some());
        if is_ours {
            if item.as_ref().is_some_and(|item| is_unclear(scheduler, item, &observation)) {
                unclear.insert(key.clone());
            } else if differs(scheduler, &observation) {
                drifted.insert(key.clone());
                if observation.value.is_none() && is_ground(key.as_str()) {
                    gone.insert(key.clone());
                }
            } else {
                drifted.remove(key);
            }
        } else if observation.origin == kilter_scheduler::Origin::Observed && is_observable(key.as_str()) {
            observed.insert(key.clone(), observation);
        } else if item.is_some() {
            drifted.insert(key.clone());
        }
    }
    if !gone.is_empty() {
        let affected = standing_on(&scheduler.items(), gone);
        sorted.affected = affected.into_iter().filter(|key| !drifted.contains(key)).collect();
    }
    if !lost.is_empty() {
        let is_there = |item: &Item| item.kind.is_some() && lost.contains(&netns_of(item.key.as_str()));
        unclear.extend(scheduler.items().into_iter().filter(is_there).map(|item| item.key));
    }
    sorted.unclear = unclear.into_iter().filter(|key| !drifted.contains(key)).collect();
    sorted.drifted = drifted.into_iter().collect();
    sorted.observed = observed.into_values().collect();
    sorted
}

/// The namespace of an item: the third part of its key.
fn netns_of(key: &str) -> NetnsName {
    NetnsName::new(key.split('/').nth(2).unwrap_or_default())
}

/// Whether what was heard does not tell if an item is as it should be.
///
/// * Of a link that others made only the fields are heard that every link has.
/// * Several rules may have one priority, and a rule of others says nothing about ours.
fn is_unclear(scheduler: &Scheduler, item: &Item, heard: &Observation) -> bool {
    let Some(value) = &heard.value else {
        return is_rule_of_others(item, heard);
    };
    let links =
        value.downcast::<Link>().zip(item.actual.as_ref().and_then(|actual| actual.downcast::<Link>()));
    if let Some((seen, actual)) = links
        && matches!(seen.kind, LinkKind::Foreign { .. })
        && !matches!(actual.kind, LinkKind::Foreign { .. })
    {
        let seen = Link { kind: actual.kind.clone(), ..seen.clone() };
        return !differs(scheduler, &Observation { value: Some(ValueRef::new(seen)), ..heard.clone() });
    }
    is_rule_of_others(item, heard)
}

fn is_rule_of_others(item: &Item, heard: &Observation) -> bool {
    heard.key.as_str().starts_with("linux/rule/")
        && heard.origin == Origin::Observed
        && item.origin != Origin::Observed
}

/// These items with everything that exists and stands on them: the kernel takes that along, often without a word.
pub fn with_what_stands_on(scheduler: &Scheduler, keys: Vec<Key>) -> Vec<Key> {
    let ground: BTreeSet<Key> = keys.iter().filter(|key| is_ground(key.as_str())).cloned().collect();
    if ground.is_empty() {
        return keys;
    }
    let known: BTreeSet<Key> = keys.iter().cloned().collect();
    let affected = standing_on(&scheduler.items(), ground);
    keys.into_iter().chain(affected.into_iter().filter(|key| !known.contains(key))).collect()
}

/// Whether an item that nobody declared is worth knowing: others stand on links, on what is up, on addresses and on what
/// these let reach.
fn is_observable(key: &str) -> bool {
    matches!(key.split('/').nth(1), Some("netns" | "link" | "up" | "port" | "address" | "reach"))
}

/// Whether other things go with an item of this kind.
fn is_ground(key: &str) -> bool {
    is_observable(key)
}

/// Everything that exists and stands on these items, near and far, by key.
fn standing_on(items: &[Item], gone: BTreeSet<Key>) -> Vec<Key> {
    let mut by_key: HashMap<&str, Vec<&Item>> = HashMap::new();
    let mut by_prefix: BTreeMap<&str, Vec<&Item>> = BTreeMap::new();
    for item in items.iter().filter(|item| item.actual.is_some() && item.kind.is_some()) {
        if let Some(base) = &item.base {
            by_key.entry(base.as_str()).or_default().push(item);
        }
        for need in &item.needs {
            match need {
                Unmet::On(key) => by_key.entry(key.as_str()).or_default().push(item),
                Unmet::AnyOf { prefixes, .. } => {
                    prefixes.iter().for_each(|prefix| by_prefix.entry(prefix).or_default().push(item));
                }
                Unmet::Absent(_) => {}
            }
        }
    }
    let lengths: BTreeSet<usize> = by_prefix.keys().map(|prefix| prefix.len()).collect();
    let mut affected: BTreeSet<Key> = BTreeSet::new();
    let mut work: Vec<Key> = gone.into_iter().collect();
    while let Some(key) = work.pop() {
        let text = key.as_str();
        let under = lengths.iter().filter_map(|length| by_prefix.get(text.get(..*length)?));
        for item in by_key.get(text).into_iter().chain(under).flatten() {
            if affected.insert(item.key.clone()) {
                work.push(item.key.clone());
            }
        }
    }
    affected.into_iter().collect()
}

/// Whether what was seen is not what the scheduler believes.
fn differs(scheduler: &Scheduler, observation: &Observation) -> bool {
    let actual = scheduler.item(observation.key.as_str()).and_then(|item| item.actual);
    match (&observation.value, &actual) {
        (None, None) => false,
        (Some(seen), Some(actual)) => {
            let registry = scheduler.registry();
            let transition = registry
                .owner(observation.key.as_str())
                .map(|kind| registry.descriptor(kind).transition(&observation.key, seen, actual));
            transition != Some(Transition::Same)
        }
        (None, Some(_)) | (Some(_), None) => true,
    }
}

impl Sorted {
    /// The transactions that tell the scheduler, with the items that may be healed now.
    pub fn transactions(self, healing: &mut Healing, now: Timestamp) -> Vec<Txn> {
        let mut txns = Vec::new();
        if !self.observed.is_empty() {
            txns.push(Txn::notification(self.observed).described("seen in the kernel"));
        }
        let due = healing.heal_now(self.drifted, self.affected, self.unclear, now);
        if !due.is_empty() {
            txns.push(Txn::resync(Resync::Refresh(due)).described("drift"));
        }
        txns
    }
}

/// How much is healed, and when it is given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// The delay before the second healing of an item; doubled for each further one. Default: 200 ms.
    #[serde(with = "span")]
    pub backoff: Duration,
    /// The longest delay. Default: 30 s.
    #[serde(with = "span")]
    pub backoff_cap: Duration,
    /// How many drifts of an item within `window` make a fight. Default: 5.
    pub fight: usize,
    /// The span in which drifts of an item are counted. Default: 5 min.
    #[serde(with = "span")]
    pub window: Duration,
    /// How many items are healed within `period`, all together. Default: 1000.
    pub budget: usize,
    /// The span of the budget. Default: 10 s.
    #[serde(with = "span")]
    pub period: Duration,
    /// How often declared kernel parameters are read: of most of them the kernel does not tell who changes them. Nought is
    /// never. Default: 10 s.
    #[serde(with = "span")]
    pub sysctl_interval: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            backoff: Duration::from_millis(200),
            backoff_cap: Duration::from_secs(30),
            fight: 5,
            window: Duration::from_secs(300),
            budget: 1000,
            period: Duration::from_secs(10),
            sysctl_interval: Duration::from_secs(10),
        }
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting `{field}` {problem}")]
pub struct SettingsError {
    /// The setting.
    pub field: &'static str,
    /// What is wrong, and what is allowed.
    pub problem: &'static str,
}

impl Settings {
    /// Checks every setting; the error names the first one that cannot be.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let checks = [
            ("backoff-cap", self.backoff_cap < self.backoff, "must not be less than `backoff`"),
            ("fight", self.fight < 2, "must be greater than 1: one drift is no fight"),
            ("budget", self.budget == 0, "must be greater than 0, hint: `kilter pause` stops healing"),
        ];
        match checks.into_iter().find(|(_, wrong, _)| *wrong) {
            Some((field, _, problem)) => Err(SettingsError { field, problem }),
            None => Ok(()),
        }
    }
}

/// What is to be done about an item that drifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Heal it now.
    Heal,
    /// Heal it then: [`Healing::due`] gives it.
    Later(Timestamp),
    /// Another writer fights over it: leave it until it is forgiven.
    Contested,
    /// Healing is paused for it: leave it until it is resumed.
    Paused,
}

/// When items may be healed.
///
/// **Guarantees**: what it says depends only on what it was told, and on the times it was given.
#[derive(Clone, Debug, Default)]
pub struct Healing {
    settings: Settings,
    items: HashMap<Key, Drifts>,
    /// Items to be healed later, by when.
    waiting: BTreeSet<(Timestamp, Key)>,
    /// When items were healed within the period.
    spent: VecDeque<Timestamp>,
    paused: BTreeSet<String>,
}

#[derive(Clone, Debug, Default)]
struct Drifts {
    /// When it drifted, within the window.
    at: VecDeque<Timestamp>,
    contested: bool,
    waits: Option<Timestamp>,
}

impl Healing {
    /// Heals by these settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// An item drifted: what is to be done?
    pub fn drifted(&mut self, key: &Key, now: Timestamp) -> Verdict {
        if self.is_paused(key) {
            return Verdict::Paused;
        }
        let Settings { backoff, backoff_cap, fight, window, .. } = self.settings;
        let drifts = self.items.entry(key.clone()).or_default();
        if drifts.contested {
            return Verdict::Contested;
        }
        if let Some(until) = drifts.waits {
            return Verdict::Later(until);
        }
        while drifts.at.front().is_some_and(|at| now.since(*at) > window) {
            drifts.at.pop_front();
        }
        let earlier = drifts.at.len();
        let last = drifts.at.back().copied();
        drifts.at.push_back(now);
        if drifts.at.len() >= fight.max(1) {
            drifts.contested = true;
            return Verdict::Contested;
        }
        let delay = match earlier {
            0 => Duration::ZERO,
            more => {
                let doubled = 1_u32 << u32::try_from(more - 1).unwrap_or(31).min(31);
                backoff.saturating_mul(doubled).min(backoff_cap)
            }
        };
        let ready = last.map_or(now, |last| last.after(delay)).max(now);
        let affordable = self.budget_from(now);
        self.schedule(key, ready.max(affordable), now)
    }

    /// Of what was sorted, the items that are to be read again now, and so healed.
    pub fn heal_now(
        &mut self,
        drifted: Vec<Key>,
        affected: Vec<Key>,
        unclear: Vec<Key>,
        now: Timestamp,
    ) -> Vec<Key> {
        let mut due: Vec<Key> =
            drifted.into_iter().filter(|key| self.drifted(key, now) == Verdict::Heal).collect();
        if !due.is_empty() {
            due.extend(affected.into_iter().filter(|key| !self.leaves_alone(key)));
        }
        due.extend(unclear.into_iter().filter(|key| !self.leaves_alone(key)));
        due
    }

    /// Whether an item is not healed for the moment, whatever becomes of it: it is paused or contested.
    pub fn leaves_alone(&self, key: &Key) -> bool {
        self.is_paused(key) || self.items.get(key).is_some_and(|drifts| drifts.contested)
    }

    /// The items whose time has come; to be read again, and so healed.
    pub fn due(&mut self, now: Timestamp) -> Vec<Key> {
        let mut due = Vec::new();
        while let Some((at, key)) = self.waiting.first().cloned() {
            let from = self.budget_from(now);
            if at > now || from > now {
                break;
            }
            self.waiting.pop_first();
            if let Some(drifts) = self.items.get_mut(&key) {
                drifts.waits = None;
            }
            if !self.is_paused(&key) {
                self.spent.push_back(now);
                due.push(key);
            }
        }
        due
    }

    /// When something is due next.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.waiting.first().map(|(at, _)| *at)
    }

    /// The items that another writer fights over, by key.
    pub fn contested(&self) -> Vec<Key> {
        let mut keys: Vec<Key> =
            self.items.iter().filter(|(_, drifts)| drifts.contested).map(|(key, _)| key.clone()).collect();
        keys.sort_unstable();
        keys
    }

    /// Forgets what happened to an item: it was declared anew, or somebody settled the fight. It may be healed again.
    pub fn forgive(&mut self, key: &Key) {
        if let Some(drifts) = self.items.remove(key)
            && let Some(at) = drifts.waits
        {
            self.waiting.remove(&(at, key.clone()));
        }
    }

    /// Heals nothing whose key begins like this, until it is resumed.
    pub fn pause(&mut self, prefix: impl Into<String>) {
        self.paused.insert(prefix.into());
    }

    /// Heals again what was paused under this prefix. What drifted meanwhile is found by the next resync.
    pub fn resume(&mut self, prefix: &str) {
        self.paused.remove(prefix);
    }

    /// The prefixes that are paused.
    pub fn paused(&self) -> impl Iterator<Item = &str> {
        self.paused.iter().map(String::as_str)
    }

    fn is_paused(&self, key: &Key) -> bool {
        self.paused.iter().any(|prefix| key.as_str().starts_with(prefix))
    }

    fn schedule(&mut self, key: &Key, at: Timestamp, now: Timestamp) -> Verdict {
        if at <= now {
            self.spent.push_back(now);
            return Verdict::Heal;
        }
        self.waiting.insert((at, key.clone()));
        if let Some(drifts) = self.items.get_mut(key) {
            drifts.waits = Some(at);
        }
        Verdict::Later(at)
    }

    /// From when on the budget allows one more.
    fn budget_from(&mut self, now: Timestamp) -> Timestamp {
        let Settings { budget, period, .. } = self.settings;
        while self.spent.front().is_some_and(|at| now.since(*at) >= period) {
            self.spent.pop_front();
        }
        match self.spent.front() {
            Some(first) if self.spent.len() >= budget.max(1) => first.after(period),
            _ => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::default().after(Duration::from_millis(millis))
    }

    fn key(name: &str) -> Key {
        Key::new(format!("linux/route/host/main/{name}"))
    }

    #[test]
    fn the_first_drift_is_healed_at_once_and_further_ones_later_and_later() {
        let mut healing = Healing::default();
        assert_eq!(healing.drifted(&key("a"), at(0)), Verdict::Heal);
        assert_eq!(healing.drifted(&key("a"), at(10)), Verdict::Later(at(200)));
        assert_eq!(healing.drifted(&key("a"), at(20)), Verdict::Later(at(200)), "it waits already");
        assert_eq!(healing.deadline(), Some(at(200)));
        assert_eq!(healing.due(at(199)), []);
        assert_eq!(healing.due(at(200)), [key("a")]);
        assert_eq!(healing.drifted(&key("a"), at(210)), Verdict::Later(at(410)));
        assert_eq!(healing.drifted(&key("b"), at(220)), Verdict::Heal, "others are not held up");
    }

    #[test]
    fn a_fight_is_given_up_until_it_is_forgiven() {
        let mut healing = Healing::default();
        let mut now = at(0);
        let mut healed = 0;
        loop {
            match healing.drifted(&key("a"), now) {
                Verdict::Heal => healed += 1,
                Verdict::Later(then) => {
                    now = then;
                    healed += healing.due(now).len();
                }
                Verdict::Contested => break,
                Verdict::Paused => panic!("nobody paused it"),
            }
            now = now.after(Duration::from_millis(1));
        }
        assert_eq!(healed, 4);
        assert_eq!(healing.contested(), [key("a")]);
        assert_eq!(healing.drifted(&key("a"), now), Verdict::Contested);
        healing.forgive(&key("a"));
        assert_eq!(healing.contested(), []);
        assert_eq!(healing.drifted(&key("a"), now), Verdict::Heal);
    }

    #[test]
    fn drifts_long_ago_do_not_count() {
        let mut healing = Healing::default();
        for round in 0..20 {
            let now = at(round * 400_000);
            assert_eq!(healing.drifted(&key("a"), now), Verdict::Heal, "{round}");
        }
    }

    #[test]
    fn the_budget_holds_for_all_items_together() {
        let mut healing = Healing::new(Settings { budget: 3, ..Settings::default() });
        let verdicts: Vec<Verdict> =
            ["a", "b", "c", "d"].iter().map(|name| healing.drifted(&key(name), at(0))).collect();
        assert_eq!(verdicts, [Verdict::Heal, Verdict::Heal, Verdict::Heal, Verdict::Later(at(10_000))]);
        assert_eq!(healing.due(at(9_999)), []);
        assert_eq!(healing.due(at(10_000)), [key("d")]);
    }

    #[test]
    fn what_is_paused_is_left_alone() {
        let mut healing = Healing::default();
        healing.pause("linux/route/host/");
        assert_eq!(healing.drifted(&key("a"), at(0)), Verdict::Paused);
        assert_eq!(healing.drifted(&Key::new("linux/up/host/a"), at(0)), Verdict::Heal);
        assert_eq!(healing.paused().collect::<Vec<_>>(), ["linux/route/host/"]);
        healing.resume("linux/route/host/");
        assert_eq!(healing.drifted(&key("a"), at(0)), Verdict::Heal);
    }
}
