//! Errors: `application/problem+json`, with the fields of RFC 9457 and those of our own [`Problem`].

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use kilter_api::v1::{Problem, Reason};
use serde_json::json;

use crate::desk::Gone;
use crate::northbound::audit::AuditError;
use crate::northbound::door::Refusal;

/// Why a request was not answered as it hoped.
#[derive(Debug)]
pub(super) struct Trouble {
    status: StatusCode,
    problem: Box<Problem>,
}

impl Trouble {
    /// A problem with a status of its own.
    pub(super) fn with_status(status: StatusCode, problem: Problem) -> Self {
        Self { status, problem: Box::new(problem) }
    }

    /// What was asked cannot be understood.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Problem::new(Reason::Invalid, message).into()
    }

    /// There is no such thing.
    pub(super) fn unknown(message: impl Into<String>) -> Self {
        Problem::new(Reason::Unknown, message).into()
    }

    /// It is as JSON, also inside a stream.
    pub(super) fn json(&self) -> serde_json::Value {
        let mut body = serde_json::to_value(&*self.problem).unwrap_or_else(|_| json!({}));
        body["type"] = "about:blank".into();
        body["title"] = self.status.canonical_reason().unwrap_or("Problem").into();
        body["status"] = self.status.as_u16().into();
        body["detail"] = self.problem.to_string().into();
        body
    }
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Self {
        let status = match problem.reason() {
            Reason::Invalid => StatusCode::BAD_REQUEST,
            Reason::Unknown => StatusCode::NOT_FOUND,
            Reason::Stale | Reason::Refused => StatusCode::CONFLICT,
            Reason::Forbidden => StatusCode::FORBIDDEN,
            Reason::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Reason::Unspecified | Reason::Broken => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::with_status(status, problem)
    }
}

impl From<tonic::Status> for Trouble {
    fn from(status: tonic::Status) -> Self {
        let told = Problem::from_status(&status);
        told.unwrap_or_else(|| Problem::new(Reason::Broken, status.message())).into()
    }
}

impl From<Gone> for Trouble {
    fn from(gone: Gone) -> Self {
        Problem::of(Reason::Unavailable, &gone).into()
    }
}

impl From<AuditError> for Trouble {
    fn from(error: AuditError) -> Self {
        Problem::of(Reason::Unavailable, &error).into()
    }
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        let problem = Problem::of(Reason::Forbidden, &refusal);
        let status = match refusal {
            Refusal::Unknown => StatusCode::UNAUTHORIZED,
            Refusal::Role { .. } | Refusal::Foreign => StatusCode::FORBIDDEN,
            Refusal::Often { .. } => StatusCode::TOO_MANY_REQUESTS,
        };
        Self::with_status(status, problem)
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.json().to_string()).into_response();
        let headers = response.headers_mut();
        let media = header::HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, media);
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        }
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        response
    }
}
