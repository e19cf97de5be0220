//! What a running controller tells about itself and about flows.

use std::sync::Arc;

use axum::Router;
use futures::{AsyncBufRead, AsyncBufReadExt as _};
use http::Request;
use kilter_eventflow::combined::{Together, ask};
use kilter_eventflow::run::Run;
use kilter_eventflow::{Counts, Settings};
use kube::client::Body;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;

use crate::knative;
use crate::server::{JSON, PATIENCE, until};
use crate::shop::Shop;

async fn get(client: &kube::Client, path: &str) -> String {
    let request = Request::get(path).body(Body::empty()).expect("it is a request");
    let response = client.send(request).await.expect("it is answered");
    let bytes = response.into_body().collect_bytes().await.expect("it has a body");
    String::from_utf8(bytes.to_vec()).expect("it is text")
}

/// What is told to somebody who looks on.
struct Onlooker(Box<dyn AsyncBufRead + Unpin>);

async fn onlooker(client: &kube::Client) -> Onlooker {
    let request = Request::get("/watch").body(Vec::new()).expect("it is a request");
    Onlooker(Box::new(Box::pin(client.request_stream(request).await.expect("it is answered"))))
}

impl Onlooker {
    async fn next(&mut self) -> Json {
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(PATIENCE, self.0.read_line(&mut line)).await;
            let count = read.expect("something is told in time").expect("it can be read");
            assert!(count > 0, "it goes on for ever");
            if let Some(text) = line.strip_prefix("data: ") {
                return serde_json::from_str(text).expect("it is JSON");
            }
        }
    }

    async fn until(&mut self, is_it: impl Fn(&Json) -> bool) {
        while !is_it(&self.next().await) {}
    }
}

#[tokio::test]
async fn conditions_events_numbers_and_the_combined_status_follow_a_broker_that_blinks() {
    let shop = Shop::open("serve").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
    let address = listener.local_addr().expect("it has an address");
    let server = shop.cluster.again();
    let run = Run {
        api: Arc::new(shop.cluster.again()),
        settings: Settings { integration: shop.integration.clone(), ..Settings::default() },
        lease: None,
        counts: Arc::<Counts>::default(),
        listener: Some(listener),
        page: Router::new(),
        server: shop.cluster.again(),
    };
    let task = tokio::spawn(run.until(std::future::pending()));
    let config = kube::Config::new(format!("http://{address}").parse().expect("it is an address"));
    let client = kube::Client::try_from(config).expect("the client can be made");
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    assert_eq!(ask(&server).await.expect("it is told")[0].status, Together::Running);
    let broker = shop.broker().await.expect("it exists");
    let mut told = onlooker(&client).await;
    let first = told.next().await;
    assert_eq!((&first["whole"], &first["complete"]), (&json!(true), &json!(true)), "{first}");
    assert_eq!(first["lines"][0]["status"], "Running", "{first}");
    let broken = json!([{"type": "Ready", "status": "False", "reason": "Unhealthy", "message": "no pods"}]);
    knative::set_status(&server, &broker, json!({"conditions": broken})).await;
    shop.until_says("f1", "SinkReady", "False Unhealthy").await;
    shop.until_says("f1", "Ready", "False Unhealthy").await;
    assert!(shop.subscription().await.is_some(), "a Broker that blinks removes nothing");
    let has_failed =
        |it: &Json| it["lines"].as_array().is_some_and(|all| all.iter().any(|it| it["status"] == "Failed"));
    told.until(|it| it["whole"] == false && has_failed(it)).await;
    let status: Json = serde_json::from_str(&get(&client, "/status").await).expect("it is JSON");
    assert_eq!((&status[0]["status"], &status[0]["flow"]), (&json!("Failed"), &json!("f1")), "{status}");
    assert!(status[0]["message"].as_str().is_some_and(|it| it.contains("no pods")), "{status}");
    let numbers = get(&client, "/metrics").await;
    assert!(numbers.contains("kilter_eventflow_flows{ready=\"False\"} 1"), "{numbers}");
    assert!(numbers.contains("kilter_eventflow_requests_total{verb=\"apply\"}"), "{numbers}");
    let ready = json!([{"type": "Ready", "status": "True"}]);
    knative::set_status(&server, &broker, json!({"conditions": ready})).await;
    shop.until_says("f1", "Ready", "True").await;
    let events = format!("/api/v1/namespaces/{}/events", shop.namespace);
    until("the Events are told", || async {
        let told = shop.cluster.call("GET", &events, JSON, None).await;
        let all = told["items"].as_array().cloned().unwrap_or_default();
        let has =
            |kind: &str, reason: &str| all.iter().any(|it| it["type"] == kind && it["reason"] == reason);
        has("Normal", "Ready") && has("Warning", "Unhealthy")
    })
    .await;
    // What it waits for is told as a chain of causes.
    shop.create_flow("f2", "late").await;
    shop.until_says("f2", "SubscriptionReady", "Unknown WaitingForChannel").await;
    let why = get(&client, &format!("/explain/{}/f2", shop.namespace)).await;
    assert!(why.contains("PENDING") && why.contains("kube/channel/late"), "{why}");
    assert!(get(&client, "/explain/shop/nobody").await.contains("no such flow"));
    let any = |it: &Json, list: &str, is_it: &dyn Fn(&Json) -> bool| {
        it[list].as_array().is_some_and(|all| all.iter().any(is_it))
    };
    told.until(|it| any(it, "lines", &|line| line["flow"] == "f2" && line["source"] == "late")).await;
    shop.delete_flow("f2").await;
    told.until(|it| any(it, "gone", &|name| name["flow"] == "f2")).await;
    task.abort();
}
