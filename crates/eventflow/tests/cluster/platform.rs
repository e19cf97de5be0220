//! A platform that talks to a service broker, and service brokers that run or die.

use std::sync::Arc;

use http::{HeaderMap, Request};
use kilter_eventflow::Counts;
use kilter_eventflow::client::Server;
use kilter_eventflow::lease::Lease;
use kilter_eventflow::object::Resource;
use kilter_eventflow::osb::keeper::Keeper;
use kilter_eventflow::osb::{Access, serve};
use kilter_eventflow::request::Api;
use kube::client::Body;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::between::Between;
use crate::server::{client_with, until};
use crate::shop::Shop;

/// A service broker that runs until it is dropped.
pub(crate) struct Office {
    pub(crate) between: Arc<Between>,
    /// Where it is asked.
    pub(crate) address: String,
    client: kube::Client,
    task: JoinHandle<()>,
}

impl Drop for Office {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) code: u16,
    pub(crate) body: Json,
    pub(crate) headers: HeaderMap,
}

pub(crate) const HEADERS: [(&str, &str); 3] = [
    ("authorization", "Basic cGxhdGZvcm06c2VjcmV0"),
    ("x-broker-api-version", "2.17"),
    ("content-type", "application/json"),
];

impl Office {
    /// A service broker that offers what the application `crm` has.
    pub(crate) async fn open(shop: &Shop, between: impl FnOnce(Server) -> Between) -> Self {
        let between = between(shop.cluster.again());
        Self::start(shop, &shop.cluster.again(), between, &shop.integration, None).await
    }

    /// A service broker that keeps its records in a namespace.
    pub(crate) async fn start(
        shop: &Shop,
        server: &Server,
        between: Between,
        records: &str,
        lease: Option<Lease>,
    ) -> Self {
        offer(shop).await;
        let between = Arc::new(between);
        let api: Arc<dyn Api> = Arc::clone(&between) as _;
        let keeper = Keeper::new(server, api, Arc::<Counts>::default(), records);
        let access = Access { user: "platform".into(), password: "secret".into(), versionless: 412 };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = listener.local_addr().expect("it has an address");
        let task = tokio::spawn(async move {
            let served = serve(listener, keeper, access, lease, std::future::pending()).await;
            served.expect("it goes on");
        });
        let office = Self::at(&format!("http://{address}"), between, task);
        until("the catalog is known", || async { office.offers_orders().await }).await;
        office
    }

    /// The one at an address, whoever runs it.
    pub(crate) fn at(address: &str, between: Arc<Between>, task: JoinHandle<()>) -> Self {
        Self { between, address: address.to_owned(), client: client_with(address, None), task }
    }

    /// Whether the catalog is known; not if nobody answers yet.
    pub(crate) async fn offers_orders(&self) -> bool {
        let mut request = Request::get("/v2/catalog");
        for (name, value) in HEADERS {
            request = request.header(name, value);
        }
        let request = request.body(Body::empty()).expect("it is a request");
        let Ok(response) = self.client.send(request).await else { return false };
        let bytes = response.into_body().collect_bytes().await;
        let body: Json = bytes.ok().and_then(|it| serde_json::from_slice(&it).ok()).unwrap_or_default();
        body["services"][0]["id"] == "orders-id"
    }

    /// Asks with headers of its own.
    pub(crate) async fn ask_with(
        &self,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> Answered {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Body::from(body.unwrap_or_default().as_bytes().to_vec());
        let request = request.body(body).expect("it is a request");
        let response = self.client.send(request).await.expect("it is answered");
        let (parts, body) = response.into_parts();
        let bytes = body.collect_bytes().await.expect("it has a body");
        let body = serde_json::from_slice(&bytes).expect("every answer is JSON");
        Answered { code: parts.status.as_u16(), body, headers: parts.headers }
    }

    /// What is answered at a path that is not one of the API.
    pub(crate) async fn text(&self, path: &str) -> String {
        let request = Request::get(path).body(Body::empty()).expect("it is a request");
        let response = self.client.send(request).await.expect("it is answered");
        let bytes = response.into_body().collect_bytes().await.expect("it has a body");
        String::from_utf8(bytes.to_vec()).expect("it is text")
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<&Json>) -> Answered {
        let body = body.map(Json::to_string);
        self.ask_with(&HEADERS, method, path, body.as_deref()).await
    }

    pub(crate) async fn put(&self, instance: &str, body: &Json) -> Answered {
        self.ask("PUT", &format!("/v2/service_instances/{instance}?accepts_incomplete=true"), Some(body))
            .await
    }

    pub(crate) async fn patch(&self, instance: &str) -> Answered {
        let body = json!({"service_id": "orders-id"});
        self.ask("PATCH", &format!("/v2/service_instances/{instance}?accepts_incomplete=true"), Some(&body))
            .await
    }

    pub(crate) async fn delete(&self, instance: &str) -> Answered {
        let hints = "service_id=orders-id&plan_id=orders-id-plan&accepts_incomplete=true";
        self.ask("DELETE", &format!("/v2/service_instances/{instance}?{hints}"), None).await
    }

    pub(crate) async fn last_operation(&self, instance: &str) -> Answered {
        self.ask("GET", &format!("/v2/service_instances/{instance}/last_operation"), None).await
    }

    /// Polls as a platform does, until the last operation has ended: its state, or the code if there is none.
    pub(crate) async fn until_ended(&self, instance: &str) -> String {
        let state = || async {
            let told = self.last_operation(instance).await;
            told.body["state"].as_str().map_or_else(|| told.code.to_string(), str::to_owned)
        };
        until("the operation has ended", || async { state().await != "in progress" }).await;
        state().await
    }
}

/// An application with a service that has events.
pub(crate) async fn offer(shop: &Shop) {
    offer_as(shop, "orders-id").await;
}

/// The application with its service, under this identity.
pub(crate) async fn offer_as(shop: &Shop, id: &str) {
    let service =
        json!({"id": id, "name": "orders", "displayName": "Orders", "entries": [{"type": "Events"}]});
    let body = json!({
        "apiVersion": Resource::Application.api_version(),
        "kind": "Application",
        "metadata": {"name": "crm"},
        "spec": {"services": [service]},
    });
    let path =
        format!("{}/crm?fieldManager=test", kilter_eventflow::client::collection(Resource::Application, ""));
    shop.cluster.call("PATCH", &path, crate::server::APPLY, Some(&body)).await;
}

/// What a platform asks for.
pub(crate) fn order(namespace: &str, name: &str) -> Json {
    json!({
        "service_id": "orders-id",
        "plan_id": "orders-id-plan",
        "organization_guid": "org",
        "space_guid": "space",
        "context": {"platform": "kubernetes", "namespace": namespace, "instance_name": name},
        "a_field_of_the_future": true,
    })
}
