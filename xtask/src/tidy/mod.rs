//! `cargo xtask tidy`: the rules of the house that no compiler checks.
//!
//! Decided here: which checks there are, and that all of them run and all violations are listed at once. Each check
//! is a function from the workspace as read to its findings, in the file of its name, so that each is tested with a
//! planted violation. `workspace` reads; `edges` is the table of who may import whom.

mod described;
mod edges;
mod leftovers;
mod links;
mod names;
mod purity;
mod scenarios;
mod size;
mod sleeps;
mod source;
mod whitespace;
mod workspace;

use std::fmt;

use anyhow::{Result, bail};

use crate::asks_for_help;
use workspace::Workspace;

const HELP: &str = "\
Checks the rules that no compiler checks, and lists every violation.

usage: cargo xtask tidy

";

/// A rule, and the function that finds where it is broken.
type Check = (&'static str, fn(&Workspace) -> Vec<Finding>);

/// Every check.
const CHECKS: &[Check] = &[
    ("crates import only what their row of DESIGN §3 lists", edges::check),
    ("the scheduler stays pure: no I/O, async, clocks, threads or randomness", purity::check),
    ("files stay below 700 lines", size::check),
    ("nothing half-done is left in the code", leftovers::check),
    ("tests do not sleep for a fixed time", sleeps::check),
    ("files and modules have names that say something", names::check),
    ("every crate says what it is", described::check),
    ("scenarios are short and named for their claim", scenarios::check),
    ("links in documents lead somewhere", links::check),
    ("no trailing whitespace, and a newline at the end", whitespace::check),
];

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Breaks a rule: tidy fails.
    Violation,
    /// Worth a look: tidy goes on.
    Note,
}

/// Something found at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    level: Level,
    path: String,
    line: usize,
    what: String,
    hint: String,
}

impl Finding {
    fn violation(path: &str, line: usize, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { level: Level::Violation, path: path.to_owned(), line, what: what.into(), hint: hint.into() }
    }

    fn note(path: &str, line: usize, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { level: Level::Note, ..Self::violation(path, line, what, hint) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, path, line, what, hint } = self;
        let level = match level {
            Level::Violation => "",
            Level::Note => "note: ",
        };
        write!(f, "{path}:{line}: {level}{what}, hint: {hint}")
    }
}

/// Runs every check; the answer says whether no rule is broken.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    if asks_for_help(arguments) {
        print!("{HELP}");
        for (rule, _) in CHECKS {
            println!("  {rule}");
        }
        return Ok(true);
    }
    if let Some(argument) = arguments.first() {
        bail!("unexpected argument `{argument}`, hint: tidy takes none, it checks everything");
    }
    let workspace = Workspace::load()?;
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|(_, check)| check(&workspace)).collect();
    findings.sort_by(|one, other| (&one.path, one.line).cmp(&(&other.path, other.line)));
    for finding in &findings {
        println!("{finding}");
    }
    let violations = findings.iter().filter(|finding| finding.level == Level::Violation).count();
    println!("tidy: {} files, {violations} violations", workspace.files.len());
    Ok(violations == 0)
}

#[cfg(test)]
mod tests {
    use super::workspace::{Package, planted};
    use super::*;

    /// A workspace in which every check has something to look at and nothing to find.
    fn clean() -> Workspace {
        let mut workspace = planted(&[
            ("README.md", "[design](docs/design.md)\n"),
            ("docs/design.md", "# Design\n"),
            ("crates/scheduler/src/lib.rs", "//! Decides.\n"),
            ("crates/scheduler/tests/properties.rs", "fn holds() {}\n"),
            ("crates/scheduler/tests/scenarios/route_waits", "# A route waits.\nput a\n"),
        ]);
        workspace.packages.push(Package::of("crates/scheduler", "kilter-scheduler"));
        workspace
    }

    #[test]
    fn nothing_is_found_where_nothing_is_wrong() {
        for (rule, check) in CHECKS {
            assert_eq!(check(&clean()), [], "{rule}");
        }
    }

    #[test]
    fn every_check_finds_the_violation_planted_for_it() {
        let todo = concat!("fn f() { to", "do!() }\n");
        let sleep = concat!("fn f() { std::thread::sl", "eep(second) }\n");
        let long = "fn f() {}\n".repeat(701);
        let plants: &[(&str, &str)] = &[
            ("crates/mystery/Cargo.toml", "[package]\nname = \"kilter-mystery\"\n"),
            ("crates/scheduler/src/now.rs", "use std::time::Instant;\n"),
            ("crates/scheduler/src/long.rs", &long),
            ("crates/scheduler/src/later.rs", todo),
            ("crates/scheduler/tests/waits.rs", sleep),
            ("crates/scheduler/src/utils.rs", ""),
            ("crates/scheduler/src/lib.rs", "mod undescribed;\n"),
            ("crates/scheduler/tests/scenarios/case1", "put a\n"),
            ("README.md", "[gone](docs/gone.md)\n"),
            ("xtask/src/main.rs", "fn main() {} \n"),
        ];
        for ((rule, check), plant) in CHECKS.iter().zip(plants) {
            let mut workspace = planted(&[*plant]);
            workspace.packages.push(Package::of("crates/scheduler", "kilter-scheduler"));
            if plant.0.starts_with("crates/mystery") {
                workspace.packages.push(Package::of("crates/mystery", "kilter-mystery"));
            }
            let found = check(&workspace);
            let violation =
                found.iter().any(|finding| finding.level == Level::Violation && finding.path == plant.0);
            assert!(violation, "{rule}: not found in {}: {found:?}", plant.0);
        }
        assert_eq!(
            plants.len(),
            CHECKS.len(),
            "a check without a planted violation may be one that cannot fail"
        );
    }

    #[test]
    fn a_finding_reads_as_place_what_and_hint() {
        let finding = Finding::violation("a/b.rs", 7, "it is wrong", "mend it");
        assert_eq!(finding.to_string(), "a/b.rs:7: it is wrong, hint: mend it");
        assert_eq!(
            Finding::note("a/b.rs", 7, "it is long", "split it").to_string(),
            "a/b.rs:7: note: it is long, hint: split it"
        );
    }
}
