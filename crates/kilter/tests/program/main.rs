//! The program as a person runs it: what it prints, how it ends, and what it does to a network.

#![allow(clippy::unwrap_used, reason = "what does not work here is a failure of the test")]

mod cluster;
mod crashes;
mod daemon;
mod directory;
mod explained;
mod fleet;
mod golden;
mod guides;
mod handovers;
mod joint;
mod keeping;
mod lab;
mod management;
mod outcomes;
mod past;
mod pauses;
mod program;
mod recordings;
mod secrets;
mod stories;
mod terminal;
mod verbs;
mod words;
