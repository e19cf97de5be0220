//! What is remembered, for how long, and what a watcher is told.

use std::collections::BTreeMap;
use std::time::Duration;

use kilter_scheduler::{
    Answer, Change, Changes, Cursor, Key, Limits, Scheduler, Seq, Settings, Stage, State, Status, Timestamp,
    Txn,
};
use kilter_testkit::simulate::{Observer, history, run_observed, script, shrink_while};
use kilter_testkit::{Attrs, Dice, World, kinds};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(1_000_000);

/// A scheduler whose operations always succeed.
struct House {
    scheduler: Scheduler,
    now: Timestamp,
    lived: u32,
}

impl House {
    fn new(history: Limits) -> Self {
        let mut scheduler = Scheduler::new(Settings { history, ..Settings::default() });
        World::default().register(&mut scheduler, kinds::KINDS).expect("the test kinds do not overlap");
        Self { scheduler, now: Timestamp(1), lived: 0 }
    }

    fn apply(&mut self, changes: Vec<Change>) -> Seq {
        let seq = self.scheduler.begin(Txn::changes(changes), self.now);
        self.scheduler.execute();
        while let Some(operation) = self.scheduler.next() {
            self.scheduler.answer(operation.id, Answer::done(), self.now);
        }
        assert_eq!(self.scheduler.stage(), Stage::Ended);
        self.scheduler.finish(self.now);
        seq
    }

    fn put(&mut self, key: &str, attrs: &str) -> Seq {
        self.apply(vec![Change::put(key, Attrs::parse(attrs).expect("names and texts").to_value())])
    }

    fn remove(&mut self, key: &str) -> Seq {
        self.apply(vec![Change::remove(key)])
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now.after(span);
    }

    /// One transaction a second, all of one weight but for the first.
    fn live(&mut self, transactions: u32) {
        for _ in 0..transactions {
            self.pass(SECOND);
            self.lived += 1;
            self.put("a/one", &format!("v={:05}", self.lived));
        }
    }

    fn remembered(&self) -> Vec<Seq> {
        self.scheduler.history().iter().map(|record| record.seq).collect()
    }
}

/// Bounds that nothing reaches, without a permanent beginning.
fn roomy() -> Limits {
    Limits { age: LONG, count: usize::MAX, bytes: usize::MAX, permanent: Duration::ZERO }
}

/// What one transaction of `House::live` weighs.
fn weight_of_one() -> usize {
    let mut house = House::new(roomy());
    house.live(2);
    house.scheduler.history().iter().next_back().expect("something happened").weight()
}

#[test]
fn record_past_its_age_is_dropped() {
    let mut house = House::new(Limits { age: 10 * SECOND, ..roomy() });
    house.live(100);
    assert_eq!(house.remembered(), (90..=100).collect::<Vec<_>>());
    assert_eq!(house.scheduler.history().complete_since(), 90);
}

#[test]
fn count_of_records_is_bounded() {
    let mut house = House::new(Limits { count: 10, ..roomy() });
    house.live(100);
    assert_eq!(house.remembered(), (91..=100).collect::<Vec<_>>());
}

#[test]
fn bytes_of_records_are_bounded() {
    let bytes = 10 * weight_of_one() + weight_of_one() / 2;
    let mut house = House::new(Limits { bytes, ..roomy() });
    for _ in 0..100 {
        house.live(1);
        let history = house.scheduler.history();
        assert!(history.bytes() <= bytes);
        assert_eq!(history.bytes(), history.iter().map(|record| record.weight()).sum::<usize>());
    }
    assert_eq!(house.remembered(), (91..=100).collect::<Vec<_>>());
}

#[test]
fn large_value_weighs_what_it_holds_also_when_it_leaves() {
    let mut house = House::new(roomy());
    house.put("a/one", &format!("v={}", "x".repeat(100_000)));
    house.remove("a/one");
    for record in house.scheduler.history().iter() {
        assert!((100_000..500_000).contains(&record.weight()), "#{} weighs {}", record.seq, record.weight());
    }
}

#[test]
fn beginning_outlives_its_age() {
    let mut house = House::new(Limits { age: 10 * SECOND, permanent: 5 * SECOND, ..roomy() });
    house.live(100);
    assert_eq!(house.remembered(), (1..=5).chain(90..=100).collect::<Vec<_>>());
    assert_eq!(house.scheduler.history().complete_since(), 90);
}

#[test]
fn beginning_and_the_rest_are_one_piece_until_something_is_dropped() {
    let mut house = House::new(Limits { permanent: 5 * SECOND, age: 10 * SECOND, ..roomy() });
    house.live(12);
    assert_eq!(house.scheduler.history().complete_since(), 1);
    house.live(10);
    assert!(house.scheduler.history().complete_since() > 5);
}

#[test]
fn beginning_takes_at_most_half_of_the_count() {
    let mut house = House::new(Limits { count: 10, permanent: LONG, ..roomy() });
    house.live(100);
    assert_eq!(house.remembered(), (1..=5).chain(96..=100).collect::<Vec<_>>());
}

#[test]
fn beginning_takes_at_most_half_of_the_bytes() {
    let bytes = 10 * weight_of_one() + weight_of_one() / 2;
    let mut house = House::new(Limits { bytes, permanent: LONG, ..roomy() });
    house.live(100);
    assert!(house.scheduler.history().bytes() <= bytes);
    let remembered = house.remembered();
    assert_eq!(remembered[..5], [1, 2, 3, 4, 5]);
    assert_eq!(remembered[5..], [96, 97, 98, 99, 100]);
}

#[test]
fn newest_record_stays_whatever_its_age_and_weight() {
    let mut house = House::new(Limits { age: Duration::ZERO, bytes: 1, count: 1, permanent: LONG });
    house.live(3);
    house.put("a/one", &format!("v={}", "x".repeat(1 << 20)));
    assert_eq!(house.remembered(), [4]);
    house.pass(LONG);
    house.live(1);
    assert_eq!(house.remembered(), [5]);
}

#[test]
fn history_may_be_switched_off() {
    let mut house = House::new(Limits::nothing());
    house.live(3);
    assert!(house.scheduler.history().is_empty());
    assert_eq!(house.scheduler.history().bytes(), 0);
    assert_eq!(house.scheduler.history().newest(), 3);
}

/// Resident memory in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux tells it");
    line.trim().trim_end_matches(" kB").parse().expect("Linux tells it in kB")
}

#[test]
fn memory_does_not_grow_with_the_number_of_transactions() {
    let limits = Limits { age: LONG, count: 100_000, bytes: 1 << 20, permanent: Duration::from_secs(60) };
    let mut house = House::new(limits.clone());
    let mut early = (0, 0);
    for number in 0..100_000 {
        house.pass(SECOND);
        // Keys never come back, and values are replaced before they leave.
        let key = format!("a/{}", number / 4);
        match number % 4 {
            0 => house.put(&key, "v=1 item=x on=b/none"),
            1 => house.put(&key, "v=2 item=x:1 item=y prop=p"),
            2 => house.put(&key, "v=3 fixed=1 invalid=field"),
            _ => house.remove(&key),
        };
        assert!(house.scheduler.history().bytes() <= limits.bytes);
        if number == 20_000 {
            early = (resident(), house.scheduler.history().len());
        }
    }
    let (resident_early, records_early) = early;
    assert!(house.scheduler.history().len() < records_early + records_early / 10);
    assert_eq!(house.scheduler.vertex_count(), 0);
    // Remembering the other 80 000 would take more than 60 MiB.
    let growth = resident().saturating_sub(resident_early);
    assert!(growth < 16 * 1024, "{growth} KiB more than after 20 000 transactions");
}

/// Somebody who looks now and then, and believes what it is told.
#[derive(Default)]
struct Watcher {
    cursor: Option<Cursor>,
    known: BTreeMap<Key, Status>,
}

impl Watcher {
    /// Looks; the keys it is told of, and whether it was a snapshot.
    fn look(&mut self, scheduler: &Scheduler) -> (Vec<String>, bool) {
        let (changes, cursor) = scheduler.watch(self.cursor);
        self.cursor = Some(cursor);
        let (statuses, snapshot) = match changes {
            Changes::Snapshot(statuses) => {
                self.known.clear();
                (statuses, true)
            }
            Changes::Changed(statuses) => (statuses, false),
        };
        let keys = statuses.iter().map(|status| status.key.to_string()).collect();
        for status in statuses {
            if status.state == State::Nonexistent {
                self.known.remove(&status.key);
            } else {
                self.known.insert(status.key.clone(), status);
            }
        }
        (keys, snapshot)
    }

    /// Whether it knows how everything stands.
    fn knows(&self, scheduler: &Scheduler) -> Result<(), String> {
        let known: Vec<&Status> = self.known.values().collect();
        let real = scheduler.statuses("");
        if known.iter().copied().eq(&real) {
            return Ok(());
        }
        let wrong = real.iter().find(|status| self.known.get(&status.key) != Some(*status));
        match wrong {
            Some(status) => {
                Err(format!("watch: told {:?}\nand it is {status:?}", self.known.get(&status.key)))
            }
            None => Err("watch: told of an item that is gone".to_owned()),
        }
    }
}

fn keys(list: &[&str]) -> Vec<String> {
    list.iter().map(|key| (*key).to_owned()).collect()
}

#[test]
fn watch_starts_with_a_snapshot_and_goes_on_with_changes() {
    let mut house = House::new(Limits::default());
    house.put("a/one", "v=1");
    house.put("a/two", "v=1 on=b/none");
    let mut watcher = Watcher::default();
    assert_eq!(watcher.look(&house.scheduler), (keys(&["a/one", "a/two"]), true));
    assert_eq!(watcher.look(&house.scheduler), (keys(&[]), false));
    house.put("a/one", "v=2");
    house.put("a/one", "v=3");
    house.put("b/none", "");
    assert_eq!(watcher.look(&house.scheduler), (keys(&["a/one", "a/two", "b/none"]), false));
    assert_eq!(watcher.known[&Key::new("a/two")].state, State::Configured);
    house.remove("a/one");
    assert_eq!(watcher.look(&house.scheduler), (keys(&["a/one"]), false));
    assert_eq!(watcher.knows(&house.scheduler), Ok(()));
}

#[test]
fn watch_of_an_empty_scheduler_starts_with_an_empty_snapshot() {
    let mut house = House::new(Limits::default());
    let mut watcher = Watcher::default();
    assert_eq!(watcher.look(&house.scheduler), (keys(&[]), true));
    house.put("a/one", "v=1");
    assert_eq!(watcher.look(&house.scheduler), (keys(&["a/one"]), false));
}

#[test]
fn change_of_a_derived_item_is_told_with_its_base() {
    let mut house = House::new(Limits::default());
    house.put("tap/one", "address=10.0.0.1 address=10.0.0.2");
    let mut watcher = Watcher::default();
    watcher.look(&house.scheduler);
    house.put("tap/one", "address=10.0.0.1 address=10.0.0.2 address=10.0.0.3");
    assert_eq!(watcher.look(&house.scheduler), (keys(&["tap/one"]), false));
    assert_eq!(watcher.known[&Key::new("tap/one")].derived.len(), 3);
}

#[test]
fn derived_item_that_left_is_told_with_its_base() {
    let mut house = House::new(Limits::default());
    house.put("tap/one", "address=10.0.0.1 address=10.0.0.2");
    let mut watcher = Watcher::default();
    watcher.look(&house.scheduler);
    house.put("tap/one", "address=10.0.0.1");
    assert_eq!(watcher.look(&house.scheduler), (keys(&["tap/one"]), false));
    assert_eq!(watcher.known[&Key::new("tap/one")].derived.len(), 1);
}

#[test]
fn watcher_that_was_away_too_long_gets_a_snapshot_again() {
    let mut house = House::new(Limits { count: 10, ..roomy() });
    house.live(20);
    let mut watcher = Watcher::default();
    watcher.look(&house.scheduler);
    house.remove("a/one");
    house.put("a/two", "");
    for _ in 0..8 {
        house.put("a/three", "");
    }
    assert_eq!(watcher.look(&house.scheduler), (keys(&["a/one", "a/three", "a/two"]), false));
    house.remove("a/two");
    for _ in 0..10 {
        house.put("a/three", "");
    }
    assert_eq!(watcher.look(&house.scheduler), (keys(&["a/three"]), true));
    assert_eq!(watcher.knows(&house.scheduler), Ok(()));
}

#[test]
fn watcher_from_the_beginning_gets_a_snapshot_when_the_middle_is_forgotten() {
    let mut house = House::new(Limits { count: 10, permanent: LONG, ..roomy() });
    house.put("a/gone", "");
    let mut watcher = Watcher::default();
    watcher.look(&house.scheduler);
    house.live(9);
    house.remove("a/gone");
    house.live(20);
    assert!(house.scheduler.history().get(2).is_some(), "the beginning is remembered");
    assert_eq!(watcher.look(&house.scheduler), (keys(&["a/one"]), true));
    assert_eq!(watcher.knows(&house.scheduler), Ok(()));
}

#[test]
fn watcher_of_a_scheduler_without_a_history_gets_snapshots() {
    let mut house = House::new(Limits::nothing());
    let mut watcher = Watcher::default();
    watcher.look(&house.scheduler);
    house.put("a/one", "");
    assert_eq!(watcher.look(&house.scheduler), (keys(&["a/one"]), true));
    assert_eq!(watcher.look(&house.scheduler), (keys(&[]), false), "nothing happened since");
    house.remove("a/one");
    assert_eq!(watcher.look(&house.scheduler), (keys(&[]), true));
    assert_eq!(watcher.knows(&house.scheduler), Ok(()));
}

#[test]
fn watcher_of_another_scheduler_gets_a_snapshot() {
    let mut house = House::new(Limits::default());
    house.live(5);
    let mut watcher = Watcher::default();
    watcher.look(&house.scheduler);
    let mut fresh = House::new(Limits::default());
    fresh.put("a/two", "");
    assert_eq!(watcher.look(&fresh.scheduler), (keys(&["a/two"]), true));
}

/// Looks after some transactions, and fails when it is wrong about anything.
fn doubting_watcher(seed: u64) -> Option<Observer> {
    let (mut watcher, mut dice) = (Watcher::default(), Dice::new(seed));
    Some(Box::new(move |scheduler, record| {
        if record.seq == 1 {
            watcher = Watcher::default();
        }
        if dice.one_in(2) {
            return Ok(());
        }
        watcher.look(scheduler);
        watcher.knows(scheduler)
    }))
}

#[test]
fn watcher_misses_nothing() {
    for seed in 0..1_000 {
        let misses = |commands: &[_]| {
            run_observed(commands, doubting_watcher(seed))
                .err()
                .filter(|broken| broken.what.starts_with("watch: "))
        };
        let commands = history(seed);
        if misses(&commands).is_some() {
            let short = shrink_while(commands, |commands| misses(commands).is_some());
            let broken = misses(&short).unwrap();
            panic!("seed {seed}: {}\nafter line {} of\n\n{}", broken.what, broken.after + 1, script(&short));
        }
    }
}
