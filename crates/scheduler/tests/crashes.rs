//! An agent that is stopped anywhere and started anew ends up where it would have ended up.
//!
//! Every script under `scenarios/` is stopped before and after each of its operations; see
//! [`kilter_testkit::scenario::crash`] for what is compared.

use std::fs;
use std::path::Path;

use kilter_testkit::scenario::crash::survives_every_crash;

#[test]
fn crash_at_any_operation_changes_nothing_in_the_end() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let (mut crashes, mut broken) = (0, Vec::new());
    for path in &paths {
        let name = path.file_name().unwrap().to_string_lossy();
        match survives_every_crash(&fs::read_to_string(path).unwrap()) {
            Ok(survived) => crashes += survived,
            Err(error) => broken.push(format!("{name}: {error}")),
        }
    }
    assert!(broken.is_empty(), "{} of {} scripts:\n{}", broken.len(), paths.len(), broken.join("\n"));
    assert!(
        crashes > 10 * paths.len(),
        "{crashes} crashes in {} scripts are too few to mean anything",
        paths.len()
    );
}
