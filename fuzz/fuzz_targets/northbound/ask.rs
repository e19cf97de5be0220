// Shared with the plain test that replays the seeds.
//
// What is asked is written as text: a line `METHOD PATH?QUERY` and a body, or a line `SERVICE/METHOD` and a message of
// the service. A stream of messages has two bytes before each of them that say how long it is.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode, header};
use kilter_agent::northbound::door::Peer;
use tower::ServiceExt as _;

/// The only method whose request is a stream.
const STREAMED: &str = "kilter.v1.Actuators/Attach";

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Went {
    /// Nothing was asked: the first line says no request.
    Unasked,
    /// It was asked over REST, and answered with this status.
    Rest(StatusCode),
    /// It was asked of the service, and answered.
    Service,
    /// The answer waits for something.
    Waits,
}

/// Asks what the bytes say, in the name of whoever has the token, and holds the answer to what is promised. One that takes
/// longer than the patience waits for something.
pub(crate) async fn ask(router: &Router, token: &str, bytes: &[u8], patience: Duration) -> Went {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let Ok(line) = std::str::from_utf8(&bytes[..end]) else { return Went::Unasked };
    let rest = bytes.get(end + 1..).unwrap_or_default();
    let (method, address, media, body) = match line.split_once(' ') {
        Some((method, address)) => (method, address.to_owned(), "application/json", rest.to_vec()),
        None => ("POST", format!("/{line}"), "application/grpc", framed(line, rest)),
    };
    let request = Request::builder()
        .method(method)
        .uri(address)
        .header(header::HOST, "localhost")
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::CONTENT_TYPE, media)
        .header(header::TE, "trailers")
        .body(Body::from(body));
    let Ok(mut request) = request else { return Went::Unasked };
    request.extensions_mut().insert(Peer::Stranger { is_local: true });
    let answered = async {
        let answer = router.clone().oneshot(request).await.expect("a router always answers");
        let (head, body) = (answer.status(), answer.headers().get(header::CONTENT_TYPE).cloned());
        let kind = body.and_then(|kind| kind.to_str().ok().map(str::to_owned)).unwrap_or_default();
        // What never ends is heard no further.
        let body = if kind == "text/event-stream" || kind.starts_with("application/grpc") {
            Bytes::new()
        } else {
            axum::body::to_bytes(answer.into_body(), usize::MAX).await.expect("an answer does not break off")
        };
        (head, kind, body)
    };
    let Ok((status, kind, body)) = tokio::time::timeout(patience, answered).await else { return Went::Waits };
    if media == "application/grpc" {
        return Went::Service;
    }
    assert!(!status.is_server_error(), "{status}: {}", String::from_utf8_lossy(&body));
    if status.is_client_error() {
        assert_eq!(kind, "application/problem+json", "{line}");
        let problem: serde_json::Value = serde_json::from_slice(&body).expect("a problem is JSON");
        assert_eq!(problem["status"], status.as_u16(), "{line}");
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{line}");
    }
    Went::Rest(status)
}

/// Messages as the service reads them: each behind a byte that says that it is not compressed, and its length.
fn framed(method: &str, mut rest: &[u8]) -> Vec<u8> {
    let mut framed = Vec::new();
    let mut add = |message: &[u8]| {
        framed.push(0);
        framed.extend((message.len() as u32).to_be_bytes());
        framed.extend(message);
    };
    if method != STREAMED {
        add(rest);
        return framed;
    }
    while let [high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (message, later) = after.split_at(length);
        add(message);
        rest = later;
    }
    framed
}
