//! What a running controller tells over HTTP: its health, numbers, how instances and flows stand together, and why a flow is
//! not ready.
//!
//! Decided here: the addresses, and what each answers. Not decided here: what else is served beside them, a page for
//! example. Read next: `onlooker`, for whoever wants to be told of changes.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use kilter_scheduler::Explanation;
use kilter_southbound::{Clock, SystemClock};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::combined::{Line, lines};
use crate::counts::Counts;
use crate::metrics;
use crate::mirror::Shared;
use crate::object::Resource;
use crate::onlooker;
use crate::watch::Wake;

/// How long the controller may be busy before whoever asks is told so.
const PATIENCE: Duration = Duration::from_secs(5);

/// Somebody wants to know why a flow is not ready.
pub(crate) struct Question {
    pub(crate) namespace: String,
    pub(crate) flow: String,
    /// Where the chains of causes are told; none if there is no such flow.
    pub(crate) answer: oneshot::Sender<Vec<Explanation>>,
}

/// What the answers are made of.
#[derive(Clone)]
pub(crate) struct Seen {
    /// The cluster, as it is known.
    pub(crate) mirror: Shared,
    /// What is counted.
    pub(crate) counts: Arc<Counts>,
    /// Who tells that something has changed.
    pub(crate) wake: Wake,
    /// Where only the controller knows.
    pub(crate) ask: mpsc::Sender<Question>,
    /// How many more may look on.
    pub(crate) places: Arc<Semaphore>,
}

impl Seen {
    /// Whether everything has been read.
    pub(crate) fn is_complete(&self) -> bool {
        let mirror = self.mirror.lock();
        Resource::ALL.into_iter().all(|resource| mirror.is_complete(resource))
    }

    /// How every instance and every flow stands.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let [applications, instances, flows] = {
            let mirror = self.mirror.lock();
            let all = |resource| mirror.of(resource).cloned().collect::<Vec<_>>();
            [Resource::Application, Resource::ServiceInstance, Resource::EventFlow].map(all)
        };
        lines(&applications, &instances, &flows, jiff::Timestamp::now())
    }
}

/// Answers whoever asks, until it is dropped. What no address of ours is, the page is asked for.
pub(crate) async fn serve(listener: TcpListener, seen: Seen, page: Router) {
    let routes = Router::new()
        .route("/metrics", get(numbers))
        .route("/healthz", get(health))
        .route("/status", get(status))
        .route("/watch", get(onlooker::watch))
        .route("/explain/{namespace}/{flow}", get(explain))
        .with_state(seen)
        .fallback_service(page);
    // Whoever cannot be accepted asks again.
    let _ = axum::serve(listener, routes).await;
}

async fn numbers(State(seen): State<Seen>) -> Response {
    let text = metrics::text(&seen.counts, &seen.mirror.lock(), SystemClock.now());
    ([(CONTENT_TYPE, metrics::FORM)], text).into_response()
}

async fn health(State(seen): State<Seen>) -> StatusCode {
    if seen.is_complete() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn status(State(seen): State<Seen>) -> Json<Vec<Line>> {
    Json(seen.lines())
}

/// One link of a chain of causes, as it is told.
#[derive(Debug, Serialize)]
struct Cause {
    /// How far from the item asked about.
    depth: usize,
    /// The item.
    key: String,
    /// Where it stands.
    state: String,
    /// Why.
    why: String,
}

fn causes(explanation: &Explanation) -> Vec<Cause> {
    let cause = |link: &kilter_scheduler::Link| Cause {
        depth: link.depth,
        key: link.key.to_string(),
        state: link.state.to_string(),
        why: link.why.to_string(),
    };
    explanation.links.iter().map(cause).collect()
}

/// Only the controller knows, and only while it leads. As JSON, each child is a list of causes.
async fn explain(
    State(seen): State<Seen>,
    Path((namespace, flow)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let (answer, told) = oneshot::channel();
    let asked = seen.ask.try_send(Question { namespace, flow, answer }).is_ok();
    let told =
        if asked { tokio::time::timeout(PATIENCE, told).await.ok().and_then(Result::ok) } else { None };
    let Some(told) = told else {
        let busy = "this copy does not lead, or has a lot to do\n";
        return (StatusCode::SERVICE_UNAVAILABLE, busy).into_response();
    };
    if told.is_empty() {
        return (StatusCode::NOT_FOUND, "there is no such flow\n").into_response();
    }
    let wanted = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if wanted.contains("application/json") {
        return Json(told.iter().map(causes).collect::<Vec<_>>()).into_response();
    }
    told.iter().map(|it| format!("{it}\n")).collect::<String>().into_response()
}
