//! What the controller declares for its flows.

use kilter_scheduler::{FieldError, Key, Kind, Needs, Transition};
use serde::{Deserialize, Serialize};

use crate::key;
use crate::object::Resource;

/// Our hold on an EventFlow: the first thing that is made for it and the last that is removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finalizer {
    /// The identity of the EventFlow.
    pub uid: String,
    /// Whether the finalizer is on it. One that somebody took off is put on again, and nothing else moves.
    pub held: bool,
}

/// A reference to something shared. The set of claims is the reference count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Whether it stands on what it claims, as far as that exists. One that is missing there is written again.
    pub held: bool,
}

/// The room for one sink in a namespace: taken when its predecessor is gone, left when its Broker is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {}

/// What makes the sink of a namespace appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sink {
    /// The label on the namespace on which Knative makes the Broker.
    Injection,
    /// The Broker itself.
    Direct,
}

/// Which resource of Istio a policy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyForm {
    /// `Policy`.
    Policy,
    /// `PeerAuthentication`.
    PeerAuthentication,
}

/// What lets the mesh reach the sink of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Which resource it is.
    pub form: PolicyForm,
    /// Whether peers must speak mutual TLS: `PERMISSIVE` lets them choose.
    pub mode: String,
    /// Whether everything else that we own of it is as we want it: that it says that we keep it, and what it is about.
    pub kept: bool,
}

impl Policy {
    /// Peers may choose.
    pub fn permissive(form: PolicyForm) -> Self {
        Self { form, mode: "PERMISSIVE".to_owned(), kept: true }
    }
}

impl PolicyForm {
    /// Of which resource its object is.
    pub fn resource(self) -> Resource {
        match self {
            Self::Policy => Resource::Policy,
            Self::PeerAuthentication => Resource::PeerAuthentication,
        }
    }
}

/// Carries the events of a source to the sink of a namespace, once for all flows that want them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// Where the integration lives.
    pub namespace: String,
    /// The Channel that it reads, once it is known.
    pub channel: Option<String>,
    /// Where it sends, once that is known.
    pub subscriber: Option<String>,
    /// Whether it says that we keep it and for whom, and is the only one. Those that somebody else made are taken over.
    pub kept: bool,
}

/// The kind of finalizers.
#[derive(Clone, Copy, Debug)]
pub struct FinalizerKind;

impl Kind for FinalizerKind {
    type Value = Finalizer;
    const NAME: &'static str = "eventflow.finalizer";
    const KEYS: &'static [&'static str] = &["eventflow/finalizer/*/*"];

    fn needs(&self, key: &Key, _value: &Finalizer, needs: &mut Needs) {
        let names = key::names(key);
        let [namespace, name] = names.as_slice() else { return };
        needs.on(key::flow(namespace, name));
        needs.on(key::live(namespace, name)).to_create();
        needs.on(key::active(namespace)).to_create();
    }
}

/// The kind of claims on sinks.
#[derive(Clone, Copy, Debug)]
pub struct SinkClaimKind;

impl Kind for SinkClaimKind {
    type Value = Claim;
    const NAME: &'static str = "eventflow.sink-claim";
    const KEYS: &'static [&'static str] = &["eventflow/sink-claim/*/*"];

    fn needs(&self, key: &Key, _value: &Claim, needs: &mut Needs) {
        if let [namespace, flow] = key::names(key).as_slice() {
            needs.on(key::finalizer(namespace, flow));
        }
    }
}

/// The kind of claims on subscriptions.
#[derive(Clone, Copy, Debug)]
pub struct SubscriptionClaimKind;

impl Kind for SubscriptionClaimKind {
    type Value = Claim;
    const NAME: &'static str = "eventflow.subscription-claim";
    const KEYS: &'static [&'static str] = &["eventflow/subscription-claim/*/*/*"];

    fn needs(&self, key: &Key, _value: &Claim, needs: &mut Needs) {
        if let [namespace, _, flow] = key::names(key).as_slice() {
            needs.on(key::finalizer(namespace, flow));
        }
    }
}

/// The kind of slots.
#[derive(Clone, Copy, Debug)]
pub struct SlotKind;

impl Kind for SlotKind {
    type Value = Slot;
    const NAME: &'static str = "eventflow.slot";
    const KEYS: &'static [&'static str] = &["eventflow/slot/*"];

    fn needs(&self, key: &Key, _value: &Slot, needs: &mut Needs) {
        let names = key::names(key);
        let [namespace] = names.as_slice() else { return };
        needs.any_of([key::sink_claims(namespace)], None);
        needs.absent(key::terminating(namespace)).to_create();
        needs.on(key::active(namespace)).to_create();
        installed(Resource::Broker, needs);
    }
}

/// The kind of sinks.
#[derive(Clone, Copy, Debug)]
pub struct SinkKind;

impl Kind for SinkKind {
    type Value = Sink;
    const NAME: &'static str = "eventflow.sink";
    const KEYS: &'static [&'static str] = &["eventflow/sink/*"];

    fn needs(&self, key: &Key, _value: &Sink, needs: &mut Needs) {
        let names = key::names(key);
        let [namespace] = names.as_slice() else { return };
        needs.on(key::slot(namespace));
        needs.on(key::active(namespace)).to_create();
    }

    fn transition(&self, _key: &Key, _old: &Sink, _new: &Sink) -> Transition {
        Transition::Recreate { reason: "the sink is made in another way".to_owned() }
    }
}

/// The kind of policies.
#[derive(Clone, Copy, Debug)]
pub struct PolicyKind;

impl Kind for PolicyKind {
    type Value = Policy;
    const NAME: &'static str = "eventflow.policy";
    const KEYS: &'static [&'static str] = &["eventflow/policy/*"];

    fn needs(&self, key: &Key, value: &Policy, needs: &mut Needs) {
        let names = key::names(key);
        let [namespace] = names.as_slice() else { return };
        needs.on(key::slot(namespace));
        needs.on(key::active(namespace)).to_create();
        installed(value.form.resource(), needs);
    }

    fn transition(&self, _key: &Key, old: &Policy, new: &Policy) -> Transition {
        if old.form == new.form {
            return Transition::InPlace;
        }
        Transition::Recreate { reason: "the policy is of another resource".to_owned() }
    }
}

/// The kind of subscriptions.
#[derive(Clone, Copy, Debug)]
pub struct SubscriptionKind;

impl Kind for SubscriptionKind {
    type Value = Subscription;
    const NAME: &'static str = "eventflow.subscription";
    const KEYS: &'static [&'static str] = &["eventflow/subscription/*/*"];

    fn validate(&self, _key: &Key, value: &Subscription) -> Vec<FieldError> {
        let is_url = |url: &String| url.starts_with("http://") || url.starts_with("https://");
        let wrong = value.subscriber.as_ref().filter(|url| !is_url(url));
        let say = |url: &String| FieldError {
            path: "subscriber".to_owned(),
            message: format!("`{url}` is not an address, hint: http://… or https://…"),
        };
        wrong.map(say).into_iter().collect()
    }

    fn needs(&self, key: &Key, value: &Subscription, needs: &mut Needs) {
        let names = key::names(key);
        let [namespace, source] = names.as_slice() else { return };
        needs.any_of([key::subscription_claims(namespace, source)], None);
        needs.on(key::slot(namespace));
        needs.on(key::channel(source)).to_create();
        needs.on(key::address(namespace)).to_create();
        needs.on(key::active(&value.namespace)).to_create();
        installed(Resource::Subscription, needs);
    }

    fn transition(&self, _key: &Key, old: &Subscription, new: &Subscription) -> Transition {
        if old.channel == new.channel && old.namespace == new.namespace {
            return Transition::InPlace;
        }
        Transition::Recreate { reason: "the channel of a Subscription cannot be changed".to_owned() }
    }
}

/// Nothing is made of a resource that is not installed. What exists stays.
fn installed(resource: Resource, needs: &mut Needs) {
    if let Some(name) = resource.definition() {
        needs.on(key::definition(&name)).to_create();
    }
}
