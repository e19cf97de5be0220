//! Every file under `scenarios/` is one claim about the event loop, and one test.
//!
//! `UPDATE_GOLDENFILES=1` writes the outputs; look at the difference before believing it.

use std::path::Path;

use test_each_file::test_each_path;

test_each_path! { in "./crates/events/tests/scenarios" as claims => run }

fn run(path: &Path) {
    if let Err(error) = kilter_testkit::house::run(path) {
        panic!("{error}");
    }
}
