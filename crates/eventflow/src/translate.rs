//! Translation: what a change of the cluster means for the loop.
//!
//! Decided here: which of four things a changed object is. It changes what is declared (a flow, an address, a
//! Channel), it is an observed item, it confirms a removal that waits for it, or it shows that something of ours is not
//! as it should be. Our own writes are none of these: the mirror has their answers already.

use std::collections::{BTreeMap, BTreeSet};

use kilter_events::Inputs;
use kilter_scheduler::{Key, Observation, Origin, Scheduler, State};
use serde_json::Value as Json;

use crate::adoption::deliveries;
use crate::flows::{Changed, FlowInput, inputs};
use crate::key::{self, Named};
use crate::kinds::declared::PolicyForm;
use crate::mirror::Mirror;
use crate::names;
use crate::object::{Id, Object, Resource};
use crate::read::{self, read, show};
use crate::settings::Settings;

/// What changes of the cluster mean.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// What changes what is declared.
    pub(crate) changes: Vec<Changed>,
    /// What was seen, and what is confirmed.
    pub(crate) observed: Vec<Observation>,
    /// What is not as it should be.
    pub(crate) drifted: Vec<Key>,
}

/// What a flow is to the handler.
fn input(flow: &Object) -> FlowInput {
    FlowInput {
        uid: flow.uid().to_owned(),
        source: read::source(flow).to_owned(),
        deleting: flow.is_deleting(),
    }
}

/// Everything that the handler computes from, for the start, and what leaves right after it.
///
/// A flow that we hold, that is on its way out and has a neighbour that stays, is taken for one that stays at first: the
/// claim of its neighbour is made before its own goes, so what they share does not move.
pub(crate) fn everything(mirror: &Mirror, settings: &Settings) -> (Inputs, Vec<Changed>) {
    let (mut all, mut leaving) = (Inputs::default(), Vec::new());
    for flow in mirror.of(Resource::EventFlow) {
        let Id { namespace, name, .. } = flow.id();
        let mut seen = input(flow);
        let has_neighbour = || mirror.inside(Resource::EventFlow, namespace).any(|it| !it.is_deleting());
        if seen.deleting && read::is_finalized(flow) && has_neighbour() {
            leaving.push(Changed::Flow(namespace.clone(), name.clone(), Some(seen.clone())));
            seen.deleting = false;
        }
        all.set(inputs::FLOW, &format!("{namespace}/{name}"), serde_json::to_value(seen).ok());
    }
    for broker in mirror.of(Resource::Broker).filter(|broker| broker.id().name == names::DEFAULT) {
        let address = broker.address().map(|url| Json::String(url.to_owned()));
        all.set(inputs::ADDRESS, &broker.id().namespace, address);
    }
    for source in read::sources(mirror, settings) {
        let channel = read::channel(&source, mirror, settings);
        all.set(inputs::CHANNEL, &source, channel.map(|it| Json::String(it.id().name.clone())));
    }
    (all, leaving)
}

/// What changed objects mean, with the scheduler as it stands.
pub(crate) fn translate(
    changed: &BTreeMap<Id, Option<Object>>,
    mirror: &Mirror,
    scheduler: &Scheduler,
    settings: &Settings,
) -> Told {
    let mut told = Told::default();
    let (mut ours, mut sources) = (BTreeSet::<Key>::new(), BTreeSet::<String>::new());
    for (id, before) in changed {
        let (object, before) = (mirror.get(id), before.as_ref());
        told.changes.extend(declares(id, object, before));
        told.observed.extend(observe(object, before, scheduler));
        ours.extend(concerns(id, object, before, mirror, settings));
        if id.resource == Resource::Channel && id.namespace == settings.integration {
            let source = |it: &Object| {
                let label = it.label(names::APPLICATION_LABEL).filter(|_| !it.is_deleting());
                label.map(str::to_owned)
            };
            let (new, old) = (object.and_then(source), before.and_then(source));
            sources.extend([new.clone(), old.clone()].into_iter().flatten().filter(|_| new != old));
        }
    }
    for source in sources {
        follow(&source, mirror, scheduler, settings, &mut told);
    }
    for key in ours {
        let Some(named) = Named::of(&key) else { continue };
        let found = read(named, mirror, settings).map(|(value, _)| value);
        match scheduler.item(key.as_str()) {
            Some(item) if item.state == State::Removing => {
                let is_gone = match named {
                    // One that is not on its way out is not the one that was deleted: Knative was fast.
                    Named::Slot { namespace } => {
                        read::broker(mirror, namespace).is_none_or(|broker| !broker.is_deleting())
                    }
                    Named::Subscription { namespace, source } => {
                        deliveries(namespace, source, mirror, settings).next().is_none()
                    }
                    Named::SinkClaim { namespace, .. } => !read::is_parting(namespace, mirror),
                    Named::Finalizer { .. }
                    | Named::SubscriptionClaim { .. }
                    | Named::Sink { .. }
                    | Named::Policy { .. } => found.is_none(),
                };
                if is_gone {
                    let origin = Origin::Declared;
                    told.observed.push(Observation { key: key.clone(), value: None, facts: None, origin });
                }
            }
            // A slot is not in the cluster: whether it is there is decided by the flows.
            Some(item)
                if item.declared.is_some()
                    && item.actual.is_some()
                    && item.actual != found
                    && !matches!(named, Named::Slot { .. }) =>
            {
                told.drifted.push(key.clone());
            }
            _ => {}
        }
    }
    told
}

/// What the Channels of a source have come to.
fn follow(source: &str, mirror: &Mirror, scheduler: &Scheduler, settings: &Settings, told: &mut Told) {
    let channel = read::channel(source, mirror, settings);
    told.changes.extend(channel.map(|it| Changed::Channel(source.to_owned(), it.id().name.clone())));
    let (key, value) = (key::channel(source), read::channel_seen(source, mirror, settings));
    if scheduler.item(key.as_str()).and_then(|item| item.actual) != value {
        told.observed.push(Observation { key, value, facts: None, origin: Origin::Observed });
    }
}

/// What changes what is declared; nothing if the handler knows it.
fn declares(id: &Id, object: Option<&Object>, before: Option<&Object>) -> Option<Changed> {
    match id.resource {
        Resource::EventFlow => {
            let (new, old) = (object.map(input), before.map(input));
            (new != old).then(|| Changed::Flow(id.namespace.clone(), id.name.clone(), new))
        }
        Resource::Broker if id.name == names::DEFAULT => {
            let address = |broker: Option<&Object>| {
                let usable = broker.filter(|broker| !broker.is_deleting());
                usable.and_then(Object::address).map(str::to_owned)
            };
            let (new, old) = (address(object), address(before));
            (new != old).then(|| Changed::Address(id.namespace.clone(), new))
        }
        Resource::Definition
        | Resource::Namespace
        | Resource::EventActivation
        | Resource::Broker
        | Resource::Trigger
        | Resource::Channel
        | Resource::Subscription
        | Resource::Source
        | Resource::Policy
        | Resource::PeerAuthentication
        | Resource::Application
        | Resource::ServiceInstance
        | Resource::ConfigMap => None,
    }
}

/// What is seen of an observed item; nothing if that is known.
fn observe(object: Option<&Object>, before: Option<&Object>, scheduler: &Scheduler) -> Option<Observation> {
    let (key, value) = match object.and_then(show) {
        Some((key, value)) => (key, Some(value)),
        None => (before.and_then(show)?.0, None),
    };
    let known = scheduler.item(key.as_str()).and_then(|item| item.actual);
    (known != value).then_some(Observation { key, value, facts: None, origin: Origin::Observed })
}

/// The controller's items that an object makes up.
fn concerns(
    id: &Id,
    object: Option<&Object>,
    before: Option<&Object>,
    mirror: &Mirror,
    settings: &Settings,
) -> Vec<Key> {
    match id.resource {
        Resource::EventFlow => vec![key::finalizer(&id.namespace, &id.name)],
        Resource::Namespace => vec![key::sink(&id.name)],
        Resource::Broker if id.name == names::DEFAULT => {
            let flows = mirror.inside(Resource::EventFlow, &id.namespace);
            let claims = flows.map(|flow| key::sink_claim(&id.namespace, &flow.id().name));
            claims.chain([key::slot(&id.namespace), key::sink(&id.namespace)]).collect()
        }
        Resource::Policy | Resource::PeerAuthentication if id.name == names::policy(&id.namespace) => {
            let form = settings.policy.map(PolicyForm::resource);
            if form == Some(id.resource) { vec![key::policy(&id.namespace)] } else { Vec::new() }
        }
        Resource::Subscription if id.namespace == settings.integration => {
            let both = object.into_iter().chain(before);
            both.flat_map(|seen| read::subscription_keys(seen, mirror)).collect()
        }
        Resource::Definition
        | Resource::EventActivation
        | Resource::Broker
        | Resource::Trigger
        | Resource::Channel
        | Resource::Subscription
        | Resource::Source
        | Resource::Policy
        | Resource::PeerAuthentication
        | Resource::Application
        | Resource::ServiceInstance
        | Resource::ConfigMap => Vec::new(),
    }
}
