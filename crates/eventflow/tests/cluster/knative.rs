//! What Knative does in a cluster, as far as flows see it: Brokers where the label is, and a status on everything.

use kilter_eventflow::client::{Server, collection};
use kilter_eventflow::mirror::Shared;
use kilter_eventflow::names;
use kilter_eventflow::object::{Object, Resource};
use kilter_eventflow::watch::{Wake, follow};
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;

use crate::server::{JSON, MERGE};

/// Acts as Knative until it is dropped.
pub(crate) fn act(server: Server) -> JoinSet<()> {
    let (mirror, wake) = (Shared::default(), Wake::default());
    let mut tasks = JoinSet::new();
    for resource in [Resource::Namespace, Resource::Broker, Resource::Subscription] {
        tasks.spawn(follow(server.clone(), resource, mirror.clone(), wake.clone()));
    }
    tasks.spawn(async move {
        loop {
            wake.changed().await;
            // What is refused meanwhile is tried with the next change.
            make_brokers(&server, &mirror).await;
            make_ready(&server, &mirror).await;
        }
    });
    tasks
}

async fn make_brokers(server: &Server, mirror: &Shared) {
    let labelled: Vec<Object> = {
        let mirror = mirror.lock();
        if !mirror.is_complete(Resource::Broker) {
            return;
        }
        let enabled =
            |it: &&Object| it.label(names::INJECTION_LABELS[0]) == Some("enabled") && !it.is_deleting();
        let is_bare = |it: &&Object| mirror.inside(Resource::Broker, &it.id().name).next().is_none();
        mirror.of(Resource::Namespace).filter(enabled).filter(is_bare).cloned().collect()
    };
    for namespace in labelled {
        // The label goes before the Broker does, but the watches may tell it the other way round.
        let path = format!("{}/{}", collection(Resource::Namespace, ""), namespace.id().name);
        let present =
            server.call("GET", &path, JSON, None).await.map(|it| Object::new(Resource::Namespace, it));
        if !present.is_ok_and(|it| it.label(names::INJECTION_LABELS[0]) == Some("enabled")) {
            continue;
        }
        let body = json!({
            "apiVersion": Resource::Broker.api_version(),
            "kind": "Broker",
            "metadata": {"name": "default", "labels": {names::INJECTED_LABEL: "true"}},
        });
        let folder = collection(Resource::Broker, &namespace.id().name);
        let _ = server.call("POST", &folder, JSON, Some(&body)).await;
    }
}

async fn make_ready(server: &Server, mirror: &Shared) {
    let fresh: Vec<Object> = {
        let mirror = mirror.lock();
        let all = mirror.of(Resource::Broker).chain(mirror.of(Resource::Subscription));
        all.filter(|object| object.json()["status"].is_null()).cloned().collect()
    };
    for object in fresh {
        let id = object.id();
        let mut status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        if id.resource == Resource::Broker {
            let url = format!("http://default-broker.{}.svc.cluster.local", id.namespace);
            status["address"] = json!({"url": url});
        }
        set_status(server, &object, status).await;
    }
}

/// Says how an object stands.
pub(crate) async fn set_status(server: &Server, object: &Object, status: Json) {
    let id = object.id();
    let path = format!("{}/{}/status", collection(id.resource, &id.namespace), id.name);
    let _ = server.call("PATCH", &path, MERGE, Some(&json!({"status": status}))).await;
}
