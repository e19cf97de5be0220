//! The addresses of the scheduler as its published design names them, with their arguments.
//!
//! Decided here: what those arguments mean for us. Times are seconds since 1970, as the design says; a number that could
//! only be nanoseconds is read as such, as its first implementation did. Not decided here: what is told; it is what
//! `/api/v1` tells, under other names.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use kilter_api::openapi::{self, Answer, Form};
use kilter_api::render;
use kilter_api::render::looks::Drawing;
use kilter_api::v1;
use kilter_api::v1::agent_server::Agent as _;
use kilter_cli::wire;
use kilter_scheduler::{Record, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Rest;
use super::asked::Asked;
use super::changes::ended;
use super::drawing::{GraphQuery, Medium, drawn, select};
use super::route::Route;
use super::shapes;
use super::trouble::Trouble;
use crate::desk::View;
use crate::northbound::convert;
use crate::northbound::door::Caller;

/// How a word says yes or no.
const FLAG: &[&str] = &["0", "1", "false", "true"];
/// What `dump` shows.
const VIEWS: &[&str] = &["NB", "SB", "internal", "cached"];

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/scheduler/graph", graph)
            .about("The graph as a picture, or in the DOT language.")
            .may("format", Form::OneOf(&["svg", "dot"]), "How it is drawn; `svg` if it is left out.")
            .may("txn", Form::Number, "As it was after this transaction, with what it touched marked.")
            .gives(Answer::Drawing)
            .also(&[404]),
        Route::get("/scheduler/txn-history", txn_history)
            .about("The transactions that are remembered, oldest first.")
            .may("format", Form::OneOf(&["json", "text"]), "`json` if it is left out.")
            .may("seq-num", Form::Number, "Only this one.")
            .may("since", Form::Seconds, "Only those that ended then or later.")
            .may("until", Form::Seconds, "Only those that began then or earlier.")
            .gives(Answer::JsonOrText(|| openapi::one_or_list("Transaction")))
            .also(&[404]),
        Route::get("/scheduler/key-timeline", key_timeline)
            .about("What happened to one item.")
            .must("key", Form::Text, "The key of the item.")
            .may("time", Form::Seconds, "Only what was so at this moment.")
            .gives(Answer::Json(|| openapi::list("Moment")))
            .also(&[404]),
        Route::get("/scheduler/graph-snapshot", graph_snapshot)
            .about("The items as they were at a moment.")
            .may("time", Form::Seconds, "The moment; as it is if it is left out.")
            .answers("Graph")
            .also(&[404]),
        Route::get("/scheduler/dump", dump)
            .about("The values of a kind, or of keys that begin so; without either, what there is to choose.")
            .may("descriptor", Form::Text, "The kind.")
            .may("key-prefix", Form::Text, "How the keys begin.")
            .may("view", Form::OneOf(VIEWS), "Declared (`NB`), what is (`SB`, as it was last read), of base items alone (`cached`), or either (`internal`).")
            .gives(Answer::Json(shapes::dump))
            .also(&[404]),
        Route::post("/scheduler/downstream-resync", downstream_resync)
            .about("Re-reads what is, and mends it. What fails is tried again as it was declared.")
            .may(
                "retry",
                Form::OneOf(FLAG),
                "Tries again as the settings say, also what was declared without.",
            )
            .may("verbose", Form::OneOf(FLAG), "Answers the graph too.")
            .gives(Answer::Json(shapes::resync))
            .also(&[409]),
        Route::get("/scheduler/status", status)
            .about("The status of one item, or of many by key.")
            .may("key", Form::Text, "One item.")
            .may("descriptor", Form::Text, "Those of a kind.")
            .may("key-prefix", Form::Text, "Those whose keys begin so.")
            .gives(Answer::Json(|| openapi::one_or_list("Status")))
            .also(&[404]),
    ]
}

type Who = Extension<Caller>;

/// A moment out of a number: seconds since 1970, or nanoseconds if seconds would be beyond any calendar.
pub(super) fn moment(number: f64) -> Result<Timestamp, Trouble> {
    if !number.is_finite() || number < 0.0 {
        return Err(Trouble::invalid(format!("`{number}` is no moment, hint: seconds since 1970")));
    }
    let nanos = if number < 1e12 { number * 1e9 } else { number };
    // As exact as such a number is.
    Ok(Timestamp(nanos as u64))
}

fn moment_of(number: Option<f64>) -> Result<Option<Timestamp>, Trouble> {
    number.map(moment).transpose()
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct DrawQuery {
    format: Option<String>,
    txn: Option<u64>,
}

async fn graph(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Asked(DrawQuery { format, txn }): Asked<DrawQuery>,
) -> Result<Response, Trouble> {
    let medium = match format.as_deref() {
        None | Some("svg") => Medium::Svg,
        Some("dot") => Medium::Dot,
        Some(other) => return Err(Trouble::invalid(format!("`{other}` is no format, hint: `svg` or `dot`"))),
    };
    let (graph, touched) = select(&rest, &caller, GraphQuery { txn, ..GraphQuery::default() }).await?;
    drawn(graph, Drawing { touched, link: "/scheduler/key-timeline?key=".to_owned() }, medium).await
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct TxnQuery {
    format: Option<String>,
    seq_num: Option<u64>,
    since: Option<f64>,
    until: Option<f64>,
}

async fn txn_history(State(rest): State<Rest>, Asked(query): Asked<TxnQuery>) -> Result<Response, Trouble> {
    let (since, until) = (moment_of(query.since)?, moment_of(query.until)?);
    let seq = query.seq_num;
    let is_wanted = move |record: &Record| {
        since.is_none_or(|since| record.stop >= since) && until.is_none_or(|until| record.start <= until)
    };
    let transactions = match seq {
        Some(seq) => vec![rest.agent.transaction(seq).await?],
        None => rest.agent.whole_transactions(is_wanted).await?,
    };
    match query.format.as_deref() {
        Some("text") => {
            let text: String = transactions.iter().map(render::transaction::show).collect();
            let text = anstream::adapter::strip_str(&text).to_string();
            Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
        }
        None | Some("json") if seq.is_some() => Ok(Json(transactions.into_iter().next()).into_response()),
        None | Some("json") => Ok(Json(transactions).into_response()),
        Some(other) => Err(Trouble::invalid(format!("`{other}` is no format, hint: `json` or `text`"))),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimelineQuery {
    key: String,
    time: Option<f64>,
}

async fn key_timeline(
    State(rest): State<Rest>,
    Asked(TimelineQuery { key, time }): Asked<TimelineQuery>,
) -> Result<Response, Trouble> {
    let time = moment_of(time)?;
    let mut moments = rest.agent.timeline_of(key).await?;
    if let Some(time) = time.map(wire::moment) {
        let is_over = |at: &prost_types::Timestamp| (at.seconds, at.nanos) <= (time.seconds, time.nanos);
        moments.retain(|moment| moment.at.as_ref().is_some_and(is_over));
        moments = moments.pop().into_iter().collect();
    }
    Ok(Json(moments).into_response())
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SnapshotQuery {
    time: Option<f64>,
}

async fn graph_snapshot(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Asked(SnapshotQuery { time }): Asked<SnapshotQuery>,
) -> Result<Json<v1::Graph>, Trouble> {
    let at = match moment_of(time)? {
        None => None,
        Some(time) => Some(rest.agent.last_before(time).await?),
    };
    let request = v1::GetGraphRequest { at, prefix: String::new() };
    Ok(Json(rest.agent.get_graph(Rest::ask(&caller, request)).await?.into_inner()))
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct DumpQuery {
    descriptor: Option<String>,
    key_prefix: Option<String>,
    view: Option<String>,
}

async fn dump(State(rest): State<Rest>, Asked(query): Asked<DumpQuery>) -> Result<Json<Value>, Trouble> {
    let view = query.view.unwrap_or_else(|| "SB".to_owned());
    if !VIEWS.contains(&view.as_str()) {
        return Err(Trouble::invalid(format!("`{view}` is no view, hint: one of {}", VIEWS.join(", "))));
    }
    let (kind, prefix) = (query.descriptor, query.key_prefix);
    let (kinds, prefixes) = rest.agent.desk.inquire(known).await?;
    if kind.is_none() && prefix.is_none() {
        return Ok(Json(json!({ "Descriptors": kinds, "KeyPrefixes": prefixes, "Views": VIEWS })));
    }
    if let Some(kind) = kind.as_ref().filter(|kind| !kinds.contains(kind)) {
        return Err(Trouble::unknown(format!("there is no kind `{kind}`")));
    }
    let asked = prefix.clone();
    let shown = rest.agent.desk.sweep(move |desk_view, key| {
        let item = desk_view.scheduler.item(key.as_str())?;
        let is_meant = kind.as_ref().is_none_or(|kind| item.kind.as_ref() == Some(kind))
            && asked.as_ref().is_none_or(|prefix| item.key.as_str().starts_with(prefix));
        let (declared, actual) = (item.declared.as_ref(), item.actual.as_ref());
        let value = match view.as_str() {
            "NB" => declared.filter(|_| item.base.is_none()),
            "SB" => actual,
            // What waits, or failed, is not there.
            "cached" => actual.filter(|_| item.base.is_none()),
            _ => actual.or(declared),
        };
        let value = value.filter(|_| is_meant)?.to_json();
        Some(json!({ "key": item.key.as_str(), "state": item.state.name(), "value": value }))
    });
    let shown: Vec<Value> = shown.await?.found.into_values().collect();
    let is_known = |prefix: &String| {
        prefixes.iter().any(|known| known.starts_with(prefix.as_str()) || prefix.starts_with(known.as_str()))
    };
    match prefix.filter(|prefix| shown.is_empty() && !is_known(prefix)) {
        Some(prefix) => Err(Trouble::unknown(format!("no kind has keys that begin with `{prefix}`"))),
        None => Ok(Json(Value::Array(shown))),
    }
}

/// Every kind, and what the keys of kinds begin with.
fn known(view: &View<'_>) -> (Vec<String>, Vec<String>) {
    let registry = view.scheduler.registry();
    let kinds = registry.kinds().map(|kind| registry.name(kind).to_owned()).collect();
    let patterns = registry.kinds().flat_map(|kind| registry.descriptor(kind).keys());
    let beginning = |text: String| text.split('*').next().unwrap_or_default().to_owned();
    let prefixes: BTreeSet<String> = patterns.map(|pattern| beginning(pattern.to_string())).collect();
    (kinds, prefixes.into_iter().collect())
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ResyncQuery {
    retry: Option<String>,
    verbose: Option<String>,
}

fn is_set(word: Option<&str>) -> Result<bool, Trouble> {
    match word {
        None | Some("0" | "false") => Ok(false),
        Some("1" | "true") => Ok(true),
        Some(other) => Err(Trouble::invalid(format!("`{other}` is neither `1` nor `0`"))),
    }
}

async fn downstream_resync(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Asked(ResyncQuery { retry, verbose }): Asked<ResyncQuery>,
) -> Result<Response, Trouble> {
    let (retry, is_verbose) = (is_set(retry.as_deref())?, is_set(verbose.as_deref())?);
    let request = v1::ResyncRequest { scope: v1::Scope::Downstream.into(), prune: false, retry };
    let progress = rest.agent.resync(Rest::ask(&caller, request)).await?.into_inner();
    let ended = ended(progress).await?;
    if !is_verbose {
        return Ok(Json(ended).into_response());
    }
    let request = Rest::ask(&caller, v1::GetGraphRequest::default());
    let graph = rest.agent.get_graph(request).await?.into_inner();
    Ok(Json(json!({ "ended": ended, "graph": graph })).into_response())
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct StatusQuery {
    key: Option<String>,
    descriptor: Option<String>,
    key_prefix: Option<String>,
}

async fn status(State(rest): State<Rest>, Asked(query): Asked<StatusQuery>) -> Result<Response, Trouble> {
    if let Some(key) = query.key {
        let asked = key.clone();
        let one = rest.agent.desk.inquire(move |view| {
            view.scheduler.item(&asked).map(|_| convert::status(view, &view.scheduler.status(&asked)))
        });
        return match one.await? {
            Some(status) => Ok(Json(status).into_response()),
            None => Err(rest.agent.unknown(&key).await.into()),
        };
    }
    let (kind, prefix) = (query.descriptor, query.key_prefix.unwrap_or_default());
    let list = rest.agent.desk.sweep(move |view, key| {
        let registry = view.scheduler.registry();
        let owner = registry.owner(key.as_str()).map(|owner| registry.name(owner));
        let is_meant = key.as_str().starts_with(&prefix)
            && view.scheduler.base_of(key.as_str()).is_none()
            && kind.as_deref().is_none_or(|kind| owner == Some(kind));
        is_meant.then(|| convert::status(view, &view.scheduler.status(key.as_str())))
    });
    Ok(Json(list.await?.found.into_values().collect::<Vec<_>>()).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_seconds_and_what_could_only_be_nanoseconds_is_that() {
        assert_eq!(moment(1_700_000_000.5).unwrap(), Timestamp(1_700_000_000_500_000_000));
        assert_eq!(moment(1_700_000_000_500_000_000.0).unwrap(), Timestamp(1_700_000_000_500_000_000));
        assert!(moment(-1.0).is_err() && moment(f64::NAN).is_err() && moment(f64::INFINITY).is_err());
    }
}
