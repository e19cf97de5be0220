//! The rights that the manifests give are enough for a life and an order, and not more than that.

use std::time::Duration;

use kilter_eventflow::client::Server;
use kilter_eventflow::kinds::declared::{PolicyForm, Sink};
use kilter_eventflow::lease::Lease;
use kilter_eventflow::manifest::{Installation, manifests};
use kilter_eventflow::request::Class;
use kilter_eventflow::{Settings, names};
use serde_json::{Value as Json, json};

use crate::between::Between;
use crate::platform::{Office, order};
use crate::server::{APPLY, Cluster, JSON, until};
use crate::shop::{Running, Shop};

/// Where an object of a manifest is found.
fn place(manifest: &Json) -> String {
    let text = |field: &Json| field.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&manifest["apiVersion"]), text(&manifest["kind"]));
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let folder = match manifest["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/namespaces/{namespace}"),
        None => root,
    };
    format!("{folder}/{}s/{}", kind.to_lowercase(), text(&manifest["metadata"]["name"]))
}

/// The cluster as a service account reaches it.
async fn account(cluster: &Cluster, name: &str) -> Server {
    let place = format!("/api/v1/namespaces/{}/serviceaccounts/{name}/token", space());
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let told = cluster.call("POST", &place, JSON, Some(&body)).await;
    cluster.with_token(told["status"]["token"].as_str().expect("there is a token"))
}

fn space() -> String {
    Installation::default().namespace
}

fn lease(server: &Server, name: &str) -> Lease {
    Lease::new(server.clone(), &space(), name, "a-pod").lasting(Duration::from_secs(60))
}

#[tokio::test]
async fn the_rights_of_the_manifests_are_enough_for_a_life_and_an_order() {
    let cluster = Cluster::guarded().await;
    for manifest in manifests(&Installation::default()) {
        let path = format!("{}?fieldManager=test&force=true", place(&manifest));
        cluster.call("PATCH", &path, APPLY, Some(&manifest)).await;
    }
    let shop = Shop::within(cluster, "rights").await;
    let controller = account(&shop.cluster, names::OURS).await;
    let broker = account(&shop.cluster, names::SERVICE_BROKER).await;
    until("the roles are in force", || async {
        controller.call("GET", "/api/v1/namespaces", JSON, None).await.is_ok()
    })
    .await;
    for (server, forbidden) in [
        (&controller, "/api/v1/secrets"),
        (&controller, "/api/v1/configmaps"),
        (&broker, "/api/v1/configmaps"),
        (&broker, "/api/v1/namespaces"),
    ] {
        let told = server.call("GET", forbidden, JSON, None).await;
        assert_eq!(told.expect_err("it is not allowed").code, 403, "{forbidden}");
    }
    let ways = [(Sink::Injection, PolicyForm::PeerAuthentication), (Sink::Direct, PolicyForm::Policy)];
    for (sink, form) in ways {
        let settings = Settings {
            integration: shop.integration.clone(),
            sink,
            policy: Some(form),
            ..Settings::default()
        };
        let between = Between::open(controller.clone());
        let lease = lease(&controller, names::OURS);
        let running = Running::with(between, controller.clone(), settings, Some(lease));
        shop.create_flow("f1", "crm").await;
        shop.until_says("f1", "Ready", "True").await;
        shop.until_says("f1", "PolicyReady", "True").await;
        shop.close("as the service account").await;
        let events = format!("/api/v1/namespaces/{}/events", shop.namespace);
        until("the Events are told", || async {
            let told = shop.cluster.call("GET", &events, JSON, None).await;
            told["items"].as_array().is_some_and(|all| all.iter().any(|it| it["reason"] == "Ready"))
        })
        .await;
        let refused = running.counts.rejections().get(&Class::Unauthorised).copied();
        assert_eq!(refused, None, "{sink:?}");
        running.stop().await;
    }
    let lease = lease(&broker, names::SERVICE_BROKER);
    let office = Office::start(&shop, &broker, Between::open(broker.clone()), &space(), Some(lease)).await;
    assert_eq!(office.put("i", &order(&shop.namespace, "o")).await.code, 202);
    assert_eq!(office.until_ended("i").await, "succeeded");
    assert!(shop.flow("event-flow-o").await.is_some());
    assert_eq!(office.delete("i").await.code, 202);
    assert_eq!(office.until_ended("i").await, "410");
    assert!(!office.text("/metrics").await.contains("unauthorised"), "nothing was refused");
}
