//! ZeroMQ: what happens is published for everybody on one port, and answers are given on the next one.
//!
//! Decided here: which sockets there are. PUB at the first port speaks as the first design does (`envelope`), so that any
//! ZeroMQ peer can read it; ROUTER at the second carries the protocol's own frames, one to a message. What a subscriber of
//! the first port does not take in time is dropped, as ZeroMQ does it: the protocol notices.

mod envelope;
mod zmtp;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

pub use envelope::{Assembler, Heard, published};
pub(crate) use zmtp::read_whole;

use crate::change::Topic;
use crate::message::Message;
use crate::wire::{self, Names};

use super::hub::{Hub, Pace};
use super::outlet::{Queue, Room, joined};
use super::tcp::BindError;
use super::{Arrival, Link, arrival};
use zmtp::{Incoming, Said};

/// How much waits for one subscriber before more is dropped: messages, and about so many bytes.
const HIGH_WATER: Room = Room { frames: 10_000, bytes: 32 << 20 };

/// How many bytes of answers are taken at a time.
const TAKEN: usize = 64 << 10;

/// Somebody who listens to the first port: what it wants to hear, and what waits for it.
struct Listener {
    prefixes: Vec<Bytes>,
    queue: Arc<Queue>,
}

type Listeners = Arc<Mutex<HashMap<u64, Listener>>>;

fn lock(listeners: &Listeners) -> MutexGuard<'_, HashMap<u64, Listener>> {
    listeners.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Publishes for a hub: PUB at a port, ROUTER at the next one.
#[derive(Debug)]
pub struct ZmqServer;

impl ZmqServer {
    /// Listens at `zmq://HOST:PORT` and at the port after it, until the hub ends. **Assumes** a hub that delivers by
    /// broadcast.
    pub async fn bind(hub: &Arc<Hub>, address: &str) -> Result<Self, BindError> {
        let failed = |source: io::Error| BindError { address: address.to_owned(), source };
        let (host, port, next) = place(address).map_err(failed)?;
        let host = if host == "*" { "[::]".to_owned() } else { host };
        // Whoever finds the first one finds the second one.
        let router = TcpListener::bind(format!("{host}:{next}")).await.map_err(failed)?;
        let publisher = TcpListener::bind(format!("{host}:{port}")).await.map_err(failed)?;
        let listeners = Listeners::default();
        let told = Arc::clone(&listeners);
        hub.cried_by(move |message, pace| say(&told, message, pace));
        let accepting = Arc::clone(hub);
        hub.spawn(async move {
            let mut number = 0;
            while let Ok((stream, _)) = publisher.accept().await {
                number += 1;
                let listeners = Arc::clone(&listeners);
                // A subscriber that goes away leaves nothing behind.
                let patience = accepting.patience();
                accepting.spawn(async move { drop(listened(stream, number, listeners, patience).await) });
            }
        });
        let answering = Arc::clone(hub);
        hub.spawn(async move {
            while let Ok((stream, _)) = router.accept().await {
                let hub = Arc::clone(&answering);
                answering.spawn(async move { drop(answered(stream, hub).await) });
            }
        });
        Ok(Self)
    }
}

/// The host, the port of what is published, and the port of answers.
fn place(address: &str) -> io::Result<(String, u16, u16)> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "an address is `zmq://HOST:PORT`");
    let (host, port) = address.trim_start_matches("zmq://").rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    Ok((host.to_owned(), port, port.checked_add(1).ok_or_else(wrong)?))
}

/// Says something to everybody who wants to hear it; whoever is too slow does not.
fn say(listeners: &Listeners, message: &Message, pace: Pace) {
    let wires =
        published(message).into_iter().map(|(topic, body)| (zmtp::encode(&[topic.clone(), body]), topic));
    let wires: Vec<(Bytes, Bytes)> = wires.collect();
    let mut told = Vec::new();
    for listener in lock(listeners).values() {
        let wanted = wires
            .iter()
            .filter(|(_, topic)| listener.prefixes.iter().any(|prefix| topic.starts_with(prefix)));
        if wanted.fold(false, |is_told, (wire, _)| listener.queue.push(wire.clone()).is_ok() || is_told) {
            told.push(Arc::clone(&listener.queue));
        }
    }
    let pace = pace.of(told.len());
    told.iter().for_each(|queue| queue.prompt(pace));
}

/// One subscriber of the first port, until it leaves.
async fn listened(
    stream: TcpStream,
    number: u64,
    listeners: Listeners,
    patience: Duration,
) -> io::Result<()> {
    let (mut incoming, writer) = zmtp::greet(stream, "PUB", &["SUB", "XSUB"]).await?;
    let queue = Arc::new(Queue::new(writer, HIGH_WATER));
    let _listener = Listening { number, listeners: Arc::clone(&listeners) };
    lock(&listeners).insert(number, Listener { prefixes: Vec::new(), queue: Arc::clone(&queue) });
    let read = async {
        while let Some(said) = incoming.message().await? {
            let Some((begins, prefix)) = zmtp::subscription(&said) else { continue };
            if let Some(listener) = lock(&listeners).get_mut(&number) {
                let at = listener.prefixes.iter().position(|known| *known == prefix);
                match (begins, at) {
                    (true, _) => listener.prefixes.push(prefix),
                    (false, Some(at)) => drop(listener.prefixes.swap_remove(at)),
                    (false, None) => {}
                }
            }
        }
        Ok(())
    };
    tokio::select! {
        ended = queue.drain(patience) => ended,
        ended = read => ended,
    }
}

/// Somebody listens, as long as this is there.
struct Listening {
    number: u64,
    listeners: Listeners,
}

impl Drop for Listening {
    fn drop(&mut self) {
        lock(&self.listeners).remove(&self.number);
    }
}

/// One subscriber of the second port: a session of the hub.
async fn answered(stream: TcpStream, hub: Arc<Hub>) -> io::Result<()> {
    let (mut incoming, mut writer) = zmtp::greet(stream, "ROUTER", &["DEALER", "ROUTER", "REQ"]).await?;
    let (id, wake) = hub.open();
    let write = async {
        loop {
            let (frames, is_end) = hub.take(id, TAKEN);
            let is_idle = frames.is_empty();
            let mut batch = joined(frames.into_iter().map(|frame| zmtp::encode(&[frame])).collect());
            while !batch.is_empty() {
                let written = tokio::time::timeout(hub.patience(), writer.write_buf(&mut batch)).await;
                if written.map_err(io::Error::other)?? == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
            }
            if is_end {
                return Ok(());
            }
            if is_idle {
                wake.notified().await;
            }
        }
    };
    let read = async {
        while let Some(said) = incoming.message().await? {
            let Said::Message(parts) = said else { continue };
            // A session that talks nonsense is ended; others do not notice.
            let frame = parts.last().map(|frame| wire::decode(frame));
            match frame {
                Some(Ok(Some(message))) => hub.receive(id, message),
                Some(Ok(None)) | None => {}
                Some(Err(error)) => return Err(io::Error::other(error)),
            }
        }
        Ok(())
    };
    let ended = tokio::select! {
        ended = write => ended,
        ended = read => ended,
    };
    hub.close(id);
    ended
}

/// Connects to a publisher.
pub(super) async fn dial(address: &str) -> io::Result<Link> {
    let (host, port, next) = place(address)?;
    let asking = TcpStream::connect(format!("{host}:{next}")).await;
    let listening = TcpStream::connect(format!("{host}:{port}")).await?;
    let (heard, mut subscriber) = zmtp::greet(listening, "SUB", &["PUB", "XPUB"]).await?;
    let (outgoing, mut to_send) = mpsc::unbounded_channel::<Message>();
    let Ok(asking) = asking else {
        // A publisher of the first design, which is only listened to: to everything, because it is never asked for a topic.
        zmtp::send(&mut subscriber, &[Bytes::from_static(&[1])]).await?;
        tokio::spawn(async move {
            let _listening = subscriber;
            while to_send.recv().await.is_some() {}
        });
        return Ok(Link::Zmq(Box::new(ZmqLink::new(None, heard, outgoing))));
    };
    let (answers, mut asker) = zmtp::greet(asking, "DEALER", &["ROUTER", "DEALER", "REP"]).await?;
    tokio::spawn(async move {
        let mut topics: HashMap<u32, Topic> = HashMap::new();
        while let Some(message) = to_send.recv().await {
            if let Some(wanted) = follow(&mut topics, &message) {
                zmtp::send(&mut subscriber, &[wanted]).await?;
            }
            zmtp::send(&mut asker, &[wire::encode(&message)]).await?;
        }
        Ok::<(), io::Error>(())
    });
    Ok(Link::Zmq(Box::new(ZmqLink::new(Some(answers), heard, outgoing))))
}

/// A subscriber's two sockets; the first one only where somebody answers.
pub(crate) struct ZmqLink {
    answers: Option<Incoming<OwnedReadHalf>>,
    heard: Incoming<OwnedReadHalf>,
    assembler: Assembler,
    names: Names,
    outgoing: mpsc::UnboundedSender<Message>,
}

impl ZmqLink {
    fn new(
        answers: Option<Incoming<OwnedReadHalf>>,
        heard: Incoming<OwnedReadHalf>,
        outgoing: mpsc::UnboundedSender<Message>,
    ) -> Self {
        let (assembler, names) = (Assembler::default(), Names::default());
        Self { answers, heard, assembler, names, outgoing }
    }

    pub(super) fn send(&self, message: Message) {
        // Whoever writes it ends with a socket, whose end is read here.
        let _ = self.outgoing.send(message);
    }

    /// What came next over either socket; nothing at the end of one. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<Vec<Arrival>> {
        loop {
            let batch = self.ready().ok()?;
            if !batch.is_empty() {
                return Some(batch);
            }
            let answered = async {
                match &mut self.answers {
                    Some(answers) => answers.read().await,
                    None => std::future::pending().await,
                }
            };
            let read = tokio::select! {
                read = self.heard.read() => read,
                read = answered => read,
            };
            read.ok().filter(|length| *length > 0)?;
        }
    }

    /// What has been read already.
    fn ready(&mut self) -> io::Result<Vec<Arrival>> {
        let (mut batch, names, assembler) = (Vec::new(), &mut self.names, &mut self.assembler);
        if let Some(answers) = &mut self.answers {
            answers.hear(|parts| {
                batch.extend(parts.last().and_then(|frame| arrival(names, frame)));
                Ok(())
            })?;
        }
        let is_answered = self.answers.is_some();
        self.heard.hear(|parts| {
            match parts.get(1).map(|body| assembler.hear(body)) {
                // Somebody who answers, and did not yet when it was asked.
                Some(Heard::Message(_)) if !is_answered => {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                Some(Heard::Message(message)) => batch.push(Arrival::Message(message)),
                Some(Heard::Foreign) => {
                    batch.extend(parts.first().and_then(|part| envelope::topic(part)).map(Arrival::Foreign))
                }
                Some(Heard::Part) => {}
                Some(Heard::Garbled) | None => batch.push(Arrival::Garbled),
            }
            Ok(())
        })?;
        Ok(batch)
    }
}

/// What a SUB socket says so that it hears what a message asks for; nothing if that is as before.
fn follow(topics: &mut HashMap<u32, Topic>, message: &Message) -> Option<Bytes> {
    let said = |begins: u8, topic: &Topic| {
        let mut said = vec![begins];
        said.extend_from_slice(envelope::filter(topic).as_bytes());
        Bytes::from(said)
    };
    if let Message::Subscribe { sub, topic, .. } = message {
        let is_new = !topics.values().any(|known| known == topic);
        topics.retain(|_, known| known != topic);
        topics.insert(*sub, topic.clone());
        return is_new.then(|| said(1, topic));
    }
    let Message::Unsubscribe { sub } = message else { return None };
    topics.remove(sub).map(|topic| said(0, &topic))
}
