//! How scripts show transactions, items and statuses. One line per step; the columns are those of the examples.

use std::fmt::Write as _;

use kilter_scheduler::{
    Action, Cause, Item, Note, Outcome, Record, State, Status, Step, TxnType, Unmet, ValueRef,
};

use crate::attrs::Attrs;

/// A transaction with its steps, and the observations it left aside.
pub fn record(record: &Record) -> String {
    let mut text = header(record);
    text.push('\n');
    text.push_str(&steps(record.steps()));
    for key in &record.ignored {
        line(&mut text, &format!("  {:<8} {key}", "ignore"));
    }
    text
}

/// The first line of a transaction: its number, what kind it was, how it ended if anything went wrong.
pub fn header(record: &Record) -> String {
    let kind = match &record.txn_type {
        TxnType::Changes { .. } => String::new(),
        TxnType::FullResync => " resync full".to_owned(),
        TxnType::UpstreamResync => " resync upstream".to_owned(),
        TxnType::DownstreamResync => " resync downstream".to_owned(),
        TxnType::Refresh => " refresh".to_owned(),
        TxnType::Notification => " notification".to_owned(),
        TxnType::Retry { of, .. } => format!(" retry of #{of}"),
        TxnType::LateKind => " late kind".to_owned(),
        TxnType::Overdue => " overdue".to_owned(),
    };
    let cause = |cause: &Cause| format!("{}: {}", cause.key, cause.error);
    let outcome = match &record.outcome {
        Outcome::Applied | Outcome::AppliedWithPending => String::new(),
        Outcome::Incomplete(why) => format!(" incomplete: {}", cause(why)),
        Outcome::Reverted(why) => format!(" reverted: {}", cause(why)),
        Outcome::RevertFailed { cause: why, revert } => {
            format!(" revert failed: {} (after {})", cause(revert), cause(why))
        }
    };
    format!("txn #{}{kind}{outcome}", record.seq)
}

/// Steps, one line each.
pub fn steps(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps.iter().filter(|step| !step.is_quiet()) {
        line(&mut text, &self::step(step));
    }
    text
}

/// One step.
pub fn step(step: &Step) -> String {
    let marks = [
        (step.marks.property, "property"),
        (step.marks.derived && !step.marks.property, "derived"),
        (step.marks.revert, "revert"),
    ];
    let marks: Vec<&str> = marks.into_iter().filter(|(on, _)| *on).map(|(_, word)| word).collect();
    let marks = if marks.is_empty() { String::new() } else { format!("  ({})", marks.join(", ")) };
    format!("  {:<8} {:<30}{}{marks}", step.action.name(), step.key, body(step))
}

fn body(step: &Step) -> String {
    let failed = step.error.as_ref().map(|error| format!("✗ {error}"));
    if step.action == Action::Retrieve {
        return failed.unwrap_or_else(|| match &step.after.value {
            Some(value) => format!("found {}", self::value(value)).trim_end().to_owned(),
            None => "absent".to_owned(),
        });
    }
    let state = match (step.after.state, step.note.as_deref()) {
        (_, Some(Note::Recreate(reason))) if step.action == Action::Delete && failed.is_none() => {
            format!("(recreate: {reason})")
        }
        (State::Nonexistent | State::Removed, _) => String::new(),
        (state, Some(Note::Needs(unmet))) if !unmet.is_empty() => format!("→ {state}{}", needs(unmet)),
        (state, Some(Note::Refused(reason))) => format!("→ {state}, {reason}"),
        (state, _) => format!("→ {state}"),
    };
    match failed {
        Some(failed) => format!("{failed} {state}").trim_end().to_owned(),
        None => state,
    }
}

/// What an item waits for: `, needs a/1, any b/*`.
pub fn needs(unmet: &[Unmet]) -> String {
    let words: Vec<String> = unmet.iter().map(ToString::to_string).collect();
    if words.is_empty() { String::new() } else { format!(", needs {}", words.join(", ")) }
}

/// A value of a test kind.
pub fn value(value: &ValueRef) -> String {
    Attrs::of(value).to_string()
}

/// Items with their states, values and reasons, one line each; `empty` if there are none.
pub fn graph(items: &[Item]) -> String {
    let mut text = String::new();
    for item in items {
        line(&mut text, &self::item(item));
    }
    if text.is_empty() { "empty\n".to_owned() } else { text }
}

fn item(item: &Item) -> String {
    let mut text = format!("{:<30}{}{}", item.key, item.state, needs(&item.unmet));
    let mut add = |part: String| write!(text, "{part}").expect("writing to a string cannot fail");
    if !item.held_by.is_empty() {
        let holders: Vec<&str> = item.held_by.iter().map(|key| key.as_str()).collect();
        add(format!(", held by {}", holders.join(", ")));
    }
    if let Some(error) = &item.error {
        add(format!(", ✗ {error}"));
    }
    let shown = item.declared.as_ref().or(item.actual.as_ref());
    if let Some(shown) = shown.map(value).filter(|shown| !shown.is_empty()) {
        add(format!("  {shown}"));
    }
    if let (Some(declared), Some(actual)) = (&item.declared, &item.actual)
        && declared != actual
    {
        add(format!("  (actual: {})", value(actual)));
    }
    match (&item.base, &item.kind) {
        (Some(_), Some(_)) => add("  (derived)".to_owned()),
        (Some(_), None) => add("  (property)".to_owned()),
        (None, _) => {}
    }
    text
}

/// A status with those of the derived items under it.
pub fn status(status: &Status) -> String {
    let mut text = String::new();
    let mut open = vec![(0, status)];
    while let Some((depth, status)) = open.pop() {
        let mut words = format!("{}{} {}", "  ".repeat(depth), status.key, status.state);
        words.push_str(&needs(&status.unmet));
        let fields: Vec<String> = status.fields.iter().map(ToString::to_string).collect();
        let holders: Vec<String> = status.held_by.iter().map(|key| format!("held by {key}")).collect();
        let error = status.error.iter().map(|error| format!("✗ {error}"));
        let last = status.last.iter().map(|last| format!("last {}", last.name()));
        let exists = status.exists.then(|| "exists".to_owned());
        for word in fields.into_iter().chain(holders).chain(error).chain(last).chain(exists) {
            write!(words, ", {word}").expect("writing to a string cannot fail");
        }
        line(&mut text, &words);
        open.extend(status.derived.iter().rev().map(|derived| (depth + 1, derived)));
    }
    text
}

/// Adds a line without blanks at its end.
fn line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kilter_scheduler::{Key, Marks, Side};

    use super::*;

    fn step_to(action: Action, key: &str, after: State) -> Step {
        let side = |state| Side { state, value: None };
        Step {
            key: Key::new(key),
            base: None,
            action,
            before: side(State::Nonexistent),
            after: side(after),
            error: None,
            note: None,
            marks: Marks::default(),
        }
    }

    #[test]
    fn columns_are_those_of_the_examples() {
        let plain = step_to(Action::Create, "tap/my-tap", State::Configured);
        assert_eq!(step(&plain), "  create   tap/my-tap                    → CONFIGURED");
        let long = step_to(Action::Create, "tap/lender/address/10.0.0.1/24", State::Configured);
        assert_eq!(step(&long), "  create   tap/lender/address/10.0.0.1/24→ CONFIGURED");
        let mut held = step_to(Action::Hold, "bd/bd1/interface/tap1", State::Pending);
        held.note = Some(Arc::new(Note::Needs(vec![Unmet::On(Key::new("tap/tap1"))])));
        held.marks.derived = true;
        let expected = "  hold     bd/bd1/interface/tap1         → PENDING, needs tap/tap1  (derived)";
        assert_eq!(step(&held), expected);
    }

    #[test]
    fn what_is_gone_has_no_state() {
        let mut gone = step_to(Action::Delete, "tap/my-tap", State::Removed);
        assert_eq!(steps(std::slice::from_ref(&gone)), "  delete   tap/my-tap\n");
        gone.marks.revert = true;
        assert_eq!(step(&gone), "  delete   tap/my-tap                      (revert)");
        gone.marks.revert = false;
        gone.note = Some(Arc::new(Note::Recreate("rx-ring 256 → 512".to_owned())));
        let expected = "  delete   tap/my-tap                    (recreate: rx-ring 256 → 512)";
        assert_eq!(step(&gone), expected);
    }

    #[test]
    fn failures_come_before_the_state() {
        let mut failed = step_to(Action::Create, "tap/my-tap", State::Retrying);
        failed.error = Some("link setup timed out".into());
        let expected = "  create   tap/my-tap                    ✗ link setup timed out → RETRYING";
        assert_eq!(step(&failed), expected);
        let absent = step_to(Action::Retrieve, "tap/my-tap", State::Retrying);
        assert_eq!(step(&absent), "  retrieve tap/my-tap                    absent");
    }
}
