//! The table of statuses: what is declared, where it stands, and why it is not where it should be.

use std::collections::{BTreeMap, HashSet};

use kilter_scheduler::render::one_line;
use kilter_scheduler::{Key, Scheduler, State};

use super::{count, paint};
use crate::wire;

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
    let items = scheduler.items();
    let declared: HashSet<Key> =
        items.iter().filter(|item| item.declared.is_some()).map(|item| item.key.clone()).collect();
    let items = items.into_iter().filter(|item| match &item.base {
        None => item.declared.is_some(),
        Some(base) => item.state != State::Configured && declared.contains(base),
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
        text.push_str(&format!(
            "{key:<width$}  {}{why}\n",
            paint(kilter_api::render::style_of(wire::state(*state)), state)
        ));
    }
    text.push_str(&summary(rows));
    text.push('\n');
    text
}

/// How many items stand where, on one line; what they derive is told if something is wrong with it.
pub fn summary(rows: &[Row]) -> String {
    let items = states(rows.iter().filter(|row| !row.derived), "item");
    match rows.iter().any(|row| row.derived) {
        true => format!("{items}; {}", states(rows.iter().filter(|row| row.derived), "derived item")),
        false => items,
    }
}

fn states<'a>(rows: impl Iterator<Item = &'a Row>, thing: &str) -> String {
    let mut states: BTreeMap<State, usize> = BTreeMap::new();
    for row in rows {
        *states.entry(row.state).or_default() += 1;
    }
    let items: usize = states.values().sum();
    let states: Vec<String> = states.iter().map(|(state, number)| format!("{number} {state}")).collect();
    format!("{}: {}", count(items, thing), states.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, state: State, why: &str, derived: bool) -> Row {
        Row { key: key.to_owned(), state, why: why.to_owned(), derived }
    }

    #[test]
    fn what_is_wrong_with_a_derived_item_is_not_hidden_by_its_base() {
        let rows = [
            row("link/a", State::Configured, "", false),
            row("up/a", State::Failed, "create failed: busy", true),
        ];
        let shown = anstream::adapter::strip_str(&table(&rows)).to_string();
        let expected = "ITEM    STATE\nlink/a  CONFIGURED\nup/a    FAILED         create failed: busy\n\
                        1 item: 1 CONFIGURED; 1 derived item: 1 FAILED\n";
        assert_eq!(shown, expected);
    }
}
