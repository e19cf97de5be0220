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
    All {
        /// A listing is asked about.
        since: bool,
    },
}

impl Asked {
    pub(crate) fn of(act: &Act) -> Self {
        match act {
            Act::Create { .. } | Act::Update { .. } | Act::Delete { .. } => Self::Change(action_of(act)),
            Act::Retrieve { key, .. } => Self::One(key.clone()),
            Act::RetrieveAll { since, .. } => Self::All { since: since.is_some() },
        }
    }

    /// The answer if it is one to the question, otherwise a failure: the walk relies on it.
    pub(crate) fn check(&self, answer: Answer) -> Answer {
        let fits = match (self, &answer) {
            (_, Answer::Failed(_))
            | (Self::Change(_), Answer::Done { .. } | Answer::Accepted { .. })
            | (Self::One(_), Answer::Absent)
            | (Self::All { .. }, Answer::Listed(_) | Answer::ListedAs(..))
            | (Self::All { since: true }, Answer::AsListed | Answer::NotAsListed) => true,
            (Self::One(key), Answer::Found(found)) => found.key == *key,
            (Self::Change(_), Answer::Found(_) | Answer::Absent)
            | (Self::One(_) | Self::All { .. }, Answer::Done { .. } | Answer::Accepted { .. })
            | (Self::All { .. }, Answer::Found(_) | Answer::Absent)
            | (_, Answer::Listed(_) | Answer::ListedAs(..) | Answer::AsListed | Answer::NotAsListed) => false,
        };
        if fits { answer } else { self.refused(&answer).into() }
    }

    fn refused(&self, answer: &Answer) -> OperationError {
        let asked = match self {
            Self::Change(action) => action.name().to_owned(),
            Self::One(key) => format!("retrieve {key}"),
            Self::All { .. } => "retrieve all".to_owned(),
        };
        let answered = match answer {
            Answer::Done { .. } => "done".to_owned(),
            Answer::Accepted { .. } => "accepted".to_owned(),
            Answer::Failed(_) => "failed".to_owned(),
            Answer::Found(found) => format!("found {}", found.key),
            Answer::Absent => "absent".to_owned(),
            Answer::Listed(_) | Answer::ListedAs(..) => "listed".to_owned(),
            Answer::AsListed => "as listed".to_owned(),
            Answer::NotAsListed => "not as listed".to_owned(),
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

#[cfg(test)]
mod tests {
    use kilter_scheduler::Listing;

    use super::*;

    #[test]
    fn only_a_question_about_a_listing_is_answered_by_it() {
        let fits = |since: Option<Listing>, answer: Answer| {
            let asked = Asked::of(&Act::RetrieveAll { expected: Vec::new(), since });
            !matches!(asked.check(answer), Answer::Failed(_))
        };
        let since = Some(Listing(7));
        for answer in [Answer::AsListed, Answer::NotAsListed] {
            assert!(fits(since, answer.clone()));
            assert!(!fits(None, answer), "nothing was asked about");
        }
        for since in [since, None] {
            assert!(fits(since, Answer::Listed(Vec::new())));
            assert!(fits(since, Answer::ListedAs(Listing(8), Vec::new())));
            assert!(!fits(since, Answer::Absent));
        }
    }
}
