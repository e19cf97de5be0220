//! What a flow says about itself, and when it says something new.

use std::time::Duration;

use kilter_eventflow::condition::{Child, Children, FlowStatus, Stage};
use kilter_eventflow::condition::{Truth, status};
use kilter_eventflow::object::{Readiness, Resource};
use kilter_eventflow::request::Request;
use kilter_scheduler::{State, Timestamp};
use serde_json::json;

use crate::house::House;
use crate::world::broker;

fn readiness(status: Option<bool>, reason: &str, message: &str) -> Option<Readiness> {
    Some(Readiness { status, reason: reason.to_owned(), message: message.to_owned() })
}

fn ready(word: &'static str) -> Child {
    Child {
        title: word.to_owned(),
        word,
        installed: true,
        exists: true,
        readiness: readiness(Some(true), "", ""),
        ..Child::default()
    }
}

fn children() -> Children {
    Children {
        source: ready("Source"),
        sink: ready("Sink"),
        subscription: ready("Subscription"),
        policy: None,
        address: Some("http://sink".to_owned()),
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::default().after(Duration::from_secs(1_700_000_000 + seconds))
}

fn time(status: &FlowStatus, name: &str) -> String {
    status.condition(name).unwrap().last_transition_time.clone()
}

#[test]
fn ready_needs_every_child_and_names_the_worst_one() {
    let mut children = children();
    let all = status(&children, 3, &FlowStatus::default(), at(0));
    assert_eq!(all.condition("Ready").unwrap().status, Truth::True);
    assert_eq!((all.observed_generation, all.sink_uri.as_deref()), (3, Some("http://sink")));
    children.subscription.exists = false;
    children.sink.readiness = readiness(Some(false), "IngressNotReady", "no endpoints");
    let worst = status(&children, 3, &all, at(10));
    let ready = worst.condition("Ready").unwrap();
    assert_eq!((ready.status, ready.reason.as_str()), (Truth::False, "IngressNotReady"));
    assert_eq!(worst.condition("SubscriptionReady").unwrap().reason, "WaitingForSubscription");
    let names: Vec<&str> = worst.conditions.iter().map(|condition| condition.name.as_str()).collect();
    assert!(names.is_sorted(), "{names:?}");
}

#[test]
fn a_transition_time_moves_only_with_its_status() {
    let mut children = children();
    children.sink.readiness = readiness(None, "Deploying", "1 of 3");
    let first = status(&children, 1, &FlowStatus::default(), at(0));
    children.sink.readiness = readiness(None, "Deploying", "2 of 3");
    let second = status(&children, 1, &first, at(60));
    assert_eq!(time(&second, "SinkReady"), time(&first, "SinkReady"));
    assert!(second.is_worth_writing(&first), "the message is new");
    children.sink.readiness = readiness(Some(true), "", "");
    let third = status(&children, 1, &second, at(120));
    assert_eq!(time(&third, "SinkReady"), "2023-11-14T22:15:20Z");
    assert_eq!(time(&third, "SourceReady"), time(&first, "SourceReady"));
}

#[test]
fn nothing_but_another_moment_is_not_worth_a_write() {
    let first = status(&children(), 1, &FlowStatus::default(), at(0));
    let second = status(&children(), 1, &first, at(3600));
    assert!(!second.is_worth_writing(&first));
    let mut earlier = first.clone();
    earlier.conditions[0].last_transition_time = "2001-01-01T00:00:00Z".to_owned();
    assert!(!earlier.is_worth_writing(&first));
}

#[test]
fn a_retry_is_unknown_until_it_has_gone_on_for_too_long() {
    let mut children = children();
    children.subscription.stages = vec![retrying(at(0))];
    let first = status(&children, 1, &FlowStatus::default(), at(0));
    assert_eq!(first.condition("SubscriptionReady").unwrap().status, Truth::Unknown);
    let second = status(&children, 1, &first, at(299));
    assert_eq!(second.condition("SubscriptionReady").unwrap().status, Truth::Unknown);
    let third = status(&children, 1, &second, at(301));
    assert_eq!(third.condition("SubscriptionReady").unwrap().status, Truth::False);
    let fourth = status(&children, 1, &third, at(400));
    assert_eq!(fourth.condition("SubscriptionReady").unwrap().status, Truth::False, "it does not flap");
}

fn retrying(since: Timestamp) -> Stage {
    let error = Some("503".to_owned());
    Stage { state: Some(State::Retrying), error, failing: Some(since), ..Stage::default() }
}

#[test]
fn a_retry_is_measured_from_the_first_failure_and_not_from_the_wait_before_it() {
    let mut children = children();
    children.subscription.exists = false;
    let waited = status(&children, 1, &FlowStatus::default(), at(0));
    children.subscription.stages = vec![retrying(at(3600))];
    let first = status(&children, 1, &waited, at(3600));
    assert_eq!(
        time(&first, "SubscriptionReady"),
        time(&waited, "SubscriptionReady"),
        "it is unknown as it was"
    );
    let second = status(&children, 1, &first, at(3602));
    assert_eq!(
        second.condition("SubscriptionReady").unwrap().status,
        Truth::Unknown,
        "two seconds are not long"
    );
    let third = status(&children, 1, &second, at(3901));
    assert_eq!(third.condition("SubscriptionReady").unwrap().status, Truth::False);
}

#[test]
fn of_two_children_that_fail_the_one_that_failed_last_is_named() {
    let mut children = children();
    children.sink.readiness = readiness(Some(false), "NoIngress", "");
    let first = status(&children, 1, &FlowStatus::default(), at(0));
    children.subscription.readiness = readiness(Some(false), "NoChannel", "");
    let second = status(&children, 1, &first, at(10));
    assert_eq!(second.condition("Ready").unwrap().reason, "NoChannel");
    assert_eq!(time(&second, "Ready"), time(&first, "Ready"), "it was false before");
    children.source.readiness = readiness(Some(false), "NoAdapter", "");
    children.sink.readiness = readiness(Some(true), "", "");
    children.subscription.readiness = readiness(Some(true), "", "");
    let recovered = status(&children, 1, &second, at(20));
    children.subscription.readiness = readiness(Some(false), "NoChannel", "");
    children.sink.readiness = readiness(Some(false), "NoIngress", "");
    let tied = status(&children, 1, &recovered, at(30));
    assert_eq!(tied.condition("Ready").unwrap().reason, "NoIngress", "at the same moment, by type");
}

#[tokio::test(start_paused = true)]
async fn what_a_child_said_before_its_latest_change_does_not_count() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    let delivery = crate::world::subscription("shop", "crm");
    house.world.change(&delivery, |it| {
        it["metadata"]["generation"] = json!(2);
        it["status"]["observedGeneration"] = json!(1);
    });
    house.play().await;
    assert_eq!(house.says("f1", "SubscriptionReady"), "Unknown AwaitingStatus");
    house.world.change(&delivery, |it| it["status"]["observedGeneration"] = json!(2));
    house.play().await;
    assert_eq!(house.says("f1", "Ready"), "True");
}

#[tokio::test(start_paused = true)]
async fn conditions_follow_the_broker_down_and_up_again() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    let stays = house.world.log().len();
    let set = |ready: &str, reason: &str, url: &str| {
        let condition = json!({"type": "Ready", "status": ready, "reason": reason, "message": "why"});
        let status = json!({"address": {"url": url}, "conditions": [condition]});
        house.world.change(&broker("shop"), |it| it["status"] = status);
    };
    set("False", "FilterNotReady", "http://one");
    house.clock.advance(Duration::from_secs(7));
    house.play().await;
    assert_eq!(house.says("f1", "SinkReady"), "False FilterNotReady");
    assert_eq!(house.says("f1", "Ready"), "False FilterNotReady");
    let condition = json!({"type": "Ready", "status": "True"});
    let status = json!({"address": {"url": "http://two"}, "conditions": [condition]});
    house.world.change(&broker("shop"), |it| it["status"] = status);
    house.play().await;
    assert_eq!(house.says("f1", "Ready"), "True");
    assert_eq!(house.status("f1").sink_uri.as_deref(), Some("http://two"));
    let touched: Vec<Request> = house.world.log()[stays..].to_vec();
    let deleted = touched.iter().any(|request| matches!(request, Request::Delete { .. }));
    assert!(!deleted, "what blinks removes nothing");
    let moved = touched.iter().filter(|it| it.id().resource == Resource::Subscription).count();
    assert!(moved <= 2, "the Subscription follows the address, and that is all: {moved}");
}

#[tokio::test(start_paused = true)]
async fn a_flow_on_its_way_out_says_what_it_waits_for() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    house.world.change(&broker("shop"), |it| it["metadata"]["finalizers"] = json!(["example.com/hold"]));
    house.play().await;
    house.world.delete(&crate::world::flow("shop", "f1"));
    house.play().await;
    assert_eq!(house.says("f1", "Ready"), "False Deleting");
    let message = house.status("f1").condition("Ready").unwrap().message.clone();
    assert!(message.contains("eventflow/sink-claim/shop/f1"), "{message}");
    let why = house.controller.explain("shop", "f1");
    assert!(!why.is_empty());
}

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    let before = house.world.log().len();
    house.pass(Duration::from_secs(3600)).await;
    assert_eq!(house.world.log().len(), before);
    house.restart();
    house.play().await;
    assert_eq!(house.world.log().len(), before, "a restart writes nothing either");
}
