//! `cargo xtask test`: the one door.
//!
//! Decided here: which steps there are, their order, and that the first failure ends the run. The steps:
//!
//! 1. set-up of what is missing;
//! 2. format;
//! 3. lints, warnings denied;
//! 4. every test of the workspace, documentation examples among them; without root, those that change the network run
//!    afterwards, in namespaces of their own;
//! 5. tidy;
//! 6. the web page, if something under `ui/` has changed;
//! 7. the web page in a browser, against the agent in a sandbox;
//! 8. everything that the API describes, asked by a property tester of others;
//! 9. a client that was generated in another language drives the agent;
//! 10. a short seeded run of random histories.
//!
//! A few tests of step 4 that fail are run once more, alone: one that passes then was disturbed by what ran beside it.
//! The run goes on and names it as unsteady before its last line, for somebody to mend. A build that fails, and more
//! failures than [`MOST_UNSTEADY`], end the run at once.
//!
//! The last line is always `N passed, M failed`: the tests of step 4, and each other step as one.

use std::io::{BufRead, BufReader, Write};
use std::ops::AddAssign;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{asks_for_help, child, clients, openapi, page, setup, simulate, tidy, unprivileged};

const HELP: &str = "\
The one door: set-up, format, lints, all tests, tidy, the web page, the API, a short seeded run.

usage: cargo xtask test [FILTER...] [-- TEST-FLAGS...]

With a FILTER only the tests whose name contains it are run, and nothing else.
TEST-FLAGS go to the test programs: `cargo xtask test retry -- --nocapture`.
CI=true or NO_COLOR=1 turns colours off. The last line is `N passed, M failed`.
";

/// Histories in the seeded run.
const HISTORIES: &str = "20000";

/// How many tests that failed are run once more.
const MOST_UNSTEADY: usize = 3;

const CARGO_TEST: [&str; 4] = ["test", "--workspace", "--locked", "--no-fail-fast"];

/// How many checks held and how many did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    fn of(success: bool) -> Self {
        Self { passed: success.into(), failed: (!success).into() }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// What a step runs.
enum Work {
    Setup,
    Cargo(Vec<String>),
    CargoTest(Vec<String>),
    /// Tests that run in namespaces of their own.
    Unprivileged(Vec<String>),
    Tidy,
    Page,
    Browser,
    Openapi,
    Clients,
}

struct Step {
    title: &'static str,
    work: Work,
}

impl Step {
    /// The command that repeats this step alone.
    fn again(&self) -> String {
        match &self.work {
            Work::Setup => "cargo xtask test".to_owned(),
            Work::Cargo(arguments) | Work::CargoTest(arguments) | Work::Unprivileged(arguments) => {
                child::shown(arguments)
            }
            Work::Tidy => "cargo xtask tidy".to_owned(),
            Work::Page => "cargo xtask page".to_owned(),
            Work::Browser => "cargo xtask browser".to_owned(),
            Work::Openapi => "cargo xtask openapi".to_owned(),
            Work::Clients => "cargo xtask clients".to_owned(),
        }
    }

    /// Carries it out; adds the tests that passed only alone to `unsteady`.
    fn perform(&self, unsteady: &mut Vec<String>) -> Result<Tally> {
        match &self.work {
            Work::Setup => setup::ensure().map(|()| Tally::of(true)),
            Work::Cargo(arguments) => {
                child::succeeds(child::cargo(arguments).current_dir(child::root())).map(Tally::of)
            }
            Work::CargoTest(arguments) => cargo_test(arguments, unsteady),
            Work::Unprivileged(arguments) => {
                unprivileged::probe().and_then(|()| cargo_test(arguments, unsteady))
            }
            Work::Tidy => tidy::run(&[]).map(Tally::of),
            Work::Page => page::run(&[]).map(Tally::of),
            Work::Browser => page::run_with_agent(&[]).map(Tally::of),
            Work::Openapi => openapi::run(&[]).map(Tally::of),
            Work::Clients => clients::run(&[]).map(Tally::of),
        }
    }
}

/// Runs the steps that the arguments ask for.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    if asks_for_help(arguments) {
        print!("{HELP}");
        return Ok(true);
    }
    let steps = if arguments.is_empty() {
        all_steps(unprivileged::is_root())
    } else {
        vec![filtered_step(arguments)?]
    };
    let mut total = Tally::default();
    let mut unsteady = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let again = step.again();
        heading(&format!("{}/{} {}: {again}", index + 1, steps.len(), step.title));
        let started = Instant::now();
        let tally = step.perform(&mut unsteady).unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            Tally::of(false)
        });
        total += tally;
        let seconds = started.elapsed().as_secs_f64();
        if tally.failed > 0 {
            println!("{} failed after {seconds:.1} s\nre-run: {again}", step.title);
            break;
        }
        println!("{} ok in {seconds:.1} s", step.title);
    }
    for name in &unsteady {
        println!("unsteady: {name} failed beside the others and passed alone");
    }
    println!("\n{} passed, {} failed", total.passed, total.failed);
    Ok(total.failed == 0)
}

fn all_steps(is_root: bool) -> Vec<Step> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    let mut seeded = words(&simulate::CARGO_RUN);
    seeded.extend(words(&["--seeds", HISTORIES]));
    let mut tests = vec![Step { title: "tests", work: Work::CargoTest(words(&CARGO_TEST)) }];
    if !is_root {
        let others = [&CARGO_TEST[..], &["--exclude", unprivileged::PACKAGE][..]].concat();
        tests = vec![
            Step { title: "tests", work: Work::CargoTest(words(&others)) },
            Step { title: "kernel tests", work: Work::Unprivileged(unprivileged::cargo_words()) },
        ];
    }
    let mut steps = vec![
        Step { title: "set-up", work: Work::Setup },
        Step { title: "format", work: Work::Cargo(words(&["fmt", "--all", "--check"])) },
        Step { title: "lints", work: Work::Cargo(words(&clippy)) },
    ];
    steps.append(&mut tests);
    steps.push(Step { title: "tidy", work: Work::Tidy });
    steps.push(Step { title: "page", work: Work::Page });
    steps.push(Step { title: "browser", work: Work::Browser });
    steps.push(Step { title: "openapi", work: Work::Openapi });
    steps.push(Step { title: "clients", work: Work::Clients });
    steps.push(Step { title: "seeded run", work: Work::Cargo(seeded) });
    steps
}

/// The test step for `FILTER... [-- TEST-FLAGS...]`.
fn filtered_step(arguments: &[String]) -> Result<Step> {
    let filters = arguments.iter().take_while(|argument| *argument != "--").collect::<Vec<_>>();
    if let Some(option) = filters.iter().find(|filter| filter.starts_with('-')) {
        bail!("unknown option `{option}`, hint: flags for the test programs go after `--`");
    }
    let flags = arguments.iter().skip(filters.len() + 1);
    let mut words: Vec<String> = CARGO_TEST.iter().map(|word| (*word).to_owned()).collect();
    words.push("--".to_owned());
    words.extend(filters.into_iter().chain(flags).cloned());
    Ok(Step { title: "tests", work: Work::CargoTest(words) })
}

/// Runs cargo's tests, and the few that failed once more.
fn cargo_test(arguments: &[String], unsteady: &mut Vec<String>) -> Result<Tally> {
    let first = cargo_test_once(arguments)?;
    let failed = first.failures.len();
    // What failed without a name (a build, a process that died) is not repeated, and a FILTER is somebody at work.
    let is_whole = !arguments.iter().any(|word| word == "--");
    if !is_whole || failed == 0 || failed > MOST_UNSTEADY || failed as u64 != first.tally.failed {
        return Ok(first.tally);
    }
    println!("\nonce more, alone: {}", first.failures.join(", "));
    let alone = ["--", "--exact", "--test-threads=1"].map(str::to_owned);
    let words = [arguments, &alone, &first.failures].concat();
    let second = cargo_test_once(&words)?;
    if second.tally.failed > 0 || second.tally.passed < first.tally.failed {
        return Ok(first.tally);
    }
    unsteady.extend(first.failures);
    Ok(Tally { passed: first.tally.passed + first.tally.failed, failed: 0 })
}

/// What one run of cargo's tests told.
#[derive(Debug, Default)]
struct Told {
    tally: Tally,
    /// The names of the tests that failed.
    failures: Vec<String>,
}

/// Runs cargo's tests, lets their output through line by line, and sums their results.
fn cargo_test_once(arguments: &[String]) -> Result<Told> {
    let mut command = child::cargo(arguments);
    let mut running = command
        .current_dir(child::root())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not start `{}`", child::shown(arguments)))?;
    let output = running.stdout.take().expect("the child's stdout was asked to be a pipe");
    let mut told = tee(BufReader::new(output), &mut std::io::stdout().lock())?;
    let status = running.wait().context("could not wait for the tests")?;
    if status.success() && told.tally == Tally::default() {
        bail!("not one test was run, hint: no test's name contains the filter");
    }
    // A build that fails reports no test at all, and still is a failure.
    let unreported = !status.success() && told.tally.failed == 0;
    told.tally.failed += u64::from(unreported);
    Ok(told)
}

/// Copies lines to `screen`, sums the `test result:` ones and takes the names of what failed.
fn tee(mut lines: impl BufRead, screen: &mut impl Write) -> Result<Told> {
    let mut told = Told::default();
    let mut line = Vec::new();
    // The names stand in the last block `failures:`, indented, until the result; an earlier one shows what they printed.
    let mut block = Vec::new();
    while lines.read_until(b'\n', &mut line).context("could not read the tests' output")? > 0 {
        screen.write_all(&line).context("could not show the tests' output")?;
        let text = String::from_utf8_lossy(&line);
        if text.trim_end() == "failures:" {
            block.clear();
        } else if let Some(tally) = result_line(&text) {
            told.tally += tally;
            told.failures.extend(block.drain(..).take(usize::try_from(tally.failed).unwrap_or_default()));
        } else if let Some(name) = text.strip_prefix("    ") {
            block.push(name.trim_end().to_owned());
        }
        line.clear();
    }
    Ok(told)
}

/// Reads `test result: ok. 3 passed; 0 failed; …`.
fn result_line(line: &str) -> Option<Tally> {
    let (_, counts) = line.trim_start().strip_prefix("test result: ")?.split_once(". ")?;
    let count = |word: &str| {
        counts.split(';').find_map(|part| part.trim().strip_suffix(word)?.trim_end().parse::<u64>().ok())
    };
    Some(Tally { passed: count("passed")?, failed: count("failed")? })
}

fn heading(text: &str) {
    if child::colours() {
        println!("\n\x1b[1m== {text}\x1b[0m");
    } else {
        println!("\n== {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn results_are_summed_and_every_line_is_shown() {
        let text = "running 4 tests\ntest a ... ok\n\
            test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test b::c ... FAILED\n\nfailures:\n\n---- b::c stdout ----\n    something indented\n\n\
            failures:\n    b::c\n\n\
            test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\nno newline";
        let mut shown = Vec::new();
        let told = tee(text.as_bytes(), &mut shown).unwrap();
        assert_eq!(told.tally, Tally { passed: 6, failed: 1 });
        assert_eq!(told.failures, ["b::c"]);
        assert_eq!(String::from_utf8(shown).unwrap(), text);
    }

    #[test]
    fn other_lines_count_nothing() {
        assert_eq!(result_line("test walk::result ... ok"), None);
        assert_eq!(result_line("test result: ok. some passed; no failed"), None);
    }

    #[test]
    fn a_filter_runs_the_tests_only_and_flags_follow_it() {
        let step = filtered_step(&strings(&["retry", "revert", "--", "--nocapture"])).unwrap();
        assert_eq!(
            step.again(),
            "cargo test --workspace --locked --no-fail-fast -- retry revert --nocapture"
        );
    }

    #[test]
    fn an_unknown_option_is_not_a_filter() {
        let error = filtered_step(&strings(&["--fast"])).err().unwrap().to_string();
        assert!(error.contains("`--fast`"), "{error}");
    }

    #[test]
    fn the_steps_come_in_the_order_of_the_module_doc() {
        let titles = |is_root| all_steps(is_root).iter().map(|step| step.title).collect::<Vec<_>>();
        let last = ["tidy", "page", "browser", "openapi", "clients", "seeded run"];
        assert_eq!(titles(true), [&["set-up", "format", "lints", "tests"][..], &last].concat());
        let first = ["set-up", "format", "lints", "tests", "kernel tests"];
        assert_eq!(titles(false), [&first[..], &last].concat());
    }
}
