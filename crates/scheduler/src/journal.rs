//! The journal: what the scheduler was told, transaction by transaction, as values.
//!
//! Decided here: what must be remembered so that the same dialogue can be held again. Not decided here: where it is
//! written. What a transaction yields depends only on what it was told, in order, so a transaction that is begun with
//! the same request and told the same plans and does the same.

use crate::operation::{Answer, OpId};
use crate::scheduler::Scheduler;
use crate::state::Timestamp;

/// One thing the scheduler was told.
#[derive(Clone, Debug)]
pub enum Told {
    /// The transaction began.
    Begun {
        /// When.
        now: Timestamp,
    },
    /// It was asked for an operation.
    Asked {
        /// The operation it offered; `None` if asking only moved the transaction on.
        offered: Option<OpId>,
    },
    /// How an operation ended.
    Answered {
        /// Which.
        id: OpId,
        /// How.
        answer: Answer,
        /// When.
        now: Timestamp,
    },
    /// The plan was to be carried out.
    Executed,
    /// The plan was dropped.
    Abandoned,
    /// The transaction was ended.
    Finished {
        /// When.
        now: Timestamp,
    },
    /// Nothing further was to be started.
    Cancelled {
        /// Why.
        reason: String,
    },
}

impl Scheduler {
    /// Begins or ends keeping a journal.
    pub fn keep_journal(&mut self, keep: bool) {
        self.journal = keep.then(Vec::new);
    }

    /// What it was told since the journal was last taken; nothing while none is kept.
    pub fn take_journal(&mut self) -> Vec<Told> {
        self.journal.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn note(&mut self, told: impl FnOnce() -> Told) {
        if let Some(journal) = &mut self.journal {
            journal.push(told());
        }
    }
}
