//! Looking: lists of items, statuses and sources.

use kilter_api::v1::{self, Problem, Reason};
use kilter_cli::wire;
use kilter_events::Level;
use kilter_model::document::closest;
use kilter_model::{KINDS, export};
use kilter_scheduler::{Item, Key, Status, Step};

use super::change::ended;
use super::{Northbound, confirm, convert, pages};
use crate::desk::{SourceLine, View};
use crate::remote::Remotes;

/// How many items are told in one go, while the loop waits.
pub(super) const FEW: usize = 128;

impl Northbound {
    /// Items that a request is about, by key, page by page if it says so.
    pub(super) async fn items(&self, request: v1::ListItemsRequest) -> Result<v1::ListItemsReply, Problem> {
        let (size, token) = (pages::size(0, request.page_size), request.page_token.clone());
        if size.is_some() || !token.is_empty() {
            let size = size.unwrap_or(usize::MAX);
            let after = Some(token).filter(|token| !token.is_empty());
            let mut items = self.page(request, after, size.saturating_add(1)).await?;
            let next_page_token = pages::cut(&mut items, size, |item| &item.key).unwrap_or_default();
            return Ok(v1::ListItemsReply { items, next_page_token });
        }
        let swept = self.desk.sweep(move |view, key| {
            let item = view.scheduler.item(key.as_str()).filter(|item| is_wanted(item, &request))?;
            let item = convert::item(view, &item);
            let is_of_source = |by: &v1::DeclaredBy| by.source == request.source;
            (request.source.is_empty() || item.declared_by.iter().any(is_of_source)).then_some(item)
        });
        let swept = swept.await.map_err(|gone| ended(&gone))?;
        let items = swept.found.into_values().collect();
        Ok(v1::ListItemsReply { items, next_page_token: String::new() })
    }

    /// So many items that a request is about, from the one after a key on.
    pub(super) async fn page(
        &self,
        request: v1::ListItemsRequest,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<v1::Item>, Problem> {
        let asked = request.clone();
        let keys = self.desk.sweep(move |view, key| {
            let is_later = after.as_deref().is_none_or(|after| key.as_str() > after);
            let item = view.scheduler.item(key.as_str()).filter(|_| is_later)?;
            is_wanted(&item, &asked).then_some(())
        });
        let keys: Vec<Key> = keys.await.map_err(|gone| ended(&gone))?.found.into_keys().collect();
        let mut items = Vec::new();
        for some in keys.chunks(FEW) {
            let (some, source) = (some.to_vec(), request.source.clone());
            let found = self.desk.inquire(move |view| {
                let found = some.iter().filter_map(|key| view.scheduler.item(key.as_str()));
                let found = found.map(|item| convert::item(view, &item));
                let is_of_source = |item: &v1::Item| {
                    source.is_empty() || item.declared_by.iter().any(|by| by.source == source)
                };
                found.filter(is_of_source).collect::<Vec<_>>()
            });
            items.extend(found.await.map_err(|gone| ended(&gone))?);
            if items.len() >= limit {
                break;
            }
        }
        items.truncate(limit);
        Ok(items)
    }

    /// Statuses that a request is about: one item, or all whose keys begin so, page by page if it says so.
    pub(super) async fn statuses(
        &self,
        request: v1::ListStatusesRequest,
    ) -> Result<v1::ListStatusesReply, Problem> {
        let key = request.prefix.clone();
        let one = self.desk.inquire(move |view| {
            view.scheduler.item(&key).map(|_| convert::status(view, &view.scheduler.status(&key)))
        });
        if let Some(status) = one.await.map_err(|gone| ended(&gone))? {
            return Ok(v1::ListStatusesReply { statuses: vec![status], next_page_token: String::new() });
        }
        let v1::ListStatusesRequest { prefix, observed, page_size, page_token } = request;
        let begins = prefix.clone();
        let swept = self.desk.sweep(move |view, key| {
            let is_meant =
                key.as_str().starts_with(&begins) && view.scheduler.base_of(key.as_str()).is_none();
            is_meant.then(|| convert::status(view, &view.scheduler.status(key.as_str())))
        });
        let found = swept.await.map_err(|gone| ended(&gone))?.found;
        if found.is_empty() && !prefix.is_empty() {
            return Err(self.unknown(&prefix).await);
        }
        let is_meant = |status: &v1::Status| (observed || status.declared) && status.key > page_token;
        let mut statuses: Vec<_> = found.into_values().filter(is_meant).collect();
        let size = pages::size(0, page_size).unwrap_or(usize::MAX);
        let next_page_token = pages::cut(&mut statuses, size, |status| &status.key).unwrap_or_default();
        Ok(v1::ListStatusesReply { statuses, next_page_token })
    }

    /// The declared items that are not where they should be.
    pub(super) async fn unsettled(&self) -> Result<Vec<v1::Status>, Problem> {
        let is_off = |status: &v1::Status| status.state() != v1::State::Configured;
        let swept = self.desk.sweep(move |view, key| {
            view.scheduler.base_of(key.as_str()).is_none().then_some(())?;
            let status = convert::status(view, &view.scheduler.status(key.as_str()));
            (status.declared && (is_off(&status) || status.derived.iter().any(is_off))).then_some(status)
        });
        Ok(swept.await.map_err(|gone| ended(&gone))?.found.into_values().collect())
    }

    /// There is no such item; perhaps another one was meant.
    pub(super) async fn unknown(&self, key: &str) -> Problem {
        let problem = Problem::new(Reason::Unknown, format!("there is no item `{key}`"));
        let keys = self.desk.sweep(|_, _| Some(())).await.map(|swept| swept.found).unwrap_or_default();
        match closest(key, keys.keys().map(|key| key.as_str())) {
            Some(meant) => problem.with_hint(format!("did you mean `{meant}`?")).about([meant.to_owned()]),
            None => problem.with_hint("`kilter get items` lists what there is"),
        }
    }

    /// The items as a document.
    pub(super) async fn document(&self, request: v1::ExportRequest) -> Result<v1::ExportReply, Problem> {
        let swept = self.desk.sweep(move |view, key| {
            let item =
                view.scheduler.item(key.as_str()).filter(|_| key.as_str().starts_with(&request.prefix))?;
            if request.declared { item.declared } else { item.actual }
        });
        let found = swept.await.map_err(|gone| ended(&gone))?.found;
        Ok(v1::ExportReply { document: export::export(&found) })
    }
}

fn is_wanted(item: &Item, request: &v1::ListItemsRequest) -> bool {
    let state = v1::State::try_from(request.state).unwrap_or_default();
    item.key.as_str().starts_with(&request.prefix)
        && (request.kind.is_empty() || item.kind.as_deref() == Some(request.kind.as_str()))
        && (state == v1::State::Unspecified || wire::state(item.state) == state)
        && (request.derived || item.base.is_none())
        && (request.observed || item.declared.is_some())
}

/// Whether a status is one that a watcher of declared items wants: it is gone, or somebody declares it.
pub(super) fn changed(view: &View<'_>, statuses: &[Status], prefix: &str) -> Vec<v1::Status> {
    let concerned = statuses.iter().filter(|status| status.key.as_str().starts_with(prefix));
    concerned.map(|status| convert::status(view, status)).collect()
}

/// Whether a step says something about its item: it is more than a note that all is as it was.
pub(super) fn is_told(step: &Step) -> bool {
    !step.is_quiet() || step.before.state != step.after.state
}

/// Who declares, in order.
pub(super) fn sources(view: &View<'_>) -> v1::ListSourcesReply {
    let place = |line: &SourceLine| match (&line.path, line.is_directory) {
        (Some(path), _) => path.display().to_string(),
        // A directory that is read once and not followed.
        (None, true) => line.name.to_string(),
        (None, false) => String::new(),
    };
    let sources = view.sources().into_iter().map(|line| v1::SourceSummary {
        name: line.name.to_string(),
        items: line.items as u64,
        unheard: line.unheard.len() as u64,
        directory: place(&line),
    });
    v1::ListSourcesReply { sources: sources.collect() }
}

/// What may be declared.
pub(super) fn kinds(remotes: &Remotes) -> v1::ListKindsReply {
    let kinds = KINDS.iter().map(|kind| v1::Kind {
        word: kind.word.to_owned(),
        about: kind.about.to_owned(),
        schema: kind.schema().to_string(),
    });
    let remote = remotes.descriptions().into_iter().map(|kind| v1::Kind {
        word: kind.kind.to_string(),
        about: kind.about,
        schema: kind.schema.unwrap_or(serde_json::Value::Bool(true)).to_string(),
    });
    v1::ListKindsReply { kinds: kinds.chain(remote).collect() }
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
