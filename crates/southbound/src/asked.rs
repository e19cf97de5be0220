//! What an operation asks for, and whether an answer is one to it.

use kilter_scheduler::{Act, Action, Answer, Key};

use crate::error::OperationError;

/// What an operation asks for, without its content.
pub(crate) enum Asked {
    /// A create, update or delete.
    Change(Action),
    /// One item, by its key.
    One(Key),
    /// Everything of the kind.
    All,
}

impl Asked {
    pub(crate) fn of(act: &Act) -> Self {
        match act {
            Act::Create { .. } | Act::Update { .. } | Act::Delete { .. } => Self::Change(action_of(act)),
            Act::Retrieve { key, .. } => Self::One(key.clone()),
            Act::RetrieveAll { .. } => Self::All,
        }
    }

    /// The answer if it is one to the question, otherwise a failure: the walk relies on it.
    pub(crate) fn check(&self, answer: Answer) -> Answer {
        let fits = match (self, &answer) {
            (_, Answer::Failed(_))
            | (Self::Change(_), Answer::Done { .. } | Answer::Accepted { .. })
            | (Self::One(_), Answer::Absent)
            | (Self::All, Answer::Listed(_)) => true,
            (Self::One(key), Answer::Found(found)) => found.key == *key,
            (Self::Change(_), Answer::Found(_) | Answer::Absent | Answer::Listed(_))
            | (Self::One(_), Answer::Done { .. } | Answer::Accepted { .. } | Answer::Listed(_))
            | (
                Self::All,
                Answer::Done { .. } | Answer::Accepted { .. } | Answer::Found(_) | Answer::Absent,
            ) => false,
        };
        if fits { answer } else { self.refused(&answer).into() }
    }

    fn refused(&self, answer: &Answer) -> OperationError {
        let asked = match self {
            Self::Change(action) => action.name().to_owned(),
            Self::One(key) => format!("retrieve {key}"),
            Self::All => "retrieve all".to_owned(),
        };
        let answered = match answer {
            Answer::Done { .. } => "done".to_owned(),
            Answer::Accepted { .. } => "accepted".to_owned(),
            Answer::Failed(_) => "failed".to_owned(),
            Answer::Found(found) => format!("found {}", found.key),
            Answer::Absent => "absent".to_owned(),
            Answer::Listed(_) => "listed".to_owned(),
        };
        OperationError::WrongAnswer { asked, answered }
    }
}

/// The word for the act.
pub(crate) fn action_of(act: &Act) -> Action {
    match act {
        Act::Create { .. } => Action::Create,
        Act::Update { .. } => Action::Update,
        Act::Delete { .. } => Action::Delete,
        Act::Retrieve { .. } | Act::RetrieveAll { .. } => Action::Retrieve,
    }
}

/// Whether the act leaves everything as it is.
pub(crate) fn is_read(act: &Act) -> bool {
    matches!(act, Act::Retrieve { .. } | Act::RetrieveAll { .. })
}
