//! `cargo xtask simulate`: random histories against what must hold, in release mode.
//!
//! Decided here: which subject is meant, and its build; every other argument belongs to the program of the subject: the
//! histories of `testkit` for the scheduler, the lives of publishers and subscribers for `pubsub`.

use std::os::unix::process::CommandExt;

use anyhow::{Context, Result, bail};

/// The cargo arguments that build and run the simulation of the scheduler, without its own.
pub(crate) const CARGO_RUN: [&str; 9] =
    ["run", "--release", "--locked", "--quiet", "-p", "kilter-testkit", "--bin", "simulate", "--"];

/// The same for `pubsub`.
const PUBSUB: [&str; 9] =
    ["run", "--release", "--locked", "--quiet", "-p", "kilter-pubsub", "--example", "simulate", "--"];

/// Turns this process into the simulation; it returns only when that could not be started.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let (program, rest) = chosen(arguments)?;
    let error = crate::child::cargo(&program).args(rest).exec();
    Err(error).context("could not start the simulation")
}

/// The program of the subject, and the arguments that are its own.
fn chosen(arguments: &[String]) -> Result<([&'static str; 9], &[String])> {
    match arguments {
        [option, subject, rest @ ..] if option == "--subject" => match subject.as_str() {
            "scheduler" => Ok((CARGO_RUN, rest)),
            "pubsub" => Ok((PUBSUB, rest)),
            other => bail!("unknown subject `{other}`, hint: one of `scheduler`, `pubsub`"),
        },
        _ => Ok((CARGO_RUN, arguments)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_subject_comes_first_and_is_the_scheduler_unless_told() {
        let arguments = strings("--seed 3");
        assert_eq!(chosen(&arguments).unwrap(), (CARGO_RUN, arguments.as_slice()));
        let arguments = strings("--subject pubsub --seeds 7");
        assert_eq!(chosen(&arguments).unwrap(), (PUBSUB, &arguments[2..]));
        let error = chosen(&strings("--subject store")).unwrap_err().to_string();
        assert!(error.contains("`store`") && error.contains("`pubsub`"), "{error}");
    }
}
