//! The etcd driver against real servers.

mod cluster;
mod newer;
mod secure;
pub(crate) mod server;

use std::process::Command;
use std::time::{Duration, Instant};

use kilter_store::etcd::{Etcd, Settings, Version, Warning};
use kilter_store::{Change, Commit, News, Range, Revision, Store, StoreError};

use crate::suite::{driver_suite, next, next_commit};
use server::Server;

pub(crate) struct Opened {
    store: Etcd,
    _server: Server,
}

impl Opened {
    pub(crate) fn store(&self) -> &dyn Store {
        &self.store
    }
}

/// Each claim has a server of its own: a compaction concerns everyone on it.
async fn open() -> Opened {
    let server = Server::start(&[]);
    let store = server.ready(server.settings()).await;
    Opened { store, _server: server }
}

driver_suite! { open() }

#[tokio::test]
async fn an_old_server_is_warned_about() {
    let opened = open().await;
    let said = Command::new("etcd").arg("--version").output().unwrap().stdout;
    let said = String::from_utf8(said).unwrap();
    let version = said.lines().find_map(|line| Version::parse(line.strip_prefix("etcd Version: ")?)).unwrap();
    let warnings = opened.store.warnings().await.unwrap();
    if version.keeps_watch_events() {
        assert_eq!(warnings, []);
    } else {
        let endpoint = opened._server.endpoint.clone();
        assert!(warnings[0].to_string().contains("may lose deletions when it compacts"));
        assert_eq!(warnings, [Warning::LosesWatchEvents { endpoint, version }]);
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_not_an_empty_one() {
    let mut server = Server::start(&[]);
    let settings = Settings { request_timeout: Duration::from_secs(1), ..server.settings() };
    let store = server.ready(settings).await;
    store.commit(Commit::new().put("a", "1")).await.unwrap();
    server.kill();
    let started = Instant::now();
    for error in [
        store.get("a").await.unwrap_err(),
        store.range(Range::of("")).await.unwrap_err(),
        store.commit(Commit::new().put("a", "2")).await.unwrap_err(),
        store.watch("", Revision::ZERO).await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Unavailable { .. }) && error.is_retriable(), "{error:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    server.run();
    let store = server.ready(server.settings()).await;
    assert_eq!(store.get("a").await.unwrap().item.unwrap().value, "1");
}

#[tokio::test]
async fn a_member_that_is_away_is_left_for_the_next() {
    let server = Server::start(&[]);
    let absent = "http://127.0.0.1:9".to_owned();
    let store = server.ready(Settings::of([absent.clone(), server.endpoint.clone(), absent])).await;
    for number in 0..20 {
        store.commit(Commit::new().put("a", number.to_string())).await.unwrap();
    }
}

#[tokio::test]
async fn a_stopped_watch_is_told_of_the_compaction() {
    let mut server = Server::start(&[]);
    let store = server.ready(server.settings()).await;
    let start = store.commit(Commit::new().put("a", "0")).await.unwrap().revision;
    let mut watch = store.watch("", start).await.unwrap();
    store.commit(Commit::new().put("a", "1")).await.unwrap();
    assert_eq!(next_commit(&mut watch).await.revision, start.next());
    server.kill();
    assert!(matches!(next(&mut watch).await, Err(StoreError::Unavailable { .. })));
    server.run();
    let store = server.ready(server.settings()).await;
    store.commit(Commit::new().delete("a")).await.unwrap();
    store.commit(Commit::new().put("a", "2")).await.unwrap();
    let head = store.commit(Commit::new().put("a", "3")).await.unwrap().revision;
    store.compact(head).await.unwrap();
    let ended = loop {
        match next(&mut watch).await {
            Err(StoreError::Unavailable { .. }) => {}
            other => break other,
        }
    };
    assert!(
        matches!(ended, Err(StoreError::Compacted { asked, oldest }) if asked == start.next() && oldest == head),
        "{ended:?}"
    );
    assert!(matches!(next(&mut watch).await, Err(StoreError::Closed)));
}

#[tokio::test]
async fn an_answer_in_parts_is_put_together() {
    let opened = open().await;
    let store = &opened.store;
    let start = store.commit(Commit::new().put("large/0", "")).await.unwrap().revision;
    for number in 1..=12 {
        let half = vec![number; 600_000];
        let commit = Commit::new().put(format!("large/{number:02}"), half.clone()).put("large/last", half);
        store.commit(commit).await.unwrap();
    }
    let mut watch = store.watch("large/", start).await.unwrap();
    let mut after = start;
    for number in 1..=12 {
        let told = next_commit(&mut watch).await;
        assert_eq!(told.revision, after.next());
        after = told.revision;
        let keys: Vec<_> = told.changes.iter().map(Change::key).collect();
        assert_eq!(keys, [format!("large/{number:02}").as_str(), "large/last"]);
        let whole =
            |change: &Change| matches!(change, Change::Put(item) if item.value == vec![number; 600_000]);
        assert!(told.changes.iter().all(whole));
    }
    assert_eq!(store.range(Range::of("large/")).await.unwrap().items.len(), 14);
}

#[tokio::test]
async fn what_etcd_limits_is_refused_and_nothing_is_done() {
    let opened = open().await;
    let many = (0..200).fold(Commit::new(), |commit, number| commit.put(number.to_string(), ""));
    let large = Commit::new().put("large", vec![0; 3_000_000]);
    for commit in [many, large] {
        let error = opened.store.commit(commit).await.unwrap_err();
        assert!(error.is_invalid_input(), "{error:?}");
    }
    assert_eq!(opened.store.range(Range::of("")).await.unwrap().items, []);
}

#[tokio::test]
async fn a_large_range_is_read_in_pages_of_one_revision() {
    let opened = open().await;
    let store = &opened.store;
    let commits = (0..50).map(|commit| {
        let puts = (0..100).fold(Commit::new(), |all, n| all.put(format!("{:05}", commit * 100 + n), "x"));
        store.commit(puts)
    });
    futures::future::try_join_all(commits).await.unwrap();
    let read = store.range(Range::of("")).await.unwrap();
    assert_eq!((read.items.len(), read.more), (5000, false));
    assert!(read.items.is_sorted_by(|one, other| one.key < other.key));
    let page = store.range(Range::of("").pages_of(3000)).await.unwrap();
    assert_eq!((page.items.len(), page.more), (3000, true));
}

#[tokio::test]
async fn a_full_server_is_told() {
    let server = Server::start(&["--quota-backend-bytes=1048576"]);
    let store = server.ready(server.settings()).await;
    let mut written = 0;
    let error = loop {
        match store.commit(Commit::new().put(format!("{written}"), vec![1; 100_000])).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    // A write that the server lets in and that then is one too many is kept, and still answered as refused.
    let kept = store.range(Range::of("")).await.unwrap().items.len();
    assert!(kept == written || kept == written + 1, "{kept} of {written} are there");
}

#[tokio::test]
async fn a_quiet_watch_outlives_the_restart_of_its_server() {
    let mut server = Server::start(&[]);
    let store = server.ready(server.settings()).await;
    let mut after = store.commit(Commit::new().put("a", "0")).await.unwrap().revision;
    let mut watch = store.watch("", after).await.unwrap();
    for round in 0..3 {
        server.kill();
        server.run();
        let store = server.ready(server.settings()).await;
        store.commit(Commit::new().put("a", round.to_string())).await.unwrap();
        loop {
            match next(&mut watch).await {
                Ok(News::Commit(told)) => {
                    assert_eq!(told.revision, after.next());
                    after = told.revision;
                    break;
                }
                Ok(News::Progress(_)) | Err(StoreError::Unavailable { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_quiet_watch_is_left_in_peace() {
    let server = Server::start(&["--experimental-watch-progress-notify-interval=10m"]);
    let store = server.ready(server.settings()).await;
    let mut watch = store.watch("", Revision::ZERO).await.unwrap();
    let quiet = tokio::time::timeout(Duration::from_secs(13), watch.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    store.commit(Commit::new().put("a", "1")).await.unwrap();
    assert!(matches!(next(&mut watch).await, Ok(News::Commit(_))));
}
