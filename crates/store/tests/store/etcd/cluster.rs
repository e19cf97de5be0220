//! Servers that die and hang while they are written to: nothing acknowledged is lost, nothing is told twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kilter_store::etcd::{Etcd, Settings};
use kilter_store::{Change, Commit, Expected, Item, News, Range, Revision, Store, StoreError, Watch};
use tokio::sync::watch::Receiver;

use super::server::{Server, ready_all};
use crate::suite::next;

/// What a writer knows to have happened: for each key the last number acknowledged.
type Acknowledged = BTreeMap<String, u64>;

/// Counts a key up until told to stop; what is uncertain is looked up. Says what was acknowledged last.
async fn count_up(store: Etcd, key: String, stop: Arc<AtomicBool>) -> (String, u64) {
    let mut number: u64 = 0;
    while !stop.load(Ordering::Acquire) {
        let expected = match number {
            0 => Expected::Absent,
            number => Expected::Value(number.to_string().into()),
        };
        let next = number + 1;
        let commit = Commit::new().expect(&key, expected).put(&key, next.to_string());
        match store.commit(commit).await {
            Ok(_) => number = next,
            Err(StoreError::Uncertain { .. }) => number = look_up(&store, &key, number).await,
            // One that was uncertain may also happen after it was looked up.
            Err(StoreError::Conflict { differences }) => {
                assert_eq!(differences[0].actual.as_ref().map(self::number), Some(next), "{key}");
                number = next;
            }
            Err(error) if error.is_retriable() => {}
            Err(error) => panic!("{key}: {error:?}"),
        }
    }
    (key, number)
}

/// What a key counts, which was `known` or has become the next number.
async fn look_up(store: &Etcd, key: &str, known: u64) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match store.get(key).await {
            Ok(found) => {
                let number =
                    found.item.map_or(0, |item| std::str::from_utf8(&item.value).unwrap().parse().unwrap());
                assert!(number == known || number == known + 1, "{key} counts {number} after {known}");
                return number;
            }
            Err(error) => assert!(error.is_retriable() && Instant::now() < deadline, "{error:?}"),
        }
    }
}

/// Follows a watch until it is at a revision that is told in the end: every number follows the one before it. Also
/// says how many connections were lost.
async fn follow(mut watch: Watch, mut until: Receiver<Option<Revision>>) -> (Acknowledged, usize) {
    let mut counts = Acknowledged::new();
    let mut reached = Revision::ZERO;
    let mut lost = 0;
    loop {
        if until.borrow_and_update().is_some_and(|until| reached >= until) {
            return (counts, lost);
        }
        let news = tokio::select! {
            news = next(&mut watch) => news,
            changed = until.changed() => {
                changed.expect("the end is told");
                continue;
            }
        };
        match news {
            Ok(News::Progress(revision)) => reached = reached.max(revision),
            Ok(News::Commit(told)) => {
                assert!(told.revision > reached, "{} was told after {reached}", told.revision);
                reached = told.revision;
                for change in told.changes {
                    let Change::Put(item) = change else { panic!("nothing was deleted") };
                    let number = number(&item);
                    assert_eq!(counts.insert(item.key, number).unwrap_or(0) + 1, number);
                }
            }
            Err(StoreError::Unavailable { .. }) => lost += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn number(item: &Item) -> u64 {
    std::str::from_utf8(&item.value).unwrap().parse().unwrap()
}

/// Writes from several sides while `trouble` happens, and checks what everyone knows afterwards. The trouble has to
/// cost the watch its connection.
async fn write_through(store: &Etcd, trouble: impl Future<Output = ()>) {
    let start = store.get("count/").await.unwrap().revision;
    let watch = store.watch("count/", start).await.unwrap();
    let (end, until) = tokio::sync::watch::channel(None);
    let follower = tokio::spawn(follow(watch, until.clone()));
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|n| tokio::spawn(count_up(store.clone(), format!("count/{n}"), Arc::clone(&stop))))
        .collect();
    trouble.await;
    stop.store(true, Ordering::Release);
    let mut acknowledged = Acknowledged::new();
    for writer in writers {
        let (key, number) = writer.await.unwrap();
        acknowledged.insert(key, number);
    }
    println!("acknowledged: {acknowledged:?}");
    assert!(acknowledged.values().all(|number| *number > 10), "{acknowledged:?}");
    let snapshot = store.range(Range::of("count/")).await.unwrap();
    let stored: Acknowledged = snapshot.items.iter().map(|item| (item.key.clone(), number(item))).collect();
    assert_eq!(stored, acknowledged);
    end.send_replace(snapshot.items.iter().map(|item| item.modified).max());
    let (told, lost) = follower.await.unwrap();
    println!("{lost} connections were lost");
    assert_eq!(told, acknowledged);
    assert!(lost > 0, "the trouble was none");
    // From the beginning once more, in peace: the history has no holes either.
    let watch = store.watch("count/", start).await.unwrap();
    assert_eq!(follow(watch, until).await.0, acknowledged);
}

/// Waits until a store has made some more commits.
async fn some_commits(store: &Etcd, more: u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut target = None;
    loop {
        if let Ok(found) = store.get("count/").await {
            let target = *target.get_or_insert(found.revision.0 + more);
            if found.revision.0 >= target {
                return;
            }
        }
        assert!(Instant::now() < deadline, "nothing is committed any more");
        tokio::time::sleep(Duration::from_millis(20)).await; // poll
    }
}

/// Pauses a server for longer than a connection may be silent; the others go on.
async fn pause(server: &Server, store: &Etcd) {
    let until = Instant::now() + Duration::from_secs(11);
    server.signal("-STOP");
    while Instant::now() < until {
        some_commits(store, 30).await;
    }
    server.signal("-CONT");
    some_commits(store, 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_under_writes_loses_nothing() {
    let mut server = Server::start(&[]);
    let store = server.ready(server.settings()).await;
    let observer = store.clone();
    write_through(&store, async {
        for _ in 0..4 {
            some_commits(&observer, 40).await;
            server.kill();
            server.run();
        }
        some_commits(&observer, 40).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_killed_and_a_leader_paused_lose_nothing() {
    let mut servers = Server::cluster();
    let store = ready_all(&servers).await;
    let endpoints: Vec<_> = servers.iter().map(|server| server.endpoint.clone()).collect();
    let settings = Settings { attempt_timeout: Duration::from_secs(1), ..Settings::of(endpoints) };
    let store_under_test = Etcd::new(settings).unwrap();
    write_through(&store_under_test, async {
        some_commits(&store, 30).await;
        servers[0].kill();
        some_commits(&store, 30).await;
        servers[0].run();
        some_commits(&store, 30).await;
        // Whoever leads is among them.
        for server in &servers {
            pause(server, &store).await;
        }
    })
    .await;
}
