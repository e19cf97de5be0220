//! A world of objects with the rules that the controller builds on: versions grow, preconditions void a deletion,
//! finalizers hold it up, and an owner that applies less takes away what it applied before.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kilter_eventflow::mirror::Shared;
use kilter_eventflow::names;
use kilter_eventflow::object::{Id, Object, Resource};
use kilter_eventflow::request::{Api, Rejected, Request, Sent};
use kilter_scheduler::Timestamp;
use kilter_southbound::{BoxFuture, Clock};
use serde_json::{Value as Json, json};

pub(crate) const I: &str = "kyma-integration";

#[derive(Default)]
struct State {
    objects: BTreeMap<Id, Json>,
    /// What each owner applied last.
    applied: BTreeMap<(Id, &'static str), Json>,
    version: u64,
    uids: u64,
    log: Vec<Request>,
    /// The request with this number is the last one that is carried out: then the controller is dead.
    dies_after: Option<usize>,
    /// Objects that appear just before the first request that this accepts.
    surprises: VecDeque<Surprise>,
    /// What a watch has not told yet.
    untold: Vec<Told>,
    /// Labels that somebody else set: they stay when whoever set them too lets go of them.
    foreign: BTreeSet<(Id, String)>,
    /// Which requests are rejected, and how.
    rejects: Option<Veto>,
}

/// Which requests are rejected, and how.
type Veto = (fn(&Request) -> bool, Rejected);

/// When it comes, what comes, and the mirror that a watch tells of it at once.
type Surprise = (fn(&Request) -> bool, Object, Shared);

#[derive(Clone)]
enum Told {
    Seen(Object),
    Lost(Id, String),
}

#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<State>>);

/// The time of a test.
#[derive(Clone, Default)]
pub(crate) struct TestClock(Arc<Mutex<kilter_testkit::Clock>>);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().now()
    }
}

impl TestClock {
    pub(crate) fn advance(&self, span: Duration) {
        self.0.lock().unwrap().advance(span);
    }

    pub(crate) fn advance_to(&self, moment: Timestamp) {
        self.0.lock().unwrap().advance_to(moment);
    }
}

fn rejected(code: u16, reason: &str, message: &str) -> Rejected {
    Rejected { code, reason: reason.to_owned(), message: message.to_owned(), ..Rejected::default() }
}

fn merge(into: &mut Json, from: &Json) {
    match (into, from) {
        (Json::Object(into), Json::Object(from)) => {
            for (name, value) in from {
                if value.is_null() {
                    into.remove(name);
                } else {
                    merge(into.entry(name.clone()).or_insert(Json::Null), value);
                }
            }
        }
        (into, from) => *into = from.clone(),
    }
}

impl State {
    fn object(&self, id: &Id) -> Option<Object> {
        self.objects.get(id).map(|content| Object::new(id.resource, content.clone()))
    }

    fn put(&mut self, id: &Id, mut content: Json) -> Object {
        self.version += 1;
        content["metadata"]["resourceVersion"] = self.version.to_string().into();
        if content["metadata"]["uid"].is_null() {
            self.uids += 1;
            content["metadata"]["uid"] = format!("uid-{}", self.uids).into();
        }
        let object = Object::new(id.resource, content.clone());
        if object.is_deleting() && object.finalizers().is_empty() {
            self.objects.remove(id);
            self.untold.push(Told::Lost(id.clone(), object.uid().to_owned()));
        } else {
            self.objects.insert(id.clone(), content);
            self.untold.push(Told::Seen(object.clone()));
        }
        object
    }

    fn delete(&mut self, id: &Id) -> Option<Sent> {
        let mut content = self.objects.get(id)?.clone();
        let object = Object::new(id.resource, content.clone());
        if object.finalizers().is_empty() {
            self.objects.remove(id);
            self.applied.retain(|(of, _), _| of != id);
            self.untold.push(Told::Lost(id.clone(), object.uid().to_owned()));
            return Some(Sent::Gone);
        }
        content["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        Some(Sent::Object(self.put(id, content)))
    }

    fn apply(&mut self, id: &Id, owner: &'static str, body: &Json) -> Result<Sent, Rejected> {
        let known = self.objects.get(id).cloned();
        let uid = body["metadata"]["uid"].as_str();
        if uid.is_some()
            && known.as_ref().map(|known| &known["metadata"]["uid"]) != Some(&body["metadata"]["uid"])
        {
            return Err(rejected(409, "Conflict", "uid mismatch"));
        }
        let mut content = known.clone().unwrap_or_else(|| json!({"metadata": {}}));
        if let Some(before) = self.applied.get(&(id.clone(), owner)) {
            for (label, _) in before["metadata"]["labels"].as_object().into_iter().flatten() {
                let is_shared = self.foreign.contains(&(id.clone(), label.clone()));
                if body["metadata"]["labels"][label].is_null() && !is_shared {
                    content["metadata"]["labels"].as_object_mut().unwrap().remove(label);
                }
            }
            for finalizer in before["metadata"]["finalizers"].as_array().into_iter().flatten() {
                content["metadata"]["finalizers"].as_array_mut().unwrap().retain(|it| it != finalizer);
            }
        }
        let mut added = body.clone();
        if let Some(mine) = added["metadata"].as_object_mut().unwrap().remove("finalizers") {
            if content["metadata"]["finalizers"].is_null() {
                content["metadata"]["finalizers"] = json!([]);
            }
            let list = content["metadata"]["finalizers"].as_array_mut().unwrap();
            for finalizer in mine.as_array().unwrap() {
                if !list.contains(finalizer) {
                    list.push(finalizer.clone());
                }
            }
        }
        merge(&mut content, &added);
        self.applied.insert((id.clone(), owner), body.clone());
        if id.resource == Resource::Namespace {
            self.own(id, owner, &mut content, body);
        }
        if known.as_ref() == Some(&content) {
            return Ok(Sent::Object(Object::new(id.resource, content)));
        }
        Ok(Sent::Object(self.put(id, content)))
    }

    /// Whoever applied something owns it, until he applies it no more.
    fn own(&self, id: &Id, owner: &str, content: &mut Json, body: &Json) {
        let is_empty = body["metadata"]["labels"].is_null();
        let others = self.applied.keys().filter(|(of, by)| of == id && *by != owner).map(|(_, by)| *by);
        let owners: Vec<&str> = others.chain((!is_empty).then_some(owner)).collect();
        let entry = |owner: &&str| json!({"manager": owner, "operation": "Apply"});
        content["metadata"]["managedFields"] = owners.iter().map(entry).collect();
    }

    fn carry_out(&mut self, request: &Request) -> Result<Sent, Rejected> {
        let missing = || rejected(404, "NotFound", "no such object");
        match request {
            Request::Apply { id, owner, body } => self.apply(id, owner, body),
            Request::Status { id, body } => {
                let mut content = self.objects.get(id).cloned().ok_or_else(missing)?;
                content["status"] = body["status"].clone();
                Ok(Sent::Object(self.put(id, content)))
            }
            Request::Patch { id, patch, .. } => {
                let mut content = self.objects.get(id).cloned().ok_or_else(missing)?;
                let version = &patch["metadata"]["resourceVersion"];
                if !version.is_null() && *version != content["metadata"]["resourceVersion"] {
                    return Err(rejected(409, "Conflict", "the object has been modified"));
                }
                merge(&mut content, patch);
                Ok(Sent::Object(self.put(id, content)))
            }
            Request::Delete { id, uid, version } => {
                let object = self.object(id).ok_or_else(missing)?;
                if object.uid() != uid || object.version() != version {
                    return Err(rejected(409, "Conflict", "precondition failed"));
                }
                self.delete(id).ok_or_else(missing)
            }
            Request::Announce { .. } => Ok(Sent::Gone),
            // The controller sends none of these.
            Request::Create { .. } | Request::Replace { .. } => Err(rejected(405, "MethodNotAllowed", "")),
            Request::Read { id } => self.object(id).map(Sent::Object).ok_or_else(missing),
        }
    }
}

impl Api for World {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Sent, Rejected>> {
        Box::pin(async move {
            match self.answer(&request) {
                Some(answer) => answer,
                // A dead controller learns nothing any more.
                None => std::future::pending().await,
            }
        })
    }
}

impl World {
    fn answer(&self, request: &Request) -> Option<Result<Sent, Rejected>> {
        let mut state = self.0.lock().unwrap();
        if state.dies_after.is_some_and(|last| state.log.len() >= last) {
            return None;
        }
        state.log.push(request.clone());
        let surprised = state.surprises.front().is_some_and(|(when, ..)| when(request));
        if let Some((_, object, mirror)) = surprised.then(|| state.surprises.pop_front()).flatten() {
            let seen = state.put(object.id(), object.json().clone());
            mirror.lock().see(seen);
        }
        if let Some((when, rejected)) = &state.rejects
            && when(request)
        {
            return Some(Err(rejected.clone()));
        }
        Some(state.carry_out(request))
    }

    /// Rejects every request that `when` accepts from here on.
    pub(crate) fn reject(&self, when: fn(&Request) -> bool, rejected: Rejected) {
        self.0.lock().unwrap().rejects = Some((when, rejected));
    }

    /// Rejects nothing any more.
    pub(crate) fn accept(&self) {
        self.0.lock().unwrap().rejects = None;
    }

    /// What is announced about an object: type, reason and message.
    pub(crate) fn announced(&self, about: &Id) -> Vec<String> {
        let text = |body: &Json| {
            let word = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
            format!("{} {}: {}", word("type"), word("reason"), word("message"))
        };
        let log = self.log();
        let told = log.iter().filter_map(|request| {
            let Request::Announce { id, body } = request else { return None };
            (id == about).then(|| text(body))
        });
        told.collect()
    }

    /// A cluster with Knative and Istio, the integration namespace, and these namespaces.
    pub(crate) fn with(namespaces: &[&str]) -> Self {
        let world = Self::default();
        for resource in Resource::ALL {
            world.install(resource);
        }
        for namespace in namespaces.iter().chain(&[I]) {
            world.put(Resource::Namespace, json!({"metadata": {"name": namespace}}));
        }
        world
    }

    pub(crate) fn install(&self, resource: Resource) {
        if let Some(name) = resource.definition() {
            let established = json!([{"type": "Established", "status": "True"}]);
            let content = json!({"metadata": {"name": name}, "status": {"conditions": established}});
            self.put(Resource::Definition, content);
        }
    }

    pub(crate) fn put(&self, resource: Resource, content: Json) {
        let id = Object::new(resource, content.clone()).id().clone();
        self.0.lock().unwrap().put(&id, content);
    }

    pub(crate) fn change(&self, id: &Id, change: impl FnOnce(&mut Json)) {
        let mut state = self.0.lock().unwrap();
        let mut content = state.objects.get(id).cloned().expect("what is changed exists");
        let before = content["metadata"]["labels"].clone();
        change(&mut content);
        for (label, value) in content["metadata"]["labels"].as_object().into_iter().flatten() {
            if before[label] != *value {
                state.foreign.insert((id.clone(), label.clone()));
            }
        }
        let labels = content["metadata"]["labels"].clone();
        state.foreign.retain(|(of, label)| of != id || !labels[label].is_null());
        state.put(id, content);
    }

    pub(crate) fn delete(&self, id: &Id) {
        self.0.lock().unwrap().delete(id).expect("what is deleted exists");
    }

    pub(crate) fn get(&self, id: &Id) -> Option<Object> {
        self.0.lock().unwrap().object(id)
    }

    /// Lets something appear just before the first request that `when` accepts.
    pub(crate) fn surprise(&self, when: fn(&Request) -> bool, object: Object, mirror: &Shared) {
        self.0.lock().unwrap().surprises.push_back((when, object, mirror.clone()));
    }

    /// Lets the controller die after this many further requests.
    pub(crate) fn die_after(&self, requests: Option<usize>) {
        let mut state = self.0.lock().unwrap();
        state.dies_after = requests.map(|requests| state.log.len() + requests);
    }

    pub(crate) fn is_dead(&self) -> bool {
        let state = self.0.lock().unwrap();
        state.dies_after.is_some_and(|last| state.log.len() >= last)
    }

    pub(crate) fn log(&self) -> Vec<Request> {
        self.0.lock().unwrap().log.clone()
    }

    pub(crate) fn deletions(&self, resource: Resource) -> usize {
        let log = self.log();
        log.iter().filter(|it| matches!(it, Request::Delete { id, .. } if id.resource == resource)).count()
    }

    /// What a watch would tell; whether there was anything.
    pub(crate) fn watch(&self, mirror: &Shared) -> bool {
        let untold = std::mem::take(&mut self.0.lock().unwrap().untold);
        let mut mirror = mirror.lock();
        for told in &untold {
            match told.clone() {
                Told::Seen(object) => mirror.see(object),
                Told::Lost(id, uid) => mirror.lose(&id, &uid),
            }
        }
        !untold.is_empty()
    }

    /// What a list would tell; a watch goes on from there.
    pub(crate) fn list(&self, mirror: &Shared) {
        let mut state = self.0.lock().unwrap();
        state.untold.clear();
        for resource in Resource::ALL {
            let ids = state.objects.keys().filter(|id| id.resource == resource);
            let list = ids.filter_map(|id| state.object(id)).collect();
            mirror.lock().replace(resource, list, &state.version.to_string());
        }
    }

    /// What Knative does: makes Brokers where the label is, and says how everything stands.
    pub(crate) fn knative(&self) -> bool {
        let namespaces: Vec<Object> = {
            let state = self.0.lock().unwrap();
            let ids = state.objects.keys().filter(|id| id.resource == Resource::Namespace);
            ids.filter_map(|id| state.object(id)).collect()
        };
        let mut acted = false;
        for namespace in
            namespaces.iter().filter(|it| it.label(names::INJECTION_LABELS[0]) == Some("enabled"))
        {
            let name = namespace.id().name.as_str();
            if self.get(&broker(name)).is_none() && !namespace.is_deleting() {
                let labels = json!({names::INJECTED_LABEL: "true"});
                let meta = json!({"namespace": name, "name": "default", "labels": labels});
                self.put(Resource::Broker, json!({"metadata": meta, "status": ready_broker(name)}));
                acted = true;
            }
        }
        acted | self.subscriptions_become_ready()
    }

    fn subscriptions_become_ready(&self) -> bool {
        let mut state = self.0.lock().unwrap();
        let fresh: Vec<Id> = state
            .objects
            .iter()
            .filter(|(id, content)| id.resource == Resource::Subscription && content["status"].is_null())
            .map(|(id, _)| id.clone())
            .collect();
        for id in &fresh {
            let mut content = state.objects[id].clone();
            content["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
            state.put(id, content);
        }
        !fresh.is_empty()
    }
}

pub(crate) fn ready_broker(namespace: &str) -> Json {
    json!({
        "address": {"url": format!("http://default-broker.{namespace}.svc.cluster.local")},
        "conditions": [{"type": "Ready", "status": "True"}],
    })
}

pub(crate) fn broker(namespace: &str) -> Id {
    Id::new(Resource::Broker, namespace, "default")
}

pub(crate) fn flow(namespace: &str, name: &str) -> Id {
    Id::new(Resource::EventFlow, namespace, name)
}

pub(crate) fn subscription(namespace: &str, source: &str) -> Id {
    Id::new(Resource::Subscription, I, names::subscription(namespace, source))
}

pub(crate) fn flow_content(namespace: &str, name: &str, source: &str) -> Json {
    json!({"metadata": {"namespace": namespace, "name": name, "generation": 1}, "spec": {"source": source}})
}

impl World {
    /// An application with its adapter and its Channel.
    pub(crate) fn source(&self, name: &str) {
        let meta = json!({"namespace": I, "name": name});
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        self.put(Resource::Source, json!({"metadata": meta, "status": ready}));
        let labels = json!({names::APPLICATION_LABEL: name});
        let meta = json!({"namespace": I, "name": format!("{name}-channel"), "labels": labels});
        self.put(Resource::Channel, json!({"metadata": meta}));
    }
}
