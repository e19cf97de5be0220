//! From a commit to its application, over every transport, beside the bare one.
//!
//! Decided here: that a transport and its bare one run at the same time and are measured in turns, so that whatever else the
//! machine does meets both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use kilter_pubsub::transport::{
    Connector, Event, Follower, Hub, NatsServer, Network, TcpServer, ZmqServer, zmq,
};
use kilter_pubsub::{
    Change, Commit, Delivery, ItemKey, LogId, Message, Request, Settings, Slice, SourceState, Tail, Topic,
    wire,
};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use super::told::{Noticed, PATIENCE, SIZE, Told, latencies, process_cpu_time};
use super::{bare, watch};

/// In how many turns a transport is measured.
const TURNS: u64 = 10;

/// How many items a topic has whose commits come at a pace: 10 000 over 50 topics.
pub(crate) const ITEMS: u64 = 200;

pub(crate) fn topic() -> Topic {
    Topic::new("topic")
}

/// What carries values to every subscriber.
enum Carrier {
    Hub(Arc<Hub>),
    /// Frames of a size.
    Bare(bare::Frames, fn(u64, usize) -> Bytes, usize),
}

/// A commit to one of so many items.
fn commit(rev: u64, items: u64, value: Vec<u8>) -> (Topic, Change) {
    (topic(), Change::put(ItemKey::new("table", format!("item-{}", 1000 + rev % items)), rev, value))
}

/// A message that tells a commit, in the middle of a run.
fn message() -> Message {
    let (topic, change) = commit(1000, ITEMS, vec![b'x'; SIZE]);
    Message::Txn(Slice { log: LogId(1), topic, rev: 1000, prev: 999, known: 999, changes: vec![change] })
}

struct Lab {
    name: &'static str,
    carrier: Carrier,
    told: Told,
    heard: mpsc::UnboundedReceiver<Noticed>,
    rev: u64,
    /// How many items there are.
    items: u64,
    followers: Vec<Follower>,
    noticed: Vec<Noticed>,
    busy: Duration,
    took: Duration,
    applied: u64,
}

impl Lab {
    async fn start(name: &'static str, plan: &Plan) -> anyhow::Result<Self> {
        let (subscribers, nats) = (plan.subscribers, plan.nats.as_deref());
        let room = usize::try_from(plan.commits)?.next_power_of_two();
        let (told, heard) = Told::new();
        let mut followers = Vec::new();
        let length = wire::encode(&message()).len();
        let carrier = match name {
            "bare-channel" => Carrier::Bare(bare::channel(subscribers, room, &told), stamped, length),
            "bare-local" => Carrier::Bare(bare::local(subscribers, room, &told), stamped, length),
            "bare-tcp" => Carrier::Bare(bare::tcp(subscribers, room, &told).await?, bare::tcp_frame, length),
            "bare-zmq" => {
                let length = zmq::published(&message()).first().map_or(0, |(_, body)| body.len());
                Carrier::Bare(bare::zmq(subscribers, room, &told).await?, bare::zmq_frame, length)
            }
            "bare-nats" => {
                let frames = bare::nats(nats.context("no NATS server")?, subscribers, room, &told).await?;
                Carrier::Bare(frames, bare::nats_frame, length)
            }
            _ => {
                let is_told = matches!(name, "zmq" | "nats");
                let hub = hub(if is_told { Delivery::Broadcast } else { Delivery::Cursors });
                let (connector, place) = reach(name, &hub, nats).await?;
                follow(&mut followers, subscribers, &connector, &place, &told).await?;
                Carrier::Hub(hub)
            }
        };
        let (busy, took) = (Duration::ZERO, Duration::ZERO);
        Ok(Self {
            name,
            carrier,
            told,
            heard,
            rev: 1,
            items: plan.items,
            followers,
            noticed: Vec::new(),
            busy,
            took,
            applied: 0,
        })
    }

    fn commit(&mut self) {
        self.rev += 1;
        match &self.carrier {
            // Whoever listens has ended with the process.
            Carrier::Bare(frames, frame, size) => drop(frames.send(frame(self.told.elapsed(), *size))),
            Carrier::Hub(hub) => {
                hub.committed(Commit {
                    rev: self.rev,
                    changes: vec![commit(self.rev, self.items, self.told.stamped())],
                });
            }
        }
    }

    /// Commits so often, with a pause in between or as fast as they are taken, and waits until everybody has everything.
    async fn run(&mut self, commits: u64, pause: Option<Duration>, subscribers: u64) -> anyhow::Result<()> {
        let (busy, start) = (process_cpu_time(), Instant::now());
        let mut ticks = pause.map(tokio::time::interval);
        for number in 0..commits {
            match &mut ticks {
                Some(ticks) => drop(ticks.tick().await),
                None if number % 256 == 0 => tokio::task::yield_now().await,
                None => {}
            }
            self.commit();
        }
        self.applied += commits * subscribers;
        self.told.wait(self.applied).await?;
        self.took += start.elapsed();
        self.busy += process_cpu_time().saturating_sub(busy);
        while let Ok(noticed) = self.heard.try_recv() {
            self.noticed.push(noticed);
        }
        Ok(())
    }

    /// The CPU time of this process for every delivery.
    fn cpu_us(&self) -> f64 {
        (self.busy.as_secs_f64() * 1e7 / self.applied as f64).round() / 10.0
    }

    fn end(self) {
        if let Carrier::Hub(hub) = &self.carrier {
            hub.abort();
        }
    }
}

/// Bytes of a size that begin with when they were made.
fn stamped(stamp: u64, size: usize) -> Bytes {
    let mut frame = vec![b'x'; size];
    frame[..8].copy_from_slice(&stamp.to_le_bytes());
    frame.into()
}

/// Starts subscribers, and waits until each has everything.
async fn follow(
    followers: &mut Vec<Follower>,
    subscribers: usize,
    connector: &Connector,
    place: &str,
    told: &Told,
) -> anyhow::Result<()> {
    let mut synced = Vec::new();
    for number in 0..subscribers {
        let identity = (number as u128, number as u64);
        let places = vec![place.to_owned()];
        let (follower, mut events) =
            Follower::start(settings(), "node", identity, connector.clone(), places, None);
        follower.follow(topic()).await;
        followers.push(follower);
        let (ready, is_ready) = oneshot::channel();
        synced.push(is_ready);
        let told = told.clone();
        tokio::spawn(async move {
            let mut ready = Some(ready);
            while let Some(event) = events.recv().await {
                match event {
                    Event::Synced(_) => drop(ready.take().map(|ready| ready.send(()))),
                    Event::Changed { changes, .. } => {
                        changes
                            .iter()
                            .filter_map(|change| change.value.as_ref())
                            .for_each(|value| told.applied(value));
                    }
                    Event::Read { .. } | Event::Report(_) => {}
                }
            }
        });
    }
    for one in synced {
        tokio::time::timeout(PATIENCE, one).await?.context("a subscriber ended")?;
    }
    Ok(())
}

fn settings() -> Settings {
    Settings { reorder_window: Duration::from_millis(100), ..Settings::default() }
}

/// A hub with an empty source that never changes by itself.
pub(crate) fn hub(delivery: Delivery) -> Arc<Hub> {
    let hub = Hub::start(settings(), delivery, Tail::Watch, 1, 1);
    let source = Arc::clone(&hub);
    tokio::spawn(async move {
        loop {
            if let Request::Read { read } = source.request().await {
                source.source_read(read, Ok(SourceState { log: LogId(1), rev: 1, items: Vec::new() }));
            }
        }
    });
    hub
}

async fn reach(transport: &str, hub: &Arc<Hub>, nats: Option<&str>) -> anyhow::Result<(Connector, String)> {
    let network = Connector::Network(Network::new());
    match transport {
        "local" => Ok((Connector::Local(Arc::clone(hub)), "here".to_owned())),
        "tcp" => {
            let server = TcpServer::bind(hub, "tcp://127.0.0.1:0").await?;
            Ok((network, format!("tcp://{}", server.address())))
        }
        "zmq" => {
            // It takes two ports, and the second may be somebody's.
            for _ in 0..100 {
                let place = format!("zmq://{}", TcpListener::bind("127.0.0.1:0").await?.local_addr()?);
                if ZmqServer::bind(hub, &place).await.is_ok() {
                    return Ok((network, place));
                }
            }
            bail!("no two free ports")
        }
        "nats" => {
            let place = format!("nats://{}/bench", nats.context("no NATS server")?);
            NatsServer::bind(hub, &place).await?;
            Ok((network, place))
        }
        other => bail!("unknown transport `{other}`"),
    }
}

/// What is measured.
pub(crate) struct Plan {
    pub(crate) subscribers: usize,
    pub(crate) commits: u64,
    pub(crate) items: u64,
    /// Where a NATS server is; without it there is no such transport.
    pub(crate) nats: Option<String>,
    /// The only transport that is of interest, beside its bare one.
    pub(crate) only: Option<String>,
}

impl Plan {
    /// The transports, each with the bare ones that it is held against.
    fn transports(&self) -> Vec<&'static [&'static str]> {
        let all: [&[&str]; 4] = [
            &["bare-channel", "bare-local", "local"],
            &["bare-tcp", "tcp"],
            &["bare-zmq", "zmq"],
            &["bare-nats", "nats"],
        ];
        let there = all.into_iter().filter(|names| self.nats.is_some() || !names.contains(&"nats"));
        there.filter(|names| self.only.as_ref().is_none_or(|only| names.contains(&only.as_str()))).collect()
    }

    /// Runs a transport and its bare ones in turns.
    async fn run(&self, names: &[&'static str], pause: Option<Duration>) -> anyhow::Result<Vec<Lab>> {
        let mut labs = Vec::new();
        for name in names {
            labs.push(Lab::start(name, self).await?);
        }
        let turns = TURNS.min(self.commits);
        for turn in 0..turns {
            for lab in &mut labs {
                let commits = self.commits * (turn + 1) / turns - self.commits * turn / turns;
                lab.run(commits, pause, self.subscribers as u64).await?;
            }
        }
        Ok(labs)
    }

    fn told(&self, case: &str, measured: Map<String, Value>) -> Value {
        json!({"case": case, "n": self.commits, "subscribers": self.subscribers, "transports": measured})
    }
}

/// Commits at a pace: how long until each is applied.
pub(crate) async fn paced(plan: Plan) -> anyhow::Result<Value> {
    let is_one = plan.subscribers == 1;
    let pause = Duration::from_millis(if is_one { 1 } else { 10 });
    let mut measured = Map::new();
    for names in plan.transports() {
        for lab in plan.run(names, Some(pause)).await? {
            let mut latency = latencies(&lab.noticed);
            latency["cpu_us"] = lab.cpu_us().into();
            measured.insert(lab.name.to_owned(), latency);
            lab.end();
        }
    }
    if plan.only.as_ref().is_none_or(|only| only == "store") {
        watch::paced(plan.subscribers, plan.commits, pause, &mut measured).await?;
    }
    Ok(plan.told(if is_one { "a" } else { "b" }, measured))
}

/// Commits as fast as they are taken: deliveries per second, and how often something was lost on the way and fetched.
pub(crate) async fn flood(plan: Plan) -> anyhow::Result<Value> {
    let mut measured = Map::new();
    for names in plan.transports() {
        for lab in plan.run(names, None).await? {
            let rate = lab.applied as f64 / lab.took.as_secs_f64();
            let mut fetches = 0;
            for follower in &lab.followers {
                fetches += follower.counts().await.fetches;
            }
            let flood =
                json!({"deliveries_per_second": rate.round(), "cpu_us": lab.cpu_us(), "fetches": fetches});
            measured.insert(lab.name.to_owned(), flood);
            lab.end();
        }
    }
    Ok(plan.told(if plan.subscribers == 1 { "c" } else { "d" }, measured))
}
