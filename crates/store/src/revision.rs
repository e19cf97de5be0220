//! The one number that orders everything in a store.

use std::fmt;

/// The position of a commit: one growing number for the whole store.
///
/// **Guarantees** a commit that changes something has the revision after that of the commit before it. Zero is the
/// store before its first commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The store before its first commit.
    pub const ZERO: Self = Self(0);

    /// The revision of the next commit.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
