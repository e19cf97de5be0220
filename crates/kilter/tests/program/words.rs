//! The verbs that need no agent.

use std::io::Read as _;
use std::process::Stdio;

use crate::golden::hold;
use crate::program::{kilter, kilter_alone, run};

#[test]
fn check_counts_what_is_declared() {
    let ended = run(kilter(&["check", "examples/lab"]));
    assert_eq!(ended.stdout, "18 items: 1 bridge, 4 netns, 1 nftables, 4 route, 2 sysctl, 6 veth\n");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_file_that_is_not_there_is_invalid() {
    let ended = run(kilter(&["check", "nowhere.yaml"]));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(8), ""));
    let told = "error: the documents cannot be read: failed to read `nowhere.yaml`: No such file or directory (os error 2)\n";
    assert_eq!(ended.stderr, told);
}

#[test]
fn a_plan_is_also_for_programs() {
    let ended = run(kilter_alone(&["plan", "examples/lab", "-o", "json"]));
    let plan: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    // What says nothing to a person is there too, and marked.
    let told = plan["steps"].as_array().unwrap().iter().filter(|step| step["quiet"] != true);
    assert_eq!(told.count(), 35);
    assert_eq!(plan["steps"][0]["key"], "linux/netns/left");
    assert_eq!(plan["hash"].as_str().unwrap().len(), 64);
    // Whoever takes it for the plan of this machine is told so, also where nobody looks on.
    assert_eq!(ended.stderr, "no agent is there: this is the plan for an empty machine\n");
    let offline = run(kilter_alone(&["plan", "examples/lab", "--offline", "-o", "json"]));
    assert_eq!((offline.stdout, offline.stderr.as_str()), (ended.stdout, ""));
}

#[test]
fn schema_kinds_and_completions_are_known_by_heart() {
    for (line, file) in
        [("schema", "schema.json"), ("kinds", "kinds"), ("completions bash", "completions.bash")]
    {
        let ended = run(kilter(&line.split(' ').collect::<Vec<_>>()));
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        hold(file, &ended.stdout);
    }
    for shell in ["zsh", "fish"] {
        let completions = run(kilter(&["completions", shell])).stdout;
        assert!(completions.contains("sandbox"), "{shell}: {completions}");
    }
}

#[test]
fn what_cannot_be_understood_is_a_matter_of_usage() {
    let ended = run(kilter(&["upp", "examples/lab"]));
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("'up'"), "{}", ended.stderr);
    assert_eq!(run(kilter(&["--help"])).code, Some(0));
}

#[test]
fn a_reader_who_goes_away_is_no_error() {
    let mut child = kilter(&["schema"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 1]).unwrap();
    drop(stdout);
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &[] as &[u8]));
}

#[test]
fn the_manifests_of_eventflow_are_the_packaged_ones() {
    let ended = run(kilter(&["eventflow", "manifests"]));
    let packaged = include_str!("../../../../packaging/eventflow.yaml");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), packaged));
}
