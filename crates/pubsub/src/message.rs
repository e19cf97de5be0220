//! What publisher and subscriber say to each other.
//!
//! Decided here: the messages. How they look on a wire is in `wire`; who says what when is in `publisher` and
//! `subscriber`.

use crate::change::{Change, LogId, Revision, Slice, Topic};
use crate::digest::{Basis, Digest};

/// Where a subscriber stands in a topic: every change of the topic up to `applied` is reflected in what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The log.
    pub log: LogId,
    /// The position.
    pub applied: Revision,
}

/// What a subscriber asks for when it subscribes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To go on from its cursor, the cheapest way.
    Resume,
    /// To compare digests and get what differs: the log is too short, or a digest said no.
    Delta,
    /// To get everything.
    Snapshot,
}

/// How a publisher brings a subscription up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatchUp {
    /// From the log.
    Range,
    /// By comparing digests and sending what differs.
    Delta(Basis),
    /// With everything there is.
    Snapshot,
}

/// Why a publisher ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It stops.
    Shutdown,
    /// It is behind what the subscriber has seen already.
    Behind,
    /// It has too much to do.
    Overload,
    /// The subscriber takes nothing or makes no progress.
    Stalled,
    /// The subscriber does not know the word.
    Refused,
}

/// Where a topic stands, as a beat says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The topic.
    pub topic: Topic,
    /// Its last slice.
    pub last: Revision,
    /// The version digest of its items.
    pub digest: Digest,
}

/// An item by the hash of its key, with its version or the hash of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// The hash of its key.
    pub key: u64,
    /// Its version, or a hash of its value.
    pub mark: u64,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A subscriber says who it is.
    Hello {
        /// The name of its node.
        node: String,
        /// This start of it.
        instance: u128,
        /// The word it knows.
        token: Option<String>,
    },
    /// A publisher answers: who it is, which log it serves, and how far.
    Welcome {
        /// This start of it.
        instance: u128,
        /// The log.
        log: LogId,
        /// The last commit it knows.
        head: Revision,
        /// How often it says where it stands.
        heartbeat_ms: u64,
        /// For how long it has had no word from its source.
        stale_ms: u64,
        /// Where others are that serve the same.
        peers: Vec<String>,
    },
    /// A subscriber follows a topic. A later subscription of the same topic takes the place of an earlier one.
    Subscribe {
        /// The name of this subscription, by which its answers are known.
        sub: u32,
        /// The topic.
        topic: Topic,
        /// Where the subscriber stands, if it holds something.
        cursor: Option<Cursor>,
        /// The highest revision the subscriber has ever seen of this log.
        min_rev: Revision,
        /// What it asks for.
        mode: Mode,
    },
    /// A publisher accepts a subscription.
    Subscribed {
        /// The subscription.
        sub: u32,
        /// The log.
        log: LogId,
        /// The last commit it knows.
        head: Revision,
        /// The last slice of the topic.
        last: Revision,
        /// What follows.
        catch_up: CatchUp,
    },
    /// A publisher serves too many others right now.
    Busy {
        /// The subscription.
        sub: u32,
        /// When to ask again.
        retry_ms: u64,
    },
    /// A subscriber follows a topic no more.
    Unsubscribe {
        /// The subscription.
        sub: u32,
    },
    /// What happened.
    Txn(Slice),
    /// A subscriber misses something.
    Fetch {
        /// The subscription.
        sub: u32,
        /// What it has.
        after: Revision,
    },
    /// What came of everything after one position, up to another: the last change of each item.
    Range {
        /// The subscription.
        sub: u32,
        /// Where it begins; not included.
        after: Revision,
        /// Any position from `after` to this one is a beginning, too.
        known: Revision,
        /// Where it ends; included.
        upto: Revision,
        /// Whether there is more behind it.
        more: bool,
        /// The last change of each item.
        changes: Vec<Change>,
    },
    /// The log does not reach that far back.
    Compacted {
        /// The subscription.
        sub: u32,
        /// How far it reaches.
        tail: Revision,
    },
    /// The sums by bucket of what a subscriber holds, to find out what differs.
    Sums {
        /// The subscription.
        sub: u32,
        /// One sum for each bucket.
        sums: Vec<Digest>,
    },
    /// The buckets that differ.
    Want {
        /// The subscription.
        sub: u32,
        /// The buckets.
        buckets: Vec<u8>,
    },
    /// What a subscriber holds in those buckets.
    Have {
        /// The subscription.
        sub: u32,
        /// Whether this is the last part.
        last: bool,
        /// Its items.
        held: Vec<Held>,
    },
    /// A part of a snapshot, or of what differs.
    Items {
        /// The subscription.
        sub: u32,
        /// Which part this is, counted from zero.
        part: u32,
        /// Items that are there.
        items: Vec<Change>,
        /// Items that are right as they are, with their version: only between logs.
        kept: Vec<Held>,
        /// Items that are not there, by the hash of their key.
        gone: Vec<u64>,
    },
    /// The end of a snapshot, or of what differs. Nothing of it counts before this.
    End {
        /// The subscription.
        sub: u32,
        /// The position that it shows.
        at: Revision,
        /// How many parts there were.
        parts: u32,
        /// How many items the topic has.
        count: u64,
        /// The version digest of the topic.
        digest: Digest,
    },
    /// Where a publisher stands: sign of life, bookmark, hello and audit in one.
    Beat {
        /// Who says it.
        instance: u128,
        /// The log.
        log: LogId,
        /// The last commit it knows.
        head: Revision,
        /// For how long it has had no word from its source.
        stale_ms: u64,
        /// Topics.
        marks: Vec<Mark>,
    },
    /// How far a subscriber is.
    Ack {
        /// Positions by topic.
        applied: Vec<(Topic, Revision)>,
    },
    /// A subscriber cannot use what it got.
    Nack {
        /// The topic.
        topic: Topic,
        /// The position.
        rev: Revision,
        /// The item, as text; empty if that could not be read.
        item: String,
        /// Why.
        text: String,
    },
    /// A subscriber is behind; nothing is lost.
    Lagging {
        /// The subscription.
        sub: u32,
        /// By how many slices.
        behind: u64,
    },
    /// A publisher ends the session.
    Goaway {
        /// Why.
        reason: Reason,
        /// When to come back.
        retry_ms: u64,
        /// Where else to go.
        peers: Vec<String>,
    },
    /// A sign of life of the subscriber.
    Ping {
        /// Anything.
        nonce: u64,
    },
    /// The answer to it.
    Pong {
        /// The same.
        nonce: u64,
    },
}
