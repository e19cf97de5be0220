//! The one printer of errors with their causes.

use std::error::Error;

/// An error with its causes, on one line: what was tried, then why it failed, down to the root.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // A cause that its effect has told already is not told twice.
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
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
}
