//! The southbound against the kernel: each test in a network namespace of its own, with its own folder of namespaces.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what it did, and fails where it stands"
)]

mod drift;
mod faults;
mod flows;
mod harness;
mod kinds;
mod network;
mod others;
mod scale;
