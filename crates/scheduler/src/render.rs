//! The text of a transaction for people: one half before it is carried out, the other half after it.
//!
//! Decided here: how a transaction reads in a log. The halves are separate so that what was about to happen is on
//! record even if carrying it out ends the agent. Not decided here: where the text goes.
//!
//! **Guarantees** that every byte is written once, so the time is linear in the length of the text; that text of others
//! (keys, values, errors) stays on its line whatever it contains; and that no line is longer than [`LONGEST`]
//! characters and a few words.

use std::fmt::{self, Write};
use std::time::Duration;

use crate::record::{Action, Argument, Note, Outcome, Record, Step, TxnType};
use crate::state::{Seq, State, Timestamp};
use crate::txn::OnFailure;
use crate::value::ValueRef;

/// How many characters of one key, value or error are shown.
pub const LONGEST: usize = 2000;

/// The columns of a box.
const WIDTH: usize = 120;

/// What there is to say about a transaction before it is carried out.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// Its position in the history.
    pub seq: Seq,
    /// What kind it is.
    pub txn_type: &'a TxnType,
    /// Who asks, and why.
    pub description: &'a str,
    /// What is asked.
    pub arguments: &'a [Argument],
    /// The steps in order; `None` if planning is switched off.
    pub planned: Option<&'a [Step]>,
}

/// The text of a transaction before it is carried out: what is asked, and the plan.
pub fn opening(opening: &Opening<'_>) -> String {
    let mut text = String::new();
    write_opening(&mut text, opening).expect("writing to a string cannot fail");
    text
}

/// The text of a transaction after it was carried out: what was done, and how it ended.
pub fn closing(record: &Record) -> String {
    let mut text = String::new();
    write_closing(&mut text, record).expect("writing to a string cannot fail");
    text
}

impl Record {
    /// What there was to say about the transaction before it was carried out.
    pub fn opening(&self) -> Opening<'_> {
        Opening {
            seq: self.seq,
            txn_type: &self.txn_type,
            description: &self.description,
            arguments: &self.arguments,
            planned: self.planned.as_deref(),
        }
    }

    /// The whole transaction for people: what was asked, planned and done.
    pub fn text(&self) -> String {
        let mut text = opening(&self.opening());
        write_closing(&mut text, self).expect("writing to a string cannot fail");
        text
    }
}

fn write_opening<W: Write>(out: &mut W, opening: &Opening<'_>) -> fmt::Result {
    let Opening { seq, txn_type, description, arguments, planned } = *opening;
    rule(out, '+', '=')?;
    row(out, '|', &format!("Transaction #{seq}"), &txn_type.to_string())?;
    rule(out, '+', '=')?;
    out.write_str("  * transaction arguments:\n")?;
    writeln!(out, "      - seq-num: {seq}\n      - type: {txn_type}")?;
    if !description.is_empty() {
        line(out, "      - Description", description)?;
    }
    out.write_str("      - values:")?;
    out.write_str(if arguments.is_empty() { " NONE\n" } else { "\n" })?;
    for argument in arguments {
        line(out, "          - key", &argument.key)?;
        value(out, "            value", argument.value.as_ref())?;
    }
    if let Some(planned) = planned {
        steps(out, "planned operations", planned)?;
    }
    Ok(())
}

fn write_closing<W: Write>(out: &mut W, record: &Record) -> fmt::Result {
    let took = record.duration();
    rule(out, 'o', '-')?;
    let heading = format!("executed operations ({} - {}, duration = {took:?})", record.start, record.stop);
    steps(out, &heading, record.steps())?;
    for key in &record.ignored {
        line(out, "  * ignored observation of", key)?;
    }
    match &record.outcome {
        Outcome::Applied => {}
        Outcome::AppliedWithPending => out.write_str("  * some of it is pending\n")?,
        Outcome::Incomplete(cause) => {
            line(out, "  * incomplete", format_args!("{}: {}", cause.key, cause.error))?
        }
        Outcome::Reverted(cause) => {
            line(out, "  * reverted", format_args!("{}: {}", cause.key, cause.error))?
        }
        Outcome::RevertFailed { cause, revert } => {
            line(out, "  * reverted", format_args!("{}: {}", cause.key, cause.error))?;
            line(out, "  * revert failed", format_args!("{}: {}", revert.key, revert.error))?;
        }
    }
    rule(out, 'x', '-')?;
    row(out, 'x', &format!("#{}", record.seq), &format!("took {}", rough(took)))?;
    rule(out, 'x', '-')
}

/// A line across.
fn rule<W: Write>(out: &mut W, corner: char, edge: char) -> fmt::Result {
    out.write_char(corner)?;
    (2..WIDTH).try_for_each(|_| out.write_char(edge))?;
    writeln!(out, "{corner}")
}

/// A line of a box, with one text at each end.
fn row<W: Write>(out: &mut W, edge: char, left: &str, right: &str) -> fmt::Result {
    let room = (WIDTH - 4).saturating_sub(left.chars().count());
    writeln!(out, "{edge} {left}{right:>room$} {edge}")
}

fn steps<W: Write>(out: &mut W, heading: &str, steps: &[Step]) -> fmt::Result {
    writeln!(out, "  * {heading}:{}", if steps.is_empty() { " NONE" } else { "" })?;
    for (number, one) in (1..).zip(steps) {
        step(out, number, one)?;
    }
    Ok(())
}

fn step<W: Write>(out: &mut W, number: usize, step: &Step) -> fmt::Result {
    write!(out, "      {number}. ")?;
    step.action.name().chars().try_for_each(|letter| out.write_char(letter.to_ascii_uppercase()))?;
    flags(out, step)?;
    out.write_str(":\n")?;
    line(out, "          - key", &step.key)?;
    let (before, after) = (step.before.value.as_ref(), step.after.value.as_ref());
    match step.action {
        Action::Delete | Action::Forget | Action::Drop | Action::Miss | Action::Settle => {
            value(out, "          - value", before)?
        }
        Action::Create => value(out, "          - value", after)?,
        Action::Retrieve
        | Action::Hold
        | Action::Observe
        | Action::Adopt
        | Action::Release
        | Action::Refuse
            if before.is_none() || before == after =>
        {
            value(out, "          - value", after)?;
        }
        Action::Update
        | Action::Retrieve
        | Action::Hold
        | Action::Observe
        | Action::Adopt
        | Action::Release
        | Action::Refuse => {
            value(out, "          - prev-value", before)?;
            value(out, "          - new-value", after)?;
        }
    }
    match step.note.as_deref() {
        Some(Note::Needs(unmet)) => {
            for one in unmet {
                line(out, "          - needs", one)?;
            }
        }
        Some(Note::Recreate(reason)) => line(out, "          - recreated for", reason)?,
        Some(Note::Refused(reason)) => line(out, "          - refused", reason)?,
        None => {}
    }
    match &step.error {
        Some(error) => line(out, "          - error", error),
        None => Ok(()),
    }
}

/// What is special about a step, in brackets.
fn flags<W: Write>(out: &mut W, step: &Step) -> fmt::Result {
    let marks = step.marks;
    let marks = [
        (marks.derived && !marks.property, "DERIVED"),
        (marks.property, "PROPERTY"),
        (marks.revert, "REVERT"),
        (marks.retry, "RETRY"),
        (marks.recreate, "RECREATE"),
    ];
    let marks = marks.into_iter().filter(|(on, _)| *on).map(|(_, name)| ("", name));
    let (before, after) = (step.before.state, step.after.state);
    let still = (before == after && is_special(after)).then(|| ("STILL-", after.name()));
    let was = (still.is_none() && is_special(before)).then(|| ("WAS-", before.name()));
    let is = (still.is_none() && is_special(after)).then(|| ("IS-", after.name()));
    let mut opened = false;
    for (how, name) in marks.chain(still).chain(was).chain(is) {
        write!(out, "{}{how}{name}", if opened { ", " } else { " [" })?;
        opened = true;
    }
    if opened { out.write_char(']') } else { Ok(()) }
}

/// Whether a state is neither where an item shall be nor where one is that is gone.
fn is_special(state: State) -> bool {
    !matches!(state, State::Configured | State::Nonexistent | State::Removed)
}

/// A name and a text of others, on one line.
fn line<W: Write>(out: &mut W, name: &str, text: impl fmt::Display) -> fmt::Result {
    write!(out, "{name}: ")?;
    let mut one = OneLine { out, room: LONGEST, cut: 0 };
    write!(one, "{text}")?;
    one.end()
}

/// A name and a value: its JSON on one line, a map without its outer braces.
fn value<W: Write>(out: &mut W, name: &str, value: Option<&ValueRef>) -> fmt::Result {
    let Some(value) = value else { return writeln!(out, "{name}: <NIL>") };
    match value.to_json() {
        serde_json::Value::Object(map) if map.is_empty() => writeln!(out, "{name}: <EMPTY>"),
        serde_json::Value::Object(map) => {
            write!(out, "{name}: ")?;
            let mut one = OneLine { out, room: LONGEST, cut: 0 };
            let mut comma = "";
            for (name, member) in map {
                write!(one, "{comma}{}:{member}", serde_json::Value::String(name))?;
                comma = ",";
            }
            one.end()
        }
        json @ (serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_)
        | serde_json::Value::Array(_)) => line(out, name, json),
    }
}

/// Text of others as it is shown on one line: bounded, and nothing in it breaks the line or turns its direction.
pub fn one_line(text: impl fmt::Display) -> String {
    let mut shown = String::new();
    let mut one = OneLine { out: &mut shown, room: LONGEST, cut: 0 };
    write!(one, "{text}").and_then(|()| one.end()).expect("writing to a string cannot fail");
    shown.truncate(shown.len() - 1);
    shown
}

/// Keeps text on one line and bounds it.
struct OneLine<'a, W> {
    out: &'a mut W,
    /// How many more characters are shown.
    room: usize,
    /// How many were left out.
    cut: usize,
}

impl<W: Write> OneLine<'_, W> {
    fn end(self) -> fmt::Result {
        if self.cut > 0 {
            write!(self.out, "… and {} more characters", self.cut)?;
        }
        self.out.write_char('\n')
    }
}

impl<W: Write> Write for OneLine<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if self.room == 0 {
                self.cut += 1;
                continue;
            }
            let spelt = spelt_out(character);
            self.room = self.room.saturating_sub(spelt.as_ref().map_or(1, String::len));
            match spelt {
                Some(spelt) => self.out.write_str(&spelt)?,
                None => self.out.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// What stands for a character that would break the line or turn its direction.
fn spelt_out(character: char) -> Option<String> {
    let turns = matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    match character {
        '\n' => Some("\\n".to_owned()),
        '\r' => Some("\\r".to_owned()),
        '\t' => Some("\\t".to_owned()),
        other if other.is_control() || turns => Some(format!("\\u{:04x}", u32::from(other))),
        _ => None,
    }
}

/// About how long.
fn rough(span: Duration) -> String {
    match span.as_micros() {
        micros @ 0..1_000 => format!("{micros}µs"),
        micros @ 1_000..1_000_000 => format!("{}ms", micros / 1_000),
        _ => format!("{:.1}s", span.as_secs_f64()),
    }
}

impl fmt::Display for TxnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changes { on_failure: OnFailure::Continue } => f.write_str("declared changes"),
            Self::Changes { on_failure: OnFailure::Revert } => {
                f.write_str("declared changes, revert on failure")
            }
            Self::FullResync => f.write_str("full resync"),
            Self::UpstreamResync => f.write_str("upstream resync"),
            Self::DownstreamResync => f.write_str("downstream resync"),
            Self::Refresh => f.write_str("refresh"),
            Self::Notification => f.write_str("notification"),
            Self::Retry { of, attempt } => write!(f, "retry of #{of}, attempt {attempt}"),
            Self::LateKind => f.write_str("late kind"),
            Self::Overdue => f.write_str("overdue confirmations"),
        }
    }
}

impl fmt::Display for Timestamp {
    /// As UTC to the nanosecond: `2019-01-21T11:29:27.794325984Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let (year, month, day) = civil(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
    }
}

/// The date of a day, counted from the first of January 1970.
///
/// Years are taken to begin with March, so that the leap day is the last of its year, in eras of 400 years.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (date, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (era * 400 + year + u64::from(month <= 2), month, date)
}

#[cfg(test)]
mod tests;
