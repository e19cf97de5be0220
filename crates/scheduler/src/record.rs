//! Records: one transaction as it is remembered.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::key::Key;
use crate::state::{Seq, State, Timestamp, Unmet};
use crate::txn::OnFailure;
use crate::value::ValueRef;

/// What a step does with an item. The first four reach an actuator; the others are the scheduler's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Makes it.
    Create,
    /// Changes it in place.
    Update,
    /// Removes it.
    Delete,
    /// Reads it.
    Retrieve,
    /// Keeps its declaration until its dependencies are met.
    Hold,
    /// Notes that it exists although nobody declared it.
    Observe,
    /// Notes that an observed item is gone.
    Forget,
    /// Takes an existing item over: declared, it exists as it should.
    Adopt,
    /// Gives an adopted foreign item back: undeclared, it stays.
    Release,
    /// Refuses its value.
    Refuse,
    /// Drops a declaration behind which nothing exists.
    Drop,
    /// Notes that it is gone although it is declared.
    Miss,
    /// Notes how it stands after a change that no other step tells: what was read of it, or what became of others.
    Settle,
}

impl Action {
    /// The word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Retrieve => "retrieve",
            Self::Hold => "hold",
            Self::Observe => "observe",
            Self::Forget => "forget",
            Self::Adopt => "adopt",
            Self::Release => "release",
            Self::Refuse => "refuse",
            Self::Drop => "drop",
            Self::Miss => "miss",
            Self::Settle => "settle",
        }
    }
}

/// An item as it was at one side of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Where it stood.
    pub state: State,
    /// What it was, or was to be if it did not exist. Read back, it is plain JSON.
    #[serde(deserialize_with = "plain")]
    pub value: Option<ValueRef>,
}

/// One step of a transaction: an operation, or something the scheduler noted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The item.
    pub key: Key,
    /// The item that derives it.
    pub base: Option<Key>,
    /// What was done.
    pub action: Action,
    /// The item before.
    pub before: Side,
    /// The item after.
    pub after: Side,
    /// Why it failed.
    pub error: Option<Arc<str>>,
    /// What the item waits for afterwards, or why it was refused, or why it had to be created again.
    pub note: Option<Arc<Note>>,
    /// What kind of step it is.
    pub marks: Marks,
}

impl Step {
    /// Whether the step changes the world.
    pub fn is_operation(&self) -> bool {
        !self.marks.property && matches!(self.action, Action::Create | Action::Update | Action::Delete)
    }

    /// Whether the step only keeps the record complete and says nothing to a person: a declared value is taken over
    /// without anything being done, or what the way back leaves behind is dropped.
    pub fn is_quiet(&self) -> bool {
        match self.action {
            Action::Settle => true,
            Action::Adopt => self.marks.revert || self.before.state == self.after.state,
            Action::Drop => self.marks.revert || (self.marks.derived && self.before.state == State::Pending),
            Action::Create
            | Action::Update
            | Action::Delete
            | Action::Retrieve
            | Action::Hold
            | Action::Observe
            | Action::Forget
            | Action::Release
            | Action::Refuse
            | Action::Miss => false,
        }
    }
}

/// What a step says besides its states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// What the item waits for.
    Needs(Vec<Unmet>),
    /// Why the item is created again.
    Recreate(String),
    /// Why the value is refused.
    Refused(String),
}

/// What kind of step it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// The item is derived.
    pub derived: bool,
    /// The item is a property: derived, and nobody makes it.
    pub property: bool,
    /// The step belongs to the way back.
    pub revert: bool,
    /// The step tries again what failed.
    pub retry: bool,
    /// The step is half of a re-creation.
    pub recreate: bool,
}

/// A value of a record that is read back: only its JSON is known, not its type.
fn plain<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ValueRef>, D::Error> {
    Ok(Option::<serde_json::Value>::deserialize(deserializer)?.map(ValueRef::new))
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Everything asked for exists.
    Applied,
    /// Nothing failed; some of what was asked waits for dependencies or confirmation.
    AppliedWithPending,
    /// Something failed, the rest was applied.
    Incomplete(Cause),
    /// Something failed and everything is as before.
    Reverted(Cause),
    /// Something failed and the way back failed too.
    RevertFailed {
        /// Why the way back was taken.
        cause: Cause,
        /// Why it did not arrive.
        revert: Cause,
    },
}

impl Outcome {
    /// The first cause of anything that went wrong.
    pub fn cause(&self) -> Option<&Cause> {
        match self {
            Self::Applied | Self::AppliedWithPending => None,
            Self::Incomplete(cause) | Self::Reverted(cause) | Self::RevertFailed { cause, .. } => Some(cause),
        }
    }
}

/// The first thing that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The item.
    pub key: Key,
    /// Why.
    pub error: Arc<str>,
}

/// What kind of transaction it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TxnType {
    /// Declared changes.
    Changes {
        /// What a failure leads to.
        on_failure: OnFailure,
    },
    /// A resync with refreshed actual state and new declarations.
    FullResync,
    /// A resync with new declarations.
    UpstreamResync,
    /// A resync with refreshed actual state.
    DownstreamResync,
    /// A downstream resync of some items.
    Refresh,
    /// A notification of observed items.
    Notification,
    /// A retry.
    Retry {
        /// Of which transaction.
        of: Seq,
        /// Which attempt.
        attempt: u32,
    },
    /// Items of a kind that was registered late.
    LateKind,
    /// Operations whose confirmation did not come.
    Overdue,
}

/// What was asked of one item.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Argument {
    /// The item.
    pub key: Key,
    /// The value; `None` removes or is gone. Read back, it is plain JSON.
    #[serde(deserialize_with = "plain")]
    pub value: Option<ValueRef>,
}

/// What was carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Executed {
    /// Exactly the plan.
    AsPlanned,
    /// These steps, in the order in which they ended.
    Steps(Vec<Step>),
}

/// One transaction as it is remembered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Its position in the history.
    pub seq: Seq,
    /// What kind it was.
    pub txn_type: TxnType,
    /// Who asked, and why.
    pub description: String,
    /// When it began.
    pub start: Timestamp,
    /// When it ended.
    pub stop: Timestamp,
    /// What was asked, by key. Empty for a downstream resync.
    pub arguments: Vec<Argument>,
    /// Observations that were left aside because the item is declared, or no kind owns its key.
    pub ignored: Vec<Key>,
    /// The steps in order, before any was done; `None` if planning was switched off.
    pub planned: Option<Vec<Step>>,
    /// What was carried out.
    pub executed: Executed,
    /// Changes that none of these steps tells, so that the record is complete; see [`Action::Settle`].
    pub settled: Vec<Step>,
    /// Items that wait as before, but for something else.
    pub stirred: Vec<Key>,
    /// How it ended.
    pub outcome: Outcome,
    /// Everything that failed.
    pub failures: Vec<Cause>,
}

impl Record {
    /// The steps that were carried out.
    pub fn steps(&self) -> &[Step] {
        match &self.executed {
            Executed::Steps(steps) => steps,
            Executed::AsPlanned => self.planned.as_deref().unwrap_or_default(),
        }
    }

    /// Everything that changed, in order: the steps that were carried out, and what none of them tells.
    pub fn changes(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.steps().iter().chain(&self.settled)
    }

    /// How long it took.
    pub fn duration(&self) -> Duration {
        self.stop.since(self.start)
    }

    /// About how many bytes the record occupies. A value that a step replaced is counted: only the record keeps it.
    pub fn weight(&self) -> usize {
        let arguments = self.arguments.iter();
        let arguments = arguments.map(|argument| argument.value.as_ref().map_or(0, ValueRef::weight));
        let executed = match &self.executed {
            Executed::AsPlanned => [].as_slice(),
            Executed::Steps(steps) => steps,
        };
        let steps = self.planned.iter().flatten().chain(executed);
        let causes = self.failures.iter().map(|cause| size_of::<Cause>() + cause.error.len());
        size_of::<Self>()
            + self.description.len()
            + size_of_val(self.arguments.as_slice())
            + size_of_val(self.ignored.as_slice())
            + arguments.sum::<usize>()
            + steps.map(Step::weight).sum::<usize>()
            + causes.sum::<usize>()
    }
}

impl Step {
    fn weight(&self) -> usize {
        let note = match self.note.as_deref() {
            None => 0,
            Some(Note::Needs(unmet)) => size_of_val(unmet.as_slice()),
            Some(Note::Recreate(text) | Note::Refused(text)) => text.len(),
        };
        let replaced = self.before.value.as_ref().map_or(0, ValueRef::weight);
        size_of::<Self>()
            + self.key.as_str().len()
            + replaced
            + note
            + self.error.as_ref().map_or(0, |error| error.len())
    }
}
