//! The command line: what may be typed, the verbs that need no agent, and how plans and statuses look.
//!
//! Decided here: arguments, exit codes, colours and wording. Not decided here: how anything is made real; this crate
//! knows neither the agent nor any southbound. Open [`arguments`] for the verbs, [`exit`] for how a command may end,
//! [`commands`] for what the offline ones do.

pub mod arguments;
mod chain;
pub mod commands;
pub mod daemon;
mod error;
pub mod exit;
mod output;
pub mod read;
pub mod render;

pub use arguments::{Arguments, Verb};
pub use chain::chain;
pub use error::{CommandError, report};
pub use exit::Exit;
pub use output::Output;
