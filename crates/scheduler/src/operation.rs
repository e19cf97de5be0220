//! Operations and answers: how the walk speaks with the driver.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::registry::KindId;
use crate::state::Origin;
use crate::value::{Facts, ValueRef};

/// The number of an operation inside its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpId(pub(crate) u32);

/// An operation that may run now.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its number; the answer names it.
    pub id: OpId,
    /// The kind whose actuator acts.
    pub kind: KindId,
    /// What is to be done.
    pub act: Act,
}

/// What an actuator is asked to do.
#[derive(Clone, Debug)]
pub enum Act {
    /// Make the item.
    Create {
        /// The item.
        key: Key,
        /// Its value.
        value: ValueRef,
    },
    /// Change the item in place.
    Update {
        /// The item.
        key: Key,
        /// What it is.
        old: ValueRef,
        /// What it shall be.
        new: ValueRef,
        /// What is known about it.
        facts: Option<Facts>,
    },
    /// Remove the item.
    Delete {
        /// The item.
        key: Key,
        /// What it is.
        value: ValueRef,
        /// What is known about it.
        facts: Option<Facts>,
    },
    /// Read one item by its key.
    Retrieve {
        /// The item.
        key: Key,
        /// The value it should have, if any: systems that cannot name things correlate by content.
        expected: Option<ValueRef>,
        /// What is known about it.
        facts: Option<Facts>,
    },
    /// Read every item of the kind.
    RetrieveAll {
        /// What should be there, or is about to be declared: systems that cannot name things correlate by content.
        /// Empty if `since` says as much in one word.
        expected: Vec<Expected>,
        /// The listing that is still believed to the letter: nothing about the kind was learnt in another way since, and
        /// nothing else is expected. The actuator may then say [`Answer::AsListed`] or [`Answer::NotAsListed`].
        since: Option<Listing>,
    },
}

impl Act {
    /// The item it is about; `None` if it is about a whole kind.
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Create { key, .. }
            | Self::Update { key, .. }
            | Self::Delete { key, .. }
            | Self::Retrieve { key, .. } => Some(key),
            Self::RetrieveAll { .. } => None,
        }
    }
}

/// What an actuator calls one of its listings of a kind, to be asked about it later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Listing(pub u64);

/// An item that a kind's actuator may expect to find.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The item.
    pub key: Key,
    /// Its value.
    pub value: ValueRef,
    /// What is known about it.
    pub facts: Option<Facts>,
}

/// An item that an actuator has read.
#[derive(Clone, Debug)]
pub struct Retrieved {
    /// The item.
    pub key: Key,
    /// What it is.
    pub value: ValueRef,
    /// What reading it taught.
    pub facts: Option<Facts>,
    /// Whose it is; `None` if the system does not tell: then it is ours if it is declared, about to be declared by the
    /// same resync, or remembered as ours.
    pub origin: Option<Origin>,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason with its causes, for people.
    pub message: Arc<str>,
    /// Whether the same operation may succeed later.
    pub retriable: bool,
}

impl Failure {
    /// A failure that may go away.
    pub fn retriable(message: impl Into<Arc<str>>) -> Self {
        Self { message: message.into(), retriable: true }
    }

    /// A failure that stays.
    pub fn lasting(message: impl Into<Arc<str>>) -> Self {
        Self { message: message.into(), retriable: false }
    }
}

/// How an operation ended.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A create, update or delete is done.
    Done {
        /// What it taught; `None` after an update keeps what was known.
        facts: Option<Facts>,
    },
    /// A create, update or delete was accepted; an observation will confirm it.
    Accepted {
        /// How long the confirmation may take.
        within: Duration,
    },
    /// The operation failed. A retrieve that fails leaves what is remembered.
    Failed(Failure),
    /// A retrieve found the item.
    Found(Retrieved),
    /// A retrieve did not find the item.
    Absent,
    /// Everything of the kind.
    Listed(Vec<Retrieved>),
    /// Everything of the kind, and what the listing is called: a later read may ask about it.
    ListedAs(Listing, Vec<Retrieved>),
    /// Everything of the kind is as in the listing that was asked about: it would be answered with the same items, the
    /// same values, facts and origins.
    AsListed,
    /// Something may not be as in the listing that was asked about: the kind is to be read again, in full.
    NotAsListed,
}

impl Answer {
    /// Done, and nothing was learnt.
    pub fn done() -> Self {
        Self::Done { facts: None }
    }
}
