//! External declarations: what sources beside the handlers declare, laid over what handlers drafted.
//!
//! Decided here: the order of sources is their registration order; each is laid over the result of those before it.
//! How two values of a kind merge is the kind's business: [`kilter_scheduler::Descriptor::merge`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kilter_scheduler::{Key, Registry, ValueRef};
use serde::Serialize;
use serde_json::Value as Json;

use crate::builtin::ExternalItems;

/// Two sources say different things about one field; the later one is heard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// The item.
    pub key: Key,
    /// The field that is not as the earlier source says; empty for the value as a whole.
    pub field: String,
    /// The source that is not heard.
    pub unheard: Arc<str>,
    /// The source that is laid over it last.
    pub heard: Arc<str>,
}

/// No such source is registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no external source is called `{name}`, hint: the sources are {known}")]
pub(crate) struct UnknownSource {
    name: String,
    known: String,
}

#[derive(Debug)]
struct Source {
    name: Arc<str>,
    items: ExternalItems,
}

/// What all external sources declare.
#[derive(Debug, Default)]
pub(crate) struct External(Vec<Source>);

impl External {
    pub(crate) fn new(names: &[String]) -> Self {
        Self(names.iter().map(|name| Source { name: name.as_str().into(), items: BTreeMap::new() }).collect())
    }

    fn source(&mut self, name: &str) -> Result<&mut Source, UnknownSource> {
        let known =
            || self.0.iter().map(|source| format!("`{}`", source.name)).collect::<Vec<_>>().join(", ");
        match self.0.iter().position(|source| &*source.name == name) {
            Some(at) => Ok(&mut self.0[at]),
            None => Err(UnknownSource { name: name.to_owned(), known: known() }),
        }
    }

    /// A source says everything it declares.
    pub(crate) fn replace(&mut self, name: &str, items: &ExternalItems) -> Result<(), UnknownSource> {
        self.source(name)?.items.clone_from(items);
        Ok(())
    }

    /// A source says what has changed.
    pub(crate) fn patch(
        &mut self,
        name: &str,
        changes: &BTreeMap<Key, Option<ValueRef>>,
    ) -> Result<(), UnknownSource> {
        let source = self.source(name)?;
        for (key, value) in changes {
            match value {
                Some(value) => source.items.insert(key.clone(), value.clone()),
                None => source.items.remove(key),
            };
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|source| source.items.is_empty())
    }

    /// Every key that some source declares.
    pub(crate) fn keys(&self) -> BTreeSet<&Key> {
        self.0.iter().flat_map(|source| source.items.keys()).collect()
    }

    pub(crate) fn declares(&self, key: &str) -> bool {
        self.0.iter().any(|source| source.items.contains_key(key))
    }

    /// The sources that declare the key, in order.
    pub(crate) fn sources(&self, key: &str) -> Vec<Arc<str>> {
        self.0
            .iter()
            .filter(|source| source.items.contains_key(key))
            .map(|source| source.name.clone())
            .collect()
    }

    /// The internal value with all overlays laid over it, one after another; `None` if nobody declares the key.
    pub(crate) fn merged(
        &self,
        registry: &Registry,
        key: &Key,
        internal: Option<ValueRef>,
        conflicts: &mut Vec<Conflict>,
    ) -> Option<ValueRef> {
        let overlays: Vec<_> = self
            .0
            .iter()
            .filter_map(|source| Some((&source.name, source.items.get(key.as_str())?)))
            .collect();
        let mut merged = internal;
        for (_, overlay) in &overlays {
            let owner = registry.owner(key.as_str());
            merged = Some(match (merged, owner) {
                (Some(value), Some(kind)) => registry.descriptor(kind).merge(key, &value, overlay),
                (None, _) | (_, None) => (*overlay).clone(),
            });
        }
        if let (Some(merged), [earlier @ .., (heard, _)]) = (&merged, overlays.as_slice())
            && !earlier.is_empty()
        {
            let result = merged.to_json();
            for (unheard, overlay) in earlier {
                for field in unheard_fields(&overlay.to_json(), &result) {
                    let (unheard, heard) = (Arc::clone(unheard), Arc::clone(heard));
                    conflicts.push(Conflict { key: key.clone(), field, unheard, heard });
                }
            }
        }
        merged
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
