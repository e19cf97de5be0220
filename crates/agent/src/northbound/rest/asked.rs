//! What a request asks: what stands after `?`, and its body, with errors that say what is wrong.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use kilter_api::v1::{Problem, Reason};
use serde::de::DeserializeOwned;

use super::Rest;
use super::trouble::Trouble;

/// What stands after `?`.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Rest> for Asked<T> {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, _: &Rest) -> Result<Self, Trouble> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(error) => {
                let why = std::error::Error::source(&error).map(ToString::to_string);
                let why = why.unwrap_or_else(|| error.to_string());
                Err(Trouble::invalid(format!("the parameters cannot be understood: {why}")))
            }
        }
    }
}

/// What varies in the path.
pub(super) struct Part(pub(super) String);

impl FromRequestParts<Rest> for Part {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, rest: &Rest) -> Result<Self, Trouble> {
        match Path::<String>::from_request_parts(parts, rest).await {
            Ok(Path(part)) => Ok(Self(part)),
            Err(error) => {
                Err(Trouble::invalid(format!("the path cannot be understood: {}", error.body_text())))
            }
        }
    }
}

/// A body that is JSON.
pub(super) struct Told<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Rest> for Told<T> {
    type Rejection = Trouble;

    async fn from_request(request: Request, rest: &Rest) -> Result<Self, Trouble> {
        let media = request.headers().get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok());
        let media = media.unwrap_or("application/json").split(';').next().unwrap_or_default().trim();
        if !media.eq_ignore_ascii_case("application/json") {
            let problem = Problem::new(Reason::Invalid, format!("the body is `{media}`"));
            let problem = problem.with_hint("send `application/json`");
            return Err(Trouble::with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem));
        }
        let bytes = read(request.into_body(), rest).await?;
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| Trouble::invalid(format!("the body cannot be understood: {error}")))
    }
}

/// The whole body, if it is not too long and does not take too long.
async fn read(body: Body, rest: &Rest) -> Result<axum::body::Bytes, Trouble> {
    let most = rest.limits.body_bytes;
    let patience = Duration::from_secs(rest.limits.body_seconds);
    match tokio::time::timeout(patience, Limited::new(body, most).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let problem = Problem::new(Reason::Invalid, format!("the body has more than {most} bytes"));
            Err(Trouble::with_status(StatusCode::PAYLOAD_TOO_LARGE, problem))
        }
        Ok(Err(error)) => Err(Trouble::invalid(format!("the body broke off: {error}"))),
        Err(_) => {
            let problem = Problem::new(Reason::Invalid, format!("the body took longer than {patience:?}"));
            Err(Trouble::with_status(StatusCode::REQUEST_TIMEOUT, problem))
        }
    }
}
