//! What the scheduler asks of kinds, counted: what costs nothing stays that way.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kilter_scheduler::{
    Act, Answer, Change, Derived, Facts, Key, Kind, Listing, Needs, Outcome, Predicate, Resync, Retrieved,
    Scheduler, Stage, Timestamp, Transition, Txn, ValueRef, describe,
};
use serde::Serialize;

/// A road with a surface that need not be declared.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Road {
    surface: Option<&'static str>,
}

#[derive(Default)]
struct Counts {
    needs: AtomicUsize,
    predicates: AtomicUsize,
}

struct RoadKind(Arc<Counts>);

impl Kind for RoadKind {
    type Value = Road;
    const NAME: &'static str = "road";
    const KEYS: &'static [&'static str] = &["road/*"];

    fn needs(&self, _key: &Key, _road: &Road, needs: &mut Needs) {
        self.0.needs.fetch_add(1, Ordering::Relaxed);
        let counts = Arc::clone(&self.0);
        let counted = Predicate::new("counted", move |_: &Key| {
            counts.predicates.fetch_add(1, Ordering::Relaxed);
            true
        });
        needs.any_of(["town/"], Some(counted));
    }

    fn derive(&self, _key: &Key, _road: &Road, _derived: &mut Derived) {}

    /// What is not declared is left as it is.
    fn transition(&self, _key: &Key, old: &Road, new: &Road) -> Transition {
        if new.surface.is_none() || old.surface == new.surface {
            Transition::Same
        } else {
            Transition::InPlace
        }
    }
}

struct TownKind;

impl Kind for TownKind {
    type Value = u32;
    const NAME: &'static str = "town";
    const KEYS: &'static [&'static str] = &["town/*"];

    fn correlates(&self) -> bool {
        true
    }
}

fn now() -> Timestamp {
    Timestamp::default()
}

/// A world that makes everything, and says of every road that it is paved.
fn run(scheduler: &mut Scheduler, txn: Txn, roads: u32, towns: u32) -> Outcome {
    scheduler.begin(txn, now());
    loop {
        while let Some(operation) = scheduler.next() {
            let kind = scheduler.registry().name(operation.kind).to_owned();
            let answer = match operation.act {
                Act::RetrieveAll { .. } if kind == "road" => Answer::Listed((0..roads).map(paved).collect()),
                Act::RetrieveAll { .. } => Answer::Listed((0..towns).map(town_as_read).collect()),
                Act::Create { .. } => Answer::Done { facts: Some(Facts::new(7_u32)) },
                Act::Update { .. } | Act::Delete { .. } | Act::Retrieve { .. } => {
                    Answer::Done { facts: None }
                }
            };
            scheduler.answer(operation.id, answer, now());
        }
        match scheduler.stage() {
            Stage::Planned => scheduler.execute(),
            Stage::Ended => return scheduler.finish(now()).outcome.clone(),
            stage @ (Stage::Idle | Stage::Refreshing | Stage::Walking) => panic!("stuck at {stage:?}"),
        }
    }
}

fn paved(at: u32) -> Retrieved {
    let value = ValueRef::new(Road { surface: Some("paved") });
    Retrieved { key: format!("road/{at}").into(), value, facts: None, origin: None }
}

fn town_as_read(at: u32) -> Retrieved {
    Retrieved { key: format!("town/{at}").into(), value: ValueRef::new(at), facts: None, origin: None }
}

/// A scheduler with so many roads and towns, what was declared, and what was counted since.
fn country(roads: u32, towns: u32) -> (Scheduler, Vec<Change>, Arc<Counts>) {
    let counts = Arc::<Counts>::default();
    let mut scheduler = Scheduler::default();
    scheduler.register(describe(RoadKind(Arc::clone(&counts))).unwrap()).unwrap();
    scheduler.register(describe(TownKind).unwrap()).unwrap();
    let towns_declared = (0..towns).map(|at| Change::put(format!("town/{at}"), ValueRef::new(at)));
    let bare = || ValueRef::new(Road { surface: None });
    let roads_declared = (0..roads).map(|at| Change::put(format!("road/{at}"), bare()));
    let declared: Vec<Change> = towns_declared.chain(roads_declared).collect();
    let outcome = run(&mut scheduler, Txn::changes(declared.clone()), roads, towns);
    assert_eq!(outcome, Outcome::Applied);
    counts.needs.store(0, Ordering::Relaxed);
    counts.predicates.store(0, Ordering::Relaxed);
    (scheduler, declared, counts)
}

#[test]
fn resync_that_reads_more_than_was_declared_looks_at_nothing_twice() {
    let (mut scheduler, declared, counts) = country(100, 3);
    for _ in 0..3 {
        let outcome = run(&mut scheduler, Txn::resync(Resync::Full(declared.clone())), 100, 3);
        assert_eq!(outcome, Outcome::Applied);
    }
    assert_eq!(counts.needs.load(Ordering::Relaxed), 0, "no kind is asked what an unchanged item needs");
}

#[test]
fn facts_of_any_of_many_are_those_of_one() {
    for towns in [1, 10, 1000] {
        let (scheduler, _, counts) = country(5, towns);
        for road in 0..5 {
            let facts = scheduler.dependency_facts(&format!("road/{road}"));
            assert_eq!(facts.len(), 1, "{towns} towns");
            assert!(facts[0].0.as_str().starts_with("town/"));
        }
        assert_eq!(counts.predicates.load(Ordering::Relaxed), 0, "nobody is asked again who would do");
    }
}

/// Answers a full resync over towns that are as declared, and tells what each read of them was asked with: the listing,
/// and how many towns were expected.
fn resync_as_listed(
    scheduler: &mut Scheduler,
    declared: &[Change],
    as_listed: bool,
) -> Vec<(Option<u64>, usize)> {
    let mut asked = Vec::new();
    scheduler.begin(Txn::resync(Resync::Full(declared.to_vec())), now());
    while scheduler.stage() == Stage::Refreshing {
        let Some(operation) = scheduler.next() else { continue };
        let kind = scheduler.registry().name(operation.kind).to_owned();
        let Act::RetrieveAll { expected, since } = operation.act else { panic!("whole kinds are read") };
        let answer = match (kind.as_str(), since) {
            ("road", _) => Answer::Listed(Vec::new()),
            (_, Some(_)) if as_listed => Answer::AsListed,
            (_, Some(_)) => Answer::NotAsListed,
            (_, None) => {
                let ours =
                    |town: Retrieved| Retrieved { origin: Some(kilter_scheduler::Origin::Declared), ..town };
                Answer::ListedAs(Listing(7), (0..3).map(town_as_read).map(ours).collect())
            }
        };
        if kind == "town" {
            asked.push((since.map(|Listing(number)| number), expected.len()));
        }
        scheduler.answer(operation.id, answer, now());
    }
    scheduler.execute();
    assert!(scheduler.ready().is_empty(), "nothing has to be done");
    assert_eq!(scheduler.finish(now()).outcome, Outcome::Applied);
    asked
}

#[test]
fn kind_is_asked_about_by_its_listing_until_something_else_is_learnt() {
    let (mut scheduler, declared, _) = country(0, 3);
    assert_eq!(resync_as_listed(&mut scheduler, &declared, true), [(None, 3)], "made here, never listed");
    assert_eq!(resync_as_listed(&mut scheduler, &declared, true), [(Some(7), 0)]);
    let again = [(Some(7), 0), (None, 3)];
    assert_eq!(resync_as_listed(&mut scheduler, &declared, false), again, "not as listed is read in full");
    assert_eq!(resync_as_listed(&mut scheduler, &declared, true), [(Some(7), 0)]);
    let more: Vec<Change> = vec![Change::put("town/9", ValueRef::new(9_u32))];
    run(&mut scheduler, Txn::changes(more), 0, 3);
    run(&mut scheduler, Txn::changes(vec![Change::remove("town/9")]), 0, 3);
    assert_eq!(resync_as_listed(&mut scheduler, &declared, true), [(None, 3)], "it was changed since");
}
