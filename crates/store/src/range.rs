//! Reading: one key, or all below a prefix as of one revision.

use crate::{Item, Revision, StoreError};

/// What was found under one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The revision at which this is true.
    pub revision: Revision,
    /// The item; `None` is *absent*, which an empty value is not.
    pub item: Option<Item>,
}

/// Which items to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Keys that begin with this; an empty one is every key.
    pub prefix: String,
    /// As of which revision; the newest when not given.
    pub at: Option<Revision>,
    /// Only keys behind this one.
    pub after: Option<String>,
    /// At most so many items.
    pub limit: Option<usize>,
}

impl Range {
    /// Every item below a prefix, as it is.
    pub fn of(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }

    /// As of a revision.
    #[must_use]
    pub fn at(mut self, revision: Revision) -> Self {
        self.at = Some(revision);
        self
    }

    /// In pages of so many items.
    #[must_use]
    pub fn pages_of(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Refuses what no driver can answer.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.limit {
            Some(0) => Err(StoreError::invalid("range", "its pages hold no items")),
            Some(_) | None => Ok(()),
        }
    }

    /// The page behind one that was read, as of the same revision; `None` behind the last.
    pub fn following(&self, page: &Snapshot) -> Option<Self> {
        let last = page.items.last().filter(|_| page.more)?;
        Some(Self { at: Some(page.revision), after: Some(last.key.clone()), ..self.clone() })
    }
}

/// Items as they were at one revision, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The revision.
    pub revision: Revision,
    /// The items.
    pub items: Vec<Item>,
    /// Whether the range holds more items behind these: ask for [`Range::following`].
    pub more: bool,
}
