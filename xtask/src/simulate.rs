//! `cargo xtask simulate`: random histories against the reference model, in release mode.
//!
//! Decided here: nothing but the build; every argument belongs to the `simulate` program of `testkit`.

use std::os::unix::process::CommandExt;

use anyhow::{Context, Result};

/// The cargo arguments that build and run the simulation, without its own.
pub(crate) const CARGO_RUN: [&str; 9] =
    ["run", "--release", "--locked", "--quiet", "-p", "kilter-testkit", "--bin", "simulate", "--"];

/// Turns this process into the simulation; it returns only when that could not be started.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let error = crate::child::cargo(&CARGO_RUN).args(arguments).exec();
    Err(error).context("could not start the simulation")
}
