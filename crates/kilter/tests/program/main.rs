//! The program as a person runs it: what it prints, how it ends, and what it does to a network.

#![allow(clippy::unwrap_used, reason = "what does not work here is a failure of the test")]

mod crashes;
mod daemon;
mod directory;
mod golden;
mod guides;
mod lab;
mod outcomes;
mod program;
mod stories;
mod verbs;
mod words;
