//! Random event sequences with random failures and panics. What must hold in all of them is in
//! [`kilter_testkit::house::random`]: exactly-once completion, no follow-up overtaken, no trace of a reverted event in
//! handlers or world, an empty verification after convergence, and a replay with the same plans and graph.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kilter_testkit::Dice;
use kilter_testkit::house::random::{Happening, history, lived, run};
use kilter_testkit::simulate::shorten;

/// How many sequences are run.
const SEEDS: u64 = 2000;

fn broken(list: &[Happening]) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| run(list))) {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(payload) => {
            let text = payload.downcast_ref::<String>().cloned();
            Some(text.unwrap_or_else(|| "a panic that nobody planned".to_owned()))
        }
    }
}

#[test]
fn every_property_holds_in_random_sequences() {
    let first = std::env::var("EVENTS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for seed in first..first + SEEDS {
        let list = history(seed);
        if broken(&list).is_none() {
            continue;
        }
        let short = shorten(list, |list| broken(list).is_some());
        let what = broken(&short).unwrap_or_default();
        let lines: Vec<String> = short.iter().map(ToString::to_string).collect();
        panic!("seed {seed}: {what}\nafter\n{}", lines.join("\n"));
    }
}

/// A recording may be cut off, or come from another version: that is an error with a line, never a panic.
#[test]
fn a_damaged_recording_is_an_error() {
    let mut dice = Dice::new(7);
    let mut refused = 0;
    for seed in 0..60 {
        let house = lived(&history(seed)).unwrap();
        let lines = house.recording();
        for _ in 0..10 {
            let mut damaged = lines.clone();
            let at = dice.below(damaged.len());
            match dice.below(3) {
                0 => {
                    damaged.remove(at);
                }
                1 => damaged.insert(at, lines[dice.below(lines.len())].clone()),
                _ => damaged.swap(at, dice.below(lines.len())),
            }
            refused += usize::from(house.replay(damaged).is_err());
        }
    }
    assert!(refused > 100, "only {refused} damaged recordings were found out");
}
