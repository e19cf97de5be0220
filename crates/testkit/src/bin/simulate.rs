//! Runs random histories against the reference model: `simulate --seeds COUNT [--seed FIRST] [--jobs THREADS]`.

#![expect(clippy::print_stdout, reason = "the result is the output")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use kilter_testkit::simulate::{history, run, script, shrink};

const USAGE: &str = "usage: simulate [--seeds COUNT] [--seed FIRST] [--jobs THREADS]";

/// How many histories a thread takes at a time.
const BLOCK: u64 = 64;

struct Asked {
    count: u64,
    first: u64,
    jobs: u64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some(Asked { count, first, jobs }) = asked(&arguments) else {
        println!("{USAGE}");
        return ExitCode::from(2);
    };
    // A broken property is reported once, short; the way there is of no interest.
    std::panic::set_hook(Box::new(|_| {}));
    let Some(seed) = first_broken(first, first.saturating_add(count), jobs) else {
        println!("{count} histories from seed {first} on: every property held");
        return ExitCode::SUCCESS;
    };
    let commands = history(seed);
    let traced = std::env::var_os("SIMULATE_TRACE").is_some();
    let short = if traced { commands } else { shrink(commands) };
    let broken = run(&short).expect_err("the short history fails too");
    println!("seed {seed}: {}\nafter line {} of\n\n{}", broken.what, broken.after + 1, script(&short));
    println!("run it again with: cargo xtask simulate --seed {seed} --seeds 1");
    ExitCode::FAILURE
}

fn asked(arguments: &[String]) -> Option<Asked> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let mut asked = Asked { count: 20_000, first: 0, jobs: cores };
    for pair in arguments.chunks(2) {
        let [option, number] = pair else { return None };
        let number = number.replace('_', "").parse().ok()?;
        match option.as_str() {
            "--seeds" => asked.count = number,
            "--seed" => asked.first = number,
            "--jobs" => asked.jobs = number,
            _ => return None,
        }
    }
    Some(asked)
}

/// The first seed whose history breaks a property.
fn first_broken(first: u64, end: u64, jobs: u64) -> Option<u64> {
    let next = AtomicU64::new(first);
    let broken = AtomicU64::new(end);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let from = next.fetch_add(BLOCK, Ordering::Relaxed);
                    // Blocks behind a broken one need not be run; those before it must be.
                    if from >= broken.load(Ordering::Relaxed) {
                        return;
                    }
                    let found = (from..(from + BLOCK).min(end)).find(|seed| run(&history(*seed)).is_err());
                    if let Some(seed) = found {
                        broken.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    Some(broken.into_inner()).filter(|seed| *seed < end)
}
