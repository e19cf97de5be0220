//! Who may ask what: the peer of a unix socket is known to the kernel.
//!
//! Decided here: root and the user that runs the agent may change things; whoever else gets through the permissions of
//! the socket's file (its group) may look. Somebody whose identity is not known may do nothing.

use kilter_api::v1::{Problem, Reason};
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Status};

/// What a question does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It only looks.
    Look,
    /// It changes something.
    Change,
}

/// Who may ask what.
#[derive(Debug)]
pub(super) struct Access {
    /// The user that runs the agent.
    own: u32,
}

impl Access {
    /// The user of this process owns the agent.
    pub(super) fn of_this_process() -> Self {
        Self { own: rustix::process::geteuid().as_raw() }
    }

    /// Lets a request pass, and says who asks.
    pub(super) fn check<T>(&self, request: &Request<T>, purpose: Purpose) -> Result<String, Box<Status>> {
        let peer = request.extensions().get::<UdsConnectInfo>().and_then(|info| info.peer_cred);
        let peer = peer.map(|peer| (peer.uid(), peer.pid()));
        self.decide(peer, purpose).map_err(|problem| Box::new(problem.into_status()))
    }

    fn decide(&self, peer: Option<(u32, Option<i32>)>, purpose: Purpose) -> Result<String, Problem> {
        let Some((user, process)) = peer else {
            return Err(Problem::new(Reason::Forbidden, "the agent cannot tell who asks"));
        };
        if purpose == Purpose::Change && user != 0 && user != self.own {
            let message = format!("user {user} may look, but not change anything");
            let hint = format!("become root, or the user that runs the agent ({})", self.own);
            return Err(Problem::new(Reason::Forbidden, message).with_hint(hint));
        }
        let process = process.map(|process| format!(", process {process}")).unwrap_or_default();
        Ok(format!("user {user}{process}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_owner_change_things_and_nobody_unknown_looks() {
        let access = Access { own: 1000 };
        for user in [0, 1000] {
            assert!(access.decide(Some((user, None)), Purpose::Change).is_ok());
        }
        assert_eq!(access.decide(Some((7, Some(42))), Purpose::Look).unwrap(), "user 7, process 42");
        let refused = access.decide(Some((7, None)), Purpose::Change).unwrap_err();
        assert_eq!(refused.message, "user 7 may look, but not change anything");
        assert!(access.decide(None, Purpose::Look).is_err());
    }
}
