//! Looking on while a transaction is performed.

use std::time::Duration;

use futures::future::{BoxFuture, pending};
use kilter_scheduler::{Action, Answer, Failure, Key, Plan, Scheduler};

/// Whether a plan is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Carry it out.
    Execute,
    /// Leave everything as it is; the transaction leaves no trace.
    Stop,
}

/// An operation that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    /// The item; `None` if a whole kind was read.
    pub key: Option<&'a Key>,
    /// The kind.
    pub kind: &'a str,
    /// What was done.
    pub action: Action,
    /// How it ended.
    pub answer: &'a Answer,
    /// How long it took, from the hand-out to the answer.
    pub took: Duration,
}

impl Finished<'_> {
    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<&Failure> {
        match self.answer {
            Answer::Failed(failure) => Some(failure),
            Answer::Done { .. }
            | Answer::Accepted { .. }
            | Answer::Found(_)
            | Answer::Absent
            | Answer::Listed(_)
            | Answer::ListedAs(..)
            | Answer::AsListed
            | Answer::NotAsListed => None,
        }
    }
}

/// Somebody who sees the plan before anything is done, and every operation once it is answered.
///
/// **Assumes** that the methods return soon: the driver waits for them.
pub trait Observer: Send {
    /// The plan is there and nothing is done yet. Not called when the scheduler's settings switch planning off.
    fn planned(&mut self, _plan: &Plan) -> Decision {
        Decision::Execute
    }

    /// An operation was answered.
    fn finished(&mut self, _operation: Finished<'_>) {}

    /// Ends when somebody has a question, also while operations are under way; [`Observer::answer`] is called then.
    ///
    /// **Assumes** that no question is lost when it is dropped halfway.
    fn asked(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(pending())
    }

    /// Answers what was asked, with the scheduler as it stands in the middle of the transaction.
    fn answer(&mut self, _scheduler: &Scheduler) {}
}

/// Nobody looks on.
impl Observer for () {}
