//! What is installed is what is written down.

use std::path::Path;

use kilter_eventflow::manifest::{Installation, manifests, to_yaml};

#[test]
fn the_manifests_are_those_in_packaging() {
    let text = to_yaml(&manifests(&Installation::default())).expect("they can be written");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/eventflow.yaml");
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(&path, &text).expect("the file can be written");
    }
    let written = std::fs::read_to_string(&path).expect("the file is there");
    assert!(text == written, "hint: UPDATE_GOLDENFILES=1 cargo test -p kilter-eventflow");
}

#[test]
fn the_controller_may_write_only_what_it_keeps() {
    let all = manifests(&Installation::default());
    let role = all.iter().find(|it| it["kind"] == "ClusterRole").expect("there is one");
    let may = |verb: &str, resource: &str| {
        role["rules"].as_array().unwrap().iter().any(|rule| {
            let has = |field: &str, word: &str| rule[field].as_array().unwrap().iter().any(|it| it == word);
            has("resources", resource) && has("verbs", verb)
        })
    };
    assert!(may("patch", "namespaces") && may("delete", "brokers") && may("patch", "eventflows/status"));
    assert!(!may("delete", "namespaces") && !may("delete", "eventflows") && !may("patch", "services"));
}

#[test]
fn the_service_broker_may_write_only_flows_activations_and_its_records() {
    let all = manifests(&Installation::default());
    let named = |kind: &str| {
        all.iter().find(|it| it["kind"] == kind && it["metadata"]["name"] == "kilter-eventflow-broker")
    };
    let rules = |kind: &str| named(kind).expect("there is one")["rules"].as_array().unwrap().clone();
    let writes = |rule: &serde_json::Value| {
        let verbs = rule["verbs"].as_array().unwrap();
        verbs.iter().any(|verb| ["create", "patch", "update", "delete"].contains(&verb.as_str().unwrap()))
    };
    let written = |kind: &str| -> Vec<String> {
        rules(kind).iter().filter(|rule| writes(rule)).map(|rule| rule["resources"][0].to_string()).collect()
    };
    assert_eq!(written("ClusterRole"), ["\"eventflows\"", "\"eventactivations\""]);
    assert_eq!(written("Role"), ["\"configmaps\"", "\"leases\""]);
}
