//! Scenario scripts: the file name is the claim, the first line says it as a sentence, and the script is short.

use super::Finding;
use super::workspace::Workspace;

const WORTH_A_LOOK: usize = 30;
const TOO_LONG: usize = 60;

/// Whether a path is a scenario script: below `crates/*/tests/scenarios/`.
pub(super) fn is_scenario(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts.as_slice(), ["crates", _, "tests", "scenarios", _, ..])
}

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in workspace.texts(|file| is_scenario(&file.path)) {
        if !is_claim_name(file.name()) {
            let what = format!("`{}` is not a claim in snake_case", file.name());
            let hint = "lower-case words joined by `_`; no digits, no extension";
            findings.push(Finding::violation(&file.path, 1, what, hint));
        }
        let claim = text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
        if claim.split_whitespace().count() < 2 {
            let hint = "the first line is `# ` and the claim as a sentence";
            findings.push(Finding::violation(&file.path, 1, "the script does not open with its claim", hint));
        }
        let lines = text.lines().count();
        let (what, hint) = (format!("{lines} lines"), "one claim per script: split it");
        if lines > TOO_LONG {
            findings.push(Finding::violation(&file.path, lines, what, hint));
        } else if lines > WORTH_A_LOOK {
            findings.push(Finding::note(&file.path, lines, what, hint));
        }
    }
    findings
}

/// `route_waits_for_interface`.
fn is_claim_name(name: &str) -> bool {
    name.split('_').all(|word| !word.is_empty() && word.chars().all(|letter| letter.is_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::super::workspace::planted;
    use super::*;

    fn found(name: &str, text: &str) -> Vec<(Level, usize)> {
        let path = format!("crates/scheduler/tests/scenarios/{name}");
        check(&planted(&[(&path, text)])).iter().map(|finding| (finding.level, finding.line)).collect()
    }

    #[test]
    fn a_good_script_is_left_alone() {
        assert_eq!(found("route_waits_for_interface", "# A route waits.\nput a\n"), []);
        assert_eq!(found("revert/route_waits", "# A route waits.\n"), []);
    }

    #[test]
    fn names_are_claims() {
        for name in ["case_1", "RouteWaits", "route-waits", "route__waits", "route_waits.txt", "_route"] {
            assert_eq!(found(name, "# A route waits.\n"), [(Level::Violation, 1)], "{name}");
        }
    }

    #[test]
    fn the_claim_comes_first() {
        for text in ["", "put a\n# A route waits.\n", "#A route waits.\n", "# route\n", "#  \n"] {
            assert_eq!(found("route_waits", text), [(Level::Violation, 1)], "{text:?}");
        }
    }

    #[test]
    fn scripts_are_short() {
        let script = |lines: usize| format!("# A route waits.\n{}", "put a\n".repeat(lines - 1));
        assert_eq!(found("route_waits", &script(30)), []);
        assert_eq!(found("route_waits", &script(31)), [(Level::Note, 31)]);
        assert_eq!(found("route_waits", &script(61)), [(Level::Violation, 61)]);
    }

    #[test]
    fn only_the_scenario_folders_are_looked_at() {
        assert!(is_scenario("crates/agent/tests/scenarios/a_claim"));
        assert!(!is_scenario("crates/agent/tests/scenarios.rs") && !is_scenario("docs/tests/scenarios/a"));
    }
}
