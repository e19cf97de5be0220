//! Looking at everything while the loop goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kilter_agent::desk::{Declaration, Options};
use kilter_scheduler::{Changes, State};

use crate::house::{House, puts};

const MANY: usize = 20_000;

/// An agent that has made many items.
async fn crowded() -> House {
    let house = House::start();
    let items: Vec<String> = (0..MANY).map(|at| format!("a/{at:06}")).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let declared = Declaration::patch("cli", puts(&items));
    house.desk.apply(declared, Options::default()).await.ended().await.unwrap();
    house
}

#[tokio::test(start_paused = true)]
async fn whoever_looks_at_everything_holds_up_the_loop_by_a_few_items_at_a_time() {
    let house = crowded().await;
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    let desk = house.desk.clone();
    let sweep = tokio::spawn(async move {
        desk.sweep(move |view, key| {
            counted.fetch_add(1, Ordering::SeqCst);
            Some(view.scheduler.status(key.as_str()).state)
        })
        .await
    });
    // A task like the other one: the runtime looks at what it was begun with less often.
    let desk = house.desk.clone();
    let asks = tokio::spawn(async move {
        let (mut between, mut most, mut before) = (0, 0, 0);
        while !sweep.is_finished() {
            desk.inquire(|_| ()).await.unwrap();
            let now = looks.load(Ordering::SeqCst);
            most = most.max(now - before);
            between += usize::from(now > before);
            before = now;
        }
        (sweep.await.unwrap().unwrap(), between, most)
    });
    let (swept, between, most) = asks.await.unwrap();
    assert_eq!(swept.found.len(), MANY);
    assert!(swept.found.values().all(|state| *state == State::Configured));
    assert!(most <= 1000, "others waited for {most} items");
    assert!(between >= MANY / 1000, "others were answered {between} times meanwhile");
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_somebody_looks_at_everything_is_looked_at_again() {
    let house = crowded().await;
    let started = Arc::new(tokio::sync::Notify::new());
    let (begins, desk) = (Arc::clone(&started), house.desk.clone());
    let sweep = tokio::spawn(async move {
        desk.sweep(move |view, key| {
            begins.notify_one();
            view.scheduler.item(key.as_str()).and_then(|item| item.actual).map(|value| value.to_json())
        })
        .await
    });
    started.notified().await;
    let first = Declaration::everything("cli", puts(&["a/000000 v=2", "b/1"]));
    house.desk.apply(first, Options::default()).await.ended().await.unwrap();
    let swept = sweep.await.unwrap().unwrap();
    let found: Vec<(String, String)> =
        swept.found.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    assert_eq!(found.len(), 2, "{} items", found.len());
    assert!(found[0].0 == "a/000000" && found[0].1.contains('2'), "{found:?}");
    assert_eq!(found[1].0, "b/1");
    house.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_watcher_begins_with_everything_and_goes_on_from_there() {
    let house = crowded().await;
    let mut watch = house.desk.watch(None);
    let Changes::Snapshot(statuses) = watch.next().await.unwrap() else { panic!("a snapshot comes first") };
    assert_eq!(statuses.len(), MANY);
    assert!(statuses.is_sorted_by_key(|status| status.key.clone()));
    house.apply("cli", &["z/1"]).await.unwrap();
    let Changes::Changed(statuses) = watch.next().await.unwrap() else { panic!("then what changed") };
    assert_eq!(statuses.iter().map(|status| status.key.as_str()).collect::<Vec<_>>(), ["z/1"]);
    house.end().await;
}
