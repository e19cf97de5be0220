//! NATS: what happens lies in a stream of JetStream, and answers are given through the same server.
//!
//! Decided here: which subjects there are. Slices go through the stream, which whoever follows a topic consumes from; beats
//! are said once and not kept; and whoever follows asks its distributor by name. The server may lose any of it, be
//! restarted, or have its stream purged: the protocol notices, and asks the distributor. What is larger than the server
//! takes goes in parts (`parts`).
//!
//! | subject | what |
//! |---|---|
//! | `kilter.NAME.slice.TOPIC` | a slice of a topic, kept for a while by the stream `kilter-NAME` |
//! | `kilter.NAME.beat.TOPIC` | where the topic stands |
//! | `kilter.NAME.ask` | what subscribers say; each is answered at the subject it names |

mod client;
mod link;
mod parts;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::change::Topic;
use crate::message::Message;
use crate::session::SessionId;
use crate::wire;

use super::hub::{Hub, Pace, lock};
use super::tcp::BindError;
use client::{Delivered, Listener, Speaker, parse_whole};
pub(super) use link::{NatsLink, dial};
use parts::Joining;

/// How much the stream keeps, and for how long.
const KEPT_BYTES: usize = 64 << 20;
const KEPT: Duration = Duration::from_secs(600);

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a consumer that has nothing to tell says so, and how long it may be silent.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);
const SILENCE: Duration = Duration::from_secs(7);

/// How long a distributor waits before it goes back to a server that it lost.
const AGAIN: Duration = Duration::from_millis(500);

/// How often a slice that is published is acknowledged, at most.
const ACKNOWLEDGED: Duration = Duration::from_millis(100);

/// How many bytes of answers are taken at a time.
const TAKEN: usize = 64 << 10;

/// The server and the name in `nats://HOST:PORT/NAME`.
fn place(address: &str) -> io::Result<(String, String)> {
    let place = address.strip_prefix("nats://").unwrap_or(address);
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "an address is `nats://HOST:PORT/NAME`");
    let (server, name) = place.split_once('/').ok_or_else(wrong)?;
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if name.is_empty() || !name.chars().all(is_good) {
        return Err(wrong());
    }
    Ok((server.to_owned(), name.to_owned()))
}

/// A topic as one word of a subject.
fn word(topic: &Topic) -> String {
    let mut word = String::new();
    for byte in topic.as_str().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => word.push(char::from(byte)),
            byte => word.push_str(&format!("%{byte:02x}")),
        }
    }
    // A subject has no empty word.
    if word.is_empty() { "%".to_owned() } else { word }
}

/// A subject that nobody else listens to.
fn inbox() -> String {
    let number = || RandomState::new().build_hasher().finish();
    format!("_INBOX.{:016x}{:016x}", number(), number())
}

/// The subjects of one distributor.
#[derive(Clone, Debug)]
struct Subjects {
    root: String,
    stream: String,
}

impl Subjects {
    fn of(name: &str) -> Self {
        Self { root: format!("kilter.{name}"), stream: format!("kilter-{name}") }
    }

    fn slice(&self, topic: &Topic) -> String {
        format!("{}.slice.{}", self.root, word(topic))
    }

    fn beat(&self, topic: &Topic) -> String {
        format!("{}.beat.{}", self.root, word(topic))
    }

    fn ask(&self) -> String {
        format!("{}.ask", self.root)
    }

    /// Asks JetStream for the stream, which is no error if it is there already.
    fn make_stream(&self, speaker: &Speaker, reply: &str) -> io::Result<()> {
        let config = json!({
            "name": self.stream,
            "subjects": [format!("{}.slice.>", self.root)],
            "retention": "limits",
            "discard": "old",
            "storage": "memory",
            "max_bytes": KEPT_BYTES,
            "max_age": nanos(KEPT),
            "num_replicas": 1,
        });
        let subject = format!("$JS.API.STREAM.CREATE.{}", self.stream);
        speaker.publish(&subject, Some(reply), &config.to_string().into())
    }

    /// Asks JetStream to tell the slices of a topic from now on.
    fn make_consumer(&self, speaker: &Speaker, topic: &Topic, at: &str, reply: &str) -> io::Result<()> {
        let config = json!({
            "stream_name": self.stream,
            "config": {
                "deliver_subject": at,
                "deliver_policy": "new",
                "ack_policy": "none",
                "max_deliver": 1,
                "filter_subject": self.slice(topic),
                "replay_policy": "instant",
                "idle_heartbeat": nanos(SIGN_OF_LIFE),
                "inactive_threshold": nanos(SILENCE),
                "mem_storage": true,
                "num_replicas": 1,
            },
        });
        let subject = format!("$JS.API.CONSUMER.CREATE.{}", self.stream);
        speaker.publish(&subject, Some(reply), &config.to_string().into())
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Why JetStream did not do something; nothing if it did.
fn refusal(answer: &Delivered) -> Option<String> {
    if answer.status.is_some() {
        return Some("JetStream does not answer, hint: start the server with `-js`".to_owned());
    }
    // One comes for every slice, and says nothing of interest.
    if !answer.body.windows(7).any(|word| word == b"\"error\"") {
        return None;
    }
    let answer: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let text = answer.get("error")?.get("description").and_then(Value::as_str);
    Some(text.unwrap_or("JetStream refuses").to_owned())
}

/// Reads bytes that are all there as what a server says, for a fuzzer: how many messages they deliver; nothing if they
/// are others when they come in two pieces.
pub(crate) fn read_whole(bytes: &[u8]) -> Option<usize> {
    let delivered = parse_whole(&[bytes]);
    for message in &delivered {
        // Whatever it is, it is a refusal or not.
        let _ = refusal(message);
    }
    let (first, second) = bytes.split_at(bytes.len() / 2);
    (parse_whole(&[first, second]) == delivered).then_some(delivered.len())
}

/// Publishes for a hub, through a server.
#[derive(Debug)]
pub struct NatsServer;

/// The subscriptions of a distributor.
const ASKED: u64 = 1;
const MADE: u64 = 2;
const KEPT_SLICE: u64 = 3;

impl NatsServer {
    /// Publishes at `nats://HOST:PORT/NAME` until the hub ends; a server that goes away is come back to. **Assumes** a hub
    /// that delivers by broadcast.
    pub async fn bind(hub: &Arc<Hub>, address: &str) -> Result<Self, BindError> {
        let failed = |source: io::Error| BindError { address: address.to_owned(), source };
        let (server, name) = place(address).map_err(failed)?;
        let subjects = Subjects::of(&name);
        let mut desk = Desk::open(&server, subjects.clone()).await.map_err(failed)?;
        hub.cried_by(desk.crier());
        let serving = Arc::clone(hub);
        hub.spawn(async move {
            loop {
                // Whatever went wrong, the server is gone or useless: everything begins anew there. What is said meanwhile
                // is lost, and told by the next beats.
                let _ = desk.serve(&serving).await;
                desk = loop {
                    tokio::time::sleep(AGAIN).await;
                    if let Ok(desk) = Desk::open(&server, subjects.clone()).await {
                        break desk;
                    }
                };
                serving.cried_by(desk.crier());
            }
        });
        Ok(Self)
    }
}

/// A distributor at its server, for as long as the connection lasts.
struct Desk {
    subjects: Subjects,
    speaker: Speaker,
    listener: Listener,
    made: String,
    kept: String,
}

impl Desk {
    async fn open(server: &str, subjects: Subjects) -> io::Result<Self> {
        let (speaker, mut listener) = client::connect(server).await?;
        let (made, kept) = (inbox(), inbox());
        speaker.subscribe(&made, MADE)?;
        speaker.subscribe(&kept, KEPT_SLICE)?;
        subjects.make_stream(&speaker, &made)?;
        let answer = tokio::time::timeout(PATIENCE, listener.next()).await;
        let answer = answer.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        if let Some(refusal) = refusal(&answer).filter(|text| !text.contains("already in use")) {
            return Err(io::Error::other(refusal));
        }
        speaker.subscribe(&subjects.ask(), ASKED)?;
        Ok(Self { subjects, speaker, listener, made, kept })
    }

    /// Publishes what is said to everybody. What a connection that has ended is told is lost.
    ///
    /// **Why** not every slice is acknowledged: what the stream lost is told by the chain, and an acknowledgement only by
    /// whether the stream is there. So one is asked for now and then, and with a beat the stream itself if one was spared.
    fn crier(&self) -> impl Fn(&Message, Pace) + Send + Sync + 'static {
        let (subjects, speaker) = (self.subjects.clone(), self.speaker.clone());
        let (made, kept) = (self.made.clone(), self.kept.clone());
        let asked = Mutex::new(Asked { at: None, is_spared: false });
        move |message, pace| {
            if let Message::Txn(slice) = message {
                let reply = lock(&asked).is_due().then_some(kept.as_str());
                let _ = speaker.cry(&subjects.slice(&slice.topic), reply, &wire::encode(message), pace);
            } else if let Message::Beat { instance, log, head, stale_ms, marks } = message {
                let (instance, log, head, stale_ms) = (*instance, *log, *head, *stale_ms);
                for mark in marks {
                    // Whoever follows a topic is told of this one.
                    let marks = vec![mark.clone()];
                    let beat = wire::encode(&Message::Beat { instance, log, head, stale_ms, marks });
                    let _ = speaker.cry(&subjects.beat(&mark.topic), None, &beat, pace);
                }
                if std::mem::take(&mut lock(&asked).is_spared) {
                    let _ = subjects.make_stream(&speaker, &made);
                }
            }
        }
    }

    async fn serve(&mut self, hub: &Arc<Hub>) -> io::Result<()> {
        let mut sessions: HashMap<String, (SessionId, Joining)> = HashMap::new();
        let (ends, mut ended) = mpsc::unbounded_channel::<String>();
        let mut closing = Closing { hub: Arc::clone(hub), ids: Vec::new() };
        loop {
            let delivered = tokio::select! {
                Some(name) = ended.recv() => {
                    sessions.remove(&name);
                    continue;
                }
                delivered = self.listener.next() => delivered?,
            };
            match (delivered.sid, &delivered.reply) {
                (ASKED, Some(name)) => {
                    let (id, joining) = sessions.entry(name.clone()).or_insert_with(|| {
                        let id = answer(hub, &self.speaker, name.clone(), ends.clone());
                        closing.ids.push(id);
                        (id, Joining::default())
                    });
                    let frame: Option<Bytes> = joining.take(&delivered.body);
                    if let Some(Ok(Some(message))) = frame.map(|frame| wire::decode(&frame)) {
                        hub.receive(*id, message);
                    }
                }
                // A slice that the stream did not keep: it may be gone.
                (KEPT_SLICE, _) if refusal(&delivered).is_some() => {
                    self.subjects.make_stream(&self.speaker, &self.made)?;
                }
                _ => {}
            }
        }
    }
}

/// When the server was asked for an acknowledgement.
struct Asked {
    at: Option<Instant>,
    /// Whether a slice was published without since.
    is_spared: bool,
}

impl Asked {
    fn is_due(&mut self) -> bool {
        let is_due = self.at.is_none_or(|at| at.elapsed() >= ACKNOWLEDGED);
        self.is_spared = !is_due;
        if is_due {
            self.at = Some(Instant::now());
        }
        is_due
    }
}

/// The sessions of a connection, which end with it.
struct Closing {
    hub: Arc<Hub>,
    ids: Vec<SessionId>,
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.ids.iter().for_each(|id| self.hub.close(*id));
    }
}

/// Begins a session with whoever is answered at this subject.
fn answer(hub: &Arc<Hub>, speaker: &Speaker, name: String, ends: mpsc::UnboundedSender<String>) -> SessionId {
    let (id, wake) = hub.open();
    let (answering, speaker) = (Arc::clone(hub), speaker.clone());
    hub.spawn(async move {
        loop {
            let (frames, is_end) = answering.take(id, TAKEN);
            let is_idle = frames.is_empty();
            let mut is_lost = false;
            for frame in frames {
                is_lost |= speaker.published(&name, &frame).await.is_err();
            }
            if is_end || is_lost {
                break;
            }
            if is_idle {
                wake.notified().await;
            }
        }
        answering.close(id);
        // A connection that has ended knows of nobody.
        let _ = ends.send(name);
    });
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_one_word_of_a_subject_and_no_two_are_the_same() {
        let words = ["", "all", "node:n1", "a.b", "a b", "*", ">", "ä"].map(|name| word(&Topic::new(name)));
        assert!(words.iter().all(|word| !word.is_empty() && !word.contains(['.', ' ', '*', '>'])));
        assert_eq!(words.iter().collect::<std::collections::BTreeSet<_>>().len(), words.len());
    }

    #[test]
    fn an_address_names_a_server_and_a_distributor() {
        let (server, name) = place("nats://broker:4222/d1").unwrap();
        assert_eq!((server.as_str(), name.as_str()), ("broker:4222", "d1"));
        assert!(place("nats://broker:4222").is_err() && place("nats://broker:4222/a.b").is_err());
    }
}
