//! What a question of the service needs: whoever asks was recognised at the [`door`](super::door), and has a role.

use kilter_api::v1::{Problem, Reason};
use tonic::{Request, Status};

use super::door::{Caller, Role};

/// What a question does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It only looks.
    Look,
    /// It changes something.
    Change,
    /// It makes kinds real.
    Attach,
    /// It writes a file with everything that the agent may.
    Record,
}

impl Purpose {
    fn role(self) -> Role {
        match self {
            Self::Look => Role::Reader,
            Self::Change => Role::Operator,
            Self::Attach | Self::Record => Role::Admin,
        }
    }
}

/// Lets a request pass, and says who asks.
pub(super) fn check<T>(request: &Request<T>, purpose: Purpose) -> Result<Caller, Box<Status>> {
    decide(request.extensions().get::<Caller>(), purpose).map_err(|problem| Box::new(problem.into_status()))
}

fn decide(caller: Option<&Caller>, purpose: Purpose) -> Result<Caller, Problem> {
    let Some(caller) = caller else {
        return Err(Problem::new(Reason::Forbidden, "the agent cannot tell who asks"));
    };
    if caller.role < purpose.role() {
        let message = match purpose {
            Purpose::Look | Purpose::Change => format!("{} may look, but not change anything", caller.name),
            Purpose::Attach => format!("{} may not make kinds real", caller.name),
            Purpose::Record => format!("{} may not record the run", caller.name),
        };
        let hint = format!(
            "become root, or the user that runs the agent, or use a token of an {}",
            if purpose.role() == Role::Admin { "admin" } else { "operator" }
        );
        return Err(Problem::new(Reason::Forbidden, message).with_hint(hint));
    }
    Ok(caller.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_looks_and_nobody_unknown_does() {
        let caller = |role| Caller { name: "user 7, process 42".to_owned(), role };
        assert!(decide(Some(&caller(Role::Operator)), Purpose::Change).is_ok());
        assert_eq!(decide(Some(&caller(Role::Reader)), Purpose::Look).unwrap().name, "user 7, process 42");
        let refused = decide(Some(&caller(Role::Reader)), Purpose::Change).unwrap_err();
        assert_eq!(refused.message, "user 7, process 42 may look, but not change anything");
        let refused = decide(Some(&caller(Role::Operator)), Purpose::Record).unwrap_err();
        assert_eq!(refused.message, "user 7, process 42 may not record the run");
        assert!(decide(None, Purpose::Look).is_err());
    }
}
