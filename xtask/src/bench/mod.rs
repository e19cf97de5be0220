//! `cargo xtask bench SUBJECT`: runs the benchmark program of a subject once per case and size.
//!
//! Decided here: a process of its own for each measurement, so that one does not inherit the memory of another, and
//! that the JSON lines go to stdout untouched while everything said about them goes to stderr. What the numbers are
//! held against is in `report`; how cases and sizes are written is in `selection`.

mod agent;
mod eventflow;
mod events;
mod linux;
mod northbound;
mod pubsub;
mod report;
mod selection;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{asks_for_help, child};

const HELP: &str = "\
Benchmarks, one JSON line per case and size.

usage: cargo xtask bench scheduler|events|northbound [OPTIONS]
       cargo xtask bench agent|eventflow|linux|pubsub --help

options:
  --case CASES    a letter, a range or a list: a, a..h, a,c,f (default: all; events has a and b, northbound a to g)
  --n N[,N...]    sizes (default 10000, for events 100000, for northbound f a minute: 600000); 1_000_000 may be written so
  --no-history    keep no history
  --no-plan       record no plan (scheduler only)
  --check         afterwards a table against the budgets, on stderr; the exit code is 1 if the northbound misses one, and
                  stays 0 otherwise
";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Scheduler,
    Events,
    Northbound,
}

impl Subject {
    fn named(name: &str) -> Result<Self> {
        match name {
            "scheduler" => Ok(Self::Scheduler),
            "events" => Ok(Self::Events),
            "northbound" => Ok(Self::Northbound),
            _ => {
                bail!(
                    "unknown benchmark `{name}`, hint: one of `scheduler`, `events`, `northbound`, `linux`, `agent`, `eventflow`, `pubsub`"
                )
            }
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Scheduler => "bench-scheduler",
            Self::Events => "bench-events",
            Self::Northbound => "bench-northbound",
        }
    }

    /// The last case there is.
    fn last(self) -> char {
        match self {
            Self::Scheduler => 'h',
            Self::Events => 'b',
            Self::Northbound => 'g',
        }
    }

    /// The size of a case unless told.
    fn size(self, case: char) -> u64 {
        match (self, case) {
            (Self::Events, _) => 100_000,
            // A minute of ten thousand changes a second.
            (Self::Northbound, 'f') => 600_000,
            (Self::Scheduler | Self::Northbound, _) => 10_000,
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Scheduler => &["--no-history", "--no-plan"],
            Self::Events => &["--no-history"],
            Self::Northbound => &[],
        }
    }
}

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    cases: Vec<char>,
    /// None if each case has its own.
    sizes: Vec<u64>,
    /// Flags handed to the benchmark program as they are.
    flags: Vec<String>,
    check: bool,
}

/// Runs the benchmarks that the arguments name.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    if asks_for_help(arguments) {
        let help = match arguments.first().map(String::as_str) {
            Some("linux") => linux::HELP,
            Some("agent") => agent::HELP,
            Some("eventflow") => eventflow::HELP,
            Some("pubsub") => pubsub::HELP,
            _ => HELP,
        };
        print!("{help}");
        return Ok(true);
    }
    let Some((subject, options)) = arguments.split_first() else {
        bail!(
            "no benchmark named, hint: cargo xtask bench scheduler|events|northbound|linux|agent|eventflow|pubsub"
        );
    };
    if subject == "linux" {
        let request = linux::parse(options)?;
        linux::run(&build("bench-linux")?, &request)?;
        return Ok(true);
    }
    if subject == "agent" {
        let request = agent::parse(options)?;
        let program = build("kilter")?;
        return agent::run(&program.with_file_name("bench-agent"), &program, &request);
    }
    if subject == "eventflow" {
        let request = eventflow::parse(options)?;
        let program = build("kilter")?;
        return eventflow::run(&program.with_file_name("bench-eventflow"), &program, &request);
    }
    if subject == "pubsub" {
        let request = pubsub::parse(options)?;
        return pubsub::run(&build("bench-pubsub")?, &request);
    }
    let subject = Subject::named(subject)?;
    let request = parse(subject, options)?;
    let program = build(subject.program())?;
    let mut lines = Vec::new();
    for &case in &request.cases {
        let own = [subject.size(case)];
        let sizes = if request.sizes.is_empty() { &own[..] } else { &request.sizes };
        for &size in sizes {
            let line = measure(subject, &program, case, size, &request.flags)?;
            writeln!(std::io::stdout(), "{line}").context("could not write the measurement")?;
            lines.push((case, size, line));
        }
    }
    if request.check {
        let history = !request.flags.iter().any(|flag| flag == "--no-history");
        let (table, kept) = table(subject, &lines, history)?;
        eprint!("{table}");
        return Ok(kept);
    }
    Ok(true)
}

/// The table, and whether every budget is kept that decides.
fn table(subject: Subject, lines: &[(char, u64, String)], history: bool) -> Result<(String, bool)> {
    match subject {
        Subject::Scheduler => {
            let read = lines.iter().map(|(case, size, line)| report::Measurement::read(*case, *size, line));
            Ok((report::table(&read.collect::<Result<Vec<_>>>()?, history), true))
        }
        Subject::Events => Ok((events::table(lines)?, true)),
        Subject::Northbound => northbound::table(lines),
    }
}

fn parse(subject: Subject, options: &[String]) -> Result<Request> {
    let end = subject.last();
    let mut request =
        Request { cases: ('a'..=end).collect(), sizes: Vec::new(), flags: Vec::new(), check: false };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let mut value = |example| {
            options.next().with_context(|| format!("`{option}` needs a value, hint: `{option} {example}`"))
        };
        match option.as_str() {
            "--case" => request.cases = selection::cases(value("a..b")?, end)?,
            "--n" => request.sizes = selection::sizes(value("10000")?)?,
            flag if subject.flags().contains(&flag) => request.flags.push(option.clone()),
            "--check" => request.check = true,
            unknown => bail!(
                "unknown option `{unknown}`, hint: one of `--case`, `--n`, `--check`, {}",
                subject.flags().iter().map(|flag| format!("`{flag}`")).collect::<Vec<_>>().join(", ")
            ),
        }
    }
    Ok(request)
}

/// Builds the programs once and says where this one is.
fn build(program: &str) -> Result<PathBuf> {
    let arguments = ["build", "--release", "--locked", "-p", "kilter-bench", "-p", "kilter"];
    if !child::succeeds(child::cargo(&arguments).current_dir(child::root()))? {
        bail!("`{}` failed", child::shown(&arguments));
    }
    // Cargo's own answer honours CARGO_TARGET_DIR and the configuration files alike.
    let metadata = child::metadata()?;
    let target =
        metadata["target_directory"].as_str().context("`cargo metadata` names no target directory")?;
    Ok(PathBuf::from(target).join("release").join(program))
}

/// One measurement in a process of its own: the line that it printed.
fn measure(subject: Subject, program: &PathBuf, case: char, size: u64, flags: &[String]) -> Result<String> {
    let what = format!("{} --case {case} --n {size}", subject.program());
    let output = Command::new(program)
        .args(["--case", &case.to_string(), "--n", &size.to_string()])
        .args(flags)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("could not start `{what}` at {}", program.display()))?;
    if !output.status.success() {
        bail!("`{what}` failed ({})", output.status);
    }
    let text =
        String::from_utf8(output.stdout).with_context(|| format!("`{what}` printed bytes, not text"))?;
    match text.lines().collect::<Vec<_>>().as_slice() {
        [line] => Ok((*line).to_owned()),
        lines => bail!("`{what}` printed {} lines, not one JSON line", lines.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request> {
        parse(Subject::Scheduler, &line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn everything_has_a_default() {
        let request = parsed("").unwrap();
        assert_eq!(request.cases, ('a'..='h').collect::<Vec<_>>());
        assert_eq!((request.sizes, request.check), (Vec::new(), false));
        assert_eq!(Subject::Scheduler.size('a'), 10_000);
    }

    #[test]
    fn options_are_read_and_flags_passed_on() {
        let request = parsed("--case b --n 10,100 --no-history --check --no-plan").unwrap();
        assert_eq!(
            request,
            Request {
                cases: vec!['b'],
                sizes: vec![10, 100],
                flags: vec!["--no-history".to_owned(), "--no-plan".to_owned()],
                check: true
            }
        );
    }

    #[test]
    fn each_subject_has_its_own_cases_and_flags() {
        let request = parse(Subject::Events, &[]).unwrap();
        assert_eq!((request.cases, Subject::Events.size('a')), (vec!['a', 'b'], 100_000));
        assert_eq!(parse(Subject::Northbound, &[]).unwrap().cases, ('a'..='g').collect::<Vec<_>>());
        assert_eq!(Subject::Northbound.size('f'), 600_000, "a minute");
        assert!(parse(Subject::Events, &["--no-plan".to_owned()]).is_err());
        assert!(Subject::named("sheduler").unwrap_err().to_string().contains("`events`"));
    }

    #[test]
    fn mistakes_name_the_option() {
        assert_eq!(parsed("--n").unwrap_err().to_string(), "`--n` needs a value, hint: `--n 10000`");
        assert!(parsed("--cases a").unwrap_err().to_string().contains("`--cases`"));
    }
}
