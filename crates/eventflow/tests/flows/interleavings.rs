//! The nine interleavings of set-up and teardown that a shared child must survive.

use std::time::Duration;

use kilter_eventflow::names;
use kilter_eventflow::object::{Id, Object, Resource};
use kilter_eventflow::request::Request;
use serde_json::json;

use crate::house::House;
use crate::world::{World, broker, flow, flow_content, subscription};

/// The Broker of the shop is held by somebody else.
fn hold(house: &House) {
    house.world.change(&broker("shop"), |it| it["metadata"]["finalizers"] = json!(["example.com/hold"]));
}

fn let_go(house: &House) {
    house.world.change(&broker("shop"), |it| it["metadata"]["finalizers"] = json!([]));
}

fn uid(house: &House, id: &Id) -> String {
    house.world.get(id).expect("it exists").uid().to_owned()
}

fn namespace() -> Id {
    Id::new(Resource::Namespace, "", "shop")
}

#[tokio::test(start_paused = true)]
async fn a_flow_sets_up_finalizer_label_policy_and_subscription_in_this_order() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    assert_eq!(house.says("f1", "Ready"), "True");
    let resources: Vec<Resource> = house
        .world
        .log()
        .iter()
        .filter(|request| matches!(request, Request::Apply { .. }))
        .map(|request| request.id().resource)
        .collect();
    assert_eq!(resources[0], Resource::EventFlow);
    assert_eq!(*resources.last().unwrap(), Resource::Subscription);
    assert!(resources.contains(&Resource::Namespace) && resources.contains(&Resource::PeerAuthentication));
}

#[tokio::test(start_paused = true)]
async fn i1_deleting_one_of_two_flows_leaves_what_is_shared() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.create_flow("f2", "crm");
    house.play().await;
    let (sink, delivery) = (uid(&house, &broker("shop")), uid(&house, &subscription("shop", "crm")));
    house.world.delete(&flow("shop", "f1"));
    house.play().await;
    assert!(house.world.get(&flow("shop", "f1")).is_none(), "the finalizer goes at once");
    assert_eq!(uid(&house, &broker("shop")), sink);
    assert_eq!(uid(&house, &subscription("shop", "crm")), delivery);
    assert_eq!(house.says("f2", "Ready"), "True");
}

#[tokio::test(start_paused = true)]
async fn i2_a_flow_that_comes_with_the_deletion_of_the_last_one_keeps_the_broker() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    let sink = uid(&house, &broker("shop"));
    house.world.delete(&flow("shop", "f1"));
    house.create_flow("f2", "crm");
    house.play().await;
    assert_eq!(uid(&house, &broker("shop")), sink);
    assert_eq!(house.world.deletions(Resource::Broker), 0);
    assert!(house.world.get(&flow("shop", "f1")).is_none());
    assert_eq!(house.says("f2", "Ready"), "True");
}

#[tokio::test(start_paused = true)]
async fn i2_a_flow_that_comes_in_the_middle_of_the_teardown_keeps_the_broker() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    let sink = uid(&house, &broker("shop"));
    let is_first = |request: &Request| matches!(request, Request::Delete { .. });
    let late = Object::new(Resource::EventFlow, flow_content("shop", "f2", "crm"));
    house.world.surprise(is_first, late, &house.mirror);
    house.world.delete(&flow("shop", "f1"));
    house.play().await;
    house.pass(Duration::from_secs(5)).await;
    assert_eq!(uid(&house, &broker("shop")), sink, "the Broker stays");
    assert_eq!(house.world.get(&namespace()).unwrap().label(names::INJECTION_LABELS[0]), Some("enabled"));
    assert!(house.world.get(&flow("shop", "f1")).is_none());
    assert_eq!(house.says("f2", "Ready"), "True");
}

#[tokio::test(start_paused = true)]
async fn i3_a_flow_that_comes_after_the_deletion_was_accepted_waits_and_gets_a_new_broker() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    let old = uid(&house, &broker("shop"));
    hold(&house);
    house.play().await;
    house.world.delete(&flow("shop", "f1"));
    house.play().await;
    assert!(house.world.get(&broker("shop")).unwrap().is_deleting());
    assert!(house.is_finalized("f1"), "the finalizer stays as long as the Broker");
    house.create_flow("f2", "crm");
    house.play().await;
    assert_eq!(house.says("f2", "SinkReady"), "Unknown WaitingForSinkDeletion");
    let_go(&house);
    house.play().await;
    assert!(house.world.get(&flow("shop", "f1")).is_none(), "the finalizer is released");
    assert_ne!(uid(&house, &broker("shop")), old);
    assert_eq!(house.says("f2", "Ready"), "True");
}

#[tokio::test(start_paused = true)]
async fn i3_a_controller_that_starts_meanwhile_holds_the_flow_that_leaves_and_sets_no_label() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    let old = uid(&house, &broker("shop"));
    hold(&house);
    house.play().await;
    house.world.delete(&flow("shop", "f1"));
    house.play().await;
    house.create_flow("f2", "crm");
    house.restart();
    house.play().await;
    house.pass(Duration::from_secs(3600)).await;
    assert!(house.is_finalized("f1"), "the finalizer stays as long as the Broker");
    assert_eq!(house.world.get(&namespace()).unwrap().label(names::INJECTION_LABELS[0]), None);
    assert_eq!(house.says("f2", "SinkReady"), "Unknown WaitingForSinkDeletion");
    let_go(&house);
    house.play().await;
    assert!(house.world.get(&flow("shop", "f1")).is_none(), "the finalizer is released");
    assert_ne!(uid(&house, &broker("shop")), old);
    assert_eq!(house.says("f2", "Ready"), "True");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_somebody_deletes_holds_no_flow_that_shares_it() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.create_flow("f2", "crm");
    house.play().await;
    let delivery = uid(&house, &subscription("shop", "crm"));
    hold(&house);
    house.world.delete(&broker("shop"));
    house.play().await;
    house.world.delete(&flow("shop", "f1"));
    house.restart();
    house.play().await;
    assert!(house.world.get(&flow("shop", "f1")).is_none(), "the one that stays has its claim on the Broker");
    assert_eq!(uid(&house, &subscription("shop", "crm")), delivery, "nothing that is shared moves");
    let_go(&house);
    house.play().await;
    assert_eq!(house.says("f2", "Ready"), "True");
    assert_eq!(uid(&house, &subscription("shop", "crm")), delivery);
}

#[tokio::test(start_paused = true)]
async fn i4_a_broker_that_never_goes_holds_the_flow_and_nothing_spins() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    hold(&house);
    house.play().await;
    house.world.delete(&flow("shop", "f1"));
    house.create_flow("f3", "other");
    house.play().await;
    house.world.delete(&flow("shop", "f3"));
    house.play().await;
    house.create_flow("f2", "crm");
    house.play().await;
    let before = house.world.log().len();
    house.pass(Duration::from_secs(3600)).await;
    assert_eq!(house.world.log().len(), before, "waiting is silent");
    house.pass(Duration::from_secs(3 * 24 * 3600)).await;
    assert_eq!(house.says("f2", "SinkReady"), "Unknown WaitingForSinkDeletion");
    assert!(house.is_finalized("f3"), "the finalizer stays as long as the Broker");
    let sent = house.world.log().len() - before;
    assert!(sent <= 10, "{sent} requests in days of waiting: {:#?}", &house.world.log()[before..]);
    let_go(&house);
    house.play().await;
    assert_eq!(house.says("f2", "Ready"), "True");
    assert!(house.world.get(&flow("shop", "f1")).is_none());
}

/// Lives a whole life of two flows, and dies after so many requests; whether it died at all.
async fn life(dies_after: usize) -> bool {
    let mut house = House::shop();
    house.world.die_after(Some(dies_after));
    let mut died = false;
    let scenes: [fn(&House); 4] = [
        |house| house.create_flow("f1", "crm"),
        |house| house.create_flow("f2", "crm"),
        |house| house.world.delete(&flow("shop", "f1")),
        |house| house.world.delete(&flow("shop", "f2")),
    ];
    for (at, scene) in scenes.into_iter().enumerate() {
        scene(&house);
        house.play().await;
        if house.world.is_dead() && !died {
            died = true;
            house.restart();
            house.play().await;
            house.pass(Duration::from_secs(120)).await;
        }
        if at == 1 {
            assert_eq!(house.says("f2", "Ready"), "True", "dead after {dies_after}");
        }
    }
    for id in [flow("shop", "f1"), flow("shop", "f2"), broker("shop"), subscription("shop", "crm")] {
        assert!(house.world.get(&id).is_none(), "{id} is left over, dead after {dies_after}");
    }
    let policy = Id::new(Resource::PeerAuthentication, "shop", names::policy("shop"));
    assert!(house.world.get(&policy).is_none(), "dead after {dies_after}");
    let label = names::INJECTION_LABELS[0];
    assert_eq!(house.world.get(&namespace()).unwrap().label(label), None, "dead after {dies_after}");
    died
}

#[tokio::test(start_paused = true)]
async fn i5_a_controller_that_dies_between_any_two_requests_ends_in_the_same_state() {
    let mut lives = 0;
    while life(lives).await {
        lives += 1;
    }
    assert!(lives > 15, "a whole life takes more than {lives} requests");
}

#[tokio::test(start_paused = true)]
async fn i6_deleting_both_flows_at_once_deletes_the_broker_once() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.create_flow("f2", "crm");
    house.play().await;
    house.world.delete(&flow("shop", "f1"));
    house.world.delete(&flow("shop", "f2"));
    house.play().await;
    assert_eq!(house.world.deletions(Resource::Broker), 1);
    assert!(house.world.get(&broker("shop")).is_none());
    assert!(house.world.get(&flow("shop", "f1")).is_none() && house.world.get(&flow("shop", "f2")).is_none());
}

#[tokio::test(start_paused = true)]
async fn i7_in_a_namespace_on_its_way_out_nothing_is_made_and_finalizers_go() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    hold(&house);
    house.world.change(&namespace(), |it| {
        it["metadata"]["finalizers"] = json!(["kubernetes"]);
        it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    house.play().await;
    house.create_flow("f2", "crm");
    house.play().await;
    assert!(!house.is_finalized("f2"), "nothing is added to what has to go");
    house.world.delete(&flow("shop", "f1"));
    house.world.delete(&flow("shop", "f2"));
    house.play().await;
    assert!(house.world.get(&flow("shop", "f1")).is_none(), "it does not wait for the Broker");
    assert!(house.world.get(&flow("shop", "f2")).is_none());
}

#[tokio::test(start_paused = true)]
async fn i8_a_source_that_is_minutes_late_is_waited_for_without_a_request() {
    let mut house = House::new(World::with(&["shop"]));
    house.create_flow("f1", "crm");
    house.play().await;
    assert_eq!(house.says("f1", "SourceReady"), "Unknown WaitingForSource");
    assert_eq!(house.says("f1", "SubscriptionReady"), "Unknown WaitingForChannel");
    let before = house.world.log().len();
    house.pass(Duration::from_secs(600)).await;
    assert_eq!(house.world.log().len(), before, "waiting is silent");
    house.world.source("crm");
    house.play().await;
    assert_eq!(house.says("f1", "Ready"), "True");
}

#[tokio::test(start_paused = true)]
async fn i8_a_source_that_goes_first_does_not_hold_up_the_teardown() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    house.world.delete(&Id::new(Resource::Source, crate::world::I, "crm"));
    house.world.delete(&Id::new(Resource::Channel, crate::world::I, "crm-channel"));
    house.play().await;
    assert_eq!(house.says("f1", "SourceReady"), "Unknown WaitingForSource");
    assert!(house.world.get(&subscription("shop", "crm")).is_some(), "what exists stays");
    house.world.delete(&flow("shop", "f1"));
    house.play().await;
    assert!(house.world.get(&flow("shop", "f1")).is_none());
    assert!(house.world.get(&subscription("shop", "crm")).is_none());
}

#[tokio::test(start_paused = true)]
async fn i8_what_is_not_installed_is_waited_for_and_comes_later() {
    let world = World::default();
    for namespace in ["shop", crate::world::I] {
        world.put(Resource::Namespace, json!({"metadata": {"name": namespace}}));
    }
    world.install(Resource::EventFlow);
    let mut house = House::new(world);
    house.create_flow("f1", "crm");
    house.play().await;
    assert!(house.is_finalized("f1"));
    assert_eq!(house.says("f1", "SinkReady"), "Unknown NotInstalled");
    assert_eq!(house.says("f1", "PolicyReady"), "Unknown NotInstalled");
    let before = house.world.log().len();
    house.pass(Duration::from_secs(600)).await;
    assert_eq!(house.world.log().len(), before, "waiting is silent");
    for resource in Resource::ALL {
        house.world.install(resource);
    }
    house.world.source("crm");
    house.play().await;
    assert_eq!(house.says("f1", "Ready"), "True");
    assert_eq!(house.says("f1", "PolicyReady"), "True");
}

#[tokio::test(start_paused = true)]
async fn i8_what_is_deleted_by_hand_is_made_again_and_nothing_else_moves() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    house.world.delete(&subscription("shop", "crm"));
    house.play().await;
    let delivery = uid(&house, &subscription("shop", "crm"));
    house.world.delete(&broker("shop"));
    house.play().await;
    assert!(house.world.get(&broker("shop")).is_some(), "Knative makes it again: the label is there");
    assert_eq!(uid(&house, &subscription("shop", "crm")), delivery, "a Broker that blinks removes nothing");
    house.world.change(&flow("shop", "f1"), |it| it["metadata"]["finalizers"] = json!([]));
    house.play().await;
    assert!(house.is_finalized("f1"));
    assert_eq!(uid(&house, &subscription("shop", "crm")), delivery);
    house.world.change(&namespace(), |it| it["metadata"]["labels"] = json!({}));
    house.play().await;
    assert_eq!(house.world.get(&namespace()).unwrap().label(names::INJECTION_LABELS[0]), Some("enabled"));
    assert_eq!(house.says("f1", "Ready"), "True");
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_somebody_takes_off_moves_nothing_when_everything_is_read_again() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    let shared = |house: &House| (uid(house, &broker("shop")), uid(house, &subscription("shop", "crm")));
    let before = shared(&house);
    house.world.change(&flow("shop", "f1"), |it| it["metadata"]["finalizers"] = json!([]));
    house.restart();
    house.play().await;
    assert!(house.is_finalized("f1"));
    assert_eq!(shared(&house), before);
    assert_eq!(house.world.deletions(Resource::Subscription), 0);
    assert_eq!(house.says("f1", "Ready"), "True");
}

#[tokio::test(start_paused = true)]
async fn i9_a_leader_that_is_behind_cannot_delete_a_broker_that_is_claimed() {
    let mut old = House::shop();
    old.create_flow("f1", "crm");
    old.play().await;
    // The old leader sees that the last flow goes, and stops there.
    old.world.delete(&flow("shop", "f1"));
    let stale = old.mirror.clone();
    old.world.watch(&stale);
    // The new leader has already seen the next flow, whose claim is on the Broker.
    old.create_flow("f2", "crm");
    let mut new = House::new(old.world.clone());
    new.play().await;
    let sink = uid(&new, &broker("shop"));
    // Now the old one wakes up, with what it saw before.
    old.controller.settle().await.expect("the loop goes on");
    assert_eq!(new.world.deletions(Resource::Broker), 1, "it tries");
    assert_eq!(uid(&new, &broker("shop")), sink, "the claim voids the deletion");
    new.play().await;
    new.pass(Duration::from_secs(120)).await;
    assert_eq!(new.says("f2", "Ready"), "True");
}
