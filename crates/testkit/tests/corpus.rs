//! The seed corpus of the fuzz target `transactions` holds every property, also where nobody fuzzes.

use std::fs;
use std::path::Path;

use kilter_testkit::simulate::{decode, run, script};

#[test]
fn every_seed_of_the_fuzzer_holds_every_property() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/transactions");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 20, "the seeds are there");
    for path in paths {
        let commands = decode(&fs::read(&path).unwrap());
        assert!(!commands.is_empty(), "{} says nothing", path.display());
        if let Err(broken) = run(&commands) {
            let (path, line) = (path.display(), broken.after + 1);
            panic!("{path}: {}\nafter line {line} of\n\n{}", broken.what, script(&commands));
        }
    }
}
