//! Real sockets: publishers die and come back, and nothing is lost, resurrected or different.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fleet;
mod nats;
mod tcp;
mod tls;
mod truth;
mod zmq;
