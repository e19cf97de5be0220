//! Requests to the cluster as values, how they end, and what a rejection means for the next attempt.

use std::time::Duration;

use kilter_southbound::BoxFuture;
use serde_json::Value as Json;

use crate::object::{Id, Object};

/// Something that is asked of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Server-side apply of the fields that one owner wants, by force: they are ours.
    Apply {
        /// The object.
        id: Id,
        /// Who owns the fields; one name for each kind of item.
        owner: &'static str,
        /// The fields.
        body: Json,
    },
    /// Server-side apply of the status.
    Status {
        /// The object.
        id: Id,
        /// The fields.
        body: Json,
    },
    /// A merge patch of an object that exists.
    Patch {
        /// The object.
        id: Id,
        /// Who owns the fields; one name for each kind of item.
        owner: &'static str,
        /// What changes.
        patch: Json,
    },
    /// Deletes this very object, as it was when it was decided.
    Delete {
        /// The object.
        id: Id,
        /// Its identity.
        uid: String,
        /// Its version: any change of it voids the deletion.
        version: String,
    },
    /// Makes an object that must not be there.
    Create {
        /// The object.
        id: Id,
        /// All of it.
        body: Json,
    },
    /// Puts an object in the place of the version that it names.
    Replace {
        /// The object.
        id: Id,
        /// All of it.
        body: Json,
    },
    /// Tells a Kubernetes Event about an object.
    Announce {
        /// The object.
        id: Id,
        /// The Event.
        body: Json,
    },
    /// Reads an object.
    Read {
        /// The object.
        id: Id,
    },
}

impl Request {
    /// Deletes an object as it was seen.
    pub fn deletion(object: &Object) -> Self {
        let (uid, version) = (object.uid().to_owned(), object.version().to_owned());
        Self::Delete { id: object.id().clone(), uid, version }
    }

    /// The object that it is about.
    pub fn id(&self) -> &Id {
        match self {
            Self::Apply { id, .. }
            | Self::Status { id, .. }
            | Self::Patch { id, .. }
            | Self::Delete { id, .. }
            | Self::Create { id, .. }
            | Self::Replace { id, .. }
            | Self::Announce { id, .. }
            | Self::Read { id } => id,
        }
    }
}

/// What came of a request that was accepted.
#[derive(Clone, Debug)]
pub enum Sent {
    /// The object as it is from now on; after a deletion, it waits for its finalizers.
    Object(Object),
    /// The object is gone.
    Gone,
}

/// Somebody who carries requests to a cluster.
pub trait Api: Send + Sync + 'static {
    /// Sends a request and waits for its answer.
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Sent, Rejected>>;
}

/// Why the cluster did not do what was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("the cluster rejected the request: {code} {reason}: {message}")]
pub struct Rejected {
    /// The status code; 0 if there was no answer.
    pub code: u16,
    /// The reason in one word; empty if the answer was not one of the API.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The reasons of its causes.
    pub causes: Vec<String>,
    /// How long the cluster asks us to wait.
    pub retry_after: Option<Duration>,
}

/// What a rejection means for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The object has changed meanwhile: read it and decide again.
    Conflict,
    /// Somebody else owns the field: slowly again.
    Contested,
    /// The object does not exist.
    Missing,
    /// The resource is not installed.
    NotInstalled,
    /// The namespace is on its way out: nothing is made there any more.
    Terminating,
    /// The request can never succeed as it is.
    Invalid,
    /// We may not: slowly again, somebody has to change the rules.
    Unauthorised,
    /// Too many requests: after the time that the cluster names.
    Throttled,
    /// It may succeed later.
    Transient,
}

impl Class {
    /// Its name where it is counted.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Contested => "contested",
            Self::Missing => "missing",
            Self::NotInstalled => "not-installed",
            Self::Terminating => "terminating",
            Self::Invalid => "invalid",
            Self::Unauthorised => "unauthorised",
            Self::Throttled => "throttled",
            Self::Transient => "transient",
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_retriable(self) -> bool {
        !matches!(self, Self::Terminating | Self::Invalid)
    }
}

impl Rejected {
    /// What it means for the next attempt.
    pub fn class(&self) -> Class {
        let caused_by = |reason: &str| self.causes.iter().any(|cause| cause == reason);
        match self.code {
            409 if caused_by("FieldManagerConflict") => Class::Contested,
            409 => Class::Conflict,
            // Only the API itself gives a reason; a server that does not know the path says nothing but 404.
            404 | 410 if self.reason.is_empty() => Class::NotInstalled,
            404 | 410 => Class::Missing,
            403 if caused_by("NamespaceTerminating") => Class::Terminating,
            401 | 403 => Class::Unauthorised,
            400 | 422 => Class::Invalid,
            429 => Class::Throttled,
            // An apply whose types are wrong is answered as if the server were at fault.
            500 if self.message.contains("failed to create typed patch object") => Class::Invalid,
            _ => Class::Transient,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(code: u16, reason: &str, message: &str, causes: &[&str]) -> Rejected {
        Rejected {
            code,
            reason: reason.to_owned(),
            message: message.to_owned(),
            causes: causes.iter().map(|cause| (*cause).to_owned()).collect(),
            retry_after: None,
        }
    }

    #[test]
    fn rejections_of_one_code_are_told_apart() {
        for (code, reason, message, causes, class) in [
            (409, "Conflict", "", &["FieldManagerConflict"][..], Class::Contested),
            (409, "Conflict", "the object has been modified", &[], Class::Conflict),
            (404, "NotFound", "", &[], Class::Missing),
            (404, "", "404 page not found", &[], Class::NotInstalled),
            (403, "Forbidden", "", &["NamespaceTerminating"], Class::Terminating),
            (403, "Forbidden", "", &[], Class::Unauthorised),
            (401, "Unauthorized", "", &[], Class::Unauthorised),
            (422, "Invalid", "", &["FieldValueInvalid"], Class::Invalid),
            (500, "", "failed to create typed patch object", &[], Class::Invalid),
            (500, "InternalError", "etcd has no leader", &[], Class::Transient),
            (429, "TooManyRequests", "", &[], Class::Throttled),
            (0, "", "connection refused", &[], Class::Transient),
        ] {
            assert_eq!(rejected(code, reason, message, causes).class(), class, "{code} {reason} {message}");
        }
    }

    #[test]
    fn only_what_can_never_succeed_is_not_tried_again() {
        assert!(!Class::Invalid.is_retriable() && !Class::Terminating.is_retriable());
        assert!(Class::Transient.is_retriable() && Class::NotInstalled.is_retriable());
    }
}
