//! How scripts show what the loop did.

use std::fmt::Write as _;

use kilter_events::{Answered, Conflict, EventRecord, Step, banner, chain};
use kilter_scheduler::Timestamp;

use crate::render;

/// A step; empty for one that only waits or opens.
pub(super) fn step(step: &Step, banners: bool) -> String {
    match step {
        Step::Opened(opening) if banners => banner::opening(opening),
        Step::Closed(record) if banners => banner::closing(record),
        Step::Closed(record) => self::record(record),
        Step::Perform(effect) => format!("perform #{} {} for {}\n", effect.id, effect.name, effect.handler),
        Step::Fatal(fatal) => format!("fatal, exit code {}: {fatal}\n", fatal.exit_code()),
        Step::Stopped => "stopped\n".to_owned(),
        Step::Opened(_) | Step::Commit(_) | Step::Plan(_) | Step::Wait(_) => String::new(),
    }
}

/// An event with its handlers, its transaction, and what went wrong.
fn record(record: &EventRecord) -> String {
    let mut text = format!("event #{} {}", record.seq, record.name);
    let mut add =
        |part: std::fmt::Arguments<'_>| text.write_fmt(part).expect("writing to a string cannot fail");
    if let Some(parent) = record.follow_up_to {
        add(format_args!(" (follow-up to #{parent})"));
    }
    add(format_args!("\n"));
    for line in record.description.lines().filter(|line| line.starts_with("* error")) {
        add(format_args!("  {line}\n"));
    }
    for one in &record.handlers {
        let what = match (&one.error, one.revert) {
            (Some(error), true) => format!("✗ revert: {error}"),
            (Some(error), false) => format!("✗ {error}"),
            (None, true) => "reverts".to_owned(),
            (None, false) => one.change.clone(),
        };
        if what.is_empty() && !one.over_budget {
            continue;
        }
        let slow = if one.over_budget { format!("  (took {:?})", one.took) } else { String::new() };
        add(format_args!("{}\n", format!("  {:<8} {what}{slow}", one.handler).trim_end()));
    }
    if let Some(txn) = &record.txn {
        add(format_args!("{}", render::record(txn)));
    }
    for conflict in &record.conflicts {
        add(format_args!("{}", self::conflict(conflict)));
    }
    for difference in &record.differences {
        add(format_args!("difference: {difference}\n"));
    }
    if let Some(cause) = record.cause() {
        add(format_args!("failed: {cause}\n"));
    }
    text
}

/// Where two sources contradict each other.
pub(super) fn conflict(conflict: &Conflict) -> String {
    let Conflict { key, field, heard, unheard } = conflict;
    format!("conflict: {key} {field}: {heard} over {unheard}\n")
}

/// An answer to a producer.
pub(super) fn answer(name: &str, answered: &Answered) -> String {
    match answered {
        Ok(()) => format!("answered {name}: ok\n"),
        Err(error) => format!("answered {name}: ✗ {}\n", chain(error)),
    }
}

/// One line of the history.
pub(super) fn remembered(record: &EventRecord, start: Timestamp) -> String {
    let failed = record.cause().map(|cause| format!(" ✗ {cause}")).unwrap_or_default();
    let at = record.start.since(start).as_secs();
    let parent = record.follow_up_to.map(|parent| format!(" (follow-up to #{parent})")).unwrap_or_default();
    format!("#{} +{at}s {}{parent}{failed}\n", record.seq, record.name)
}
