//! ZeroMQ: lossy, silent about it, and still exact; and read by peers of another implementation.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use kilter_pubsub::transport::{Connector, Event, Follower, Network, ZmqServer};
use kilter_pubsub::{Change, Delivery, ItemKey, LogId, Settings, SourceRead};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::truth::{Consumer, DEADLINE, Truth, bound, comes_live, free_place, survives_a_kill};

fn zmq() -> Connector {
    Connector::Network(Network::new())
}

fn place() -> String {
    free_place().replace("tcp://", "zmq://")
}

#[tokio::test]
async fn a_publisher_over_zeromq_is_killed_and_nothing_is_lost() {
    survives_a_kill(zmq(), place, Delivery::Broadcast, |hub, place| async move {
        ZmqServer::bind(&hub, &place).await.is_ok()
    })
    .await;
}

/// Prints what libzmq hears about one topic: action, key, value.
const LISTENER: &str = r#"
import sys, zmq, msgpack
socket = zmq.Context().socket(zmq.SUB)
socket.connect(sys.argv[1])
socket.setsockopt(zmq.SUBSCRIBE, b"tenant\0")
while True:
    topic, body = socket.recv_multipart()
    said = msgpack.unpackb(body, raw=False)
    print(topic.decode().encode("unicode_escape").decode(), said["action"], said["key"], said["value"], flush=True)
"#;

/// A program in Python that ends with the test.
fn python(program: &str, arguments: &[&str]) -> Child {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python");
    assert!(python.exists(), "no Python with pyzmq and msgpack, hint: cargo xtask test");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(python).args(["-c", program]).args(arguments);
    command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
}

#[tokio::test]
async fn a_libzmq_subscriber_reads_what_is_published_before_and_after_a_kill() {
    let truth = Truth::new();
    let hub = truth.hub(Delivery::Broadcast, 1);
    let place = bound(place, async |place| ZmqServer::bind(&hub, &place).await.is_ok()).await;
    let mut listener = python(LISTENER, &[&place.replace("zmq://", "tcp://")]);
    let mut lines = BufReader::new(listener.stdout.take().unwrap()).lines();
    let mut hears = async |wanted: &str| {
        let found = tokio::time::timeout(DEADLINE, async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains(wanted) {
                    return true;
                }
            }
            false
        });
        assert!(found.await.expect("within the deadline"), "{wanted}");
    };
    truth.commit(&["first"], &[]);
    // A hello comes every heartbeat, so the listener is there when one was heard.
    hears("tenant\\x00 hello None None").await;
    truth.commit(&["seen"], &["first"]);
    hears("tenant\\x00 set seen seen at 2").await;
    hears("tenant\\x00 delete first None").await;
    hub.abort();
    drop(hub);
    let hub = truth.hub(Delivery::Broadcast, 2);
    let deadline = Instant::now() + DEADLINE;
    while ZmqServer::bind(&hub, &place).await.is_err() {
        assert!(Instant::now() < deadline, "the place is not free again");
        tokio::time::sleep(Duration::from_millis(50)).await; // poll until the place is free
    }
    let mut consumer = Consumer::start(zmq(), vec![place], 4).await;
    consumer.agrees(&truth, &hub).await;
    hears("hello").await;
    truth.commit(&["again"], &[]);
    hears("tenant\\x00 set again again at 3").await;
    consumer.agrees(&truth, &hub).await;
}

/// Stands between a subscriber and a publisher with sockets of libzmq: XPUB and ROUTER in front, XSUB and DEALER behind.
const BETWEEN: &str = r#"
import sys, zmq
near, far = int(sys.argv[1]), int(sys.argv[2])
context, poller = zmq.Context(), zmq.Poller()
def socket(kind, place, offset, bind):
    socket = context.socket(kind)
    socket.linger = 0
    (socket.bind if bind else socket.connect)("tcp://127.0.0.1:%d" % (place + offset))
    poller.register(socket, zmq.POLLIN)
    return socket
front, back = socket(zmq.XPUB, near, 0, True), socket(zmq.XSUB, far, 0, False)
asked, answers = socket(zmq.ROUTER, near, 1, True), socket(zmq.DEALER, far, 1, False)
who = None
print("ready", flush=True)
while True:
    for ready, _ in poller.poll():
        parts = ready.recv_multipart()
        if ready is front: back.send_multipart(parts)
        elif ready is back: front.send_multipart(parts)
        elif ready is asked: who = parts[0]; answers.send_multipart(parts[1:])
        elif who is not None: asked.send_multipart([who] + parts)
"#;

fn port(place: &str) -> &str {
    place.rsplit(':').next().unwrap()
}

/// Begins it; nothing if somebody else has the place.
async fn begin_between(near: &str, far: &str) -> Option<Child> {
    let mut between = python(BETWEEN, &[port(near), port(far)]);
    let mut lines = BufReader::new(between.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap();
    (line.as_deref() == Some("ready")).then_some(between)
}

#[tokio::test]
async fn a_subscriber_of_libzmq_sockets_that_are_killed_and_restarted_loses_nothing() {
    let truth = Truth::new();
    let hub = truth.hub(Delivery::Broadcast, 1);
    let far = bound(place, async |place| ZmqServer::bind(&hub, &place).await.is_ok()).await;
    truth.commit(&["before"], &[]);
    let (near, mut between) = loop {
        let near = place();
        if let Some(between) = begin_between(&near, &far).await {
            break (near, between);
        }
    };
    let mut consumer = Consumer::start(zmq(), vec![near.clone()], 2).await;
    consumer.agrees(&truth, &hub).await;
    comes_live(&mut consumer, &truth, &hub, |key| truth.commit(&[&format!("key{key}")], &[])).await;
    between.kill().await.unwrap();
    truth.commit(&["while it was dead"], &["before", "key3"]);
    let deadline = Instant::now() + DEADLINE;
    let _between = loop {
        match begin_between(&near, &far).await {
            Some(between) => break between,
            None => assert!(Instant::now() < deadline, "the place is not free again"),
        }
    };
    truth.commit(&["after it came back"], &["key4"]);
    consumer.agrees(&truth, &hub).await;
    let counts = consumer.follower.counts().await;
    assert_eq!((counts.snapshots, counts.mismatches), (1, 0), "{counts:?}");
}

/// Publishes as the first design does, without anything to hold it against: a change of one topic every 20 ms.
const FIRST_DESIGN: &str = r#"
import sys, time, zmq, msgpack
socket = zmq.Context().socket(zmq.PUB)
socket.bind("tcp://127.0.0.1:%s" % sys.argv[1])
print("ready", flush=True)
while True:
    said = {"table": "t", "key": "k", "action": "set", "value": "v", "topic": "tenant"}
    socket.send_multipart([b"tenant", msgpack.packb(said)])
    time.sleep(0.02)
"#;

#[tokio::test]
async fn a_publisher_of_the_first_design_is_served_by_reading_the_store_and_not_for_every_message() {
    let interval = Duration::from_millis(500);
    // Without a message, the store would not be read in this test.
    let settings = Settings {
        fallback_after: Duration::from_secs(3600),
        snapshot_interval: interval,
        ..crate::truth::settings()
    };
    let (place, _publisher) = loop {
        let place = place();
        let mut publisher = python(FIRST_DESIGN, &[port(&place)]);
        let mut lines = BufReader::new(publisher.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap();
        if line.as_deref() == Some("ready") {
            break (place, publisher);
        }
    };
    let (follower, mut events) = Follower::start(settings, "node", (1, 1), zmq(), vec![place], None);
    follower.follow(crate::truth::topic()).await;
    let (mut reads, mut began) = (0_u64, None);
    while reads < 4 {
        let event = tokio::time::timeout(DEADLINE, events.recv()).await.expect("the store is read").unwrap();
        if let Event::Read { read, topic } = event {
            assert_eq!(topic, crate::truth::topic());
            reads += 1;
            began.get_or_insert_with(Instant::now);
            let item = Change::put(ItemKey::new("t", "k"), reads, format!("{reads}"));
            let read_now = SourceRead { log: LogId(1), rev: reads, items: vec![item] };
            follower.source_read(read, Ok(read_now)).await;
        }
    }
    let took = began.unwrap().elapsed();
    assert!(took >= 3 * interval - Duration::from_millis(50), "four reads within {took:?}");
    let status = follower.topics().await.pop().unwrap();
    assert_eq!((status.applied, status.items), (Some(4), 1));
    assert!(follower.counts().await.foreign > 4);
}
