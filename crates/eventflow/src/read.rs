//! Reading: which of the controller's items exist, as the mirror shows the cluster.
//!
//! **Why** from the cluster alone: after a restart, or when what was declared is gone, teardown works with what is
//! there. Our finalizer is made before and removed after everything else of a flow, so as long as it is there, the
//! claims of the flow and the slot of its namespace are. So they are if somebody took it off a flow that stays, as long as
//! its claim stands on the Broker.

use std::collections::BTreeSet;

use kilter_scheduler::{Key, Origin, Retrieved, ValueRef};
use serde_json::Value as Json;

use crate::adoption::{delivery, duplicates};
use crate::key::{self, Named};
use crate::kinds::declared::{Claim, Finalizer, Policy, PolicyForm, Sink, Slot, Subscription};
use crate::kinds::observed::{BrokerSeen, ChannelSeen, DefinitionSeen, FlowSeen, NamespaceSeen};
use crate::mirror::Mirror;
use crate::names;
use crate::object::{Id, Object, Resource};
use crate::settings::Settings;
use crate::write::{SINK_OWNER, narrowed, policy_body, subscription_labels};

/// An item that exists: what it is, and whose; `None` if only a declaration makes it ours.
pub(crate) type Found = (ValueRef, Option<Origin>);

fn ours(value: impl kilter_scheduler::Value) -> Option<Found> {
    Some((ValueRef::new(value), Some(Origin::Declared)))
}

/// The default Broker of a namespace.
pub(crate) fn broker<'a>(mirror: &'a Mirror, namespace: &str) -> Option<&'a Object> {
    mirror.get(&Id::new(Resource::Broker, namespace, names::DEFAULT))
}

/// Whether an EventFlow carries our finalizer.
pub(crate) fn is_finalized(flow: &Object) -> bool {
    let finalizers = flow.finalizers();
    finalizers.contains(names::FINALIZER) || finalizers.contains(names::BARE_FINALIZER)
}

/// The source that an EventFlow names.
pub(crate) fn source(flow: &Object) -> &str {
    flow.json()["spec"]["source"].as_str().unwrap_or_default()
}

/// Whether an object says that we keep it.
pub(crate) fn is_marked(object: &Object) -> bool {
    object.label(names::MANAGED_BY) == Some(names::OURS)
}

fn has_flows(mirror: &Mirror, namespace: &str) -> bool {
    mirror.inside(Resource::EventFlow, namespace).any(|flow| is_held(flow, mirror))
}

/// Whether everything that we made for a flow is taken to be there.
fn is_held(flow: &Object, mirror: &Mirror) -> bool {
    is_finalized(flow) || !flow.is_deleting() && has_claim(flow, broker(mirror, &flow.id().namespace))
}

/// Whether the claim of a flow stands on a Broker.
fn has_claim(flow: &Object, broker: Option<&Object>) -> bool {
    let annotations = broker.and_then(Object::annotations);
    annotations.is_some_and(|annotations| annotations.contains_key(&names::claim(&flow.id().name)))
}

/// Reads one of the controller's items.
pub(crate) fn read(named: Named<'_>, mirror: &Mirror, settings: &Settings) -> Option<Found> {
    let flow = |namespace: &str, name: &str| {
        mirror.get(&Id::new(Resource::EventFlow, namespace, name)).filter(|flow| is_held(flow, mirror))
    };
    match named {
        Named::Finalizer { namespace, flow: name } => {
            let seen = flow(namespace, name)?;
            ours(Finalizer { uid: seen.uid().to_owned(), held: is_finalized(seen) })
        }
        Named::SinkClaim { namespace, flow: name } => {
            let held = is_claimed(namespace, name, mirror);
            flow(namespace, name).and_then(|_| ours(Claim { held }))
        }
        Named::SubscriptionClaim { namespace, source: of, flow: name } => {
            flow(namespace, name).filter(|flow| source(flow) == of).and_then(|_| ours(Claim { held: true }))
        }
        Named::Slot { namespace } => {
            let is_taken = has_flows(mirror, namespace) && !is_between(namespace, mirror);
            is_taken.then(|| ours(Slot {}))?
        }
        Named::Sink { namespace } => sink(namespace, mirror, settings),
        Named::Policy { namespace } => {
            let forms = [PolicyForm::PeerAuthentication, PolicyForm::Policy];
            forms.into_iter().find_map(|form| policy(form, namespace, mirror))
        }
        Named::Subscription { namespace, source } => subscription(namespace, source, mirror, settings),
    }
}

/// Whether the claim of a flow stands on the Broker of its namespace, if there is one that stays.
pub(crate) fn is_claimed(namespace: &str, flow: &str, mirror: &Mirror) -> bool {
    let Some(broker) = broker(mirror, namespace).filter(|broker| !broker.is_deleting()) else { return true };
    broker.annotations().is_some_and(|annotations| annotations.contains_key(&names::claim(flow)))
}

/// Whether the Broker of a namespace is on its way out with the flows that claim it: no flow that stays does.
///
/// Whoever comes while it goes writes no claim on it, and so waits for the next one.
pub(crate) fn is_parting(namespace: &str, mirror: &Mirror) -> bool {
    let Some(broker) = broker(mirror, namespace).filter(|broker| broker.is_deleting()) else { return false };
    let claims = |flow: &Object| !flow.is_deleting() && has_claim(flow, Some(broker));
    !is_leaving(namespace, mirror) && !mirror.inside(Resource::EventFlow, namespace).any(claims)
}

/// Whether one Broker goes and flows wait for the next one: the slot is nobody's.
fn is_between(namespace: &str, mirror: &Mirror) -> bool {
    is_parting(namespace, mirror)
        && mirror.inside(Resource::EventFlow, namespace).any(|flow| !flow.is_deleting())
}

/// Whether a namespace is on its way out, or gone.
pub(crate) fn is_leaving(namespace: &str, mirror: &Mirror) -> bool {
    mirror.get(&Id::new(Resource::Namespace, "", namespace)).is_none_or(Object::is_deleting)
}

fn sink(namespace: &str, mirror: &Mirror, settings: &Settings) -> Option<Found> {
    let (value, is_ours) = match settings.sink {
        Sink::Injection => {
            let seen = mirror.get(&Id::new(Resource::Namespace, "", namespace))?;
            let enabled = |label: &str| seen.label(label) == Some(names::ENABLED);
            if !names::INJECTION_LABELS.into_iter().all(enabled) {
                return None;
            }
            (Sink::Injection, has_flows(mirror, namespace))
        }
        // A label that an earlier run set goes first.
        Sink::Direct if is_labelled_by_us(namespace, mirror) => (Sink::Injection, true),
        Sink::Direct => {
            let seen = broker(mirror, namespace).filter(|broker| !broker.is_deleting())?;
            (Sink::Direct, is_marked(seen))
        }
    };
    Some((ValueRef::new(value), is_ours.then_some(Origin::Declared)))
}

/// Whether the labels on a namespace are ours to take off.
fn is_labelled_by_us(namespace: &str, mirror: &Mirror) -> bool {
    let seen = mirror.get(&Id::new(Resource::Namespace, "", namespace));
    seen.is_some_and(|it| !it.is_deleting() && it.is_owned_by(SINK_OWNER))
}

/// Whether an object has every field that is wanted, whatever else it has. A list is one field.
fn includes(seen: &Json, wanted: &Json) -> bool {
    match wanted.as_object() {
        Some(fields) => fields.iter().all(|(name, wanted)| includes(&seen[name], wanted)),
        None => seen == wanted,
    }
}

fn policy(form: PolicyForm, namespace: &str, mirror: &Mirror) -> Option<Found> {
    let seen = mirror.get(&Id::new(form.resource(), namespace, names::policy(namespace)))?;
    let spec = &seen.json()["spec"];
    let mode = match form {
        PolicyForm::Policy => &spec["peers"][0]["mtls"]["mode"],
        PolicyForm::PeerAuthentication => &spec["mtls"]["mode"],
    };
    let mode = mode.as_str().unwrap_or_default().to_owned();
    let wanted = policy_body(namespace, &Policy { form, mode: mode.clone(), kept: true });
    // The selector is ours as a whole: a label more finds something else.
    let kept = includes(seen.json(), &wanted) && narrowed(seen, &wanted).is_none();
    let value = Policy { form, mode, kept };
    Some((ValueRef::new(value), is_marked(seen).then_some(Origin::Declared)))
}

fn subscription(namespace: &str, source: &str, mirror: &Mirror, settings: &Settings) -> Option<Found> {
    let id = delivery(namespace, source, mirror, settings);
    let seen = mirror.get(&id).filter(|seen| !seen.is_deleting())?;
    let is_sole = duplicates(&id, namespace, source, mirror, settings).next().is_none();
    let spec = &seen.json()["spec"];
    let text = |field: &Json| field.as_str().map(str::to_owned);
    let value = Subscription {
        namespace: id.namespace.clone(),
        channel: text(&spec["channel"]["name"]),
        subscriber: text(&spec["subscriber"]["uri"]),
        kept: is_sole
            && includes(&seen.json()["metadata"]["labels"], &subscription_labels(namespace, source)),
    };
    // Nobody else gives one our name, whatever its labels say.
    let is_ours = is_marked(seen) || id.name == names::subscription(namespace, source);
    Some((ValueRef::new(value), is_ours.then_some(Origin::Declared)))
}

/// Every item of the controller of one kind, and every item that the cluster shows of one kind.
pub(crate) fn read_all(kind: &str, mirror: &Mirror, settings: &Settings) -> Vec<Retrieved> {
    if kind.starts_with("kube.") {
        return observed(kind, mirror, settings);
    }
    let flows = || mirror.of(Resource::EventFlow).filter(|flow| is_held(flow, mirror));
    let mut keys: Vec<Key> = match kind {
        "eventflow.finalizer" => {
            flows().map(|flow| key::finalizer(&flow.id().namespace, &flow.id().name)).collect()
        }
        "eventflow.sink-claim" => {
            flows().map(|flow| key::sink_claim(&flow.id().namespace, &flow.id().name)).collect()
        }
        "eventflow.subscription-claim" => flows()
            .map(|flow| key::subscription_claim(&flow.id().namespace, source(flow), &flow.id().name))
            .collect(),
        "eventflow.slot" => flows().map(|flow| key::slot(&flow.id().namespace)).collect(),
        "eventflow.sink" => {
            mirror.of(Resource::Namespace).map(|namespace| key::sink(&namespace.id().name)).collect()
        }
        "eventflow.policy" => {
            let resources = [Resource::Policy, Resource::PeerAuthentication];
            let objects = resources.into_iter().flat_map(|resource| mirror.of(resource));
            objects.map(|policy| key::policy(&policy.id().namespace)).collect()
        }
        "eventflow.subscription" => mirror
            .inside(Resource::Subscription, &settings.integration)
            .flat_map(|seen| subscription_keys(seen, mirror))
            .collect(),
        _ => Vec::new(),
    };
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .filter_map(|key| {
            let (value, origin) = read(Named::of(&key)?, mirror, settings)?;
            Some(Retrieved { key, value, facts: None, origin })
        })
        .collect()
}

/// The items that a Subscription is a part of: the one that its labels name, and the one that its name says, if somebody
/// changed the labels of one of ours.
pub(crate) fn subscription_keys(seen: &Object, mirror: &Mirror) -> Vec<Key> {
    let name = seen.id().name.as_str();
    if !name.starts_with(names::SUBSCRIPTION_PREFIX) {
        return Vec::new();
    }
    let labels = seen.label(names::BROKER_NAMESPACE_LABEL).zip(seen.label(names::APPLICATION_LABEL));
    let labelled = labels.map(|(namespace, source)| key::subscription(namespace, source));
    if labels.is_some_and(|(namespace, source)| names::subscription(namespace, source) == name) {
        return labelled.into_iter().collect();
    }
    let is_its = |flow: &&Object| names::subscription(&flow.id().namespace, source(flow)) == name;
    let flow = mirror.of(Resource::EventFlow).find(is_its);
    let named = flow.map(|flow| key::subscription(&flow.id().namespace, source(flow)));
    labelled.into_iter().chain(named).collect()
}

/// The Channel of a source. Of several, the one that is read from already stays the one, and otherwise it is the first.
pub(crate) fn channel<'a>(source: &str, mirror: &'a Mirror, settings: &'a Settings) -> Option<&'a Object> {
    let is_one = |it: &&Object| !it.is_deleting() && it.label(names::APPLICATION_LABEL) == Some(source);
    let all: Vec<&Object> = mirror.inside(Resource::Channel, &settings.integration).filter(is_one).collect();
    let is_read = |channel: &&&Object| {
        let mut deliveries = mirror.inside(Resource::Subscription, &settings.integration);
        deliveries.any(|it| {
            it.label(names::APPLICATION_LABEL) == Some(source)
                && it.json()["spec"]["channel"]["name"] == *channel.id().name
        })
    };
    match all.as_slice() {
        [] | [_] => all.first().copied(),
        several => several.iter().find(is_read).or(several.first()).copied(),
    }
}

/// What is seen of the Channel of a source.
pub(crate) fn channel_seen(source: &str, mirror: &Mirror, settings: &Settings) -> Option<ValueRef> {
    let found = channel(source, mirror, settings)?;
    Some(ValueRef::new(ChannelSeen { name: found.id().name.clone() }))
}

/// What an object of the cluster is as an item that is only observed. Not a Channel: of several of one source, one is seen.
pub(crate) fn show(object: &Object) -> Option<(Key, ValueRef)> {
    let id = object.id();
    match id.resource {
        Resource::Definition => {
            let established = object.condition("Established").is_some_and(|it| it.status == Some(true));
            let is_there = established && !object.is_deleting();
            is_there.then(|| (key::definition(&id.name), ValueRef::new(DefinitionSeen {})))
        }
        Resource::Namespace => {
            let terminating = object.is_deleting();
            Some((key::namespace(&id.name), ValueRef::new(NamespaceSeen { terminating })))
        }
        Resource::EventFlow => {
            let seen = FlowSeen { uid: object.uid().to_owned(), deleting: object.is_deleting() };
            Some((key::flow(&id.namespace, &id.name), ValueRef::new(seen)))
        }
        Resource::Broker if id.name == names::DEFAULT => {
            let seen = BrokerSeen {
                uid: object.uid().to_owned(),
                terminating: object.is_deleting(),
                address: object.address().map(str::to_owned),
            };
            Some((key::broker(&id.namespace), ValueRef::new(seen)))
        }
        Resource::Channel
        | Resource::Broker
        | Resource::EventActivation
        | Resource::Trigger
        | Resource::Subscription
        | Resource::Source
        | Resource::Policy
        | Resource::PeerAuthentication
        | Resource::Application
        | Resource::ServiceInstance
        | Resource::ConfigMap => None,
    }
}

fn observed(kind: &str, mirror: &Mirror, settings: &Settings) -> Vec<Retrieved> {
    let of =
        |(key, value): (Key, ValueRef)| Retrieved { key, value, facts: None, origin: Some(Origin::Observed) };
    let resource = match kind {
        "kube.definition" => Resource::Definition,
        "kube.namespace" => Resource::Namespace,
        "kube.flow" => Resource::EventFlow,
        "kube.channel" => {
            let seen =
                |source: String| Some((key::channel(&source), channel_seen(&source, mirror, settings)?));
            return sources(mirror, settings).into_iter().filter_map(seen).map(of).collect();
        }
        "kube.broker" => Resource::Broker,
        _ => return Vec::new(),
    };
    mirror.of(resource).filter_map(show).map(of).collect()
}

/// Every source that has a Channel.
pub(crate) fn sources(mirror: &Mirror, settings: &Settings) -> BTreeSet<String> {
    let channels = mirror.inside(Resource::Channel, &settings.integration);
    channels.filter_map(|it| it.label(names::APPLICATION_LABEL)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mirror(claimed: bool, deleting: bool) -> Mirror {
        let mut mirror = Mirror::default();
        let claims = if claimed { json!({names::claim("f1"): "claimed"}) } else { json!({}) };
        let meta = json!({"namespace": "shop", "name": names::DEFAULT, "uid": "b", "annotations": claims});
        mirror.see(Object::new(Resource::Broker, json!({"metadata": meta})));
        let gone = deleting.then_some("2026-01-01T00:00:00Z");
        let meta = json!({"namespace": "shop", "name": "f1", "uid": "f", "deletionTimestamp": gone});
        mirror.see(Object::new(Resource::EventFlow, json!({"metadata": meta, "spec": {"source": "crm"}})));
        mirror
    }

    #[test]
    fn what_was_made_for_a_flow_is_there_without_its_finalizer_if_its_claim_is() {
        let settings = Settings::default();
        for (claimed, deleting, is_there) in [(true, false, true), (false, false, false), (true, true, false)]
        {
            let mirror = mirror(claimed, deleting);
            for kind in ["eventflow.sink-claim", "eventflow.subscription-claim", "eventflow.slot"] {
                let found = read_all(kind, &mirror, &settings).len();
                assert_eq!(found, usize::from(is_there), "{kind} {claimed} {deleting}");
            }
        }
    }
}
