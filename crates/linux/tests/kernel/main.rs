//! The southbound against the kernel: each test in a network namespace of its own, with its own folder of namespaces.

mod drift;
mod faults;
mod flows;
mod harness;
mod kinds;
mod network;
mod scale;
