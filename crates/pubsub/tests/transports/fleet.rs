//! Twenty subscribers of fifty topics, a transport that loses every tenth message, and a distributor that is killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kilter_pubsub::transport::{Connector, Follower, Hub, Network, ZmqServer};
use kilter_pubsub::{
    Change, Commit, Delivery, Digest, ItemKey, LogId, Request, Settings, SourceState, SubscriberCounts, Tail,
    Topic,
};

use crate::truth::{DEADLINE, bound, free_place, settings};

const NODES: u64 = 20;
const TOPICS: u64 = 50;
const ITEMS: u64 = 10_000;

/// The time between two commits of a topic: that of a window.
const PACE: Duration = Duration::from_millis(50);

fn topic(number: u64) -> Topic {
    Topic::new(format!("tenant:{}", number % TOPICS))
}

/// A put of one item, in the topic that it belongs to.
fn commit(rev: u64) -> Commit {
    let number = rev - 1;
    let item = ItemKey::new("items", format!("item-{}", number % ITEMS));
    Commit { rev, changes: vec![(topic(number % ITEMS), Change::put(item, rev, vec![b'x'; 100]))] }
}

/// A distributor that has committed nothing yet and loses what is said.
async fn distributor(instance: u64) -> (Arc<Hub>, String) {
    let lossy = Settings { lose_percent: 10, ..settings() };
    let hub = Hub::start(lossy, Delivery::Broadcast, Tail::Watch, u128::from(instance), instance);
    let source = Arc::clone(&hub);
    tokio::spawn(async move {
        loop {
            if let Request::Read { read } = source.request().await {
                source.source_read(read, Ok(SourceState { log: LogId(7), rev: 0, items: Vec::new() }));
            }
        }
    });
    // What is committed before the source was read would be part of that read, and this source has nothing to read.
    let deadline = Instant::now() + DEADLINE;
    while !hub.with(|core, _| core.published().is_loaded()) {
        assert!(Instant::now() < deadline, "the source of distributor {instance} is not read");
        tokio::task::yield_now().await;
    }
    let zmq = || free_place().replace("tcp://", "zmq://");
    let place = bound(zmq, async |place| ZmqServer::bind(&hub, &place).await.is_ok()).await;
    (hub, place)
}

/// Commits at a pace at which what is lost is fetched before much else has come behind it.
async fn change(hubs: &[&Arc<Hub>], revs: std::ops::RangeInclusive<u64>) {
    for rev in revs {
        hubs.iter().for_each(|hub| hub.committed(commit(rev)));
        if rev % 50 == 0 {
            tokio::time::sleep(PACE).await; // poll pause: lets the sockets be read
        }
    }
}

/// Each node follows five topics, so that each topic has two nodes.
fn followed(node: u64) -> impl Iterator<Item = Topic> {
    (0..5).map(move |number| topic(node * 5 + number))
}

async fn digests(follower: &Follower) -> BTreeMap<String, Digest> {
    let topics = follower.topics().await.into_iter();
    topics.map(|status| (status.topic.to_string(), status.digest)).collect()
}

/// What a distributor holds of topics.
fn served(hub: &Hub, topics: impl Iterator<Item = Topic>) -> BTreeMap<String, Digest> {
    let digest = |topic: &Topic| hub.with(|core, _| core.published().view(topic).map(|view| view.digest()));
    topics.map(|topic| (topic.to_string(), digest(&topic).unwrap_or_default())).collect()
}

/// Waits until every node holds what the distributor holds; there is time as long as they come nearer.
async fn agree(nodes: &[Follower], hub: &Hub) -> Duration {
    let start = Instant::now();
    for (node, follower) in nodes.iter().enumerate() {
        let wanted = served(hub, followed(node as u64));
        let (mut held, mut since) = (digests(follower).await, Instant::now());
        while held != wanted {
            assert!(since.elapsed() < DEADLINE, "node {node}: {:?}", follower.counts().await);
            tokio::time::sleep(Duration::from_millis(20)).await; // poll until the deadline
            let now = digests(follower).await;
            if now != held {
                (held, since) = (now, Instant::now());
            }
        }
    }
    start.elapsed()
}

async fn sum(nodes: &[Follower], count: impl Fn(SubscriberCounts) -> u64) -> u64 {
    let mut sum = 0;
    for follower in nodes {
        sum += count(follower.counts().await);
    }
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_nodes_under_loss_never_fetch_everything_again() {
    let (one, first) = distributor(1).await;
    let (two, second) = distributor(2).await;
    let mut nodes = Vec::new();
    for node in 0..NODES {
        let identity = (u128::from(node), node);
        let places = vec![first.clone(), second.clone()];
        let network = Connector::Network(Network::new());
        let (follower, mut events) =
            Follower::start(settings(), format!("n{node}"), identity, network, places, None);
        for topic in followed(node) {
            follower.follow(topic).await;
        }
        // Nobody looks at the changes here: the digests tell.
        tokio::spawn(async move { while events.recv().await.is_some() {} });
        nodes.push(follower);
    }
    change(&[&one, &two], 1..=ITEMS).await;
    let all = || (0..TOPICS).map(topic);
    assert_eq!(served(&one, all()), served(&two, all()), "both distributors hold the same");
    agree(&nodes, &two).await;
    // Half of the items change: 5 000 changes, each for two nodes, of which either hears one distributor.
    let fetched = |counts: SubscriberCounts| counts.fetched;
    let (before, lost) = (sum(&nodes, fetched).await, one.lost() + two.lost());
    change(&[&one, &two], ITEMS + 1..=ITEMS + ITEMS / 2).await;
    agree(&nodes, &two).await;
    // What came behind a gap may be fetched with it, but nothing is fetched because it is there: to read a topic of 200
    // items again for every gap would be many times as much.
    let (lost, fetched) = (one.lost() + two.lost() - lost, sum(&nodes, fetched).await - before);
    assert!(lost > 500 && fetched <= 8 * lost, "{fetched} changes were fetched, {lost} were lost");
    // The other half, and a distributor dies in the middle of it.
    change(&[&one, &two], ITEMS * 3 / 2 + 1..=ITEMS * 7 / 4).await;
    one.abort();
    change(&[&two], ITEMS * 7 / 4 + 1..=ITEMS * 2).await;
    let took = agree(&nodes, &two).await;
    assert_eq!(sum(&nodes, |counts| counts.mismatches + counts.deltas).await, 0);
    let (gaps, snapshots) =
        (sum(&nodes, |counts| counts.gaps).await, sum(&nodes, |counts| counts.snapshots).await);
    assert!(gaps > 0 && snapshots <= NODES * 5, "{gaps} gaps, {snapshots} snapshots, {took:?}");
}
