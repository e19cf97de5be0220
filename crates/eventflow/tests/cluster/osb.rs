//! The service broker against a real cluster: the table of who may ask what when, row by row, and deaths in between.

use kilter_eventflow::names;
use kilter_eventflow::object::Resource;
use kilter_eventflow::request::{Rejected, Request};
use serde_json::{Value as Json, json};

use crate::between::Between;
use crate::platform::{HEADERS, Office, order};
use crate::server::{MERGE, stays, until};
use crate::shop::Shop;

/// What each of the four questions is answered: the same order, another one, a change, the end.
async fn row(office: &Office, instance: &str, same: &Json) -> [String; 3] {
    let mut other = same.clone();
    other["space_guid"] = "another".into();
    let mut row = Vec::new();
    for told in
        [office.put(instance, same).await, office.put(instance, &other).await, office.patch(instance).await]
    {
        row.push(
            format!("{} {}", told.code, told.body["error"].as_str().unwrap_or_default()).trim().to_owned(),
        );
    }
    row.try_into().expect("there are three")
}

fn operation(told: &crate::platform::Answered) -> String {
    assert_eq!(told.code, 202, "{told:?}");
    told.body["operation"].as_str().expect("it is named").to_owned()
}

async fn hold_flow(shop: &Shop, name: &str, finalizers: Json) {
    let folder = kilter_eventflow::client::collection(Resource::EventFlow, &shop.namespace);
    let body = json!({"metadata": {"finalizers": finalizers}});
    shop.cluster.call("PATCH", &format!("{folder}/{name}"), MERGE, Some(&body)).await;
}

#[tokio::test]
async fn a_life_of_an_instance_follows_the_table_row_by_row() {
    let shop = Shop::open("osb-life").await;
    let applies = |request: &Request| matches!(request, Request::Apply { .. });
    let office = Office::open(&shop, |server| Between::holds(server, applies)).await;
    let order = order(&shop.namespace, "o");
    // Unknown.
    assert_eq!(office.patch("i").await.code, 400);
    assert_eq!(office.delete("i").await.code, 410);
    assert_eq!(office.last_operation("i").await.code, 404);
    assert_eq!(office.ask("GET", "/v2/service_instances/i", None).await.code, 404);
    // Provisioning.
    let first = operation(&office.put("i", &order).await);
    until("the first object is about to be made", || async { office.between.is_held() }).await;
    assert_eq!(row(&office, "i", &order).await, ["202", "409", "422 ConcurrencyError"]);
    assert_eq!(operation(&office.put("i", &order).await), first);
    let told = office.last_operation("i").await;
    assert_eq!((told.code, told.body["state"].as_str()), (200, Some("in progress")));
    assert!(told.headers.contains_key("retry-after"));
    assert_eq!(office.ask("GET", "/v2/service_instances/i", None).await.code, 404);
    // Provisioned.
    office.between.let_through();
    assert_eq!(office.until_ended("i").await, "succeeded");
    assert_eq!(row(&office, "i", &order).await, ["200", "409", "200"]);
    let flow = shop.flow("event-flow-o").await.expect("the flow is made");
    assert_eq!(flow.json()["spec"]["source"], "crm");
    let activation =
        shop.get(Resource::EventActivation, &shop.namespace, "orders-id").await.expect("it is made");
    assert_eq!(activation.json()["spec"], json!({"displayName": "Orders", "sourceId": "crm"}));
    let told = office.ask("GET", "/v2/service_instances/i", None).await;
    assert_eq!((told.code, told.body["plan_id"].as_str()), (200, Some("orders-id-plan")));
    // Deprovisioning.
    hold_flow(&shop, "event-flow-o", json!(["example.com/hold"])).await;
    let second = operation(&office.delete("i").await);
    assert_ne!(second, first);
    assert_eq!(row(&office, "i", &order).await, ["422 ConcurrencyError"; 3]);
    assert_eq!(operation(&office.delete("i").await), second);
    let told =
        office.ask("GET", &format!("/v2/service_instances/i/last_operation?operation={first}"), None).await;
    assert_eq!(told.body["state"], "failed", "another operation has taken its place");
    // Deprovisioned.
    until("the flow is on its way out", || async {
        shop.flow("event-flow-o").await.is_some_and(|flow| flow.is_deleting())
    })
    .await;
    hold_flow(&shop, "event-flow-o", json!([])).await;
    assert_eq!(office.until_ended("i").await, "410");
    assert!(shop.get(Resource::EventActivation, &shop.namespace, "orders-id").await.is_none());
    assert_eq!(office.patch("i").await.code, 404);
    assert_eq!(office.delete("i").await.code, 410);
    operation(&office.put("i", &order).await);
    assert_eq!(office.until_ended("i").await, "succeeded");
    // Deprovisioned, and ordered otherwise than before.
    operation(&office.delete("i").await);
    assert_eq!(office.until_ended("i").await, "410");
    let mut other = order.clone();
    other["space_guid"] = "another".into();
    operation(&office.put("i", &other).await);
    assert_eq!(office.until_ended("i").await, "succeeded");
    assert_eq!((office.put("i", &other).await.code, office.put("i", &order).await.code), (200, 409));
    // Another service is no change of this instance.
    let told = office.ask("PATCH", PLACE, Some(&json!({"service_id": "payments-id"}))).await;
    assert_eq!(told.code, 400, "{told:?}");
    // What platforms were answered is counted.
    let numbers = office.text("/metrics").await;
    for line in [
        "kilter_eventflow_broker_instances{stage=\"provisioned\"} 1",
        "kilter_eventflow_broker_answers_total{code=\"409\"}",
    ] {
        assert!(numbers.contains(line), "{line} is missing in\n{numbers}");
    }
}

const PLACE: &str = "/v2/service_instances/i?accepts_incomplete=true";

/// Changes the record of an instance behind the back of the service broker.
async fn rewrite(shop: &Shop, instance: &str, change: impl Fn(&mut Json)) {
    let place = format!("/api/v1/namespaces/{}/configmaps/{}", shop.integration, names::record(instance));
    let known = shop.cluster.call("GET", &place, "application/json", None).await;
    let mut record: Json = serde_json::from_str(known["data"]["record"].as_str().unwrap()).unwrap();
    change(&mut record);
    let body = json!({"data": {"record": record.to_string()}});
    shop.cluster.call("PATCH", &place, MERGE, Some(&body)).await;
}

fn described(told: &crate::platform::Answered) -> &str {
    told.body["description"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn an_instance_behind_a_flow_that_never_goes_fails_after_a_while() {
    let shop = Shop::open("osb-behind").await;
    let office = Office::open(&shop, Between::open).await;
    shop.create_flow("event-flow-o", "crm").await;
    hold_flow(&shop, "event-flow-o", json!(["example.com/hold"])).await;
    shop.delete_flow("event-flow-o").await;
    operation(&office.put("i", &order(&shop.namespace, "o")).await);
    let state = async || office.last_operation("i").await.body["state"].clone();
    stays("it waits for the flow before it", || async { state().await == "in progress" }).await;
    let told = office.last_operation("i").await;
    assert!(described(&told).contains("held by `example.com/hold`"), "{told:?}");
    rewrite(&shop, "i", |record| record["since"] = 1.into()).await;
    assert_eq!(office.until_ended("i").await, "failed");
    let told = office.last_operation("i").await;
    assert!(described(&told).contains("too long"), "{told:?}");
    assert!(shop.get(Resource::EventActivation, &shop.namespace, "orders-id").await.is_none());
    hold_flow(&shop, "event-flow-o", json!([])).await;
}

#[tokio::test]
async fn an_instance_has_failed_when_nothing_is_left_of_it() {
    let shop = Shop::open("osb-back").await;
    let office = Office::open(&shop, Between::open).await;
    // No EventActivation can have this name; the flow is there already.
    crate::platform::offer_as(&shop, "Not a name").await;
    let mut order = order(&shop.namespace, "o");
    order["service_id"] = "Not a name".into();
    order["plan_id"] = "Not a name-plan".into();
    let mark = json!({names::INSTANCE_ANNOTATION: "i"});
    let meta = json!({"name": "event-flow-o", "annotations": mark, "finalizers": ["example.com/hold"]});
    let flow = json!({"metadata": meta, "spec": {"source": "crm"}});
    shop.create(Resource::EventFlow, &shop.namespace, flow).await;
    until("the service is offered", || async { office.put("i", &order).await.code == 202 }).await;
    until("the flow is taken back", || async {
        shop.flow("event-flow-o").await.is_some_and(|flow| flow.is_deleting())
    })
    .await;
    let state = async || office.last_operation("i").await.body["state"].clone();
    stays("it has not failed as long as something is left", || async { state().await == "in progress" })
        .await;
    hold_flow(&shop, "event-flow-o", json!([])).await;
    assert_eq!(office.until_ended("i").await, "failed");
    assert!(shop.flow("event-flow-o").await.is_none());
}

#[tokio::test]
async fn a_flow_that_cannot_be_deleted_fails_the_deprovisioning_until_it_can() {
    let shop = Shop::open("osb-stuck").await;
    let office = Office::open(&shop, |server| {
        let forbidden = Rejected {
            code: 422,
            reason: "Invalid".to_owned(),
            message: "a webhook says no".to_owned(),
            ..Rejected::default()
        };
        Between::rejects(server, |it| matches!(it, Request::Delete { .. }), forbidden)
    })
    .await;
    let order = order(&shop.namespace, "o");
    operation(&office.put("i", &order).await);
    assert_eq!(office.until_ended("i").await, "succeeded");
    operation(&office.delete("i").await);
    assert_eq!(office.until_ended("i").await, "failed");
    let told = office.last_operation("i").await;
    assert!(described(&told).contains("a webhook says no"), "{told:?}");
    assert_eq!(told.body["instance_usable"], false);
    assert_eq!(row(&office, "i", &order).await, ["422"; 3]);
    assert_eq!(office.patch("i").await.body["instance_usable"], false);
    office.between.relent();
    operation(&office.delete("i").await);
    assert_eq!(office.until_ended("i").await, "410");
    assert!(shop.flow("event-flow-o").await.is_none());
}

#[tokio::test]
async fn a_platform_that_does_not_tell_the_name_of_an_instance_has_one_flow_for_it() {
    let shop = Shop::open("osb-name").await;
    let office = Office::open(&shop, Between::open).await;
    let running = shop.run();
    let mut order = order(&shop.namespace, "-");
    order["context"].as_object_mut().unwrap().remove("instance_name");
    // The cluster shows how it is called.
    let spec = |id: &str| json!({"externalID": id, "serviceClassRef": {"name": "orders-id"}, "servicePlanRef": {"name": "orders-id-plan"}});
    let named = json!({"metadata": {"name": "o"}, "spec": spec("i")});
    shop.create(Resource::ServiceInstance, &shop.namespace, named).await;
    until("the service broker has seen the instance", || async {
        office.put("i", &order).await;
        let ended = office.until_ended("i").await == "succeeded" && shop.flow("event-flow-o").await.is_some();
        if !ended {
            office.delete("i").await;
            office.until_ended("i").await;
        }
        ended
    })
    .await;
    // It shows it only later: the flow is called otherwise, and is the flow of that instance.
    operation(&office.put("j", &order).await);
    assert_eq!(office.until_ended("j").await, "succeeded");
    assert!(shop.flow("event-flow-j").await.is_some());
    let late = json!({"metadata": {"name": "late"}, "spec": spec("j")});
    shop.create(Resource::ServiceInstance, &shop.namespace, late).await;
    for name in ["o", "late"] {
        let instance = shop.get(Resource::ServiceInstance, &shop.namespace, name).await.expect("it exists");
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let status = json!({"provisionStatus": "Provisioned", "conditions": ready});
        crate::knative::set_status(&shop.cluster.server, &instance, status).await;
    }
    shop.until_says("event-flow-j", "Ready", "True").await;
    let lines = kilter_eventflow::combined::ask(&shop.cluster.server).await.expect("it is told");
    let told: Vec<_> = lines.iter().map(|line| (line.instance.as_deref(), line.flow.as_deref())).collect();
    assert_eq!(told, [(Some("late"), Some("event-flow-j")), (Some("o"), Some("event-flow-o"))]);
    // No instance waits for a flow, so the last flow takes the Broker with it, once the platform wants no more of them.
    for name in ["o", "late"] {
        let instance = shop.get(Resource::ServiceInstance, &shop.namespace, name).await.expect("it exists");
        crate::knative::set_status(
            &shop.cluster.server,
            &instance,
            json!({"currentOperation": "Deprovision"}),
        )
        .await;
    }
    until("the controller has seen it", || async {
        running.text("/status").await.matches("Deprovisioning").count() == 2
    })
    .await;
    for instance in ["i", "j"] {
        operation(&office.delete(instance).await);
        assert_eq!(office.until_ended(instance).await, "410");
    }
    assert!(shop.broker().await.is_none());
    running.stop().await;
}

#[tokio::test]
async fn an_instance_that_cannot_be_made_leaves_nothing_and_may_be_deleted() {
    let shop = Shop::open("osb-fail").await;
    let office = Office::open(&shop, Between::open).await;
    let order = order(&shop.namespace, "Not a name");
    operation(&office.put("i", &order).await);
    assert_eq!(office.until_ended("i").await, "failed");
    let told = office.last_operation("i").await;
    assert!(
        told.body["description"].as_str().is_some_and(|it| it.contains("event-flow-Not a name")),
        "{told:?}"
    );
    assert!(shop.get(Resource::EventActivation, &shop.namespace, "orders-id").await.is_none());
    let told = office.patch("i").await;
    assert_eq!((told.code, &told.body["instance_usable"]), (422, &json!(false)));
    let mut other = order.clone();
    other["space_guid"] = "another".into();
    assert_eq!(office.put("i", &other).await.code, 409);
    operation(&office.put("i", &order).await);
    assert_eq!(office.until_ended("i").await, "failed");
    operation(&office.delete("i").await);
    assert_eq!(office.until_ended("i").await, "410");
    // One that could not be removed: the record says so, however it came to it.
    operation(&office.put("j", &self::order(&shop.namespace, "j")).await);
    assert_eq!(office.until_ended("j").await, "succeeded");
    rewrite(&shop, "j", |record| record["stage"] = "deprovision-failed".into()).await;
    assert_eq!(row(&office, "j", &self::order(&shop.namespace, "j")).await, ["422"; 3]);
    operation(&office.delete("j").await);
    assert_eq!(office.until_ended("j").await, "410");
}

#[tokio::test]
async fn a_deletion_during_provisioning_is_taken_and_two_instances_share_an_activation() {
    let shop = Shop::open("osb-cancel").await;
    let applies = |request: &Request| matches!(request, Request::Apply { .. });
    let office = Office::open(&shop, |server| Between::holds(server, applies)).await;
    operation(&office.put("a", &order(&shop.namespace, "a")).await);
    until("the first object is about to be made", || async { office.between.is_held() }).await;
    operation(&office.delete("a").await);
    office.between.let_through();
    assert_eq!(office.until_ended("a").await, "410");
    assert!(shop.flow("event-flow-a").await.is_none());
    let activation = || shop.get(Resource::EventActivation, &shop.namespace, "orders-id");
    assert!(activation().await.is_none());
    for name in ["b", "c"] {
        operation(&office.put(name, &order(&shop.namespace, name)).await);
        assert_eq!(office.until_ended(name).await, "succeeded");
    }
    operation(&office.delete("b").await);
    assert_eq!(office.until_ended("b").await, "410");
    assert!(activation().await.is_some(), "the other instance stands on it");
    operation(&office.delete("c").await);
    assert_eq!(office.until_ended("c").await, "410");
    assert!(activation().await.is_none());
}

#[tokio::test]
async fn a_service_broker_that_dies_behind_any_write_is_retried_into_the_right_state() {
    let shop = Shop::open("osb-die").await;
    // What the flows make true comes and goes with them, whoever dies.
    let running = shop.run();
    let mut deaths = 0;
    loop {
        let (instance, order) = (format!("i{deaths}"), order(&shop.namespace, &format!("o{deaths}")));
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
        let office = Office::open(&shop, Between::open).await;
        let again = office.put(&instance, &order).await;
        assert!([200, 202].contains(&again.code), "{again:?}");
        assert_eq!(office.until_ended(&instance).await, "succeeded", "dead after {deaths}");
        assert!(shop.flow(&format!("event-flow-o{deaths}")).await.is_some());
        drop(office);
        let mortal = Office::open(&shop, |server| Between::dies_after(server, deaths)).await;
        tokio::select! {
            () = async {
                mortal.delete(&instance).await;
                mortal.until_ended(&instance).await;
            } => {}
            () = until("it is dead", || async { mortal.between.is_dead() }) => {}
        }
        let died = died || mortal.between.is_dead();
        drop(mortal);
        let office = Office::open(&shop, Between::open).await;
        let again = office.delete(&instance).await;
        assert!([202, 410].contains(&again.code), "{again:?}");
        assert_eq!(office.until_ended(&instance).await, "410");
        assert!(shop.flow(&format!("event-flow-o{deaths}")).await.is_none(), "dead after {deaths}");
        assert!(shop.get(Resource::EventActivation, &shop.namespace, "orders-id").await.is_none());
        assert!(shop.broker().await.is_none() && shop.subscription().await.is_none(), "dead after {deaths}");
        if !died {
            break;
        }
        deaths += 1;
    }
    running.stop().await;
    assert!(
        deaths >= 5,
        "{deaths}: a record, two objects, the record again; and one who dies before any of them"
    );
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said_before_anything_is_done() {
    let shop = Shop::open("osb-wrong").await;
    let office = Office::open(&shop, Between::open).await;
    let good = order(&shop.namespace, "o");
    let place = "/v2/service_instances/i?accepts_incomplete=true";
    let text = good.to_string();
    for path in ["/v2/catalog", "/v2/service_instances/i", "/v2/service_instances/i/last_operation"] {
        assert_eq!(office.ask_with(&HEADERS[1..], "GET", path, None).await.code, 401, "{path}");
        assert_eq!(office.ask_with(&HEADERS[..1], "GET", path, None).await.code, 412, "{path}");
        let foreign = [HEADERS[0], ("x-broker-api-version", "3.0")];
        assert_eq!(office.ask_with(&foreign, "GET", path, None).await.code, 412, "{path}");
    }
    assert_eq!(office.ask_with(&HEADERS[..2], "PUT", place, Some(&text)).await.code, 400, "no content type");
    assert_eq!(office.ask_with(&HEADERS, "PUT", place, Some("{")).await.code, 400);
    for field in ["service_id", "plan_id", "organization_guid", "space_guid", "context"] {
        let mut body = good.clone();
        body.as_object_mut().unwrap().remove(field);
        assert_eq!(office.put("i", &body).await.code, 400, "{field}");
    }
    for (field, value) in
        [("service_id", json!("no")), ("plan_id", json!("no")), ("parameters", json!({"a": 1}))]
    {
        let mut body = good.clone();
        body[field] = value;
        assert_eq!(office.put("i", &body).await.code, 400, "{field}");
    }
    let mut body = good.clone();
    body["maintenance_info"] = json!({"version": "1.0.0"});
    assert_eq!(office.put("i", &body).await.body["error"], "MaintenanceInfoConflict");
    let told = office.ask("PUT", "/v2/service_instances/i", Some(&good)).await;
    assert_eq!((told.code, told.body["error"].as_str()), (422, Some("AsyncRequired")));
    let told = office.ask("DELETE", "/v2/service_instances/i?accepts_incomplete=true", None).await;
    assert_eq!(told.code, 400);
    let hints = "service_id=orders-id&plan_id=orders-id-plan";
    assert_eq!(office.ask("DELETE", &format!("/v2/service_instances/i?{hints}"), None).await.code, 422);
    for identity in ["kubernetes", "kubernetes !", "cloudfoundry eyJ1c2VybmFtZSI6ImFubiJ9"] {
        let headers = [&HEADERS[..], &[("x-broker-api-originating-identity", identity)]].concat();
        assert_eq!(office.ask_with(&headers, "PUT", place, Some(&text)).await.code, 400, "{identity}");
    }
    assert_eq!(office.last_operation("i").await.code, 404, "nothing was done");
    let bindings = "/v2/service_instances/i/service_bindings/b";
    assert_eq!(office.ask("PUT", bindings, Some(&good)).await.code, 400);
    assert_eq!(office.ask("GET", bindings, None).await.code, 404);
    assert_eq!(office.ask("DELETE", bindings, None).await.code, 400, "of which service and plan?");
    assert_eq!(office.ask("DELETE", &format!("{bindings}?{hints}"), None).await.code, 410);
    assert_eq!(office.ask("GET", "/elsewhere", None).await.code, 404);
    let who = [
        ("x-broker-api-originating-identity", "kubernetes eyJ1c2VybmFtZSI6ImFubiJ9"),
        ("x-broker-api-request-identity", "r1"),
    ];
    let headers = [&HEADERS[..], &who].concat();
    let told = office.ask_with(&headers, "PUT", place, Some(&text)).await;
    assert_eq!((told.code, told.headers["x-broker-api-request-identity"].to_str().unwrap()), (202, "r1"));
    let record = format!("/api/v1/namespaces/{}/configmaps/{}", shop.integration, names::record("i"));
    let known = shop.cluster.call("GET", &record, "application/json", None).await;
    assert!(known["data"]["record"].as_str().unwrap().contains("\"username\":\"ann\""));
}
