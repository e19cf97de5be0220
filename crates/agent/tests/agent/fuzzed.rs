//! The seeds of the northbound fuzzer hold without one, and leave nothing out that can be asked.

#[path = "../../../../fuzz/fuzz_targets/northbound/ask.rs"]
mod ask;

use kilter_agent::northbound::{self, rest};
use kilter_api::v1::FILES;
use prost_types::FileDescriptorSet;

use self::ask::{Went, ask};
use crate::house::House;
use crate::http::PATIENCE;
use crate::served::settings;

/// The seeds by name.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/northbound");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let seeds =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()));
    let mut seeds: Vec<_> = seeds.collect();
    seeds.sort();
    seeds
}

#[tokio::test]
async fn every_seed_of_the_northbound_fuzzer_is_answered_as_promised() {
    let mut well = 0;
    for (name, bytes) in seeds() {
        let house = House::start();
        house.apply("site", &["a/1 v=1", "b/1 on=a/1"]).await.unwrap();
        let settings = settings(None);
        let door = northbound::door(&settings).unwrap();
        let router = northbound::router(door, None, settings.limits, house.desk.clone()).await.unwrap();
        let went = ask(&router, "operator's secret", &bytes, PATIENCE).await;
        assert!(!matches!(went, Went::Unasked | Went::Waits), "{name}: {went:?}");
        well += usize::from(matches!(went, Went::Rest(status) if status.is_success()));
        assert!(house.desk.inquire(|_| ()).await.is_ok(), "{name} ends the agent");
        drop(router);
        house.end().await;
    }
    assert!(well > 30, "only {well} seeds of REST are good requests");
}

#[test]
fn every_route_and_every_method_has_a_seed() {
    let seeds = seeds();
    let line = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().to_owned();
    let lines: Vec<String> = seeds.iter().map(|(_, bytes)| line(bytes)).collect();
    let description = rest::description();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            let (before, after) = path.split_once('{').unwrap_or((path, ""));
            let begins = format!("{} {before}", method.to_uppercase());
            let is_it = |line: &String| {
                let rest = line.strip_prefix(&begins);
                rest.is_some_and(|rest| !after.is_empty() || rest.is_empty() || rest.starts_with('?'))
            };
            assert!(lines.iter().any(is_it), "{method} {path} has no seed");
        }
    }
    let files = <FileDescriptorSet as prost::Message>::decode(FILES).unwrap();
    let mut methods = 0;
    for file in files.file.iter().filter(|file| file.package() == "kilter.v1") {
        for service in &file.service {
            for method in &service.method {
                let asked = format!("kilter.v1.{}/{}", service.name(), method.name());
                assert!(lines.contains(&asked), "{asked} has no seed");
                methods += 1;
            }
        }
    }
    assert!(methods > 20);
}

#[test]
fn the_house_of_the_fuzzer_stands_alone() {
    // `fuzz/fuzz_targets/northbound.rs` builds that file by itself, and no other test does.
    assert!(!include_str!("house.rs").contains("crate::"), "another file of these tests is used there");
}
