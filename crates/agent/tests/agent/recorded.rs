//! Runs that are recorded, with kinds that another process makes real.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kilter_agent::desk::{Declaration, Options};
use kilter_agent::recording::Standing;
use kilter_agent::remote::written::replayed;
use kilter_agent::replay::recorded;
use kilter_events::{EventKinds, EventLoop, Line, Parts, Replayed, replay};
use kilter_scheduler::{Action, Failure, Key, OnFailure, Scheduler, State, ValueRef};
use kilter_testkit::attrs::Attrs;
use kilter_testkit::hand::Hand;
use kilter_testkit::world::{Effect, Fault, Mishap};
use serde_json::{Value, json};

use crate::house::House;
use crate::remote::{Carpenter, Room};

fn read(key: &Key, json: &Value) -> Result<ValueRef, String> {
    match serde_json::from_value::<Attrs>(json.clone()) {
        Ok(attrs) if !key.as_str().starts_with("shop/") => Ok(attrs.to_value()),
        _ => recorded(key, json),
    }
}

/// Runs a recording once more, over kinds of its own.
fn run_again(file: &Path) -> Replayed {
    let text = std::fs::read_to_string(file).unwrap();
    let lines: Vec<Line> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let Some(Line::Started { now, settings, .. }) = lines.first().cloned() else { panic!("{text}") };
    assert!(matches!(lines.last(), Some(Line::Ended { .. })), "{text}");
    assert!(!text.contains("hunter"), "a secret is recorded: {text}");
    let mut scheduler = Scheduler::default();
    Hand::default().serve(&mut scheduler).unwrap();
    let stopwatch = Box::new(|| Duration::ZERO);
    let parts = Parts { scheduler, handlers: Vec::new(), sources: Vec::new(), stopwatch };
    let mut events = EventLoop::new(settings, parts, now).unwrap();
    replay(&mut events, lines, &EventKinds::default(), &read, &replayed, |_| {}).unwrap()
}

#[tokio::test]
async fn a_run_with_kinds_of_another_process_replays_the_same_wherever_the_recording_begins() {
    let room = Room::open().await;
    let folder = tempfile::tempdir().unwrap();
    let shelf =
        |secret: &str| json!({ "name": "safe", "wide": 1, "wall": { "secret": secret }, "boards": ["a"] });
    let desk = room.house().desk.clone();
    desk.record(folder.path().join("first"), None).await.unwrap();
    room.declare(&[json!({ "name": "top", "wide": 1, "wall": "north" })]).await.unwrap();
    let carpenter = Carpenter::attach(&room, Arc::default()).await.ok().unwrap();
    room.until("shop/shelf/top", State::Pending).await;
    room.house().apply("walls", &["a/north"]).await.unwrap();
    room.until("shop/shelf/top", State::Configured).await;
    room.declare(&[shelf("hunter2")]).await.unwrap();
    desk.at_rest().await.unwrap();
    desk.end_recording().await.unwrap();
    assert!(run_again(&folder.path().join("first")).plans.len() >= 4);

    // The kinds are there by now. A secret that is another one creates the shelf again, and the same does nothing.
    desk.record(folder.path().join("second"), None).await.unwrap();
    for secret in ["hunter2", "hunter3"] {
        room.declare(&[shelf(secret)]).await.unwrap();
    }
    // Valid but for its secret, which no recording holds.
    room.declare(&[json!({ "name": "safe", "wide": 1, "wall": { "secret": "(hidden)" } })]).await.unwrap();
    assert_eq!(room.house().state("shop/shelf/safe").await, State::Invalid);
    room.declare(&[json!({ "name": "safe", "wall": { "secret": "hunter3" } })]).await.unwrap();
    assert_eq!(room.house().state("shop/shelf/safe").await, State::Invalid);
    carpenter.shelves().there.clear();
    room.declare(&[shelf("hunter4")]).await.unwrap();
    desk.at_rest().await.unwrap();
    desk.end_recording().await.unwrap();
    assert!(run_again(&folder.path().join("second")).plans.len() >= 5);
    room.close().await;
}

#[tokio::test]
async fn a_recording_begins_with_what_failed_what_waits_and_what_could_not_be_removed() {
    let house = House::start();
    let folder = tempfile::tempdir().unwrap();
    house.apply("one", &["a/stuck"]).await.unwrap();
    house.apply("two", &["a/kept", "b/waits on=a/never"]).await.unwrap();
    let failure = Failure::lasting("it is stuck");
    let mishap = Mishap::Fail { failure, effect: Effect::Before };
    let fault = Fault { action: Action::Delete, key: Key::new("a/stuck"), mishap, times: u32::MAX };
    house.hand.world().plan_fault(fault);
    let options = Options { on_failure: OnFailure::Continue, ..Options::default() };
    house.desk.apply(Declaration::leave("one"), options).await.ended().await.unwrap();
    assert!(house.hand.world().dump().contains("a/stuck"));
    house.hand.world().clear_faults();

    let past = |seq| house.desk.inquire(move |view| view.scheduler.items_at(seq).unwrap());
    let before = (past(2).await.unwrap(), past(3).await.unwrap());
    let file = folder.path().join("run");
    house.desk.record(file.clone(), None).await.unwrap();
    house.desk.at_rest().await.unwrap();
    let world = house.hand.world().dump();
    assert!(!world.contains("a/stuck") && world.contains("a/kept"), "nobody has forgotten it: {world}");
    assert_eq!(house.state("b/waits").await, State::Pending);
    house.apply("two", &["a/never"]).await.unwrap();
    house.desk.at_rest().await.unwrap();
    let ended = house.desk.end_recording().await.unwrap();
    assert_eq!((ended.standing, ended.bytes), (Standing::Ended, std::fs::metadata(&file).unwrap().len()));
    assert_eq!(run_again(&file).plans.len(), 2);
    assert_eq!((past(2).await.unwrap(), past(3).await.unwrap()), before, "the past is as it was");
    assert!(!before.0.contains_key("a/kept") && before.1.contains_key("a/kept"));
    let remembered = house.desk.inquire(|view| view.scheduler.history().len()).await.unwrap();
    assert!(remembered >= 5, "what was before the recording is remembered");
    house.end().await;
}
