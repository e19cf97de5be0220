//! What etcd's refusals mean. It tells them apart by words only, so its words stand here and nowhere else.

use std::error::Error;
use std::sync::Arc;

use tonic::{Code, ConnectError, Status};

use crate::StoreError;

/// How a call ended that did not succeed.
#[derive(Clone, Debug)]
pub(super) enum Ended {
    /// The revision was compacted.
    Compacted,
    /// The revision has not happened.
    Ahead,
    /// The lease is not there.
    NoSuchLease,
    /// In the words of the store, and final.
    Final(StoreError),
}

/// What an answer that is no success means for the attempt.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The server understood and refused: another one would too.
    Refused(Ended),
    /// The token is not good any more; nothing was done.
    Token,
    /// Nothing was done; another member may.
    NotDone,
    /// It may have been done.
    Unknown,
}

/// Judges an answer.
pub(super) fn judge(attempt: &str, status: &Status) -> Verdict {
    let said = status.message();
    let has = |words: &str| said.contains(words);
    let source: Arc<dyn Error + Send + Sync> = Arc::new(status.clone());
    let attempt = attempt.to_owned();
    let refused = |error| Verdict::Refused(Ended::Final(error));
    match status.code() {
        Code::OutOfRange if has("has been compacted") => Verdict::Refused(Ended::Compacted),
        Code::OutOfRange if has("future revision") => Verdict::Refused(Ended::Ahead),
        Code::NotFound if has("lease not found") => Verdict::Refused(Ended::NoSuchLease),
        Code::ResourceExhausted if has("space exceeded") => refused(StoreError::Full { attempt, source }),
        Code::ResourceExhausted if has("too many requests") => Verdict::NotDone,
        Code::Unauthenticated if has("invalid auth token") => Verdict::Token,
        Code::InvalidArgument | Code::Unauthenticated if has("auth store is old") => Verdict::Token,
        Code::PermissionDenied | Code::Unauthenticated => refused(StoreError::Denied { attempt, source }),
        Code::InvalidArgument if has("user name is empty") || has("authentication failed") => {
            refused(StoreError::Denied { attempt, source })
        }
        Code::FailedPrecondition if has("authentication is not enabled") => {
            refused(StoreError::Denied { attempt, source })
        }
        Code::InvalidArgument | Code::ResourceExhausted | Code::OutOfRange => {
            refused(StoreError::invalid("request", said))
        }
        Code::DataLoss => refused(StoreError::Corrupt { attempt, source }),
        Code::Unavailable if has("no leader") || never_left(status) => Verdict::NotDone,
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::Unimplemented
        | Code::Internal
        | Code::Unavailable => Verdict::Unknown,
    }
}

/// Whether the connection could not be made, so that nothing was asked.
fn never_left(status: &Status) -> bool {
    let causes = std::iter::successors(status.source(), |cause| (*cause).source());
    causes.into_iter().any(|cause| cause.is::<ConnectError>())
}
