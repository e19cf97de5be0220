//! No whitespace at the end of a line, and a newline at the end of a file.

use super::Finding;
use super::source::lines;
use super::workspace::{Workspace, has_extension};

const KINDS: &[&str] = &["rs", "md", "toml"];

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in workspace.texts(|file| KINDS.iter().any(|kind| has_extension(&file.path, kind))) {
        // Split by hand: `lines` would hide a carriage return.
        for (number, line) in (1..).zip(text.split('\n')) {
            if line.ends_with(char::is_whitespace) {
                findings.push(Finding::violation(
                    &file.path,
                    number,
                    "whitespace at the end of the line",
                    "take it out",
                ));
            }
        }
        if !text.is_empty() && !text.ends_with('\n') {
            let last = lines(text).count();
            findings.push(Finding::violation(
                &file.path,
                last,
                "no newline at the end of the file",
                "add one",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::workspace::planted;
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&planted(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn ends_of_lines_and_of_files_are_looked_at() {
        assert_eq!(found("a.rs", "one\n\ntwo\n"), [0; 0]);
        assert_eq!(found("a.md", "one\ntwo  \n"), [2]);
        assert_eq!(found("a.toml", "one\t\ntwo"), [1, 2]);
        assert_eq!(found("a.rs", "one\r\n"), [1]);
    }

    #[test]
    fn golden_files_are_left_alone() {
        assert_eq!(found("crates/scheduler/tests/scenarios/a_claim", "one \n"), [0; 0]);
    }
}
