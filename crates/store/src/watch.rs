//! Watching: commits in order, from a revision on, none left out silently.

use std::fmt;

use futures::StreamExt;
use futures::stream::BoxStream;

use crate::{Item, Revision, StoreError};

/// The commits behind a revision that touch a prefix, as they come.
///
/// **Guarantees** every commit is told whole (what of it lies below the prefix), in order and once. A slow reader is
/// served from what the store keeps; when that was compacted away, it is told so by [`StoreError::Compacted`], and
/// reads a snapshot. Dropping the future of [`Watch::next`] loses nothing.
pub struct Watch {
    stream: BoxStream<'static, Result<News, StoreError>>,
}

impl Watch {
    pub(crate) fn new(stream: BoxStream<'static, Result<News, StoreError>>) -> Self {
        Self { stream }
    }

    /// What comes next; waits for it.
    ///
    /// After an error that is [retriable](StoreError::is_retriable) the watch goes on where it was when asked again;
    /// after any other it has ended, and answers [`StoreError::Closed`] from then on.
    pub async fn next(&mut self) -> Result<News, StoreError> {
        self.stream.next().await.unwrap_or(Err(StoreError::Closed))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// What a watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A commit that touches the prefix.
    Commit(Told),
    /// Nothing else touched the prefix up to this revision: a resume may begin behind it.
    Progress(Revision),
}

/// A commit as a watch tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its revision.
    pub revision: Revision,
    /// What it changed below the watched prefix, sorted by key.
    pub changes: Vec<Change>,
}

/// What a commit did to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was put; this is the item as of that commit.
    Put(Item),
    /// It was deleted.
    Deleted(String),
}

impl Change {
    /// The key that was changed.
    pub fn key(&self) -> &str {
        match self {
            Self::Put(item) => &item.key,
            Self::Deleted(key) => key,
        }
    }
}
