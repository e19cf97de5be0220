//! How a store fails: one variant for each way to go on.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{Difference, LeaseId, Revision};

/// What is underneath an error; shared, because one failed write fails every commit that waited for it.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Something is not as the commit expected it. Read again, and decide again.
    #[error("could not commit: {}", list(.differences))]
    Conflict {
        /// What differs.
        differences: Vec<Difference>,
    },
    /// The revision was given up. Read a snapshot, and go on from there.
    #[error("could not read revision {asked}: the oldest that is kept is {oldest}")]
    Compacted {
        /// The revision asked for.
        asked: Revision,
        /// The oldest one that is kept.
        oldest: Revision,
    },
    /// The revision has not happened: another store was read before, or this one lost what it had.
    #[error("could not read revision {asked}: the newest is {head}")]
    Ahead {
        /// The revision asked for.
        asked: Revision,
        /// The newest one.
        head: Revision,
    },
    /// The store cannot be reached for the moment, and nothing was changed. Try again.
    #[error("could not {attempt}: the store is unavailable")]
    Unavailable {
        /// What was tried.
        attempt: String,
        /// Why.
        source: Cause,
    },
    /// Nobody knows whether the change happened, and it may happen yet. Read before doing it again, and compare: what
    /// is still on its way then conflicts instead of happening twice.
    #[error(
        "could not learn whether the attempt to {attempt} succeeded, hint: read, then repeat it with a comparison"
    )]
    Uncertain {
        /// What was tried.
        attempt: String,
        /// Why.
        source: Cause,
    },
    /// There is no room; nothing was changed. Make room, then try again.
    #[error("could not {attempt}: there is no room, hint: free some space")]
    Full {
        /// What was tried.
        attempt: String,
        /// Why.
        source: Cause,
    },
    /// The place is read-only; nothing was changed.
    #[error("could not {attempt}: the place is read-only")]
    ReadOnly {
        /// What was tried.
        attempt: String,
        /// Why.
        source: Cause,
    },
    /// The caller may not.
    #[error("could not {attempt}: permission denied")]
    Denied {
        /// What was tried.
        attempt: String,
        /// Why.
        source: Cause,
    },
    /// What is stored is not what was written. Restore it from elsewhere.
    #[error("could not {attempt}: what is stored is damaged, hint: move it away and declare again")]
    Corrupt {
        /// What was tried.
        attempt: String,
        /// How it shows.
        source: Cause,
    },
    /// The file was written by a newer program.
    #[error("could not open `{}`: its format {found} is newer than {known}, hint: use the newer program", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format this program knows.
        known: u64,
    },
    /// Somebody else has the store open.
    #[error("could not open `{}`: it is taken by {holder}", .path.display())]
    TakenByAnother {
        /// The file.
        path: PathBuf,
        /// Who has it.
        holder: Holder,
    },
    /// The lease has ended, or never was. Grant another, and put its items again.
    #[error("could not find lease `{0}`, hint: it may have expired")]
    NoSuchLease(LeaseId),
    /// No store would do this.
    #[error("could not use this {what}: {reason}")]
    Invalid {
        /// What is wrong.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// The store was closed by this program.
    #[error("could not reach the store: it was closed")]
    Closed,
}

impl StoreError {
    /// Whether the same request may succeed later, unchanged.
    ///
    /// [`StoreError::Uncertain`] is not among them: it may have succeeded already.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Full { .. } => true,
            Self::Conflict { .. }
            | Self::Compacted { .. }
            | Self::Ahead { .. }
            | Self::Uncertain { .. }
            | Self::ReadOnly { .. }
            | Self::Denied { .. }
            | Self::Corrupt { .. }
            | Self::Newer { .. }
            | Self::TakenByAnother { .. }
            | Self::NoSuchLease(_)
            | Self::Invalid { .. }
            | Self::Closed => false,
        }
    }

    /// Whether the request itself is wrong, whatever the store.
    pub fn is_invalid_input(&self) -> bool {
        matches!(self, Self::Invalid { .. })
    }

    pub(crate) fn invalid(what: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { what, reason: reason.into() }
    }
}

/// Who has a store open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process number, when it left one.
    pub pid: Option<u32>,
    /// What it is called, when it said so.
    pub name: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, self.pid) {
            (Some(name), Some(pid)) => write!(f, "`{name}` (pid {pid})"),
            (None, Some(pid)) => write!(f, "pid {pid}"),
            (Some(name), None) => write!(f, "`{name}`"),
            (None, None) => write!(f, "a program that did not leave its name"),
        }
    }
}

fn list(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
