//! The addresses of the event loop as its published design names them, with their arguments.

use axum::Json;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse as _, Response};
use kilter_api::openapi::{self, Answer, Form};
use kilter_api::v1;
use kilter_api::v1::agent_server::Agent as _;
use kilter_events::Query;
use serde::Deserialize;

use super::Rest;
use super::asked::Asked;
use super::changes::ended;
use super::route::Route;
use super::scheduler::moment;
use super::trouble::Trouble;
use crate::keep::PastEvent;
use crate::northbound::convert;
use crate::northbound::door::Caller;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/controller/event-history", event_history)
            .about("The events that are remembered, oldest first. Of several arguments the first in this list counts.")
            .may("seq-num", Form::Number, "Only this one.")
            .may("since", Form::Seconds, "Only those that ended then or later.")
            .may("until", Form::Seconds, "Only those that began then or earlier.")
            .may("from", Form::Number, "Only those from this position on; goes with `to`.")
            .may("to", Form::Number, "Only those up to this position; goes with `from`.")
            .may("first", Form::Number, "Only so many of the oldest.")
            .may("last", Form::Number, "Only so many of the newest.")
            .gives(Answer::Json(|| openapi::one_or_list("Event")))
            .also(&[404]),
        Route::post("/controller/resync", resync)
            .about("Recomputes what is declared, re-reads what is, and mends it.")
            .answers("Ended")
            .also(&[409]),
    ]
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct EventQuery {
    seq_num: Option<u64>,
    since: Option<f64>,
    until: Option<f64>,
    from: Option<u64>,
    to: Option<u64>,
    first: Option<usize>,
    last: Option<usize>,
}

impl EventQuery {
    fn query(&self) -> Result<Query, Trouble> {
        Ok(match (self.seq_num, self.since, self.until, self.from, self.to) {
            (Some(seq), ..) => Query::Seq(seq),
            (None, None, None, Some(from), Some(to)) => Query::Range(from, to),
            (None, None, None, None, None) => match (self.first, self.last) {
                (Some(first), _) => Query::First(first),
                (None, Some(last)) => Query::Last(last),
                (None, None) => Query::All,
            },
            (None, None, None, ..) => return Err(Trouble::invalid("`from` and `to` go together")),
            (None, since, until, ..) => {
                Query::Window { since: since.map(moment).transpose()?, until: until.map(moment).transpose()? }
            }
        })
    }
}

async fn event_history(
    State(rest): State<Rest>,
    Asked(asked): Asked<EventQuery>,
) -> Result<Response, Trouble> {
    let query = asked.query()?;
    if let Query::Seq(seq) = query {
        let request = v1::ListEventsRequest { seq: Some(seq), ..v1::ListEventsRequest::default() };
        let found = rest.agent.events(request).await?.events.into_iter().next();
        return Ok(Json(found.ok_or_else(|| Trouble::unknown(format!("event {seq} is not remembered")))?)
            .into_response());
    }
    let events = of_all_runs(&rest, query).await?;
    Ok(Json(events.iter().map(convert::event).collect::<Vec<_>>()).into_response())
}

/// The events that are asked for, oldest first, also of the runs before.
async fn of_all_runs(rest: &Rest, query: Query) -> Result<Vec<PastEvent>, Trouble> {
    let (before, count) = match query {
        Query::Last(count) => (None, count),
        Query::Range(from, to) => {
            let count = to.checked_sub(from).map_or(0, |count| count.saturating_add(1));
            (to.checked_add(1), usize::try_from(count).unwrap_or(usize::MAX))
        }
        Query::Seq(_) | Query::All | Query::First(_) | Query::Window { .. } => (None, usize::MAX),
    };
    let mut events = rest.agent.past_events(before, count).await?;
    match query {
        Query::First(count) => events.truncate(count),
        Query::Range(from, to) => events.retain(|event| (from..=to).contains(&event.seq)),
        Query::Window { since, until } => events.retain(|event| {
            since.is_none_or(|since| event.stop >= since) && until.is_none_or(|until| event.start <= until)
        }),
        Query::Seq(_) | Query::All | Query::Last(_) => {}
    }
    Ok(events)
}

async fn resync(
    State(rest): State<Rest>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<v1::Ended>, Trouble> {
    let request = v1::ResyncRequest { scope: v1::Scope::Full.into(), prune: false, retry: false };
    Ok(Json(ended(rest.agent.resync(Rest::ask(&caller, request)).await?.into_inner()).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_argument_in_the_list_counts() {
        let all = EventQuery { seq_num: Some(4), since: Some(1.0), last: Some(2), ..EventQuery::default() };
        assert!(matches!(all.query(), Ok(Query::Seq(4))));
        let window = EventQuery { until: Some(1.0), from: Some(1), first: Some(2), ..EventQuery::default() };
        assert!(matches!(window.query(), Ok(Query::Window { since: None, until: Some(_) })));
        let range = EventQuery { from: Some(1), to: Some(3), last: Some(2), ..EventQuery::default() };
        assert!(matches!(range.query(), Ok(Query::Range(1, 3))));
        assert!(EventQuery { from: Some(1), ..EventQuery::default() }.query().is_err());
        assert!(matches!(EventQuery::default().query(), Ok(Query::All)));
    }
}
