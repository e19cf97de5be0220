//! The guides as a person follows them: what stands in a `console` block is typed, and what it prints is compared.
//!
//! A line that starts with `$ ` is typed; the lines below it are what the terminal shows. `…` alone on a line stands
//! for any number of lines, within a line for any text. `^C` presses the keys. A block of `console second` belongs to
//! a second terminal, and a block without a `$ ` goes on with what its terminal shows. `[exit 3]` is how a command
//! ends that does not end well. `4711` stands for the process that a sandbox names.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use crate::program::{PATIENCE, root, sh};

/// Follows every line that says how a command ended.
const ENDED: &str = "--- ended with ";

/// What a guide says about one terminal.
#[derive(Debug)]
struct Block {
    terminal: String,
    text: Vec<String>,
}

/// The console blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        match (line.strip_prefix("```"), is_open) {
            (Some(words), false) if words.split(' ').next() == Some("console") => {
                let terminal = words.trim_start_matches("console").trim().to_owned();
                blocks.push(Block { terminal, text: Vec::new() });
                is_open = true;
            }
            (Some(_), true) => is_open = false,
            (None, true) => blocks.last_mut().unwrap().text.push(line.to_owned()),
            (Some(_) | None, false) => {}
        }
    }
    blocks
}

/// Whether a line is as expected.
fn fits(expected: &str, line: &str) -> bool {
    let parts: Vec<&str> = expected.split('…').collect();
    let [first, middle @ .., last] = parts.as_slice() else { return expected == line };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// A shell that somebody types into.
struct Terminal {
    shell: Child,
    keys: ChildStdin,
    lines: Receiver<String>,
    /// Whether a command has been typed that has not ended.
    is_busy: bool,
    /// Whether the guide says that anything may follow.
    is_open: bool,
    shown: Vec<String>,
    /// What was shown and not yet compared.
    ahead: Option<String>,
}

impl Terminal {
    fn new(place: &Path) -> Self {
        let mut shell = Command::new("bash")
            .args(["--noprofile", "--norc"])
            .current_dir(place)
            .env("COLUMNS", "120")
            .env("PATH", path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut keys = shell.stdin.take().unwrap();
        writeln!(keys, "exec 2>&1; shopt -s expand_aliases").unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(shell.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { shell, keys, lines, is_busy: false, is_open: false, shown: Vec::new(), ahead: None }
    }

    /// The next line that is shown, until the deadline.
    fn next(&mut self, deadline: Instant) -> Result<String, RecvTimeoutError> {
        if let Some(line) = self.ahead.take() {
            return Ok(line);
        }
        let line = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now()))?;
        self.shown.push(line.clone());
        Ok(line)
    }

    /// Waits for the end of what was typed last; nothing may be shown that the guide does not say.
    fn finish(&mut self, expected_code: &str) {
        while self.is_busy {
            let line = self.next(Instant::now() + PATIENCE).unwrap_or_else(|error| {
                panic!("the command does not end ({error}): {}", self.shown.join("\n"))
            });
            match line.strip_prefix(ENDED) {
                Some(code) => {
                    assert_eq!(code, expected_code, "how it ended: {}", self.shown.join("\n"));
                    self.is_busy = false;
                }
                None => assert!(self.is_open, "the guide does not say `{line}`: {}", self.shown.join("\n")),
            }
        }
    }

    fn type_in(&mut self, command: &str) {
        self.shown.clear();
        (self.is_busy, self.is_open) = (true, false);
        writeln!(self.keys, "{command}\necho '{ENDED}'$?").unwrap();
    }

    fn press_ctrl_c(&self) {
        sh(&format!("pkill -INT -P {}", self.shell.id())).unwrap();
    }

    /// Compares a line with what is shown.
    fn expect(&mut self, expected: &str) {
        if expected.trim() == "…" {
            self.is_open = true;
            return;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let line = self.next(deadline).unwrap_or_else(|error| {
                panic!("waited for `{expected}` ({error}): {}", self.shown.join("\n"))
            });
            if fits(expected, &line) {
                self.is_open = false;
                return;
            }
            assert!(
                self.is_open && !line.starts_with(ENDED),
                "expected `{expected}`, found `{line}`: {}",
                self.shown.join("\n")
            );
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = sh(&format!("pkill -KILL -P {}", self.shell.id()));
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// The program before everything else that could be meant by its name.
fn path() -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_kilter")).parent().unwrap();
    format!("{}:{}", program.display(), std::env::var("PATH").unwrap())
}

/// Follows a guide from its first line to its last.
fn follow(page: &Path) {
    let text = std::fs::read_to_string(page).unwrap();
    let mut terminals: BTreeMap<String, Terminal> = BTreeMap::new();
    let mut process = "4711".to_owned();
    let blocks = blocks(&text);
    assert!(!blocks.is_empty(), "{}: nothing to type", page.display());
    for block in blocks {
        let terminal = terminals.entry(block.terminal.clone()).or_insert_with(|| Terminal::new(&root()));
        let mut code = "0".to_owned();
        for line in &block.text {
            let line = line.replace("4711", &process);
            if let Some(command) = line.strip_prefix("$ ") {
                terminal.finish(&code);
                code = "0".to_owned();
                terminal.type_in(&command.replace("cargo run --release --", "kilter"));
            } else if line == "^C" {
                terminal.press_ctrl_c();
            } else if let Some(number) = line.strip_prefix("[exit ") {
                number.trim_end_matches(']').clone_into(&mut code);
                terminal.finish(&code);
            } else {
                terminal.expect(&line.replace(&format!("nsenter --target {process}"), "nsenter --target …"));
                let shown =
                    terminal.shown.iter().find_map(|line| line.trim().strip_prefix("nsenter --target "));
                if let Some(found) = shown.and_then(|rest| rest.split(' ').next()) {
                    found.clone_into(&mut process);
                }
            }
        }
        if block.text.iter().any(|line| line == "^C") {
            terminal.finish("0");
        }
    }
    for terminal in terminals.values_mut().filter(|terminal| !terminal.is_open) {
        terminal.finish("0");
    }
}

#[test]
fn the_lab_of_the_readme_is_as_it_says() {
    follow(&root().join("README.md"));
}

#[test]
fn first_steps_are_as_the_guide_says() {
    follow(&root().join("docs/guides/first-steps.md"));
}

#[test]
fn every_verb_does_in_ten_minutes_what_the_guide_says() {
    follow(&root().join("docs/guides/ten-minutes.md"));
}

#[test]
fn text_within_a_line_may_be_anything_and_the_rest_may_not() {
    assert!(fits("txn #… applied in … ms", "txn #12 applied in 7 ms"));
    assert!(!fits("txn #… applied", "txn #12 reverted"));
    assert!(fits("plain", "plain") && !fits("plain", "plainly"));
}
