//! The seed corpus of the fuzz target `recording` replays, also where nobody fuzzes.

use std::fs;
use std::path::Path;

use kilter_events::Line;
use kilter_testkit::house::random::lived;

#[test]
fn every_recorded_run_of_the_corpus_replays() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/recording");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "the runs are there");
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<Line> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        if let Err(error) = lived(&[]).unwrap().replay(lines) {
            panic!("{}: {error}", path.display());
        }
    }
}
