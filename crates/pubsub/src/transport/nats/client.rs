//! A connection to a NATS server: the text protocol, as much of it as is spoken here.
//!
//! **Why** not a library: publish, subscribe and a handful of JSON requests to JetStream are all that is needed, and the
//! usual client brings sixty crates for them. What a connection has not said when it ends is lost; whoever uses it knows.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::task::JoinHandle;

use crate::transport::hub::Pace;
use crate::transport::outlet::{Queue, Room, joined};

use super::KEPT_BYTES;
use super::parts::split;

/// How long the server may take to greet.
const GREETING: Duration = Duration::from_secs(5);

/// The longest line and the largest message that are believed.
const LONGEST: usize = 64 << 10;
const LARGEST: usize = 64 << 20;

/// The largest message that a server takes which does not say so.
const USUAL: usize = 1 << 20;

/// How long the server may take nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much waits to be said: as much as the stream keeps, which would drop the rest itself.
const WAITING: Room = Room { frames: usize::MAX, bytes: KEPT_BYTES };

const CONNECT: &[u8] =
    b"CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"rust\",\"name\":\"kilter\",\
    \"version\":\"0\",\"protocol\":1,\"headers\":true,\"no_responders\":true}\r\nPING\r\n";

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// A message that was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delivered {
    /// The subscription it was delivered for.
    pub(super) sid: u64,
    /// Where an answer would go.
    pub(super) reply: Option<String>,
    /// What the server says about it instead of a body: 503, nobody is there; 100, a sign of life.
    pub(super) status: Option<u16>,
    pub(super) body: Bytes,
}

/// One thing the server said.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Delivered(Delivered),
    Ping,
    Pong,
    /// How large a message may be.
    Limit(usize),
    Failed(String),
    Other,
}

/// Says things to the server. Cloning is cheap.
#[derive(Clone, Debug)]
pub(super) struct Speaker {
    queue: Arc<Queue>,
    /// How large a message may be.
    limit: Arc<AtomicUsize>,
    /// How many frames went in parts.
    split: Arc<AtomicU32>,
}

impl Speaker {
    fn say(&self, words: impl Into<Bytes>, pace: Pace) -> io::Result<()> {
        self.queue.push(words.into()).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        self.queue.prompt(pace);
        Ok(())
    }

    /// Publishes something; an error if more waits than may, or the connection has ended.
    pub(super) fn publish(&self, subject: &str, reply: Option<&str>, body: &Bytes) -> io::Result<()> {
        self.say(self.words(subject, reply, body), Pace::Busy)
    }

    /// The same at a pace.
    pub(super) fn cry(&self, subject: &str, reply: Option<&str>, body: &Bytes, pace: Pace) -> io::Result<()> {
        self.say(self.words(subject, reply, body), pace)
    }

    /// The same, and waits for room.
    pub(super) async fn published(&self, subject: &str, body: &Bytes) -> io::Result<()> {
        let is_said = self.queue.pushed(self.words(subject, None, body)).await;
        self.queue.prompt(Pace::Busy);
        if is_said { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    /// What publishes a body: as many messages as the server wants it in, one behind the other.
    fn words(&self, subject: &str, reply: Option<&str>, body: &Bytes) -> Bytes {
        let limit = self.limit.load(Ordering::Relaxed);
        if body.len() <= limit {
            return publication(subject, reply, body);
        }
        let number = self.split.fetch_add(1, Ordering::Relaxed);
        joined(split(body, limit, number).iter().map(|part| publication(subject, reply, part)).collect())
    }

    pub(super) fn subscribe(&self, subject: &str, sid: u64) -> io::Result<()> {
        self.say(format!("SUB {subject} {sid}\r\n"), Pace::Busy)
    }

    pub(super) fn unsubscribe(&self, sid: u64) -> io::Result<()> {
        self.say(format!("UNSUB {sid}\r\n"), Pace::Busy)
    }
}

fn publication(subject: &str, reply: Option<&str>, body: &[u8]) -> Bytes {
    let length = body.len().to_string();
    let mut words = BytesMut::with_capacity(subject.len() + reply.map_or(0, str::len) + body.len() + 32);
    for word in ["PUB", subject].into_iter().chain(reply) {
        words.extend_from_slice(word.as_bytes());
        words.extend_from_slice(b" ");
    }
    words.extend_from_slice(length.as_bytes());
    words.extend_from_slice(b"\r\n");
    words.extend_from_slice(body);
    words.extend_from_slice(b"\r\n");
    words.freeze()
}

/// Connects to `HOST:PORT`. The connection lasts as long as the listener.
pub(super) async fn connect(server: &str) -> io::Result<(Speaker, Listener)> {
    let connecting = async {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let (mut reader, mut writer) = stream.into_split();
        let mut buffer = BytesMut::with_capacity(64 << 10);
        let mut limit = USUAL;
        writer.write_all(CONNECT).await?;
        loop {
            match parse(&mut buffer)? {
                Some(Said::Pong) => return Ok((reader, buffer, writer, limit)),
                Some(Said::Limit(said)) => limit = said,
                Some(Said::Failed(text)) => return Err(wrong(&text)),
                Some(Said::Delivered(_) | Said::Ping | Said::Other) => {}
                None if reader.read_buf(&mut buffer).await? == 0 => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                None => {}
            }
        }
    };
    let connected = tokio::time::timeout(GREETING, connecting).await;
    let (reader, buffer, writer, limit) =
        connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let queue = Arc::new(Queue::new(writer, WAITING));
    let writes = Arc::clone(&queue);
    let writing = tokio::spawn(async move { drop(writes.drain(PATIENCE).await) });
    let speaker = Speaker { queue, limit: Arc::new(AtomicUsize::new(limit)), split: Arc::default() };
    Ok((speaker.clone(), Listener { reader, buffer, speaker, writing }))
}

/// Hears what the server says, and answers when it asks for a sign of life.
pub(super) struct Listener {
    reader: OwnedReadHalf,
    buffer: BytesMut,
    speaker: Speaker,
    writing: JoinHandle<()>,
}

impl Listener {
    /// The next message that was read whole.
    pub(super) fn ready(&mut self) -> io::Result<Option<Delivered>> {
        loop {
            match parse(&mut self.buffer)? {
                Some(Said::Delivered(message)) => return Ok(Some(message)),
                Some(Said::Ping) => self.speaker.say(&b"PONG\r\n"[..], Pace::Busy)?,
                Some(Said::Limit(limit)) => self.speaker.limit.store(limit, Ordering::Relaxed),
                Some(Said::Failed(text)) => return Err(wrong(&text)),
                Some(Said::Pong | Said::Other) => {}
                None => return Ok(None),
            }
        }
    }

    /// Reads more; an error at the end. Dropping the future loses nothing.
    pub(super) async fn read(&mut self) -> io::Result<()> {
        let length = tokio::select! {
            biased;
            length = self.reader.read_buf(&mut self.buffer) => length?,
            // Whatever ends ends the connection.
            _ = &mut self.writing => 0,
        };
        if length == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// The next message; an error at the end. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> io::Result<Delivered> {
        loop {
            if let Some(message) = self.ready()? {
                return Ok(message);
            }
            self.read().await?;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.writing.abort();
        self.speaker.queue.close();
    }
}

/// The messages that are delivered by pieces which come one after the other, up to the first nonsense.
pub(super) fn parse_whole(pieces: &[&[u8]]) -> Vec<Delivered> {
    let (mut buffer, mut delivered) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parse(&mut buffer) {
                Ok(Some(Said::Delivered(message))) => delivered.push(message),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return delivered,
            }
        }
    }
    delivered
}

/// Takes one thing out of what was read; nothing if it is not all there yet.
fn parse(buffer: &mut BytesMut) -> io::Result<Option<Said>> {
    let Some(end) = buffer.windows(2).take(LONGEST).position(|pair| pair == b"\r\n") else {
        return if buffer.len() > LONGEST { Err(wrong("a line is too long")) } else { Ok(None) };
    };
    let line = std::str::from_utf8(&buffer[..end]).map_err(|_| wrong("a line is not text"))?;
    let mut words = line.split_ascii_whitespace();
    let verb = words.next().unwrap_or_default().to_ascii_uppercase();
    let has_headers = verb == "HMSG";
    let said = match verb.as_str() {
        "MSG" | "HMSG" => {
            let words: Vec<&str> = words.collect();
            let sizes = if has_headers { 2 } else { 1 };
            let number = |at: usize| -> io::Result<usize> {
                let word = words.len().checked_sub(at).and_then(|at| words.get(at));
                word.and_then(|word| word.parse().ok()).ok_or_else(|| wrong("a message has no size"))
            };
            let sid = words.get(1).and_then(|word| word.parse().ok());
            let sid = sid.ok_or_else(|| wrong("a message has no subscription"))?;
            let reply = (words.len() == 3 + sizes).then(|| words[2].to_owned());
            let total = number(1)?;
            let head = if has_headers { number(2)? } else { 0 };
            if total > LARGEST || head > total {
                return Err(wrong("a message is too large"));
            }
            if buffer.len() < end + 2 + total + 2 {
                return Ok(None);
            }
            buffer.advance(end + 2);
            let headers = buffer.split_to(head);
            let body = buffer.split_to(total - head).freeze();
            buffer.advance(2);
            let status = std::str::from_utf8(&headers).ok().and_then(status);
            return Ok(Some(Said::Delivered(Delivered { sid, reply, status, body })));
        }
        "PING" => Said::Ping,
        "PONG" => Said::Pong,
        "-ERR" => Said::Failed(line.to_owned()),
        "INFO" => limit(line).map_or(Said::Other, Said::Limit),
        _ => Said::Other,
    };
    buffer.advance(end + 2);
    Ok(Some(said))
}

/// How large a message may be, in `INFO {"max_payload":1048576}`.
fn limit(line: &str) -> Option<usize> {
    let told: serde_json::Value = serde_json::from_str(line.get(4..)?).ok()?;
    usize::try_from(told.get("max_payload")?.as_u64()?).ok().filter(|limit| *limit > 0)
}

/// The status in headers such as `NATS/1.0 503`.
fn status(headers: &str) -> Option<u16> {
    headers.lines().next()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_whole_or_not_yet() {
        let wire = b"MSG a.b 7 5\r\nhello\r\nHMSG a 8 back 16 18\r\nNATS/1.0 503\r\n\r\nok\r\nPING\r\n-ERR 'no'\r\nINFO {}\r\nINFO {\"max_payload\":7}\r\n";
        let mut buffer = BytesMut::new();
        let mut said = Vec::new();
        for byte in wire {
            buffer.extend_from_slice(&[*byte]);
            said.extend(parse(&mut buffer).unwrap());
        }
        assert!(buffer.is_empty());
        let first = Delivered { sid: 7, reply: None, status: None, body: Bytes::from_static(b"hello") };
        let second = Delivered {
            sid: 8,
            reply: Some("back".to_owned()),
            status: Some(503),
            body: Bytes::from_static(b"ok"),
        };
        let failed = Said::Failed("-ERR 'no'".to_owned());
        let messages = [Said::Delivered(first), Said::Delivered(second)];
        let rest = [Said::Ping, failed, Said::Other, Said::Limit(7)];
        assert!(said.iter().eq(messages.iter().chain(&rest)), "{said:?}");
    }

    #[test]
    fn nonsense_is_refused() {
        for wire in [&b"MSG a\r\n"[..], b"MSG a 1 99999999999\r\n", b"HMSG a 1 9 3\r\n", b"\xff\xff\r\n"] {
            assert!(parse(&mut BytesMut::from(wire)).is_err(), "{wire:?}");
        }
        assert!(parse(&mut BytesMut::from(&vec![b'x'; LONGEST + 2][..])).is_err());
    }
}
