//! What the driver promises, with a world that can hang, panic, forget and be late.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "driver/ahead.rs"]
mod ahead;
#[path = "driver/single.rs"]
mod single;
#[path = "driver/verify.rs"]
mod verify;
#[path = "driver/world.rs"]
mod world;

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt as _};
use kilter_scheduler::{Action, Change, Key, Outcome, Plan, Resync, Scheduler, Stage, State, Txn, ValueRef};
use kilter_southbound::{
    Actuator, Actuators, AddActuatorError, Batch, Cancel, Decision, Ending, Finished, Observer, Settings,
    SystemClock,
};
use tokio::time::{Instant, sleep, timeout};
use world::{Hand, House, KINDS, Script, World, needing, put, secs, thing};

#[tokio::test(start_paused = true)]
async fn independent_operations_run_concurrently() {
    let mut house = House::new();
    for key in ["a/1", "a/2", "b/1"] {
        house.world.script(key, Script::Takes(secs(10)));
    }
    let start = Instant::now();
    let record = house.run(put(&[("a/1", thing()), ("a/2", thing()), ("b/1", thing())])).await;
    assert_eq!(record.outcome, Outcome::Applied);
    assert_eq!(start.elapsed().as_secs(), 10);
    assert_eq!(house.world.lock().most_at_once, 3);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_actuator_fails_only_its_own_items() {
    let mut house = House::new();
    house.world.script("a/1", Script::Hangs);
    let txn = put(&[("a/1", thing()), ("a/2", thing()), ("b/1", thing()), ("b/2", needing(&["b/1"]))]);
    let start = Instant::now();
    house.run(txn).await;
    assert_eq!(house.error("a/1"), "no answer within 30s");
    assert_eq!(start.elapsed().as_secs(), 30);
    for key in ["a/2", "b/1", "b/2"] {
        assert_eq!(house.state(key), ("CONFIGURED".to_owned(), None), "{key}");
    }
    // The future that hangs is not kept for ever.
    let dropped = async {
        while house.driver.counts().dropped_batches == 0 {
            sleep(secs(1)).await;
        }
    };
    timeout(secs(60), dropped).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panicking_actuator_fails_only_its_own_items() {
    let mut house = House::new();
    house.world.script("a/2", Script::Panics);
    house.world.script("a/3", Script::Takes(secs(1)));
    let things = ["a/1", "a/2", "a/3", "b/1"].map(|key| (key, thing()));
    house.run(put(&things)).await;
    // What was answered before the panic stays answered.
    assert_eq!(house.state("a/1").0, "CONFIGURED");
    assert_eq!(house.error("a/2"), "the actuator panicked: no hands for a/2");
    assert_eq!(house.error("a/3"), "the actuator panicked: no hands for a/2");
    assert_eq!(house.state("b/1").0, "CONFIGURED");
    assert_eq!(house.driver.counts().panics, 1);
}

#[tokio::test(start_paused = true)]
async fn each_actuator_gets_its_whole_batch() {
    let mut house = House::new();
    let txn = put(&[("a/1", thing()), ("b/1", thing()), ("a/2", thing()), ("a/3", needing(&["b/1"]))]);
    house.run(txn).await;
    let batches = house.world.lock().batches.clone();
    let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    assert_eq!(batches, [("a", keys(&["a/1", "a/2"])), ("b", keys(&["b/1"])), ("a", keys(&["a/3"]))]);
}

#[tokio::test(start_paused = true)]
async fn an_actuator_of_several_kinds_gets_one_batch_for_all_of_them() {
    let world = Arc::new(World::default());
    let hand: Arc<dyn Actuator> = Arc::new(Hand { name: "all", world: Arc::clone(&world) });
    let mut actuators = Actuators::new();
    for kind in KINDS {
        actuators.add(kind, Arc::clone(&hand)).unwrap();
    }
    let mut house = House::with(world, actuators, Settings::default());
    house.run(put(&[("a/1", thing()), ("b/1", thing())])).await;
    assert_eq!(house.world.lock().batches, [("all", vec!["a/1".to_owned(), "b/1".to_owned()])]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_has_at_most_as_many_operations_as_set() {
    let world = Arc::new(World::default());
    let mut actuators = Actuators::new();
    actuators.add("a", Arc::new(Hand { name: "a", world: Arc::clone(&world) })).unwrap();
    let settings = Settings { max_batch: NonZeroUsize::new(2), ..Settings::default() };
    let mut house = House::with(world, actuators, settings);
    house.run(put(&["a/1", "a/2", "a/3"].map(|key| (key, thing())))).await;
    let sizes: Vec<usize> = house.world.lock().batches.iter().map(|(_, keys)| keys.len()).collect();
    assert_eq!(sizes, [2, 1]);
}

#[tokio::test(start_paused = true)]
async fn an_early_answer_releases_dependents_before_the_batch_ends() {
    let mut house = House::new();
    house.world.script("a/1", Script::Takes(secs(1)));
    house.world.script("a/2", Script::Takes(secs(20)));
    house.world.script("a/3", Script::Takes(secs(5)));
    let txn =
        put(&[("a/1", thing()), ("a/2", thing()), ("a/3", needing(&["a/1"])), ("b/1", needing(&["a/3"]))]);
    let mut seen = Watcher::default();
    house.driver.run(&mut house.scheduler, txn, &SystemClock, &mut seen, &house.cancel).await;
    assert_eq!(seen.finished, ["create a/1 at 1", "create a/3 at 6", "create b/1 at 6", "create a/2 at 20"]);
}

#[tokio::test(start_paused = true)]
async fn the_facts_of_what_an_item_needs_come_along() {
    let mut house = House::new();
    house.run(put(&[("a/1", thing()), ("a/2", thing()), ("b/1", needing(&["a/1"]))])).await;
    assert_eq!(house.world.lock().told["b/1"], ["a/1"]);
}

#[tokio::test(start_paused = true)]
async fn cancellation_starts_nothing_further() {
    let mut house = House::new();
    house.world.script("a/1", Script::Takes(secs(10)));
    house.cancel_after(secs(5));
    let start = Instant::now();
    let record = house.run(put(&[("a/1", thing()), ("b/1", needing(&["a/1"]))])).await;
    assert_eq!(start.elapsed().as_secs(), 10, "what is under way is awaited");
    assert_eq!(house.world.lock().begun, ["create a/1"]);
    assert_ne!(record.outcome, Outcome::Applied);
    assert!(house.exists("a/1") && !house.exists("b/1"));
}

#[tokio::test(start_paused = true)]
async fn cancellation_takes_an_all_or_nothing_transaction_back() {
    let mut house = House::new();
    house.world.script("b/1", Script::Takes(secs(10)));
    house.cancel_after(secs(5));
    let things = [("a/1", thing()), ("b/1", needing(&["a/1"])), ("c/1", needing(&["b/1"]))];
    let changes = things.map(|(key, thing)| Change::put(key, ValueRef::new(thing)));
    let record = house.run(Txn::all_or_nothing(changes.into())).await;
    assert!(matches!(record.outcome, Outcome::Reverted(_)), "{:?}", record.outcome);
    assert!(house.world.lock().items.is_empty());
    assert!(!house.world.lock().begun.contains(&"create c/1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn cancellation_waits_for_a_hanging_actuator_until_the_deadline() {
    let mut house = House::new();
    house.world.script("a/1", Script::Hangs);
    house.cancel_after(secs(5));
    let start = Instant::now();
    house.run(put(&[("a/1", thing())])).await;
    assert_eq!(start.elapsed().as_secs(), 30);
    assert_eq!(house.error("a/1"), "no answer within 30s");
}

#[tokio::test(start_paused = true)]
async fn cancellation_before_the_plan_is_carried_out_leaves_no_trace() {
    let mut house = House::new();
    house.cancel.cancel("too early");
    assert!(matches!(house.run_to_ending(put(&[("a/1", thing())])).await, Ending::Abandoned));
    assert!(house.world.lock().begun.is_empty());
    assert_eq!(house.state("a/1").0, "NONEXISTENT");
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_dropped_and_counted() {
    let mut house = House::new();
    house.world.script("a/1", Script::Takes(secs(35)));
    // Keeps the transaction open beyond the late answer.
    house.world.script("b/1", Script::Takes(secs(20)));
    house.world.script("b/2", Script::Takes(secs(20)));
    // Comes too late even for the transaction.
    house.world.script("c/1", Script::Takes(secs(50)));
    let txn = put(&[("a/1", thing()), ("b/1", thing()), ("b/2", needing(&["b/1"])), ("c/1", thing())]);
    let start = Instant::now();
    house.run(txn).await;
    assert_eq!(start.elapsed().as_secs(), 40);
    assert_eq!(house.error("a/1"), "no answer within 30s");
    assert_eq!(house.driver.counts().late_answers, 1);
    let second = async {
        while house.driver.counts().late_answers < 2 {
            sleep(secs(1)).await;
        }
    };
    timeout(secs(30), second).await.unwrap();
    assert_eq!(house.error("c/1"), "no answer within 30s");
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_operation_fails_when_the_batch_ends() {
    let mut house = House::new();
    house.world.script("a/1", Script::IsForgotten);
    let start = Instant::now();
    house.run(put(&[("a/1", thing()), ("a/2", thing())])).await;
    assert_eq!(house.error("a/1"), "the actuator gave no answer");
    assert_eq!(house.state("a/2").0, "CONFIGURED");
    assert_eq!(start.elapsed().as_secs(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_another_question_fails_the_operation() {
    let mut house = House::new();
    house.world.script("a/1", Script::IsMisunderstood);
    house.run(put(&[("a/1", thing())])).await;
    assert_eq!(house.error("a/1"), "the actuator answered `listed` to `create`");
}

/// An actuator that looks at its batch only after 45 seconds, and notes how many changes it finds.
#[derive(Default)]
struct Sleeper(Mutex<Option<usize>>);

impl Actuator for Sleeper {
    fn perform(&self, mut batch: Batch) -> BoxFuture<'_, ()> {
        async move {
            sleep(secs(45)).await;
            if !batch.is_read() {
                *self.0.lock().unwrap() = Some(batch.take_all().len());
            }
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_taken_up_in_time_fails_and_cannot_be_begun_later() {
    let sleeper = Arc::new(Sleeper::default());
    let mut actuators = Actuators::new();
    actuators.add("a", sleeper.clone()).unwrap();
    let mut house = House::with(Arc::default(), actuators, Settings::default());
    house.run(put(&[("a/1", thing())])).await;
    assert_eq!(house.error("a/1"), "not taken up within 30s");
    let awake = async {
        while sleeper.0.lock().unwrap().is_none() {
            sleep(secs(1)).await;
        }
    };
    timeout(secs(60), awake).await.unwrap();
    assert_eq!(*sleeper.0.lock().unwrap(), Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_actuator_fails_with_its_name() {
    let mut house = House::new();
    house.run(put(&[("nobody/1", thing()), ("a/1", thing())])).await;
    assert_eq!(house.error("nobody/1"), "kind `nobody` has no actuator");
    assert_eq!(house.state("a/1").0, "CONFIGURED");
}

#[test]
fn a_kind_has_one_actuator() {
    let mut actuators = Actuators::new();
    actuators.add("a", Arc::new(Sleeper::default())).unwrap();
    let refused = actuators.add("a", Arc::new(Sleeper::default()));
    assert_eq!(refused, Err(AddActuatorError::KindTaken { kind: "a".to_owned() }));
}

#[tokio::test(start_paused = true)]
async fn plan_only_leaves_nothing_behind() {
    let mut house = House::new();
    let txn = put(&[("a/1", thing()), ("b/1", needing(&["a/1"]))]);
    let plan = house.driver.plan_only(&mut house.scheduler, txn.clone(), &SystemClock).await.unwrap();
    let planned: Vec<(Action, &str)> =
        plan.steps.iter().map(|step| (step.action, step.key.as_str())).collect();
    assert_eq!(planned, [(Action::Create, "a/1"), (Action::Create, "b/1")]);
    assert!(house.world.lock().begun.is_empty());
    assert_eq!(house.scheduler.stage(), Stage::Idle);
    assert!(house.scheduler.items().is_empty());
    // As if it had never been planned.
    assert_eq!(house.run(txn).await.seq, House::new().run(put(&[])).await.seq);
}

#[tokio::test(start_paused = true)]
async fn plan_only_reads_what_it_has_to_know() {
    let mut house = House::new();
    house.run(put(&[("a/1", thing()), ("b/1", thing())])).await;
    house.world.lock().items.remove("a/1");
    let txn = Txn::resync(Resync::Downstream);
    let plan = house.driver.plan_only(&mut house.scheduler, txn, &SystemClock).await.unwrap();
    let creates = plan.steps.iter().filter(|step| step.action == Action::Create);
    assert_eq!(creates.map(|step| step.key.as_str()).collect::<Vec<_>>(), ["a/1"]);
    assert!(!house.exists("a/1"), "nothing is done");
}

/// Notes the plan and what is finished when; stops at the plan if told to.
#[derive(Default)]
struct Watcher {
    stops: bool,
    planned: Vec<Key>,
    finished: Vec<String>,
    start: Option<Instant>,
}

impl Observer for Watcher {
    fn planned(&mut self, plan: &Plan) -> Decision {
        self.start = Some(Instant::now());
        self.planned = plan.steps.iter().map(|step| step.key.clone()).collect();
        if self.stops { Decision::Stop } else { Decision::Execute }
    }

    fn finished(&mut self, operation: Finished<'_>) {
        let (action, key) = (operation.action.name(), operation.key.unwrap());
        let elapsed = self.start.expect("the plan comes first").elapsed();
        self.finished.push(format!("{action} {key} at {}", elapsed.as_secs()));
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_may_stop_at_the_plan() {
    let mut house = House::new();
    let mut watcher = Watcher { stops: true, ..Watcher::default() };
    let txn = put(&[("a/1", thing())]);
    let ending =
        house.driver.run(&mut house.scheduler, txn, &SystemClock, &mut watcher, &Cancel::new()).await;
    assert!(matches!(ending, Ending::Abandoned));
    assert_eq!(watcher.planned, [Key::from("a/1")]);
    assert!(watcher.finished.is_empty() && house.world.lock().begun.is_empty());
}

/// Asks after a while, and looks at what exists.
struct Curious {
    at: Instant,
    seen: Vec<State>,
}

impl Observer for Curious {
    fn asked(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep_until(self.at))
    }

    fn answer(&mut self, scheduler: &Scheduler) {
        self.at = Instant::now() + secs(10);
        self.seen.push(scheduler.status("a/1").state);
    }
}

#[tokio::test(start_paused = true)]
async fn questions_are_answered_while_an_actuator_hangs() {
    let mut house = House::new();
    house.world.script("b/1", Script::Hangs);
    let txn = put(&[("a/1", thing()), ("b/1", thing())]);
    let mut curious = Curious { at: Instant::now() + secs(1), seen: Vec::new() };
    let ending =
        house.driver.run(&mut house.scheduler, txn, &SystemClock, &mut curious, &Cancel::new()).await;
    assert!(matches!(ending, Ending::Recorded(_)));
    assert!(curious.seen.len() > 1, "{:?}", curious.seen);
    assert!(curious.seen.iter().all(|state| *state == State::Configured), "{:?}", curious.seen);
}

#[tokio::test(start_paused = true)]
async fn answers_in_any_order_reach_the_same_outcome() {
    let mut endings = Vec::new();
    for order in permutations(5) {
        let mut house = House::new();
        let keys = ["a/1", "a/2", "a/3", "b/1", "c/1"];
        for (key, place) in keys.iter().zip(order) {
            house.world.script(key, Script::Takes(secs(place + 1)));
        }
        house.world.script("c/2", Script::Fails("no room"));
        let txn = put(&[
            ("a/1", thing()),
            ("a/2", needing(&["b/1"])),
            ("a/3", needing(&["a/1", "b/1"])),
            ("b/1", thing()),
            ("c/1", needing(&["a/3", "c/2"])),
            ("c/2", thing()),
            ("b/2", needing(&["a/2"])),
        ]);
        let record = house.run(txn).await;
        let mut steps: Vec<_> = record.steps().iter().map(|step| (step.key.clone(), step.action)).collect();
        steps.sort();
        let states: Vec<_> =
            house.scheduler.items().iter().map(|item| (item.key.clone(), item.state)).collect();
        endings.push((record.outcome.clone(), steps, states, house.world.lock().items.clone()));
    }
    assert_eq!(endings.len(), 120);
    assert!(matches!(&endings[0].0, Outcome::Incomplete(cause) if &*cause.error == "no room"));
    assert_eq!(endings[0].3.len(), 5, "everything but what failed and what needs it");
    for ending in &endings {
        assert_eq!(ending, &endings[0]);
    }
}

/// Every order of `0..count`.
fn permutations(count: u64) -> Vec<Vec<u64>> {
    let mut orders = vec![Vec::new()];
    for next in 0..count {
        let longer = |order: &Vec<u64>| {
            let order = order.clone();
            (0..=order.len()).map(move |at| [&order[..at], &[next], &order[at..]].concat())
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actuators_on_other_threads_reach_the_same_outcome() {
    let mut house = House::new();
    let keys: Vec<String> = (0..300).map(|n| format!("{}/{n}", KINDS[n % 3])).collect();
    // Each needs one at about half its place: a wide tree.
    let things: Vec<_> = (0..300)
        .map(|n| (keys[n].as_str(), if n < 5 { thing() } else { needing(&[&keys[n / 2]]) }))
        .collect();
    let txn = put(&things);
    let (house, record) = tokio::spawn(async move {
        let record = house.run(txn).await;
        (house, record)
    })
    .await
    .unwrap();
    assert_eq!(record.outcome, Outcome::Applied);
    assert_eq!(house.world.lock().items.len(), 300);
    let verified = tokio::spawn(async move { house.driver.verify(&house.scheduler, &record).await });
    let verification = verified.await.unwrap();
    assert_eq!((verification.read.len(), verification.is_clean()), (300, true));
}
