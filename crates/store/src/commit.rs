//! Commits: what is asked of a store, all or nothing.

use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;

use crate::item::check_key;
use crate::{Item, LeaseId, Revision, StoreError};

/// Puts and deletes that happen together, if everything compared is as expected.
///
/// **Guarantees** all of it is done under one revision, or none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// What must hold; one that does not makes a [`StoreError::Conflict`].
    pub compare: Vec<Compare>,
    /// Items to put.
    pub puts: Vec<Put>,
    /// Keys to delete; one that is absent is no error.
    pub deletes: Vec<String>,
    /// The lease the puts hang on. A put without one frees its item from the lease it hung on.
    pub lease: Option<LeaseId>,
}

impl Commit {
    /// A commit of nothing, to add to.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also puts an item.
    #[must_use]
    pub fn put(mut self, key: impl Into<String>, value: impl Into<Bytes>) -> Self {
        self.puts.push(Put { key: key.into(), value: value.into() });
        self
    }

    /// Also deletes an item.
    #[must_use]
    pub fn delete(mut self, key: impl Into<String>) -> Self {
        self.deletes.push(key.into());
        self
    }

    /// Only if a key is as expected.
    #[must_use]
    pub fn expect(mut self, key: impl Into<String>, expected: Expected) -> Self {
        self.compare.push(Compare { key: key.into(), expected });
        self
    }

    /// Hangs the puts on a lease.
    #[must_use]
    pub fn under(mut self, lease: LeaseId) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Refuses what no driver can do: a key that cannot be held, or one key changed twice.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let mut changed = HashSet::new();
        let keys =
            self.puts.iter().map(|put| put.key.as_str()).chain(self.deletes.iter().map(String::as_str));
        for key in keys {
            check_key(key)?;
            if !changed.insert(key) {
                return Err(StoreError::invalid("commit", format!("it changes `{key}` twice")));
            }
        }
        self.compare.iter().try_for_each(|compare| check_key(&compare.key))
    }
}

/// One item to put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: Bytes,
}

/// What one key must be like for a commit to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The key.
    pub key: String,
    /// What is expected of it.
    pub expected: Expected,
}

/// What is expected of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It is not there.
    Absent,
    /// It is there, with whatever value.
    Present,
    /// It is there, last put by this commit: unchanged since it was read.
    Modified(Revision),
    /// It is there with this value.
    Value(Bytes),
}

impl Expected {
    /// Whether what is there is as expected.
    pub fn holds(&self, actual: Option<&Item>) -> bool {
        match (self, actual) {
            (Self::Absent, None) | (Self::Present, Some(_)) => true,
            (Self::Modified(revision), Some(item)) => item.modified == *revision,
            (Self::Value(value), Some(item)) => item.value == *value,
            (Self::Absent, Some(_)) | (Self::Present | Self::Modified(_) | Self::Value(_), None) => false,
        }
    }
}

/// One comparison that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The key.
    pub key: String,
    /// What was expected of it.
    pub expected: Expected,
    /// What is there.
    pub actual: Option<Item>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ", self.key)?;
        match &self.actual {
            None => write!(f, "is absent")?,
            Some(item) => write!(f, "is of revision {}", item.modified)?,
        }
        match &self.expected {
            Expected::Absent => write!(f, ", expected to be absent"),
            Expected::Present => write!(f, ", expected to be there"),
            Expected::Modified(revision) => write!(f, ", expected of revision {revision}"),
            Expected::Value(_) => write!(f, ", expected with another value"),
        }
    }
}

/// A commit that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its revision. A commit that changes nothing has the revision of the last one that did.
    pub revision: Revision,
}
