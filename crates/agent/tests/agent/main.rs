//! The agent in one process, over the fake world or the kernel: from what is asked at the desk to what exists and is told.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod confirm;
mod desk;
mod disk;
mod fuzzed;
mod house;
mod http;
mod keep;
mod kernel;
mod lists;
mod outcomes;
mod published;
mod recorded;
mod remote;
mod rest;
mod secrets;
mod served;
mod telemetry;
mod watch;
mod wire;
