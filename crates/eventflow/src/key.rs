//! The key space: `kube/…` is what the cluster shows, `eventflow/…` is what the controller declares.

use kilter_scheduler::Key;

use crate::object::{Id, Resource};

/// A definition that is established.
pub fn definition(name: &str) -> Key {
    Key::from(format!("kube/definition/{name}"))
}

/// A namespace; `…/active` unless it is on its way out.
pub fn namespace(name: &str) -> Key {
    Key::from(format!("kube/namespace/{name}"))
}

/// What a namespace derives unless it is on its way out.
pub fn active(name: &str) -> Key {
    Key::from(format!("kube/namespace/{name}/active"))
}

/// The sink of a namespace; derives `…/address` and `…/terminating`.
pub fn broker(namespace: &str) -> Key {
    Key::from(format!("kube/broker/{namespace}"))
}

/// What a sink derives once it says where events go.
pub fn address(namespace: &str) -> Key {
    Key::from(format!("kube/broker/{namespace}/address"))
}

/// What a sink derives while it is on its way out.
pub fn terminating(namespace: &str) -> Key {
    Key::from(format!("kube/broker/{namespace}/terminating"))
}

/// Where the events of a source come out.
pub fn channel(source: &str) -> Key {
    Key::from(format!("kube/channel/{source}"))
}

/// An EventFlow object; derives `…/live` unless it is on its way out.
pub fn flow(namespace: &str, name: &str) -> Key {
    Key::from(format!("kube/flow/{namespace}/{name}"))
}

/// What an EventFlow derives unless it is on its way out.
pub fn live(namespace: &str, name: &str) -> Key {
    Key::from(format!("kube/flow/{namespace}/{name}/live"))
}

/// Our finalizer on an EventFlow.
pub fn finalizer(namespace: &str, name: &str) -> Key {
    Key::from(format!("eventflow/finalizer/{namespace}/{name}"))
}

/// The claim of a flow on the sink of its namespace.
pub fn sink_claim(namespace: &str, flow: &str) -> Key {
    Key::from(format!("{}{flow}", sink_claims(namespace)))
}

/// Where the claims on the sink of a namespace stand.
pub fn sink_claims(namespace: &str) -> String {
    format!("eventflow/sink-claim/{namespace}/")
}

/// The claim of a flow on the subscription of its namespace to its source.
pub fn subscription_claim(namespace: &str, source: &str, flow: &str) -> Key {
    Key::from(format!("{}{flow}", subscription_claims(namespace, source)))
}

/// Where the claims on a subscription stand.
pub fn subscription_claims(namespace: &str, source: &str) -> String {
    format!("eventflow/subscription-claim/{namespace}/{source}/")
}

/// The room for one sink in a namespace.
pub fn slot(namespace: &str) -> Key {
    Key::from(format!("eventflow/slot/{namespace}"))
}

/// What makes the sink of a namespace appear.
pub fn sink(namespace: &str) -> Key {
    Key::from(format!("eventflow/sink/{namespace}"))
}

/// What lets the mesh reach the sink of a namespace.
pub fn policy(namespace: &str) -> Key {
    Key::from(format!("eventflow/policy/{namespace}"))
}

/// The subscription of a namespace to a source.
pub fn subscription(namespace: &str, source: &str) -> Key {
    Key::from(format!("eventflow/subscription/{namespace}/{source}"))
}

/// The status of a flow. It is no item: nothing depends on it.
pub fn status(namespace: &str, name: &str) -> Key {
    Key::from(format!("eventflow/status/{namespace}/{name}"))
}

/// The order of an instance, by the name of its record. It is no item: what it makes is kept by the service broker.
pub fn order(record: &str) -> Key {
    Key::from(format!("eventflow/order/{record}"))
}

/// The segments of a key after its kind: `kube/broker/shop` has `shop`.
pub fn names(key: &Key) -> Vec<&str> {
    key.as_str().split('/').skip(2).collect()
}

/// What a key of the controller names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// The finalizer of a flow.
    Finalizer {
        /// Its namespace.
        namespace: &'a str,
        /// Its name.
        flow: &'a str,
    },
    /// The claim of a flow on its sink.
    SinkClaim {
        /// Its namespace.
        namespace: &'a str,
        /// Its name.
        flow: &'a str,
    },
    /// The claim of a flow on its subscription.
    SubscriptionClaim {
        /// Its namespace.
        namespace: &'a str,
        /// Its source.
        source: &'a str,
        /// Its name.
        flow: &'a str,
    },
    /// The slot of a namespace.
    Slot {
        /// The namespace.
        namespace: &'a str,
    },
    /// The sink of a namespace.
    Sink {
        /// The namespace.
        namespace: &'a str,
    },
    /// The policy of a namespace.
    Policy {
        /// The namespace.
        namespace: &'a str,
    },
    /// A subscription.
    Subscription {
        /// The namespace that wants it.
        namespace: &'a str,
        /// The source that it is to.
        source: &'a str,
    },
}

impl<'a> Named<'a> {
    /// What the key names; `None` for what the cluster only shows.
    pub fn of(key: &'a Key) -> Option<Self> {
        let mut segments = key.as_str().split('/');
        if segments.next() != Some("eventflow") {
            return None;
        }
        let kind = segments.next()?;
        let names: Vec<&str> = segments.collect();
        match (kind, names.as_slice()) {
            ("finalizer", [namespace, flow]) => Some(Self::Finalizer { namespace, flow }),
            ("sink-claim", [namespace, flow]) => Some(Self::SinkClaim { namespace, flow }),
            ("subscription-claim", [namespace, source, flow]) => {
                Some(Self::SubscriptionClaim { namespace, source, flow })
            }
            ("slot", [namespace]) => Some(Self::Slot { namespace }),
            ("sink", [namespace]) => Some(Self::Sink { namespace }),
            ("policy", [namespace]) => Some(Self::Policy { namespace }),
            ("subscription", [namespace, source]) => Some(Self::Subscription { namespace, source }),
            _ => None,
        }
    }
}

/// The source whose Channel an observed item is.
pub fn source(key: &Key) -> Option<&str> {
    key.as_str().strip_prefix("kube/channel/")
}

/// The object that an observed item is; `None` for a Channel, which is found by a label, and for items of ours.
pub fn object(key: &Key) -> Option<Id> {
    let kind = key.as_str().strip_prefix("kube/")?.split('/').next()?;
    match (kind, names(key).as_slice()) {
        ("definition", [name]) => Some(Id::new(Resource::Definition, "", *name)),
        ("namespace", [name]) => Some(Id::new(Resource::Namespace, "", *name)),
        ("flow", [namespace, name]) => Some(Id::new(Resource::EventFlow, *namespace, *name)),
        ("broker", [namespace]) => Some(Id::new(Resource::Broker, *namespace, crate::names::DEFAULT)),
        _ => None,
    }
}
