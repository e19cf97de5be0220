//! Messages as bytes.
//!
//! Decided here: the frame (length, protocol version, type, flags) and the order of fields. Numbers are written in
//! seven-bit groups, the lowest first; texts and lists with their length before them. A later version appends fields:
//! bytes behind the last known field are skipped, and an unknown type is skipped if its flag says that it may be.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::change::{Change, ItemKey, LogId, Revision, Slice, Topic};
use crate::digest::{Basis, Digest};
use crate::message::{CatchUp, Cursor, Held, Mark, Message, Mode, Reason};

/// The version of the protocol.
pub const PROTOCOL: u8 = 1;

/// The longest frame, without its length.
pub const MAX_FRAME: usize = 4 << 20;

/// The flag of a message that may be skipped by whoever does not know its type.
pub const OPTIONAL: u16 = 1;

/// Length, version, type, flags.
pub const HEADER: usize = 8;

/// Bytes that are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// There is less than was promised.
    #[error("failed to read a message that ends too early")]
    Short,
    /// The other side speaks another protocol.
    #[error("failed to read a message of protocol version `{0}`, hint: this side speaks version {PROTOCOL}")]
    Version(u8),
    /// A type of message that nobody knows.
    #[error("failed to read a message of the unknown type `{0}`")]
    Type(u8),
    /// A field holds something that cannot be.
    #[error("failed to read the field `{0}` of a message")]
    Field(&'static str),
    /// A frame is longer than frames may be.
    #[error("failed to read a frame of `{0}` bytes, hint: at most {MAX_FRAME} are allowed")]
    Long(usize),
}

macro_rules! types {
    ($($name:ident = $number:literal),* $(,)?) => { $(const $name: u8 = $number;)* };
}

types! {
    HELLO = 1, WELCOME = 2, SUBSCRIBE = 3, SUBSCRIBED = 4, BUSY = 5, UNSUBSCRIBE = 6, TXN = 7, FETCH = 8, RANGE = 9,
    COMPACTED = 10, SUMS = 11, WANT = 12, HAVE = 13, ITEMS = 14, END = 15, BEAT = 16, ACK = 17, NACK = 18,
    LAGGING = 19, GOAWAY = 20, PING = 21, PONG = 22,
}

/// A message as a frame, its length first.
pub fn encode(message: &Message) -> Bytes {
    let changes: &[Change] = if let Message::Txn(slice) = message {
        &slice.changes
    } else if let Message::Range { changes, .. } | Message::Items { items: changes, .. } = message {
        changes
    } else {
        &[]
    };
    let room = changes.iter().map(Change::size).sum::<usize>() + 128;
    let mut writer = Writer(BytesMut::with_capacity(room));
    writer.0.put_bytes(0, HEADER);
    let (kind, flags) = writer.message(message);
    let length = u32::try_from(writer.0.len() - 4).unwrap_or(u32::MAX);
    writer.0[..4].copy_from_slice(&length.to_be_bytes());
    writer.0[4] = PROTOCOL;
    writer.0[5] = kind;
    writer.0[6..8].copy_from_slice(&flags.to_be_bytes());
    writer.0.freeze()
}

/// How many bytes the frame at the beginning has in all; nothing if that cannot be seen yet.
pub fn frame_length(bytes: &[u8]) -> Result<Option<usize>, DecodeError> {
    let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > MAX_FRAME {
        return Err(DecodeError::Long(length));
    }
    if length < HEADER - 4 {
        return Err(DecodeError::Short);
    }
    Ok(Some(length + 4))
}

/// Names that were read last: a frame mostly tells of the topic and the table of the one before it, and shares them.
#[derive(Debug, Default)]
pub(crate) struct Names {
    topic: Option<Topic>,
    table: Option<Arc<str>>,
}

impl Names {
    pub(crate) fn topic(&mut self, name: &str) -> Topic {
        match &self.topic {
            Some(known) if known.as_str() == name => known.clone(),
            _ => self.topic.insert(Topic::new(name)).clone(),
        }
    }

    pub(crate) fn table(&mut self, name: &str) -> Arc<str> {
        match &self.table {
            Some(known) if **known == *name => Arc::clone(known),
            _ => Arc::clone(self.table.insert(name.into())),
        }
    }
}

/// The message of a whole frame; nothing if it is of an unknown type that may be skipped.
pub fn decode(frame: &[u8]) -> Result<Option<Message>, DecodeError> {
    decode_after(&mut Names::default(), frame)
}

/// The same of a frame after others.
pub(crate) fn decode_after(names: &mut Names, frame: &[u8]) -> Result<Option<Message>, DecodeError> {
    let length = frame_length(frame)?.ok_or(DecodeError::Short)?;
    let frame = frame.get(..length).ok_or(DecodeError::Short)?;
    let (header, body) = frame.split_at_checked(HEADER).ok_or(DecodeError::Short)?;
    if header[4] != PROTOCOL {
        return Err(DecodeError::Version(header[4]));
    }
    let kind = header[5];
    match (Reader(body, names).message(kind)?, u16::from_be_bytes([header[6], header[7]]) & OPTIONAL) {
        (None, 0) => Err(DecodeError::Type(kind)),
        (message, _) => Ok(message),
    }
}

struct Writer(BytesMut);

impl Writer {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.put_u8((number as u8) | 0x80);
            number >>= 7;
        }
        self.0.put_u8(number as u8);
    }

    fn wide(&mut self, number: u128) {
        self.0.put_u128_le(number);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.put_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn maybe_text(&mut self, text: Option<&str>) {
        self.0.put_u8(text.is_some().into());
        if let Some(text) = text {
            self.text(text);
        }
    }

    fn list<T>(&mut self, list: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.number(list.len() as u64);
        for one in list {
            each(self, one);
        }
    }

    fn change(&mut self, change: &Change) {
        self.text(&change.item.table);
        self.text(&change.item.key);
        self.number(change.version);
        self.0.put_u8(change.value.is_some().into());
        if let Some(value) = &change.value {
            self.bytes(value);
        }
    }

    fn held(&mut self, held: &Held) {
        self.0.put_u64_le(held.key);
        self.0.put_u64_le(held.mark);
    }

    /// Writes the body; the answer is the type and the flags.
    fn message(&mut self, message: &Message) -> (u8, u16) {
        match message {
            Message::Hello { node, instance, token } => {
                self.text(node);
                self.wide(*instance);
                self.maybe_text(token.as_deref());
                (HELLO, 0)
            }
            Message::Welcome { instance, log, head, heartbeat_ms, stale_ms, peers } => {
                self.wide(*instance);
                self.wide(log.0);
                self.number(*head);
                self.number(*heartbeat_ms);
                self.number(*stale_ms);
                self.list(peers, |writer, peer| writer.text(peer));
                (WELCOME, 0)
            }
            Message::Subscribe { sub, topic, cursor, min_rev, mode } => {
                self.number((*sub).into());
                self.text(topic.as_str());
                self.0.put_u8(cursor.is_some().into());
                if let Some(cursor) = cursor {
                    self.wide(cursor.log.0);
                    self.number(cursor.applied);
                }
                self.number(*min_rev);
                self.0.put_u8(match mode {
                    Mode::Resume => 0,
                    Mode::Delta => 1,
                    Mode::Snapshot => 2,
                });
                (SUBSCRIBE, 0)
            }
            Message::Subscribed { sub, log, head, last, catch_up } => {
                self.number((*sub).into());
                self.wide(log.0);
                self.number(*head);
                self.number(*last);
                self.0.put_u8(match catch_up {
                    CatchUp::Range => 0,
                    CatchUp::Delta(Basis::Versions) => 1,
                    CatchUp::Delta(Basis::Content) => 2,
                    CatchUp::Snapshot => 3,
                });
                (SUBSCRIBED, 0)
            }
            Message::Txn(slice) => {
                self.wide(slice.log.0);
                self.text(slice.topic.as_str());
                self.number(slice.rev);
                self.number(slice.prev);
                self.number(slice.known);
                self.list(&slice.changes, Self::change);
                (TXN, 0)
            }
            Message::Range { sub, after, known, upto, more, changes } => {
                self.number((*sub).into());
                self.number(*after);
                self.number(*known);
                self.number(*upto);
                self.0.put_u8((*more).into());
                self.list(changes, Self::change);
                (RANGE, 0)
            }
            Message::Items { sub, part, items, kept, gone } => {
                self.number((*sub).into());
                self.number((*part).into());
                self.list(items, Self::change);
                self.list(kept, Self::held);
                self.list(gone, |writer, hash| writer.0.put_u64_le(*hash));
                (ITEMS, 0)
            }
            Message::End { sub, at, parts, count, digest } => {
                self.number((*sub).into());
                self.number(*at);
                self.number((*parts).into());
                self.number(*count);
                self.wide(digest.0);
                (END, 0)
            }
            Message::Beat { instance, log, head, stale_ms, marks } => {
                self.wide(*instance);
                self.wide(log.0);
                self.number(*head);
                self.number(*stale_ms);
                self.list(marks, |writer, mark| {
                    writer.text(mark.topic.as_str());
                    writer.number(mark.last);
                    writer.wide(mark.digest.0);
                });
                (BEAT, 0)
            }
            Message::Busy { .. }
            | Message::Unsubscribe { .. }
            | Message::Fetch { .. }
            | Message::Compacted { .. }
            | Message::Sums { .. }
            | Message::Want { .. }
            | Message::Have { .. }
            | Message::Ack { .. }
            | Message::Nack { .. }
            | Message::Lagging { .. }
            | Message::Goaway { .. }
            | Message::Ping { .. }
            | Message::Pong { .. } => self.short_message(message),
        }
    }

    /// Writes the messages that are short, or rare.
    fn short_message(&mut self, message: &Message) -> (u8, u16) {
        match message {
            Message::Busy { sub, retry_ms } => {
                self.pair((*sub).into(), *retry_ms);
                (BUSY, 0)
            }
            Message::Unsubscribe { sub } => {
                self.number((*sub).into());
                (UNSUBSCRIBE, 0)
            }
            Message::Fetch { sub, after } => {
                self.pair((*sub).into(), *after);
                (FETCH, 0)
            }
            Message::Compacted { sub, tail } => {
                self.pair((*sub).into(), *tail);
                (COMPACTED, 0)
            }
            Message::Sums { sub, sums } => {
                self.number((*sub).into());
                self.list(sums, |writer, sum| writer.wide(sum.0));
                (SUMS, 0)
            }
            Message::Want { sub, buckets } => {
                self.number((*sub).into());
                self.bytes(buckets);
                (WANT, 0)
            }
            Message::Have { sub, last, held } => {
                self.number((*sub).into());
                self.0.put_u8((*last).into());
                self.list(held, Self::held);
                (HAVE, 0)
            }
            Message::Ack { applied } => {
                self.list(applied, |writer, (topic, applied)| {
                    writer.text(topic.as_str());
                    writer.number(*applied);
                });
                (ACK, OPTIONAL)
            }
            Message::Nack { topic, rev, item, text } => {
                self.text(topic.as_str());
                self.number(*rev);
                self.text(item);
                self.text(text);
                (NACK, OPTIONAL)
            }
            Message::Lagging { sub, behind } => {
                self.pair((*sub).into(), *behind);
                (LAGGING, OPTIONAL)
            }
            Message::Goaway { reason, retry_ms, peers } => {
                self.0.put_u8(match reason {
                    Reason::Shutdown => 0,
                    Reason::Behind => 1,
                    Reason::Overload => 2,
                    Reason::Stalled => 3,
                    Reason::Refused => 4,
                });
                self.number(*retry_ms);
                self.list(peers, |writer, peer| writer.text(peer));
                (GOAWAY, 0)
            }
            Message::Ping { nonce } => {
                self.number(*nonce);
                (PING, OPTIONAL)
            }
            Message::Pong { nonce } => {
                self.number(*nonce);
                (PONG, OPTIONAL)
            }
            Message::Hello { .. }
            | Message::Welcome { .. }
            | Message::Subscribe { .. }
            | Message::Subscribed { .. }
            | Message::Txn(_)
            | Message::Range { .. }
            | Message::Items { .. }
            | Message::End { .. }
            | Message::Beat { .. } => self.message(message),
        }
    }

    fn pair(&mut self, one: u64, two: u64) {
        self.number(one);
        self.number(two);
    }
}

struct Reader<'a>(&'a [u8], &'a mut Names);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    fn number(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                break;
            }
            number |= part << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(DecodeError::Field("number"))
    }

    fn small(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        u32::try_from(self.number()?).map_err(|_| DecodeError::Field(field))
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Field(field)),
        }
    }

    fn wide(&mut self) -> Result<u128, DecodeError> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(self.number()?).map_err(|_| DecodeError::Short)?;
        self.take(length)
    }

    fn text(&mut self, field: &'static str) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError::Field(field))
    }

    fn topic(&mut self) -> Result<Topic, DecodeError> {
        let name = self.text("topic")?;
        Ok(self.1.topic(name))
    }

    /// Reads a list. **Guarantees** that memory follows the bytes that are there, not the length that is claimed.
    fn list<T>(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let length = usize::try_from(self.number()?).map_err(|_| DecodeError::Short)?;
        if length > self.0.len() {
            return Err(DecodeError::Short);
        }
        let mut list = Vec::with_capacity(length.min(1024));
        for _ in 0..length {
            list.push(each(self)?);
        }
        Ok(list)
    }

    fn change(&mut self) -> Result<Change, DecodeError> {
        let table = self.text("table")?;
        let item = ItemKey::new(self.1.table(table), self.text("key")?);
        let version = self.number()?;
        let value = if self.flag("value")? { Some(Bytes::copy_from_slice(self.bytes()?)) } else { None };
        Ok(Change { item, version, value })
    }

    fn held(&mut self) -> Result<Held, DecodeError> {
        Ok(Held { key: u64::from_le_bytes(self.array()?), mark: u64::from_le_bytes(self.array()?) })
    }

    fn peers(&mut self) -> Result<Vec<String>, DecodeError> {
        self.list(|reader| reader.text("peers").map(str::to_owned))
    }

    fn subscribe(&mut self) -> Result<Message, DecodeError> {
        let (sub, topic) = (self.small("sub")?, self.topic()?);
        let cursor = if self.flag("cursor")? {
            Some(Cursor { log: LogId(self.wide()?), applied: self.number()? })
        } else {
            None
        };
        let min_rev = self.number()?;
        let mode = match self.byte()? {
            0 => Mode::Resume,
            1 => Mode::Delta,
            2 => Mode::Snapshot,
            _ => return Err(DecodeError::Field("mode")),
        };
        Ok(Message::Subscribe { sub, topic, cursor, min_rev, mode })
    }

    fn subscribed(&mut self) -> Result<Message, DecodeError> {
        let (sub, log) = (self.small("sub")?, LogId(self.wide()?));
        let (head, last) = (self.number()?, self.number()?);
        let catch_up = match self.byte()? {
            0 => CatchUp::Range,
            1 => CatchUp::Delta(Basis::Versions),
            2 => CatchUp::Delta(Basis::Content),
            3 => CatchUp::Snapshot,
            _ => return Err(DecodeError::Field("catch_up")),
        };
        Ok(Message::Subscribed { sub, log, head, last, catch_up })
    }

    fn slice(&mut self) -> Result<Slice, DecodeError> {
        let (log, topic) = (LogId(self.wide()?), self.topic()?);
        let (rev, prev, known): (Revision, Revision, Revision) =
            (self.number()?, self.number()?, self.number()?);
        if prev > known || known >= rev {
            return Err(DecodeError::Field("known"));
        }
        Ok(Slice { log, topic, rev, prev, known, changes: self.list(Self::change)? })
    }

    fn beat(&mut self) -> Result<Message, DecodeError> {
        Ok(Message::Beat {
            instance: self.wide()?,
            log: LogId(self.wide()?),
            head: self.number()?,
            stale_ms: self.number()?,
            marks: self.list(|reader| {
                Ok(Mark { topic: reader.topic()?, last: reader.number()?, digest: Digest(reader.wide()?) })
            })?,
        })
    }

    fn goaway(&mut self) -> Result<Message, DecodeError> {
        let reason = match self.byte()? {
            0 => Reason::Shutdown,
            1 => Reason::Behind,
            2 => Reason::Overload,
            3 => Reason::Stalled,
            4 => Reason::Refused,
            _ => return Err(DecodeError::Field("reason")),
        };
        Ok(Message::Goaway { reason, retry_ms: self.number()?, peers: self.peers()? })
    }

    fn message(&mut self, kind: u8) -> Result<Option<Message>, DecodeError> {
        Ok(Some(match kind {
            HELLO => Message::Hello {
                node: self.text("node")?.to_owned(),
                instance: self.wide()?,
                token: if self.flag("token")? { Some(self.text("token")?.to_owned()) } else { None },
            },
            WELCOME => Message::Welcome {
                instance: self.wide()?,
                log: LogId(self.wide()?),
                head: self.number()?,
                heartbeat_ms: self.number()?,
                stale_ms: self.number()?,
                peers: self.peers()?,
            },
            SUBSCRIBE => self.subscribe()?,
            SUBSCRIBED => self.subscribed()?,
            BUSY => Message::Busy { sub: self.small("sub")?, retry_ms: self.number()? },
            UNSUBSCRIBE => Message::Unsubscribe { sub: self.small("sub")? },
            TXN => Message::Txn(self.slice()?),
            FETCH => Message::Fetch { sub: self.small("sub")?, after: self.number()? },
            RANGE => Message::Range {
                sub: self.small("sub")?,
                after: self.number()?,
                known: self.number()?,
                upto: self.number()?,
                more: self.flag("more")?,
                changes: self.list(Self::change)?,
            },
            COMPACTED => Message::Compacted { sub: self.small("sub")?, tail: self.number()? },
            SUMS => Message::Sums {
                sub: self.small("sub")?,
                sums: self.list(|reader| reader.wide().map(Digest))?,
            },
            WANT => Message::Want { sub: self.small("sub")?, buckets: self.bytes()?.to_vec() },
            HAVE => Message::Have {
                sub: self.small("sub")?,
                last: self.flag("last")?,
                held: self.list(Self::held)?,
            },
            ITEMS => Message::Items {
                sub: self.small("sub")?,
                part: self.small("part")?,
                items: self.list(Self::change)?,
                kept: self.list(Self::held)?,
                gone: self.list(|reader| reader.array().map(u64::from_le_bytes))?,
            },
            END => Message::End {
                sub: self.small("sub")?,
                at: self.number()?,
                parts: self.small("parts")?,
                count: self.number()?,
                digest: Digest(self.wide()?),
            },
            BEAT => self.beat()?,
            ACK => Message::Ack { applied: self.list(|reader| Ok((reader.topic()?, reader.number()?)))? },
            NACK => Message::Nack {
                topic: self.topic()?,
                rev: self.number()?,
                item: self.text("item")?.to_owned(),
                text: self.text("text")?.to_owned(),
            },
            LAGGING => Message::Lagging { sub: self.small("sub")?, behind: self.number()? },
            GOAWAY => self.goaway()?,
            PING => Message::Ping { nonce: self.number()? },
            PONG => Message::Pong { nonce: self.number()? },
            _ => return Ok(None),
        }))
    }
}
