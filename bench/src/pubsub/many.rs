//! Many subscribers: what a session costs in memory, and what a commit for everybody costs in time.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use kilter_pubsub::transport::TcpServer;
use kilter_pubsub::{
    Change, Commit, Delivery, ItemKey, LogId, Message, Mode, Moment, Publisher, SessionId, Settings, Topic,
    wire,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::deliver::{hub, topic};
use super::meter::{Meter, peak_rss_kb};
use super::told::SIZE;

/// How many commits everybody gets.
const COMMITS: u64 = 100;

fn commit(rev: u64, topic: Topic) -> Commit {
    let item = ItemKey::new("table", format!("item-{rev}"));
    Commit { rev, changes: vec![(topic, Change::put(item, rev, vec![b'x'; SIZE]))] }
}

fn hello(number: u64, topic: Topic) -> [Message; 2] {
    [
        Message::Hello { node: format!("node-{number}"), instance: u128::from(number), token: None },
        Message::Subscribe { sub: 1, topic, cursor: None, min_rev: 0, mode: Mode::Resume },
    ]
}

/// Many sessions over TCP that follow a topic: the memory of the distributor for each of them.
pub(crate) async fn sessions(count: usize) -> anyhow::Result<Value> {
    let hub = hub(Delivery::Cursors);
    let server = TcpServer::bind(&hub, "tcp://127.0.0.1:0").await?;
    let before = peak_rss_kb()?;
    let mut streams = Vec::new();
    for number in 0..count as u64 {
        let mut stream = TcpStream::connect(server.address()).await?;
        for message in hello(number, topic()) {
            stream.write_all(&wire::encode(&message)).await?;
        }
        streams.push(stream);
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while hub.with(|core, _| core.published().sessions()) < count {
        ensure!(Instant::now() < deadline, "not every session was accepted");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for rev in 2..2 + COMMITS {
        hub.committed(commit(rev, topic()));
    }
    // Everybody has everything when the last item went through its socket.
    let last = format!("item-{}", 1 + COMMITS).into_bytes();
    let mut buffer = Vec::new();
    for stream in &mut streams {
        buffer.clear();
        while !buffer.windows(last.len()).any(|window| window == last) {
            let read = tokio::time::timeout(Duration::from_secs(60), stream.read_buf(&mut buffer)).await??;
            ensure!(read > 0, "a session ended");
        }
    }
    let after = peak_rss_kb()?;
    let each = after.saturating_sub(before) as f64 / count as f64;
    Ok(json!({"case": "e", "n": count, "rss_kb_before": before, "rss_kb_after": after,
        "kb_per_session": (each * 10.0).round() / 10.0}))
}

/// A commit for every node, without a network: the CPU time of the distributor for each delivery, and the bytes.
pub(crate) fn fan_out(nodes: u64) -> anyhow::Result<Value> {
    let (all, now) = (Topic::new("all"), Moment::default());
    let mut publisher = Publisher::new(Settings::default(), Delivery::Cursors, 1, 1);
    publisher.load(LogId(1), 1, Vec::new(), now);
    let own = |number: u64| Topic::new(format!("node:{number}"));
    for number in 0..nodes {
        let id = SessionId(number);
        publisher.connected(id, now);
        for message in hello(number, all.clone()) {
            publisher.receive(id, message, now);
        }
        let [_, follow] = hello(number, own(number));
        if let Message::Subscribe { topic, cursor, min_rev, mode, .. } = follow {
            publisher.receive(id, Message::Subscribe { sub: 2, topic, cursor, min_rev, mode }, now);
        }
        while publisher.take(id, now).is_some() {}
    }
    let (mut frames, mut bytes) = (0_u64, 0_u64);
    let mut take = |publisher: &mut Publisher| {
        for id in publisher.wakes() {
            while let Some(frame) = publisher.take(id, now) {
                frames += 1;
                bytes += frame.len() as u64;
            }
        }
    };
    take(&mut publisher);
    let to_all = Meter::over(|| {
        for rev in 2..2 + COMMITS {
            publisher.append(commit(rev, all.clone()), now);
            take(&mut publisher);
        }
    });
    let to_one = Meter::over(|| {
        for rev in 0..nodes {
            publisher.append(commit(2 + COMMITS + rev, own(rev)), now);
            take(&mut publisher);
        }
    });
    let deliveries = COMMITS * nodes;
    if frames < deliveries + nodes {
        bail!("{frames} frames for {deliveries} deliveries");
    }
    let micro = |meter: &Meter, count: u64| (meter.cpu_ms() * 1e6 / count as f64).round() / 1e3;
    Ok(
        json!({"case": "g", "n": nodes, "commits_to_all": COMMITS, "us_cpu_per_delivery": micro(&to_all, deliveries),
        "ms_wall_per_commit_to_all": (to_all.wall_ms() / COMMITS as f64 * 100.0).round() / 100.0,
        "us_cpu_per_commit_to_one": micro(&to_one, nodes), "bytes": bytes, "peak_rss_kb": peak_rss_kb()?}),
    )
}
