//! Transports: who carries frames, and who drives the machines.
//!
//! Decided here: a [`Hub`] drives a distributor and any number of sessions, a [`Follower`] drives one subscriber, and a
//! [`Connector`] knows how one reaches the other: inside a process, over TCP, ZeroMQ or NATS. Everything else about
//! delivery is decided by the machines; a transport may be slow, lossy or gone. Read `hub` next.

mod connector;
mod follower;
mod hub;
mod joined;
pub(crate) mod nats;
mod outlet;
mod tcp;
mod tls;
pub mod zmq;

use std::time::{Duration, Instant};

pub use connector::{Connector, Network};
pub use follower::{Event, Follower};
pub use hub::Hub;
pub use nats::NatsServer;
pub use tcp::{BindError, TcpServer};
pub use tls::{Tls, TlsError};
pub use zmq::ZmqServer;

use joined::Joined;
use nats::NatsLink;
use tcp::StreamLink;
use zmq::ZmqLink;

use crate::change::Topic;
use crate::message::Message;
use crate::moment::Moment;
use crate::wire::{self, Names};

/// A clock that began with its process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Moment {
        Moment(self.0.elapsed())
    }

    /// How long it is until a moment.
    pub(crate) fn until(self, moment: Moment) -> Duration {
        moment.since(self.now())
    }
}

/// What came in: a message, a frame that could not be read, or something about a topic from a peer of the first design.
#[derive(Debug)]
pub(crate) enum Arrival {
    Message(Message),
    Garbled,
    Foreign(Topic),
}

/// What a frame says; nothing if it is of an unknown type that may be skipped.
pub(crate) fn arrival(names: &mut Names, frame: &[u8]) -> Option<Arrival> {
    match wire::decode_after(names, frame) {
        Ok(message) => message.map(Arrival::Message),
        Err(_) => Some(Arrival::Garbled),
    }
}

/// A way to a publisher, and back. It ends when the other side does.
///
/// Whoever waits for what comes in reads it out of its socket itself: there is no task in between. A consumer that is slow
/// stops reading, and whoever sends is slowed down.
pub(crate) enum Link {
    Joined(Joined),
    Stream(StreamLink),
    Zmq(Box<ZmqLink>),
    Nats(Box<NatsLink>),
}

impl Link {
    /// Says something to the publisher, sooner or later: of a link that has ended, one learns by its end.
    ///
    /// **Why** what goes out is not bounded: it is a few messages for each topic, and waiting for a peer that has silently
    /// gone would keep the machine from noticing.
    pub(crate) fn send(&mut self, message: Message) {
        match self {
            Self::Joined(joined) => joined.send(message),
            Self::Stream(stream) => stream.send(message),
            Self::Zmq(zmq) => zmq.send(message),
            Self::Nats(nats) => nats.send(&message),
        }
    }

    /// What came next; nothing at the end. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Vec<Arrival>> {
        match self {
            Self::Joined(joined) => joined.next().await,
            Self::Stream(stream) => stream.next().await,
            Self::Zmq(zmq) => zmq.next().await,
            Self::Nats(nats) => nats.next().await,
        }
    }
}

/// How many events wait between a machine and its owner, and commands the other way.
pub(crate) const WAITING: usize = 64;
