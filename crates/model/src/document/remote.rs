//! Items of remote kinds in a document: any field, as long as it can be said in JSON.

use serde_json::{Map, Number, Value};

use super::check::{Check, describe};
use super::tree::{Content, Entry, Node};
use crate::remote::{self, RemoteItem};

/// The word after `kind:`, if it names a remote kind.
pub(super) fn kind_of(node: &Node) -> Option<&str> {
    let Content::Text(word) = &node.get("kind")?.content else { return None };
    remote::is_remote(word).then_some(word)
}

/// The item, if nothing is wrong with it.
pub(super) fn item(kind: &str, node: &Node, entries: &[Entry], check: &mut Check) -> Option<RemoteItem> {
    let before = check.found.len();
    let mut fields = map(entries, check);
    fields.shift_remove("kind");
    let name = match (fields.shift_remove("name"), node.get("name")) {
        (Some(Value::String(name)), _) if remote::is_name(&name) => Some(name),
        (Some(_), Some(said)) => {
            let message = format!("`name` must be a word without `/`, not {}", describe(&said.content));
            check.report(said.spot, message, None);
            None
        }
        _ => {
            let spot = node.get("kind").map_or(node.spot, |kind| kind.spot);
            check.report(spot, format!("an item of kind `{kind}` needs `name`"), None);
            None
        }
    };
    let name = name.filter(|_| check.found.len() == before)?;
    Some(RemoteItem { kind: kind.into(), name, fields })
}

/// **Assumes** that the tree is not deep: reading the text refuses one that is.
fn map(entries: &[Entry], check: &mut Check) -> Map<String, Value> {
    let mut map = Map::new();
    for entry in entries {
        if map.contains_key(&entry.name) {
            check.report(entry.spot, format!("`{}` is said twice", entry.name), None);
        }
        let value = value(&entry.node, check);
        map.insert(entry.name.clone(), value);
    }
    map
}

fn value(node: &Node, check: &mut Check) -> Value {
    let number = match &node.content {
        Content::Null => return Value::Null,
        Content::Bool(value) => return Value::from(*value),
        Content::Text(text) => return Value::from(text.as_str()),
        Content::List(list) => return list.iter().map(|node| value(node, check)).collect(),
        Content::Map(entries) => return Value::Object(map(entries, check)),
        Content::Int(number) => Number::from_i128(*number),
        Content::Float(number) => Number::from_f64(*number),
    };
    if number.is_none() {
        check.report(node.spot, format!("{} is no number of JSON", describe(&node.content)), None);
    }
    number.map_or(Value::Null, Value::Number)
}
