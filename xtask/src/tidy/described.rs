//! Every crate says what it is: a description in its manifest, a module doc at the top of its first file.

use super::Finding;
use super::workspace::Workspace;

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let manifest = package.manifest();
        if !package.described {
            let hint = "add `description = \"…\"`, its one line of DESIGN §3";
            let what = format!("`{}` has no description", package.name);
            findings.push(Finding::violation(
                &manifest,
                workspace.line_of(&manifest, "[package]"),
                what,
                hint,
            ));
        }
        for (file, text) in workspace.texts(|file| package.roots.contains(&file.path)) {
            if !text.starts_with("//! ") {
                let hint = "say on the first line what is decided in this crate";
                findings.push(Finding::violation(&file.path, 1, "no `//!` doc at the top", hint));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::workspace::{Package, planted};
    use super::*;

    fn found(described: bool, text: &str) -> Vec<String> {
        let mut workspace =
            planted(&[("crates/api/Cargo.toml", "\n[package]\n"), ("crates/api/src/lib.rs", text)]);
        workspace.packages.push(Package { described, ..Package::of("crates/api", "kilter-api") });
        check(&workspace).into_iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }

    #[test]
    fn description_and_doc_are_both_needed() {
        assert_eq!(found(true, "//! The wire.\n"), [""; 0]);
        assert_eq!(found(false, "//! The wire.\n"), ["crates/api/Cargo.toml:2"]);
        assert_eq!(found(true, "use a;\n//! The wire.\n"), ["crates/api/src/lib.rs:1"]);
        assert_eq!(found(true, ""), ["crates/api/src/lib.rs:1"]);
    }
}
