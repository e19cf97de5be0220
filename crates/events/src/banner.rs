//! Banners: the text of an event for people, one half before handlers are called, the other half after it has ended.
//!
//! **Guarantees** that no line is longer than [`WIDTH`], whatever the texts contain, and that text of others cannot
//! break a line or turn its direction.

use std::fmt::Write;
use std::sync::Arc;

use kilter_scheduler::render::one_line;

use crate::error::Place;
use crate::record::EventRecord;
use crate::step::Opening;

/// The columns of a banner.
pub const WIDTH: usize = 130;

/// What stands at the left and at the right of a line.
const EDGES: usize = "*   ".len() + " *".len();

/// Where continued lines stand.
const CONTINUED: usize = 6;

/// The text of an event before handlers are called.
pub fn opening(opening: &Opening) -> String {
    let Opening { seq, follow_up_to, description, handlers } = opening;
    let mut banner = Banner::new('>');
    let mut lines = description.lines();
    let lead = match follow_up_to {
        Some(parent) => format!("NEW EVENT (follow-up to #{parent}): "),
        None => "NEW EVENT: ".to_owned(),
    };
    banner.row(&lead, lines.next().unwrap_or_default(), &format!("#{seq}"));
    let indent = " ".repeat("NEW EVENT: ".len());
    lines.for_each(|line| banner.row(&indent, line, ""));
    if !handlers.is_empty() {
        banner.row("EVENT HANDLERS: ", &joined(handlers), "");
    }
    banner.end()
}

/// The text of an event after it has ended.
pub fn closing(record: &EventRecord) -> String {
    let mut banner = Banner::new('<');
    banner.row(
        "FINALIZED EVENT: ",
        record.description.lines().next().unwrap_or_default(),
        &format!("#{}", record.seq),
    );
    let took = format!("took {}ms", record.duration().as_millis());
    let by = |revert: bool| {
        let handlers = record.handlers.iter().filter(move |one| one.revert == revert);
        handlers.map(|one| Arc::clone(&one.handler)).collect::<Vec<_>>()
    };
    if !by(false).is_empty() {
        banner.row("HANDLED BY: ", &joined(&by(false)), &took);
    } else if record.txn.is_some() {
        banner.row("HANDLED BY: ", "the scheduler", &took);
    }
    let errors: Vec<_> = record.handler_failures().collect();
    if !errors.is_empty() {
        banner.row("ERRORS:", "", "");
    }
    for failure in errors {
        let who = match &failure.place {
            Place::Handler(handler) => format!("{handler}: "),
            Place::Revert(handler) => format!("{handler} (REVERT): "),
            Place::Preparation | Place::Commit => String::new(),
        };
        banner.row("    * ", &format!("{who}{}", failure.text), "");
    }
    if !by(true).is_empty() {
        banner.row("REVERTED BY: ", &joined(&by(true)), "");
    }
    if let Some(error) = &record.txn_error {
        banner.row("TRANSACTION ERROR: ", error, "");
    }
    for one in record.handlers.iter().filter(|one| one.over_budget) {
        banner.row("WARNING: ", &format!("{} took {}ms", one.handler, one.took.as_millis()), "");
    }
    for conflict in &record.conflicts {
        let field = if conflict.field.is_empty() { "the value" } else { &conflict.field };
        let text =
            format!("{}: {} says another {field} than {}", conflict.key, conflict.heard, conflict.unheard);
        banner.row("CONFLICT: ", &text, "");
    }
    for difference in &record.differences {
        banner.row("DIFFERENCE: ", &difference.to_string(), "");
    }
    banner.end()
}

fn joined(names: &[Arc<str>]) -> String {
    names.join(", ")
}

struct Banner {
    border: char,
    text: String,
}

impl Banner {
    fn new(border: char) -> Self {
        let mut banner = Self { border, text: String::new() };
        banner.rule();
        banner
    }

    fn rule(&mut self) {
        self.text.extend(std::iter::repeat_n(self.border, WIDTH));
        self.text.push('\n');
    }

    /// A lead, a text that is wrapped, and something at the right end of the first line.
    fn row(&mut self, lead: &str, text: &str, right: &str) {
        let text = one_line(text);
        let indent = text.len() - text.trim_start().len();
        let inside = WIDTH - EDGES;
        let lead_width = lead.chars().count().min(inside / 2);
        let first = inside - lead_width - if right.is_empty() { 0 } else { right.chars().count() + 1 };
        let further = inside - lead_width - CONTINUED - indent.min(inside / 4);
        for (at, line) in wrapped(&text, first, further).into_iter().enumerate() {
            let (lead, right) = if at == 0 { (lead.to_owned(), right) } else { (String::new(), "") };
            let pad = if at == 0 { 0 } else { lead_width + CONTINUED + indent.min(inside / 4) };
            let left = format!("{lead}{}{line}", " ".repeat(pad));
            let room = inside.saturating_sub(left.chars().count());
            writeln!(self.text, "*   {left}{right:>room$} *").expect("writing to a string cannot fail");
        }
    }

    fn end(mut self) -> String {
        self.rule();
        self.text
    }
}

/// The text in lines: at blanks if possible, inside a word that is longer than a line. At least one line.
fn wrapped(text: &str, first: usize, further: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest: Vec<char> = text.trim_end().chars().collect();
    let mut width = first;
    while rest.len() > width {
        let blank = rest[..=width].iter().rposition(|letter| *letter == ' ').filter(|at| *at > 0);
        let indent = rest.iter().take_while(|letter| **letter == ' ').count();
        let at = blank.filter(|at| *at > indent).unwrap_or(width);
        let next: Vec<char> = rest.split_off(at).into_iter().skip_while(|letter| *letter == ' ').collect();
        lines.push(rest.into_iter().collect());
        rest = next;
        width = further;
    }
    lines.push(rest.into_iter().collect());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(description: &str) -> String {
        opening(&Opening {
            seq: 2,
            follow_up_to: None,
            description: description.into(),
            handlers: vec!["podmanager".into(), "ipnet".into()],
        })
    }

    #[test]
    fn the_columns_are_those_of_the_example() {
        let text = opened("Add Pod kube-system/coredns\n* Container: 740ee06ac2bc");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], ">".repeat(130));
        assert!(
            lines[1].starts_with("*   NEW EVENT: Add Pod kube-system/coredns ")
                && lines[1].ends_with(" #2 *")
        );
        assert!(lines[2].starts_with("*              * Container: 740ee06ac2bc "));
        assert!(lines[3].starts_with("*   EVENT HANDLERS: podmanager, ipnet "));
        assert_eq!(lines[4], lines[0]);
    }

    #[test]
    fn no_text_breaks_the_box() {
        let long = "word ".repeat(80);
        let hostile =
            ["%s%n%d", "a\u{202e}b\rc\x1b[31md\te", &"x".repeat(5000), &long, "", "  * indented item"];
        for text in hostile {
            for line in opened(&format!("{text}\n{text}")).lines() {
                assert_eq!(line.chars().count(), WIDTH, "{line}");
                assert!(!line.contains(|letter: char| letter.is_control() || letter == '\u{202e}'), "{line}");
            }
        }
        assert!(opened("%s%n").contains("%s%n"));
    }

    #[test]
    fn long_lines_are_wrapped_at_blanks() {
        let text = opened(&"word ".repeat(40));
        assert!(text.lines().count() > 4);
        assert!(text.lines().skip(1).all(|line| !line.contains("wo ") && !line.contains(" rd")));
    }
}
