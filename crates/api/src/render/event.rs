//! Events: the list, and one of them.

use super::plan::conflicts;
use super::table::{Cell, table};
use super::{one_line, short_moment, span};
use crate::v1::Event;

/// Events as a table, oldest first.
pub fn list(events: &[Event], width: Option<usize>) -> String {
    if events.is_empty() {
        return "no events\n".to_owned();
    }
    let rows = events.iter().map(|event| -> Vec<Cell> {
        let txn = if event.txn == 0 { "-".to_owned() } else { format!("#{}", event.txn) };
        let what = match event.failures.first() {
            Some(failure) => format!("{}: ✗ {failure}", event.name),
            None => event.name.clone(),
        };
        vec![
            event.seq.to_string().into(),
            short_moment(event.start.as_ref()).into(),
            span(event.start.as_ref(), event.stop.as_ref()).into(),
            event.method.as_str().into(),
            txn.into(),
            one_line(&what).into(),
        ]
    });
    table(&["EVENT", "START (UTC)", "TOOK", "METHOD", "TXN", "WHAT"], rows.collect(), width)
}

/// One event: what it was, what handlers did about it, and what went wrong.
pub fn show(event: &Event) -> String {
    let mut text = format!("event {}: {}\n", event.seq, event.method);
    for line in event.description.lines() {
        text.push_str(&format!("  {}\n", one_line(line)));
    }
    let took = span(event.start.as_ref(), event.stop.as_ref());
    text.push_str(&format!("  began {} UTC, took {took}\n", short_moment(event.start.as_ref())));
    if let Some(first) = event.follow_up_to {
        text.push_str(&format!("  follows from event {first}\n"));
    }
    for handler in &event.handlers {
        let revert = if handler.revert { " (revert)" } else { "" };
        let error = if handler.error.is_empty() {
            String::new()
        } else {
            format!(" ✗ {}", one_line(&handler.error))
        };
        text.push_str(&format!("  {}{revert}: {}{error}\n", handler.handler, one_line(&handler.change)));
    }
    match event.txn {
        0 => text.push_str("  no transaction\n"),
        txn => text.push_str(&format!("  txn #{txn}\n")),
    }
    for failure in &event.failures {
        text.push_str(&format!("  ✗ {}\n", one_line(failure)));
    }
    text.push_str(&conflicts(&event.conflicts));
    text
}
