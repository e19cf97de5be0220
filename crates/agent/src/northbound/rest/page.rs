//! The page: for everybody who gets here, and the one token that its address may hold.
//!
//! Decided here: that assets are for everybody who gets here (they say nothing about this agent; whatever they ask does
//! pass the door), and that a token in the address is exchanged for a session at once, so that it stays in no history.
//! Not decided here: what a browser may do with them; see `northbound/assets`.

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use kilter_api::v1::{Problem, Reason};

use super::Rest;
use super::trouble::Trouble;
use crate::northbound::assets;

/// Serves what no route does.
pub(super) async fn page(State(rest): State<Rest>, request: Request) -> Response {
    let path = request.uri().path();
    let is_ours = ["/api/", "/scheduler/", "/controller/"].iter().any(|prefix| path.starts_with(prefix));
    if is_ours || !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Trouble::from(Problem::new(Reason::Unknown, format!("there is no `{path}`"))).into_response();
    }
    if let Some(token) = token(request.uri().query()) {
        return enter(&rest, token);
    }
    // Whatever else is asked for is the page, which decides what it shows.
    let name = Some(path.trim_start_matches('/')).filter(|name| *name != assets::FLOWS);
    let found = name.and_then(|name| assets::asset(name, request.headers()));
    let found = found.or_else(|| assets::asset(assets::AGENT, request.headers()));
    found.unwrap_or_else(|| Trouble::from(Problem::new(Reason::Unknown, "there is no page")).into_response())
}

/// The token in an address.
fn token(query: Option<&str>) -> Option<&str> {
    query?.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// Begins a session, and leads to the same page without the token.
fn enter(rest: &Rest, token: &str) -> Response {
    let cookie = rest.door.begin_session(token).and_then(|cookie| HeaderValue::from_str(&cookie).ok());
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response();
    // Without a session the page asks for a token.
    if let Some(cookie) = cookie {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    assets::protect(response.headers_mut());
    response
}
