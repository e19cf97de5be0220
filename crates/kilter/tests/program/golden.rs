//! Golden transcripts: what was typed, what was said and how it ended, held against a file.
//!
//! `UPDATE_GOLDENFILES=1` writes the files anew. What differs from run to run (times, spans, paths, numbers of
//! processes) is written as a word.

use std::path::PathBuf;

use crate::program::{kilter, root, run};

/// A session with an agent, as a person would see it.
pub(crate) struct Transcript {
    socket: String,
    /// Texts that differ from run to run, and the words that stand for them.
    words: Vec<(String, String)>,
    text: String,
}

impl Transcript {
    pub(crate) fn new(socket: &str) -> Self {
        let words = vec![(socket.to_owned(), "SOCKET".to_owned())];
        Self { socket: socket.to_owned(), words, text: String::new() }
    }

    /// Where the agent listens.
    pub(crate) fn socket(&self) -> &str {
        &self.socket
    }

    /// Writes a word for a text.
    pub(crate) fn call(&mut self, text: &str, word: &str) {
        self.words.push((text.to_owned(), word.to_owned()));
    }

    /// Types a line without writing anything down. Returns the output.
    pub(crate) fn look(&self, line: &str) -> String {
        let mut command = kilter(&line.split(' ').collect::<Vec<_>>());
        command.env("KILTER_SOCKET", &self.socket).env_remove("COLUMNS");
        run(command).stdout
    }

    /// Types a line, and writes down what follows. Returns the output as it was.
    pub(crate) fn kilter(&mut self, line: &str) -> String {
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command = kilter(&arguments);
        command.env("KILTER_SOCKET", &self.socket).env_remove("COLUMNS");
        let ended = run(command);
        let code = ended.code.unwrap();
        let shown = format!("$ kilter {line}\n{}{}[{code}]\n\n", ended.stdout, ended.stderr);
        self.text.push_str(&shown);
        ended.stdout
    }

    /// Writes down a line that was typed elsewhere, and what was told until it was ended.
    pub(crate) fn told(&mut self, line: &str, said: &[String]) {
        let said: String = said.iter().map(|line| format!("{line}\n")).collect();
        self.text.push_str(&format!("$ kilter {line}\n{said}\n"));
    }

    /// Holds the session against its file.
    pub(crate) fn hold_against(self, name: &str) {
        let mut text = self.text;
        for (volatile, word) in &self.words {
            text = text.replace(volatile, word);
        }
        let text: String = text.lines().map(|line| scrubbed(line) + "\n").collect();
        hold(name, &text);
    }
}

/// Holds a text against its file.
pub(crate) fn hold(name: &str, text: &str) {
    let path: PathBuf = root().join("crates/kilter/tests/program/golden").join(name);
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let (gone, come) = difference(&expected, text);
    assert!(text == expected, "{} is not as before\nexpected:\n{gone}\nsaid:\n{come}", path.display());
}

/// The lines of either text between what they have in common at the beginning and at the end, with numbers.
fn difference(expected: &str, text: &str) -> (String, String) {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), text.lines().collect());
    let begin = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let rest = old.len().min(new.len()) - begin;
    let end =
        old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(one, other)| one == other).count();
    let show = |lines: &[&str]| -> String {
        let numbered = lines[begin..lines.len() - end].iter().zip(begin + 1..);
        numbered.map(|(line, number)| format!("{number}: {line}\n")).collect()
    };
    (show(&old), show(&new))
}

/// A line with words for times, spans and processes; columns stand two spaces apart.
pub(crate) fn scrubbed(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let mut said = " ".repeat(indent);
    let mut gap = 0;
    let mut before = "";
    let is_typed = line.starts_with("$ ");
    // What the kernel tells of a namespace that is new counts too, once it was told.
    let is_counted = line.ends_with(" vertices");
    for token in line.trim_start().split(' ') {
        if token.is_empty() {
            gap += 1;
            continue;
        }
        if said.len() > indent {
            said.push_str(if gap > 0 { "  " } else { " " });
        }
        gap = 0;
        let core = token.trim_end_matches([',', ';', '.', ')']);
        let tail = &token[core.len()..];
        let is_count = !core.is_empty() && core.chars().all(|letter| letter.is_ascii_digit());
        said.push_str(&match before {
            "process" => "PID".to_owned(),
            "after_txn:" => "N".to_owned(),
            // A confirmation is named by its transaction.
            "confirm" if core.starts_with(|letter: char| letter.is_ascii_digit()) => {
                format!("N{}", core.trim_start_matches(|letter: char| letter.is_ascii_digit()))
            }
            _ if is_count && (is_typed || is_counted) => "N".to_owned(),
            _ => word(core),
        });
        said.push_str(tail);
        before = token;
    }
    said
}

fn word(token: &str) -> String {
    let shape: String =
        token.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
    let number = token.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = &token[number.len()..];
    let is_number =
        !number.is_empty() && number.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
    match shape.as_str() {
        shape if shape.starts_with("#0") => format!("#N{}", shape.trim_start_matches(['#', '0'])),
        shape if shape.starts_with("\"0000-00-00T") => "MOMENT".to_owned(),
        "0000-00-00" => "DATE".to_owned(),
        "00:00:00" => "TIME".to_owned(),
        _ if is_number && matches!(unit, "µs" | "ms" | "s") => "SPAN".to_owned(),
        _ => token.to_owned(),
    }
}
