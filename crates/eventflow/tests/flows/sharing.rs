//! What several flows share, and whose it is.

use std::time::Duration;

use kilter_eventflow::kinds::declared::{PolicyForm, Sink};
use kilter_eventflow::object::{Id, Resource};
use kilter_eventflow::{Settings, names};
use serde_json::json;

use crate::house::House;
use crate::world::{I, World, broker, flow, ready_broker, subscription};

#[tokio::test(start_paused = true)]
async fn two_flows_from_one_source_share_one_subscription() {
    let mut house = House::shop();
    house.world.source("erp");
    house.create_flow("f1", "crm");
    house.create_flow("f2", "crm");
    house.create_flow("f3", "erp");
    house.play().await;
    let labels = |id: &Id| {
        let object = house.world.get(id).expect("it exists");
        let label = |name: &str| object.label(name).unwrap_or_default().to_owned();
        (label(names::BROKER_NAMESPACE_LABEL), label(names::APPLICATION_LABEL))
    };
    assert_eq!(labels(&subscription("shop", "crm")), ("shop".to_owned(), "crm".to_owned()));
    assert_eq!(labels(&subscription("shop", "erp")), ("shop".to_owned(), "erp".to_owned()));
    house.world.delete(&flow("shop", "f3"));
    house.play().await;
    assert!(house.world.get(&subscription("shop", "erp")).is_none());
    house.world.delete(&flow("shop", "f2"));
    house.play().await;
    assert!(house.world.get(&subscription("shop", "crm")).is_some(), "the other one still wants it");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_a_user_made_is_used_and_never_deleted() {
    let mut house = House::shop();
    let meta = json!({"namespace": "shop", "name": "default"});
    house.world.put(Resource::Broker, json!({"metadata": meta, "status": ready_broker("shop")}));
    house.create_flow("f1", "crm");
    house.play().await;
    assert_eq!(house.says("f1", "Ready"), "True");
    house.world.delete(&flow("shop", "f1"));
    house.play().await;
    assert!(house.world.get(&flow("shop", "f1")).is_none());
    let kept = house.world.get(&broker("shop")).expect("it stays");
    let claims =
        kept.annotations().is_some_and(|all| all.keys().any(|name| name.starts_with(names::CLAIM_PREFIX)));
    assert!(!claims, "no claim is left on it");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_a_trigger_reads_from_is_kept() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    let meta = json!({"namespace": "shop", "name": "mine"});
    house.world.put(Resource::Trigger, json!({"metadata": meta, "spec": {"broker": "default"}}));
    house.world.delete(&flow("shop", "f1"));
    house.play().await;
    assert!(house.world.get(&broker("shop")).is_some());
    assert!(house.world.get(&flow("shop", "f1")).is_none());
}

#[tokio::test(start_paused = true)]
async fn without_injection_the_broker_is_made_directly() {
    let world = World::with(&["shop"]);
    world.source("crm");
    let settings = Settings { sink: Sink::Direct, policy: Some(PolicyForm::Policy), ..Settings::default() };
    let mut house = House::with(world, settings);
    house.create_flow("f1", "crm");
    house.play().await;
    house.world.change(&broker("shop"), |it| it["status"] = ready_broker("shop"));
    house.play().await;
    assert_eq!(house.says("f1", "Ready"), "True");
    let policy = Id::new(Resource::Policy, "shop", names::policy("shop"));
    let targets = house.world.get(&policy).expect("it exists").json()["spec"]["targets"].clone();
    assert_eq!(targets, json!([{"name": "default-broker"}, {"name": "default-broker-filter"}]));
    house.world.delete(&broker("shop"));
    house.play().await;
    assert!(house.world.get(&broker("shop")).is_some(), "it is made again");
    house.world.delete(&flow("shop", "f1"));
    house.play().await;
    assert!(house.world.get(&broker("shop")).is_none() && house.world.get(&policy).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_somebody_changed_is_set_right() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    let policy = Id::new(Resource::PeerAuthentication, "shop", names::policy("shop"));
    house.world.change(&policy, |it| it["spec"]["mtls"]["mode"] = json!("STRICT"));
    house.play().await;
    assert_eq!(house.world.get(&policy).unwrap().json()["spec"]["mtls"]["mode"], json!("PERMISSIVE"));
}

#[tokio::test(start_paused = true)]
async fn every_field_of_ours_is_set_right_in_both_forms_of_a_policy() {
    let spoil: [(PolicyForm, &str, serde_json::Value); 3] = [
        (PolicyForm::PeerAuthentication, "selector", json!({"matchLabels": {names::BROKER_LABEL: "other"}})),
        (PolicyForm::PeerAuthentication, "selector", json!(null)),
        (PolicyForm::Policy, "targets", json!([{"name": "default-broker"}])),
    ];
    for (form, field, value) in spoil {
        let world = World::with(&["shop"]);
        world.source("crm");
        let mut house = House::with(world, Settings { policy: Some(form), ..Settings::default() });
        house.create_flow("f1", "crm");
        house.play().await;
        let policy = Id::new(form.resource(), "shop", names::policy("shop"));
        let before = house.world.get(&policy).expect("it exists").json()["spec"].clone();
        house.world.change(&policy, |it| {
            it["spec"][field] = value;
            it["spec"]["portLevelMtls"] = json!({"8080": {"mode": "DISABLE"}});
        });
        house.play().await;
        let spec = house.world.get(&policy).expect("it exists").json()["spec"].clone();
        assert_eq!(spec[field], before[field], "{form:?}");
        assert!(spec["portLevelMtls"].is_object(), "what is not ours stays");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_of_ours_that_lost_a_label_gets_it_back_and_goes_with_the_last_flow() {
    for label in [names::BROKER_NAMESPACE_LABEL, names::APPLICATION_LABEL, names::MANAGED_BY] {
        let mut house = House::shop();
        house.create_flow("f1", "crm");
        house.play().await;
        let delivery = subscription("shop", "crm");
        let spoil = |house: &House| {
            house.world.change(&delivery, |it| {
                it["metadata"]["labels"].as_object_mut().unwrap().remove(label);
            });
        };
        spoil(&house);
        house.play().await;
        assert!(house.world.get(&delivery).unwrap().label(label).is_some(), "{label} is set again");
        // Somebody takes it off while nobody looks.
        spoil(&house);
        house.world.delete(&flow("shop", "f1"));
        house.restart();
        house.play().await;
        assert!(house.world.get(&delivery).is_none(), "without {label} it is not left behind");
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_a_label_of_somebody_else_asks_for_is_kept_and_that_is_told() {
    let mut house = House::shop();
    let namespace = Id::new(Resource::Namespace, "", "shop");
    house
        .world
        .change(&namespace, |it| it["metadata"]["labels"] = json!({names::INJECTION_LABELS[0]: "enabled"}));
    house.play().await;
    house.create_flow("f1", "crm");
    house.play().await;
    let sink = house.world.get(&broker("shop")).expect("it exists").uid().to_owned();
    house.world.delete(&flow("shop", "f1"));
    house.play().await;
    assert!(house.world.get(&flow("shop", "f1")).is_none());
    let kept = house.world.get(&broker("shop")).expect("it is kept");
    assert_eq!((kept.uid(), house.world.deletions(Resource::Broker)), (sink.as_str(), 0));
    let labels = |label: &str| house.world.get(&namespace).unwrap().label(label).map(str::to_owned);
    assert_eq!(labels(names::INJECTION_LABELS[0]).as_deref(), Some("enabled"), "theirs stays");
    assert_eq!(labels(names::INJECTION_LABELS[1]), None, "ours goes");
    let told = house.world.announced(&broker("shop"));
    assert!(told.len() == 1 && told[0].contains("somebody else set the label"), "{told:?}");
    // Whoever takes the label off hands it over: the next flow sets it again, and takes the Broker with it.
    house.world.change(&namespace, |it| it["metadata"]["labels"] = json!({}));
    house.create_flow("f2", "crm");
    house.play().await;
    house.world.delete(&flow("shop", "f2"));
    house.play().await;
    assert!(house.world.get(&broker("shop")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_knative_makes_again_at_once_does_not_hold_up_the_teardown() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    house.world.change(&broker("shop"), |it| it["metadata"]["finalizers"] = json!(["example.com/hold"]));
    house.play().await;
    house.world.delete(&flow("shop", "f1"));
    house.play().await;
    assert!(house.is_finalized("f1"), "it waits for the Broker");
    // Between two looks it goes, and another one comes.
    house.world.change(&broker("shop"), |it| it["metadata"]["finalizers"] = json!([]));
    let meta = json!({"namespace": "shop", "name": "default", "labels": {names::INJECTED_LABEL: "true"}});
    house.world.put(Resource::Broker, json!({"metadata": meta, "status": ready_broker("shop")}));
    house.play().await;
    assert!(house.world.get(&flow("shop", "f1")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_made_directly_from_now_on_gives_the_label_back() {
    let mut house = House::shop();
    let namespace = Id::new(Resource::Namespace, "", "shop");
    house.create_flow("f1", "crm");
    house.play().await;
    let sink = house.world.get(&broker("shop")).expect("it exists").uid().to_owned();
    house.restart_with(Settings { sink: Sink::Direct, ..Settings::default() });
    house.play().await;
    let seen = house.world.get(&namespace).unwrap();
    assert_eq!(seen.label(names::INJECTION_LABELS[0]), None);
    let kept = house.world.get(&broker("shop")).expect("it stays");
    assert_eq!((kept.uid(), kept.label(names::MANAGED_BY)), (sink.as_str(), Some(names::OURS)));
    assert_eq!(house.says("f1", "Ready"), "True");
    house.world.delete(&flow("shop", "f1"));
    house.play().await;
    assert!(house.world.get(&broker("shop")).is_none());
}

#[tokio::test(start_paused = true)]
async fn of_two_channels_of_a_source_one_is_read_and_the_other_takes_its_place() {
    let mut house = House::shop();
    let meta =
        |name: &str| json!({"namespace": I, "name": name, "labels": {names::APPLICATION_LABEL: "crm"}});
    house.create_flow("f1", "crm");
    house.play().await;
    let delivery = subscription("shop", "crm");
    let reads = |house: &House| {
        let delivery = house.world.get(&delivery).expect("it exists");
        (delivery.uid().to_owned(), delivery.json()["spec"]["channel"]["name"].as_str().unwrap().to_owned())
    };
    let before = reads(&house);
    // One that comes does not move what is there, whatever it is called, and neither does a restart.
    house.world.put(Resource::Channel, json!({"metadata": meta("a-channel")}));
    house.play().await;
    house.restart();
    house.play().await;
    assert_eq!(reads(&house), before);
    house.world.delete(&Id::new(Resource::Channel, I, "a-channel"));
    house.play().await;
    assert_eq!(reads(&house), before);
    house.create_flow("f2", "crm");
    house.play().await;
    assert_eq!(house.says("f2", "Ready"), "True", "the source is still known");
    house.world.put(Resource::Channel, json!({"metadata": meta("z-channel")}));
    house.world.delete(&Id::new(Resource::Channel, I, "crm-channel"));
    house.play().await;
    assert_eq!(reads(&house).1, "z-channel", "the one that is left is read");
}

#[tokio::test(start_paused = true)]
async fn a_fight_over_an_object_is_slowed_down_and_told() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house.play().await;
    let policy = Id::new(Resource::PeerAuthentication, "shop", names::policy("shop"));
    for _ in 0..60 {
        house.world.change(&policy, |it| {
            it["metadata"]["managedFields"] = json!([{"manager": "helm", "time": "2026-01-01T00:00:00Z"}]);
            it["spec"]["mtls"]["mode"] = json!("STRICT");
        });
        house.play().await;
    }
    let writes = house.world.log().iter().filter(|request| *request.id() == policy).count();
    assert!(writes <= 20, "{writes} writes");
    assert_eq!(house.says("f1", "PolicyReady"), "Unknown Retrying");
    let message = house.status("f1").condition("PolicyReady").unwrap().message.clone();
    assert!(message.contains("`helm` writes it too"), "{message}");
    house.pass(Duration::from_secs(300)).await;
    assert_eq!(house.says("f1", "PolicyReady"), "True", "when the other one stops, it is set right");
}

#[tokio::test(start_paused = true)]
async fn the_bare_finalizer_of_the_proposal_is_released_too() {
    let mut house = House::shop();
    house.create_flow("f1", "crm");
    house
        .world
        .change(&flow("shop", "f1"), |it| it["metadata"]["finalizers"] = json!([names::BARE_FINALIZER]));
    house.play().await;
    house.world.delete(&flow("shop", "f1"));
    house.play().await;
    assert!(house.world.get(&flow("shop", "f1")).is_none());
    assert!(house.world.get(&Id::new(Resource::Namespace, "", I)).is_some());
}
