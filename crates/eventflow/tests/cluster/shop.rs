//! A shop: a namespace with a source, in a cluster where somebody acts as Knative; and controllers that run or die.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::Request;
use kilter_eventflow::client::{Server, collection};
use kilter_eventflow::condition::FlowStatus;
use kilter_eventflow::lease::Lease;
use kilter_eventflow::object::{Object, Resource};
use kilter_eventflow::request::Api;
use kilter_eventflow::run::{Run, RunError};
use kilter_eventflow::{Counts, Settings, names};
use kube::client::Body;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use crate::between::Between;
use crate::knative;
use crate::server::{Cluster, JSON, MERGE, client_with, until};

/// A controller that runs until it is stopped or dropped.
pub(crate) struct Running {
    pub(crate) counts: Arc<Counts>,
    pub(crate) between: Arc<Between>,
    /// Where it may be asked.
    client: kube::Client,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    pub(crate) fn start(between: Between, server: Server, integration: &str, lease: Option<Lease>) -> Self {
        let settings = Settings { integration: integration.to_owned(), ..Settings::default() };
        Self::with(between, server, settings, lease)
    }

    pub(crate) fn with(between: Between, server: Server, settings: Settings, lease: Option<Lease>) -> Self {
        let (between, counts) = (Arc::new(between), Arc::<Counts>::default());
        let api: Arc<dyn Api> = Arc::clone(&between) as _;
        let (listener, client) = door();
        let run = Run {
            server,
            api,
            settings,
            lease,
            counts: Arc::clone(&counts),
            listener: Some(listener),
            page: Router::new(),
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(run.until(async {
            // Whoever drops it stops it too.
            let _ = stopped.await;
        }));
        Self { counts, between, client, stop: Some(stop), task }
    }

    /// What it answers at a path.
    pub(crate) async fn text(&self, path: &str) -> String {
        let request = Request::get(path).body(Body::empty()).expect("it is a request");
        let response = self.client.send(request).await.expect("it is answered");
        let bytes = response.into_body().collect_bytes().await.expect("it has a body");
        String::from_utf8(bytes.to_vec()).expect("it is text")
    }

    /// Waits until it has read everything and decided about it once: only then can it tell why a flow waits.
    pub(crate) async fn until_begun(&self, namespace: &str, flow: &str) {
        until("the controller has begun", || async {
            let path = format!("/explain/{namespace}/{flow}");
            let request = Request::get(path).body(Body::empty()).expect("it is a request");
            self.client.send(request).await.is_ok_and(|told| told.status() == 200)
        })
        .await;
    }

    /// Waits until it ends by itself.
    pub(crate) async fn ended(mut self) -> Result<(), RunError> {
        (&mut self.task).await.expect("it does not panic")
    }

    pub(crate) async fn stop(mut self) {
        self.stop.take().map(|stop| stop.send(()));
        let ended = (&mut self.task).await.expect("it does not panic");
        ended.expect("it ends well");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A place to ask at, and somebody who asks there.
pub(crate) fn door() -> (TcpListener, kube::Client) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.set_nonblocking(true).expect("it can be polled");
    let address = format!("http://{}", listener.local_addr().expect("it has an address"));
    (TcpListener::from_std(listener).expect("it is polled"), client_with(&address, None))
}

/// A controller that dies once, and is followed by another at once, as a cluster does it.
pub(crate) struct Mortal {
    first: Arc<Between>,
    _task: JoinSet<()>,
}

impl Mortal {
    /// Whether the first one has died.
    pub(crate) fn has_died(&self) -> bool {
        self.first.is_dead()
    }

    /// Lets the first one live from here on, unless it is dead.
    pub(crate) fn spare(&self) {
        self.first.spare();
    }
}

/// A cluster with Knative and a namespace that is used by one test only.
pub(crate) struct Shop {
    pub(crate) cluster: Cluster,
    pub(crate) namespace: String,
    pub(crate) integration: String,
    _knative: JoinSet<()>,
}

impl Shop {
    pub(crate) async fn open(name: &str) -> Self {
        Self::within(Cluster::open().await, name).await
    }

    pub(crate) async fn within(cluster: Cluster, name: &str) -> Self {
        let (namespace, integration) = (format!("shop-{name}"), format!("integration-{name}"));
        for namespace in [&namespace, &integration] {
            let body = json!({"metadata": {"name": namespace}});
            cluster.call("POST", "/api/v1/namespaces", JSON, Some(&body)).await;
        }
        let _knative = knative::act(cluster.again());
        let shop = Self { cluster, namespace, integration, _knative };
        shop.source("crm").await;
        shop
    }

    pub(crate) fn run(&self) -> Running {
        self.run_behind(Between::open)
    }

    /// Runs a controller that somebody stands in front of.
    pub(crate) fn run_behind(&self, between: impl FnOnce(Server) -> Between) -> Running {
        Running::start(between(self.cluster.again()), self.cluster.again(), &self.integration, None)
    }

    /// Runs a controller that dies behind this many writes.
    pub(crate) fn run_mortal(&self, dies_after: usize) -> Mortal {
        let server = self.cluster.again();
        let between = Between::dies_after(server.clone(), dies_after);
        let mortal = Running::start(between, server.clone(), &self.integration, None);
        let first = Arc::clone(&mortal.between);
        let (mut task, integration) = (JoinSet::new(), self.integration.clone());
        task.spawn(async move {
            mortal.between.died().await;
            // What it knew goes with it.
            drop(mortal);
            let _next = Running::start(Between::open(server.clone()), server, &integration, None);
            std::future::pending::<()>().await;
        });
        Mortal { first, _task: task }
    }

    /// Runs a controller that leads only while it holds a lease, which it reaches through `server`.
    pub(crate) fn run_as(&self, identity: &str, server: Server, lasts: Duration) -> Running {
        let lease = Lease::new(server, &self.integration, "flows", identity).lasting(lasts);
        let between = Between::open(self.cluster.again());
        Running::start(between, self.cluster.again(), &self.integration, Some(lease))
    }

    pub(crate) async fn source(&self, name: &str) {
        let meta = json!({"name": name});
        self.create(Resource::Source, &self.integration, json!({"metadata": meta})).await;
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let source = self.get(Resource::Source, &self.integration, name).await.expect("it exists");
        knative::set_status(&self.cluster.server, &source, ready).await;
        let meta = json!({"name": format!("{name}-channel"), "labels": {names::APPLICATION_LABEL: name}});
        self.create(Resource::Channel, &self.integration, json!({"metadata": meta})).await;
    }

    pub(crate) async fn create(&self, resource: Resource, namespace: &str, mut body: Json) {
        body["apiVersion"] = resource.api_version().into();
        body["kind"] = resource.kind().into();
        self.cluster.call("POST", &collection(resource, namespace), JSON, Some(&body)).await;
    }

    pub(crate) async fn create_flow(&self, name: &str, source: &str) {
        let body = json!({"metadata": {"name": name}, "spec": {"source": source}});
        self.create(Resource::EventFlow, &self.namespace, body).await;
    }

    pub(crate) async fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<Object> {
        let path = format!("{}/{name}", collection(resource, namespace));
        let found = self.cluster.server.call("GET", &path, JSON, None).await.ok()?;
        Some(Object::new(resource, found))
    }

    pub(crate) async fn delete(&self, resource: Resource, namespace: &str, name: &str) {
        let path = format!("{}/{name}", collection(resource, namespace));
        self.cluster.call("DELETE", &path, JSON, None).await;
    }

    pub(crate) async fn delete_flow(&self, name: &str) {
        self.delete(Resource::EventFlow, &self.namespace, name).await;
    }

    pub(crate) async fn broker(&self) -> Option<Object> {
        self.get(Resource::Broker, &self.namespace, "default").await
    }

    pub(crate) async fn subscription(&self) -> Option<Object> {
        let name = names::subscription(&self.namespace, "crm");
        self.get(Resource::Subscription, &self.integration, &name).await
    }

    pub(crate) async fn flow(&self, name: &str) -> Option<Object> {
        self.get(Resource::EventFlow, &self.namespace, name).await
    }

    pub(crate) async fn says(&self, name: &str, condition: &str) -> String {
        let Some(flow) = self.flow(name).await else { return "gone".to_owned() };
        let status: FlowStatus = serde_json::from_value(flow.json()["status"].clone()).unwrap_or_default();
        let found = status.condition(condition);
        found.map_or_else(String::new, |it| format!("{:?} {}", it.status, it.reason).trim().to_owned())
    }

    pub(crate) async fn until_says(&self, name: &str, condition: &str, said: &str) {
        let what = format!("`{name}` says {condition}={said}");
        until(&what, || async { self.says(name, condition).await == said }).await;
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        until(&format!("`{name}` is gone"), || async { self.flow(name).await.is_none() }).await;
    }

    /// Deletes the flows of the namespace, and looks whether anything stays that was made for them.
    pub(crate) async fn close(&self, when: &str) {
        let mine = |flow: &Object| flow.id().namespace == self.namespace;
        let flows: Vec<Object> =
            self.cluster.items(Resource::EventFlow).await.into_iter().filter(mine).collect();
        for flow in flows.iter().filter(|flow| !flow.is_deleting()) {
            self.delete_flow(&flow.id().name).await;
        }
        for flow in &flows {
            self.until_gone(&flow.id().name).await;
        }
        assert!(self.broker().await.is_none() && self.subscription().await.is_none(), "{when}");
        let policy = names::policy(&self.namespace);
        for form in [Resource::PeerAuthentication, Resource::Policy] {
            assert!(self.get(form, &self.namespace, &policy).await.is_none(), "{when}");
        }
        let namespace = self.get(Resource::Namespace, "", &self.namespace).await.expect("it exists");
        assert_eq!(namespace.label(names::INJECTION_LABELS[0]), None, "{when}");
    }

    /// Lets the namespace go, as the cluster would when nothing is left in it, and makes it again.
    pub(crate) async fn renew_namespace(&self) {
        for resource in [Resource::Broker, Resource::PeerAuthentication] {
            for object in self.cluster.items(resource).await {
                if object.id().namespace == self.namespace && !object.is_deleting() {
                    self.delete(resource, &self.namespace, &object.id().name).await;
                }
            }
        }
        let place = format!("/api/v1/namespaces/{}", self.namespace);
        let mut going = self.cluster.call("GET", &place, JSON, None).await;
        going["spec"]["finalizers"] = json!([]);
        self.cluster.call("PUT", &format!("{place}/finalize"), JSON, Some(&going)).await;
        until("the namespace is gone", || async {
            self.get(Resource::Namespace, "", &self.namespace).await.is_none()
        })
        .await;
        let body = json!({"metadata": {"name": self.namespace}});
        self.cluster.call("POST", "/api/v1/namespaces", JSON, Some(&body)).await;
    }

    pub(crate) async fn hold_broker(&self, finalizers: Json) {
        let path = format!("{}/default", collection(Resource::Broker, &self.namespace));
        let body = json!({"metadata": {"finalizers": finalizers}});
        self.cluster.call("PATCH", &path, MERGE, Some(&body)).await;
    }
}
