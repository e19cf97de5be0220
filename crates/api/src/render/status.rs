//! The table of statuses: what is declared, where it stands, and why it is not where it should be.

use std::collections::BTreeMap;

use super::table::{Cell, table as columns};
use super::{count, one_line, style_of};
use crate::v1::{State, Status};

/// What a person wants to see of statuses, by key: every base item, and of what they derive whatever is not as it
/// should be.
pub fn rows(statuses: &[Status]) -> Vec<(&Status, bool)> {
    let mut rows: Vec<(&Status, bool)> = Vec::new();
    for status in statuses {
        rows.push((status, false));
        let derived = status.derived.iter().filter(|derived| derived.state() != State::Configured);
        rows.extend(derived.map(|derived| (derived, true)));
    }
    rows.sort_by(|(one, _), (other, _)| one.key.cmp(&other.key));
    rows
}

/// The statuses as a table, and how many items stand where.
pub fn table(statuses: &[Status], width: Option<usize>) -> String {
    let rows = rows(statuses);
    if rows.is_empty() {
        return "no items\n".to_owned();
    }
    let cells = |(status, _): &(&Status, bool)| -> Vec<Cell> {
        let state = Cell::painted(style_of(status.state()), status.state().name());
        vec![one_line(&status.key).into(), state, one_line(&status.why).into()]
    };
    let lines = rows.iter().map(cells).collect();
    format!("{}{}\n", columns(&["ITEM", "STATE", ""], lines, width), told(&rows))
}

/// How many items stand where, on one line; what they derive is told if something is wrong with it.
pub fn summary(statuses: &[Status]) -> String {
    told(&rows(statuses))
}

fn told(rows: &[(&Status, bool)]) -> String {
    let items = states(rows.iter().filter(|(_, derived)| !derived), "item");
    match rows.iter().any(|(_, derived)| *derived) {
        true => format!("{items}; {}", states(rows.iter().filter(|(_, derived)| *derived), "derived item")),
        false => items,
    }
}

fn states<'a>(rows: impl Iterator<Item = &'a (&'a Status, bool)>, thing: &str) -> String {
    let mut states: BTreeMap<State, usize> = BTreeMap::new();
    for (status, _) in rows {
        *states.entry(status.state()).or_default() += 1;
    }
    let items: usize = states.values().sum();
    let states: Vec<String> = states.iter().map(|(state, number)| format!("{number} {state}")).collect();
    format!("{}: {}", count(items, thing), states.join(", "))
}

/// One item with everything its status says.
pub fn one(status: &Status) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("{name:<10} {}\n", one_line(value)));
        }
    };
    line("item", &status.key);
    line("state", status.state().name());
    line("exists", if status.exists { "yes" } else { "no" });
    line("last", &status.last);
    line(
        "changed by",
        &if status.changed_by == 0 { String::new() } else { format!("txn #{}", status.changed_by) },
    );
    line("why", &status.why);
    line("error", &status.error);
    for field in &status.fields {
        line("refused", &format!("{}: {}", field.path, field.message));
    }
    line("needs", &status.unmet.join(", "));
    line("held by", &status.held_by.join(", "));
    if !status.derived.is_empty() {
        text.push_str("derived\n");
        let width = status.derived.iter().map(|derived| derived.key.chars().count()).max().unwrap_or(0);
        for derived in &status.derived {
            let state = super::paint(style_of(derived.state()), derived.state());
            let why =
                if derived.why.is_empty() { String::new() } else { format!("  {}", one_line(&derived.why)) };
            text.push_str(&format!("  {:<width$}  {state}{why}\n", one_line(&derived.key)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(key: &str, state: State, why: &str, derived: Vec<Status>) -> Status {
        let (key, why) = (key.to_owned(), why.to_owned());
        Status { key, state: state.into(), why, derived, ..Status::default() }
    }

    #[test]
    fn what_is_wrong_with_a_derived_item_is_not_hidden_by_its_base() {
        let up = status("up/a", State::Failed, "create failed: busy", Vec::new());
        let address = status("address/a", State::Configured, "", Vec::new());
        let statuses = [status("link/a", State::Configured, "", vec![address, up])];
        let shown = anstream::adapter::strip_str(&table(&statuses, None)).to_string();
        let expected = "ITEM    STATE\nlink/a  CONFIGURED\nup/a    FAILED      create failed: busy\n\
                        1 item: 1 CONFIGURED; 1 derived item: 1 FAILED\n";
        assert_eq!(shown, expected);
    }
}
