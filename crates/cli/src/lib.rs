//! The command line: what may be typed, the verbs, and what an offline plan and the agent both say ([`wire`]).
//!
//! Decided here: arguments, exit codes, and which verb asks the agent what. Not decided here: how anything is made
//! real; this crate knows neither the agent nor any southbound. Open [`arguments`] for the verbs, [`commands`] for
//! what each does, [`exit`] for how a command may end.

pub mod arguments;
pub mod blast;
mod chain;
pub mod commands;
mod consent;
pub mod daemon;
pub mod declare;
mod error;
pub mod eventflow;
pub mod exit;
mod follow;
#[cfg(test)]
mod manual;
mod output;
pub mod read;
pub mod render;
mod session;
mod span;
mod stored;
pub mod wire;

pub use arguments::{Arguments, Verb};
pub use chain::chain;
pub use error::{CommandError, report};
pub use exit::Exit;
pub use output::Output;
pub use stored::StoredPlanError;
