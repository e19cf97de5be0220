//! The controller against a real API server and its etcd.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod adoption;
mod between;
mod checker;
mod commands;
mod deaths;
mod forgotten;
mod interleavings;
mod kills;
mod knative;
mod leaders;
mod life;
mod orders;
mod osb;
mod ownership;
mod platform;
mod rights;
mod serve;
mod server;
mod shop;
