//! One subscriber as its publisher knows it: what it follows, how far it was sent, and what waits to be written.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::change::{Change, Revision, Topic};
use crate::digest::{Basis, Digest};
use crate::log::Logged;
use crate::message::{Cursor, Held, Message, Mode};
use crate::moment::Moment;
use crate::wire;

/// The name of a session, which whoever carries the bytes gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// What a subscription waits for, or gets.
#[derive(Debug)]
pub(crate) enum Phase {
    /// The publisher is behind the subscriber, and may catch up until then.
    Waiting { until: Moment, cursor: Option<Cursor>, min_rev: Revision, mode: Mode },
    /// Digests are compared.
    Delta { basis: Basis, sums: Vec<Digest>, want: Vec<u8>, held: Vec<Held>, rounds: u32 },
    /// Items are sent.
    Sending(Parts),
    /// The subscriber gets what happens.
    Live,
    /// The subscriber was told that the log does not reach back; it will ask.
    Compacted,
}

/// A snapshot, or what differs, on its way.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) at: Revision,
    pub(crate) items: std::vec::IntoIter<Change>,
    pub(crate) kept: Vec<Held>,
    pub(crate) gone: Vec<u64>,
    pub(crate) next: u32,
    pub(crate) count: u64,
    pub(crate) digest: Digest,
}

/// How large a part is, about.
const PART: usize = 64 << 10;

impl Parts {
    /// The next part; nothing if that was all.
    pub(crate) fn part(&mut self, sub: u32) -> Option<Message> {
        let (mut items, mut size) = (Vec::new(), 0);
        while size < PART {
            let Some(item) = self.items.next() else { break };
            size += item.size();
            items.push(item);
        }
        let some = |room: usize| room.saturating_sub(size) / 16;
        let kept: Vec<Held> = self.kept.split_off(self.kept.len().saturating_sub(some(PART)));
        size += kept.len() * 16;
        let gone: Vec<u64> =
            self.gone.split_off(self.gone.len().saturating_sub(PART.saturating_sub(size) / 8));
        if items.is_empty() && kept.is_empty() && gone.is_empty() {
            return None;
        }
        let part = self.next;
        self.next += 1;
        Some(Message::Items { sub, part, items, kept, gone })
    }

    pub(crate) fn end(&self, sub: u32) -> Message {
        Message::End { sub, at: self.at, parts: self.next, count: self.count, digest: self.digest }
    }
}

/// One subscription.
#[derive(Debug)]
pub(crate) struct Sub {
    pub(crate) topic: Topic,
    /// Everything of the topic up to this was sent.
    pub(crate) sent: Revision,
    pub(crate) acked: Revision,
    pub(crate) phase: Phase,
    pub(crate) lagging: bool,
    /// When not to send the last values before.
    pub(crate) not_before: Moment,
}

/// What waits to be written: a slice of the log as it is, or another frame.
#[derive(Clone, Debug)]
pub(crate) enum Outgoing {
    Slice(Arc<Logged>),
    Frame(Bytes),
}

impl Outgoing {
    pub(crate) fn frame(&self) -> &Bytes {
        match self {
            Self::Slice(logged) => &logged.frame,
            Self::Frame(frame) => frame,
        }
    }
}

/// One subscriber.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) node: String,
    pub(crate) greeted: bool,
    pub(crate) welcomed: bool,
    pub(crate) subs: BTreeMap<u32, Sub>,
    out: VecDeque<Outgoing>,
    queued: usize,
    /// Whether something is in the log that was not sent for lack of room.
    pub(crate) behind: bool,
    pub(crate) closing: bool,
    pub(crate) last_beat: Moment,
    pub(crate) last_heard: Moment,
    pub(crate) progress_at: Moment,
    blocked_since: Option<Moment>,
    /// When the log left each topic of it behind.
    pub(crate) left_behind: BTreeMap<Topic, VecDeque<Moment>>,
}

/// How often the log may leave a subscriber behind in `LEFT_WITHIN` before it gets last values only.
const LEFT_TIMES: usize = 3;
const LEFT_WITHIN: Duration = Duration::from_secs(600);

impl Session {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            node: String::new(),
            greeted: false,
            welcomed: false,
            subs: BTreeMap::new(),
            out: VecDeque::new(),
            queued: 0,
            behind: false,
            closing: false,
            last_beat: now,
            last_heard: now,
            progress_at: now,
            blocked_since: None,
            left_behind: BTreeMap::new(),
        }
    }

    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    pub(crate) fn push(&mut self, outgoing: Outgoing, now: Moment) {
        self.queued += outgoing.frame().len();
        self.out.push_back(outgoing);
        self.blocked_since.get_or_insert(now);
    }

    pub(crate) fn say(&mut self, message: &Message, now: Moment) {
        self.push(Outgoing::Frame(wire::encode(message)), now);
    }

    pub(crate) fn pop(&mut self, now: Moment) -> Option<Outgoing> {
        let outgoing = self.out.pop_front()?;
        self.queued -= outgoing.frame().len();
        self.blocked_since = (!self.out.is_empty()).then_some(now);
        Some(outgoing)
    }

    /// Since when nothing that waits was taken.
    pub(crate) fn blocked_since(&self) -> Option<Moment> {
        self.blocked_since
    }

    /// Remembers that the log left a topic of this subscriber behind.
    pub(crate) fn note_left_behind(&mut self, topic: &Topic, now: Moment) {
        let times = self.left_behind.entry(topic.clone()).or_default();
        times.push_back(now);
        while times.len() > LEFT_TIMES + 1
            || times.front().is_some_and(|first| now.since(*first) > LEFT_WITHIN)
        {
            times.pop_front();
        }
    }

    /// Whether the log leaves a topic of this subscriber behind again and again.
    pub(crate) fn is_coalesced(&self, topic: &Topic) -> bool {
        self.left_behind.get(topic).is_some_and(|times| times.len() > LEFT_TIMES)
    }

    pub(crate) fn sub_of(&self, topic: &Topic) -> Option<u32> {
        self.subs.iter().find(|(_, sub)| sub.topic == *topic).map(|(name, _)| *name)
    }
}
