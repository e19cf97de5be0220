//! What the desk promises.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kilter_agent::desk::{ApplyError, Declaration, Options, Progress, SettleError};
use kilter_agent::drive::Audience;
use kilter_api::v1::Disturbed;
use kilter_cli::blast;
use kilter_events::{AskedResync, Query, Scope};
use kilter_scheduler::{Action, Changes, Failure, Key, OnFailure, Outcome, Plan, Retry, State};
use kilter_southbound::Decision;
use kilter_testkit::world::{Effect, Fault, Mishap};

use crate::house::{House, patch, puts};

fn fault(action: Action, key: &str, mishap: Mishap) -> Fault {
    Fault { action, key: Key::new(key), mishap, times: 1 }
}

fn failing(action: Action, key: &str, message: &str) -> Fault {
    fault(action, key, Mishap::Fail { failure: Failure::retriable(message), effect: Effect::Before })
}

#[tokio::test(start_paused = true)]
async fn whoever_creates_an_interface_is_told_the_error() {
    let house = House::start();
    house.hand.world().plan_fault(failing(Action::Create, "tap/my-tap", "link setup timed out"));
    let applied = house.apply("client", &["tap/my-tap"]).await.unwrap();
    let record = applied.record.unwrap();
    let Outcome::Reverted(cause) = &record.outcome else { panic!("{record:?}") };
    assert_eq!((cause.key.as_str(), &*cause.error), ("tap/my-tap", "link setup timed out"));
    assert_eq!(house.state("tap/my-tap").await, State::Nonexistent);
    let sources = house.desk.inquire(|view| view.sources()).await.unwrap();
    assert!(sources.is_empty(), "what is reverted was never declared: {sources:?}");
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn questions_are_answered_while_an_actuator_hangs() {
    let house = House::start();
    house.hand.world().plan_fault(fault(Action::Create, "b/1", Mishap::Hang));
    let mut changing = house.desk.apply(patch("cli", &["a/1", "b/1"]), Options::default()).await;
    assert!(matches!(changing.next().await, Some(Progress::Planned(_))));
    let Some(Progress::Operated(operated)) = changing.next().await else { panic!("a/1 does not hang") };
    assert_eq!(operated.key, Some(Key::new("a/1")));
    assert_eq!(house.state("a/1").await, State::Configured);
    let under_way = house.desk.inquire(|view| view.events.under_way().map(|event| event.name().to_string()));
    assert_eq!(under_way.await.unwrap().as_deref(), Some("Declared Change [cli]"));
    // The driver gives the actuator up, and the transaction goes back.
    let applied = changing.ended().await.unwrap();
    assert!(matches!(applied.record.unwrap().outcome, Outcome::Reverted(_)));
    assert_eq!(house.state("a/1").await, State::Nonexistent);
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_application_tells_its_plan_its_progress_and_its_end() {
    let house = House::start();
    let mut changing = house.desk.apply(patch("cli", &["a/1", "b/1 on=a/1"]), Options::default()).await;
    let Some(Progress::Planned(planned)) = changing.next().await else { panic!("the plan comes first") };
    assert_eq!(planned.plan.steps.len(), 2);
    let mut operated = Vec::new();
    let applied = loop {
        match changing.next().await.unwrap() {
            Progress::Planned(_) => panic!("there is one plan"),
            Progress::Operated(one) => operated.push(one.key.unwrap().to_string()),
            Progress::Ended(ended) => break ended.unwrap(),
        }
    };
    assert_eq!(operated, ["a/1", "b/1"]);
    assert_eq!(applied.record.unwrap().outcome, Outcome::Applied);
    assert!(changing.next().await.is_none());
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn planning_does_nothing_and_tells_what_is_disturbed() {
    let house = House::start();
    house.apply("cli", &["a/1 fixed=1", "b/1 on=a/1", "c/1"]).await.unwrap();
    let before = house.hand.world().dump();
    let planned = house.desk.plan(Declaration::everything("cli", puts(&["a/1 fixed=2", "b/1 on=a/1"])));
    let planned = planned.await.unwrap();
    let radius = blast::radius(&planned.plan.steps);
    let keys = |disturbed: &[Disturbed]| disturbed.iter().map(|one| one.key.clone()).collect::<Vec<_>>();
    assert_eq!(
        (keys(&radius.recreated), keys(&radius.losing)),
        (vec!["a/1".to_owned()], vec!["b/1".to_owned()])
    );
    assert_eq!(radius.removed, ["c/1"]);
    assert_eq!(house.hand.world().dump(), before);
    let sources = house.desk.inquire(|view| view.sources()).await.unwrap();
    assert_eq!(sources[0].items, 3, "{sources:?}");
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_out_of_date_is_refused_with_what_changed() {
    let house = House::start();
    let declaration = patch("cli", &["a/1", "b/1"]);
    let planned = house.desk.plan(declaration.clone()).await.unwrap();
    let options = Options { expected: Some(planned.expected()), ..Options::default() };
    house.apply("other", &["b/1"]).await.unwrap();
    let refused = house.desk.apply(declaration.clone(), options).await.ended().await.unwrap_err();
    assert_eq!(refused, ApplyError::Stale { changed: vec![Key::new("b/1")] });
    assert_eq!(house.state("a/1").await, State::Nonexistent);

    let planned = house.desk.plan(declaration.clone()).await.unwrap();
    let options = Options { expected: Some(planned.expected()), ..Options::default() };
    let applied = house.desk.apply(declaration, options).await.ended().await.unwrap();
    assert_eq!(applied.record.unwrap().outcome, Outcome::Applied);
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn sources_that_declare_one_item_are_told_and_take_over() {
    let house = House::start();
    house.apply("one", &["a/1 v=1"]).await.unwrap();
    let second = house.apply("two", &["a/1 v=2"]).await.unwrap();
    assert_eq!(second.conflicts.len(), 1);
    assert_eq!((&*second.conflicts[0].heard, &*second.conflicts[0].unheard), ("one", "two"));
    let declarers = house.desk.inquire(|view| view.declarers("a/1")).await.unwrap();
    let heard: Vec<(&str, bool)> = declarers.iter().map(|one| (&*one.source, one.is_heard)).collect();
    assert_eq!(heard, [("one", true), ("two", false)]);
    let left = house.desk.apply(Declaration::leave("one"), Options::default()).await.ended().await.unwrap();
    assert_eq!(left.record.unwrap().outcome, Outcome::Applied);
    assert_eq!(house.hand.world().dump().trim(), "a/1                           v=2");
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_begins_with_everything_and_goes_on_from_its_cursor() {
    let house = House::start();
    house.apply("cli", &["a/1"]).await.unwrap();
    let mut watch = house.desk.watch(None);
    let Changes::Snapshot(statuses) = watch.next().await.unwrap() else { panic!("a snapshot comes first") };
    assert_eq!(statuses.len(), 1);
    house.apply("cli", &["b/1"]).await.unwrap();
    let Changes::Changed(statuses) = watch.next().await.unwrap() else { panic!("then changes") };
    assert_eq!(statuses[0].key, Key::new("b/1"));
    let cursor = watch.cursor();
    house.apply("cli", &["c/1"]).await.unwrap();
    let Changes::Changed(statuses) = house.desk.watch(cursor).next().await.unwrap() else {
        panic!("whoever comes back is told what changed meanwhile")
    };
    assert_eq!(statuses.iter().map(|status| status.key.as_str()).collect::<Vec<_>>(), ["c/1"]);
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn settled_is_when_no_retry_is_left() {
    let house = House::start();
    house.hand.world().plan_fault(failing(Action::Create, "a/1", "not yet"));
    let retry = Some(Retry { period: Duration::from_secs(20), ..Retry::default() });
    let options = Options { on_failure: OnFailure::Continue, retry, ..Options::default() };
    house.apply_with("cli", &["a/1"], options).await.unwrap();
    assert_eq!(house.state("a/1").await, State::Retrying);
    let within = Duration::from_secs(5);
    assert_eq!(house.desk.settled(within).await, Err(SettleError::Late { within }));
    house.desk.settled(Duration::from_secs(60)).await.unwrap();
    assert_eq!(house.state("a/1").await, State::Configured);
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_resync_that_is_asked_for_mends_what_was_lost() {
    let house = House::start();
    house.apply("cli", &["a/1"]).await.unwrap();
    house.hand.world().lose(&Key::new("a/1")).unwrap();
    let applied = house.desk.resync(downstream(false)).await.ended().await.unwrap();
    assert_eq!(applied.record.unwrap().outcome, Outcome::Applied);
    assert_eq!(house.hand.world().dump().trim(), "a/1");
    house.end().await;
}

fn downstream(retry: bool) -> AskedResync {
    AskedResync { scope: Scope::Downstream, prune: false, retry, description: "by hand".to_owned() }
}

#[tokio::test(start_paused = true)]
async fn a_resync_tries_again_what_was_declared_without_retries_only_if_it_is_asked_to() {
    let house = House::start();
    let fail = || house.hand.world().plan_fault(failing(Action::Create, "a/1", "not yet"));
    fail();
    let retry = Some(Retry { count: Some(0), ..Retry::default() });
    let options = Options { on_failure: OnFailure::Continue, retry, ..Options::default() };
    house.apply_with("cli", &["a/1"], options).await.unwrap();
    for (retry, state) in [(false, State::Failed), (true, State::Retrying)] {
        fail();
        house.desk.resync(downstream(retry)).await.ended().await.unwrap();
        assert_eq!(house.state("a/1").await, state);
    }
    house.desk.settled(Duration::from_secs(60)).await.unwrap();
    assert_eq!(house.state("a/1").await, State::Configured);
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_seen_is_told_through_the_desk() {
    let house = House::start();
    house.apply("cli", &["af-packet/my-afp host=eth1"]).await.unwrap();
    assert_eq!(house.state("af-packet/my-afp").await, State::Pending);
    let seen = house.hand.world().observe(&Key::new("host/eth1"), Default::default());
    house.desk.notify(vec![seen]).await.unwrap();
    house.desk.settled(Duration::from_secs(5)).await.unwrap();
    assert_eq!(house.state("af-packet/my-afp").await, State::Configured);
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_events_say_who_asked_and_why() {
    let house = House::start();
    let options =
        Options { who: "ada".to_owned(), description: "more room".to_owned(), ..Options::default() };
    house.apply_with("cli", &["a/1"], options).await.unwrap();
    let description = house.desk.inquire(|view| {
        let events = view.events.history().query(Query::Last(1));
        events[0].txn.as_ref().map(|txn| txn.description.clone())
    });
    assert_eq!(description.await.unwrap().unwrap(), "Declared Change [cli]\n* ada: more room");
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_none_is_refused() {
    let house = House::start();
    for name in ["", "a b", &"x".repeat(65)] {
        let refused = house.apply(name, &["a/1"]).await.unwrap_err();
        assert_eq!(refused, ApplyError::BadName { name: name.to_owned() });
    }
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_an_agent_that_has_ended_is_told_so() {
    let house = House::start();
    let desk = house.desk.clone();
    house.end().await;
    assert!(desk.inquire(|_| ()).await.is_err());
    let gone = desk.apply(patch("cli", &["a/1"]), Options::default()).await.ended().await;
    assert_eq!(gone.unwrap_err(), ApplyError::Gone);
}

/// Counts the beats, and holds the loop up when it is told to.
#[derive(Clone, Default)]
struct Heart {
    beats: Arc<AtomicUsize>,
    holds_up: Arc<AtomicBool>,
    is_held_up: Arc<AtomicBool>,
}

impl Audience for Heart {
    fn alive(&mut self) {
        self.beats.fetch_add(1, Ordering::SeqCst);
    }

    fn planned(&mut self, _plan: &Plan, _declares: bool) -> Decision {
        while self.holds_up.load(Ordering::SeqCst) {
            self.is_held_up.store(true, Ordering::SeqCst);
            std::thread::yield_now();
        }
        Decision::Execute
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_that_is_stuck_does_not_beat() {
    let (heart, beat) = (Heart::default(), Duration::from_millis(1));
    let house = House::beating(heart.clone(), beat);
    // Whoever holds up a thread of the runtime may hold up its clock: this thread is none of them, and waits by itself.
    let until = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            std::thread::sleep(beat); // until it is so
        }
    };
    until(&|| heart.beats.load(Ordering::SeqCst) > 3);
    heart.holds_up.store(true, Ordering::SeqCst);
    let changing = house.desk.apply(patch("cli", &["a/1"]), Options::default()).await;
    until(&|| heart.is_held_up.load(Ordering::SeqCst));
    let before = heart.beats.load(Ordering::SeqCst);
    // Fifty beats that must not come.
    let deadline = std::time::Instant::now() + beat * 50;
    until(&|| std::time::Instant::now() >= deadline);
    assert_eq!(heart.beats.load(Ordering::SeqCst), before, "the watchdog is not lied to");
    heart.holds_up.store(false, Ordering::SeqCst);
    changing.ended().await.unwrap();
    until(&|| heart.beats.load(Ordering::SeqCst) > before);
    house.end().await;
}
