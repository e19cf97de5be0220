//! Nothing half-done is left in the code: no placeholders, no debugging prints, no tests switched off.

use super::Finding;
use super::source::{find_word, lines};
use super::workspace::Workspace;

/// What is looked for, and what to do instead. The texts are put together so that this file is not found.
const LEFTOVERS: &[(&str, &str)] = &[
    (concat!("to", "do!("), "do it, or leave it out"),
    (concat!("unimpl", "emented!("), "do it, or leave it out"),
    (concat!("db", "g!("), "take the debugging print out"),
    (concat!("#[ig", "nore"), "a test runs, or it is not there"),
];

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in workspace.texts(|file| file.is_rust()) {
        for (number, line) in lines(text) {
            for (leftover, hint) in LEFTOVERS {
                if find_word(line, leftover).is_some() {
                    let what = format!("`{leftover}` left in the code");
                    findings.push(Finding::violation(&file.path, number, what, *hint));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::workspace::planted;
    use super::*;

    #[test]
    fn each_leftover_is_found_at_its_line() {
        for (leftover, _) in LEFTOVERS {
            let workspace =
                planted(&[("crates/model/tests/kinds.rs", &format!("fn f() {{\n    {leftover}]\n"))]);
            let lines: Vec<_> = check(&workspace).iter().map(|finding| finding.line).collect();
            assert_eq!(lines, [2], "{leftover}");
        }
    }

    #[test]
    fn names_that_merely_end_alike_are_not_leftovers() {
        assert_eq!(check(&planted(&[("a.rs", concat!("my_to", "do!(x)\n"))])), []);
    }
}
