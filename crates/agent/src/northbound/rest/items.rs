//! Items, their statuses, kinds and sources: what there is.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use kilter_api::openapi::{self, Answer, Form};
use kilter_api::v1::agent_server::Agent as _;
use kilter_api::v1::{self, ItemPage, StatusPage};
use serde::Deserialize;
use serde_json::json;

use super::Rest;
use super::asked::{Asked, Part};
use super::route::Route;
use super::trouble::Trouble;
use crate::northbound::convert;
use crate::northbound::door::Caller;
use crate::northbound::pages;

/// The states, as words.
pub(super) const STATES: &[&str] = &[
    "MISSING",
    "UNIMPLEMENTED",
    "REMOVED",
    "CONFIGURED",
    "OBTAINED",
    "DISCOVERED",
    "PENDING",
    "INVALID",
    "FAILED",
    "RETRYING",
    "APPLYING",
    "REMOVING",
];

const PREFIX: &str = "Only items whose keys start with this.";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/health", health).about("How the agent is.").answers("Health"),
        Route::get("/api/v1/kinds", kinds).about("What may be declared.").answers("ListKindsReply"),
        Route::get("/api/v1/schema", schema)
            .about("The JSON Schema of documents.")
            .gives(Answer::Json(|| openapi::object(&[("$schema", json!({ "type": "string" }))]))),
        Route::get("/api/v1/openapi.json", description).about("This description.").gives(Answer::Json(
            || {
                let object = || json!({ "type": "object" });
                openapi::object(&[
                    ("openapi", json!({ "const": "3.1.0" })),
                    ("info", object()),
                    ("paths", object()),
                ])
            },
        )),
        Route::get("/api/v1/items", list)
            .about("Lists items by key, page by page.")
            .may("prefix", Form::Text, PREFIX)
            .may("kind", Form::Text, "Only items of this kind.")
            .may("state", Form::OneOf(STATES), "Only items in this state.")
            .may("source", Form::Text, "Only items of this source.")
            .may("derived", Form::Flag, "Also items that another item derives.")
            .may("observed", Form::Flag, "Also items that exist without having been asked for.")
            .may("limit", Form::Number, "At most so many; 1000 if it is left out, 10000 at most.")
            .may("after", Form::Text, "Only items after this key: the `next` of the page before.")
            .answers("ItemPage"),
        Route::get("/api/v1/items/{key}", one)
            .about("One item. Its `ETag` changes whenever anything about it does.")
            .key("The key of the item, slashes included.")
            .header("If-None-Match", "The `ETag` that is known: 304 if it is still so.")
            .answers("Item")
            .also(&[304, 404]),
        Route::get("/api/v1/statuses", statuses)
            .about("Lists the statuses of base items, each with those of its derived items.")
            .may("prefix", Form::Text, "Only items whose keys start with this; a key means that item alone.")
            .may("observed", Form::Flag, "Also of items that exist without having been asked for.")
            .may("limit", Form::Number, "At most so many; all if it is left out.")
            .may("after", Form::Text, "Only those after this key: the `next` of the page before.")
            .answers("StatusPage")
            .also(&[404]),
        Route::get("/api/v1/explain", explain)
            .about("Says why an item stands where it stands.")
            .must("key", Form::Text, "The key of the item.")
            .answers("Explanation")
            .also(&[404]),
        Route::get("/api/v1/sources", sources)
            .about("Who declares, and how much.")
            .answers("ListSourcesReply"),
        Route::get("/api/v1/export", export)
            .about("The items as a document.")
            .may("prefix", Form::Text, PREFIX)
            .may("declared", Form::Flag, "What is declared, instead of what exists.")
            .gives(Answer::Text("text/yaml")),
    ]
}

type Who = Extension<Caller>;

async fn health(State(rest): State<Rest>, Extension(caller): Who) -> Result<Json<v1::Health>, Trouble> {
    Ok(Json(rest.agent.get_health(Rest::ask(&caller, v1::GetHealthRequest {})).await?.into_inner()))
}

async fn kinds(
    State(rest): State<Rest>,
    Extension(caller): Who,
) -> Result<Json<v1::ListKindsReply>, Trouble> {
    Ok(Json(rest.agent.list_kinds(Rest::ask(&caller, v1::ListKindsRequest {})).await?.into_inner()))
}

async fn schema() -> Json<serde_json::Value> {
    Json(kilter_model::schema::schema())
}

async fn description(State(rest): State<Rest>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], rest.description.to_string()).into_response()
}

/// A state as an address says it.
pub(super) fn state(word: Option<&str>) -> Result<v1::State, Trouble> {
    let Some(word) = word else { return Ok(v1::State::Unspecified) };
    v1::State::from_str_name(&format!("STATE_{}", word.to_uppercase()))
        .ok_or_else(|| Trouble::invalid(format!("`{word}` is no state, hint: one of {}", STATES.join(", "))))
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ListQuery {
    prefix: String,
    kind: String,
    state: Option<String>,
    source: String,
    derived: bool,
    observed: bool,
    limit: Option<usize>,
    after: Option<String>,
}

/// How many items a page has unless it is said.
const PAGE: usize = 1000;

async fn list(State(rest): State<Rest>, Asked(query): Asked<ListQuery>) -> Result<Json<ItemPage>, Trouble> {
    let limit = match query.limit {
        Some(0) => return Err(Trouble::invalid(NEVER_ENDS)),
        limit => limit.unwrap_or(PAGE).min(pages::LARGEST),
    };
    let request = v1::ListItemsRequest {
        state: state(query.state.as_deref())?.into(),
        prefix: query.prefix,
        kind: query.kind,
        source: query.source,
        derived: query.derived,
        observed: query.observed,
        ..v1::ListItemsRequest::default()
    };
    let mut items = rest.agent.page(request, query.after, limit + 1).await?;
    let next = pages::cut(&mut items, limit, |item| &item.key);
    Ok(Json(ItemPage { items, next }))
}

const NEVER_ENDS: &str = "a page of 0 items never ends, hint: `limit` is at least 1";

/// What identifies an item as it is.
pub(super) fn tag(item: &v1::Item) -> String {
    let text = serde_json::to_vec(item).unwrap_or_default();
    format!("\"{}\"", &blake3::hash(&text).to_hex()[..32])
}

/// The item of a key.
pub(super) async fn find(rest: &Rest, key: &str) -> Result<v1::Item, Trouble> {
    let asked = key.to_owned();
    let found = rest
        .agent
        .desk
        .inquire(move |view| view.scheduler.item(&asked).map(|item| convert::item(view, &item)));
    match found.await? {
        Some(item) => Ok(item),
        None => Err(rest.agent.unknown(key).await.into()),
    }
}

async fn one(State(rest): State<Rest>, Part(key): Part, headers: HeaderMap) -> Result<Response, Trouble> {
    let item = find(&rest, &key).await?;
    let tag = tag(&item);
    let value = HeaderValue::from_str(&tag).map_err(|_| Trouble::invalid("the item has no tag"))?;
    if is_named(&headers, header::IF_NONE_MATCH, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, value)]).into_response());
    }
    Ok(([(header::ETAG, value)], Json(item)).into_response())
}

/// Whether a header names a tag, or any.
pub(in crate::northbound) fn is_named(headers: &HeaderMap, name: header::HeaderName, tag: &str) -> bool {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    let mut named = lines.flat_map(|line| line.split(','));
    named.any(|named| named.trim() == "*" || named.trim().trim_start_matches("W/") == tag)
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StatusesQuery {
    prefix: String,
    observed: bool,
    limit: Option<usize>,
    after: Option<String>,
}

async fn statuses(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Asked(StatusesQuery { prefix, observed, limit, after }): Asked<StatusesQuery>,
) -> Result<Json<StatusPage>, Trouble> {
    if limit == Some(0) {
        return Err(Trouble::invalid(NEVER_ENDS));
    }
    let request = Rest::ask(
        &caller,
        v1::ListStatusesRequest { prefix, observed, ..v1::ListStatusesRequest::default() },
    );
    let mut statuses = rest.agent.list_statuses(request).await?.into_inner().statuses;
    statuses.retain(|status| after.as_ref().is_none_or(|after| status.key > *after));
    let next = pages::cut(&mut statuses, limit.unwrap_or(usize::MAX), |status| &status.key);
    Ok(Json(StatusPage { statuses, next }))
}

/// Which item.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyQuery {
    key: String,
}

async fn explain(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Asked(KeyQuery { key }): Asked<KeyQuery>,
) -> Result<Json<v1::Explanation>, Trouble> {
    Ok(Json(rest.agent.explain(Rest::ask(&caller, v1::ExplainRequest { key })).await?.into_inner()))
}

async fn sources(
    State(rest): State<Rest>,
    Extension(caller): Who,
) -> Result<Json<v1::ListSourcesReply>, Trouble> {
    Ok(Json(rest.agent.list_sources(Rest::ask(&caller, v1::ListSourcesRequest {})).await?.into_inner()))
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ExportQuery {
    prefix: String,
    declared: bool,
}

async fn export(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Asked(ExportQuery { prefix, declared }): Asked<ExportQuery>,
) -> Result<Response, Trouble> {
    let request = Rest::ask(&caller, v1::ExportRequest { prefix, declared });
    let document = rest.agent.export(request).await?.into_inner().document;
    Ok(([(header::CONTENT_TYPE, "text/yaml")], document).into_response())
}
