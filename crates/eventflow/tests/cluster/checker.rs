//! The service broker against what others hold service brokers to: the cases of the public checker of the API, and a
//! property tester that asks everything that our description describes.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};

use crate::between::Between;
use crate::platform::{HEADERS, Office, order};
use crate::shop::Shop;

const INSTANCE: &str = "/v2/service_instances/i";
const HINTS: &str = "service_id=orders-id&plan_id=orders-id-plan";

/// Every operation of the API, each as it would be answered well.
fn operations() -> Vec<(&'static str, String)> {
    let binding = format!("{INSTANCE}/service_bindings/b");
    vec![
        ("GET", "/v2/catalog".to_owned()),
        ("PUT", format!("{INSTANCE}?accepts_incomplete=true")),
        ("GET", INSTANCE.to_owned()),
        ("PATCH", format!("{INSTANCE}?accepts_incomplete=true")),
        ("DELETE", format!("{INSTANCE}?{HINTS}&accepts_incomplete=true")),
        ("GET", format!("{INSTANCE}/last_operation?{HINTS}")),
        ("PUT", binding.clone()),
        ("GET", binding.clone()),
        ("DELETE", format!("{binding}?{HINTS}")),
        ("GET", format!("{binding}/last_operation")),
    ]
}

#[tokio::test]
async fn the_cases_of_the_public_checker_hold() {
    let shop = Shop::open("checker").await;
    let office = Office::open(&shop, Between::open).await;
    let good = order(&shop.namespace, "o");
    let text = good.to_string();
    // Every operation asks who it is and in which version, in this order.
    for (method, path) in operations() {
        let ask =
            async |headers: &[(&str, &str)]| office.ask_with(headers, method, &path, Some(&text)).await.code;
        let wrong = [("authorization", "Basic d3Jvbmc6d3Jvbmc="), HEADERS[1], HEADERS[2]];
        assert_eq!(ask(&HEADERS[1..]).await, 401, "{method} {path} without credentials");
        assert_eq!(ask(&wrong).await, 401, "{method} {path} with wrong credentials");
        assert_eq!(ask(&[HEADERS[0], HEADERS[2]]).await, 412, "{method} {path} without a version");
        for version in ["1.0", "2.5", "3.1", "two"] {
            let headers = [HEADERS[0], ("x-broker-api-version", version), HEADERS[2]];
            assert_eq!(ask(&headers).await, 412, "{method} {path} in version {version}");
        }
    }
    // The catalog.
    let catalog = office.ask("GET", "/v2/catalog", None).await;
    assert_eq!(catalog.code, 200);
    for service in catalog.body["services"].as_array().expect("it is a list") {
        for field in ["id", "name", "description", "bindable", "plans"] {
            assert!(!service[field].is_null(), "{field} of {service}");
        }
        let plans = service["plans"].as_array().expect("it is a list");
        assert!(
            !plans.is_empty() && plans.iter().all(|plan| plan["id"].is_string() && plan["name"].is_string())
        );
    }
    // An order that cannot be.
    for field in ["service_id", "plan_id", "organization_guid", "space_guid"] {
        for value in [None, Some(json!("")), Some(json!(7))] {
            let mut body = good.clone();
            match &value {
                None => drop(body.as_object_mut().unwrap().remove(field)),
                Some(value) => body[field] = value.clone(),
            }
            assert_eq!(office.put("i", &body).await.code, 400, "{field} is {value:?}");
        }
    }
    for (field, value) in
        [("service_id", json!("no")), ("plan_id", json!("no")), ("parameters", json!({"surprise": 1}))]
    {
        let mut body = good.clone();
        body[field] = value;
        assert_eq!(office.put("i", &body).await.code, 400, "{field}");
    }
    for hint in ["", "?accepts_incomplete=false"] {
        let told = office.ask("PUT", &format!("{INSTANCE}{hint}"), Some(&good)).await;
        assert_eq!((told.code, told.body["error"].as_str()), (422, Some("AsyncRequired")));
    }
    // An order, polled, and told again.
    assert_eq!(office.put("i", &good).await.code, 202);
    assert_eq!(office.until_ended("i").await, "succeeded");
    assert_eq!(office.put("i", &good).await.code, 200);
    for field in ["organization_guid", "space_guid"] {
        let mut body = good.clone();
        body[field] = "another".into();
        assert_eq!(office.put("i", &body).await.code, 409, "{field}");
    }
    // A change.
    let change = async |body: &Json| {
        office.ask("PATCH", &format!("{INSTANCE}?accepts_incomplete=true"), Some(body)).await
    };
    assert_eq!(change(&json!({})).await.code, 400, "a change names its service");
    assert_eq!(change(&json!({"service_id": "orders-id"})).await.code, 200);
    let told = change(&json!({"service_id": "orders-id", "plan_id": "another"})).await;
    assert_eq!((told.code, &told.body["instance_usable"]), (422, &json!(true)));
    // The end.
    for hints in ["", "service_id=orders-id", "plan_id=orders-id-plan"] {
        let path = format!("{INSTANCE}?{hints}&accepts_incomplete=true");
        assert_eq!(office.ask("DELETE", &path, None).await.code, 400, "`{hints}`");
    }
    let told = office.ask("DELETE", &format!("{INSTANCE}?{HINTS}"), None).await;
    assert_eq!((told.code, told.body["error"].as_str()), (422, Some("AsyncRequired")));
    assert_eq!(office.delete("i").await.code, 202);
    assert_eq!(office.until_ended("i").await, "410");
    assert_eq!(office.delete("i").await.code, 410);
    assert_eq!(office.delete("never-was").await.code, 410);
}

/// The tester, where `cargo xtask test` puts it.
fn tester() -> std::path::PathBuf {
    let tester = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/schemathesis/bin/schemathesis");
    assert!(tester.is_file(), "`{}` is missing, hint: cargo xtask openapi installs it", tester.display());
    tester
}

/// What version 2.17 of the API answers to each operation that it has, as far as it says so for each.
const ALLOWED: [(&str, &str, &[u16]); 10] = [
    ("/v2/catalog", "get", &[200]),
    ("/v2/service_instances/{}", "put", &[200, 201, 202, 400, 409, 422]),
    ("/v2/service_instances/{}", "get", &[200, 404, 422]),
    ("/v2/service_instances/{}", "patch", &[200, 202, 400, 422]),
    ("/v2/service_instances/{}", "delete", &[200, 202, 400, 410, 422]),
    ("/v2/service_instances/{}/last_operation", "get", &[200, 400, 404, 410]),
    ("/v2/service_instances/{}/service_bindings/{}", "put", &[200, 201, 202, 400, 409, 422]),
    ("/v2/service_instances/{}/service_bindings/{}", "get", &[200, 404]),
    ("/v2/service_instances/{}/service_bindings/{}", "delete", &[200, 202, 400, 410, 422]),
    ("/v2/service_instances/{}/service_bindings/{}/last_operation", "get", &[200, 400, 404, 410]),
];

/// What it answers to any of them: what cannot be read, who is not known, versions that are not spoken, our own faults.
const ANYWHERE: [u16; 4] = [400, 401, 412, 500];

/// Where we say more than it does: an instance that is gone cannot be changed.
const AMENDED: [(&str, &str, u16); 1] = [("/v2/service_instances/{}", "patch", 404)];

/// A path without the names of what stands in it.
fn bare(path: &str) -> String {
    let bare = |part: &str| if part.starts_with('{') { "{}".to_owned() } else { part.to_owned() };
    path.split('/').map(bare).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn every_operation_of_the_api_is_described_with_answers_that_it_allows() {
    let shop = Shop::open("allowed").await;
    let office = Office::open(&shop, Between::open).await;
    let description = office.ask("GET", "/openapi.json", None).await.body;
    let paths = description["paths"].as_object().expect("there are paths");
    let mut found = 0;
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().expect("they are operations") {
            found += 1;
            let is_it = |(known, verb, _): &&(&str, &str, &[u16])| *known == bare(path) && verb == method;
            let (_, _, codes) = ALLOWED.iter().find(is_it).expect("the API has this operation");
            for code in operation["responses"].as_object().expect("there are answers").keys() {
                let code: u16 = code.parse().expect("it is a number");
                let is_amended = AMENDED.contains(&(bare(path).as_str(), method, code));
                let is_allowed = codes.contains(&code) || ANYWHERE.contains(&code) || is_amended;
                assert!(is_allowed, "{method} {path} must not be answered with {code}");
            }
        }
    }
    assert_eq!(found, ALLOWED.len(), "every operation is there");
    let order = &description["paths"]["/v2/service_instances/{instance}"]["put"]["requestBody"];
    let required = &order["content"]["application/json"]["schema"]["required"];
    let needs = |field: &str| required.as_array().is_some_and(|all| all.iter().any(|it| it == field));
    let fields = ["service_id", "plan_id", "organization_guid", "space_guid"];
    assert!(fields.into_iter().all(needs), "{required}");
}

/// Has everything that is described asked; what the tester says.
async fn examine(office: &Office, description: &Json, examples: &str) {
    let place = tempfile::tempdir().expect("a folder can be made");
    let file = place.path().join("openapi.json");
    std::fs::write(&file, description.to_string()).expect("it can be written");
    // A tester that does not end is ended.
    let mut command = Command::new("timeout");
    command.arg("600").arg(tester()).arg("run").arg(&file).args([
        "--url",
        &office.address,
        "--seed",
        "1",
        "--max-examples",
        examples,
    ]);
    command.args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"]);
    command.args(["--checks", "response_schema_conformance,unsupported_method,ignored_auth"]);
    command.args(["--header", &format!("Authorization: {}", HEADERS[0].1)]);
    command.args(["--phases", "coverage,fuzzing", "--workers", "1", "--no-color", "--warnings", "off"]);
    command.args(["--generation-database", "none", "--continue-on-failure", "--request-timeout", "30"]);
    command.args(["--suppress-health-check", "filter_too_much,too_slow"]);
    command.current_dir(place.path()).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.expect("it ends").expect("it starts");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("10 / 10") || told.contains("Tested: 10"), "every operation is asked:\n{told}");
}

/// The description, with values that lead somewhere: two instances of what is offered, in a namespace that there is.
fn seeded(mut description: Json, namespace: &str) -> Json {
    let instance = description["paths"]["/v2/service_instances/{instance}"].take();
    let mut instance = instance;
    for method in ["put", "get", "patch", "delete"] {
        for parameter in instance[method]["parameters"].as_array_mut().expect("there are parameters") {
            let values = match parameter["name"].as_str() {
                Some("instance") => json!(["i", "j"]),
                Some("accepts_incomplete") => json!([true]),
                Some("service_id") => json!(["orders-id"]),
                Some("plan_id") => json!(["orders-id-plan"]),
                _ => continue,
            };
            parameter["required"] = true.into();
            parameter["schema"]["enum"] = values;
        }
    }
    for method in ["put", "patch"] {
        let fields =
            &mut instance[method]["requestBody"]["content"]["application/json"]["schema"]["properties"];
        for (field, values) in [
            ("service_id", json!(["orders-id"])),
            ("plan_id", json!(["orders-id-plan"])),
            ("organization_guid", json!(["one", "other"])),
            ("space_guid", json!(["space"])),
        ] {
            if fields[field].is_object() {
                fields[field]["enum"] = values;
            }
        }
        let fields = fields.as_object_mut().expect("there are fields");
        fields.remove("parameters");
        fields.remove("maintenance_info");
        if let Some(context) = fields.get_mut("context") {
            context["properties"] = json!({"namespace": {"type": "string", "enum": [namespace]}});
        }
    }
    description["paths"]["/v2/service_instances/{instance}"] = instance;
    description
}

#[tokio::test]
async fn a_property_tester_finds_no_answer_that_is_not_described() {
    let shop = Shop::open("described").await;
    let office = Office::open(&shop, Between::open).await;
    let description = office.ask("GET", "/openapi.json", None).await.body;
    examine(&office, &description, "10").await;
    // Once more, with what can be had: orders are taken, told again, and contradicted.
    let answers = async || {
        let numbers = office.text("/metrics").await;
        let code = |line: &str| {
            let rest = line.strip_prefix("kilter_eventflow_broker_answers_total{code=\"")?;
            Some(rest.split('"').next()?.to_owned())
        };
        numbers.lines().filter_map(code).collect::<Vec<_>>()
    };
    examine(&office, &seeded(description, &shop.namespace), "20").await;
    let reached = answers().await;
    for code in ["200", "202", "400", "409", "422"] {
        assert!(reached.iter().any(|it| it == code), "{code} is not among {reached:?}");
    }
}
