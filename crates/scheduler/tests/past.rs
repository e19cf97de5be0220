//! The past: what is told of it from the records is what was.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kilter_scheduler::{
    Answer, Change, Item, Key, Limits, Record, Scheduler, Seq, Settings, State, Timestamp, Txn, Unmet,
    ValueRef,
};
use kilter_testkit::simulate::{Observer, history, run_observed, script, shrink_while};
use kilter_testkit::{Attrs, World, kinds};

/// How many random histories are looked at.
const HISTORIES: u64 = 1_500;

type Seen = BTreeMap<Key, (State, Option<ValueRef>)>;

fn seen(items: Vec<Item>) -> Seen {
    items.into_iter().map(|item| (item.key, (item.state, item.actual.or(item.declared)))).collect()
}

fn told(scheduler: &Scheduler, seq: Seq) -> Option<Seen> {
    let past = scheduler.items_at(seq)?;
    Some(past.into_iter().map(|(key, item)| (key, (item.state, item.value))).collect())
}

/// Keeps a copy of the items after each transaction, and compares it with the past as it is told later.
fn chronicle() -> Observer {
    let mut copies: Vec<(Seq, Seen)> = Vec::new();
    Box::new(move |scheduler, record| {
        if record.seq == 1 {
            // A fresh scheduler has a history of its own.
            copies = vec![(0, Seen::new())];
        }
        copies.push((record.seq, seen(scheduler.items())));
        for (seq, copy) in &copies {
            let told = told(scheduler, *seq).ok_or("the history does not reach back")?;
            let differs = |key: &&Key| copy.get(*key) != told.get(*key);
            if let Some(key) = copy.keys().chain(told.keys()).find(differs) {
                let (was, told, now) = (copy.get(key), told.get(key), record.seq);
                return Err(format!("told: after #{now}, `{key}` at #{seq} is {told:?} and was {was:?}"));
            }
        }
        Ok(())
    })
}

/// What items needed, and what of it was missing.
type Needed = BTreeMap<Key, (BTreeSet<String>, BTreeSet<String>)>;

/// Of items whose value is the one that counts: what failed, or is on its way, has two. Records do not say whether something
/// that is not as declared is there all the same; such moments are left out.
fn needed(scheduler: &Scheduler) -> Needed {
    let unclear = |item: &Item| {
        item.actual.is_some()
            && !matches!(item.state, State::Configured | State::Obtained | State::Discovered)
    };
    if scheduler.items().iter().any(unclear) {
        return Needed::new();
    }
    let words = |needs: &[Unmet]| -> BTreeSet<String> { needs.iter().map(ToString::to_string).collect() };
    let items = scheduler.items().into_iter();
    let plain = items.filter(|item| matches!(item.state, State::Configured | State::Pending));
    // What is derived waits for its base, too, without saying so.
    let listed = plain.map(|item| {
        let needs = words(&item.needs);
        let unmet = words(&item.unmet).intersection(&needs).cloned().collect();
        (item.key, (needs, unmet))
    });
    listed.collect()
}

/// Keeps what items needed after each transaction, and compares it with what is told of it later.
fn needs() -> Observer {
    let mut copies: Vec<(Seq, Needed)> = Vec::new();
    Box::new(move |scheduler, record| {
        if record.seq == 1 {
            copies.clear();
        }
        copies.push((record.seq, needed(scheduler)));
        for (seq, copy) in &copies {
            let past = scheduler.items_at(*seq).ok_or("the history does not reach back")?;
            for (key, was) in copy {
                let needs = scheduler.needs_then(key, &past[key]);
                let unmet = needs.iter().filter(|need| !need.is_met(&past)).map(|need| need.what.to_string());
                let told = (needs.iter().map(|need| need.what.to_string()).collect(), unmet.collect());
                if *was != told {
                    return Err(format!("told: `{key}` at #{seq} needed {told:?} and did {was:?}"));
                }
            }
        }
        Ok(())
    })
}

/// Compares where each item stands with where its newest step left it.
fn last_steps() -> Observer {
    let gone = |state: State| matches!(state, State::Nonexistent | State::Removed);
    Box::new(move |scheduler, record| {
        let last: BTreeMap<&Key, State> =
            record.changes().map(|step| (&step.key, step.after.state)).collect();
        for (key, left) in last {
            let stands = scheduler.status(key.as_str()).state;
            if stands != left && !(gone(stands) && gone(left)) {
                return Err(format!("told: #{} left `{key}` {left}, and it is {stands}", record.seq));
            }
        }
        Ok(())
    })
}

/// Runs random histories under the eyes of an observer; a failure is told as short as it can be.
fn hold_in_random_histories(observer: fn() -> Observer) {
    for seed in 0..HISTORIES {
        let broken = |commands: &[_]| {
            run_observed(commands, Some(observer())).err().filter(|broken| broken.what.starts_with("told: "))
        };
        let commands = history(seed);
        if broken(&commands).is_some() {
            let short = shrink_while(commands, |commands| broken(commands).is_some());
            let broken = broken(&short).expect("the short history fails too");
            panic!("seed {seed}: {}\nafter line {} of\n\n{}", broken.what, broken.after + 1, script(&short));
        }
    }
}

#[test]
fn past_is_told_as_it_was() {
    hold_in_random_histories(chronicle);
}

#[test]
fn what_was_needed_is_told_as_it_was() {
    hold_in_random_histories(needs);
}

#[test]
fn newest_step_of_an_item_says_where_it_stands() {
    hold_in_random_histories(last_steps);
}

fn scheduler(history: Limits) -> Scheduler {
    let mut scheduler = Scheduler::new(Settings { history, ..Settings::default() });
    World::default().register(&mut scheduler, kinds::KINDS).expect("the test kinds do not overlap");
    scheduler
}

fn begin(scheduler: &mut Scheduler, key: &str, attrs: Option<&str>) {
    let value = attrs.map(|attrs| Attrs::parse(attrs).expect("names and texts").to_value());
    let change = value.map_or_else(|| Change::remove(key), |value| Change::put(key, value));
    scheduler.begin(Txn::changes(vec![change]), Timestamp(1));
    scheduler.execute();
}

fn end(scheduler: &mut Scheduler) -> std::sync::Arc<Record> {
    while let Some(operation) = scheduler.next() {
        scheduler.answer(operation.id, Answer::done(), Timestamp(1));
    }
    scheduler.finish(Timestamp(1))
}

fn apply(scheduler: &mut Scheduler, key: &str, attrs: Option<&str>) {
    begin(scheduler, key, attrs);
    end(scheduler);
}

#[test]
fn item_that_is_gone_still_has_its_base_in_the_past() {
    let mut scheduler = scheduler(Limits::default());
    apply(&mut scheduler, "a/one", Some("item=x item=y"));
    apply(&mut scheduler, "a/one", Some("item=x"));
    apply(&mut scheduler, "a/one", None);
    let bases = |seq| {
        let past = scheduler.items_at(seq).unwrap();
        past.into_iter().map(|(key, item)| format!("{key} of {:?}", item.base)).collect::<Vec<_>>()
    };
    assert_eq!(bases(1), ["a/one of None", "a/one/item/x of Some(`a/one`)", "a/one/item/y of Some(`a/one`)"]);
    assert_eq!(bases(2), ["a/one of None", "a/one/item/x of Some(`a/one`)"]);
    assert!(bases(3).is_empty() && bases(0).is_empty());
}

#[test]
fn past_ends_where_the_history_ends() {
    let limits = Limits { count: 3, permanent: Duration::ZERO, ..Limits::default() };
    let mut scheduler = scheduler(limits);
    for number in 1..=10 {
        apply(&mut scheduler, "a/one", Some(&format!("v={number}")));
    }
    let value = |seq| {
        let past = scheduler.items_at(seq)?;
        past[&Key::new("a/one")].value.as_ref().map(|value| Attrs::of(value).to_string())
    };
    assert_eq!(value(10).unwrap(), "v=10");
    assert_eq!(value(7).unwrap(), "v=7");
    assert_eq!((value(6), value(0), value(11)), (None, None, None), "not remembered, or yet to come");
}

#[test]
fn past_is_not_told_while_a_transaction_is_under_way() {
    let mut scheduler = scheduler(Limits::default());
    apply(&mut scheduler, "a/one", Some("v=1"));
    begin(&mut scheduler, "a/one", Some("v=2"));
    assert_eq!(scheduler.items_at(1), None);
    end(&mut scheduler);
    assert_eq!(scheduler.items_at(1).map(|past| past.len()), Some(1));
}
