//! Long files: past 400 lines a note, past 700 a violation.

use super::Finding;
use super::workspace::Workspace;

const WORTH_A_LOOK: usize = 400;
const TOO_LONG: usize = 700;

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in workspace.texts(|file| file.is_rust() && !file.is_in_tests()) {
        let lines = text.lines().count();
        let what = format!("{lines} lines");
        let hint = "look for the second thing hiding inside";
        if lines > TOO_LONG {
            findings.push(Finding::violation(&file.path, lines, what, hint));
        } else if lines > WORTH_A_LOOK {
            findings.push(Finding::note(&file.path, lines, what, hint));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::super::workspace::planted;
    use super::*;

    fn level(path: &str, lines: usize) -> Option<Level> {
        check(&planted(&[(path, &"//\n".repeat(lines))])).first().map(|finding| finding.level)
    }

    #[test]
    fn length_is_first_noted_then_refused() {
        let path = "crates/scheduler/src/walk/put.rs";
        assert_eq!(level(path, 400), None);
        assert_eq!(level(path, 401), Some(Level::Note));
        assert_eq!(level(path, 700), Some(Level::Note));
        assert_eq!(level(path, 701), Some(Level::Violation));
    }

    #[test]
    fn tests_beside_a_crate_may_be_long() {
        assert_eq!(level("crates/scheduler/tests/properties.rs", 900), None);
        assert_eq!(level("xtask/src/main.rs", 900), Some(Level::Violation));
    }
}
