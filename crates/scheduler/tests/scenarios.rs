//! Every file under `scenarios/` is one claim about the scheduler, and one test.
//!
//! `UPDATE_GOLDENFILES=1` writes the outputs; look at the difference before believing it.

use std::fs;
use std::path::Path;
use std::process::Command;

use test_each_file::test_each_path;

test_each_path! { in "./crates/scheduler/tests/scenarios" as claims => run }

fn run(path: &Path) {
    if let Err(error) = kilter_testkit::scenario::run(path) {
        panic!("{error}");
    }
}

fn scripts() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let entries = fs::read_dir(folder).expect("the folder of the scripts is there");
    entries
        .map(|entry| {
            let entry = entry.expect("the folder can be read");
            let name = entry.file_name().into_string().expect("the name is plain text");
            (name, fs::read_to_string(entry.path()).expect("a script is plain text"))
        })
        .collect()
}

#[test]
fn every_script_states_one_claim_on_one_screen() {
    for (name, text) in scripts() {
        let plain = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        assert!(plain, "`{name}`: the name is a claim in small letters, without numbers");
        let first = text.lines().next().unwrap_or_default();
        let is_claim = first.starts_with("# ") && first.ends_with('.');
        assert!(is_claim, "`{name}`: the first line is the claim as a sentence");
        assert!(text.lines().count() <= 30, "`{name}`: more than 30 lines");
    }
}

/// The tests are made when this file is compiled; a script added later would not run.
#[test]
fn every_script_is_a_test() {
    let listed = Command::new(std::env::current_exe().unwrap()).arg("--list").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for (name, _) in scripts() {
        let test = format!("claims::{name}: test");
        assert!(listed.contains(&test), "`{name}` is not compiled in: touch tests/scenarios.rs");
    }
}
