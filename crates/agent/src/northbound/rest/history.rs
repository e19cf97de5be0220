//! What happened: transactions, events, timelines, and what differs between two moments.

use axum::Json;
use axum::extract::{Extension, State};
use kilter_api::openapi::Form;
use kilter_api::v1;
use kilter_api::v1::agent_server::Agent as _;
use serde::Deserialize;

use super::Rest;
use super::asked::{Asked, Part};
use super::route::Route;
use super::trouble::Trouble;
use crate::northbound::door::Caller;

const BEFORE: &str =
    "Only those before this one: the `next_page_token` of a page, to go back page by page with `last`.";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/transactions", transactions)
            .about("Lists the transactions that are remembered, oldest first.")
            .may("last", Form::Number, "Only so many of the newest; 0 for all.")
            .may("after", Form::Number, "Only those after this one.")
            .may("before", Form::Number, BEFORE)
            .answers("ListTransactionsReply"),
        Route::get("/api/v1/transactions/{seq}", transaction)
            .about("One transaction with its plan and what was carried out.")
            .part("seq", Form::Number, "Its position in the history.")
            .answers("Transaction")
            .also(&[404]),
        Route::get("/api/v1/timeline", timeline)
            .about("What happened to one item.")
            .must("key", Form::Text, "The key of the item.")
            .may("last", Form::Number, "Only so many of the newest; 0 for all.")
            .may(
                "before",
                Form::Number,
                "Only what happened before this transaction: the `next_page_token` of a page.",
            )
            .answers("TimelineReply")
            .also(&[404]),
        Route::get("/api/v1/events", events)
            .about("Lists the events that are remembered, oldest first.")
            .may("last", Form::Number, "Only so many of the newest; 0 for all.")
            .may("before", Form::Number, BEFORE)
            .may("seq", Form::Number, "Only the one at this position.")
            .answers("ListEventsReply")
            .also(&[404]),
        Route::get("/api/v1/diff", diff)
            .about("What differs between two moments.")
            .must("from", Form::Number, "After this transaction.")
            .may("to", Form::Number, "After that one; as it is if it is left out.")
            .may("prefix", Form::Text, "Only items whose keys start with this.")
            .answers("DiffReply")
            .also(&[404]),
    ]
}

type Who = Extension<Caller>;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TransactionsQuery {
    last: u32,
    after: u64,
    before: Option<u64>,
}

async fn transactions(
    State(rest): State<Rest>,
    Asked(TransactionsQuery { last, after, before }): Asked<TransactionsQuery>,
) -> Result<Json<v1::ListTransactionsReply>, Trouble> {
    let request = v1::ListTransactionsRequest { last, after, page_token: token(before), page_size: 0 };
    Ok(Json(rest.agent.transactions(request).await?))
}

/// A position in a history, as a path says it.
pub(super) fn position(text: &str) -> Result<u64, Trouble> {
    text.parse().map_err(|_| Trouble::invalid(format!("`{text}` is no position, hint: a whole number")))
}

async fn transaction(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Part(seq): Part,
) -> Result<Json<v1::Transaction>, Trouble> {
    let request = Rest::ask(&caller, v1::GetTransactionRequest { seq: position(&seq)? });
    Ok(Json(rest.agent.get_transaction(request).await?.into_inner()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimelineQuery {
    key: String,
    #[serde(default)]
    last: usize,
    before: Option<u64>,
}

async fn timeline(
    State(rest): State<Rest>,
    Asked(TimelineQuery { key, last, before }): Asked<TimelineQuery>,
) -> Result<Json<v1::TimelineReply>, Trouble> {
    let page_size = u32::try_from(last).unwrap_or(u32::MAX);
    let request = v1::TimelineRequest { key, page_size, page_token: token(before) };
    Ok(Json(rest.agent.timeline_page(request).await?))
}

/// What leads to the page before a position.
fn token(before: Option<u64>) -> String {
    before.map(|before| before.to_string()).unwrap_or_default()
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EventsQuery {
    last: u32,
    before: Option<u64>,
    seq: Option<u64>,
}

async fn events(
    State(rest): State<Rest>,
    Asked(EventsQuery { last, before, seq }): Asked<EventsQuery>,
) -> Result<Json<v1::ListEventsReply>, Trouble> {
    let request = v1::ListEventsRequest { last, seq, page_token: token(before), page_size: 0 };
    Ok(Json(rest.agent.events(request).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiffQuery {
    from: u64,
    to: Option<u64>,
    #[serde(default)]
    prefix: String,
}

async fn diff(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Asked(DiffQuery { from, to, prefix }): Asked<DiffQuery>,
) -> Result<Json<v1::DiffReply>, Trouble> {
    let request = Rest::ask(&caller, v1::DiffRequest { from, to, prefix });
    Ok(Json(rest.agent.diff(request).await?.into_inner()))
}
