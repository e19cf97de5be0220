//! The nine interleavings of set-up and teardown that a shared child must survive, in a real cluster. The first one is in
//! [`crate::life`], with the rest of an ordinary life; [`crate::deaths`] tells each of them again with a controller that dies.

use kilter_eventflow::names;
use kilter_eventflow::object::{Object, Resource};
use kilter_eventflow::request::Request;
use serde_json::json;

use crate::between::Between;
use crate::server::{settled, stays, until};
use crate::shop::Shop;

pub(crate) fn deletes_the_broker(request: &Request) -> bool {
    matches!(request, Request::Delete { id, .. } if id.resource == Resource::Broker)
}

async fn uid(shop: &Shop) -> String {
    shop.broker().await.expect("the Broker exists").uid().to_owned()
}

#[tokio::test]
async fn i2_a_flow_that_comes_before_the_deletion_was_sent_keeps_the_broker() {
    let shop = Shop::open("i2").await;
    let running = shop.run();
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    let sink = uid(&shop).await;
    running.stop().await;
    shop.delete_flow("f1").await;
    shop.create_flow("f2", "crm").await;
    let running = shop.run();
    shop.until_gone("f1").await;
    shop.until_says("f2", "Ready", "True").await;
    assert_eq!(uid(&shop).await, sink);
    assert_eq!(running.between.deletions(Resource::Broker), 0);
    let namespace = shop.get(Resource::Namespace, "", &shop.namespace).await.expect("it exists");
    assert_eq!(namespace.label(names::INJECTION_LABELS[0]), Some("enabled"));
    running.stop().await;
}

#[tokio::test]
async fn i2_a_flow_that_comes_in_the_middle_of_the_teardown_gets_a_sink() {
    let shop = Shop::open("i2-middle").await;
    let is_first = |request: &Request| matches!(request, Request::Delete { .. });
    let running = shop.run_behind(|server| Between::holds(server, is_first));
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    let sink = uid(&shop).await;
    shop.delete_flow("f1").await;
    until("the first deletion is about to be sent", || async { running.between.is_held() }).await;
    shop.create_flow("f2", "crm").await;
    running.between.let_through();
    shop.until_gone("f1").await;
    shop.until_says("f2", "Ready", "True").await;
    assert_eq!(uid(&shop).await, sink, "the Broker is kept");
    assert_eq!(running.between.deletions(Resource::Broker), 0);
    let namespace = shop.get(Resource::Namespace, "", &shop.namespace).await.expect("it exists");
    assert_eq!(namespace.label(names::INJECTION_LABELS[0]), Some("enabled"), "the label is kept");
    running.stop().await;
}

#[tokio::test]
async fn i3_i4_a_flow_that_comes_during_the_deletion_waits_in_silence_for_a_new_broker() {
    let shop = Shop::open("wait").await;
    let running = shop.run();
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    shop.hold_broker(json!(["example.com/hold"])).await;
    let old = shop.broker().await.expect("it exists").uid().to_owned();
    shop.delete_flow("f1").await;
    until("the Broker is on its way out", || async {
        shop.broker().await.is_some_and(|broker| broker.is_deleting())
    })
    .await;
    shop.create_flow("f2", "crm").await;
    shop.until_says("f2", "SinkReady", "Unknown WaitingForSinkDeletion").await;
    assert!(shop.flow("f1").await.is_some(), "the finalizer holds it as long as the Broker is there");
    let before = settled("the controller", || async { running.counts.total() }).await;
    stays("waiting for the finalizer of others is silent", || async { running.counts.total() == before })
        .await;
    shop.hold_broker(json!([])).await;
    shop.until_gone("f1").await;
    shop.until_says("f2", "Ready", "True").await;
    assert_ne!(shop.broker().await.expect("it exists").uid(), old);
    running.stop().await;
}

#[tokio::test]
async fn i3_a_flow_that_leaves_is_held_until_the_broker_is_gone_by_whoever_starts_meanwhile() {
    let shop = Shop::open("i3-restart").await;
    let running = shop.run();
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    shop.hold_broker(json!(["example.com/hold"])).await;
    let old = uid(&shop).await;
    shop.delete_flow("f1").await;
    until("the Broker is on its way out", || async {
        shop.broker().await.is_some_and(|broker| broker.is_deleting())
    })
    .await;
    shop.create_flow("f2", "crm").await;
    running.stop().await;
    let running = shop.run();
    shop.until_says("f2", "SinkReady", "Unknown WaitingForSinkDeletion").await;
    stays("the one that leaves is held, and no label asks for the next Broker", || async {
        let namespace = shop.get(Resource::Namespace, "", &shop.namespace).await.expect("it exists");
        shop.flow("f1").await.is_some() && namespace.label(names::INJECTION_LABELS[0]).is_none()
    })
    .await;
    shop.hold_broker(json!([])).await;
    shop.until_gone("f1").await;
    shop.until_says("f2", "Ready", "True").await;
    assert_ne!(uid(&shop).await, old);
    running.stop().await;
}

#[tokio::test]
async fn i6_deleting_both_flows_at_once_deletes_the_broker_once() {
    let shop = Shop::open("i6").await;
    let running = shop.run();
    for name in ["f1", "f2"] {
        shop.create_flow(name, "crm").await;
    }
    for name in ["f1", "f2"] {
        shop.until_says(name, "Ready", "True").await;
    }
    tokio::join!(shop.delete_flow("f1"), shop.delete_flow("f2"));
    shop.until_gone("f1").await;
    shop.until_gone("f2").await;
    assert!(shop.broker().await.is_none());
    assert_eq!(running.between.deletions(Resource::Broker), 1);
    running.stop().await;
}

#[tokio::test]
async fn i7_in_a_namespace_on_its_way_out_nothing_is_made_and_finalizers_go() {
    let shop = Shop::open("i7").await;
    let running = shop.run();
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    shop.hold_broker(json!(["example.com/hold"])).await;
    shop.delete(Resource::Namespace, "", &shop.namespace).await;
    let policy = names::policy(&shop.namespace);
    shop.delete(Resource::PeerAuthentication, &shop.namespace, &policy).await;
    stays("what is deleted there is not made again", || async {
        shop.get(Resource::PeerAuthentication, &shop.namespace, &policy).await.is_none()
    })
    .await;
    shop.delete_flow("f1").await;
    shop.until_gone("f1").await;
    assert!(shop.broker().await.is_some(), "nobody waited for the Broker");
    shop.hold_broker(json!([])).await;
    running.stop().await;
}

#[tokio::test]
async fn i8_a_source_that_goes_first_does_not_hold_up_the_teardown() {
    let shop = Shop::open("i8").await;
    let running = shop.run();
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    shop.delete(Resource::Source, &shop.integration, "crm").await;
    shop.delete(Resource::Channel, &shop.integration, "crm-channel").await;
    shop.until_says("f1", "SourceReady", "Unknown WaitingForSource").await;
    assert!(shop.subscription().await.is_some(), "what exists stays");
    shop.delete_flow("f1").await;
    shop.until_gone("f1").await;
    assert!(shop.subscription().await.is_none() && shop.broker().await.is_none());
    running.stop().await;
}

#[tokio::test]
async fn i9_a_leader_that_is_behind_cannot_delete_a_broker_that_is_claimed() {
    let shop = Shop::open("i9").await;
    let old = shop.run_behind(|server| Between::holds(server, deletes_the_broker));
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    let sink = uid(&shop).await;
    shop.delete_flow("f1").await;
    until("the old leader is about to delete the Broker", || async { old.between.is_held() }).await;
    shop.create_flow("f2", "crm").await;
    let new = shop.run();
    let claim = names::claim("f2");
    until("the new leader has claimed the Broker", || async {
        let broker = shop.broker().await;
        broker
            .as_ref()
            .and_then(Object::annotations)
            .is_some_and(|annotations| annotations.contains_key(&claim))
    })
    .await;
    old.between.let_through();
    until("the old leader has tried", || async { old.counts.rejections().values().sum::<u64>() > 0 }).await;
    assert_eq!(uid(&shop).await, sink, "the claim voids the deletion");
    shop.until_gone("f1").await;
    shop.until_says("f2", "Ready", "True").await;
    old.stop().await;
    new.stop().await;
}
