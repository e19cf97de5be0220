//! Random lives of publishers and subscribers: `simulate [--seeds COUNT] [--seed FIRST] [--jobs THREADS]`.
//!
//! The lives are those of the test `the_guarantees_hold_in_thousands_of_random_lives`; `cargo xtask simulate --subject
//! pubsub` runs this program in release mode.

#![expect(clippy::print_stdout, reason = "the result is the output")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

#[path = "../tests/protocol/simulation/mod.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "it is a part of the tests")]
mod simulation;

use simulation::random::{live, told};

const USAGE: &str = "usage: simulate [--seeds COUNT] [--seed FIRST] [--jobs THREADS]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let (mut count, mut first, mut jobs) = (20_000_u64, 0_u64, cores);
    for pair in arguments.chunks(2) {
        let number = pair.get(1).and_then(|number| number.replace('_', "").parse().ok());
        match (pair[0].as_str(), number) {
            ("--seeds", Some(number)) => count = number,
            ("--seed", Some(number)) => first = number,
            ("--jobs", Some(number)) => jobs = number,
            _ => {
                println!("{USAGE}");
                return ExitCode::from(if pair[0] == "--help" { 0 } else { 2 });
            }
        }
    }
    let end = first.saturating_add(count);
    let (next, broken) = (AtomicU64::new(first), AtomicU64::new(end));
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= broken.load(Ordering::Relaxed) {
                        return;
                    }
                    if live(seed, false).is_err() {
                        broken.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let broken = broken.into_inner();
    if broken < end {
        println!("{}", told(broken));
        return ExitCode::FAILURE;
    }
    println!("{count} lives from seed {first} on: every guarantee held");
    ExitCode::SUCCESS
}
