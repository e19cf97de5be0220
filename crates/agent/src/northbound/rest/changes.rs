//! Changes: what would be done, and doing it.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use kilter_api::openapi::{Answer, Form};
use kilter_api::v1::agent_server::Agent as _;
use kilter_api::v1::plan_request::What;
use kilter_api::v1::progress::What as Told;
use kilter_api::v1::{self, Misplaced, Problem, Reason};
use kilter_cli::declare;
use kilter_model::document::{Source, read};
use serde::Deserialize;
use tokio_stream::StreamExt as _;

use super::Rest;
use super::asked::{Asked, Part, Told as Body};
use super::items;
use super::route::Route;
use super::trouble::Trouble;
use super::watch::{frame, streamed};
use crate::northbound::change::Stream;
use crate::northbound::door::{Caller, Role};

/// The name of the source of whoever does not say one.
const SOURCE: &str = "rest";

const OF_SOURCE: &str = "The source that declares it; `rest` if it is left out.";
const IF_MATCH: &str = "The `ETag` that is known: 412 if the item is not so any more.";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/api/v1/plan", plan)
            .about("Says what would be done, and does nothing.")
            .needs(Role::Reader)
            .body("PlanBody")
            .answers("Plan")
            .also(&[404, 409]),
        Route::post("/api/v1/apply", apply)
            .about("Does it. With `Accept: text/event-stream` it tells how it goes: `planned`, `finished`, `ended`, `problem`.")
            .body("ApplyBody")
            .gives(Answer::Progress("Ended"))
            .also(&[404, 409]),
        Route::put("/api/v1/items/{key}", put)
            .about("Declares one item.")
            .key("The key of the item, slashes included; its value must give the same.")
            .may("source", Form::Text, OF_SOURCE)
            .header("If-Match", IF_MATCH)
            .body("ItemBody")
            .answers("Ended")
            .also(&[404, 409, 412]),
        Route::delete("/api/v1/items/{key}", delete)
            .about("Declares one item no more.")
            .key("The key of the item, slashes included.")
            .may("source", Form::Text, OF_SOURCE)
            .header("If-Match", IF_MATCH)
            .answers("Ended")
            .also(&[404, 409, 412]),
        Route::delete("/api/v1/sources/{name}", remove_source)
            .about("Removes a source, and everything it declares.")
            .needs(Role::Admin)
            .part("name", Form::Text, "The name of the source.")
            .answers("Ended")
            .also(&[404, 409]),
        Route::post("/api/v1/resync", resync)
            .about("Recomputes and re-reads.")
            .body("ResyncBody")
            .gives(Answer::Progress("Ended"))
            .also(&[409]),
    ]
}

type Who = Extension<Caller>;

/// What a body asks for, as the wire says it.
fn asked(body: v1::PlanBody) -> Result<v1::PlanRequest, Trouble> {
    let on_failure = body.on_failure;
    let declares =
        !body.documents.is_empty() || !body.items.is_empty() || !body.removed.is_empty() || body.everything;
    let what = match (body.revert_to, body.remove_source) {
        (Some(seq), None) if !declares => What::RevertTo(seq),
        (None, Some(name)) if !declares => What::RemoveSource(name),
        (None, None) => {
            let mut items = documents(&body.documents)?;
            items.extend(body.items);
            let source = if body.source.is_empty() { SOURCE.to_owned() } else { body.source };
            What::Declaration(v1::Declaration {
                source,
                items,
                removed: body.removed,
                everything: body.everything,
            })
        }
        _ => {
            let message =
                "several things are asked at once, hint: a declaration, `revert_to`, or `remove_source`";
            return Err(Trouble::invalid(message));
        }
    };
    Ok(v1::PlanRequest { what: Some(what), on_failure })
}

/// The items of documents; what is wrong with them is told with its places.
fn documents(documents: &[v1::Document]) -> Result<Vec<v1::DeclaredItem>, Trouble> {
    if documents.is_empty() {
        return Ok(Vec::new());
    }
    let sources: Vec<Source> =
        documents.iter().map(|document| Source::new(document.name.clone(), document.text.clone())).collect();
    match read(&sources) {
        Ok(declared) => Ok(declared.iter().map(declare::item).collect()),
        Err(problems) => {
            let misplaced = problems.0.into_iter().map(|problem| Misplaced {
                place: Some(crate::northbound::convert::place(&problem.place)),
                message: problem.message,
                hint: problem.hint.unwrap_or_default(),
            });
            let misplaced: Vec<Misplaced> = misplaced.collect();
            let message = "the documents are wrong, nothing was done";
            Err(Problem { misplaced, ..Problem::new(Reason::Invalid, message) }.into())
        }
    }
}

async fn plan(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Body(body): Body<v1::PlanBody>,
) -> Result<Json<v1::Plan>, Trouble> {
    let request = Rest::ask(&caller, asked(body)?);
    Ok(Json(rest.agent.plan(request).await?.into_inner().plan.unwrap_or_default()))
}

async fn apply(
    State(rest): State<Rest>,
    Extension(caller): Who,
    headers: HeaderMap,
    Body(body): Body<v1::ApplyBody>,
) -> Result<Response, Trouble> {
    let request = v1::ApplyRequest {
        expected_hash: body.expected_hash,
        confirm: body.confirm,
        description: body.description,
        retry: body.retry,
        wait: body.wait,
        request: Some(asked(v1::PlanBody {
            documents: body.documents,
            items: body.items,
            removed: body.removed,
            source: body.source,
            everything: body.everything,
            on_failure: body.on_failure,
            revert_to: body.revert_to,
            remove_source: body.remove_source,
        })?),
        ..v1::ApplyRequest::default()
    };
    let progress = rest.agent.apply(Rest::ask(&caller, request)).await?.into_inner();
    told(&headers, progress).await
}

/// How it ended, or how it goes if that is asked for.
pub(super) async fn told(headers: &HeaderMap, progress: Stream) -> Result<Response, Trouble> {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    if accepted.is_some_and(|accepted| accepted.contains("text/event-stream")) {
        return Ok(streamed(progress.map(|told| match told {
            Ok(v1::Progress { what: Some(Told::Planned(plan)) }) => frame("planned", None, &plan),
            Ok(v1::Progress { what: Some(Told::Finished(finished)) }) => frame("finished", None, &finished),
            Ok(v1::Progress { what: Some(Told::Ended(ended)) }) => frame("ended", None, &ended),
            Ok(v1::Progress { what: None }) => axum::body::Bytes::new(),
            Err(status) => frame("problem", None, &Trouble::from(status).json()),
        })));
    }
    Ok(Json(ended(progress).await?).into_response())
}

/// Waits for the end.
pub(super) async fn ended(mut progress: Stream) -> Result<v1::Ended, Trouble> {
    while let Some(told) = progress.next().await {
        if let Some(Told::Ended(ended)) = told?.what {
            return Ok(ended);
        }
    }
    Err(Problem::new(Reason::Unavailable, "the agent has ended").into())
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SourceQuery {
    source: Option<String>,
}

async fn put(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Part(key): Part,
    Asked(SourceQuery { source }): Asked<SourceQuery>,
    headers: HeaderMap,
    Body(body): Body<v1::ItemBody>,
) -> Result<Json<v1::Ended>, Trouble> {
    let item = v1::DeclaredItem { key: key.clone(), kind: body.kind, value: body.value, place: None };
    let source = source.unwrap_or_else(|| SOURCE.to_owned());
    let declaration = v1::Declaration { source, items: vec![item], ..v1::Declaration::default() };
    change(&rest, &caller, &key, &headers, What::Declaration(declaration)).await
}

async fn delete(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Part(key): Part,
    Asked(SourceQuery { source }): Asked<SourceQuery>,
    headers: HeaderMap,
) -> Result<Json<v1::Ended>, Trouble> {
    let source = source.unwrap_or_else(|| SOURCE.to_owned());
    let item = items::find(&rest, &key).await?;
    if !item.declared_by.iter().any(|by| by.source == source) {
        let names: Vec<String> = item.declared_by.iter().map(|by| format!("`{}`", by.source)).collect();
        let who =
            if names.is_empty() { "nobody does".to_owned() } else { format!("{} does", names.join(", ")) };
        return Err(Trouble::unknown(format!("source `{source}` does not declare `{key}`, {who}")));
    }
    let declaration = v1::Declaration { source, removed: vec![key.clone()], ..v1::Declaration::default() };
    change(&rest, &caller, &key, &headers, What::Declaration(declaration)).await
}

/// Changes one item, if it is as whoever asks knows it.
///
/// 1. It is planned: whatever changes from here on makes the plan another one; 2. the tag is compared; 3. exactly that
///    plan is carried out.
async fn change(
    rest: &Rest,
    caller: &Caller,
    key: &str,
    headers: &HeaderMap,
    what: What,
) -> Result<Json<v1::Ended>, Trouble> {
    let request = v1::PlanRequest { what: Some(what), on_failure: v1::OnFailure::Revert.into() };
    let mut expected_hash = String::new();
    if headers.contains_key(header::IF_MATCH) {
        let plan = rest.agent.plan(Rest::ask(caller, request.clone())).await?.into_inner().plan; // 1
        expected_hash = plan.unwrap_or_default().hash;
        let changed = || {
            let problem = Problem::new(Reason::Stale, format!("`{key}` is not as it was when it was read"));
            Trouble::with_status(StatusCode::PRECONDITION_FAILED, problem.about([key.to_owned()]))
        };
        let item = items::find(rest, key).await.map_err(|_| changed())?; // 2
        if !items::is_named(headers, header::IF_MATCH, &items::tag(&item)) {
            return Err(changed());
        }
    }
    let request = v1::ApplyRequest { request: Some(request), expected_hash, ..v1::ApplyRequest::default() };
    let progress = rest.agent.apply(Rest::ask(caller, request)).await?.into_inner(); // 3
    Ok(Json(ended(progress).await?))
}

async fn remove_source(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Part(name): Part,
) -> Result<Json<v1::Ended>, Trouble> {
    let what = Some(What::RemoveSource(name));
    let request = v1::PlanRequest { what, on_failure: v1::OnFailure::Revert.into() };
    let request = v1::ApplyRequest { request: Some(request), ..v1::ApplyRequest::default() };
    Ok(Json(ended(rest.agent.apply(Rest::ask(&caller, request)).await?.into_inner()).await?))
}

async fn resync(
    State(rest): State<Rest>,
    Extension(caller): Who,
    headers: HeaderMap,
    Body(body): Body<v1::ResyncBody>,
) -> Result<Response, Trouble> {
    let request = v1::ResyncRequest { scope: body.scope, prune: body.prune, retry: body.retry };
    told(&headers, rest.agent.resync(Rest::ask(&caller, request)).await?.into_inner()).await
}
