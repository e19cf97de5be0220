//! Onlookers: whoever wants to be told how instances and flows stand, again and again, as server-sent events.
//!
//! Decided here: that everything is told once and then what differs from it, at most a few times in a second; that time
//! alone may change how something stands, so it is looked at also while nothing happens; and how many may look on.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::stream;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::combined::Line;
use crate::serve::Seen;

/// How many may look on at the same time.
const MOST: usize = 64;

/// How long changes are gathered before they are told.
const GATHERED: Duration = Duration::from_millis(250);

/// How often it is looked, and something is said, while nothing changes.
const SILENCE: Duration = Duration::from_secs(15);

/// What tells a line from others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Name {
    namespace: String,
    instance: Option<String>,
    flow: Option<String>,
}

impl From<&Line> for Name {
    fn from(line: &Line) -> Self {
        Self { namespace: line.namespace.clone(), instance: line.instance.clone(), flow: line.flow.clone() }
    }
}

/// What an onlooker is told.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Told {
    /// Whether these are all lines, and not only those that differ.
    whole: bool,
    /// Whether everything of the cluster has been read.
    complete: bool,
    /// How these stand.
    lines: Vec<Line>,
    /// What there is no more.
    gone: Vec<Name>,
}

/// What one onlooker knows.
#[derive(Debug, Default)]
struct Known {
    lines: BTreeMap<Name, Line>,
    complete: Option<bool>,
}

impl Known {
    /// What it has to be told; nothing if it knows everything.
    fn learn(&mut self, lines: Vec<Line>, complete: bool) -> Option<Told> {
        let present: BTreeMap<Name, Line> = lines.into_iter().map(|line| (Name::from(&line), line)).collect();
        let (whole, before) = (self.complete.is_none(), std::mem::take(&mut self.lines));
        let differs = |(name, line): &(&Name, &Line)| before.get(*name) != Some(*line);
        let told = Told {
            whole,
            complete,
            lines: present.iter().filter(differs).map(|(_, line)| line.clone()).collect(),
            gone: before.keys().filter(|name| !present.contains_key(*name)).cloned().collect(),
        };
        let is_news =
            whole || self.complete != Some(complete) || !told.lines.is_empty() || !told.gone.is_empty();
        (self.lines, self.complete) = (present, Some(complete));
        is_news.then_some(told)
    }
}

/// Somebody who looks on.
struct Onlooker {
    seen: Seen,
    changed: watch::Receiver<()>,
    known: Known,
    _place: OwnedSemaphorePermit,
}

impl Onlooker {
    /// What is told next: news, or a sign of life.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        if self.known.complete.is_some() {
            let changed = tokio::time::timeout(SILENCE, self.changed.changed()).await;
            if changed.is_ok() {
                tokio::time::sleep(GATHERED).await;
                self.changed.mark_unchanged();
            }
        }
        let told = self.known.learn(self.seen.lines(), self.seen.is_complete());
        let event = told.and_then(|told| Event::default().event("lines").json_data(told).ok());
        Some((Ok(event.unwrap_or_else(|| Event::default().comment("nothing new"))), self))
    }
}

/// Tells everything, and then every change, until whoever asked is gone.
pub(crate) async fn watch(State(seen): State<Seen>) -> Response {
    let Ok(place) = Arc::clone(&seen.places).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many look on already\n").into_response();
    };
    let changed = seen.wake.look_on();
    let onlooker = Onlooker { seen, changed, known: Known::default(), _place: place };
    let mut response = Sse::new(stream::unfold(onlooker, Onlooker::next)).into_response();
    response.headers_mut().insert(CACHE_CONTROL, axum::http::HeaderValue::from_static("no-store"));
    response
}

/// The places of onlookers.
pub(crate) fn places() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MOST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::combined::Together;

    fn line(flow: &str, status: Together) -> Line {
        Line {
            namespace: "shop".to_owned(),
            instance: None,
            flow: Some(flow.to_owned()),
            status,
            reason: String::new(),
            message: String::new(),
            since: String::new(),
            source: None,
            sink: None,
            conditions: Vec::new(),
            order: None,
        }
    }

    #[test]
    fn everything_is_told_once_and_then_what_differs() {
        let mut known = Known::default();
        let (a, b) = (line("a", Together::Running), line("b", Together::Provisioning));
        let first = known.learn(vec![a.clone(), b.clone()], true).unwrap();
        assert_eq!((first.whole, first.lines.len()), (true, 2));
        assert_eq!(known.learn(vec![a.clone(), b.clone()], true), None);
        let better = line("b", Together::Running);
        let second = known.learn(vec![a.clone(), better.clone()], true).unwrap();
        assert_eq!((second.whole, second.lines, second.gone), (false, vec![better], Vec::new()));
        let third = known.learn(vec![a.clone()], true).unwrap();
        assert_eq!((third.lines, third.gone), (Vec::new(), vec![Name::from(&b)]));
        assert!(known.learn(vec![a], false).is_some_and(|told| !told.complete));
    }
}
