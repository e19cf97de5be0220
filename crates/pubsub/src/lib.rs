//! Reliable delivery of what a source of truth holds to whoever follows it.
//!
//! Decided here: the protocol between publishers and subscribers, and the transports that carry it. The heart is
//! [`Publisher`] and [`Subscriber`], machines without I/O, clock, thread or async: they are told what arrives and what
//! time it is, and say what to send and when to be called again. Not decided here: what a store is, and what a consumer
//! does with what it sees.
//!
//! Read `message` next, then `subscriber`.

mod cache;
mod change;
mod digest;
mod discovery;
mod distributor;
#[doc(hidden)]
pub mod fuzzed;
mod log;
mod message;
mod moment;
mod publisher;
mod replica;
mod session;
mod settings;
mod subscriber;
pub mod transport;
pub mod wire;

pub use cache::{Shown, Stamp, ViewChange};
pub use change::{Change, Commit, ItemKey, LogId, Revision, Slice, Topic};
pub use digest::{Basis, Digest};
pub use discovery::{Discovery, Neighbour, Row, TableRequest};
pub use distributor::{Distributor, Notice, Request, SourceState, Tail};
pub use message::{CatchUp, Cursor, Held, Mark, Message, Mode, Reason};
pub use moment::Moment;
pub use publisher::{Delivery, MAX_VALUE, Publisher, PublisherCounts, Refusal};
pub use replica::{Entry, Replica};
pub use session::SessionId;
pub use settings::{Driver, PokeDriver, Settings, SettingsError, StaleAction, Transport};
pub use subscriber::{
    Mirror, Nearness, Output, Report, SourceRead, SourceUnavailable, Subscriber, SubscriberCounts,
    TopicStatus,
};
