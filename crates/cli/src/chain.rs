//! The one printer of errors with their causes.

use std::error::Error;

/// An error with its causes, on one line: what was tried, then why it failed, down to the root; a hint comes last.
pub fn chain(error: &dyn Error) -> String {
    let mut text = String::new();
    let mut hint = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let said = error.to_string();
        let (what, advice) = said.split_once(", hint: ").unwrap_or((&said, ""));
        if hint.is_empty() {
            hint = advice.to_owned();
        }
        // A cause that its effect has told already is not told twice.
        if !text.ends_with(what) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(what);
        }
        next = error.source();
    }
    if hint.is_empty() { text } else { format!("{text}, hint: {hint}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("failed to read `site.yaml`")]
    struct Unread(#[source] std::io::Error);

    #[test]
    fn causes_follow_what_was_tried() {
        let error = Unread(std::io::Error::other("the disk is gone"));
        assert_eq!(chain(&error), "failed to read `site.yaml`: the disk is gone");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("no agent answers, hint: start one")]
    struct Unanswered(#[source] std::io::Error);

    #[test]
    fn a_hint_comes_after_the_causes() {
        let error = Unanswered(std::io::Error::other("no such file"));
        assert_eq!(chain(&error), "no agent answers: no such file, hint: start one");
    }
}
