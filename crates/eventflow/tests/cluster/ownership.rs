//! Whose which field is, as the API server shows it, and what becomes of a deletion of something that has changed.

use std::collections::BTreeMap;

use kilter_eventflow::client::collection;
use kilter_eventflow::names;
use kilter_eventflow::object::{Object, Resource};
use kilter_eventflow::request::{Class, Request};
use serde_json::{Value as Json, json};

use crate::between::Between;
use crate::platform::{Office, order};
use crate::server::{JSON, MERGE, settled, until};
use crate::shop::Shop;

/// The fields that each of our names owns of an object, and how it came to them.
async fn owners(shop: &Shop, resource: Resource, namespace: &str, name: &str) -> BTreeMap<String, String> {
    let place = format!("{}/{name}", collection(resource, namespace));
    let object = shop.cluster.call("GET", &place, JSON, None).await;
    let entries = object["metadata"]["managedFields"].as_array().expect("the server tells").iter();
    let word = |entry: &Json, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    entries
        .filter(|entry| word(entry, "manager").starts_with(names::OURS))
        .map(|entry| {
            let fields = serde_json::to_string(&entry["fieldsV1"]).expect("it is JSON");
            let how = format!("{} {} {fields}", word(entry, "operation"), word(entry, "subresource"));
            (word(entry, "manager"), how)
        })
        .collect()
}

/// The only owner of ours, and what it owns.
fn sole(owners: &BTreeMap<String, String>) -> (&str, &str) {
    let mut all = owners.iter();
    match (all.next(), all.next()) {
        (Some((owner, fields)), None) => (owner, fields),
        _ => panic!("it has not one owner of ours: {owners:?}"),
    }
}

#[tokio::test]
async fn every_kind_has_an_owner_of_its_own_and_owns_nothing_else() {
    let shop = Shop::open("owners").await;
    let running = shop.run();
    let office = Office::open(&shop, Between::open).await;
    assert_eq!(office.put("i", &order(&shop.namespace, "o")).await.code, 202);
    assert_eq!(office.until_ended("i").await, "succeeded");
    shop.until_says("event-flow-o", "Ready", "True").await;
    let flow = owners(&shop, Resource::EventFlow, &shop.namespace, "event-flow-o").await;
    let of = |owner: &str| flow.get(owner).cloned().unwrap_or_default();
    assert_eq!(flow.len(), 3, "{flow:?}");
    let finalizer = of("kilter-eventflow-finalizer");
    assert!(finalizer.starts_with("Apply ") && finalizer.contains("f:finalizers"), "{flow:?}");
    assert!(!finalizer.contains("f:spec") && !finalizer.contains("f:status"), "{flow:?}");
    let ordered = of("kilter-eventflow-flow");
    assert!(ordered.starts_with("Apply ") && ordered.contains("f:source"), "{flow:?}");
    assert!(!ordered.contains("f:finalizers") && !ordered.contains("f:status"), "{flow:?}");
    let status = of("kilter-eventflow-status");
    assert!(status.starts_with("Apply status ") && status.contains("f:conditions"), "{flow:?}");
    assert!(!status.contains("f:spec") && !status.contains("f:finalizers"), "{flow:?}");
    let policy = names::policy(&shop.namespace);
    let delivery = names::subscription(&shop.namespace, "crm");
    for (resource, namespace, name, owner, how, field) in [
        (Resource::Namespace, "", &shop.namespace, "sink", "Apply", names::INJECTION_LABELS[0]),
        (Resource::PeerAuthentication, &shop.namespace, &policy, "policy", "Apply", "f:mtls"),
        (Resource::Subscription, &shop.integration, &delivery, "subscription", "Apply", "f:subscriber"),
        (Resource::Broker, &shop.namespace, &"default".to_owned(), "claim", "Update", names::CLAIM_PREFIX),
        (
            Resource::EventActivation,
            &shop.namespace,
            &"orders-id".to_owned(),
            "activation",
            "Apply",
            "f:sourceId",
        ),
    ] {
        let owners = owners(&shop, resource, namespace, name).await;
        let (by, fields) = sole(&owners);
        assert_eq!(by, format!("kilter-eventflow-{owner}"));
        assert!(fields.starts_with(how) && fields.contains(field), "{resource:?}: {fields}");
    }
    running.stop().await;
}

/// Changes an object as a user would.
async fn touch(shop: &Shop, resource: Resource, namespace: &str, name: &str, change: Json) {
    let place = format!("{}/{name}", collection(resource, namespace));
    shop.cluster.call("PATCH", &place, MERGE, Some(&change)).await;
}

#[tokio::test]
async fn a_label_that_a_user_adds_to_the_selector_of_a_policy_goes_and_his_other_labels_stay() {
    let shop = Shop::open("selector").await;
    let running = shop.run();
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    let name = names::policy(&shop.namespace);
    let labels = json!({"metadata": {"labels": {"team": "blue"}}, "spec": {"selector": {"matchLabels": {"team": "blue"}}}});
    touch(&shop, Resource::PeerAuthentication, &shop.namespace, &name, labels).await;
    let policy = || async {
        let policy = shop.get(Resource::PeerAuthentication, &shop.namespace, &name).await;
        policy.expect("it exists")
    };
    let whole = json!({names::BROKER_LABEL: names::DEFAULT});
    until("the selector is ours again", || async {
        policy().await.json()["spec"]["selector"]["matchLabels"] == whole
    })
    .await;
    assert_eq!(policy().await.label("team"), Some("blue"), "what is not ours is left alone");
    let owners = owners(&shop, Resource::PeerAuthentication, &shop.namespace, &name).await;
    assert_eq!(sole(&owners).0, "kilter-eventflow-policy");
    // It is set right once, and not again and again.
    let look = || async { (running.counts.total(), policy().await.version().to_owned()) };
    settled("the controller", look).await;
    running.stop().await;
}

/// How often the API server told that something had changed.
fn conflicts(running: &crate::shop::Running) -> u64 {
    running.counts.rejections().get(&Class::Conflict).copied().unwrap_or_default()
}

#[tokio::test]
async fn a_deletion_of_what_has_changed_meanwhile_is_refused_and_decided_again() {
    let shop = Shop::open("changed").await;
    let is_it =
        |it: &Request| matches!(it, Request::Delete { id, .. } if id.resource == Resource::Subscription);
    let running = shop.run_behind(|server| Between::holds(server, is_it));
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    let name = names::subscription(&shop.namespace, "crm");
    let before = conflicts(&running);
    shop.delete_flow("f1").await;
    until("the Subscription is about to be deleted", || async { running.between.is_held() }).await;
    let seen = json!({"metadata": {"annotations": {"example.com/seen": "yes"}}});
    touch(&shop, Resource::Subscription, &shop.integration, &name, seen).await;
    running.between.let_through();
    shop.until_gone("f1").await;
    assert!(shop.subscription().await.is_none(), "it is deleted as it was then");
    assert!(conflicts(&running) > before, "the version that was decided on was gone");
    // Whoever else writes its status in between makes it more.
    assert!(running.between.deletions(Resource::Subscription) >= 2, "once refused, then done");
    running.stop().await;
}

#[tokio::test]
async fn a_deletion_does_not_hit_what_somebody_else_put_in_its_place() {
    let shop = Shop::open("successor").await;
    let is_it = |it: &Request| matches!(it, Request::Delete { id, .. } if id.resource == Resource::PeerAuthentication);
    let running = shop.run_behind(|server| Between::holds(server, is_it));
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    let name = names::policy(&shop.namespace);
    let before = conflicts(&running);
    shop.delete_flow("f1").await;
    until("the policy is about to be deleted", || async { running.between.is_held() }).await;
    shop.delete(Resource::PeerAuthentication, &shop.namespace, &name).await;
    let theirs = json!({"metadata": {"name": name}, "spec": {"mtls": {"mode": "STRICT"}}});
    shop.create(Resource::PeerAuthentication, &shop.namespace, theirs).await;
    let uid = |policy: Option<Object>| policy.map(|it| it.uid().to_owned());
    let policy = || shop.get(Resource::PeerAuthentication, &shop.namespace, &name);
    let successor = uid(policy().await).expect("it exists");
    running.between.let_through();
    shop.until_gone("f1").await;
    assert_eq!(uid(policy().await), Some(successor), "it is of another identity, and not ours");
    assert!(conflicts(&running) > before, "the one that was decided on was gone");
    shop.delete(Resource::PeerAuthentication, &shop.namespace, &name).await;
    running.stop().await;
}

#[tokio::test]
async fn a_flow_that_changes_while_its_instance_ends_is_deleted_as_it_is_then() {
    let shop = Shop::open("changed-flow").await;
    let is_it = |it: &Request| matches!(it, Request::Delete { id, .. } if id.resource == Resource::EventFlow);
    let office = Office::open(&shop, |server| Between::holds(server, is_it)).await;
    assert_eq!(office.put("i", &order(&shop.namespace, "o")).await.code, 202);
    assert_eq!(office.until_ended("i").await, "succeeded");
    assert_eq!(office.delete("i").await.code, 202);
    until("the flow is about to be deleted", || async { office.between.is_held() }).await;
    let seen = json!({"metadata": {"annotations": {"example.com/seen": "yes"}}});
    touch(&shop, Resource::EventFlow, &shop.namespace, "event-flow-o", seen).await;
    office.between.let_through();
    assert_eq!(office.until_ended("i").await, "410");
    assert!(shop.flow("event-flow-o").await.is_none());
    // Its controller writes its status meanwhile, which makes it more than two if that comes in between.
    let deletions = office.between.deletions(Resource::EventFlow);
    assert!(deletions >= 2, "once refused, then done");
    let numbers = office.text("/metrics").await;
    let refused = (1..deletions).any(|count| numbers.contains(&format!("class=\"conflict\"}} {count}\n")));
    assert!(refused, "{deletions} deletions: {numbers}");
}
