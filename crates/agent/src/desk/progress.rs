//! What is told about a change while it is made and when it has ended, as values.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kilter_events::Conflict;
use kilter_scheduler::{Action, Key, Plan, PlanHash, Record, Seq};
use kilter_southbound::Finished;

use super::declaration::Expected;
use crate::confirm::{ConfirmError, Pending};

/// What would be done.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The steps, in order.
    pub plan: Plan,
    /// The identity of the plan.
    pub hash: PlanHash,
    /// Where sources contradict each other about what is declared.
    pub conflicts: Vec<Conflict>,
}

impl Planned {
    pub(crate) fn new(plan: Plan, conflicts: Vec<Conflict>) -> Self {
        Self { hash: plan.hash(), plan, conflicts }
    }

    /// What to expect of an application, so that it does exactly this or nothing.
    pub fn expected(&self) -> Expected {
        let digests = self.plan.digests().into_iter().map(|(key, digest)| (key, digest.to_string()));
        Expected { hash: self.hash.to_string(), digests: digests.collect() }
    }
}

/// An operation that was answered.
#[derive(Clone, Debug)]
pub struct Operated {
    /// The item; `None` if a whole kind was read.
    pub key: Option<Key>,
    /// What was done.
    pub action: Action,
    /// Why it failed, if it did.
    pub error: Option<Arc<str>>,
    /// How long it took.
    pub took: Duration,
}

impl Operated {
    pub(crate) fn of(operation: Finished<'_>) -> Self {
        Self {
            key: operation.key.cloned(),
            action: operation.action,
            error: operation.failure().map(|failure| failure.message.clone()),
            took: operation.took,
        }
    }
}

/// What is told while a change is made.
#[derive(Clone, Debug)]
pub enum Progress {
    /// This will be done; nothing is done yet.
    Planned(Arc<Planned>),
    /// An operation was answered.
    Operated(Operated),
    /// It has ended; nothing follows.
    Ended(Result<Applied, ApplyError>),
}

/// How a change ended that was carried out, well or not.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The event.
    pub event: u64,
    /// The transaction with its outcome; `None` if nothing had to be done.
    pub record: Option<Arc<Record>>,
    /// Where sources contradict each other about what is declared.
    pub conflicts: Vec<Conflict>,
    /// The confirmation that it waits for.
    pub confirmation: Option<Pending>,
}

/// Why a change failed beside its outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Something else would happen than what was shown.
    #[error("the plan is out of date: {} changed meanwhile, hint: plan again", list(.changed))]
    Stale {
        /// The items for which something else would happen; empty if that cannot be told.
        changed: Vec<Key>,
    },
    /// The source belongs to somebody else.
    #[error("source `{source_name}` is a directory, hint: change its files, or declare under another name")]
    Reserved {
        /// The source.
        source_name: String,
    },
    /// The name is not one.
    #[error("`{name}` cannot be the name of a source, hint: up to 64 letters, digits and `-_./`")]
    BadName {
        /// The name.
        name: String,
    },
    /// Another change waits for its confirmation.
    #[error("change #{id} waits for its confirmation, hint: `kilter confirm {id}`, or cancel it")]
    Unconfirmed {
        /// The change that waits.
        id: Seq,
    },
    /// No such change waits for its confirmation.
    #[error(transparent)]
    NotWaiting(#[from] ConfirmError),
    /// It could not be kept: nothing is done before it is.
    #[error("nothing was changed, because it could not be kept: {text}")]
    NotKept {
        /// Why, with its causes.
        text: String,
    },
    /// It was carried out, and could not be kept: after a restart the agent goes back, unless it is kept meanwhile.
    #[error("it was carried out and could not be kept, hint: the agent tries again: {text}")]
    Unkept {
        /// The transaction.
        seq: Seq,
        /// Why, with its causes.
        text: String,
    },
    /// The agent has too much to do.
    #[error("the agent has too much to do, hint: try again")]
    Busy,
    /// Something went wrong before anything was done.
    #[error("{text}")]
    Refused {
        /// What.
        text: String,
    },
    /// The agent has ended.
    #[error("the agent has ended")]
    Gone,
}

fn list(keys: &[Key]) -> String {
    match keys {
        [] => "something".to_owned(),
        keys => keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", "),
    }
}

/// Whether a plan is the one that was shown; if not, for which items it is another one.
pub(crate) fn hold_against(expected: &Expected, plan: &Plan) -> Result<(), ApplyError> {
    if plan.hash().to_string() == expected.hash {
        return Ok(());
    }
    let now: BTreeSet<(Key, String)> =
        plan.digests().into_iter().map(|(key, digest)| (key, digest.to_string())).collect();
    let shown: BTreeSet<(Key, String)> = expected.digests.iter().cloned().collect();
    let other = if shown.is_empty() { Vec::new() } else { now.symmetric_difference(&shown).collect() };
    let mut changed: Vec<Key> = other.into_iter().map(|(key, _)| key.clone()).collect();
    changed.dedup();
    Err(ApplyError::Stale { changed })
}
