//! The project's own commands, run as `cargo xtask COMMAND`.
//!
//! Decided here: which commands exist and what their exit codes mean (0 fine, 1 the check said no, 2 misuse or
//! a program that could not be run). Each command lives in the file of its name; `child` starts other programs.
//! Read `test` next: it is the one door that everything else stands behind.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the output of these commands is their purpose"
)]

mod bench;
mod child;
mod clients;
mod daemon;
mod kube;
mod openapi;
mod page;
mod program;
mod setup;
mod simulate;
mod test;
mod tidy;
mod unprivileged;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
The project's own commands.

usage: cargo xtask COMMAND [ARGUMENTS]

commands:
  test [FILTER...]   set-up, format, lints, all tests, tidy, the page, the API, a seeded run: the one door
  tidy               rules no compiler checks: crate edges, leftovers, names, links, scenarios
  simulate [FLAGS]   random histories against the reference model, or, with `--subject pubsub`, random lives of
                     publishers and subscribers; one seed again: --seed N
  page               the web page: checks, tests, and whether `ui/dist` is what its sources give
  bench SUBJECT      benchmarks of `scheduler`, `events`, `northbound`, `linux`, `agent`, `eventflow` or `pubsub`, as
                     JSON lines
  browser            the page's tests in a browser, against the agent in a sandbox
  clients            a client generated in another language drives the agent
  openapi [FLAGS]    asks a running agent everything that its OpenAPI description describes

`cargo xtask COMMAND --help` says more about one of them.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the command that was named; the answer says whether it went well.
fn dispatch(arguments: &[String]) -> Result<bool> {
    let Some((command, rest)) = arguments.split_first() else {
        bail!(
            "no command given, hint: one of `test`, `tidy`, `simulate`, `page`, `browser`, `clients`, `openapi`, `bench`; `cargo xtask --help`"
        );
    };
    match command.as_str() {
        "test" => test::run(rest),
        "tidy" => tidy::run(rest),
        "simulate" => simulate::run(rest),
        "bench" => bench::run(rest),
        "browser" => page::run_with_agent(rest),
        "clients" => clients::run(rest),
        "openapi" => openapi::run(rest),
        "page" => page::run(rest),
        "help" | "-h" | "--help" => {
            print!("{HELP}");
            Ok(true)
        }
        unknown => {
            bail!(
                "unknown command `{unknown}`, hint: one of `test`, `tidy`, `simulate`, `page`, `browser`, `clients`, `openapi`, `bench`"
            )
        }
    }
}

/// Whether the arguments ask for help before any `--`.
fn asks_for_help(arguments: &[String]) -> bool {
    arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "-h" || argument == "--help")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn unknown_command_names_the_known_ones() {
        let error = dispatch(&strings(&["tset"])).unwrap_err().to_string();
        assert!(error.contains("`tset`") && error.contains("`test`"), "{error}");
    }

    #[test]
    fn no_command_is_an_error() {
        assert!(dispatch(&[]).is_err());
    }

    #[test]
    fn help_after_a_double_dash_belongs_to_somebody_else() {
        assert!(asks_for_help(&strings(&["x", "--help"])));
        assert!(!asks_for_help(&strings(&["x", "--", "--help"])));
    }
}
