//! The schema for editors says the same as the check: examples pass it, broken documents of the simple sort do not.

use jsonschema::Validator;
use kilter_model::KINDS;
use kilter_model::document::{Source, read};
use kilter_model::export::to_json;
use kilter_model::schema::schema;
use serde_json::{Value, json};

fn validator() -> Validator {
    jsonschema::draft202012::options().build(&schema()).expect("the schema is one")
}

fn documents() -> Vec<(String, String)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["tests/accepted", "examples/documents"];
    let files =
        folders.iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).expect("the folder is there"));
    files
        .map(|entry| {
            let path = entry.expect("the folder can be read").path();
            (path.display().to_string(), std::fs::read_to_string(&path).expect("a document is text"))
        })
        .collect()
}

#[test]
fn every_accepted_document_passes_the_schema() {
    let validator = validator();
    let mut kinds = std::collections::BTreeSet::new();
    for (name, text) in documents() {
        for item in read(&[Source::new(&name, text)]).unwrap() {
            let json = to_json(&item.value).unwrap();
            kinds.insert(item.kind);
            let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{name}: {json}\n{errors:?}");
        }
    }
    assert_eq!(kinds.len(), KINDS.len(), "every kind is in an accepted document");
}

#[test]
fn a_list_of_items_passes_the_schema() {
    let list = json!([{ "kind": "netns", "name": "blue" }, { "kind": "dummy", "name": "d0" }]);
    assert!(validator().is_valid(&list));
    assert!(!validator().is_valid(&json!([{ "kind": "netns", "nmae": "blue" }])));
}

#[test]
fn what_is_broken_by_itself_fails_the_schema() {
    let refused: &[Value] = &[
        json!({ "kind": "netnss", "name": "blue" }),
        json!({ "name": "blue" }),
        json!({ "kind": "netns" }),
        json!({ "kind": "dummy", "name": "averyverylongname" }),
        json!({ "kind": "dummy", "name": "d0", "mtu": 20 }),
        json!({ "kind": "dummy", "name": "d0", "mtu": null }),
        json!({ "kind": "dummy", "name": "d0", "vni": 5 }),
        json!({ "kind": "dummy", "name": "d0", "state": "upp" }),
        json!({ "kind": "vlan", "name": "v", "link": "eth0", "id": 4095 }),
        json!({ "kind": "vlan", "name": "v", "id": 5 }),
        json!({ "kind": "bridge", "name": "b", "ports": [{ "link": "a", "hairpn": true }] }),
        json!({ "kind": "veth", "name": "a", "peer": { "name": "b", "colour": "red" } }),
        json!({ "kind": "route", "destination": "10.0.0.0/8", "link": "eth0", "table": "mian" }),
    ];
    let validator = validator();
    for json in refused {
        assert!(!validator.is_valid(json), "{json}");
        assert!(read(&[Source::new("broken", json.to_string())]).is_err(), "{json}");
    }
}
