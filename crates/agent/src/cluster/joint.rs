//! A joint change: all nodes that try it keep it, or none does.
//!
//! Decided here: what lies in the store about it. The change is an item of its topic, so that it reaches its nodes like
//! anything else, and it hangs on a lease of whoever leads it, so that it goes when they do. What it changes is put into
//! the topic by the commit that deletes it: a node that finds it gone looks at what is declared, and so knows how it was
//! decided. Each node says beside it how it fares; that hangs on a lease of the node. How a node tries it is decided in
//! `feed/cluster/trial`, how it is led in `fleet/lead`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::layout::Layout;
use crate::confirm::Probe;

/// What the keys of joint changes begin with, in their topic.
pub(crate) const JOINT: &str = "cluster/joint/";

/// A joint change as it lies in its topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Joint {
    /// The topic.
    pub(crate) topic: String,
    /// The nodes that try it by now.
    pub(crate) nodes: BTreeSet<String>,
    /// The documents that are put, by the keys of their items.
    pub(crate) puts: BTreeMap<String, Json>,
    /// The keys that are deleted.
    pub(crate) deletes: Vec<String>,
    /// What must pass on every node.
    pub(crate) probes: Vec<Probe>,
    /// A node that cannot tell how it fares for this many milliseconds goes back by itself.
    pub(crate) within: u64,
}

impl Joint {
    /// How long a node waits that hears nothing.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_millis(self.within)
    }
}

/// How a node fares with a joint change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stage {
    /// It is carried out, and not yet known to be good.
    Trying,
    /// It is carried out, and what must pass passes.
    Passed,
    /// It cannot be kept, and is as before.
    Failed,
    /// It was taken back, and is as before.
    Back,
    /// It stays.
    Kept,
}

/// What a node says about a joint change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Vote {
    /// How it fares.
    pub(crate) stage: Stage,
    /// Why, for people.
    pub(crate) reason: String,
}

impl Layout {
    /// Where a joint change lies.
    pub(crate) fn joint(&self, topic: &str, id: &str) -> String {
        self.item(topic, &format!("{JOINT}{id}"))
    }

    /// Where it lies how nodes fare with a joint change.
    pub(crate) fn votes(&self, id: &str) -> String {
        format!("{}votes/{id}/", self.prefix())
    }
}

/// Whether a key in a topic is an item that is declared, and not something about the cluster.
pub(crate) fn is_declared(key: &str) -> bool {
    !key.starts_with("cluster/")
}
