//! Random histories against the reference model.
//!
//! A seed gives a list of [`Command`]s, which are lines of a scenario script. [`run`] carries them out on a scheduler and
//! the fake world and checks every property after every transaction; [`shrink`] makes a failing list short.

mod check;
mod command;
mod drive;
mod generate;
mod run;
mod shrink;

pub use command::Command;
pub use generate::{decode, history};
pub use run::{Broken, Observer, run, run_observed};
pub use shrink::{shorten, shrink, shrink_while};

/// A script of commands as text.
pub fn script(commands: &[Command]) -> String {
    commands.iter().map(|command| format!("{command}\n")).collect()
}
