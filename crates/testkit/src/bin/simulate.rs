//! Runs random histories against the reference model: `simulate --seeds COUNT [--seed FIRST]`.

#![expect(clippy::print_stdout, reason = "the result is the output")]

use std::process::ExitCode;

use kilter_testkit::simulate::{history, run, script, shrink};

fn main() -> ExitCode {
    let (mut count, mut first) = (20_000_u64, 0_u64);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let number = arguments.next().and_then(|text| text.replace('_', "").parse().ok());
        match (argument.as_str(), number) {
            ("--seeds", Some(number)) => count = number,
            ("--seed", Some(number)) => first = number,
            _ => {
                println!("usage: simulate [--seeds COUNT] [--seed FIRST]");
                return ExitCode::from(2);
            }
        }
    }
    // A broken property is reported once, short; the way there is of no interest.
    let traced = std::env::var_os("SIMULATE_TRACE").is_some();
    std::panic::set_hook(Box::new(|_| {}));
    for seed in first..first + count {
        let commands = history(seed);
        if run(&commands).is_ok() {
            continue;
        }
        let short = if traced { commands } else { shrink(commands) };
        let broken = run(&short).expect_err("the short history fails too");
        println!("seed {seed}: {}\nafter line {} of\n\n{}", broken.what, broken.after + 1, script(&short));
        println!("run it again with: cargo xtask simulate --seed {seed} --seeds 1");
        return ExitCode::FAILURE;
    }
    println!("{count} histories from seed {first} on: every property held");
    ExitCode::SUCCESS
}
