//! External declarations: what sources beside the handlers declare, laid over what handlers drafted.
//!
//! Decided here: who is heard. Sources stand in an order that does not change while they declare anything; of those
//! that declare an item, the first is heard and laid over what handlers drafted, and the others take over when it
//! leaves: never the one who spoke last. How two values of a kind merge is the kind's business:
//! [`kilter_scheduler::Descriptor::merge`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kilter_scheduler::{Key, Registry, ValueRef};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::builtin::ExternalItems;
use crate::declare::{Extent, Said};

/// Two sources say different things about one field; the one that stands first is heard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The item.
    pub key: Key,
    /// The field that is not as the unheard source says; empty for the value as a whole.
    pub field: String,
    /// The source that is not heard.
    pub unheard: Arc<str>,
    /// The source that stands before it.
    pub heard: Arc<str>,
}

#[derive(Debug)]
struct Source {
    name: Arc<str>,
    items: ExternalItems,
    /// Whether it keeps its place when it leaves: the settings name it.
    fixed: bool,
}

/// What a source declared before it spoke, so that it can be taken back.
#[derive(Debug)]
pub(crate) struct Before {
    name: Arc<str>,
    /// Its place if it had one.
    at: Option<usize>,
    /// What it said about every key that is concerned.
    items: BTreeMap<Key, Option<ValueRef>>,
}

impl Before {
    /// The keys that are concerned.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.items.keys()
    }
}

/// What all external sources declare.
#[derive(Debug, Default)]
pub(crate) struct External(Vec<Source>);

impl External {
    pub(crate) fn new(names: &[String]) -> Self {
        let fixed =
            |name: &String| Source { name: name.as_str().into(), items: BTreeMap::new(), fixed: true };
        Self(names.iter().map(fixed).collect())
    }

    /// The source of this name; one that has not spoken yet takes its place after all others.
    fn source(&mut self, name: &str) -> &mut Source {
        let known = self.0.iter().position(|source| &*source.name == name);
        let at = known.unwrap_or_else(|| {
            self.0.push(Source { name: name.into(), items: BTreeMap::new(), fixed: false });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// A source takes its place.
    pub(crate) fn place(&mut self, name: &str) {
        self.source(name);
    }

    /// A source says everything it declares.
    pub(crate) fn replace(&mut self, name: &str, items: &ExternalItems) {
        self.source(name).items.clone_from(items);
    }

    /// A source says what has changed.
    pub(crate) fn patch(&mut self, name: &str, changes: &BTreeMap<Key, Option<ValueRef>>) {
        let items = &mut self.source(name).items;
        for (key, value) in changes {
            set(items, key, value.clone());
        }
    }

    /// A source declares; what it declared before is kept for [`Self::restore`].
    pub(crate) fn declare(&mut self, said: &Said) -> Before {
        let at = self.0.iter().position(|source| *source.name == *said.source);
        let source = self.source(&said.source);
        let mut before = BTreeMap::new();
        if said.extent != Extent::Patch {
            before.extend(source.items.iter().map(|(key, value)| (key.clone(), Some(value.clone()))));
            source.items.clear();
        }
        for (key, value) in &said.changes {
            let old = set(&mut source.items, key, value.clone());
            before.entry(key.clone()).or_insert(old);
        }
        let before = Before { name: Arc::clone(&source.name), at, items: before };
        if said.extent == Extent::Leave {
            self.0.retain(|source| source.fixed || source.name != before.name);
        }
        before
    }

    /// A source declares what it declared before.
    pub(crate) fn restore(&mut self, before: Before) {
        let Before { name, at, items } = before;
        let known = self.0.iter().position(|source| source.name == name);
        match (at, known) {
            (Some(at), None) => {
                self.0.insert(at, Source { name: Arc::clone(&name), items: BTreeMap::new(), fixed: false });
            }
            (None, Some(known)) => {
                self.0.remove(known);
                return;
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
        let source = self.source(&name);
        for (key, value) in items {
            set(&mut source.items, &key, value);
        }
    }

    /// Takes what every source declares, and leaves the sources in their places.
    pub(crate) fn take_items(&mut self) -> BTreeMap<String, ExternalItems> {
        let taken = self.0.iter_mut();
        taken.map(|source| (source.name.to_string(), std::mem::take(&mut source.items))).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|source| source.items.is_empty())
    }

    /// Every source in its place, with what it declares.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &ExternalItems)> {
        self.0.iter().map(|source| (&source.name, &source.items))
    }

    /// Every key that some source declares.
    pub(crate) fn keys(&self) -> BTreeSet<&Key> {
        self.0.iter().flat_map(|source| source.items.keys()).collect()
    }

    pub(crate) fn declares(&self, key: &str) -> bool {
        self.0.iter().any(|source| source.items.contains_key(key))
    }

    /// The sources that declare the key, in order: the first is heard.
    pub(crate) fn sources(&self, key: &str) -> Vec<Arc<str>> {
        self.0
            .iter()
            .filter(|source| source.items.contains_key(key))
            .map(|source| source.name.clone())
            .collect()
    }

    /// The internal value with what the first source says laid over it; `None` if nobody declares the key.
    pub(crate) fn merged(
        &self,
        registry: &Registry,
        key: &Key,
        internal: Option<ValueRef>,
        conflicts: &mut Vec<Conflict>,
    ) -> Option<ValueRef> {
        let mut said =
            self.0.iter().filter_map(|source| Some((&source.name, source.items.get(key.as_str())?)));
        let Some((heard, overlay)) = said.next() else { return internal };
        let merged = match (internal, registry.owner(key.as_str())) {
            (Some(value), Some(kind)) => registry.descriptor(kind).merge(key, &value, overlay),
            (None, _) | (_, None) => overlay.clone(),
        };
        let mut result = None;
        for (unheard, overlay) in said {
            let result = result.get_or_insert_with(|| merged.to_json());
            for field in unheard_fields(&overlay.to_json(), result) {
                let (unheard, heard) = (Arc::clone(unheard), Arc::clone(heard));
                conflicts.push(Conflict { key: key.clone(), field, unheard, heard });
            }
        }
        Some(merged)
    }
}

fn set(items: &mut ExternalItems, key: &Key, value: Option<ValueRef>) -> Option<ValueRef> {
    match value {
        Some(value) => items.insert(key.clone(), value),
        None => items.remove(key),
    }
}

/// The fields in which the result is not as somebody said: another scalar, or an element that a list lacks.
fn unheard_fields(said: &Json, result: &Json) -> Vec<String> {
    let mut unheard = Vec::new();
    let mut open = vec![(String::new(), said, result)];
    while let Some((path, said, result)) = open.pop() {
        match (said, result) {
            (Json::Null, _) => {}
            (Json::Object(said), Json::Object(result)) => {
                for (name, member) in said {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    open.push((path, member, result.get(name).unwrap_or(&Json::Null)));
                }
            }
            (Json::Array(said), Json::Array(result)) if said.iter().all(|one| result.contains(one)) => {}
            (said, Json::Array(result)) if result.contains(said) => {}
            (said, result) if said == result => {}
            _ => unheard.push(path),
        }
    }
    unheard.sort();
    unheard
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_not_heard_is_named() {
        let said = json!({"mtu": 9000, "list": [1], "deep": {"a": 1, "b": 2}, "open": null});
        let result = json!({"mtu": 1500, "list": [1, 2], "deep": {"a": 1, "b": 3}, "open": 1});
        assert_eq!(unheard_fields(&said, &result), ["deep.b", "mtu"]);
        assert_eq!(unheard_fields(&json!("a"), &json!("b")), [""]);
        assert_eq!(unheard_fields(&json!([1]), &json!([2])), [""]);
        assert_eq!(unheard_fields(&json!({"item": "x"}), &json!({"item": ["x", "y"]})), [""; 0]);
    }
}
