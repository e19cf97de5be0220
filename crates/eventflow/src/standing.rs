//! How a flow stands: gathers what the graph and the mirror say about its children.

use std::collections::BTreeMap;

use kilter_scheduler::{Key, Scheduler, Timestamp};

use crate::adoption::delivery;
use crate::condition::{self, Child, Children, Condition, FlowStatus, Stage, Truth};
use crate::key;
use crate::mirror::Mirror;
use crate::names;
use crate::object::{Id, Object, Resource};
use crate::read;
use crate::settings::Settings;

/// The status that was last written to a flow, as far as it can be read.
pub(crate) fn written(flow: &Object) -> FlowStatus {
    serde_json::from_value(flow.json()["status"].clone()).unwrap_or_default()
}

/// The status that a flow should have. `failing` tells since when the operations of an item fail.
pub(crate) fn status(
    flow: &Object,
    mirror: &Mirror,
    scheduler: &Scheduler,
    settings: &Settings,
    failing: &BTreeMap<Key, Timestamp>,
    now: Timestamp,
) -> FlowStatus {
    let previous = written(flow);
    if flow.is_deleting() {
        return leaving(flow, previous, scheduler, now);
    }
    let look = Look { mirror, scheduler, settings, failing };
    condition::status(&look.children(flow), flow.generation(), &previous, now)
}

/// A flow on its way out says what it waits for, and otherwise what it said last.
fn leaving(flow: &Object, mut previous: FlowStatus, scheduler: &Scheduler, now: Timestamp) -> FlowStatus {
    let finalizer = scheduler.status(key::finalizer(&flow.id().namespace, &flow.id().name).as_str());
    let holders: Vec<String> = finalizer.held_by.iter().map(Key::to_string).collect();
    let message = match (holders.as_slice(), &finalizer.error) {
        (_, Some(error)) => error.to_string(),
        ([], None) => "everything that was made for it is removed".to_owned(),
        (holders, None) => format!("waits until these are removed: {}", holders.join(", ")),
    };
    let before = previous.condition("Ready").filter(|before| before.status == Truth::False);
    let since = before.map(|before| before.last_transition_time.clone()).filter(|since| !since.is_empty());
    let ready = Condition {
        name: "Ready".to_owned(),
        status: Truth::False,
        severity: String::new(),
        reason: "Deleting".to_owned(),
        message,
        last_transition_time: since.unwrap_or_else(|| condition::instant(now)),
    };
    previous.conditions.retain(|condition| condition.name != "Ready");
    previous.conditions.push(ready);
    previous.conditions.sort_by(|one, other| one.name.cmp(&other.name));
    previous.observed_generation = flow.generation();
    previous
}

struct Look<'a> {
    mirror: &'a Mirror,
    scheduler: &'a Scheduler,
    settings: &'a Settings,
    failing: &'a BTreeMap<Key, Timestamp>,
}

impl Look<'_> {
    fn children(&self, flow: &Object) -> Children {
        let (namespace, name) = (flow.id().namespace.as_str(), flow.id().name.as_str());
        let source = read::source(flow);
        let integration = self.settings.integration.as_str();
        let broker = Id::new(Resource::Broker, namespace, names::DEFAULT);
        let subscription = delivery(namespace, source, self.mirror, self.settings);
        let address = self.mirror.get(&broker).filter(|it| !it.is_deleting()).and_then(Object::address);
        Children {
            source: self.child("Source", &Id::new(Resource::Source, integration, source), &[]),
            sink: self.child(
                "Sink",
                &broker,
                &[key::finalizer(namespace, name), key::slot(namespace), key::sink(namespace)],
            ),
            subscription: self.child("Subscription", &subscription, &[key::subscription(namespace, source)]),
            policy: self.settings.policy.map(|form| {
                let id = Id::new(form.resource(), namespace, names::policy(namespace));
                self.child("Policy", &id, &[key::policy(namespace)])
            }),
            address: address.map(str::to_owned),
        }
    }

    fn child(&self, word: &'static str, id: &Id, items: &[Key]) -> Child {
        let object = self.mirror.get(id);
        Child {
            title: format!("{} `{}`", id.resource.kind(), id.name),
            word,
            stages: items.iter().map(|key| self.stage(key)).collect(),
            installed: is_installed(id.resource, self.mirror),
            exists: object.is_some(),
            deleting: object.is_some_and(Object::is_deleting),
            readiness: object.and_then(Object::readiness),
        }
    }

    fn stage(&self, key: &Key) -> Stage {
        let status = self.scheduler.status(key.as_str());
        Stage {
            state: Some(status.state),
            unmet: status.unmet,
            error: status.error.map(|error| error.to_string()),
            failing: self.failing.get(key).copied(),
        }
    }
}

/// Whether the definition of a resource is established.
pub(crate) fn is_installed(resource: Resource, mirror: &Mirror) -> bool {
    let Some(name) = resource.definition() else { return true };
    let definition = mirror.get(&Id::new(Resource::Definition, "", name));
    definition
        .and_then(|definition| definition.condition("Established"))
        .is_some_and(|established| established.status == Some(true))
}
