//! What the embedded store promises besides.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kilter_store::embedded::history::{Append, Bounds};
use kilter_store::embedded::{Batch, Clock, Embedded, Settings};
use kilter_store::{Commit, Expected, News, Range, Revision, Store, StoreError};
use tempfile::TempDir;

use crate::suite::{driver_suite, next};

/// A store in a directory of its own.
struct Opened {
    store: Embedded,
    _directory: TempDir,
}

impl Opened {
    fn store(&self) -> &dyn Store {
        &self.store
    }
}

async fn open() -> Opened {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(&directory.path().join("store"), Settings::default()).unwrap();
    Opened { store, _directory: directory }
}

driver_suite! { open() }

fn path_in(directory: &TempDir) -> PathBuf {
    directory.path().join("store")
}

/// A clock that moves when told.
#[derive(Debug, Default)]
struct Hand(Mutex<Duration>);

impl Hand {
    fn advance(&self, span: Duration) {
        *self.0.lock().unwrap() += span;
    }
}

impl Clock for Hand {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }
}

fn record(seq: u64, about: &[&str], bytes: &str) -> Append {
    Append {
        history: "transactions".to_owned(),
        seq,
        at_millis: seq * 1000,
        about: about.iter().map(ToString::to_string).collect(),
        bytes: bytes.to_owned().into(),
    }
}

#[tokio::test]
async fn everything_is_there_after_opening_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(&path_in(&directory), Settings::default()).unwrap();
    let identity = store.identity().await.unwrap();
    store.commit(Commit::new().put("a", "1")).await.unwrap();
    store.write(Batch::from(Commit::new().put("b", "2")).append(record(1, &["b"], "put b"))).await.unwrap();
    drop(store);
    let store = Embedded::open(&path_in(&directory), Settings::default()).unwrap();
    assert_eq!(store.identity().await.unwrap(), identity);
    let snapshot = store.range(Range::of("")).await.unwrap();
    assert_eq!((snapshot.revision, snapshot.items.len()), (Revision(2), 2));
    assert_eq!(
        store.view().unwrap().history("transactions").unwrap().get(1).unwrap().unwrap().bytes,
        "put b"
    );
    let past = store.range(Range::of("").at(Revision(1))).await.unwrap();
    assert_eq!(past.items.len(), 1);
}

#[tokio::test]
async fn a_second_opener_is_told_who_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(&path_in(&directory), Settings::default()).unwrap();
    let error = Embedded::open(&path_in(&directory), Settings::default()).unwrap_err();
    let StoreError::TakenByAnother { holder, .. } = &error else { panic!("{error:?}") };
    assert_eq!(holder.pid, Some(std::process::id()));
    assert!(error.to_string().contains(&format!("(pid {})", std::process::id())), "{error}");
    drop(store);
    Embedded::open(&path_in(&directory), Settings::default()).unwrap();
}

#[tokio::test]
async fn what_is_still_watched_can_be_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(&path_in(&directory), Settings::default()).unwrap();
    let mut watch = store.watch("", Revision::ZERO).await.unwrap();
    let view = store.view().unwrap();
    drop(store);
    let store = Embedded::open(&path_in(&directory), Settings::default()).unwrap();
    store.commit(Commit::new().put("a", "1")).await.unwrap();
    assert!(matches!(next(&mut watch).await, Err(StoreError::Closed)));
    assert!(matches!(next(&mut watch).await, Err(StoreError::Closed)));
    assert!(matches!(view.get("a"), Ok(None) | Err(StoreError::Closed)));
}

#[tokio::test]
async fn leases_run_on_the_clock_that_was_given() {
    let clock = Arc::new(Hand::default());
    let directory = tempfile::tempdir().unwrap();
    let settings = || Settings { clock: Arc::clone(&clock) as _, ..Settings::default() };
    let store = Embedded::open(&path_in(&directory), settings()).unwrap();
    let lease = store.grant(Duration::from_secs(60)).await.unwrap();
    store.commit(Commit::new().put("a", "1").under(lease.id)).await.unwrap();
    clock.advance(Duration::from_secs(59));
    store.expire().await.unwrap();
    assert!(store.get("a").await.unwrap().item.is_some());
    store.keep_alive(lease.id).await.unwrap();
    clock.advance(Duration::from_secs(59));
    drop(store);
    // A restart gives the whole length again.
    let store = Embedded::open(&path_in(&directory), settings()).unwrap();
    clock.advance(Duration::from_secs(59));
    store.expire().await.unwrap();
    assert!(store.get("a").await.unwrap().item.is_some());
    clock.advance(Duration::from_secs(1));
    assert!(matches!(store.keep_alive(lease.id).await, Err(StoreError::NoSuchLease(_))));
    store.expire().await.unwrap();
    assert_eq!(store.get("a").await.unwrap().item, None);
    assert_eq!(store.get("a").await.unwrap().revision, Revision(2));
}

#[tokio::test]
async fn old_revisions_are_compacted_as_commits_come() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { keep_revisions: Some(3), ..Settings::default() };
    let store = Embedded::open(&path_in(&directory), settings).unwrap();
    let mut watch = store.watch("", Revision::ZERO).await.unwrap();
    for number in 0..10 {
        store.commit(Commit::new().put("a", number.to_string())).await.unwrap();
    }
    let view = store.view().unwrap();
    assert_eq!((view.oldest(), view.revision()), (Revision(7), Revision(10)));
    assert!(store.range(Range::of("").at(Revision(7))).await.is_ok());
    assert!(matches!(store.range(Range::of("").at(Revision(6))).await, Err(StoreError::Compacted { .. })));
    // A watch that is slower than that is served from memory while it can be.
    for revision in 1..=10 {
        let News::Commit(told) = next(&mut watch).await.unwrap() else { panic!("only commits happened") };
        assert_eq!(told.revision, Revision(revision));
    }
}

#[tokio::test]
async fn a_watch_slower_than_memory_reads_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(&path_in(&directory), Settings::default()).unwrap();
    let mut slow = store.watch("slow/", Revision::ZERO).await.unwrap();
    let commits = 3000;
    let writes = (1..=commits).map(|number: u64| {
        let key = if number.is_multiple_of(3) { "slow/a" } else { "other" };
        store.commit(Commit::new().put(key, number.to_string()))
    });
    futures::future::try_join_all(writes).await.unwrap();
    let mut told = 0;
    loop {
        match next(&mut slow).await.unwrap() {
            News::Commit(commit) => told += commit.changes.len(),
            News::Progress(Revision(revision)) if revision == commits => break,
            News::Progress(_) => {}
        }
        if told == 1000 {
            break;
        }
    }
    assert_eq!(told, 1000);
}

#[tokio::test]
async fn a_watch_that_was_overtaken_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { keep_revisions: Some(10), ..Settings::default() };
    let store = Embedded::open(&path_in(&directory), settings).unwrap();
    let mut slow = store.watch("", Revision::ZERO).await.unwrap();
    let writes = (0..3000).map(|number: u64| store.commit(Commit::new().put("a", number.to_string())));
    futures::future::try_join_all(writes).await.unwrap();
    assert!(matches!(next(&mut slow).await, Err(StoreError::Compacted { asked: Revision::ZERO, .. })));
}

#[tokio::test]
async fn items_and_records_are_written_together_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(&path_in(&directory), Settings::default()).unwrap();
    let refused = Commit::new().put("a", "1").expect("a", Expected::Present);
    let answer = store.write(Batch::from(refused).append(record(1, &[], "never"))).await;
    assert!(matches!(answer, Err(StoreError::Conflict { .. })));
    assert_eq!(store.view().unwrap().history("transactions").unwrap().last(), None);
    store.write(Batch::default().append(record(5, &[], "five"))).await.unwrap();
    let late = Batch::from(Commit::new().put("a", "1")).append(record(5, &[], "five again"));
    assert!(store.write(late).await.unwrap_err().is_invalid_input());
    assert_eq!(store.get("a").await.unwrap().item, None);
    assert_eq!(store.get("a").await.unwrap().revision, Revision::ZERO);
}

#[tokio::test]
async fn histories_are_read_both_ways_and_by_what_they_are_about() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(&path_in(&directory), Settings::default()).unwrap();
    for seq in (2..=20).step_by(2) {
        let about = if seq % 4 == 0 { ["a", "b"].as_slice() } else { ["a"].as_slice() };
        store.write(Batch::default().append(record(seq, about, &seq.to_string()))).await.unwrap();
    }
    let elsewhere = Append { history: "events".to_owned(), ..record(7, &["a"], "7") };
    store.write(Batch::default().append(elsewhere)).await.unwrap();
    let view = store.view().unwrap();
    let history = view.history("transactions").unwrap();
    let seqs = |records: Vec<kilter_store::embedded::history::Record>| {
        records.iter().map(|record| record.seq).collect::<Vec<_>>()
    };
    assert_eq!((history.first(), history.last(), history.count()), (Some(2), Some(20), 10));
    assert_eq!(seqs(history.forward(5.., 3).unwrap()), [6, 8, 10]);
    assert_eq!(seqs(history.backward(..=9, 2).unwrap()), [8, 6]);
    assert_eq!(seqs(history.forward(.., 100).unwrap()).len(), 10);
    assert_eq!(seqs(history.forward(9..9, 100).unwrap()), [0; 0]);
    assert_eq!(history.timeline("b", .., 3).unwrap(), [20, 16, 12]);
    assert_eq!(history.timeline("b", ..12, 10).unwrap(), [8, 4]);
    assert_eq!(history.timeline("c", .., 10).unwrap(), [0; 0]);
    assert_eq!(view.history("events").unwrap().timeline("a", .., 10).unwrap(), [7]);
    assert_eq!(history.get(4).unwrap().unwrap().about, ["a", "b"]);
    assert_eq!(view.history("none").unwrap().count(), 0);
}

#[tokio::test]
async fn histories_stay_within_their_bounds() {
    let bounds = [
        (Bounds { count: Some(3), ..Bounds::default() }, 8..=10),
        (Bounds { age: Some(Duration::from_secs(4)), ..Bounds::default() }, 6..=10),
        (Bounds { bytes: Some(25), ..Bounds::default() }, 9..=10),
        (Bounds { bytes: Some(1), ..Bounds::default() }, 10..=10),
        (Bounds::default(), 1..=10),
    ];
    for (bounds, expected) in bounds {
        let directory = tempfile::tempdir().unwrap();
        let settings =
            Settings { histories: [("transactions".to_owned(), bounds)].into(), ..Settings::default() };
        let store = Embedded::open(&path_in(&directory), settings).unwrap();
        for seq in 1..=10 {
            store.write(Batch::default().append(record(seq, &["a"], "123456789"))).await.unwrap();
        }
        let history = store.view().unwrap().history("transactions").unwrap();
        let kept: Vec<_> = history.forward(.., 100).unwrap().iter().map(|record| record.seq).collect();
        assert_eq!(kept, expected.clone().collect::<Vec<_>>(), "{bounds:?}");
        assert_eq!(history.timeline("a", .., 100).unwrap(), expected.clone().rev().collect::<Vec<_>>());
        let count = u64::try_from(kept.len()).unwrap();
        assert_eq!(
            (history.first(), history.count(), history.bytes()),
            (Some(*expected.start()), count, count * 10)
        );
    }
}
