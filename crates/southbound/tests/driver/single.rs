//! What the adapter for single-item actuators promises.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kilter_scheduler::{Act, Answer, Change, Facts, Key, Outcome, Txn, ValueRef};
use kilter_southbound::{
    ActError, Actuators, Context, Made, OperationError, ReadOne, Seen, Settings, SingleItem, Sought, each,
};
use tokio::time::Instant;

use crate::world::{House, Script, Thing, World, needing, put, secs, thing};

/// The world, one thing at a time.
struct Fingers {
    world: Arc<World>,
    read_one: Option<ReadOne>,
    whole_reads: Arc<AtomicUsize>,
}

impl Fingers {
    async fn change(&self, act: Act) -> Result<Made, ActError> {
        match self.world.change(&act).await {
            Some(Answer::Done { facts: Some(facts) }) => Ok(Made::With(facts)),
            Some(Answer::Failed(failure)) => Err(ActError::retriable(&*failure.message)),
            other => panic!("a change gave {other:?}"),
        }
    }
}

impl SingleItem for Fingers {
    type Value = Thing;

    async fn create(&self, key: &Key, value: &Thing, context: &Context) -> Result<Made, ActError> {
        for need in &value.needs {
            assert_eq!(context.of::<String>(need).map(String::as_str), Some("made"), "{need} told nothing");
        }
        self.change(Act::Create { key: key.clone(), value: ValueRef::new(value.clone()) }).await
    }

    async fn delete(&self, key: &Key, value: &Thing, context: &Context) -> Result<Made, ActError> {
        assert_eq!(context.own::<String>().map(String::as_str), Some("made"));
        let facts = Some(Facts::new(()));
        self.change(Act::Delete { key: key.clone(), value: ValueRef::new(value.clone()), facts }).await
    }

    async fn retrieve_all(
        &self,
        _expected: &[Sought<'_, Thing>],
        context: &Context,
    ) -> Result<Vec<Seen<Thing>>, ActError> {
        self.whole_reads.fetch_add(1, Ordering::Relaxed);
        let items = self.world.lock().items.clone();
        let of_kind = items.into_iter().filter(|(key, _)| key.as_str().starts_with(&*context.kind));
        Ok(of_kind.map(|(key, thing)| Seen::new(key, thing)).collect())
    }

    fn read_one(&self) -> ReadOne {
        self.read_one.unwrap_or(ReadOne::ByKey)
    }
}

/// A house whose kind `a` has fingers.
fn house(at_once: usize, read_one: Option<ReadOne>) -> (House, Arc<AtomicUsize>) {
    let world = Arc::new(World::default());
    let whole_reads = Arc::new(AtomicUsize::new(0));
    let fingers = Fingers { world: Arc::clone(&world), read_one, whole_reads: Arc::clone(&whole_reads) };
    let mut actuators = Actuators::new();
    actuators.add("a", Arc::new(each(fingers).concurrently(NonZeroUsize::new(at_once).unwrap()))).unwrap();
    (House::with(world, actuators, Settings::default()), whole_reads)
}

fn five() -> [(&'static str, Thing); 5] {
    ["a/1", "a/2", "a/3", "a/4", "a/5"].map(|key| (key, thing()))
}

#[tokio::test(start_paused = true)]
async fn a_long_queue_makes_nobody_late() {
    let (mut house, _) = house(1, Some(ReadOne::OutOfAll));
    for (key, _) in five() {
        house.world.script(key, Script::Takes(secs(25)));
    }
    let start = Instant::now();
    house.run(put(&five())).await;
    assert_eq!(start.elapsed().as_secs(), 125);
    assert_eq!(house.world.lock().most_at_once, 1);
    assert_eq!(house.world.lock().items.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn as_many_items_are_under_way_as_asked() {
    let (mut house, _) = house(3, Some(ReadOne::OutOfAll));
    for (key, _) in five() {
        house.world.script(key, Script::Takes(secs(10)));
    }
    let start = Instant::now();
    house.run(put(&five())).await;
    assert_eq!(start.elapsed().as_secs(), 20);
    assert_eq!(house.world.lock().most_at_once, 3);
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_items_under_way_holds_across_batches() {
    let (mut house, _) = house(1, Some(ReadOne::OutOfAll));
    for key in ["a/1", "a/2", "a/3"] {
        house.world.script(key, Script::Takes(secs(20)));
    }
    // `a/3` comes in a second batch while the first is under way, and waits for its turn without being late.
    house.run(put(&[("a/1", thing()), ("a/2", thing()), ("a/3", needing(&["a/1"]))])).await;
    assert_eq!(house.world.lock().most_at_once, 1);
    assert_eq!(house.world.lock().items.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_item_that_hangs_or_panics_fails_alone() {
    let (mut house, _) = house(1, Some(ReadOne::OutOfAll));
    house.world.script("a/2", Script::Hangs);
    house.world.script("a/3", Script::Panics);
    house.world.script("a/5", Script::Hangs);
    house.run(put(&five())).await;
    assert_eq!(house.state("a/1").0, "CONFIGURED");
    assert_eq!(house.error("a/2"), "no answer within 30s");
    assert_eq!(house.error("a/3"), "the actuator panicked: no hands for a/3");
    assert_eq!(house.state("a/4").0, "CONFIGURED");
    assert_eq!(house.error("a/5"), "no answer within 30s");
}

#[tokio::test(start_paused = true)]
async fn cancellation_withdraws_what_waits_in_a_batch() {
    let (mut house, _) = house(1, Some(ReadOne::OutOfAll));
    house.world.script("a/2", Script::Takes(secs(10)));
    house.cancel_after(secs(5));
    house.run(put(&five())).await;
    assert_eq!(house.world.lock().begun, ["create a/1", "create a/2"]);
    assert_eq!(house.error("a/3"), "cancelled before it began: enough is enough");
}

#[tokio::test(start_paused = true)]
async fn cancellation_in_the_middle_of_a_batch_takes_all_of_it_back() {
    let (mut house, _) = house(1, Some(ReadOne::OutOfAll));
    house.world.script("a/3", Script::Takes(secs(10)));
    house.cancel_after(secs(5));
    let changes = five().map(|(key, thing)| Change::put(key, ValueRef::new(thing)));
    let record = house.run(Txn::all_or_nothing(changes.into())).await;
    assert!(matches!(record.outcome, Outcome::Reverted(_)), "{:?}", record.outcome);
    assert!(house.world.lock().items.is_empty());
    assert_eq!(house.world.lock().begun[..3], ["create a/1", "create a/2", "create a/3"]);
    assert!(house.world.lock().begun[3..].iter().all(|begun| begun.starts_with("delete")));
}

#[tokio::test(start_paused = true)]
async fn one_read_of_the_kind_answers_for_all_its_items_if_the_actuator_says_so() {
    let (mut house, whole_reads) = house(1, Some(ReadOne::OutOfAll));
    for (key, _) in five() {
        house.world.script(key, Script::Takes(secs(1)));
    }
    let record = house.run(put(&five())).await;
    assert_eq!(whole_reads.load(Ordering::Relaxed), 0);
    let verification = house.driver.verify(&house.scheduler, &record).await;
    assert!(verification.is_clean(), "{verification:?}");
    assert_eq!((verification.read.len(), whole_reads.load(Ordering::Relaxed)), (5, 1));
}

#[tokio::test(start_paused = true)]
async fn an_item_is_not_read_out_of_all_unless_the_actuator_says_so() {
    let (mut house, whole_reads) = house(1, None);
    let record = house.run(put(&[("a/1", thing())])).await;
    let verification = house.driver.verify(&house.scheduler, &record).await;
    let (key, failure) = &verification.unreadable[0];
    assert_eq!(&*failure.message, format!("the actuator of kind `a` cannot retrieve `{key}`"));
    assert!(!failure.retriable);
    assert_eq!(whole_reads.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_value_of_another_type_fails_with_key_and_kind() {
    let (mut house, _) = house(1, Some(ReadOne::OutOfAll));
    let foreign = Change::put("a/1", ValueRef::new("a text".to_owned()));
    house.run(Txn::changes(vec![foreign, Change::put("a/2", ValueRef::new(thing()))])).await;
    assert_eq!(house.error("a/1"), "the value of `a/1` is not one of kind `a`");
    assert!(!OperationError::WrongType { key: "a/1".into(), kind: "a".into() }.is_retriable());
    assert_eq!(house.state("a/2").0, "CONFIGURED");
}

#[tokio::test(start_paused = true)]
async fn facts_of_the_item_and_of_what_it_needs_reach_the_actuator() {
    let (mut house, _) = house(1, Some(ReadOne::OutOfAll));
    house.run(put(&[("a/1", thing()), ("a/2", needing(&["a/1"]))])).await;
    house.run(Txn::changes(vec![Change::remove("a/2")])).await;
    assert_eq!(house.world.lock().begun, ["create a/1", "create a/2", "delete a/2"]);
    assert!(!house.exists("a/2"));
}
