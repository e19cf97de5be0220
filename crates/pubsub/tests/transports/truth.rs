//! A source of truth in memory, hubs that distribute it, and consumers that remember what they were told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kilter_pubsub::transport::{Connector, Event, Follower, Hub};
use kilter_pubsub::{
    Change, Commit, Delivery, Digest, ItemKey, LogId, Request, Revision, Settings, SourceState, Tail, Topic,
};
use tokio::sync::{mpsc, watch};

/// How long a test waits for anything, on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn topic() -> Topic {
    Topic::new("tenant")
}

pub(crate) fn settings() -> Settings {
    Settings {
        heartbeat_interval: Duration::from_millis(200),
        peer_timeout: Duration::from_secs(5),
        reorder_window: Duration::from_millis(50),
        stall_timeout: Duration::from_secs(10),
        ..Settings::default()
    }
}

#[derive(Default)]
struct State {
    rev: Revision,
    commits: Vec<Commit>,
    items: BTreeMap<String, (Revision, String)>,
}

/// The source of truth.
#[derive(Clone)]
pub(crate) struct Truth {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<Revision>,
}

impl Truth {
    pub(crate) fn new() -> Self {
        Self { state: Arc::default(), changed: watch::channel(0).0 }
    }

    pub(crate) fn commit(&self, puts: &[&str], deletes: &[&str]) {
        let mut state = self.state.lock().expect("nobody panicked with it");
        state.rev += 1;
        let rev = state.rev;
        let mut changes = Vec::new();
        for key in puts {
            let value = format!("{key} at {rev}");
            changes.push((topic(), Change::put(ItemKey::new("t", *key), rev, value.clone())));
            state.items.insert((*key).to_owned(), (rev, value));
        }
        for key in deletes {
            state.items.remove(*key);
            changes.push((topic(), Change::delete(ItemKey::new("t", *key), rev)));
        }
        state.commits.push(Commit { rev, changes });
        self.changed.send_replace(rev);
    }

    pub(crate) fn values(&self) -> BTreeMap<String, String> {
        let state = self.state.lock().expect("nobody panicked with it");
        state.items.iter().map(|(key, (_, value))| (key.clone(), value.clone())).collect()
    }

    fn read(&self) -> SourceState {
        let state = self.state.lock().expect("nobody panicked with it");
        let items = state.items.iter().map(|(key, (rev, value))| {
            (topic(), Change::put(ItemKey::new("t", key.as_str()), *rev, value.clone()))
        });
        SourceState { log: LogId::of("truth"), rev: state.rev, items: items.collect() }
    }

    /// A hub that distributes this; it ends with `abort`.
    pub(crate) fn hub(&self, delivery: Delivery, seed: u64) -> Arc<Hub> {
        let hub = Hub::start(settings(), delivery, Tail::Watch, u128::from(seed), seed);
        let (truth, source) = (self.clone(), Arc::clone(&hub));
        tokio::spawn(async move {
            let mut changed = truth.changed.subscribe();
            let mut position = None;
            loop {
                tokio::select! {
                    request = source.request() => match request {
                        Request::Read { read } => source.source_read(read, Ok(truth.read())),
                        Request::Watch { after, .. } | Request::Poll { after, .. } => position = Some(after),
                    },
                    _ = changed.changed() => {}
                }
                let Some(after) = position else { continue };
                let commits: Vec<Commit> = {
                    let state = truth.state.lock().expect("nobody panicked with it");
                    state.commits.iter().filter(|commit| commit.rev > after).cloned().collect()
                };
                for commit in commits {
                    position = Some(commit.rev);
                    source.committed(commit);
                }
            }
        });
        hub
    }
}

/// A follower, and everything it was told.
pub(crate) struct Consumer {
    pub(crate) follower: Follower,
    events: mpsc::Receiver<Event>,
    view: BTreeMap<String, String>,
    versions: BTreeMap<String, Revision>,
}

impl Consumer {
    pub(crate) async fn start(connector: Connector, addresses: Vec<String>, seed: u64) -> Self {
        let (follower, events) =
            Follower::start(settings(), "node", (u128::from(seed), seed), connector, addresses, None);
        follower.follow(topic()).await;
        Self { follower, events, view: BTreeMap::new(), versions: BTreeMap::new() }
    }

    fn take(&mut self, event: Event) {
        let Event::Changed { changes, .. } = event else { return };
        for change in changes {
            let key = change.item.key.to_string();
            let before = self.versions.insert(key.clone(), change.stamp.version);
            assert!(before <= Some(change.stamp.version), "`{key}` went back to {:?}", change.stamp);
            match change.value {
                Some(value) => {
                    self.view.insert(key, String::from_utf8(value.to_vec()).expect("values are text"))
                }
                None => self.view.remove(&key),
            };
        }
    }

    /// Waits until it was told exactly what is true, and holds what the hub holds.
    pub(crate) async fn agrees(&mut self, truth: &Truth, hub: &Hub) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            while let Ok(event) = self.events.try_recv() {
                self.take(event);
            }
            let held = self.follower.topics().await.pop();
            let served = hub.with(|core, _| core.published().view(&topic()).map(|view| view.digest()));
            let is_equal = held.as_ref().map(|status| status.digest) == served.or(Some(Digest::default()));
            if self.view == truth.values() && is_equal && held.is_some_and(|status| status.is_live) {
                return;
            }
            assert!(Instant::now() < deadline, "told {:?}\ntrue {:?}", self.view, truth.values());
            let pause = tokio::time::timeout(Duration::from_millis(20), self.events.recv());
            if let Ok(event) = pause.await {
                self.take(event.expect("the follower lives"));
            }
        }
    }
}

/// Kills the publisher, changes the truth, starts another one at the same place: nothing is lost or comes back.
pub(crate) async fn survives_a_kill<F, S>(
    connector: Connector,
    place: impl FnMut() -> String,
    delivery: Delivery,
    bind: F,
) where
    F: Fn(Arc<Hub>, String) -> S,
    S: Future<Output = bool>,
{
    let truth = Truth::new();
    for key in 0..200 {
        truth.commit(&[&format!("key{key}")], &[]);
    }
    let hub = truth.hub(delivery, 1);
    let address = bound(place, |place| bind(Arc::clone(&hub), place)).await;
    let mut consumer = Consumer::start(connector, vec![address.clone()], 9).await;
    consumer.agrees(&truth, &hub).await;
    let deadline = Instant::now() + DEADLINE;
    // Who agrees may have asked for everything before what is broadcast reaches it.
    while consumer.follower.counts().await.slices == 0 {
        assert!(Instant::now() < deadline, "nothing ever comes as it happens");
        truth.commit(&["first"], &[]);
        consumer.agrees(&truth, &hub).await;
    }
    comes_live(&mut consumer, &truth, &hub, |key| {
        truth.commit(&[&format!("key{key}"), &format!("pair{key}")], &[&format!("key{}", key + 100)]);
    })
    .await;
    hub.abort();
    drop(hub);
    truth.commit(&["while it was dead"], &["key60"]);
    let hub = truth.hub(delivery, 2);
    let deadline = Instant::now() + DEADLINE;
    while !bind(Arc::clone(&hub), address.clone()).await {
        assert!(Instant::now() < deadline, "the place is not free again");
        tokio::time::sleep(Duration::from_millis(50)).await; // poll until the place is free
    }
    truth.commit(&["after it came back"], &["key61"]);
    consumer.agrees(&truth, &hub).await;
    let counts = consumer.follower.counts().await;
    assert_eq!((counts.snapshots, counts.mismatches), (1, 0), "{counts:?}");
}

/// Commits fifty times until a whole round comes as it happens for the better part: on a busy machine, what is late is
/// fetched.
pub(crate) async fn comes_live(consumer: &mut Consumer, truth: &Truth, hub: &Hub, commit: impl Fn(usize)) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let before = consumer.follower.counts().await.slices;
        (0..50).for_each(&commit);
        consumer.agrees(truth, hub).await;
        let slices = consumer.follower.counts().await.slices - before;
        if slices >= 25 {
            return;
        }
        assert!(Instant::now() < deadline, "{slices} of 50 commits came as they happened");
    }
}

/// Listens at a place that is free: one that somebody else takes meanwhile is left to them.
pub(crate) async fn bound<S>(mut place: impl FnMut() -> String, bind: impl Fn(String) -> S) -> String
where
    S: Future<Output = bool>,
{
    let deadline = Instant::now() + DEADLINE;
    loop {
        let place = place();
        if bind(place.clone()).await {
            return place;
        }
        assert!(Instant::now() < deadline, "no place is free");
        tokio::time::sleep(Duration::from_millis(20)).await; // poll pause
    }
}

/// A place on this machine that was free a moment ago, with the next one. It is not among those that the system gives to
/// whoever asks for any.
pub(crate) fn free_place() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let number = u32::from(NEXT.fetch_add(2, Ordering::Relaxed)) + std::process::id().wrapping_mul(74);
        let port = 12_000 + u16::try_from(number % 20_000).expect("it is small");
        let free = [port, port + 1].map(|port| std::net::TcpListener::bind(("127.0.0.1", port)));
        if free.iter().all(Result::is_ok) {
            return format!("tcp://127.0.0.1:{port}");
        }
    }
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await; // poll until the deadline
    }
}
