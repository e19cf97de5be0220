//! The driver suite: claims that hold for every store.
//!
//! Each claim gets a store and a prefix of its own, so that claims may share a server. Revisions are compared with
//! each other only: a server counts from wherever it is.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kilter_store::{Change, Commit, Expected, News, Range, Revision, Store, StoreError, Told, Watch};

/// Makes one test for each claim, with a store that `$open` makes; `$open` gives something that keeps it open.
macro_rules! driver_suite {
    ($open:expr; $($claim:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $claim() {
                let opened = $open.await;
                $crate::suite::$claim(opened.store(), concat!(stringify!($claim), "/")).await;
            }
        )*
    };
    ($open:expr) => {
        $crate::suite::driver_suite! { $open;
            absent_empty_and_present_are_told_apart
            a_commit_is_all_or_nothing
            a_commit_that_changes_nothing_has_no_revision
            a_conflict_says_what_is_there
            every_kind_of_comparison_is_made
            one_key_cannot_be_changed_twice_in_a_commit
            a_prefix_is_a_plain_string_prefix
            pages_are_of_one_revision
            the_past_can_be_read_until_it_is_compacted
            a_revision_that_has_not_happened_is_an_error
            a_watch_tells_whole_commits_in_order
            a_watch_begins_behind_any_revision_that_is_kept
            a_watch_tells_how_far_it_is
            a_watch_of_what_was_compacted_says_so
            several_watches_see_the_same
            concurrent_increments_are_all_counted
            a_lease_that_ends_takes_its_items_along
            a_lease_that_is_kept_alive_lasts
            a_revoked_lease_deletes_in_one_commit
            a_put_without_the_lease_frees_the_item
            an_unknown_lease_is_an_error
            identity_stays
        }
    };
}
pub(crate) use driver_suite;

/// How long anything may take that is bound to happen.
const DEADLINE: Duration = Duration::from_secs(60);

/// What a watch tells next, within the deadline.
pub(crate) async fn next(watch: &mut Watch) -> Result<News, StoreError> {
    tokio::time::timeout(DEADLINE, watch.next()).await.expect("the watch tells something before the deadline")
}

/// The next commit a watch tells.
pub(crate) async fn next_commit(watch: &mut Watch) -> Told {
    loop {
        match next(watch).await.unwrap() {
            News::Commit(told) => return told,
            News::Progress(_) => {}
        }
    }
}

async fn put(store: &dyn Store, key: &str, value: &str) -> Revision {
    store.commit(Commit::new().put(key, value.to_owned())).await.unwrap().revision
}

async fn value(store: &dyn Store, key: &str) -> Option<Bytes> {
    store.get(key).await.unwrap().item.map(|item| item.value)
}

async fn keys(store: &dyn Store, range: Range) -> Vec<String> {
    store.range(range).await.unwrap().items.into_iter().map(|item| item.key).collect()
}

fn key(prefix: &str, name: &str) -> String {
    format!("{prefix}{name}")
}

pub(crate) async fn absent_empty_and_present_are_told_apart(store: &dyn Store, prefix: &str) {
    let absent = store.get(&key(prefix, "a")).await.unwrap();
    assert_eq!(absent.item, None);
    let revision = put(store, &key(prefix, "a"), "").await;
    let empty = store.get(&key(prefix, "a")).await.unwrap().item.unwrap();
    assert_eq!(
        (empty.value, empty.modified, empty.created, empty.version),
        (Bytes::new(), revision, revision, 1)
    );
    let again = put(store, &key(prefix, "a"), "x").await;
    let present = store.get(&key(prefix, "a")).await.unwrap().item.unwrap();
    assert_eq!((present.modified, present.created, present.version), (again, revision, 2));
}

pub(crate) async fn a_commit_is_all_or_nothing(store: &dyn Store, prefix: &str) {
    let (a, b, c) = (key(prefix, "a"), key(prefix, "b"), key(prefix, "c"));
    let revision = store.commit(Commit::new().put(&a, "1").put(&b, "2")).await.unwrap().revision;
    let items = store.range(Range::of(prefix)).await.unwrap().items;
    assert!(items.iter().all(|item| item.modified == revision), "{items:?}");
    let refused = Commit::new().put(&a, "3").delete(&b).put(&c, "4").expect(&c, Expected::Present);
    assert!(matches!(store.commit(refused).await, Err(StoreError::Conflict { .. })));
    assert_eq!(store.range(Range::of(prefix)).await.unwrap().items, items);
    store.commit(Commit::new().put(&c, "4").delete(&a).delete(&b)).await.unwrap();
    assert_eq!(keys(store, Range::of(prefix)).await, [c]);
}

pub(crate) async fn a_commit_that_changes_nothing_has_no_revision(store: &dyn Store, prefix: &str) {
    let after = put(store, &key(prefix, "a"), "1").await;
    let mut watch = store.watch(prefix, after).await.unwrap();
    store.commit(Commit::new().delete(key(prefix, "b"))).await.unwrap();
    store.commit(Commit::new().expect(key(prefix, "a"), Expected::Present)).await.unwrap();
    let revision = put(store, &key(prefix, "c"), "1").await;
    assert_eq!(next_commit(&mut watch).await.revision, revision);
}

pub(crate) async fn a_conflict_says_what_is_there(store: &dyn Store, prefix: &str) {
    let (a, b) = (key(prefix, "a"), key(prefix, "b"));
    let revision = put(store, &a, "1").await;
    let commit = Commit::new().expect(&a, Expected::Absent).expect(&b, Expected::Present).put(&a, "2");
    let Err(error @ StoreError::Conflict { .. }) = store.commit(commit).await else { panic!("no conflict") };
    assert!(!error.is_retriable());
    let said = error.to_string();
    assert!(said.contains(&format!("`{a}` is of revision {revision}, expected to be absent")), "{said}");
    assert!(said.contains(&format!("`{b}` is absent, expected to be there")), "{said}");
    let StoreError::Conflict { differences } = error else { unreachable!() };
    assert_eq!(differences[0].actual.as_ref().unwrap().value, "1");
    assert_eq!(differences[1].actual, None);
}

pub(crate) async fn every_kind_of_comparison_is_made(store: &dyn Store, prefix: &str) {
    let (a, b) = (key(prefix, "a"), key(prefix, "b"));
    let revision = put(store, &a, "1").await;
    let met = [
        (&a, Expected::Present),
        (&a, Expected::Modified(revision)),
        (&a, Expected::Value("1".into())),
        (&b, Expected::Absent),
    ];
    for (key, expected) in met {
        store.commit(Commit::new().expect(key, expected)).await.unwrap();
    }
    let unmet = [
        (&a, Expected::Absent),
        (&a, Expected::Modified(Revision(revision.0 - 1))),
        (&a, Expected::Value("2".into())),
        (&b, Expected::Present),
        (&b, Expected::Value(Bytes::new())),
        (&b, Expected::Modified(revision)),
    ];
    for (key, expected) in unmet {
        let answer = store.commit(Commit::new().expect(key, expected.clone())).await;
        assert!(matches!(answer, Err(StoreError::Conflict { .. })), "{key} {expected:?}: {answer:?}");
    }
}

pub(crate) async fn one_key_cannot_be_changed_twice_in_a_commit(store: &dyn Store, prefix: &str) {
    let a = key(prefix, "a");
    for commit in [Commit::new().put(&a, "1").put(&a, "2"), Commit::new().put(&a, "1").delete(&a)] {
        assert!(store.commit(commit).await.unwrap_err().is_invalid_input());
    }
    assert!(store.commit(Commit::new().put("", "1")).await.unwrap_err().is_invalid_input());
    assert_eq!(value(store, &a).await, None);
}

pub(crate) async fn a_prefix_is_a_plain_string_prefix(store: &dyn Store, prefix: &str) {
    for name in ["tap/a", "tap/ab", "tap/b", "tapir", "tar", "täp"] {
        put(store, &key(prefix, name), name).await;
    }
    let under = |part: &str| Range::of(key(prefix, part));
    assert_eq!(keys(store, under("tap/a")).await, [key(prefix, "tap/a"), key(prefix, "tap/ab")]);
    assert_eq!(keys(store, under("tap")).await.len(), 4);
    assert_eq!(keys(store, under("t")).await.len(), 6);
    assert_eq!(keys(store, under("tä")).await, [key(prefix, "täp")]);
    assert_eq!(keys(store, under("u")).await, [""; 0]);
}

pub(crate) async fn pages_are_of_one_revision(store: &dyn Store, prefix: &str) {
    for number in 0..10 {
        put(store, &key(prefix, &number.to_string()), "old").await;
    }
    let mut range = Range::of(prefix).pages_of(4);
    let mut read = Vec::new();
    let mut sizes = Vec::new();
    loop {
        let page = store.range(range.clone()).await.unwrap();
        sizes.push(page.items.len());
        read.extend(page.items.iter().cloned());
        store.commit(Commit::new().put(key(prefix, "9"), "new").delete(key(prefix, "5"))).await.unwrap();
        put(store, &key(prefix, "4a"), "new").await;
        match range.following(&page) {
            Some(following) => range = following,
            None => break,
        }
    }
    assert_eq!(sizes, [4, 4, 2]);
    assert!(read.iter().all(|item| item.value == "old"), "{read:?}");
    assert_eq!(keys(store, Range::of(prefix).pages_of(10)).await.len(), 10);
    assert!(!store.range(Range::of(prefix).pages_of(10)).await.unwrap().more);
    assert!(store.range(Range::of(prefix).pages_of(0)).await.unwrap_err().is_invalid_input());
}

pub(crate) async fn the_past_can_be_read_until_it_is_compacted(store: &dyn Store, prefix: &str) {
    let (a, b) = (key(prefix, "a"), key(prefix, "b"));
    let first = put(store, &a, "1").await;
    let second = store.commit(Commit::new().put(&a, "2").put(&b, "2")).await.unwrap().revision;
    let third = store.commit(Commit::new().delete(&a)).await.unwrap().revision;
    put(store, &a, "4").await;
    let at = async |revision| {
        let items = store.range(Range::of(prefix).at(revision)).await.unwrap().items;
        items.iter().map(|item| String::from_utf8(item.value.to_vec()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((at(first).await, at(second).await), (vec!["1".into()], vec!["2".into(), "2".into()]));
    assert_eq!(at(third).await, ["2"]);
    store.compact(third).await.unwrap();
    assert_eq!(at(third).await, ["2"]);
    let gone = store.range(Range::of(prefix).at(second)).await;
    assert!(
        matches!(gone, Err(StoreError::Compacted { asked, oldest }) if asked == second && oldest >= third),
        "{gone:?}"
    );
    assert_eq!(value(store, &a).await.unwrap(), "4");
}

pub(crate) async fn a_revision_that_has_not_happened_is_an_error(store: &dyn Store, prefix: &str) {
    let head = put(store, &key(prefix, "a"), "1").await;
    let far = Revision(head.0 + 1_000_000);
    let read = store.range(Range::of(prefix).at(far)).await;
    assert!(matches!(read, Err(StoreError::Ahead { asked, .. }) if asked == far), "{read:?}");
    let watch = store.watch(prefix, far).await;
    assert!(matches!(watch, Err(StoreError::Ahead { asked, .. }) if asked == far), "{watch:?}");
    assert!(matches!(store.compact(far).await, Err(StoreError::Ahead { .. })));
}

pub(crate) async fn a_watch_tells_whole_commits_in_order(store: &dyn Store, prefix: &str) {
    let (a, b, c) = (key(prefix, "a"), key(prefix, "b"), key(prefix, "c"));
    let start = put(store, &a, "0").await;
    let mut watch = store.watch(prefix, start).await.unwrap();
    let first = store.commit(Commit::new().put(&c, "1").put(&b, "1").delete(&a)).await.unwrap().revision;
    put(store, &key("elsewhere/", prefix), "1").await;
    let second = put(store, &c, "2").await;
    let told = next_commit(&mut watch).await;
    assert_eq!(told.revision, first);
    assert_eq!(told.changes.iter().map(Change::key).collect::<Vec<_>>(), [&a, &b, &c]);
    assert!(matches!(&told.changes[0], Change::Deleted(_)));
    assert!(matches!(&told.changes[2], Change::Put(item) if item.value == "1" && item.modified == first));
    let told = next_commit(&mut watch).await;
    assert_eq!(told.revision, second);
    assert!(matches!(&told.changes[..], [Change::Put(item)] if item.value == "2" && item.version == 2));
}

pub(crate) async fn a_watch_begins_behind_any_revision_that_is_kept(store: &dyn Store, prefix: &str) {
    let a = key(prefix, "a");
    let mut revisions = Vec::new();
    for number in 0..20 {
        revisions.push(put(store, &a, &number.to_string()).await);
    }
    for (position, after) in revisions.iter().enumerate() {
        let mut watch = store.watch(prefix, *after).await.unwrap();
        for expected in &revisions[position + 1..] {
            assert_eq!(next_commit(&mut watch).await.revision, *expected);
        }
    }
}

pub(crate) async fn a_watch_tells_how_far_it_is(store: &dyn Store, prefix: &str) {
    let after = put(store, &key(prefix, "a"), "1").await;
    let mut watch = store.watch(&key(prefix, "quiet/"), after).await.unwrap();
    let head = put(store, &key(prefix, "b"), "1").await;
    loop {
        match next(&mut watch).await.unwrap() {
            News::Progress(revision) if revision >= head => break,
            News::Progress(_) => {}
            News::Commit(told) => panic!("nothing touches the prefix, and {told:?} was told"),
        }
    }
}

pub(crate) async fn a_watch_of_what_was_compacted_says_so(store: &dyn Store, prefix: &str) {
    let a = key(prefix, "a");
    let first = put(store, &a, "1").await;
    put(store, &a, "2").await;
    let third = store.commit(Commit::new().delete(&a)).await.unwrap().revision;
    put(store, &a, "4").await;
    store.compact(third).await.unwrap();
    let ended = match store.watch(prefix, first).await {
        Ok(mut watch) => next(&mut watch).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(
        matches!(ended, StoreError::Compacted { asked, oldest } if asked == first && oldest >= third),
        "{ended:?}"
    );
    let mut watch = store.watch(prefix, third).await.unwrap();
    let told = next_commit(&mut watch).await;
    assert!(matches!(&told.changes[..], [Change::Put(item)] if item.value == "4"), "{told:?}");
}

pub(crate) async fn several_watches_see_the_same(store: &dyn Store, prefix: &str) {
    let start = put(store, &key(prefix, "a"), "0").await;
    let mut watches = Vec::new();
    for _ in 0..8 {
        watches.push(store.watch(prefix, start).await.unwrap());
    }
    let mut revisions = Vec::new();
    for number in 0..100 {
        revisions.push(put(store, &key(prefix, &format!("{}", number % 7)), &number.to_string()).await);
    }
    for watch in &mut watches {
        for expected in &revisions {
            assert_eq!(next_commit(watch).await.revision, *expected);
        }
    }
}

pub(crate) async fn concurrent_increments_are_all_counted(store: &dyn Store, prefix: &str) {
    let counter = key(prefix, "counter");
    put(store, &counter, "0").await;
    let increment = async || {
        loop {
            let item = store.get(&counter).await.unwrap().item.unwrap();
            let number: u64 = std::str::from_utf8(&item.value).unwrap().parse().unwrap();
            let commit = Commit::new()
                .expect(&counter, Expected::Modified(item.modified))
                .put(&counter, (number + 1).to_string());
            match store.commit(commit).await {
                Ok(_) => return,
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    futures::future::join_all((0..20).map(|_| increment())).await;
    assert_eq!(value(store, &counter).await.unwrap(), "20");
}

pub(crate) async fn a_lease_that_ends_takes_its_items_along(store: &dyn Store, prefix: &str) {
    let (a, b) = (key(prefix, "a"), key(prefix, "b"));
    let lease = store.grant(Duration::from_secs(5)).await.unwrap();
    let start = store.commit(Commit::new().put(&a, "1").put(&b, "1").under(lease.id)).await.unwrap().revision;
    assert_eq!(store.get(&a).await.unwrap().item.unwrap().lease, Some(lease.id));
    let mut watch = store.watch(prefix, start).await.unwrap();
    let told = next_commit(&mut watch).await;
    assert_eq!(told.changes, [Change::Deleted(a), Change::Deleted(b)]);
    assert!(matches!(store.keep_alive(lease.id).await, Err(StoreError::NoSuchLease(_))));
}

pub(crate) async fn a_lease_that_is_kept_alive_lasts(store: &dyn Store, prefix: &str) {
    let a = key(prefix, "a");
    let deadline = Instant::now() + 2 * DEADLINE;
    'lease: loop {
        let mut asked = Instant::now();
        let lease = store.grant(Duration::from_secs(5)).await.unwrap();
        // Where the machine stood still for longer than the lease, it is no fault of the store that it ended.
        let is_fair = |asked: Instant| {
            assert!(Instant::now() < deadline, "the machine is too busy for any lease");
            asked.elapsed() < lease.ttl
        };
        if store.commit(Commit::new().put(&a, "1").under(lease.id)).await.is_err() {
            assert!(!is_fair(asked), "a fresh lease has ended");
            continue;
        }
        let until = Instant::now() + 3 * lease.ttl;
        while Instant::now() < until {
            let again = Instant::now();
            let is_kept = store.keep_alive(lease.id).await.is_ok() && value(store, &a).await.is_some();
            if !is_kept {
                assert!(!is_fair(asked), "a lease that was kept alive has ended");
                continue 'lease;
            }
            asked = again;
            tokio::time::sleep(lease.ttl / 8).await; // until the time is over
        }
        store.revoke(lease.id).await.unwrap();
        return;
    }
}

pub(crate) async fn a_revoked_lease_deletes_in_one_commit(store: &dyn Store, prefix: &str) {
    let (a, b) = (key(prefix, "a"), key(prefix, "b"));
    let lease = store.grant(Duration::from_secs(60)).await.unwrap();
    store.commit(Commit::new().put(&a, "1").under(lease.id)).await.unwrap();
    let start = store.commit(Commit::new().put(&b, "1").under(lease.id)).await.unwrap().revision;
    let mut watch = store.watch(prefix, start).await.unwrap();
    store.revoke(lease.id).await.unwrap();
    assert_eq!(next_commit(&mut watch).await.changes, [Change::Deleted(a), Change::Deleted(b)]);
}

pub(crate) async fn a_put_without_the_lease_frees_the_item(store: &dyn Store, prefix: &str) {
    let (a, b) = (key(prefix, "a"), key(prefix, "b"));
    let lease = store.grant(Duration::from_secs(60)).await.unwrap();
    store.commit(Commit::new().put(&a, "1").put(&b, "1").under(lease.id)).await.unwrap();
    put(store, &a, "2").await;
    store.revoke(lease.id).await.unwrap();
    assert_eq!(keys(store, Range::of(prefix)).await, [a]);
}

pub(crate) async fn an_unknown_lease_is_an_error(store: &dyn Store, prefix: &str) {
    let lease = store.grant(Duration::from_secs(60)).await.unwrap();
    store.revoke(lease.id).await.unwrap();
    let commit = Commit::new().put(key(prefix, "a"), "1").under(lease.id);
    assert!(matches!(store.commit(commit).await, Err(StoreError::NoSuchLease(id)) if id == lease.id));
    assert!(matches!(store.revoke(lease.id).await, Err(StoreError::NoSuchLease(_))));
    assert!(matches!(store.keep_alive(lease.id).await, Err(StoreError::NoSuchLease(_))));
    assert_eq!(value(store, &key(prefix, "a")).await, None);
}

pub(crate) async fn identity_stays(store: &dyn Store, prefix: &str) {
    let identity = store.identity().await.unwrap();
    put(store, &key(prefix, "a"), "1").await;
    assert_eq!(store.identity().await.unwrap(), identity);
    assert_ne!(identity.0, 0);
}
