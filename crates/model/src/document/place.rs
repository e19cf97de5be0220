//! Places in a document: which file, which line, which column.

use std::fmt;
use std::sync::Arc;

/// Where something stands in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The name of the file, as it was given.
    pub file: Arc<str>,
    /// The line; the first is 1.
    pub line: u32,
    /// The column in characters; the first is 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A line and a column, before it is known which file they are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Spot {
    pub(crate) fn in_file(self, file: &Arc<str>) -> Place {
        Place { file: Arc::clone(file), line: self.line, column: self.column }
    }
}
