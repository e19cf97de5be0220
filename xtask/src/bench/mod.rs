//! `cargo xtask bench SUBJECT`: runs the benchmark program of a subject once per case and size.
//!
//! Decided here: a process of its own for each measurement, so that one does not inherit the memory of another, and
//! that the JSON lines go to stdout untouched while everything said about them goes to stderr. What the numbers are
//! held against is in `report`; how cases and sizes are written is in `selection`.

mod events;
mod linux;
mod report;
mod selection;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{asks_for_help, child};

const HELP: &str = "\
Benchmarks, one JSON line per case and size.

usage: cargo xtask bench scheduler|events [OPTIONS]

options:
  --case CASES    a letter, a range or a list: a, a..h, a,c,f (default: all; events has a and b)
  --n N[,N...]    sizes (default 10000, for events 100000); 1_000_000 may be written so
  --no-history    keep no history
  --no-plan       record no plan (scheduler only)
  --check         afterwards a table against the budgets, on stderr; the exit code stays 0
";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Scheduler,
    Events,
}

impl Subject {
    fn named(name: &str) -> Result<Self> {
        match name {
            "scheduler" => Ok(Self::Scheduler),
            "events" => Ok(Self::Events),
            _ => bail!("unknown benchmark `{name}`, hint: one of `scheduler`, `events`, `linux`"),
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Scheduler => "bench-scheduler",
            Self::Events => "bench-events",
        }
    }

    /// The last case there is, and the size unless told.
    fn defaults(self) -> (char, u64) {
        match self {
            Self::Scheduler => ('h', 10_000),
            Self::Events => ('b', 100_000),
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Scheduler => &["--no-history", "--no-plan"],
            Self::Events => &["--no-history"],
        }
    }
}

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    cases: Vec<char>,
    sizes: Vec<u64>,
    /// Flags handed to the benchmark program as they are.
    flags: Vec<String>,
    check: bool,
}

/// Runs the benchmarks that the arguments name.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    if asks_for_help(arguments) {
        let of_linux = arguments.first().is_some_and(|subject| subject == "linux");
        print!("{}", if of_linux { linux::HELP } else { HELP });
        return Ok(true);
    }
    let Some((subject, options)) = arguments.split_first() else {
        bail!("no benchmark named, hint: cargo xtask bench scheduler|events|linux");
    };
    if subject == "linux" {
        let request = linux::parse(options)?;
        linux::run(&build("bench-linux")?, &request)?;
        return Ok(true);
    }
    let subject = Subject::named(subject)?;
    let request = parse(subject, options)?;
    let program = build(subject.program())?;
    let mut lines = Vec::new();
    for &case in &request.cases {
        for &size in &request.sizes {
            let line = measure(subject, &program, case, size, &request.flags)?;
            writeln!(std::io::stdout(), "{line}").context("could not write the measurement")?;
            lines.push((case, size, line));
        }
    }
    if request.check {
        let history = !request.flags.iter().any(|flag| flag == "--no-history");
        eprint!("{}", table(subject, &lines, history)?);
    }
    Ok(true)
}

fn table(subject: Subject, lines: &[(char, u64, String)], history: bool) -> Result<String> {
    match subject {
        Subject::Scheduler => {
            let read = lines.iter().map(|(case, size, line)| report::Measurement::read(*case, *size, line));
            Ok(report::table(&read.collect::<Result<Vec<_>>>()?, history))
        }
        Subject::Events => events::table(lines),
    }
}

fn parse(subject: Subject, options: &[String]) -> Result<Request> {
    let (end, size) = subject.defaults();
    let mut request =
        Request { cases: ('a'..=end).collect(), sizes: vec![size], flags: Vec::new(), check: false };
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

/// Builds the benchmark program once and says where it is.
fn build(program: &str) -> Result<PathBuf> {
    let arguments = ["build", "--release", "--locked", "-p", "kilter-bench"];
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
        assert_eq!((request.sizes, request.check), (vec![10_000], false));
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
        assert_eq!((request.cases, request.sizes), (vec!['a', 'b'], vec![100_000]));
        assert!(parse(Subject::Events, &["--no-plan".to_owned()]).is_err());
        assert!(Subject::named("sheduler").unwrap_err().to_string().contains("`events`"));
    }

    #[test]
    fn mistakes_name_the_option() {
        assert_eq!(parsed("--n").unwrap_err().to_string(), "`--n` needs a value, hint: `--n 10000`");
        assert!(parsed("--cases a").unwrap_err().to_string().contains("`--cases`"));
    }
}
