//! What the scheduler counts and times, as its published design names it.
//!
//! Decided here: counts are over what is remembered, times since the agent began. Read [`super::scheduler`] for the other
//! addresses of that design.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use kilter_api::openapi::{Answer, Form};
use kilter_scheduler::{Action, Record, Step};
use serde_json::{Map, Value, json};

use super::Rest;
use super::asked::Asked;
use super::route::Route;
use super::shapes;
use super::trouble::Trouble;
use crate::desk::View;
use crate::northbound::look::FEW;
use crate::timings::{Timed, Timing};

/// What `flag-stats` counts.
const FLAGS: &[&str] = &["last-update", "error", "value-state", "unavailable", "descriptor", "derived"];

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/scheduler/flag-stats", flag_stats)
            .about("Counts what the history remembers of items, by one of their marks.")
            .must("flag", Form::OneOf(FLAGS), "What is counted.")
            .may("prefix", Form::Texts, "Only items whose keys start with one of these.")
            .gives(Answer::Json(shapes::counts)),
        Route::get("/scheduler/stats", stats)
            .about("Counters of the scheduler and of the event loop, and how many seconds things took.")
            .gives(Answer::Json(shapes::stats)),
    ]
}

async fn flag_stats(
    State(rest): State<Rest>,
    Asked(pairs): Asked<Vec<(String, String)>>,
) -> Result<Json<Value>, Trouble> {
    let mut flag = None;
    let mut prefixes = Vec::new();
    for (name, value) in pairs {
        match name.as_str() {
            "flag" => flag = Some(value),
            "prefix" => prefixes.push(value),
            other => return Err(Trouble::invalid(format!("unknown parameter `{other}`"))),
        }
    }
    let flag = flag.filter(|flag| FLAGS.contains(&flag.as_str()));
    let Some(flag) = flag else {
        return Err(Trouble::invalid(format!("`flag` is one of {}", FLAGS.join(", "))));
    };
    let records = rest.agent.records().await?;
    let counts = match flag.as_str() {
        "descriptor" => by_kind(&rest, count(&records, &prefixes, |step| Some(step.key.to_string()))).await?,
        flag => count(&records, &prefixes, |step| word(step, flag)),
    };
    let total: u64 = counts.values().sum();
    Ok(Json(json!({ "TotalCount": total, "PerValueCount": counts })))
}

/// How often each word occurs.
type Counts = BTreeMap<String, u64>;

/// How often each word occurs among the changes that are remembered, of these keys.
fn count(records: &[Arc<Record>], prefixes: &[String], word: impl Fn(&Step) -> Option<String>) -> Counts {
    let is_wanted = |step: &&Step| {
        prefixes.is_empty() || prefixes.iter().any(|prefix| step.key.as_str().starts_with(prefix.as_str()))
    };
    let mut counts = Counts::new();
    for word in records.iter().flat_map(|record| record.steps()).filter(is_wanted).filter_map(word) {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

/// The word of a mark on a change.
fn word(step: &Step, flag: &str) -> Option<String> {
    match flag {
        "last-update" => Some(step.action.name().to_owned()),
        "error" => step.error.as_deref().map(str::to_owned),
        "value-state" => Some(step.after.state.name().to_owned()),
        "unavailable" => step.after.value.is_none().then(|| "unavailable".to_owned()),
        _ => step.base.is_some().then(|| "derived".to_owned()),
    }
}

/// The same by kind instead of by key; the loop is asked a few keys at a time.
async fn by_kind(rest: &Rest, by_key: Counts) -> Result<Counts, Trouble> {
    let mut counts = Counts::new();
    let by_key: Vec<(String, u64)> = by_key.into_iter().collect();
    for some in by_key.chunks(FEW) {
        let some = some.to_vec();
        let kinds = rest.agent.desk.inquire(move |view| {
            let registry = view.scheduler.registry();
            let kind = |key: &str| registry.owner(key).map(|kind| registry.name(kind).to_owned());
            some.into_iter().filter_map(|(key, count)| Some((kind(&key)?, count))).collect::<Vec<_>>()
        });
        for (kind, count) in kinds.await? {
            *counts.entry(kind).or_default() += count;
        }
    }
    Ok(counts)
}

async fn stats(State(rest): State<Rest>) -> Result<Json<Value>, Trouble> {
    let stats = |view: &View<'_>| {
        let history = view.scheduler.history();
        let counts = view.events.counts();
        json!({
            "vertices": view.scheduler.vertex_count(),
            "transactions": { "newest": history.newest(), "remembered": history.len(), "bytes": history.bytes() },
            "events": {
                "ended": counts.events,
                "failed": counts.failed,
                "reverted": counts.reverted,
                "healings": counts.healings,
                "transactions": counts.transactions,
                "panics": counts.panics,
                "over_budget": counts.over_budget,
                "refused": counts.refused,
            },
            "retries": view.scheduler.retries().len(),
            "TxnStats": { "Methods": methods(&view.timings.transactions) },
            "AllDescriptors": methods(&view.timings.operations()),
            "Descriptors": view.timings.kinds.iter().map(|(kind, timed)| (kind.clone(), methods(timed))).collect::<Map<_, _>>(),
        })
    };
    let mut stats = rest.agent.desk.inquire(stats).await?;
    let records = rest.agent.records().await?;
    // As the design counts them, over what is remembered.
    let operations = count(&records, &[], |step| {
        let is_operation = matches!(step.action, Action::Create | Action::Update | Action::Delete);
        is_operation.then(|| step.action.name().to_uppercase())
    });
    let errors: u64 = count(&records, &[], |step| step.error.as_ref().map(|_| String::new())).values().sum();
    let txns = &mut stats["TxnStats"];
    txns["TotalProcessed"] = records.len().into();
    txns["OperationCount"] = json!(operations);
    txns["ValueStateCount"] = json!(count(&records, &[], |step| word(step, "value-state")));
    txns["ErrorCount"] = errors.into();
    Ok(Json(stats))
}

/// Timings as the design writes them, in seconds.
fn methods(timed: &Timed) -> Value {
    let method = |(name, timing): (&&str, &Timing)| {
        json!({
            "name": name,
            "count": timing.count,
            "total": timing.total.as_secs_f64(),
            "avg": timing.average().as_secs_f64(),
            "min": timing.min.as_secs_f64(),
            "max": timing.max.as_secs_f64(),
        })
    };
    timed.iter().map(method).collect()
}
