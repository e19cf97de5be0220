//! The scheduler knows no I/O, no async, no clock, no thread and no randomness.
//!
//! Decided here: which crates it may not be built from, near or far, and which names its code may not contain. Its
//! tests are free: they may need a thread with a small stack, or a file.

use std::collections::BTreeMap;

use super::source::{code, find_word, used_paths};
use super::workspace::{Package, Workspace};
use super::{Finding, source::Line};

/// Crates that bring I/O, async, a clock, threads or randomness. A trailing `*` stands for any ending.
const BANNED_CRATES: &[&str] = &[
    "async-*",
    "chrono",
    "crossbeam*",
    "fastrand",
    "futures*",
    "getrandom",
    "jiff*",
    "log",
    "mio",
    "nix",
    "opentelemetry*",
    "parking_lot*",
    "quanta",
    "rand",
    "rand_*",
    "rayon*",
    "reqwest",
    "rustix",
    "smol",
    "socket2",
    "time",
    "tokio*",
    "tracing*",
    "uuid",
    "web-time",
];

/// Text that its code may not contain.
const BANNED_TEXT: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "Instant::now",
    "SystemTime",
    "async fn",
    "async move",
    "async {",
    ".await",
    "print!",
    "println!",
    "eprint!",
    "eprintln!",
];

/// Paths that its code may not import, themselves or anything below them.
const BANNED_PATHS: &[&str] = &[
    "std::*",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::*",
    "std::time::Instant",
    "std::time::SystemTime",
];

const HINT: &str =
    "the scheduler is a pure walk: take what it needs as an argument, give back values (DESIGN §1)";

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(scheduler) = workspace.packages.iter().find(|package| package.name == "kilter-scheduler") {
        findings.extend(check_crates(workspace, scheduler));
    }
    let is_source = |path: &str| path.starts_with("crates/scheduler/src/");
    for (file, text) in
        workspace.texts(move |file| file.is_rust() && is_source(&file.path) && !file.is_in_tests())
    {
        for (line, found) in impure_lines(&code(text)) {
            findings.push(Finding::violation(&file.path, line, format!("`{found}` in the scheduler"), HINT));
        }
    }
    findings
}

fn check_crates(workspace: &Workspace, scheduler: &Package) -> Vec<Finding> {
    let direct: Vec<&str> =
        scheduler.dependencies.iter().filter(|one| !one.dev).map(|one| one.name.as_str()).collect();
    let far = workspace.scheduler_crates.iter().map(String::as_str).filter(|name| !direct.contains(name));
    let manifest = scheduler.manifest();
    let near = direct.iter().filter(|name| is_banned(name)).map(|name| {
        let what = format!("`{name}` is imported by the scheduler");
        Finding::violation(&manifest, workspace.line_of(&manifest, name), what, HINT)
    });
    let far = far.filter(|name| is_banned(name)).map(|name| {
        let what = format!("`{name}` is built into the scheduler through another crate");
        let hint = format!("`cargo tree -p kilter-scheduler -e normal -i {name}` says through which; {HINT}");
        Finding::violation(&manifest, workspace.line_of(&manifest, "[dependencies]"), what, hint)
    });
    near.chain(far).collect()
}

fn is_banned(name: &str) -> bool {
    BANNED_CRATES.iter().any(|banned| match banned.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *banned,
    })
}

/// What is impure, once per line.
fn impure_lines(code: &[Line<'_>]) -> BTreeMap<usize, String> {
    let mut found = BTreeMap::new();
    for (number, line) in code {
        if let Some(text) = BANNED_TEXT.iter().find(|text| find_word(line, text).is_some()) {
            found.entry(*number).or_insert_with(|| (*text).to_owned());
        }
    }
    for (number, path) in used_paths(code) {
        let is_below = |banned: &&&str| {
            path.strip_prefix(**banned).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        if BANNED_PATHS.iter().find(is_below).is_some() {
            found.entry(number).or_insert(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::workspace::planted;
    use super::*;

    /// The lines found impure in a source file of the scheduler.
    fn impure(text: &str) -> Vec<usize> {
        check(&planted(&[("crates/scheduler/src/walk/mod.rs", text)]))
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn each_banned_text_is_found() {
        for banned in BANNED_TEXT {
            assert_eq!(impure(&format!("fn f() {{\n    a {banned} b\n}}\n")), [2], "{banned}");
        }
    }

    #[test]
    fn each_banned_import_is_found_inside_braces() {
        for banned in BANNED_PATHS {
            let (head, tail) = banned.rsplit_once("::").unwrap();
            assert_eq!(impure(&format!("//! Doc.\nuse {head}::{{cmp, {tail}}};\n")), [2], "{banned}");
        }
    }

    #[test]
    fn what_is_pure_is_left_alone() {
        let text = "//! Knows no std::fs and no SystemTime.\nuse std::time::Duration;\nuse std::{fmt, mem};\n\
            fn awaits() {}\n#[cfg(test)]\nmod tests {\n    use std::thread;\n}\n";
        assert_eq!(impure(text), [0; 0]);
    }

    #[test]
    fn only_the_scheduler_must_be_pure() {
        let workspace = planted(&[
            ("crates/southbound/src/driver.rs", "use std::time::Instant;\n"),
            ("crates/scheduler/tests/scenarios.rs", "use std::fs;\n"),
        ]);
        assert_eq!(check(&workspace), []);
    }

    #[test]
    fn banned_crates_are_found_near_and_far_but_not_in_tests() {
        let mut workspace =
            planted(&[("crates/scheduler/Cargo.toml", "[dependencies]\ntokio = 1\nsmallvec = 1\n")]);
        let package = Package::of("crates/scheduler", "kilter-scheduler");
        workspace
            .packages
            .push(package.importing("tokio", false).importing("smallvec", false).importing("rand", true));
        workspace.scheduler_crates = ["smallvec", "tokio", "getrandom"].map(str::to_owned).into();
        let said: Vec<_> = check(&workspace).iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("crates/scheduler/Cargo.toml:2: `tokio` is imported by"), "{said:?}");
        assert!(said[1].starts_with("crates/scheduler/Cargo.toml:1: `getrandom` is built into"), "{said:?}");
    }

    #[test]
    fn a_star_stands_for_any_ending() {
        assert!(
            is_banned("async-trait")
                && is_banned("tokio-util")
                && is_banned("futures")
                && is_banned("rand_core")
        );
        assert!(!is_banned("timeless") && !is_banned("logos") && !is_banned("randomize"));
    }
}
