//! What every driver promises, and what each one promises besides.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod embedded;
mod suite;
