//! The southbound against the kernel: each test in a network namespace of its own, with its own folder of namespaces.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what it did, and fails where it stands"
)]

mod adoption;
mod back;
mod drift;
mod exports;
mod faults;
mod flows;
mod harness;
mod kinds;
mod network;
mod options;
mod ordered;
mod others;
mod scale;
mod threeways;
mod unchanged;
