//! Problems on the wire: a gRPC status whose details keep the chain of causes, the places and the hint.

use std::error::Error;
use std::fmt;

use prost::Message;
use tonic::{Code, Status};

use crate::v1::{Problem, Reason};

/// What a gRPC status says beside its code, as everybody who speaks gRPC reads it: `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RichStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// The name of a problem among all messages.
const NAME: &str = "type.googleapis.com/kilter.v1.Problem";

impl Problem {
    /// A problem without causes.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), ..Self::default() }
    }

    /// A problem out of an error: what was tried, and every cause of it. A `, hint: …` becomes the hint.
    pub fn of(reason: Reason, error: &dyn Error) -> Self {
        let mut problem = Self::new(reason, String::new());
        problem.message = problem.hinted(error.to_string());
        let mut cause = error.source();
        while let Some(error) = cause {
            let said = problem.hinted(error.to_string());
            problem.causes.push(said);
            cause = error.source();
        }
        problem
    }

    /// The text without its hint, which is kept apart.
    fn hinted(&mut self, text: String) -> String {
        let Some((what, hint)) = text.split_once(", hint: ") else { return text };
        self.hint = hint.to_owned();
        what.to_owned()
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Adds the items it is about.
    #[must_use]
    pub fn about(mut self, keys: impl IntoIterator<Item = String>) -> Self {
        self.keys.extend(keys);
        self
    }

    /// The status that carries it.
    pub fn into_status(self) -> Status {
        let code = match self.reason() {
            Reason::Invalid => Code::InvalidArgument,
            Reason::Unknown => Code::NotFound,
            Reason::Stale => Code::Aborted,
            Reason::Refused => Code::FailedPrecondition,
            Reason::Forbidden => Code::PermissionDenied,
            Reason::Unavailable => Code::Unavailable,
            Reason::Unspecified | Reason::Broken => Code::Internal,
        };
        self.into_status_with(code)
    }

    /// The status that carries it, with a code of its own.
    pub fn into_status_with(self, code: Code) -> Status {
        let message = self.to_string();
        let any = prost_types::Any { type_url: NAME.to_owned(), value: self.encode_to_vec() };
        let rich = RichStatus { code: code.into(), message: message.clone(), details: vec![any] };
        Status::with_details(code, message, rich.encode_to_vec().into())
    }

    /// The problem that a status carries; `None` if it comes from somebody who knows none.
    pub fn from_status(status: &Status) -> Option<Self> {
        let rich = RichStatus::decode(status.details()).ok()?;
        let any = rich.details.iter().find(|any| any.type_url == NAME)?;
        Self::decode(any.value.as_slice()).ok()
    }
}

impl fmt::Display for Problem {
    /// What was tried and why it failed, down to the root, on one line; without the hint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut told = self.message.as_str();
        for cause in &self.causes {
            // A cause that its effect has told already is not told twice.
            if !told.ends_with(cause.as_str()) {
                write!(f, ": {cause}")?;
            }
            told = cause;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("failed to apply `site`, hint: free some space")]
    struct Unapplied(#[source] std::io::Error);

    #[test]
    fn a_problem_keeps_its_causes_and_its_hint_on_the_way() {
        let error = Unapplied(std::io::Error::other("the disk is full"));
        let problem = Problem::of(Reason::Refused, &error).about(["link/a".to_owned()]);
        let status = problem.clone().into_status();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert_eq!(status.message(), "failed to apply `site`: the disk is full");
        let back = Problem::from_status(&status).unwrap();
        assert_eq!(back, problem);
        assert_eq!((back.hint.as_str(), back.causes.len()), ("free some space", 1));
        assert_eq!(Problem::from_status(&Status::internal("no details")), None);
    }
}
