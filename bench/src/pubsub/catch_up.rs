//! What it costs to catch up: a thousand missed changes among many items, from the log, by digests, and with everything.

use std::time::{Duration, Instant};

use anyhow::bail;
use kilter_pubsub::{
    Change, Commit, Delivery, ItemKey, LogId, Moment, Output, Publisher, SessionId, Settings, Subscriber,
    Topic, wire,
};
use serde_json::{Value, json};

const MISSED: u64 = 1000;
const SESSION: SessionId = SessionId(1);

fn item(number: u64) -> ItemKey {
    ItemKey::new("table", format!("item-{number:08}"))
}

fn value(number: u64) -> Vec<u8> {
    format!("{number:0200}").into_bytes()
}

/// Two machines and the bytes between them, without a network.
struct Pair {
    publisher: Publisher,
    subscriber: Subscriber,
    now: Moment,
}

impl Pair {
    /// Connects, and carries frames until the subscriber holds everything; the answer is bytes down, bytes up, time.
    fn settle(&mut self, topic: &Topic, head: u64) -> anyhow::Result<(usize, usize, Duration)> {
        let (mut down, mut up, start) = (0, 0, Instant::now());
        self.publisher.disconnected(SESSION);
        self.publisher.connected(SESSION, self.now);
        self.subscriber.disconnected(self.now);
        for _ in 0..10_000_000 {
            self.subscriber.advance(self.now);
            while let Some(output) = self.subscriber.output() {
                match output {
                    Output::Connect(_) => self.subscriber.connected(self.now),
                    Output::Send(message) => {
                        let frame = wire::encode(&message);
                        up += frame.len();
                        let message = wire::decode(&frame)?;
                        message
                            .into_iter()
                            .for_each(|message| self.publisher.receive(SESSION, message, self.now));
                    }
                    Output::Disconnect
                    | Output::Changed { .. }
                    | Output::Synced(_)
                    | Output::Read { .. }
                    | Output::Report(_) => {}
                }
            }
            while let Some(frame) = self.publisher.take(SESSION, self.now) {
                down += frame.len();
                wire::decode(&frame)?
                    .into_iter()
                    .for_each(|message| self.subscriber.receive(message, self.now));
            }
            let done = self
                .subscriber
                .topics()
                .iter()
                .any(|status| status.topic == *topic && status.applied >= Some(head));
            if done {
                return Ok((down, up, start.elapsed()));
            }
            self.now = self.now.after(Duration::from_micros(100));
        }
        bail!("it never catches up")
    }

    fn commit(&mut self, topic: &Topic, rev: u64, key: u64) {
        let changes = vec![(topic.clone(), Change::put(item(key), rev, value(rev)))];
        self.publisher.append(Commit { rev, changes }, self.now);
    }
}

pub(crate) fn run(count: u64) -> anyhow::Result<Value> {
    let topic = Topic::new("topic");
    let now = Moment::from_millis(1);
    let settings = Settings { log_slices: 2000, ..Settings::default() };
    let mut publisher = Publisher::new(settings.clone(), Delivery::Cursors, 1, 1);
    let all = (0..count).map(|key| (topic.clone(), Change::put(item(key), 1 + key, value(key)))).collect();
    publisher.load(LogId(1), count, all, now);
    let mut subscriber = Subscriber::new(settings, "node", 1, ["here".to_owned()], 1, now);
    subscriber.follow(topic.clone(), now);
    let mut pair = Pair { publisher, subscriber, now };
    let full = pair.settle(&topic, count)?;
    let mut rev = count;
    let mut miss = |pair: &mut Pair, times: u64| {
        for missed in 0..times {
            rev += 1;
            pair.commit(&topic, rev, missed % MISSED * 97 % count);
        }
        rev
    };
    let head = miss(&mut pair, MISSED);
    let range = pair.settle(&topic, head)?;
    // More than the log holds, of the same items: the log does not reach back.
    let head = miss(&mut pair, 3 * MISSED);
    let delta = pair.settle(&topic, head)?;
    let counts = pair.subscriber.counts();
    if (counts.snapshots, counts.deltas) != (1, 1) {
        bail!("not the ways that were meant: {counts:?}");
    }
    let shown = |(down, up, time): (usize, usize, Duration)| json!({"bytes_down": down, "bytes_up": up, "ms": time.as_secs_f64() * 1e3});
    Ok(json!({"case": "f", "n": count, "missed": MISSED, "full_read": shown(full), "log": shown(range),
        "digests": shown(delta)}))
}
