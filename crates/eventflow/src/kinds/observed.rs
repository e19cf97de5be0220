//! What the cluster shows: items that watches feed and nobody here makes.
//!
//! Readiness is not among them: nothing may depend on it, because a child that blinks must not move its neighbours.
//! It goes straight into the conditions.

use kilter_scheduler::{Derived, Key, Kind};
use serde::{Deserialize, Serialize};

use crate::key;

/// A custom resource definition that is established.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinitionSeen {}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceSeen {
    /// Whether it is on its way out.
    pub terminating: bool,
}

/// An EventFlow object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSeen {
    /// Its identity.
    pub uid: String,
    /// Whether it is on its way out.
    pub deleting: bool,
}

/// A Channel, found by the source that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelSeen {
    /// Its name.
    pub name: String,
}

/// The default Broker of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerSeen {
    /// Its identity.
    pub uid: String,
    /// Whether it is on its way out.
    pub terminating: bool,
    /// Where events for it are sent.
    pub address: Option<String>,
}

/// A fact about an item that others may need, and that has no content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {}

/// The kind of definitions.
#[derive(Clone, Copy, Debug)]
pub struct Definition;

impl Kind for Definition {
    type Value = DefinitionSeen;
    const NAME: &'static str = "kube.definition";
    const KEYS: &'static [&'static str] = &["kube/definition/*"];
}

/// The kind of namespaces.
#[derive(Clone, Copy, Debug)]
pub struct Namespace;

impl Kind for Namespace {
    type Value = NamespaceSeen;
    const NAME: &'static str = "kube.namespace";
    const KEYS: &'static [&'static str] = &["kube/namespace/*"];

    fn derive(&self, key: &Key, value: &NamespaceSeen, derived: &mut Derived) {
        if let ([name], false) = (key::names(key).as_slice(), value.terminating) {
            derived.item(key::active(name), Mark {});
        }
    }
}

/// The kind of EventFlow objects.
#[derive(Clone, Copy, Debug)]
pub struct Flow;

impl Kind for Flow {
    type Value = FlowSeen;
    const NAME: &'static str = "kube.flow";
    const KEYS: &'static [&'static str] = &["kube/flow/*/*"];

    fn derive(&self, key: &Key, value: &FlowSeen, derived: &mut Derived) {
        if let ([namespace, name], false) = (key::names(key).as_slice(), value.deleting) {
            derived.item(key::live(namespace, name), Mark {});
        }
    }
}

/// The kind of Channels.
#[derive(Clone, Copy, Debug)]
pub struct Channel;

impl Kind for Channel {
    type Value = ChannelSeen;
    const NAME: &'static str = "kube.channel";
    const KEYS: &'static [&'static str] = &["kube/channel/*"];
}

/// The kind of Brokers.
#[derive(Clone, Copy, Debug)]
pub struct Broker;

impl Kind for Broker {
    type Value = BrokerSeen;
    const NAME: &'static str = "kube.broker";
    const KEYS: &'static [&'static str] = &["kube/broker/*"];

    fn derive(&self, key: &Key, value: &BrokerSeen, derived: &mut Derived) {
        let names = key::names(key);
        let [namespace] = names.as_slice() else { return };
        if value.terminating {
            derived.item(key::terminating(namespace), Mark {});
        } else if let Some(url) = &value.address {
            derived.item(key::address(namespace), url.clone());
        }
    }
}
