//! Relative links in documents lead to files that exist.
//!
//! Decided here: what counts as a link: `[text](target)`, `[name]: target`, and `src`/`href` in HTML, outside code.
//! Addresses with a scheme and anchors within the page are not followed.

use super::Finding;
use super::source::lines;
use super::workspace::{Workspace, has_extension};

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in workspace.texts(|file| has_extension(&file.path, "md")) {
        for (line, target) in links(text) {
            let Some(path) = relative(&target) else { continue };
            if !resolve(&file.path, path).is_some_and(|path| workspace.has(&path)) {
                let what = format!("link to `{target}` leads nowhere");
                findings.push(Finding::violation(
                    &file.path,
                    line,
                    what,
                    "paths are relative to the document",
                ));
            }
        }
    }
    findings
}

/// Every link target with its line.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fence = None;
    for (number, line) in lines(text) {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => found.extend(links_of_line(&without_code(line)).map(|target| (number, target))),
            (Some(_), _) => {}
        }
    }
    found
}

fn links_of_line(line: &str) -> impl Iterator<Item = String> {
    let after = |opening: &'static str, closing: char| {
        line.match_indices(opening).filter_map(move |(index, _)| {
            line[index + opening.len()..].split_once(closing).map(|(target, _)| target)
        })
    };
    let definition = line.trim_start().strip_prefix('[').filter(|rest| !rest.starts_with('^'));
    let definition = definition.and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
    let targets = after("](", ')').chain(after("src=\"", '"')).chain(after("href=\"", '"')).chain(definition);
    // A title may follow the target, and angle brackets may stand around it.
    let bare = |target: &str| {
        let target = target.trim();
        match target.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
            Some((target, _)) => target.to_owned(),
            None => target.split_whitespace().next().unwrap_or_default().to_owned(),
        }
    };
    targets.map(bare).collect::<Vec<_>>().into_iter()
}

/// The line with inline code blanked out.
fn without_code(line: &str) -> String {
    if line.matches('`').count() % 2 == 1 {
        return line.to_owned();
    }
    let blank =
        |(index, part): (usize, &str)| if index % 2 == 1 { " ".repeat(part.len()) } else { part.to_owned() };
    line.split('`').enumerate().map(blank).collect()
}

/// The path in a target, if it is one within the repository.
fn relative(target: &str) -> Option<&str> {
    let has_scheme =
        target.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
    let path = target.split(['#', '?']).next().unwrap_or_default();
    (!has_scheme && !target.starts_with("//") && !path.is_empty()).then_some(path)
}

/// A target seen from the folder of a document, or from the top if it begins with `/`; nothing if it leaves the
/// repository.
fn resolve(document: &str, target: &str) -> Option<String> {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let folder = if target.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::workspace::planted;
    use super::*;

    /// The lines of broken links in `docs/guide/start.md`.
    fn broken(text: &str) -> Vec<usize> {
        let workspace =
            planted(&[("docs/guide/start.md", text), ("docs/concepts.md", ""), ("README.md", "")]);
        check(&workspace).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        for text in [
            "[a](../concepts.md), [b](../../README.md#run) and ![c](start.md \"title\")\n",
            "[`code`](<../concepts.md>)\n\n[ref]: ../concepts.md\n[^note]: see nothing.md\n",
            "[up](..) [top](/docs) [anchor](#here) [web](https://example.com/x.md) [mail](mailto:a@b.c)\n",
            "```\n[x](gone.md)\n```\n`[y](gone.md)`\n<img src=\"../concepts.md\">\n",
        ] {
            assert_eq!(broken(text), [0; 0], "{text}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_found_at_their_line() {
        for text in [
            "\n[a](../concepts.md) [b](gone.md)\n",
            "\n[`code`](concepts.md)\n",
            "\n![picture](graph.svg)\n",
            "\n[ref]: ../gone.md\n",
            "\n<a href=\"gone.md\">x</a>\n",
            "\n[out](../../../README.md)\n",
            "\n[a](gone.md#part)\n```\n[x](gone.md)\n```\n",
        ] {
            assert_eq!(broken(text), [2], "{text}");
        }
        assert_eq!(broken("```\ncode\n```\n[a](gone.md)\n"), [4]);
    }

    #[test]
    fn only_documents_are_read() {
        assert_eq!(check(&planted(&[("crates/a/src/lib.rs", "//! [a](gone.md)\n")])), []);
    }
}
