//! Who may import whom: the table of DESIGN §3, held against what cargo knows.
//!
//! Decided here: a crate imports only from rows below its own and only what its row lists. Tests may also import
//! `testkit` and the pure crates below. `bench` and `xtask` stand outside: they may import anything, and nothing
//! imports them.

use super::Finding;
use super::workspace::{Package, Workspace};

/// One crate: folder below `crates/`, and the crates it may import.
struct Row {
    folder: &'static str,
    imports: &'static [&'static str],
}

/// The rows from top to bottom, as in DESIGN §3.
const ROWS: &[Row] = &[
    Row { folder: "kilter", imports: &["agent", "cli"] },
    Row {
        folder: "agent",
        imports: &[
            "cli",
            "linux",
            "eventflow",
            "model",
            "events",
            "southbound",
            "scheduler",
            "store",
            "pubsub",
            "api",
        ],
    },
    Row { folder: "cli", imports: &["api", "model", "scheduler"] },
    Row { folder: "linux", imports: &["model", "southbound", "scheduler"] },
    Row { folder: "eventflow", imports: &["events", "southbound", "scheduler"] },
    Row { folder: "model", imports: &["scheduler"] },
    Row { folder: "events", imports: &["scheduler"] },
    Row { folder: "southbound", imports: &["scheduler"] },
    Row { folder: "scheduler", imports: &[] },
    Row { folder: "store", imports: &[] },
    Row { folder: "pubsub", imports: &[] },
    Row { folder: "api", imports: &[] },
    Row { folder: TESTKIT, imports: PURE },
];

/// The crate for tests only: it stands below everything and may look up at the pure crates.
const TESTKIT: &str = "testkit";

/// The crates without I/O, which any test below the table's arrows may use.
const PURE: &[&str] = &["model", "events", "southbound", "scheduler"];

/// Folder and package of what stands outside the table.
const OUTSIDE: &[(&str, &str)] = &[("bench", "kilter-bench"), ("xtask", "xtask")];

const TABLE: &str = "the table is ROWS in xtask/src/tidy/edges.rs, as DESIGN §3 has it";

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    workspace.packages.iter().flat_map(|package| check_package(workspace, package)).collect()
}

fn check_package(workspace: &Workspace, package: &Package) -> Vec<Finding> {
    let manifest = package.manifest();
    if OUTSIDE.contains(&(package.folder.as_str(), package.name.as_str())) {
        return Vec::new();
    }
    let place = package.folder.strip_prefix("crates/").and_then(row);
    let Some((index, importer)) = place else {
        let line = workspace.line_of(&manifest, "name");
        let what = format!("unknown crate `{}` in `{}`", package.name, package.folder);
        return vec![Finding::violation(&manifest, line, what, format!("give it a row; {TABLE}"))];
    };
    let mut findings = Vec::new();
    if package.name != package_name(importer.folder) {
        let what = format!("package `{}` in folder `{}`", package.name, package.folder);
        let hint = format!("call it `{}`", package_name(importer.folder));
        findings.push(Finding::violation(&manifest, workspace.line_of(&manifest, "name"), what, hint));
    }
    for dependency in &package.dependencies {
        if let Some(hint) = refusal((index, importer), &dependency.name, dependency.dev) {
            let line = workspace.line_of(&manifest, &dependency.name);
            let what = format!("`{}` must not import `{}`", importer.folder, dependency.name);
            findings.push(Finding::violation(&manifest, line, what, hint));
        }
    }
    findings
}

/// Why a crate may not import a package; nothing when it may, or when the package is not ours.
fn refusal((index, importer): (usize, &Row), package: &str, dev: bool) -> Option<String> {
    if OUTSIDE.iter().any(|(_, outside)| *outside == package) {
        return Some("nothing imports the benchmarks or the project's commands".to_owned());
    }
    let folder = folder_of(package)?;
    let Some((imported, _)) = row(folder) else {
        return Some(format!("there is no such crate; {TABLE}"));
    };
    if importer.imports.contains(&folder) {
        return None;
    }
    if dev && (folder == TESTKIT || (PURE.contains(&folder) && imported > index)) {
        return None;
    }
    if folder == TESTKIT {
        return Some("it is for tests: put it under [dev-dependencies]".to_owned());
    }
    let list = match importer.imports {
        [] => "nothing of ours".to_owned(),
        imports => imports.iter().map(|import| format!("`{import}`")).collect::<Vec<_>>().join(", "),
    };
    let tests = if dev { " (its tests also `testkit` and the pure crates below it)" } else { "" };
    Some(format!("it imports {list}{tests}; {TABLE}"))
}

fn row(folder: &str) -> Option<(usize, &'static Row)> {
    ROWS.iter().enumerate().find(|(_, row)| row.folder == folder)
}

/// The package in `crates/FOLDER`; the one binary is called as the user calls it.
fn package_name(folder: &str) -> String {
    if folder == "kilter" { folder.to_owned() } else { format!("kilter-{folder}") }
}

/// The folder of one of our packages.
fn folder_of(package: &str) -> Option<&str> {
    if package == "kilter" { Some(package) } else { package.strip_prefix("kilter-") }
}

#[cfg(test)]
mod tests {
    use super::super::workspace::planted;
    use super::*;

    /// What is said about one edge.
    fn edge(importer: &str, imported: &str, dev: bool) -> Vec<String> {
        let name = package_name(importer);
        let package = Package::of(&format!("crates/{importer}"), &name).importing(imported, dev);
        let mut workspace = planted(&[]);
        workspace.packages.push(package);
        check(&workspace).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_edge_of_the_table_is_allowed_and_points_down() {
        for (index, importer) in ROWS.iter().enumerate() {
            for imported in importer.imports {
                assert_eq!(edge(importer.folder, &package_name(imported), false), [""; 0]);
                let (below, _) = row(imported).expect("the table imports only its own rows");
                assert!(
                    below > index || importer.folder == TESTKIT,
                    "{} imports {imported}",
                    importer.folder
                );
            }
        }
    }

    #[test]
    fn every_other_edge_is_refused() {
        for importer in ROWS {
            for imported in ROWS.iter().filter(|row| !importer.imports.contains(&row.folder)) {
                let said = edge(importer.folder, &package_name(imported.folder), false);
                assert_eq!(said.len(), 1, "{} imports {}", importer.folder, imported.folder);
            }
        }
    }

    #[test]
    fn the_message_names_place_edge_and_what_is_allowed() {
        let mut workspace = planted(&[(
            "crates/events/Cargo.toml",
            "[package]\nname = \"kilter-events\"\n\nkilter-model = 1\n",
        )]);
        workspace
            .packages
            .push(Package::of("crates/events", "kilter-events").importing("kilter-model", false));
        let said = check(&workspace)[0].to_string();
        assert!(
            said.starts_with(
                "crates/events/Cargo.toml:4: `events` must not import `kilter-model`, hint: it imports `scheduler`;"
            ),
            "{said}"
        );
    }

    #[test]
    fn tests_may_use_testkit_and_pure_crates_below() {
        assert_eq!(edge("scheduler", "kilter-testkit", true), [""; 0]);
        assert_eq!(edge("store", "kilter-testkit", true), [""; 0]);
        assert_eq!(edge("model", "kilter-southbound", true), [""; 0]);
        assert_eq!(edge("events", "kilter-southbound", true), [""; 0]);
    }

    #[test]
    fn tests_may_not_look_up_nor_use_an_impure_crate() {
        assert_eq!(edge("scheduler", "kilter-southbound", true).len(), 1);
        assert_eq!(edge("southbound", "kilter-model", true).len(), 1);
        assert_eq!(edge("model", "kilter-store", true).len(), 1);
        assert_eq!(edge("testkit", "kilter-linux", true).len(), 1);
    }

    #[test]
    fn testkit_is_for_tests() {
        let said = edge("southbound", "kilter-testkit", false);
        assert!(said[0].contains("[dev-dependencies]"), "{said:?}");
    }

    #[test]
    fn nothing_imports_what_stands_outside() {
        assert_eq!(edge("agent", "kilter-bench", true).len(), 1);
        assert_eq!(edge("agent", "xtask", false).len(), 1);
    }

    #[test]
    fn what_stands_outside_imports_anything() {
        let mut workspace = planted(&[]);
        workspace.packages.push(Package::of("bench", "kilter-bench").importing("kilter-testkit", false));
        workspace.packages.push(Package::of("xtask", "xtask").importing("kilter-agent", false));
        assert_eq!(check(&workspace), []);
    }

    #[test]
    fn unknown_and_misnamed_crates_are_errors() {
        let mut workspace = planted(&[]);
        workspace.packages.push(Package::of("crates/mystery", "kilter-mystery"));
        workspace.packages.push(Package::of("crates/model", "kilter-models"));
        workspace.packages.push(Package::of("tools/bench", "kilter-bench"));
        let said: Vec<_> = check(&workspace).iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("unknown crate `kilter-mystery`"), "{said:?}");
        assert!(said[1].contains("hint: call it `kilter-model`"), "{said:?}");
        assert!(said[2].contains("unknown crate `kilter-bench` in `tools/bench`"), "{said:?}");
        assert_eq!(edge("agent", "kilter-mystery", false).len(), 1);
    }

    #[test]
    fn crates_of_others_are_no_concern_of_this_table() {
        assert_eq!(edge("scheduler", "smallvec", false), [""; 0]);
    }
}
