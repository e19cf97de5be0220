//! States and statuses: where an item stands, and why.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::record::Action;

/// A moment, in nanoseconds since the Unix epoch. The scheduler never asks for the time; it is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The moment after `span` has passed.
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long it is since an earlier moment; zero if that moment is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The position of a transaction in the history.
pub type Seq = u64;

/// Where an item stands. The names are public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// Nobody declared it and it does not exist.
    Nonexistent,
    /// It was made here, is still declared, and a refresh did not find it.
    Missing,
    /// It is declared and no kind owns its key.
    Unimplemented,
    /// It is gone; seen between the two halves of a re-creation and once by watchers.
    Removed,
    /// It exists as declared.
    Configured,
    /// It exists, and nobody here declared or made it.
    Obtained,
    /// A refresh found it as ours, and this run has not been told about it.
    Discovered,
    /// It waits for a dependency.
    Pending,
    /// Its declared value is refused; what was applied before stays.
    Invalid,
    /// Its last operation failed and no retry is planned.
    Failed,
    /// Its last operation failed and a retry is planned.
    Retrying,
    /// Its creation or update was accepted and waits for an observation that confirms it.
    Applying,
    /// Its deletion was accepted and waits for an observation that confirms it.
    Removing,
}

impl State {
    /// The public name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nonexistent => "NONEXISTENT",
            Self::Missing => "MISSING",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Removed => "REMOVED",
            Self::Configured => "CONFIGURED",
            Self::Obtained => "OBTAINED",
            Self::Discovered => "DISCOVERED",
            Self::Pending => "PENDING",
            Self::Invalid => "INVALID",
            Self::Failed => "FAILED",
            Self::Retrying => "RETRYING",
            Self::Applying => "APPLYING",
            Self::Removing => "REMOVING",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where an item came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Origin {
    /// Somebody declared it, or it carries our mark.
    Declared,
    /// It exists without having been asked for.
    Observed,
}

/// One thing wrong with one field of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// The path of the field inside the value, for example `addresses[2].prefix`; empty for the value as a whole.
    pub path: String,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// A dependency that is not met, in words a person can act on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Unmet {
    /// This item must exist.
    On(Key),
    /// One item under these prefixes must exist (and match the named predicate).
    AnyOf {
        /// The prefixes.
        prefixes: Vec<String>,
        /// The predicate's name, if it has one.
        matching: Option<Arc<str>>,
    },
    /// This observed item must not exist.
    Absent(Key),
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On(key) => write!(f, "{key}"),
            Self::Absent(key) => write!(f, "no {key}"),
            Self::AnyOf { prefixes, matching } => {
                for (at, prefix) in prefixes.iter().enumerate() {
                    write!(f, "{}{prefix}*", if at == 0 { "any " } else { " or " })?;
                }
                match matching {
                    Some(name) => write!(f, " {name}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// An item's state with its reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The item.
    pub key: Key,
    /// Where it stands.
    pub state: State,
    /// Whether it exists for real.
    pub exists: bool,
    /// The last operation carried out on it.
    pub last: Option<Action>,
    /// Why the last operation failed.
    pub error: Option<Arc<str>>,
    /// What is wrong with the declared value, by field.
    pub fields: Vec<FieldError>,
    /// What it waits for.
    pub unmet: Vec<Unmet>,
    /// What keeps it from being changed or removed: items that stand on it and could not be removed.
    pub held_by: Vec<Key>,
    /// The transaction that last changed it.
    pub changed_by: Option<Seq>,
    /// The statuses of its derived items, by key.
    pub derived: Vec<Status>,
}
