//! The agent in one process, over the fake world: from what is asked at the desk to what exists and is told.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod confirm;
mod desk;
mod house;
mod keep;
