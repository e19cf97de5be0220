//! What every driver promises, and what each one promises besides.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and one that is killed says how far it was"
)]

mod crashes;
mod disk;
mod embedded;
mod etcd;
mod faults;
mod random;
mod suite;
