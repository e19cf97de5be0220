//! Changes that wait for their confirmation.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kilter_agent::confirm::ConfirmError;
use kilter_agent::desk::{ApplyError, Confirm, Options};
use kilter_agent::drive::Audience;
use kilter_events::{AskedResync, Event, EventRecord, Producer, Scope};
use kilter_scheduler::State;
use kilter_testkit::hand::Hand;
use tempfile::tempdir;

use crate::disk::Disk;
use crate::house::House;

const MINUTE: Duration = Duration::from_secs(60);

fn within(within: Duration) -> Options {
    Options { confirm: Some(Confirm { within, probes: Vec::new(), joint: None }), ..Options::default() }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_nobody_confirms_goes_back() {
    let house = House::start();
    house.apply("cli", &["a/1 v=1"]).await.unwrap();
    let applied = house.apply_with("cli", &["a/1 v=2", "b/1"], within(MINUTE)).await.unwrap();
    let pending = applied.confirmation.unwrap();
    let refused = house.apply("other", &["c/1"]).await.unwrap_err();
    assert_eq!(refused, ApplyError::Unconfirmed { id: pending.id });
    tokio::time::advance(MINUTE + Duration::from_secs(1)).await;
    house.desk.settled(MINUTE).await.unwrap();
    assert_eq!(house.hand.world().dump().trim(), "a/1                           v=1");
    assert_eq!(house.desk.confirmation().await.unwrap(), None);
    house.apply("other", &["c/1"]).await.unwrap();
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_change_stays() {
    let house = House::start();
    let applied = house.apply_with("cli", &["a/1"], within(MINUTE)).await.unwrap();
    let id = applied.confirmation.unwrap().id;
    let another = house.desk.confirm(Some(id + 1)).await;
    assert_eq!(another, Err(ConfirmError::Another { asked: id + 1, waiting: id }));
    assert_eq!(house.desk.confirm(Some(id)).await, Ok(id));
    assert_eq!(house.desk.confirm(None).await, Err(ConfirmError::Nothing));
    tokio::time::advance(2 * MINUTE).await;
    assert_eq!(house.state("a/1").await, State::Configured);
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_can_be_given_more_time_and_be_cancelled() {
    let house = House::start();
    house.apply_with("cli", &["a/1"], within(MINUTE)).await.unwrap();
    house.desk.extend(None, 3 * MINUTE).await.unwrap();
    tokio::time::advance(2 * MINUTE).await;
    assert_eq!(house.state("a/1").await, State::Configured);
    house.desk.cancel(None).await.ended().await.unwrap();
    assert_eq!(house.state("a/1").await, State::Nonexistent);
    let sources = house.desk.inquire(|view| view.sources()).await.unwrap();
    assert!(sources.is_empty(), "a source that was new with the change is gone with it: {sources:?}");
    house.end().await;
}

#[tokio::test]
async fn a_crash_does_not_stop_the_time() {
    let state = tempdir().unwrap();
    let house = House::over(Hand::default(), Some(state.path()));
    house.apply("cli", &["a/1 v=1"]).await.unwrap();
    house.apply_with("cli", &["a/1 v=2", "b/1"], within(MINUTE)).await.unwrap();
    let hand = house.crash().await;

    // Before the deadline it goes on waiting.
    let house = House::over(hand, Some(state.path()));
    house.desk.settled(MINUTE).await.unwrap();
    assert_eq!(house.state("b/1").await, State::Configured);
    assert!(house.desk.confirmation().await.unwrap().is_some());
    house.desk.extend(None, Duration::from_millis(1)).await.unwrap();
    let hand = house.crash().await;

    // After it, it has gone back when the agent is ready.
    let house = House::over(hand, Some(state.path()));
    house.desk.settled(MINUTE).await.unwrap();
    assert_eq!(house.desk.confirmation().await.unwrap(), None);
    assert_eq!(house.hand.world().dump().trim(), "a/1                           v=1");
    let hand = house.crash().await;
    let house = House::over(hand, Some(state.path()));
    house.desk.settled(MINUTE).await.unwrap();
    assert_eq!(house.desk.confirmation().await.unwrap(), None, "it goes back once");
    house.end().await;
}

#[tokio::test]
async fn a_confirmed_change_stays_over_a_crash() {
    let state = tempdir().unwrap();
    let house = House::over(Hand::default(), Some(state.path()));
    house.apply_with("cli", &["a/1"], within(MINUTE)).await.unwrap();
    house.desk.confirm(None).await.unwrap();
    let hand = house.crash().await;
    let house = House::over(hand, Some(state.path()));
    house.desk.settled(MINUTE).await.unwrap();
    assert_eq!(house.desk.confirmation().await.unwrap(), None);
    assert_eq!(house.state("a/1").await, State::Configured);
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_that_changes_nothing_waits_for_nobody() {
    let house = House::start();
    house.apply("cli", &["a/1 v=1"]).await.unwrap();
    let applied = house.apply_with("cli", &["a/1 v=1"], within(MINUTE)).await.unwrap();
    assert!(applied.record.is_some());
    assert_eq!(applied.confirmation, None, "there is nothing to go back to");
    house.apply("other", &["b/1"]).await.unwrap();
    tokio::time::advance(2 * MINUTE).await;
    assert_eq!(house.state("a/1").await, State::Configured);
    house.end().await;
}

#[tokio::test]
async fn a_way_back_on_which_nothing_changes_is_over_and_the_agent_goes_on() {
    let disk = Disk::default();
    let house = House::on(Hand::default(), &disk);
    house.apply("cli", &["a/1 v=1"]).await.unwrap();
    let joint = Some("of-a-cluster".to_owned());
    let confirm = Confirm { within: Duration::from_millis(1), probes: Vec::new(), joint };
    let options = Options { confirm: Some(confirm), ..Options::default() };
    // A cluster decides also about a change that changes nothing here.
    assert!(house.apply_with("cli", &["a/1 v=1"], options).await.unwrap().confirmation.is_some());
    while house.desk.confirmation().await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    house.apply("other", &["b/1"]).await.unwrap();
    let house = House::on(house.crash().await, &disk);
    house.desk.settled(MINUTE).await.unwrap();
    assert_eq!(house.desk.confirmation().await.unwrap(), None, "and that is kept");
    house.end().await;
}

#[tokio::test]
async fn a_disk_that_cannot_be_written_does_not_stop_the_way_back() {
    let disk = Disk::default();
    let house = House::on(Hand::default(), &disk);
    house.apply("cli", &["a/1 v=1", "c/1"]).await.unwrap();
    house.apply_with("cli", &["a/1 v=2", "b/1"], within(MINUTE)).await.unwrap();
    disk.stick();
    let cancelled = house.desk.cancel(None).await.ended().await;
    assert!(matches!(cancelled, Err(ApplyError::Unkept { .. })), "{cancelled:?}");
    let world = house.hand.world().dump();
    assert!(world.contains("v=1") && !world.contains("b/1"), "{world}");
    assert_eq!(house.desk.confirmation().await.unwrap(), None);
    let refused = house.apply("cli", &["d/1"]).await;
    assert!(matches!(refused, Err(ApplyError::NotKept { .. })), "{refused:?}");
    disk.free();
    house.apply("cli", &["d/1"]).await.unwrap();
    let house = House::on(house.crash().await, &disk);
    house.desk.settled(MINUTE).await.unwrap();
    assert_eq!(house.desk.confirmation().await.unwrap(), None);
    assert_eq!(house.state("b/1").await, State::Nonexistent);
    assert_eq!(house.state("d/1").await, State::Configured);
    house.end().await;
}

#[tokio::test]
async fn a_way_back_that_was_not_kept_is_gone_again_by_the_next_agent() {
    let disk = Disk::default();
    let house = House::on(Hand::default(), &disk);
    house.apply("cli", &["a/1 v=1"]).await.unwrap();
    house.apply_with("cli", &["a/1 v=2"], within(Duration::from_millis(1))).await.unwrap();
    disk.stick();
    while !house.hand.world().dump().contains("v=1") {
        tokio::task::yield_now().await;
    }
    // Killed while the disk is still full.
    let hand = house.crash().await;
    disk.free();
    let house = House::on(hand, &disk);
    house.desk.settled(MINUTE).await.unwrap();
    assert_eq!(house.hand.world().dump().trim(), "a/1                           v=1");
    assert_eq!(house.desk.confirmation().await.unwrap(), None);
    house.end().await;
}

#[tokio::test]
async fn what_goes_back_cannot_be_confirmed_any_more_and_everybody_is_told() {
    let house = House::start();
    house.apply_with("cli", &["a/1"], within(MINUTE)).await.unwrap();
    let id = house.desk.confirmation().await.unwrap().unwrap().id;
    let desk = &house.desk;
    let first = async { desk.cancel(Some(id)).await.ended().await };
    let second = async { desk.cancel(None).await.ended().await };
    let (first, confirmed, extended, second) =
        tokio::join!(first, desk.confirm(Some(id)), desk.extend(None, MINUTE), second);
    assert_eq!(confirmed, Err(ConfirmError::GoesBack { id }));
    assert_eq!(extended, Err(ConfirmError::GoesBack { id }));
    let (first, second) = (first.unwrap().record.unwrap(), second.unwrap().record.unwrap());
    assert_eq!(first.seq, second.seq, "both are told of the same way back");
    assert_eq!(house.state("a/1").await, State::Nonexistent);
    house.end().await;
}

/// Asks for another resync whenever an event has ended: there always is a next one.
#[derive(Clone, Default)]
struct Busy(Arc<Mutex<Option<Producer>>>);

impl Audience for Busy {
    fn closed(&mut self, _record: &EventRecord) {
        if let Some(producer) = &*self.0.lock().unwrap() {
            let scope = Scope::Downstream;
            let asked = AskedResync { scope, prune: false, retry: false, description: String::new() };
            producer.push(Event::new(asked)).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_never_empties_does_not_postpone_the_way_back() {
    let busy = Busy::default();
    let house = House::before(busy.clone());
    house.apply("cli", &["a/1 v=1"]).await.unwrap();
    *busy.0.lock().unwrap() = Some(house.stop.producer());
    house.apply_with("cli", &["a/1 v=2"], within(Duration::from_millis(20))).await.unwrap();
    let gone_back = async {
        while !house.hand.world().dump().contains("v=1") {
            tokio::time::sleep(Duration::from_millis(1)).await; // until the deadline
        }
    };
    tokio::time::timeout(MINUTE, gone_back).await.unwrap();
    *busy.0.lock().unwrap() = None;
    house.end().await;
}

#[tokio::test]
async fn an_agent_that_keeps_nothing_takes_back_what_nobody_has_confirmed_when_it_ends() {
    let house = House::start();
    house.apply("cli", &["a/1 v=1"]).await.unwrap();
    house.apply_with("cli", &["a/1 v=2", "b/1"], within(MINUTE)).await.unwrap();
    let hand = house.hand.clone();
    house.end().await;
    assert_eq!(hand.world().dump().trim(), "a/1                           v=1");

    // One that keeps it leaves it to the next one.
    let disk = Disk::default();
    let house = House::on(Hand::default(), &disk);
    house.apply_with("cli", &["a/1"], within(MINUTE)).await.unwrap();
    let hand = house.hand.clone();
    house.end().await;
    assert!(hand.world().dump().contains("a/1"));
}
