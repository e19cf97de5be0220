//! Writing: which requests make an item real, change it or take it away, decided on what the mirror shows.
//!
//! Pure: nothing is sent here. [`crate::actuator`] sends, and decides again when the cluster has moved on.

use kilter_scheduler::{Act, ValueRef};
use serde_json::{Value as Json, json};

use crate::adoption::{deliveries, delivery, duplicates, waiting};
use crate::key::Named;
use crate::kinds::declared::{Finalizer, Policy, PolicyForm, Sink, Subscription};
use crate::mirror::Mirror;
use crate::names;
use crate::object::{Id, Object, Resource};
use crate::read::{broker, is_leaving, is_marked, is_parting};
use crate::request::Request;
use crate::settings::Settings;

/// Who owns what makes a sink appear: the labels on a namespace, or the Broker.
pub(crate) const SINK_OWNER: &str = "kilter-eventflow-sink";

/// Who owns our finalizer on a flow.
const FINALIZER_OWNER: &str = "kilter-eventflow-finalizer";

/// Who owns the claims on a Broker.
const CLAIM_OWNER: &str = "kilter-eventflow-claim";

/// Who owns a policy.
const POLICY_OWNER: &str = "kilter-eventflow-policy";

/// What is to be done for an operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Course {
    /// Nothing has to be asked of the cluster.
    Done,
    /// The object is not ours to delete, which is told about it; this is why. Otherwise it is done.
    Keep(Object, String),
    /// It is under way already; an observation will confirm it.
    Wait,
    /// These requests, one after another.
    Send(Vec<Request>),
    /// It must not be done; this is why.
    Refuse(String),
}

/// What is to be done to make or change an item.
pub(crate) fn put(named: Named<'_>, value: &ValueRef, mirror: &Mirror, settings: &Settings) -> Course {
    match named {
        Named::Finalizer { namespace, flow } => match value.downcast::<Finalizer>() {
            Some(finalizer) => finalize(namespace, flow, finalizer),
            None => wrong_type(),
        },
        Named::SinkClaim { namespace, flow } => {
            claim(namespace, flow, Json::String("claimed".into()), mirror)
        }
        Named::SubscriptionClaim { .. } | Named::Slot { .. } => Course::Done,
        Named::Sink { namespace } => match value.downcast::<Sink>() {
            Some(Sink::Injection) => inject(namespace, true, mirror),
            Some(Sink::Direct) => Course::Send(vec![make_broker(namespace)]),
            None => wrong_type(),
        },
        Named::Policy { namespace } => match value.downcast::<Policy>() {
            Some(policy) => Course::Send(keep_policy(namespace, policy, mirror)),
            None => wrong_type(),
        },
        Named::Subscription { namespace, source } => match value.downcast::<Subscription>() {
            Some(subscription) => subscribe(namespace, source, subscription, mirror, settings),
            None => wrong_type(),
        },
    }
}

/// What is to be done to take an item away.
pub(crate) fn take(named: Named<'_>, value: &ValueRef, mirror: &Mirror, settings: &Settings) -> Course {
    match named {
        Named::Finalizer { namespace, flow } => release(namespace, flow, mirror),
        // Whoever made the Broker appear stays until it is gone.
        Named::SinkClaim { namespace, .. } if is_parting(namespace, mirror) => Course::Wait,
        Named::SinkClaim { namespace, flow } => claim(namespace, flow, Json::Null, mirror),
        Named::SubscriptionClaim { .. } => Course::Done,
        Named::Slot { namespace } => vacate(namespace, mirror),
        Named::Sink { namespace } => match (claimed_again(namespace, mirror), value.downcast::<Sink>()) {
            // It is made in another way from now on, whoever claims it.
            (_, Some(Sink::Injection)) if settings.sink == Sink::Direct => inject(namespace, false, mirror),
            (Some(again), _) => again,
            (None, Some(Sink::Injection)) => inject(namespace, false, mirror),
            // The Broker goes with the slot, when nothing stands on it any more.
            (None, Some(Sink::Direct)) => Course::Done,
            (None, None) => wrong_type(),
        },
        Named::Policy { namespace } => match (claimed_again(namespace, mirror), value.downcast::<Policy>()) {
            (Some(again), _) => again,
            (None, Some(policy)) => {
                let id = Id::new(policy.form.resource(), namespace, names::policy(namespace));
                // One that somebody else put in its place meanwhile is not ours to delete.
                let is_ours = |it: &&Object| is_marked(it) || it.is_owned_by(POLICY_OWNER);
                delete(mirror.get(&id).filter(is_ours))
            }
            (None, None) => wrong_type(),
        },
        Named::Subscription { namespace, source } => unsubscribe(namespace, source, mirror, settings),
    }
}

/// What is to be done for an operation on one of the controller's items.
pub(crate) fn course(named: Named<'_>, act: &Act, mirror: &Mirror, settings: &Settings) -> Course {
    match act {
        Act::Create { value, .. } | Act::Update { new: value, .. } => put(named, value, mirror, settings),
        Act::Delete { value, .. } => take(named, value, mirror, settings),
        Act::Retrieve { .. } | Act::RetrieveAll { .. } => Course::Done,
    }
}

fn wrong_type() -> Course {
    Course::Refuse("the value is not one of its kind".to_owned())
}

/// The fields that every apply names. With an identity, an object that is gone is not made again.
fn body(id: &Id, uid: Option<&str>) -> Json {
    let mut meta = json!({"name": id.name});
    if !id.namespace.is_empty() {
        meta["namespace"] = Json::String(id.namespace.clone());
    }
    if let Some(uid) = uid {
        meta["uid"] = Json::String(uid.to_owned());
    }
    json!({"apiVersion": id.resource.api_version(), "kind": id.resource.kind(), "metadata": meta})
}

fn finalize(namespace: &str, flow: &str, finalizer: &Finalizer) -> Course {
    let id = Id::new(Resource::EventFlow, namespace, flow);
    let mut body = body(&id, Some(&finalizer.uid));
    body["metadata"]["finalizers"] = json!([names::FINALIZER]);
    Course::Send(vec![Request::Apply { id, owner: FINALIZER_OWNER, body }])
}

/// Lets go of an EventFlow. Nothing of it is left, or nothing was ever made.
fn release(namespace: &str, flow: &str, mirror: &Mirror) -> Course {
    let id = Id::new(Resource::EventFlow, namespace, flow);
    let Some(object) = mirror.get(&id) else { return Course::Done };
    let finalizers = object.finalizers();
    let mut requests = Vec::new();
    if finalizers.contains(names::BARE_FINALIZER) {
        // Nobody owns it as a field: the list is replaced, if it is still the one that was seen.
        let rest: Vec<&str> = finalizers.iter().copied().filter(|it| *it != names::BARE_FINALIZER).collect();
        let meta = json!({"resourceVersion": object.version(), "finalizers": rest});
        let patch = json!({"metadata": meta});
        requests.push(Request::Patch { id: id.clone(), owner: FINALIZER_OWNER, patch });
    }
    if finalizers.contains(names::FINALIZER) {
        let body = body(&id, Some(object.uid()));
        requests.push(Request::Apply { id, owner: FINALIZER_OWNER, body });
    }
    if requests.is_empty() { Course::Done } else { Course::Send(requests) }
}

/// Writes the claim of a flow on the Broker, if there is one to protect.
fn claim(namespace: &str, flow: &str, value: Json, mirror: &Mirror) -> Course {
    let Some(broker) = broker(mirror, namespace).filter(|broker| !broker.is_deleting()) else {
        return Course::Done;
    };
    let name = names::claim(flow);
    let is_there = broker.annotations().is_some_and(|annotations| annotations.contains_key(&name));
    if is_there != value.is_null() {
        return Course::Done;
    }
    let patch = json!({"metadata": {"annotations": {name: value}}});
    Course::Send(vec![Request::Patch { id: broker.id().clone(), owner: CLAIM_OWNER, patch }])
}

/// Sets or releases the labels on a namespace. What somebody else set as well stays.
fn inject(namespace: &str, enabled: bool, mirror: &Mirror) -> Course {
    let id = Id::new(Resource::Namespace, "", namespace);
    let Some(object) = mirror.get(&id) else {
        return if enabled { Course::Refuse("the namespace is gone".to_owned()) } else { Course::Done };
    };
    let mut body = body(&id, Some(object.uid()));
    if enabled {
        let labels: serde_json::Map<String, Json> = names::INJECTION_LABELS
            .into_iter()
            .map(|label| (label.to_owned(), names::ENABLED.into()))
            .collect();
        body["metadata"]["labels"] = Json::Object(labels);
    }
    Course::Send(vec![Request::Apply { id, owner: SINK_OWNER, body }])
}

fn make_broker(namespace: &str) -> Request {
    let id = Id::new(Resource::Broker, namespace, names::DEFAULT);
    let mut body = body(&id, None);
    body["metadata"]["labels"] = json!({names::MANAGED_BY: names::OURS});
    Request::Apply { id, owner: SINK_OWNER, body }
}

/// Everything that we own of a policy.
pub(crate) fn policy_body(namespace: &str, policy: &Policy) -> Json {
    let id = Id::new(policy.form.resource(), namespace, names::policy(namespace));
    let mut body = body(&id, None);
    body["metadata"]["labels"] = json!({names::MANAGED_BY: names::OURS, names::BROKER_LABEL: names::DEFAULT});
    body["spec"] = match policy.form {
        PolicyForm::Policy => json!({
            "targets": [{"name": "default-broker"}, {"name": "default-broker-filter"}],
            "peers": [{"mtls": {"mode": policy.mode}}],
        }),
        PolicyForm::PeerAuthentication => json!({
            "selector": {"matchLabels": {names::BROKER_LABEL: names::DEFAULT}},
            "mtls": {"mode": policy.mode},
        }),
    };
    body
}

/// The labels that we own of a Subscription.
pub(crate) fn subscription_labels(namespace: &str, source: &str) -> Json {
    json!({
        names::MANAGED_BY: names::OURS,
        names::BROKER_NAMESPACE_LABEL: namespace,
        names::APPLICATION_LABEL: source,
    })
}

/// Makes a policy as we want it. What others added to its selector goes: the policy would find no Broker.
fn keep_policy(namespace: &str, policy: &Policy, mirror: &Mirror) -> Vec<Request> {
    let id = Id::new(policy.form.resource(), namespace, names::policy(namespace));
    let body = policy_body(namespace, policy);
    let strange = mirror.get(&id).and_then(|seen| narrowed(seen, &body));
    let cleared = strange.map(|patch| Request::Patch { id: id.clone(), owner: POLICY_OWNER, patch });
    cleared.into_iter().chain([Request::Apply { id: id.clone(), owner: POLICY_OWNER, body }]).collect()
}

/// What takes the labels out of the selector of a policy that are not to be there; `None` if there are none.
pub(crate) fn narrowed(seen: &Object, wanted: &Json) -> Option<Json> {
    let wanted = &wanted["spec"]["selector"]["matchLabels"];
    let labels = seen.json()["spec"]["selector"]["matchLabels"].as_object()?;
    let strange = labels.keys().filter(|label| wanted[label.as_str()].is_null());
    let gone: serde_json::Map<String, Json> = strange.map(|label| (label.clone(), Json::Null)).collect();
    let patch = json!({
        "metadata": {"resourceVersion": seen.version()},
        "spec": {"selector": {"matchLabels": gone}},
    });
    (!gone.is_empty()).then_some(patch)
}

/// Makes the Subscription, or takes over one that is there; what else carries the same events goes.
fn subscribe(
    namespace: &str,
    source: &str,
    subscription: &Subscription,
    mirror: &Mirror,
    settings: &Settings,
) -> Course {
    let (Some(channel), Some(subscriber)) = (&subscription.channel, &subscription.subscriber) else {
        return Course::Refuse("the channel and the address of the sink are not known".to_owned());
    };
    let id = delivery(namespace, source, mirror, settings);
    let mut body = body(&id, None);
    body["metadata"]["labels"] = subscription_labels(namespace, source);
    let form = Resource::Channel;
    // The channel of a Subscription can never be changed, not even in how it is named.
    let named =
        mirror.get(&id).map(|seen| &seen.json()["spec"]["channel"]).filter(|it| it["name"] == **channel);
    let fresh = || json!({"apiVersion": form.api_version(), "kind": form.kind(), "name": channel});
    body["spec"] = json!({
        "channel": named.cloned().unwrap_or_else(fresh),
        "subscriber": {"uri": subscriber},
    });
    let others = duplicates(&id, namespace, source, mirror, settings).map(deletion).collect::<Vec<_>>();
    let apply = Request::Apply { id, owner: "kilter-eventflow-subscription", body };
    Course::Send([apply].into_iter().chain(others).collect())
}

/// Deletes everything that carries the events of a source to a namespace.
fn unsubscribe(namespace: &str, source: &str, mirror: &Mirror, settings: &Settings) -> Course {
    let mut all = deliveries(namespace, source, mirror, settings).peekable();
    if all.peek().is_none() || waiting(namespace, mirror).is_some() {
        return Course::Done;
    }
    let requests: Vec<Request> = all.filter(|it| !it.is_deleting()).map(deletion).collect();
    if requests.is_empty() { Course::Wait } else { Course::Send(requests) }
}

/// Deletes an object as it was seen.
fn deletion(object: &Object) -> Request {
    Request::deletion(object)
}

/// Deletes an object if it is there.
fn delete(object: Option<&Object>) -> Course {
    match object {
        None => Course::Done,
        Some(object) if object.is_deleting() => Course::Wait,
        Some(object) => Course::Send(vec![deletion(object)]),
    }
}

/// Deletes the Broker of a namespace, unless it is not ours to delete or somebody needs it.
fn vacate(namespace: &str, mirror: &Mirror) -> Course {
    let Some(broker) = broker(mirror, namespace) else { return Course::Done };
    // Whoever takes the namespace away takes the Broker away; to wait for it would only hold both up.
    if is_leaving(namespace, mirror) {
        return Course::Done;
    }
    if broker.is_deleting() {
        return Course::Wait;
    }
    if let Some(again) = claimed_again(namespace, mirror) {
        return again;
    }
    if let Some(why) = retained(broker, mirror) {
        return Course::Keep(broker.clone(), why);
    }
    Course::Send(vec![deletion(broker)])
}

/// Why a Broker outlives its last flow: a user made it, or somebody else labelled its namespace so that Knative would make
/// it again, or a Trigger of a user reads from it.
pub(crate) fn retained(broker: &Object, mirror: &Mirror) -> Option<String> {
    if broker.label(names::INJECTED_LABEL) != Some("true") && !is_marked(broker) {
        return Some("a user made it".to_owned());
    }
    let namespace = mirror.get(&Id::new(Resource::Namespace, "", broker.id().namespace.as_str()));
    let asks = |label: &&&str| namespace.and_then(|it| it.label(label)) == Some(names::ENABLED);
    if let Some(label) = names::INJECTION_LABELS.iter().find(asks) {
        return Some(format!("somebody else set the label `{label}` on its namespace, which asks for it"));
    }
    let reads = |trigger: &&Object| trigger.json()["spec"]["broker"].as_str() == Some(names::DEFAULT);
    let trigger = mirror.inside(Resource::Trigger, &broker.id().namespace).find(reads)?;
    Some(format!("Trigger `{}` reads from it", trigger.id().name))
}

/// A flow that came while the last one left, or that has yet to come: what is shared stays.
fn claimed_again(namespace: &str, mirror: &Mirror) -> Option<Course> {
    if waiting(namespace, mirror).is_some() {
        // It goes with the flow of the instance that waits for one.
        return Some(Course::Done);
    }
    if is_parting(namespace, mirror) {
        // It is the next Broker that is claimed, and that one waits until nothing asks for this one.
        return None;
    }
    let flow = mirror.inside(Resource::EventFlow, namespace).find(|flow| !flow.is_deleting())?;
    Some(Course::Refuse(format!("flow `{}` claims it again", flow.id().name)))
}
