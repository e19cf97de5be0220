//! The lives of flows in a real cluster.

use kilter_eventflow::client::collection;
use kilter_eventflow::kinds::declared::{PolicyForm, Sink};
use kilter_eventflow::object::Resource;
use kilter_eventflow::{Settings, names};
use serde_json::json;

use crate::between::Between;
use crate::server::{JSON, MERGE, settled, stays, until};
use crate::shop::{Running, Shop};

#[tokio::test]
async fn a_life_of_two_flows_leaves_nothing_behind() {
    let shop = Shop::open("life").await;
    let running = shop.run();
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    shop.create_flow("f2", "crm").await;
    shop.until_says("f2", "Ready", "True").await;
    let uid = shop.broker().await.expect("it exists").uid().to_owned();
    shop.delete_flow("f1").await;
    shop.until_gone("f1").await;
    assert_eq!(shop.broker().await.expect("it stays").uid(), uid);
    shop.delete_flow("f2").await;
    shop.until_gone("f2").await;
    assert!(shop.broker().await.is_none() && shop.subscription().await.is_none());
    let policy = names::policy(&shop.namespace);
    assert!(shop.get(Resource::PeerAuthentication, &shop.namespace, &policy).await.is_none());
    let namespace = shop.get(Resource::Namespace, "", &shop.namespace).await.expect("it exists");
    assert_eq!(namespace.label(names::INJECTION_LABELS[0]), None);
    running.stop().await;
}

#[tokio::test]
async fn what_is_deleted_by_hand_comes_back_and_a_late_source_needs_no_polling() {
    let shop = Shop::open("heal").await;
    let running = shop.run();
    shop.create_flow("f1", "late").await;
    shop.until_says("f1", "SubscriptionReady", "Unknown WaitingForChannel").await;
    // A watch that the server ends is opened again; nothing else is asked for.
    let look = || {
        let upkeep = running.counts.upkeep();
        let of = |verb: &str| upkeep.get(verb).copied().unwrap_or_default();
        (running.counts.total(), of("list"), of("lease"))
    };
    let before = settled("the controller", || async { look() }).await;
    let watches = || running.counts.upkeep().get("watch").copied().unwrap_or_default();
    let opened = watches();
    stays("waiting is silent", || async { look() == before }).await;
    assert!(before.1 >= Resource::ALL.len() as u64 && opened > 0, "lists and watches are counted");
    assert!(watches() - opened <= Resource::ALL.len() as u64, "watches are not opened again and again");
    shop.source("late").await;
    shop.until_says("f1", "Ready", "True").await;
    let name = names::subscription(&shop.namespace, "late");
    shop.delete(Resource::Subscription, &shop.integration, &name).await;
    until("the Subscription is made again", || async {
        shop.get(Resource::Subscription, &shop.integration, &name).await.is_some()
    })
    .await;
    let old = shop.broker().await.expect("it exists").uid().to_owned();
    shop.delete(Resource::Broker, &shop.namespace, "default").await;
    until("the Broker is made again", || async {
        shop.broker().await.is_some_and(|broker| broker.uid() != old)
    })
    .await;
    shop.until_says("f1", "Ready", "True").await;
    running.stop().await;
}

#[tokio::test]
async fn definitions_that_come_late_are_waited_for() {
    let shop = Shop::open("late").await;
    shop.cluster.uninstall(Resource::PeerAuthentication).await;
    let running = shop.run();
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    assert_eq!(shop.says("f1", "PolicyReady").await, "Unknown NotInstalled");
    shop.cluster.install(Resource::PeerAuthentication).await;
    shop.until_says("f1", "PolicyReady", "True").await;
    running.stop().await;
}

#[tokio::test]
async fn a_sink_of_our_own_with_the_policy_of_an_older_mesh_and_definitions_that_come_late() {
    let shop = Shop::open("direct").await;
    let late = [Resource::Broker, Resource::Channel, Resource::Subscription];
    for resource in late {
        shop.cluster.uninstall(resource).await;
    }
    let settings = Settings {
        integration: shop.integration.clone(),
        sink: Sink::Direct,
        policy: Some(PolicyForm::Policy),
        ..Settings::default()
    };
    let server = shop.cluster.again();
    let running = Running::with(Between::open(server.clone()), server, settings, None);
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "SinkReady", "Unknown NotInstalled").await;
    shop.until_says("f1", "SubscriptionReady", "Unknown NotInstalled").await;
    for resource in late {
        shop.cluster.install(resource).await;
    }
    let _knative = crate::knative::act(shop.cluster.again());
    let meta = json!({"name": "crm-channel", "labels": {names::APPLICATION_LABEL: "crm"}});
    shop.create(Resource::Channel, &shop.integration, json!({"metadata": meta})).await;
    shop.until_says("f1", "Ready", "True").await;
    let broker = shop.broker().await.expect("we make it");
    assert_eq!(
        (broker.label(names::MANAGED_BY), broker.label(names::INJECTED_LABEL)),
        (Some(names::OURS), None)
    );
    let namespace = shop.get(Resource::Namespace, "", &shop.namespace).await.expect("it exists");
    assert_eq!(namespace.label(names::INJECTION_LABELS[0]), None, "nobody else is asked to");
    let policy = names::policy(&shop.namespace);
    let policy = || shop.get(Resource::Policy, &shop.namespace, &policy);
    let targets = policy().await.expect("it exists").json()["spec"]["targets"].clone();
    assert_eq!(targets, json!([{"name": "default-broker"}, {"name": "default-broker-filter"}]));
    shop.delete_flow("f1").await;
    shop.until_gone("f1").await;
    assert!(shop.broker().await.is_none() && policy().await.is_none());
    running.stop().await;
}

#[tokio::test]
async fn a_label_of_an_earlier_run_is_given_back_when_the_sink_is_made_directly() {
    let shop = Shop::open("other-way").await;
    let running = shop.run();
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    let sink = shop.broker().await.expect("it exists").uid().to_owned();
    running.stop().await;
    let settings =
        Settings { integration: shop.integration.clone(), sink: Sink::Direct, ..Settings::default() };
    let server = shop.cluster.again();
    let running = Running::with(Between::open(server.clone()), server, settings, None);
    let label = async || {
        let namespace = shop.get(Resource::Namespace, "", &shop.namespace).await.expect("it exists");
        namespace.label(names::INJECTION_LABELS[0]).map(str::to_owned)
    };
    until("the label is gone", || async { label().await.is_none() }).await;
    until("the Broker is marked", || async {
        shop.broker()
            .await
            .is_some_and(|it| it.uid() == sink && it.label(names::MANAGED_BY) == Some(names::OURS))
    })
    .await;
    let before = settled("the controller", || async { running.counts.total() }).await;
    stays("it is done once", || async { running.counts.total() == before }).await;
    shop.delete_flow("f1").await;
    shop.until_gone("f1").await;
    assert!(shop.broker().await.is_none());
    running.stop().await;
}

#[tokio::test]
async fn the_cluster_refuses_a_flow_whose_source_cannot_be_or_is_changed() {
    let shop = Shop::open("rules").await;
    let place = collection(Resource::EventFlow, &shop.namespace);
    for source in ["", "a/b", "Crm", "-crm", &"a".repeat(64)] {
        let body = json!({
            "apiVersion": Resource::EventFlow.api_version(),
            "kind": "EventFlow",
            "metadata": {"name": "wrong"},
            "spec": {"source": source},
        });
        let told = shop.cluster.server.call("POST", &place, JSON, Some(&body)).await;
        assert_eq!(told.expect_err("it is refused").code, 422, "`{source}`");
    }
    for source in ["crm", "a.b-c", &"a".repeat(63)] {
        shop.create_flow(&format!("flow-{}", source.len()), source).await;
    }
    let change = json!({"spec": {"source": "erp"}});
    let told = shop.cluster.server.call("PATCH", &format!("{place}/flow-3"), MERGE, Some(&change)).await;
    let told = told.expect_err("it is refused");
    assert!(told.code == 422 && told.message.contains("cannot be changed"), "{told}");
}

#[tokio::test]
async fn at_rest_and_over_a_restart_nothing_is_written() {
    let shop = Shop::open("rest").await;
    let running = shop.run();
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    let version = || async { shop.flow("f1").await.expect("it exists").version().to_owned() };
    let look = || async { (running.counts.total(), version().await) };
    let before = settled("the controller", look).await;
    stays("at rest", || async { look().await == before }).await;
    running.stop().await;
    let again = shop.run();
    again.until_begun(&shop.namespace, "f1").await;
    stays("at rest over a restart", || async { again.counts.total() == 0 }).await;
    again.stop().await;
}
