//! What differs between two moments: items that came, went, or have other fields.

use std::collections::BTreeMap;

use anstyle::AnsiColor;
use serde_json::Value;

use super::{count, one_line, paint, style_of};
use crate::v1::{Difference, Side, State};

/// The differences for people, by key.
pub fn text(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return "no difference\n".to_owned();
    }
    let mut text = format!("{}\n", count(differences.len(), "difference"));
    text.extend(differences.iter().map(one));
    text
}

fn one(difference: &Difference) -> String {
    let is_there = |side: &Option<Side>| {
        side.as_ref().is_some_and(|side| {
            !matches!(side.state(), State::Unspecified | State::Nonexistent | State::Removed)
        })
    };
    let state = |side: &Option<Side>| {
        let state = side.as_ref().map_or(State::Nonexistent, Side::state);
        paint(style_of(state), state)
    };
    let key = one_line(&difference.key);
    let (before, after) = (&difference.before, &difference.after);
    let (sign, colour, states) = match (is_there(before), is_there(after)) {
        (false, _) => ("+", AnsiColor::Green, state(after)),
        (true, false) => ("-", AnsiColor::Red, state(before)),
        (true, true) if state(before) == state(after) => ("~", AnsiColor::Yellow, state(after)),
        (true, true) => ("~", AnsiColor::Yellow, format!("{} → {}", state(before), state(after))),
    };
    let mut text = format!("{} {key} {states}\n", paint(colour.on_default(), sign));
    let value = |side: &Option<Side>| {
        side.as_ref().filter(|side| !side.value.is_empty()).map(|side| side.value.clone()).unwrap_or_default()
    };
    for (path, (old, new)) in fields(&value(before), &value(after)) {
        let path = one_line(&path);
        match (old, new) {
            (Some(old), Some(new)) => text.push_str(&format!("    {path}: {old} → {new}\n")),
            (None, Some(new)) => text.push_str(&format!("    {path}: {new}\n")),
            (Some(old), None) => text.push_str(&format!("    {path}: {old} → nothing\n")),
            (None, None) => {}
        }
    }
    text
}

/// The fields that differ, by path, with what they were and are.
fn fields(before: &str, after: &str) -> BTreeMap<String, (Option<String>, Option<String>)> {
    let (before, after) = (leaves(before), leaves(after));
    let paths = before.keys().chain(after.keys());
    let pairs = paths.map(|path| (path.clone(), (before.get(path).cloned(), after.get(path).cloned())));
    pairs.filter(|(_, (old, new))| old != new).collect()
}

/// Every scalar of a JSON text by its path; what is nothing is left out.
fn leaves(text: &str) -> BTreeMap<String, String> {
    let mut leaves = BTreeMap::new();
    let mut open = vec![(String::new(), serde_json::from_str(text).unwrap_or(Value::Null))];
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Null => {}
            Value::Object(fields) => {
                open.extend(fields.into_iter().map(|(name, value)| {
                    (if path.is_empty() { name } else { format!("{path}.{name}") }, value)
                }))
            }
            Value::Array(list) => {
                open.extend(list.into_iter().enumerate().map(|(at, value)| (format!("{path}[{at}]"), value)));
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                leaves.insert(path, one_line(&value.to_string()));
            }
        }
    }
    leaves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_fields_that_differ_are_told() {
        let side = |state: State, value: &str| Some(Side { state: state.into(), value: value.to_owned() });
        let (before, after) = ("{\"mtu\":1500,\"name\":\"a\"}", "{\"mtu\":9000,\"name\":\"a\",\"tags\":[1]}");
        let changed = Difference {
            key: "link/a".to_owned(),
            before: side(State::Configured, before),
            after: side(State::Pending, after),
        };
        let gone = Difference {
            key: "link/b".to_owned(),
            before: side(State::Configured, "{\"mtu\":1}"),
            after: None,
        };
        let shown = anstream::adapter::strip_str(&text(&[changed, gone])).to_string();
        let expected = "2 differences\n~ link/a CONFIGURED → PENDING\n    mtu: 1500 → 9000\n    tags[0]: 1\n\
                        - link/b CONFIGURED\n    mtu: 1 → nothing\n";
        assert_eq!(shown, expected);
    }
}
