//! NATS: a server between the two sides, which may die, forget and be purged.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kilter_pubsub::Delivery;
use kilter_pubsub::transport::{Connector, NatsServer, Network};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::truth::{Consumer, DEADLINE, Truth, comes_live, free_place, survives_a_kill};

/// A server with JetStream that ends with the test.
struct Broker {
    child: Option<Child>,
    port: u16,
    directory: TempDir,
}

impl Broker {
    async fn start() -> Self {
        Self::start_with("").await
    }

    /// One with lines of its configuration.
    async fn start_with(lines: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("lines"), lines).unwrap();
        let mut broker = Self { child: None, port: 0, directory };
        let deadline = Instant::now() + DEADLINE;
        loop {
            broker.port = free_place().rsplit(':').next().unwrap().parse().unwrap();
            if broker.is_begun().await {
                return broker;
            }
            assert!(Instant::now() < deadline, "no server can be begun");
        }
    }

    async fn run(&mut self) {
        let deadline = Instant::now() + DEADLINE;
        while !self.is_begun().await {
            assert!(Instant::now() < deadline, "the server does not come back");
        }
    }

    /// Begins it; not if somebody else has the place.
    async fn is_begun(&mut self) -> bool {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python/bin/nats-server");
        // Whatever becomes of the test, the server does not outlive it.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", program, "-a", "127.0.0.1", "-p", &self.port.to_string(), "-c"])
            .arg(self.directory.path().join("lines"))
            .args(["-js", "-sd"])
            .arg(self.directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.expect("nats-server is there, hint: cargo xtask test");
        let deadline = Instant::now() + DEADLINE;
        loop {
            let is_there = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_ok();
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            if is_there {
                self.child = Some(child);
                return true;
            }
            assert!(Instant::now() < deadline, "the server is not ready");
            tokio::time::sleep(Duration::from_millis(20)).await; // poll until the deadline
        }
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Asks JetStream something, and waits until it is done.
    async fn ask(&self, subject: &str) {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let words = format!("CONNECT {{}}\r\nSUB back 1\r\nPUB {subject} back 0\r\n\r\n");
        stream.write_all(words.as_bytes()).await.unwrap();
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains("\"success\"") {
            let read = tokio::time::timeout(DEADLINE, stream.read_buf(&mut said)).await;
            assert!(matches!(read, Ok(Ok(1..))), "{subject}: {}", String::from_utf8_lossy(&said));
        }
    }

    fn place(&self) -> String {
        format!("nats://127.0.0.1:{}/d1", self.port)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}

fn nats() -> Connector {
    Connector::Network(Network::new())
}

#[tokio::test]
async fn a_publisher_over_nats_is_killed_and_nothing_is_lost() {
    let broker = Broker::start().await;
    survives_a_kill(
        nats(),
        || broker.place(),
        Delivery::Broadcast,
        |hub, place| async move { NatsServer::bind(&hub, &place).await.is_ok() },
    )
    .await;
}

#[tokio::test]
async fn a_nats_server_that_is_killed_and_forgets_everything_loses_nothing() {
    let mut broker = Broker::start().await;
    let truth = Truth::new();
    let hub = truth.hub(Delivery::Broadcast, 1);
    NatsServer::bind(&hub, &broker.place()).await.unwrap();
    truth.commit(&["before"], &[]);
    let mut consumer = Consumer::start(nats(), vec![broker.place()], 2).await;
    consumer.agrees(&truth, &hub).await;
    broker.kill();
    truth.commit(&["while it was dead"], &["before"]);
    broker.run().await;
    truth.commit(&["after it came back"], &[]);
    consumer.agrees(&truth, &hub).await;
    let counts = consumer.follower.counts().await;
    assert_eq!((counts.snapshots, counts.mismatches), (1, 0), "{counts:?}");
}

#[tokio::test]
async fn a_stream_that_is_purged_and_then_deleted_loses_nothing() {
    let broker = Broker::start().await;
    let truth = Truth::new();
    let hub = truth.hub(Delivery::Broadcast, 1);
    NatsServer::bind(&hub, &broker.place()).await.unwrap();
    let mut consumer = Consumer::start(nats(), vec![broker.place()], 2).await;
    for round in 0..20 {
        truth.commit(&[&format!("key{}", round % 5)], &[]);
        match round {
            7 => broker.ask("$JS.API.STREAM.PURGE.kilter-d1").await,
            13 => broker.ask("$JS.API.STREAM.DELETE.kilter-d1").await,
            _ => {}
        }
    }
    consumer.agrees(&truth, &hub).await;
    assert!(consumer.follower.counts().await.snapshots <= 1);
}

#[tokio::test]
async fn what_is_larger_than_the_server_takes_comes_in_parts() {
    let broker = Broker::start_with("max_payload: 4096\n").await;
    let truth = Truth::new();
    let hub = truth.hub(Delivery::Broadcast, 1);
    NatsServer::bind(&hub, &broker.place()).await.unwrap();
    // Everything at once, and then by digests: many times what the server takes.
    let keys: Vec<String> = (0..2000).map(|number| format!("key{number}")).collect();
    let all: Vec<&str> = keys.iter().map(String::as_str).collect();
    all.chunks(100).for_each(|some| truth.commit(some, &[]));
    let mut consumer = Consumer::start(nats(), vec![broker.place()], 2).await;
    consumer.agrees(&truth, &hub).await;
    let before = consumer.follower.counts().await;
    // A slice of a thousand changes, as it happens.
    comes_live(&mut consumer, &truth, &hub, |round| truth.commit(&all[round * 10..round * 10 + 1000], &[]))
        .await;
    let counts = consumer.follower.counts().await;
    assert_eq!(
        (counts.snapshots, counts.deltas, counts.sessions_lost),
        (1, before.deltas, before.sessions_lost)
    );
    // Whoever comes back to another log compares digests, up and down.
    hub.abort();
    let hub = truth.hub(Delivery::Broadcast, 2);
    truth.commit(&all[..500], &[]);
    NatsServer::bind(&hub, &broker.place()).await.unwrap();
    consumer.agrees(&truth, &hub).await;
    let counts = consumer.follower.counts().await;
    assert_eq!((counts.snapshots, counts.garbled, counts.mismatches), (1, 0, 0), "{counts:?}");
}
