//! Declarations from the wire: checked as a document is, so that every client hears the same words.

use kilter_api::v1::{self, Misplaced, Problem, Reason};
use kilter_events::Extent;
use kilter_model::document::{Place, Source, read};
use kilter_scheduler::{FieldError, Key, Observation, Origin};
use serde_json::Value;

use super::convert;
use crate::desk::{Declaration, Put};

/// What a client declares, as the desk takes it.
pub(super) fn declaration(wire: &v1::Declaration) -> Result<Declaration, Problem> {
    let mut misplaced = Vec::new();
    let mut puts = Vec::with_capacity(wire.items.len());
    for (at, item) in wire.items.iter().enumerate() {
        match put(at, item) {
            Ok(more) => puts.extend(more),
            Err(wrong) => misplaced.extend(wrong),
        }
    }
    if !misplaced.is_empty() {
        let message = format!("the declaration of source `{}` is wrong, nothing was done", wire.source);
        return Err(Problem { misplaced, ..Problem::new(Reason::Invalid, message) });
    }
    twice(&puts)?;
    let removes = wire.removed.iter().map(Key::new).collect();
    let extent = if wire.everything { Extent::Everything } else { Extent::Patch };
    Ok(Declaration { source: wire.source.clone(), puts, removes, extent })
}

/// The items of one entry: a veth may declare both of its ends.
fn put(at: usize, item: &v1::DeclaredItem) -> Result<Vec<Put>, Vec<Misplaced>> {
    let name = match &item.place {
        Some(place) => place.file.clone(),
        None => format!("items[{at}]"),
    };
    let given = item.place.clone().unwrap_or(v1::Place { file: name.clone(), line: 1, column: 1 });
    let wrong =
        |message: String| vec![Misplaced { place: Some(given.clone()), message, hint: String::new() }];
    let mut json = match serde_json::from_str::<Value>(&item.value) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => return Err(wrong("the value of an item is a map of fields".to_owned())),
        Err(error) => return Err(wrong(format!("the value is not JSON: {error}"))),
    };
    if !item.kind.is_empty() {
        json.insert("kind".to_owned(), Value::from(item.kind.as_str()));
    }
    let text = Value::Object(json).to_string();
    let declared = read(&[Source::new(name, text)]).map_err(|problems| {
        let misplaced = problems.0.into_iter().map(|problem| Misplaced {
            place: Some(given.clone()),
            message: problem.message,
            hint: problem.hint.unwrap_or_default(),
        });
        misplaced.collect::<Vec<_>>()
    })?;
    let first = declared.first().map(|first| first.key.to_string()).unwrap_or_default();
    if !item.key.is_empty() && item.key != first {
        return Err(wrong(format!("the item is `{first}`, not `{}`", item.key)));
    }
    let place = item.place.as_ref().map(|place| Place {
        file: place.file.as_str().into(),
        line: place.line,
        column: place.column,
    });
    Ok(declared.into_iter().map(|one| Put { place: place.clone(), ..Put::from(one) }).collect())
}

/// Refuses what the processes of remote kinds find wrong.
pub(super) fn refuse_wrong(
    declaration: &Declaration,
    wrong: Vec<(usize, FieldError)>,
) -> Result<(), Problem> {
    if wrong.is_empty() {
        return Ok(());
    }
    let misplaced = wrong.into_iter().filter_map(|(at, error)| {
        let put = declaration.puts.get(at)?;
        let message = match error.path.as_str() {
            "" => format!("`{}` {}", put.key, error.message),
            path => format!("`{path}` of `{}` {}", put.key, error.message),
        };
        Some(Misplaced { place: put.place.as_ref().map(convert::place), message, hint: String::new() })
    });
    let message = format!("the declaration of source `{}` is wrong, nothing was done", declaration.source);
    Err(Problem { misplaced: misplaced.collect(), ..Problem::new(Reason::Invalid, message) })
}

/// One declaration speaks about an item once.
fn twice(puts: &[Put]) -> Result<(), Problem> {
    let mut seen: std::collections::BTreeMap<&Key, &Put> = std::collections::BTreeMap::new();
    for put in puts {
        if let Some(first) = seen.insert(&put.key, put).filter(|first| first.value != put.value) {
            let place = |put: &Put| put.place.as_ref().map(convert::place);
            let message = format!("`{}` is declared twice, with different values", put.key);
            let misplaced = [first, put].map(|put| Misplaced { place: place(put), ..Misplaced::default() });
            let misplaced = misplaced.into_iter().filter(|one| one.place.is_some());
            let misplaced = misplaced.map(|one| Misplaced { message: message.clone(), ..one }).collect();
            return Err(Problem { misplaced, ..Problem::new(Reason::Invalid, message) });
        }
    }
    Ok(())
}

/// What a client saw, as the desk takes it.
pub(super) fn observations(wire: &[v1::Observation]) -> Result<Vec<Observation>, Problem> {
    let one = |seen: &v1::Observation| {
        let key = Key::new(&seen.key);
        if seen.value.is_empty() {
            return Ok(Observation { key, value: None, facts: None, origin: Origin::Observed });
        }
        let item =
            v1::DeclaredItem { key: seen.key.clone(), value: seen.value.clone(), ..Default::default() };
        let puts = put(0, &item).map_err(|misplaced| {
            let message = format!("what was observed of `{}` cannot be understood", seen.key);
            Problem { misplaced, ..Problem::new(Reason::Invalid, message) }
        })?;
        let value = puts.into_iter().next().map(|put| put.value);
        Ok(Observation { key, value, facts: None, origin: Origin::Observed })
    };
    wire.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: &str, value: &str) -> v1::DeclaredItem {
        v1::DeclaredItem { kind: kind.to_owned(), value: value.to_owned(), ..v1::DeclaredItem::default() }
    }

    fn declare(items: Vec<v1::DeclaredItem>) -> Result<Declaration, Problem> {
        declaration(&v1::Declaration { source: "test".to_owned(), items, ..v1::Declaration::default() })
    }

    #[test]
    fn an_item_from_the_wire_is_checked_as_a_document_is() {
        let declared = declare(vec![item("netns", "{\"name\": \"left\"}")]).unwrap();
        assert_eq!(declared.puts[0].key.as_str(), "linux/netns/left");
        let problem = declare(vec![item("netns", "{\"nam\": \"left\"}")]).unwrap_err();
        assert_eq!(problem.reason(), Reason::Invalid);
        assert!(problem.misplaced.iter().any(|one| one.hint.contains("`name`")), "{problem:?}");
        assert_eq!(problem.misplaced[0].place.as_ref().unwrap().file, "items[0]");
        assert!(declare(vec![item("netns", "[]")]).is_err() && declare(vec![item("netns", "{")]).is_err());
    }

    #[test]
    fn a_key_that_is_not_the_values_and_an_item_said_twice_are_refused() {
        let other =
            v1::DeclaredItem { key: "linux/netns/b".to_owned(), ..item("netns", "{\"name\": \"a\"}") };
        let problem = declare(vec![other]).unwrap_err();
        assert_eq!(problem.misplaced[0].message, "the item is `linux/netns/a`, not `linux/netns/b`");
        let (one, two) = ("{\"name\": \"l\", \"mtu\": 1500}", "{\"name\": \"l\", \"mtu\": 9000}");
        let problem = declare(vec![item("bridge", one), item("bridge", two)]).unwrap_err();
        assert_eq!(problem.message, "`linux/link/host/l` is declared twice, with different values");
    }
}
