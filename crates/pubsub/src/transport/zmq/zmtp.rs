//! ZMTP 3.0, the protocol of ZeroMQ, as much of it as is spoken here: TCP, the mechanism NULL, messages of parts.
//!
//! **Why** not a library: what is needed is a greeting and a length before each part, and PUB, SUB, ROUTER and DEALER are
//! then a few lines each, whose queues and drops are known.

use std::io;
use std::ops::Range;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::transport::tcp::forget;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// How long a greeting may take.
const GREETING: Duration = Duration::from_secs(5);

/// The largest part, and the most parts of a message, that are believed.
const LARGEST: usize = 64 << 20;
const MOST_PARTS: usize = 16;

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// One part of a message on the wire.
fn put_part(wire: &mut BytesMut, part: &[u8], mut flags: u8) {
    match u8::try_from(part.len()) {
        Ok(short) => {
            wire.put_u8(flags);
            wire.put_u8(short);
        }
        Err(_) => {
            flags |= LONG;
            wire.put_u8(flags);
            wire.put_u64(part.len() as u64);
        }
    }
    wire.extend_from_slice(part);
}

/// A message of parts on the wire.
pub(super) fn encode(parts: &[Bytes]) -> Bytes {
    let mut wire = BytesMut::with_capacity(parts.iter().map(|part| part.len() + 9).sum());
    for (at, part) in parts.iter().enumerate() {
        put_part(&mut wire, part, if at + 1 < parts.len() { MORE } else { 0 });
    }
    wire.freeze()
}

fn ready(socket: &str) -> Bytes {
    let mut body = BytesMut::new();
    body.put_slice(b"\x05READY\x0bSocket-Type");
    body.put_u32(u32::try_from(socket.len()).unwrap_or_default());
    body.put_slice(socket.as_bytes());
    let mut wire = BytesMut::new();
    put_part(&mut wire, &body, COMMAND);
    wire.freeze()
}

fn greeting() -> [u8; 64] {
    let mut greeting = [0; 64];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

/// What comes in over a connection.
pub(super) struct Incoming<R> {
    reader: R,
    buffer: BytesMut,
}

/// A connection after its greeting: both directions.
pub(super) type Connection = (Incoming<OwnedReadHalf>, OwnedWriteHalf);

/// Greets the other side as a socket of this type; the other side must be one of those.
pub(super) async fn greet(stream: TcpStream, own: &str, others: &[&str]) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    let mut incoming = Incoming { reader, buffer: BytesMut::with_capacity(8 << 10) };
    let greeted = async {
        writer.write_all(&greeting()).await?;
        writer.write_all(&ready(own)).await?;
        incoming.greeting().await?;
        let said = incoming.message().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let socket = match said {
            Said::Command(body) => socket_type(&body),
            Said::Message(_) => None,
        };
        match socket {
            Some(socket) if others.contains(&socket.as_str()) => Ok(()),
            Some(_) | None => Err(wrong("another kind of socket is needed")),
        }
    };
    tokio::time::timeout(GREETING, greeted).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok((incoming, writer))
}

/// The type of socket that a command `READY` names.
fn socket_type(mut body: &[u8]) -> Option<String> {
    body = body.strip_prefix(b"\x05READY")?;
    loop {
        let (name, rest) = body.split_at_checked(usize::from(*body.first()?) + 1)?;
        let length = usize::try_from(u32::from_be_bytes(rest.first_chunk::<4>().copied()?)).ok()?;
        let (value, rest) = rest[4..].split_at_checked(length)?;
        if name[1..].eq_ignore_ascii_case(b"Socket-Type") {
            return String::from_utf8(value.to_vec()).ok();
        }
        body = rest;
    }
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    /// Reads what there is; the answer is how much, nothing at the end.
    pub(super) async fn read(&mut self) -> io::Result<usize> {
        self.reader.read_buf(&mut self.buffer).await
    }

    async fn greeting(&mut self) -> io::Result<()> {
        while self.buffer.len() < 64 {
            if self.read().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let greeting = self.buffer.split_to(64);
        let is_known = greeting[0] == 0xff && greeting[9] == 0x7f && greeting[10] >= 3;
        if is_known && greeting[12..32] == *b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" {
            return Ok(());
        }
        Err(wrong("this is not ZMTP 3 with the mechanism NULL"))
    }

    /// The next message, or command as one part; nothing at the end. Dropping the future loses nothing.
    pub(super) async fn message(&mut self) -> io::Result<Option<Said>> {
        loop {
            if let Some(said) = self.ready()? {
                return Ok(Some(said));
            }
            if self.read().await? == 0 {
                return Ok(None);
            }
        }
    }

    /// The next message or command that was read whole.
    pub(super) fn ready(&mut self) -> io::Result<Option<Said>> {
        let Some(whole) = Whole::at(&self.buffer, 0)? else { return Ok(None) };
        let bytes = self.buffer.split_to(whole.end).freeze();
        let mut parts = whole.parts().map(|place| bytes.slice(place));
        Ok(Some(match whole.is_command {
            true => Said::Command(parts.next().unwrap_or_default()),
            false => Said::Message(parts.collect()),
        }))
    }

    /// Hears every message that was read whole, where it lies.
    pub(super) fn hear(&mut self, mut hear: impl FnMut(&[&[u8]]) -> io::Result<()>) -> io::Result<()> {
        let mut at = 0;
        while let Some(whole) = Whole::at(&self.buffer, at)? {
            at = whole.end;
            if whole.is_command {
                continue;
            }
            let mut parts: [&[u8]; MOST_PARTS] = [&[]; MOST_PARTS];
            for (part, place) in parts.iter_mut().zip(whole.parts()) {
                *part = &self.buffer[place];
            }
            hear(&parts[..whole.count])?;
        }
        forget(&mut self.buffer, at);
        Ok(())
    }
}

/// A message, or command as one part, that was read whole: where its parts lie, and where it ends.
struct Whole {
    places: [(usize, usize); MOST_PARTS],
    count: usize,
    is_command: bool,
    end: usize,
}

impl Whole {
    /// What begins at a place; nothing if it is not all there yet.
    fn at(buffer: &[u8], begin: usize) -> io::Result<Option<Self>> {
        let mut whole = Self { places: [(0, 0); MOST_PARTS], count: 0, is_command: false, end: begin };
        loop {
            let Some(part) = Part::at(buffer, whole.end)? else { return Ok(None) };
            whole.end = part.start + part.length;
            whole.is_command = part.flags & COMMAND != 0;
            if whole.is_command {
                // What it came into the middle of can never be a message.
                whole.count = 0;
            }
            let place = whole.places.get_mut(whole.count);
            *place.ok_or_else(|| wrong("a message has too many parts"))? = (part.start, whole.end);
            whole.count += 1;
            if whole.is_command || part.flags & MORE == 0 {
                return Ok(Some(whole));
            }
        }
    }

    fn parts(&self) -> impl Iterator<Item = Range<usize>> {
        self.places[..self.count].iter().map(|(start, end)| *start..*end)
    }
}

/// Where a part lies in what was read.
struct Part {
    flags: u8,
    start: usize,
    length: usize,
}

impl Part {
    /// The part that begins at a place; nothing if it is not all there yet.
    fn at(buffer: &[u8], at: usize) -> io::Result<Option<Self>> {
        let rest = &buffer[at..];
        let Some(flags) = rest.first().copied() else { return Ok(None) };
        let (head, length) = match flags & LONG {
            0 => (2, rest.get(1).map(|length| u64::from(*length))),
            _ => (9, rest[1..].first_chunk::<8>().map(|length| u64::from_be_bytes(*length))),
        };
        let Some(length) = length else { return Ok(None) };
        let length = usize::try_from(length).ok().filter(|length| *length <= LARGEST);
        let length = length.ok_or_else(|| wrong("a part is too large"))?;
        Ok((rest.len() >= head + length).then_some(Self { flags, start: at + head, length }))
    }
}

/// What the other side said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Message(Vec<Bytes>),
    Command(Bytes),
}

/// Writes a message at once.
pub(super) async fn send<W: AsyncWrite + Unpin>(writer: &mut W, parts: &[Bytes]) -> io::Result<()> {
    writer.write_all(&encode(parts)).await
}

/// The subscription that a message or command of a SUB socket asks for, and whether it begins or ends.
pub(super) fn subscription(said: &Said) -> Option<(bool, Bytes)> {
    match said {
        Said::Message(parts) => match parts.as_slice() {
            [one] => match one.first()? {
                1 => Some((true, one.slice(1..))),
                0 => Some((false, one.slice(1..))),
                _ => None,
            },
            _ => None,
        },
        Said::Command(body) if body.starts_with(b"\x09SUBSCRIBE") => Some((true, body.slice(10..))),
        Said::Command(body) if body.starts_with(b"\x06CANCEL") => Some((false, body.slice(7..))),
        Said::Command(_) => None,
    }
}

/// Reads bytes that are all there, for a fuzzer: how many messages and commands they are; nothing if a message is another
/// one when it is written and read again.
pub(crate) fn read_whole(bytes: &[u8], is_greeting: bool) -> Option<usize> {
    let said = read_ready(bytes, is_greeting);
    for one in &said {
        let _ = subscription(one);
        match one {
            Said::Message(parts) => {
                let again = read_ready(&encode(parts), false);
                if again.as_slice() != std::slice::from_ref(one) {
                    return None;
                }
            }
            Said::Command(body) => drop(socket_type(body)),
        }
    }
    Some(said.len())
}

/// What bytes say that are all there, up to the first nonsense.
fn read_ready(bytes: &[u8], is_greeting: bool) -> Vec<Said> {
    let read = std::pin::pin!(async move {
        let mut incoming = Incoming { reader: bytes, buffer: BytesMut::new() };
        let mut said = Vec::new();
        if is_greeting && incoming.greeting().await.is_err() {
            return said;
        }
        while let Ok(Some(one)) = incoming.message().await {
            said.push(one);
        }
        said
    });
    match read.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(said) => said,
        Poll::Pending => unreachable!("bytes in memory are never waited for"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(wire: &[u8]) -> Vec<io::Result<Option<Said>>> {
        let mut incoming = Incoming { reader: wire, buffer: BytesMut::new() };
        let mut said = Vec::new();
        loop {
            said.push(incoming.message().await);
            if !matches!(said.last(), Some(Ok(Some(_)))) {
                return said;
            }
        }
    }

    #[tokio::test]
    async fn messages_of_any_size_read_back() {
        let messages = [
            vec![Bytes::from_static(b"topic\0"), Bytes::from(vec![7; 300])],
            vec![Bytes::new()],
            vec![Bytes::from(vec![1; 255]), Bytes::from(vec![2; 256]), Bytes::new()],
        ];
        let wire: Vec<u8> = messages.iter().flat_map(|parts| encode(parts)).collect();
        let said = read(&wire).await;
        for (parts, said) in messages.iter().zip(&said) {
            assert_eq!(said.as_ref().unwrap(), &Some(Said::Message(parts.clone())));
        }
        assert!(matches!(said.last(), Some(Ok(None))));
        for cut in 0..wire.len() {
            read(&wire[..cut]).await;
        }
    }

    #[tokio::test]
    async fn what_is_too_large_is_refused_before_it_is_read() {
        let mut wire = vec![LONG];
        wire.extend(u64::MAX.to_be_bytes());
        assert!(read(&wire).await[0].is_err());
        let endless = [MORE, 0].repeat(MOST_PARTS + 1);
        assert!(read(&endless).await[0].is_err());
    }

    #[test]
    fn a_greeting_names_its_socket() {
        let wire = ready("DEALER");
        assert_eq!(socket_type(&wire[2..]).as_deref(), Some("DEALER"));
        assert_eq!(socket_type(b"\x05READY"), None);
        assert_eq!(socket_type(b"\x05READY\xffx"), None);
    }
}
