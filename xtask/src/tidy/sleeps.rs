//! Tests wait for a condition with a deadline; they do not sleep for a fixed time.
//!
//! Decided here: a sleep on a line that says `deadline`, `poll` or `until` is the pause inside such a wait.

use super::Finding;
use super::source::{find_word, lines, test_code};
use super::workspace::Workspace;

/// The sleeps looked for, put together so that this file is not found.
const SLEEPS: &[&str] = &[concat!("thread::sl", "eep"), concat!("time::sl", "eep")];

const EXCUSES: &[&str] = &["deadline", "poll", "until"];

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in workspace.texts(|file| file.is_rust()) {
        let tests = if file.is_in_tests() { lines(text).collect() } else { test_code(text) };
        for (number, line) in tests {
            let sleeps = SLEEPS.iter().any(|sleep| find_word(line, sleep).is_some());
            if sleeps && !EXCUSES.iter().any(|excuse| line.contains(excuse)) {
                let hint =
                    "wait for a condition with a deadline, and say so on the line (deadline, poll or until)";
                findings.push(Finding::violation(
                    &file.path,
                    number,
                    "a test that sleeps for a fixed time",
                    hint,
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::workspace::planted;
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&planted(&[(path, text)])).len()
    }

    #[test]
    fn a_fixed_sleep_in_a_test_is_found() {
        for sleep in SLEEPS {
            let call = format!("    {sleep}(second);\n");
            assert_eq!(found("crates/linux/tests/kernel.rs", &call), 1);
            assert_eq!(found("crates/linux/src/watcher/tests.rs", &call), 1);
            let inline = format!("#[cfg(test)]\nmod tests {{\n{call}}}\n");
            assert_eq!(found("crates/linux/src/watcher.rs", &inline), 1);
        }
    }

    #[test]
    fn a_pause_inside_a_wait_and_a_sleep_outside_tests_are_fine() {
        let call = format!("    {}(poll_interval);\n", SLEEPS[0]);
        assert_eq!(found("crates/linux/tests/kernel.rs", &call), 0);
        let call = format!("    {}(second);\n", SLEEPS[0]);
        assert_eq!(found("crates/linux/src/watcher.rs", &call), 0);
    }
}
