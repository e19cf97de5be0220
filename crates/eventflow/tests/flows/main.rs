//! The controller over a world of objects that follows the rules of the API: no server, no clock, no chance.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod conditions;
mod house;
mod interleavings;
mod manifests;
mod retries;
mod sharing;
mod watching;
mod world;
