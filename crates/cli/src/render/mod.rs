//! How things look: text with colours, which [`Output`](crate::Output) leaves out where nobody wants them.

pub mod plan;
pub mod status;

use std::fmt::Display;

use anstyle::{AnsiColor, Style};
use kilter_scheduler::State;

/// A text in a style.
pub fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// How many of a thing: `1 item`, `2 items`.
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// The colour of a state.
pub(crate) fn style_of(state: State) -> Style {
    match state {
        State::Configured | State::Obtained | State::Discovered => AnsiColor::Green.on_default(),
        State::Pending | State::Applying | State::Removing | State::Retrying => {
            AnsiColor::Yellow.on_default()
        }
        State::Missing | State::Unimplemented | State::Invalid | State::Failed => AnsiColor::Red.on_default(),
        State::Removed | State::Nonexistent => Style::new().dimmed(),
    }
}
