//! The nine interleavings once more, each with a controller that dies behind every one of its writes in turn.
//!
//! A story begins the controller that dies; what was there before was made by another one. The one that dies is followed
//! by another at once, and whatever it left half done, the story ends as it does without a death; then everything is
//! taken down, and nothing may stay.

use kilter_eventflow::names;
use kilter_eventflow::object::{Object, Resource};
use serde_json::json;

use crate::between::Between;
use crate::interleavings::deletes_the_broker;
use crate::server::until;
use crate::shop::{Mortal, Shop};

/// Tells a story again and again, each time with a death one write later, until nobody dies any more; how often
/// somebody died.
async fn at_every_death(
    shop: &Shop,
    flows: &[&str],
    story: impl AsyncFn(&Shop, &dyn Fn() -> Mortal) -> Mortal,
) -> usize {
    let mut deaths = 0;
    loop {
        if !flows.is_empty() {
            let running = shop.run();
            for name in flows {
                shop.create_flow(name, "crm").await;
            }
            for name in flows {
                shop.until_says(name, "Ready", "True").await;
            }
            running.stop().await;
        }
        let mortal = story(shop, &|| shop.run_mortal(deaths)).await;
        mortal.spare();
        shop.close(&format!("dead behind write {deaths}")).await;
        if !mortal.has_died() {
            return deaths;
        }
        deaths += 1;
    }
}

async fn uid(shop: &Shop) -> String {
    shop.broker().await.expect("the Broker exists").uid().to_owned()
}

#[tokio::test]
async fn i1_deleting_one_of_two_flows_leaves_what_is_shared() {
    let shop = Shop::open("d1").await;
    let deaths = at_every_death(&shop, &["f1", "f2"], async |shop, begin| {
        let sink = uid(shop).await;
        let mortal = begin();
        shop.delete_flow("f1").await;
        shop.until_gone("f1").await;
        assert_eq!(uid(shop).await, sink);
        shop.until_says("f2", "Ready", "True").await;
        mortal
    });
    assert!(deaths.await >= 2, "the claim and the finalizer go");
}

#[tokio::test]
async fn i2_a_flow_that_comes_before_the_deletion_was_sent_keeps_the_broker() {
    let shop = Shop::open("d2").await;
    let deaths = at_every_death(&shop, &["f1"], async |shop, begin| {
        let delivery = async || shop.subscription().await.expect("it exists").uid().to_owned();
        let before = (uid(shop).await, delivery().await);
        shop.delete_flow("f1").await;
        shop.create_flow("f2", "crm").await;
        let mortal = begin();
        shop.until_gone("f1").await;
        shop.until_says("f2", "Ready", "True").await;
        assert_eq!((uid(shop).await, delivery().await), before, "nothing that is shared was touched");
        mortal
    });
    assert!(deaths.await >= 4, "one flow comes, the other goes");
}

#[tokio::test]
async fn i3_i4_a_flow_that_comes_during_the_deletion_waits_for_a_new_broker() {
    let shop = Shop::open("d3").await;
    let deaths = at_every_death(&shop, &["f1"], async |shop, begin| {
        shop.hold_broker(json!(["example.com/hold"])).await;
        let old = uid(shop).await;
        let mortal = begin();
        shop.delete_flow("f1").await;
        until("the Broker is on its way out", || async {
            shop.broker().await.is_some_and(|broker| broker.is_deleting())
        })
        .await;
        shop.create_flow("f2", "crm").await;
        shop.until_says("f2", "SinkReady", "Unknown WaitingForSinkDeletion").await;
        assert!(shop.flow("f1").await.is_some(), "the finalizer holds it as long as the Broker is there");
        shop.hold_broker(json!([])).await;
        shop.until_gone("f1").await;
        shop.until_says("f2", "Ready", "True").await;
        assert_ne!(uid(shop).await, old);
        mortal
    });
    assert!(deaths.await >= 8, "a teardown and a set-up");
}

#[tokio::test]
async fn i5_a_whole_life() {
    let shop = Shop::open("d5").await;
    let deaths = at_every_death(&shop, &[], async |shop, begin| {
        let mortal = begin();
        shop.create_flow("f1", "crm").await;
        shop.until_says("f1", "Ready", "True").await;
        shop.delete_flow("f1").await;
        shop.until_gone("f1").await;
        mortal
    });
    assert!(deaths.await > 8, "a set-up and a teardown");
}

#[tokio::test]
async fn i6_both_flows_are_deleted_at_once() {
    let shop = Shop::open("d6").await;
    let deaths = at_every_death(&shop, &["f1", "f2"], async |shop, begin| {
        let mortal = begin();
        tokio::join!(shop.delete_flow("f1"), shop.delete_flow("f2"));
        shop.until_gone("f1").await;
        shop.until_gone("f2").await;
        assert!(shop.broker().await.is_none());
        mortal
    });
    assert!(deaths.await >= 6, "a teardown");
}

#[tokio::test]
async fn i7_the_namespace_is_on_its_way_out() {
    let shop = Shop::open("d7").await;
    let deaths = at_every_death(&shop, &["f1"], async |shop, begin| {
        shop.hold_broker(json!(["example.com/hold"])).await;
        let mortal = begin();
        shop.delete(Resource::Namespace, "", &shop.namespace).await;
        shop.delete_flow("f1").await;
        shop.until_gone("f1").await;
        assert!(shop.broker().await.is_some(), "nobody waited for the Broker");
        shop.hold_broker(json!([])).await;
        shop.renew_namespace().await;
        mortal
    });
    assert!(deaths.await >= 2, "a teardown");
}

#[tokio::test]
async fn i8_children_are_deleted_by_hand_and_the_source_goes_first() {
    let shop = Shop::open("d8").await;
    let deaths = at_every_death(&shop, &["f1"], async |shop, begin| {
        let mortal = begin();
        let (old, delivery) = (uid(shop).await, names::subscription(&shop.namespace, "crm"));
        shop.delete(Resource::Subscription, &shop.integration, &delivery).await;
        shop.delete(Resource::Broker, &shop.namespace, "default").await;
        until("both are made again", || async {
            let broker = shop.broker().await;
            broker.is_some_and(|broker| broker.uid() != old) && shop.subscription().await.is_some()
        })
        .await;
        shop.until_says("f1", "Ready", "True").await;
        shop.delete(Resource::Source, &shop.integration, "crm").await;
        shop.delete(Resource::Channel, &shop.integration, "crm-channel").await;
        shop.until_says("f1", "SourceReady", "Unknown WaitingForSource").await;
        shop.delete_flow("f1").await;
        shop.until_gone("f1").await;
        shop.source("crm").await;
        mortal
    });
    assert!(deaths.await >= 6, "healing and a teardown");
}

#[tokio::test]
async fn i8_a_definition_comes_late() {
    let shop = Shop::open("d8-late").await;
    let deaths = at_every_death(&shop, &[], async |shop, begin| {
        shop.cluster.uninstall(Resource::PeerAuthentication).await;
        let mortal = begin();
        shop.create_flow("f1", "crm").await;
        shop.until_says("f1", "Ready", "True").await;
        shop.cluster.install(Resource::PeerAuthentication).await;
        shop.until_says("f1", "PolicyReady", "True").await;
        mortal
    });
    assert!(deaths.await >= 5, "a set-up");
}

#[tokio::test]
async fn i9_the_leader_before_this_one_is_behind() {
    let shop = Shop::open("d9").await;
    let deaths = at_every_death(&shop, &["f1"], async |shop, begin| {
        let old = shop.run_behind(|server| Between::holds(server, deletes_the_broker));
        let sink = uid(shop).await;
        shop.delete_flow("f1").await;
        until("the old leader is about to delete the Broker", || async { old.between.is_held() }).await;
        shop.create_flow("f2", "crm").await;
        let mortal = begin();
        let claim = names::claim("f2");
        until("the new leader has claimed the Broker", || async {
            let broker = shop.broker().await;
            let annotations = broker.as_ref().and_then(Object::annotations);
            annotations.is_some_and(|annotations| annotations.contains_key(&claim))
        })
        .await;
        old.between.let_through();
        until("the old leader has tried", || async { old.counts.rejections().values().sum::<u64>() > 0 })
            .await;
        assert_eq!(uid(shop).await, sink, "the claim voids the deletion");
        drop(old);
        shop.until_gone("f1").await;
        shop.until_says("f2", "Ready", "True").await;
        mortal
    });
    assert!(deaths.await >= 4, "a flow is taken over, and another goes");
}
