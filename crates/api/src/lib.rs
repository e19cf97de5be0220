//! The wire: what the agent and its clients say to each other, and how that looks as text.
//!
//! Decided here: the messages ([`v1`], compiled from `proto/`), how they are spelt in JSON and YAML, how errors travel
//! ([`problem`]), how an agent is reached ([`client`]), and how everything reads for people ([`render`]): log, REST
//! text and command line change together. Not decided here: what any of it means; this crate knows no internal type.

pub mod client;
mod fields;
pub mod openapi;
pub mod problem;
pub mod render;
mod spelling;
pub mod v1;

pub use client::{CallError, Client};
