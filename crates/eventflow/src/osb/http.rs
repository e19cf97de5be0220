//! What platforms see: the routes of the API, who may use them, and how decisions are told.

use std::collections::HashMap;
use std::ops::Not as _;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, Request as Incoming, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json as Body, Router};
use serde_json::{Value as Json, json};

use crate::adoption::name_of;
use crate::metrics;
use crate::mirror::Shared;
use crate::object::Resource;
use crate::osb::catalog::{self, Offer};
use crate::osb::decide::{self, Decision, IN_PROGRESS, Update};
use crate::osb::description::description;
use crate::osb::explain;
use crate::osb::keeper::{Keeper, LONGEST, seconds};
use crate::osb::question::{self, Question, Version, basic, originator};
use crate::osb::record::{Record, Stage};
use crate::osb::store::{Store, record};
use crate::request::Rejected;

const VERSION: &str = "x-broker-api-version";
const ORIGINATOR: &str = "x-broker-api-originating-identity";
const REQUEST: &str = "x-broker-api-request-identity";

/// How often a decision is made again because somebody was faster.
const DECISIONS: usize = 5;

/// Who may ask, and how strictly.
#[derive(Clone, Debug)]
pub struct Access {
    /// The name of the platform.
    pub user: String,
    /// Its password.
    pub password: String,
    /// What is answered to a request that names no version: 400 as the API has it, 412 as its checkers want it.
    pub versionless: u16,
}

#[derive(Clone)]
struct Broker {
    store: Store,
    mirror: Shared,
    access: Arc<Access>,
}

/// The routes of the service broker.
pub(crate) fn routes(keeper: &Keeper, access: Access) -> Router {
    let broker = Broker { store: keeper.store(), mirror: keeper.mirror(), access: Arc::new(access) };
    let instance = get(instance).put(provision).patch(update).delete(deprovision);
    let binding = get(no_binding).put(no_bind).delete(no_unbind);
    Router::new()
        .route("/v2/catalog", get(catalog))
        .route("/v2/service_instances/{instance}", instance)
        .route("/v2/service_instances/{instance}/last_operation", get(last_operation))
        .route("/v2/service_instances/{instance}/service_bindings/{binding}", binding)
        .route("/v2/service_instances/{instance}/service_bindings/{binding}/last_operation", get(no_binding))
        .route("/openapi.json", get(async || answer(200, description())))
        .route("/explain/{instance}", get(explained))
        .fallback(async || say(404, "there is nothing here"))
        .method_not_allowed_fallback(async || say(405, "this cannot be asked here"))
        .layer(from_fn_with_state(broker.clone(), admit))
        // Whoever may look at the numbers of the cluster may look at these.
        .route("/metrics", get(numbers))
        .route("/healthz", get(async || StatusCode::OK))
        .with_state(broker)
}

async fn numbers(State(broker): State<Broker>) -> Response {
    let records: Vec<Record> = {
        let mirror = broker.mirror.lock();
        mirror.inside(Resource::ConfigMap, &broker.store.namespace).filter_map(record).collect()
    };
    let text = metrics::broker_text(&broker.store.counts, &records, seconds());
    ([(CONTENT_TYPE, metrics::FORM)], text).into_response()
}

/// What a platform is answered.
struct Answer {
    code: u16,
    body: Json,
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (code, Body(self.body)).into_response()
    }
}

fn answer(code: u16, body: Json) -> Answer {
    Answer { code, body }
}

fn say(code: u16, description: &str) -> Answer {
    answer(code, json!({"description": description}))
}

fn refuse(word: &str, description: &str) -> Answer {
    answer(422, json!({"error": word, "description": description}))
}

/// The cluster did not do its part; nothing is known to be changed.
fn unable(rejected: &Rejected) -> Answer {
    tracing::warn!("failed to decide about an instance: {rejected}");
    say(500, "the cluster cannot be asked")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Lets nobody in who may not ask, or asks in another version; says whose answer it is.
async fn admit(State(broker): State<Broker>, request: Incoming, next: Next) -> Response {
    let headers = request.headers();
    let identity: Option<HeaderValue> = headers.get(REQUEST).cloned();
    let asked = request.method().is_safe().not().then(|| asked(&request));
    let mut response = match refusal(headers, &broker.access) {
        Some(refusal) => refusal,
        None => in_json(next.run(request).await),
    };
    broker.store.counts.answered(response.status().as_u16());
    if let Some(asked) = asked {
        tracing::info!("{asked}: {}", response.status().as_u16());
    }
    if let Some(identity) = identity {
        response.headers_mut().insert(REQUEST, identity);
    }
    response
}

/// What is asked and by whom, for whoever reads the log.
fn asked(request: &Incoming) -> String {
    let headers = request.headers();
    let told = originator(text(headers, ORIGINATOR)).ok().flatten();
    let who =
        told.map_or_else(|| "somebody".to_owned(), |(platform, user)| format!("{platform} user {user}"));
    let which = text(headers, REQUEST).map_or_else(String::new, |it| format!(" (request `{it}`)"));
    format!("{who} asks {} {}{which}", request.method(), request.uri().path())
}

/// What could not even be read is told as everything else is.
fn in_json(response: Response) -> Response {
    let is_json =
        text(response.headers(), "content-type").is_some_and(|it| it.starts_with("application/json"));
    if is_json {
        return response;
    }
    say(response.status().as_u16(), "the request cannot be read").into_response()
}

fn refusal(headers: &HeaderMap, access: &Access) -> Option<Response> {
    let given = text(headers, "authorization").unwrap_or_default();
    let wanted = basic(&access.user, &access.password);
    // Digests are compared in a time that tells nothing.
    if blake3::hash(given.as_bytes()) != blake3::hash(wanted.as_bytes()) {
        let mut response = say(401, "the platform is not known").into_response();
        response.headers_mut().insert("www-authenticate", HeaderValue::from_static("Basic"));
        return Some(response);
    }
    match question::version(text(headers, VERSION)) {
        Version::Spoken => {}
        Version::Missing => {
            return Some(say(access.versionless, "the version of the API is missing").into_response());
        }
        Version::Foreign => {
            return Some(say(412, "the version of the API must be 2.13 or a later 2.x").into_response());
        }
    }
    originator(text(headers, ORIGINATOR)).err().map(|why| say(400, &why).into_response())
}

impl Broker {
    fn offers(&self) -> Vec<Offer> {
        catalog::catalog(self.mirror.lock().of(Resource::Application))
    }

    /// Decides, and writes what was decided, until nobody was faster.
    async fn settle(
        &self,
        instance: &str,
        decide: impl Fn(Option<&Record>) -> Decision,
    ) -> Result<Decision, Answer> {
        for _ in 0..DECISIONS {
            let known = self.store.read(instance).await.map_err(|rejected| unable(&rejected))?;
            let (known, version) =
                known.map_or((None, None), |(record, version)| (Some(record), Some(version)));
            let decision = decide(known.as_ref());
            let Decision::Begin(record) = &decision else { return Ok(decision) };
            let written = self.store.write(record, version.as_deref()).await;
            if written.map_err(|rejected| unable(&rejected))?.is_some() {
                return Ok(decision);
            }
        }
        Err(refuse("ConcurrencyError", "others ask about the same instance"))
    }
}

/// How a decision is told.
fn tell(decision: Decision) -> Answer {
    match decision {
        Decision::Begin(record) => answer(202, json!({"operation": record.operation})),
        Decision::GoesOn(operation) => answer(202, json!({"operation": operation})),
        Decision::Done => answer(200, json!({})),
        Decision::Differs => say(409, "the instance exists with other attributes"),
        Decision::Busy => refuse("ConcurrencyError", "another operation is under way"),
        Decision::Refused(why) | Decision::Unusable(why) => say(422, why),
        Decision::Foreign => say(400, "the instance is of another service"),
        Decision::Unknown => say(400, "there is no such instance"),
        Decision::Gone => answer(410, json!({})),
    }
}

async fn catalog(State(broker): State<Broker>) -> Answer {
    answer(200, catalog::to_json(&broker.offers(), LONGEST))
}

type Hints = Query<HashMap<String, String>>;

fn is_async(hints: &HashMap<String, String>) -> Result<(), Answer> {
    if hints.get("accepts_incomplete").is_some_and(|it| it == "true") {
        return Ok(());
    }
    Err(refuse("AsyncRequired", "this takes a while, hint: accepts_incomplete=true"))
}

/// Whoever ends something names its service and its plan.
fn names_plan(hints: &HashMap<String, String>) -> Result<(), Answer> {
    let missing = ["service_id", "plan_id"].into_iter().find(|it| !hints.contains_key(*it));
    missing.map_or(Ok(()), |missing| Err(say(400, &format!("`{missing}` is missing"))))
}

/// Reads a question and holds it against what the headers say.
fn question(headers: &HeaderMap, body: &[u8]) -> Result<Question, Answer> {
    let question = question::read(text(headers, "content-type"), body).map_err(|why| say(400, &why))?;
    let told = originator(text(headers, ORIGINATOR)).map_err(|why| say(400, &why))?;
    if let (Some((platform, _)), Some(context)) = (&told, &question.platform)
        && platform != context
    {
        return Err(say(400, "the originating identity is of another platform than the context"));
    }
    Ok(question)
}

async fn provision(
    State(broker): State<Broker>,
    Path(instance): Path<String>,
    Query(hints): Hints,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    provisioned(&broker, &instance, &hints, &headers, &body).await.unwrap_or_else(|refusal| refusal)
}

async fn provisioned(
    broker: &Broker,
    instance: &str,
    hints: &HashMap<String, String>,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Answer, Answer> {
    let question = question(headers, body)?;
    if let Some(missing) = question.missing() {
        return Err(say(400, &format!("`{missing}` is missing")));
    }
    let asked = question.asked;
    let offers = broker.offers();
    let is_asked = |offer: &&Offer| offer.service_id == asked.service_id && offer.plan_id == asked.plan_id;
    let Some(offer) = offers.iter().find(is_asked) else {
        return Err(say(400, "there is no such service, or it has no such plan"));
    };
    if question.has_parameters {
        return Err(say(400, "an instance has no parameters"));
    }
    if question.has_maintenance {
        return Err(refuse("MaintenanceInfoConflict", "there is no maintenance of this service"));
    }
    is_async(hints)?;
    // Platforms before 2.15 do not tell what they call an instance; the cluster shows it.
    let known = || name_of(instance, &asked.namespace, &broker.mirror.lock());
    let name = question.name.or_else(known).unwrap_or_else(|| instance.to_owned());
    let mut fresh = decide::fresh(instance, asked, name, offer.source.clone(), offer.title.clone());
    fresh.originator = originator(text(headers, ORIGINATOR)).ok().flatten().map(|(_, user)| user);
    let decide = |known: Option<&Record>| decide::provision(known, fresh.clone(), seconds());
    broker.settle(instance, decide).await.map(tell)
}

async fn update(
    State(broker): State<Broker>,
    Path(instance): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let question = match question(&headers, &body) {
        Ok(question) => question,
        Err(refusal) => return refusal,
    };
    if question.asked.service_id.is_empty() {
        return say(400, "`service_id` is missing");
    }
    if question.has_maintenance {
        return refuse("MaintenanceInfoConflict", "there is no maintenance of this service");
    }
    let plan_id = Some(question.asked.plan_id).filter(|plan| !plan.is_empty());
    let service_id = question.asked.service_id;
    let asked = Update { service_id, plan_id, has_parameters: question.has_parameters };
    let decided = broker.settle(&instance, |known| decide::update(known, &asked)).await;
    match decided {
        // Nothing was tried: the instance is as usable as it was.
        Ok(Decision::Refused(why)) => {
            answer(422, json!({"description": why, "instance_usable": true, "update_repeatable": false}))
        }
        Ok(Decision::Unusable(why)) => {
            answer(422, json!({"description": why, "instance_usable": false, "update_repeatable": false}))
        }
        Ok(Decision::Gone) => say(404, "there is no such instance"),
        Ok(decision) => tell(decision),
        Err(refusal) => refusal,
    }
}

async fn deprovision(
    State(broker): State<Broker>,
    Path(instance): Path<String>,
    Query(hints): Hints,
) -> Answer {
    if let Err(refusal) = names_plan(&hints).and_then(|()| is_async(&hints)) {
        return refusal;
    }
    let decided = broker.settle(&instance, |known| decide::deprovision(known, seconds())).await;
    decided.map_or_else(|refusal| refusal, tell)
}

async fn instance(State(broker): State<Broker>, Path(instance): Path<String>) -> Answer {
    match broker.store.read(&instance).await {
        Ok(Some((record, _))) if record.stage == Stage::Provisioned => answer(
            200,
            json!({"service_id": record.asked.service_id, "plan_id": record.asked.plan_id, "parameters": {}}),
        ),
        Ok(_) => say(404, "there is no such instance, or it is not finished"),
        Err(rejected) => unable(&rejected),
    }
}

async fn last_operation(
    State(broker): State<Broker>,
    Path(instance): Path<String>,
    Query(hints): Hints,
) -> Response {
    let record = match broker.store.read(&instance).await {
        Ok(Some((record, _))) => record,
        Ok(None) => return say(404, "there is no such instance").into_response(),
        Err(rejected) => return unable(&rejected).into_response(),
    };
    let Some(progress) = decide::progress(&record, hints.get("operation").map(String::as_str)) else {
        return answer(410, json!({})).into_response();
    };
    let mut body = json!({"state": progress.state});
    let waits = || explain::of(&record, &broker.mirror.lock()).filter(|_| progress.state == IN_PROGRESS);
    let told = Some(progress.description.clone()).filter(|it| !it.is_empty()).or_else(waits);
    if let Some(description) = told {
        body["description"] = description.into();
    }
    if record.stage == Stage::DeprovisionFailed {
        body["instance_usable"] = false.into();
    }
    let mut response = answer(200, body).into_response();
    if record.stage.is_under_way() {
        response.headers_mut().insert("retry-after", HeaderValue::from_static("1"));
    }
    response
}

/// Why the order of an instance is not finished.
async fn explained(State(broker): State<Broker>, Path(instance): Path<String>) -> Answer {
    match broker.store.read(&instance).await {
        Ok(Some((record, _))) => {
            let why = explain::of(&record, &broker.mirror.lock());
            let (stage, operation) = (record.stage.name(), &record.operation);
            answer(200, json!({"stage": stage, "operation": operation, "since": record.since, "why": why}))
        }
        Ok(None) => say(404, "there is no such instance"),
        Err(rejected) => unable(&rejected),
    }
}

async fn no_bind() -> Answer {
    say(400, "no service here can be bound, as the catalog says")
}

async fn no_binding() -> Answer {
    say(404, "there is no such binding: no service here can be bound")
}

async fn no_unbind(Query(hints): Hints) -> Answer {
    names_plan(&hints).map_or_else(|refusal| refusal, |()| answer(410, json!({})))
}
