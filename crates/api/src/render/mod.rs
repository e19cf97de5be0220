//! How things look: text with colours, which whoever prints it leaves out where nobody wants them.
//!
//! Decided here: wording, order and columns, one file for each noun. Not decided here: where the text goes, and
//! whether its colours are kept.

pub mod diff;
pub mod dot;
pub mod ends;
pub mod event;
pub mod explain;
pub mod graph;
pub mod item;
mod layout;
pub mod looks;
pub mod plan;
pub mod status;
pub mod svg;
pub mod table;
pub mod timeline;
pub mod transaction;

use std::fmt::Display;

use anstyle::{AnsiColor, Style};
use prost_types::Timestamp;

use crate::v1::State;

/// A text in a style.
pub fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// How many of a thing: `1 item`, `2 items`.
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// The colour of a state.
pub fn style_of(state: State) -> Style {
    match state {
        State::Configured | State::Obtained | State::Discovered => AnsiColor::Green.on_default(),
        State::Pending | State::Applying | State::Removing | State::Retrying => {
            AnsiColor::Yellow.on_default()
        }
        State::Missing | State::Unimplemented | State::Invalid | State::Failed => AnsiColor::Red.on_default(),
        State::Removed | State::Nonexistent | State::Unspecified => Style::new().dimmed(),
    }
}

/// A text of others on one line, whatever it contains.
pub fn one_line(text: &str) -> String {
    let turns = |letter: char| matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            other if other.is_control() || turns(other) => {
                line.push_str(&format!("\\u{:04x}", u32::from(other)));
            }
            other => line.push(other),
        }
    }
    line
}

/// A moment in UTC, to the nanosecond: `2019-01-21T11:29:27.794325984Z`.
pub fn moment(moment: &Timestamp) -> String {
    match jiff::Timestamp::new(moment.seconds, moment.nanos) {
        Ok(at) => format!("{at:.9}"),
        Err(_) => format!("{}.{:09}", moment.seconds, moment.nanos),
    }
}

/// A moment in UTC, to the second, as lists show it: `2019-01-21 11:29:27`.
pub(crate) fn short_moment(at: Option<&Timestamp>) -> String {
    let Some(at) = at else { return "-".to_owned() };
    moment(at).get(..19).map(|text| text.replace('T', " ")).unwrap_or_default()
}

/// How long it was from one moment to another: `17ms`.
pub(crate) fn span(from: Option<&Timestamp>, to: Option<&Timestamp>) -> String {
    let (Some(from), Some(to)) = (from, to) else { return "-".to_owned() };
    let nanos = i128::from(to.seconds - from.seconds) * 1_000_000_000 + i128::from(to.nanos - from.nanos);
    match nanos / 1_000 {
        micros if micros < 1_000 => format!("{micros}µs"),
        micros if micros < 1_000_000 => format!("{}ms", micros / 1_000),
        micros => format!("{:.1}s", micros as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_spans_are_short() {
        let from = Timestamp { seconds: 1_548_070_167, nanos: 794_325_984 };
        let to = Timestamp { seconds: 1_548_070_168, nanos: 294_325_984 };
        assert_eq!(short_moment(Some(&from)), "2019-01-21 11:29:27");
        assert_eq!(span(Some(&from), Some(&to)), "500ms");
        assert_eq!(span(Some(&from), None), "-");
    }

    #[test]
    fn text_of_others_stays_on_its_line() {
        assert_eq!(one_line("a\nb\u{7}"), "a\\nb\\u0007");
    }
}
