//! Changes that wait for their confirmation.

use std::time::Duration;

use kilter_agent::confirm::ConfirmError;
use kilter_agent::desk::{ApplyError, Confirm, Options};
use kilter_scheduler::State;
use kilter_testkit::hand::Hand;
use tempfile::tempdir;

use crate::house::House;

const MINUTE: Duration = Duration::from_secs(60);

fn within(within: Duration) -> Options {
    Options { confirm: Some(Confirm { within }), ..Options::default() }
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
