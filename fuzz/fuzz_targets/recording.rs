//! Any lines as a recording: replaying them ends with an error or with a run, and never with a panic.
#![no_main]

use kilter_events::Line;
use kilter_testkit::house::random::lived;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let lines: Result<Vec<Line>, _> = text.lines().map(serde_json::from_str).collect();
    if let Ok(lines) = lines {
        let house = lived(&[]).expect("nothing has happened");
        let _ = house.replay(lines);
    }
});
