//! The table of statuses: what is declared, where it stands, and why it is not where it should be.

use std::collections::BTreeMap;

use kilter_scheduler::render::one_line;
use kilter_scheduler::{Scheduler, State};

use super::{count, paint, style_of};

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The item.
    pub key: String,
    /// Where it stands.
    pub state: State,
    /// Why it is not where it should be; empty if it is.
    pub why: String,
    /// Whether another item derives it.
    pub derived: bool,
}

/// Every declared item, and of what they derive whatever is not as it should be; by key.
pub fn rows(scheduler: &Scheduler) -> Vec<Row> {
    let items = scheduler.items().into_iter().filter(|item| {
        let derived = item.base.is_some();
        (item.declared.is_some() && !derived) || (derived && item.state != State::Configured)
    });
    items
        .map(|item| {
            let explanation = scheduler.explain(item.key.as_str());
            let why = explanation.links.first().map(|link| one_line(&link.why)).unwrap_or_default();
            let why = if item.state == State::Configured { String::new() } else { why };
            Row { key: one_line(&item.key), state: item.state, why, derived: item.base.is_some() }
        })
        .collect()
}

/// The rows as a table, and how many items stand where.
pub fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.key.chars().count()).max().unwrap_or(0).max(4);
    let mut text = format!("{:<width$}  STATE\n", "ITEM");
    for Row { key, state, why, .. } in rows {
        let gap = " ".repeat(15_usize.saturating_sub(state.name().len()));
        let why = if why.is_empty() { String::new() } else { format!("{gap}{why}") };
        text.push_str(&format!("{key:<width$}  {}{why}\n", paint(style_of(*state), state)));
    }
    text.push_str(&summary(rows));
    text.push('\n');
    text
}

/// How many items stand where, on one line.
pub fn summary(rows: &[Row]) -> String {
    let mut states: BTreeMap<State, usize> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.derived) {
        *states.entry(row.state).or_default() += 1;
    }
    let items: usize = states.values().sum();
    let states: Vec<String> = states.iter().map(|(state, number)| format!("{number} {state}")).collect();
    format!("{}: {}", count(items, "item"), states.join(", "))
}
