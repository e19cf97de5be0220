//! What outlives the agent.

use std::time::Duration;

use kilter_agent::confirm::ConfirmError;
use kilter_agent::desk::{ApplyError, Confirm, Declaration, Options, View};
use kilter_events::{AskedResync, Query, Scope};
use kilter_scheduler::{Action, Key, Outcome, State};
use kilter_testkit::hand::Hand;
use kilter_testkit::world::{Fault, Mishap};
use tempfile::tempdir;

use crate::disk::Disk;
use crate::house::{House, patch, puts};

/// The keys that the world was asked to change.
fn changed(hand: &Hand) -> Vec<(Action, String)> {
    let world = hand.world();
    let changes = world.log().iter().filter(|logged| logged.action != Action::Retrieve);
    changes.map(|logged| (logged.action, logged.key.to_string())).collect()
}

#[tokio::test]
async fn what_was_acknowledged_is_declared_after_a_crash_and_taken_over_without_a_write() {
    let state = tempdir().unwrap();
    let house = House::over(Hand::default(), Some(state.path()));
    let applied = house.apply("cli", &["a/1 v=1", "b/1 on=a/1"]).await.unwrap();
    let seq = applied.record.unwrap().seq;
    let hand = house.crash().await;
    let before = changed(&hand);

    let house = House::over(hand, Some(state.path()));
    house.desk.settled(Duration::from_secs(10)).await.unwrap();
    assert_eq!(changed(&house.hand), before, "nothing is written");
    assert_eq!(house.state("b/1").await, State::Configured);
    let declarers = house.desk.inquire(|view| view.declarers("a/1")).await.unwrap();
    assert_eq!(declarers[0].mark.as_ref().unwrap().txn, Some(seq), "who declared it, and when");
    let again = house.apply("cli", &["c/1"]).await.unwrap().record.unwrap();
    assert!(again.seq > seq, "numbers go on");
    house.end().await;
}

#[tokio::test]
async fn an_unfinished_change_leaves_nothing_behind_and_the_rest_is_left_alone() {
    let state = tempdir().unwrap();
    let house = House::over(Hand::default(), Some(state.path()));
    house.apply("cli", &["a/1"]).await.unwrap();
    house.hand.world().plan_fault(Fault {
        action: Action::Create,
        key: Key::new("c/1"),
        mishap: Mishap::Hang,
        times: 1,
    });
    let _changing = house.desk.apply(patch("cli", &["b/1", "c/1 on=b/1"]), Options::default()).await;
    let hand = house.hand.clone();
    let made = async {
        while hand.world().get(&Key::new("b/1")).is_none() {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(Duration::from_secs(10), made).await.unwrap();
    let hand = house.crash().await;
    // Somebody lost the declarations of this one; it is ours all the same.
    hand.world().plant(&Key::new("e/stray"), Default::default(), kilter_scheduler::Origin::Declared);

    let house = House::over(hand, Some(state.path()));
    house.desk.settled(Duration::from_secs(10)).await.unwrap();
    assert_eq!(house.state("a/1").await, State::Configured);
    assert_eq!(house.state("b/1").await, State::Nonexistent, "nobody was told that it was declared");
    assert_eq!(house.state("e/stray").await, State::Discovered, "what is not known is left alone");
    let prune = AskedResync { scope: Scope::Full, prune: true, retry: false, description: String::new() };
    house.desk.resync(prune).await.ended().await.unwrap();
    assert_eq!(house.state("e/stray").await, State::Nonexistent, "unless somebody says so");
    house.end().await;
}

#[tokio::test]
async fn a_lost_state_directory_deletes_nothing() {
    let state = tempdir().unwrap();
    let house = House::over(Hand::default(), Some(state.path()));
    house.apply("cli", &["a/1", "b/1 on=a/1"]).await.unwrap();
    let hand = house.crash().await;
    let empty = tempdir().unwrap();
    let before = changed(&hand);
    let house = House::over(hand, Some(empty.path()));
    house.desk.settled(Duration::from_secs(10)).await.unwrap();
    assert_eq!(changed(&house.hand), before);
    assert_eq!(house.state("a/1").await, State::Discovered);
    house.apply("cli", &["a/1"]).await.unwrap();
    assert_eq!(house.state("a/1").await, State::Configured, "it is taken over when it is declared again");
    house.end().await;
}

#[tokio::test]
async fn create_interface_through_the_store() {
    let state = tempdir().unwrap();
    let house = House::over(Hand::default(), Some(state.path()));
    house.desk.settled(Duration::from_secs(10)).await.unwrap();
    house.apply("client", &["tap/my-tap"]).await.unwrap();
    let hand = house.crash().await;
    hand.world().lose(&Key::new("tap/my-tap")).unwrap();
    // What the store holds is declared again, applied best effort, and its status is there to be read.
    let house = House::over(hand, Some(state.path()));
    house.desk.settled(Duration::from_secs(10)).await.unwrap();
    assert_eq!(house.state("tap/my-tap").await, State::Configured);
    assert!(house.hand.world().get(&Key::new("tap/my-tap")).is_some());
    house.end().await;
}

#[tokio::test]
async fn a_source_keeps_its_place_over_a_restart() {
    let state = tempdir().unwrap();
    let house = House::over(Hand::default(), Some(state.path()));
    house.apply("zoe", &["a/1 v=1"]).await.unwrap();
    house.apply("ada", &["a/1 v=2"]).await.unwrap();
    let hand = house.crash().await;
    let house = House::over(hand, Some(state.path()));
    house.desk.settled(Duration::from_secs(10)).await.unwrap();
    let declarers = house.desk.inquire(|view| view.declarers("a/1")).await.unwrap();
    assert_eq!(declarers.iter().map(|one| &*one.source).collect::<Vec<_>>(), ["zoe", "ada"]);
    house.desk.apply(Declaration::leave("zoe"), Options::default()).await.ended().await.unwrap();
    let hand = house.crash().await;
    let house = House::over(hand, Some(state.path()));
    house.desk.settled(Duration::from_secs(10)).await.unwrap();
    let sources = house.desk.inquire(|view| view.sources()).await.unwrap();
    assert_eq!(sources.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["ada"]);
    assert_eq!(house.hand.world().dump().trim(), "a/1                           v=2");
    house.end().await;
}

#[tokio::test]
async fn the_past_is_on_disk() {
    let state = tempdir().unwrap();
    let house = House::over(Hand::default(), Some(state.path()));
    let first = house.apply("cli", &["a/1 v=1"]).await.unwrap().record.unwrap().seq;
    let second = house.apply("cli", &["a/1 v=2", "b/1"]).await.unwrap().record.unwrap().seq;
    house
        .desk
        .apply(Declaration::everything("cli", puts(&["b/1"])), Options::default())
        .await
        .ended()
        .await
        .unwrap();
    let events = house.desk.inquire(|view| view.events.history().query(Query::All).len()).await.unwrap();
    let hand = house.crash().await;
    let house = House::over(hand, Some(state.path()));
    house.desk.settled(Duration::from_secs(10)).await.unwrap();
    let as_of = house.desk.past(move |past| past.declared_as_of(second)).await.unwrap().unwrap();
    let past = house.keep.as_ref().unwrap().past().unwrap();
    let declared: Vec<String> =
        as_of["cli"].iter().map(|(key, mark)| format!("{key} {}", mark.value.to_json())).collect();
    assert_eq!(declared, [r#"a/1 {"v":"2"}"#, "b/1 {}"]);
    assert_eq!(past.declared_as_of(first).unwrap()["cli"].len(), 1);
    let timeline = past.timeline("a/1", 10).unwrap();
    assert!(
        timeline.iter().any(|txn| txn.record.seq == first)
            && timeline.iter().any(|txn| txn.record.seq == second)
    );
    assert!(past.transaction(1000).is_err());
    assert!(past.events(None, 100).unwrap().len() >= events);
    let items = past.items_at(second).unwrap();
    let items: Vec<String> = items.iter().map(|(key, item)| format!("{key} {:?}", item.state)).collect();
    assert_eq!(items, ["a/1 Configured", "b/1 Configured"], "as it was before the restart");
    assert_eq!(past.items_at(first).unwrap().len(), 1);
    drop(past);
    house.end().await;
}

#[tokio::test]
async fn a_reverted_change_is_remembered_and_declares_nothing() {
    let state = tempdir().unwrap();
    let house = House::over(Hand::default(), Some(state.path()));
    house.hand.world().plan_fault(Fault {
        action: Action::Create,
        key: Key::new("a/1"),
        mishap: Mishap::Fail {
            failure: kilter_scheduler::Failure::lasting("no room"),
            effect: kilter_testkit::world::Effect::Before,
        },
        times: 1,
    });
    let record = house.apply("cli", &["a/1"]).await.unwrap().record.unwrap();
    assert!(matches!(record.outcome, Outcome::Reverted(_)));
    let past = house.keep.as_ref().unwrap().past().unwrap();
    assert_eq!(past.transaction(record.seq).unwrap().record.outcome, record.outcome);
    assert!(past.declared_as_of(record.seq).unwrap().is_empty());
    drop(past);
    house.end().await;
}

#[tokio::test]
async fn several_sources_change_in_one_transaction_and_go_back_together() {
    let state = tempdir().unwrap();
    let house = House::over(Hand::default(), Some(state.path()));
    house.apply("one", &["a/1 v=1"]).await.unwrap();
    let both = vec![Declaration::everything("one", puts(&["a/1 v=2"])), patch("two", &["b/1", "c/1 on=a/1"])];
    let confirm = Some(Confirm { within: Duration::from_secs(3600), probes: Vec::new(), joint: None });
    let options = Options { confirm, ..Options::default() };
    let applied = house.desk.apply(both, options).await.ended().await.unwrap();
    assert_eq!(applied.record.unwrap().outcome, Outcome::Applied);

    // Also after a restart, both sources go back.
    let house = House::over(house.crash().await, Some(state.path()));
    house.desk.settled(Duration::from_secs(10)).await.unwrap();
    let names = |view: &View<'_>| view.sources().iter().map(|line| line.name.to_string()).collect::<Vec<_>>();
    assert_eq!(house.desk.inquire(names).await.unwrap(), ["one", "two"]);
    house.desk.cancel(None).await.ended().await.unwrap();
    assert_eq!(house.desk.inquire(names).await.unwrap(), ["one"]);
    assert_eq!(house.hand.world().dump().trim(), "a/1                           v=1");
    house.end().await;
}

#[tokio::test]
async fn what_could_not_be_kept_is_kept_before_anything_that_comes_after_it() {
    let disk = Disk::default();
    let house = House::on(Hand::default(), &disk);
    house.apply("cli", &["a/1 v=0"]).await.unwrap();
    disk.fill();
    // What it is about to make fits; what it declares does not.
    let large = format!("a/1 v={}", "x".repeat(8_000_000));
    let confirm = Some(Confirm { within: Duration::from_secs(3600), probes: Vec::new(), joint: None });
    let unkept = house.apply_with("cli", &[&large, "b/1"], Options { confirm, ..Options::default() }).await;
    let Err(ApplyError::Unkept { seq, .. }) = unkept else { panic!("{unkept:?}") };

    // A small one would fit: then the large one would take its place later.
    let confirmed = house.desk.confirm(Some(seq)).await;
    assert!(matches!(confirmed, Err(ConfirmError::NotKept { .. })), "{confirmed:?}");
    disk.free();
    house.desk.confirm(Some(seq)).await.unwrap();
    disk.fill();
    let larger = format!("a/1 v={}", "y".repeat(12_000_000));
    let unkept = house.apply("cli", &[&larger]).await;
    assert!(matches!(unkept, Err(ApplyError::Unkept { .. })), "{unkept:?}");
    let refused = house.apply("cli", &["a/1 v=2"]).await;
    assert!(matches!(refused, Err(ApplyError::NotKept { .. })), "{refused:?}");
    assert!(refused.unwrap_err().to_string().contains("nothing was changed"));
    disk.free();
    let last = house.apply("cli", &["a/1 v=3"]).await.unwrap().record.unwrap().seq;

    let house = House::on(house.crash().await, &disk);
    house.desk.settled(Duration::from_secs(60)).await.unwrap();
    assert!(house.hand.world().dump().contains("v=3"), "what was acknowledged last stands");
    assert_eq!(house.desk.confirmation().await.unwrap(), None, "what was confirmed stays confirmed");
    assert_eq!(house.state("b/1").await, State::Configured);
    assert!(house.apply("cli", &["c/1"]).await.unwrap().record.unwrap().seq > last, "numbers go on");
    house.end().await;
}
