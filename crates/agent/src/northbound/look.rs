//! Looking: lists of items, statuses and sources.

use kilter_api::v1::{self, Problem, Reason};
use kilter_cli::wire;
use kilter_events::Level;
use kilter_model::document::closest;
use kilter_model::{KINDS, export};
use kilter_scheduler::{Item, Status, Step};

use super::{confirm, convert};
use crate::desk::View;

/// Items that a request is about, by key.
pub(super) fn items(view: &View<'_>, request: &v1::ListItemsRequest) -> v1::ListItemsReply {
    let is_wanted = |item: &Item| {
        let declared = item.declared.is_some();
        let state = v1::State::try_from(request.state).unwrap_or_default();
        item.key.as_str().starts_with(&request.prefix)
            && (request.kind.is_empty() || item.kind.as_deref() == Some(request.kind.as_str()))
            && (state == v1::State::Unspecified || wire::state(item.state) == state)
            && (request.derived || item.base.is_none())
            && (request.observed || declared)
    };
    let is_of_source = |item: &v1::Item| {
        request.source.is_empty() || item.declared_by.iter().any(|by| by.source == request.source)
    };
    let items = view.scheduler.items();
    let items = items.iter().filter(|item| is_wanted(item)).map(|item| convert::item(view, item));
    v1::ListItemsReply { items: items.filter(is_of_source).collect() }
}

/// Statuses that a request is about: one item, or all whose keys begin so.
pub(super) fn statuses(
    view: &View<'_>,
    request: &v1::ListStatusesRequest,
) -> Result<v1::ListStatusesReply, Problem> {
    if view.scheduler.item(&request.prefix).is_some() {
        let status = convert::status(view, &view.scheduler.status(&request.prefix));
        return Ok(v1::ListStatusesReply { statuses: vec![status] });
    }
    let found = view.scheduler.statuses(&request.prefix);
    if found.is_empty() && !request.prefix.is_empty() {
        return Err(unknown(view, &request.prefix));
    }
    let statuses = found.iter().map(|status| convert::status(view, status));
    let statuses = statuses.filter(|status| request.observed || status.declared);
    Ok(v1::ListStatusesReply { statuses: statuses.collect() })
}

/// Whether a status is one that a watcher of declared items wants: it is gone, or somebody declares it.
pub(super) fn changed(view: &View<'_>, statuses: &[Status], prefix: &str) -> Vec<v1::Status> {
    let concerned = statuses.iter().filter(|status| status.key.as_str().starts_with(prefix));
    concerned.map(|status| convert::status(view, status)).collect()
}

/// The declared items that are not where they should be.
pub(super) fn unsettled(view: &View<'_>) -> Vec<v1::Status> {
    let statuses = view.scheduler.statuses("");
    let statuses = statuses.iter().map(|status| convert::status(view, status));
    let is_unsettled = |status: &v1::Status| {
        let is_off = |status: &v1::Status| status.state() != v1::State::Configured;
        status.declared && (is_off(status) || status.derived.iter().any(is_off))
    };
    statuses.filter(is_unsettled).collect()
}

/// There is no such item; perhaps another one was meant.
pub(super) fn unknown(view: &View<'_>, key: &str) -> Problem {
    let problem = Problem::new(Reason::Unknown, format!("there is no item `{key}`"));
    let items = view.scheduler.items();
    match closest(key, items.iter().map(|item| item.key.as_str())) {
        Some(meant) => problem.with_hint(format!("did you mean `{meant}`?")).about([meant.to_owned()]),
        None => problem.with_hint("`kilter get items` lists what there is"),
    }
}

/// Whether a step says something about its item: it is more than a note that all is as it was.
pub(super) fn is_told(step: &Step) -> bool {
    !step.is_quiet() || step.before.state != step.after.state
}

/// Who declares, in order.
pub(super) fn sources(view: &View<'_>) -> v1::ListSourcesReply {
    let sources = view.sources().into_iter().map(|line| v1::SourceSummary {
        name: line.name.to_string(),
        items: line.items as u64,
        unheard: line.unheard.len() as u64,
        directory: if line.is_directory { line.name.to_string() } else { String::new() },
    });
    v1::ListSourcesReply { sources: sources.collect() }
}

/// What may be declared.
pub(super) fn kinds() -> v1::ListKindsReply {
    let kinds = KINDS.iter().map(|kind| v1::Kind {
        word: kind.word.to_owned(),
        about: kind.about.to_owned(),
        schema: kind.schema().to_string(),
    });
    v1::ListKindsReply { kinds: kinds.collect() }
}

/// The items as a document.
pub(super) fn export(view: &View<'_>, request: &v1::ExportRequest) -> v1::ExportReply {
    let items = view.scheduler.items();
    let concerned = items.iter().filter(|item| item.key.as_str().starts_with(&request.prefix));
    let values = concerned.filter_map(|item| {
        let value = if request.declared { &item.declared } else { &item.actual };
        value.as_ref().map(|value| (&item.key, value))
    });
    v1::ExportReply { document: export::export(values) }
}

/// How the agent is, as far as the loop knows.
pub(super) fn health(view: &View<'_>) -> v1::Health {
    let health = view.events.health();
    let troubles = health.components().filter(|(_, standing)| standing.level > Level::Fine);
    let troubles = troubles.map(|(name, standing)| format!("{name}: {}", standing.reason));
    let contested = view
        .ledger
        .contested
        .iter()
        .map(|key| format!("another writer keeps changing `{key}`, it is left alone"));
    let unkept = view.ledger.unkept.iter().map(|why| format!("what was done could not be kept: {why}"));
    v1::Health {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ready: view.events.has_started(),
        txn: view.scheduler.history().newest(),
        vertices: view.scheduler.vertex_count() as u64,
        troubles: troubles.chain(contested).chain(unkept).collect(),
        paused: view.ledger.paused.clone(),
        confirmation: view.ledger.confirmation.as_ref().map(confirm::confirmation),
        ..v1::Health::default()
    }
}
