//! What the cluster declares for this node, as far as it can be understood, and what of it is not declared yet.
//!
//! Decided here: a value that cannot be understood changes nothing: the last one that could stays, and the item is named.
//! Also that a node may be told, like anything else, which labels it has and which tenants it hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kilter_model::export::read_back;
use kilter_pubsub::{ItemKey, MAX_VALUE, ViewChange};
use kilter_scheduler::{Key, ValueRef};
use serde::{Deserialize, Serialize};

use super::SOURCE;
use super::trial::Read;
use crate::cluster::joint::JOINT;
use crate::desk::{Declaration, Put};

/// The item that says what a node is, in the topic of the node.
pub const MEMBERSHIP: &str = "cluster/membership";

/// What a node is, besides what its settings say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Membership {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The tenants it hosts.
    pub tenants: BTreeSet<String>,
}

/// What the cluster declares for this node.
#[derive(Debug, Default)]
pub(super) struct Merged {
    items: BTreeMap<Key, ValueRef>,
    /// What was declared by an earlier run, until everything is known.
    earlier: BTreeMap<Key, ValueRef>,
    /// What is not declared yet.
    owed: BTreeSet<Key>,
    /// Whether everything is to be declared.
    everything: bool,
    /// Whether it is known what the cluster declares.
    is_complete: bool,
    /// What cannot be understood, each with the reason.
    wrong: BTreeMap<Key, String>,
    membership: Membership,
    joints: BTreeMap<String, Read>,
}

impl Merged {
    /// Begins with what an earlier run declared.
    pub(super) fn after(earlier: BTreeMap<Key, ValueRef>) -> Self {
        Self { earlier, ..Self::default() }
    }

    /// Takes in what changed; the answer is what cannot be used, and why.
    pub(super) fn take(&mut self, changes: Vec<ViewChange>) -> Vec<(ItemKey, String)> {
        let mut refused = Vec::new();
        for change in changes {
            if let Some(id) = change.item.key.strip_prefix(JOINT) {
                self.take_joint(id, change.value.as_deref(), change.stamp.version);
                continue;
            }
            let key = Key::new(&*change.item.key);
            let Some(value) = change.value else {
                self.remove(&key);
                continue;
            };
            match self.understand(&key, &value) {
                Ok(()) => {
                    self.wrong.remove(&key);
                }
                Err(reason) => {
                    self.keep_last(&key);
                    self.wrong.insert(key, reason.clone());
                    refused.push((change.item, reason));
                }
            }
        }
        refused
    }

    /// One that cannot be understood is none: whoever leads it hears nothing of this node, and takes it back.
    fn take_joint(&mut self, id: &str, value: Option<&[u8]>, rev: u64) {
        match value.and_then(|value| serde_json::from_slice(value).ok()) {
            Some(joint) => self.joints.insert(id.to_owned(), (Arc::new(joint), rev)),
            None => self.joints.remove(id),
        };
    }

    /// The joint changes that there are, each with the commit that put it.
    pub(super) fn joints(&self) -> &BTreeMap<String, Read> {
        &self.joints
    }

    /// What is declared.
    pub(super) fn items(&self) -> &BTreeMap<Key, ValueRef> {
        &self.items
    }

    /// Whether it is known what the cluster declares.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Items may be declared as somebody else said: they are owed as things stand.
    pub(super) fn owe_items(&mut self, keys: BTreeSet<Key>) {
        self.owed.extend(keys);
    }

    fn remove(&mut self, key: &Key) {
        if key.as_str() == MEMBERSHIP {
            self.membership = Membership::default();
            return;
        }
        self.wrong.remove(key);
        self.earlier.remove(key);
        if self.items.remove(key).is_some() {
            self.owed.insert(key.clone());
        }
    }

    fn understand(&mut self, key: &Key, value: &[u8]) -> Result<(), String> {
        if value.is_empty() {
            return Err(format!("its value is empty, or has more than {MAX_VALUE} bytes"));
        }
        if key.as_str() == MEMBERSHIP {
            let json: serde_json::Value = serde_json::from_slice(value).map_err(|error| error.to_string())?;
            if !json.is_object() {
                return Err("it is no map of fields".to_owned());
            }
            self.membership = serde_json::from_value(json).map_err(|error| error.to_string())?;
            return Ok(());
        }
        let json = serde_json::from_slice(value).map_err(|error| error.to_string())?;
        let (own, value) = read_back(&json).map_err(|error| kilter_events::chain(&error))?;
        if own != *key {
            return Err(format!("it is `{own}`, and lies at `{key}`"));
        }
        self.items.insert(key.clone(), value);
        self.owed.insert(key.clone());
        Ok(())
    }

    /// Of an item that cannot be understood, what was declared last stands.
    fn keep_last(&mut self, key: &Key) {
        if let Some(last) = self.earlier.get(key).filter(|_| !self.items.contains_key(key)) {
            self.items.insert(key.clone(), last.clone());
        }
    }

    /// From here on it is known what the cluster declares.
    pub(super) fn complete(&mut self) {
        self.everything |= !self.is_complete;
        self.is_complete = true;
        self.earlier.clear();
    }

    /// What this node is.
    pub(super) fn membership(&self) -> &Membership {
        &self.membership
    }

    /// What cannot be understood.
    pub(super) fn wrong(&self) -> &BTreeMap<Key, String> {
        &self.wrong
    }

    /// Whether everything is known and was handed out to be declared.
    pub(super) fn is_settled(&self) -> bool {
        self.is_complete && self.owed.is_empty() && !self.everything
    }

    /// What is to be declared; nothing if that has been done, or is not known yet.
    pub(super) fn declaration(&mut self) -> Option<Declaration> {
        if !self.is_complete || (self.owed.is_empty() && !self.everything) {
            return None;
        }
        let owed = std::mem::take(&mut self.owed);
        let put =
            |(key, value): (&Key, &ValueRef)| Put { key: key.clone(), value: value.clone(), place: None };
        if std::mem::take(&mut self.everything) {
            return Some(Declaration::everything(SOURCE, self.items.iter().map(put).collect()));
        }
        let puts = owed.iter().filter_map(|key| self.items.get_key_value(key)).map(put).collect();
        let removes = owed.iter().filter(|key| !self.items.contains_key(*key)).cloned().collect();
        Some(Declaration { removes, ..Declaration::patch(SOURCE, puts) })
    }

    /// A declaration was not taken up: it is owed again, as things stand then.
    pub(super) fn owe(&mut self, declaration: &Declaration) {
        self.everything |= declaration.extent == kilter_events::Extent::Everything;
        self.owed.extend(declaration.puts.iter().map(|put| put.key.clone()));
        self.owed.extend(declaration.removes.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use kilter_events::Extent;
    use kilter_pubsub::Stamp;

    use super::*;

    fn change(key: &str, value: Option<&str>) -> ViewChange {
        let value = value.map(|value| value.as_bytes().to_vec().into());
        ViewChange { item: ItemKey::new("items", key), stamp: Stamp::default(), value }
    }

    fn netns(name: &str) -> ViewChange {
        change(&format!("linux/netns/{name}"), Some(&format!(r#"{{"kind":"netns","name":"{name}"}}"#)))
    }

    fn keys(declaration: &Declaration) -> Vec<&str> {
        declaration.puts.iter().map(|put| put.key.as_str()).collect()
    }

    #[test]
    fn nothing_is_declared_before_everything_is_known() {
        let mut merged = Merged::default();
        assert!(merged.take(vec![netns("a")]).is_empty());
        assert!(merged.declaration().is_none());
        merged.complete();
        let first = merged.declaration().unwrap();
        assert_eq!((first.extent, keys(&first)), (Extent::Everything, vec!["linux/netns/a"]));
        assert!(merged.declaration().is_none());
        merged.take(vec![netns("b"), change("linux/netns/a", None)]);
        let next = merged.declaration().unwrap();
        assert_eq!((next.extent, keys(&next)), (Extent::Patch, vec!["linux/netns/b"]));
        assert_eq!(next.removes, [Key::new("linux/netns/a")]);
    }

    #[test]
    fn what_cannot_be_understood_keeps_the_last_good_value_also_of_an_earlier_run() {
        let mut earlier = Merged::default();
        earlier.take(vec![netns("a")]);
        let mut merged = Merged::after(earlier.items.clone());
        let refused = merged.take(vec![change("linux/netns/a", Some("{")), netns("b")]);
        assert_eq!(refused.len(), 1);
        merged.complete();
        assert_eq!(keys(&merged.declaration().unwrap()), ["linux/netns/a", "linux/netns/b"]);
        assert_eq!(merged.wrong().len(), 1);
        assert!(
            merged.take(vec![change("linux/netns/b", Some(""))])[0].1.contains("more than 1048576 bytes")
        );
        let elsewhere = change("linux/netns/b", Some(r#"{"kind":"netns","name":"c"}"#));
        assert_eq!(merged.take(vec![elsewhere])[0].1, "it is `linux/netns/c`, and lies at `linux/netns/b`");
        assert!(merged.declaration().is_none(), "nothing changes");
        merged.take(vec![netns("a"), change("linux/netns/b", None)]);
        assert!(merged.wrong().is_empty());
    }

    #[test]
    fn what_was_not_taken_up_is_owed_as_it_stands_then() {
        let mut merged = Merged::default();
        merged.complete();
        let first = merged.declaration().unwrap();
        assert!(first.puts.is_empty() && first.extent == Extent::Everything);
        merged.take(vec![netns("a")]);
        let patch = merged.declaration().unwrap();
        merged.take(vec![change("linux/netns/a", None)]);
        merged.owe(&patch);
        let next = merged.declaration().unwrap();
        assert!(next.puts.is_empty());
        assert_eq!(next.removes, [Key::new("linux/netns/a")]);
    }

    #[test]
    fn a_node_is_told_what_it_is() {
        let mut merged = Merged::default();
        let text = r#"{"labels":{"role":"edge"},"tenants":["acme"]}"#;
        assert!(merged.take(vec![change(MEMBERSHIP, Some(text))]).is_empty());
        assert_eq!(merged.membership().labels["role"], "edge");
        assert_eq!(merged.take(vec![change(MEMBERSHIP, Some("[]"))]).len(), 1);
        assert_eq!(merged.membership().tenants.len(), 1, "the last good one stays");
        merged.take(vec![change(MEMBERSHIP, None)]);
        assert_eq!(*merged.membership(), Membership::default());
    }
}
