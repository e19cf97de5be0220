//! Problems: what is wrong with a document, where, what is allowed, and what was probably meant.

use std::fmt;

use super::place::Place;

/// One thing that is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What is wrong, and what is allowed.
    pub message: String,
    /// What was probably meant, or what to do.
    pub hint: Option<String>,
    /// Another place that has to do with it.
    pub other: Option<Place>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        if let Some(other) = &self.other {
            write!(f, " {other}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, ", hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Everything that is wrong with a set of documents, in the order of files and lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if at == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}
