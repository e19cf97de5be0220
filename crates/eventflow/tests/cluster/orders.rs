//! Orders that wait: when they are tried again, and that they say why they wait.

use std::time::Duration;

use kilter_eventflow::lease::Lease;
use kilter_eventflow::names;
use kilter_eventflow::object::Resource;
use kilter_eventflow::request::{Rejected, Request};
use serde_json::Value as Json;

use crate::between::Between;
use crate::platform::{Answered, Office, order};
use crate::server::{settled, stays, until};
use crate::shop::Shop;

fn applies(request: &Request) -> bool {
    matches!(request, Request::Apply { .. })
}

fn rejection(code: u16, reason: &str, message: &str) -> Rejected {
    Rejected { code, reason: reason.to_owned(), message: message.to_owned(), ..Rejected::default() }
}

fn described(told: &Answered) -> String {
    told.body["description"].as_str().unwrap_or_default().to_owned()
}

async fn explained(office: &Office, instance: &str) -> Answered {
    office.ask("GET", &format!("/explain/{instance}"), None).await
}

#[tokio::test]
async fn an_order_that_fails_says_why_and_is_carried_out_when_it_can_be() {
    let shop = Shop::open("order-fails").await;
    let down = rejection(503, "ServiceUnavailable", "a webhook is down");
    let office = Office::open(&shop, |server| Between::rejects(server, applies, down)).await;
    assert_eq!(explained(&office, "i").await.code, 404);
    assert_eq!(office.put("i", &order(&shop.namespace, "o")).await.code, 202);
    until("it says why", || async {
        described(&office.last_operation("i").await).contains("a webhook is down")
    })
    .await;
    let told = office.last_operation("i").await;
    assert_eq!(told.body["state"], "in progress");
    let told = explained(&office, "i").await;
    assert_eq!((told.code, told.body["stage"].as_str()), (200, Some("provisioning")));
    let why = told.body["why"].as_str().expect("it is told");
    assert!(why.contains("EventActivation") && why.contains("tried again"), "{why}");
    // Another copy, which does not try, tells the same.
    let lease = |identity: &str| {
        let lease = Lease::new(shop.cluster.again(), &shop.integration, "taken", identity);
        lease.lasting(Duration::from_secs(3600))
    };
    lease("somebody").take().await;
    let server = shop.cluster.again();
    let between = Between::open(shop.cluster.again());
    let second = Office::start(&shop, &server, between, &shop.integration, Some(lease("second"))).await;
    assert_eq!(explained(&second, "i").await.body["why"], why);
    drop(second);
    // The same failure is written down once, however often it is tried.
    let record = || async { version(&shop, "i").await };
    let before = settled("the record", record).await;
    stays("it is not told again", || async { record().await == before }).await;
    office.between.relent();
    assert_eq!(office.until_ended("i").await, "succeeded");
    let told = explained(&office, "i").await;
    assert_eq!((told.body["stage"].as_str(), &told.body["why"]), (Some("provisioned"), &Json::Null));
}

async fn version(shop: &Shop, instance: &str) -> String {
    let record = shop.get(Resource::ConfigMap, &shop.integration, &names::record(instance)).await;
    record.expect("it is kept").version().to_owned()
}

#[tokio::test]
async fn who_may_not_asks_no_more_for_a_minute_unless_something_else_is_ordered() {
    let shop = Shop::open("order-may-not").await;
    let no = rejection(403, "Forbidden", "the role says no");
    let office = Office::open(&shop, |server| Between::rejects(server, applies, no)).await;
    assert_eq!(office.put("i", &order(&shop.namespace, "o")).await.code, 202);
    until("it says why", || async {
        described(&office.last_operation("i").await).contains("the role says no")
    })
    .await;
    let writes = || async { office.between.writes().len() };
    let before = settled("the service broker", writes).await;
    // What changes in the cluster is no reason to try it before its time.
    shop.create_flow("another", "crm").await;
    stays("it waits", || async { writes().await == before }).await;
    // Another operation is not the one that waits.
    office.between.relent();
    assert_eq!(office.delete("i").await.code, 202);
    assert_eq!(office.until_ended("i").await, "410");
    assert_eq!(office.put("i", &order(&shop.namespace, "o")).await.code, 202);
    assert_eq!(office.until_ended("i").await, "succeeded");
}

#[tokio::test]
async fn a_flow_that_somebody_takes_away_again_and_again_is_made_again_out_of_a_budget() {
    let shop = Shop::open("order-fight").await;
    let office = Office::open(&shop, Between::open).await;
    assert_eq!(office.put("i", &order(&shop.namespace, "o")).await.code, 202);
    assert_eq!(office.until_ended("i").await, "succeeded");
    // Whenever it is there, it is taken away.
    until("the service broker is slowed down, and says so", || async {
        if shop.flow("event-flow-o").await.is_some() {
            shop.delete_flow("event-flow-o").await;
        }
        let why = explained(&office, "i").await.body["why"].to_string();
        why.contains("EventFlow") && why.contains("was written 20 times")
    })
    .await;
    let record = shop.get(Resource::ConfigMap, &shop.integration, &names::record("i")).await;
    let text = record.expect("it is kept").json()["data"]["record"].to_string();
    assert!(text.contains("provisioned"), "{text}");
}

#[tokio::test]
async fn a_service_broker_that_dies_while_an_instance_is_taken_back_leaves_nothing() {
    let shop = Shop::open("order-back").await;
    let mut deaths = 0;
    loop {
        // No flow can have this name: what was made before it is taken back.
        let (instance, order) = (format!("i{deaths}"), order(&shop.namespace, "Not a name"));
        let mortal = Office::open(&shop, |server| Between::dies_after(server, deaths)).await;
        tokio::select! {
            () = async {
                mortal.put(&instance, &order).await;
                mortal.until_ended(&instance).await;
            } => {}
            () = until("it is dead", || async { mortal.between.is_dead() }) => {}
        }
        let died = mortal.between.is_dead();
        drop(mortal);
        let activation = || shop.get(Resource::EventActivation, &shop.namespace, "orders-id");
        let office = Office::open(&shop, Between::open).await;
        assert_eq!(office.put(&instance, &order).await.code, 202, "dead after {deaths}");
        assert_eq!(office.until_ended(&instance).await, "failed", "dead after {deaths}");
        assert!(activation().await.is_none(), "dead after {deaths}");
        // So a platform cleans up after what failed.
        assert_eq!(office.delete(&instance).await.code, 202, "dead after {deaths}");
        assert_eq!(office.until_ended(&instance).await, "410", "dead after {deaths}");
        assert!(activation().await.is_none(), "dead after {deaths}");
        if !died {
            break;
        }
        deaths += 1;
    }
    assert!(deaths >= 6, "{deaths}: the record, two objects, its doom, one object less, its end");
}

#[tokio::test]
async fn an_order_waits_for_a_definition_that_comes_late() {
    let shop = Shop::open("order-late").await;
    shop.cluster.uninstall(Resource::EventActivation).await;
    let office = Office::open(&shop, Between::open).await;
    assert_eq!(office.put("i", &order(&shop.namespace, "o")).await.code, 202);
    until("it says why", || async {
        described(&office.last_operation("i").await).contains("EventActivation")
    })
    .await;
    assert_eq!(office.last_operation("i").await.body["state"], "in progress", "it has not failed");
    shop.cluster.install(Resource::EventActivation).await;
    assert_eq!(office.until_ended("i").await, "succeeded");
}
