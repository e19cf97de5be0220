//! Earlier moments: what differs between two of them, and what has to be declared to go back to one.
//!
//! Decided here: going back lets every source declare what it declared then, all in one transaction. What a directory
//! declares is up to its files: going back does not change it, and is refused where it would have to. An agent that keeps
//! nothing knows only its own run, and who declares an item in the present.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kilter_api::v1::{self, Problem, Reason};
use kilter_cli::wire;
use kilter_events::Extent;
use kilter_scheduler::{Key, Past, Seq, State, ValueRef};

use super::change::ended;
use super::{Northbound, history};
use crate::desk::{Declaration, Mark, Put, View};
use crate::keep::AsOf;

/// How long a transaction that is under way is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// The name of the source that declares again what nobody declares any more.
const NOBODY: &str = "cli";

/// The items after a transaction of this run, as far as memory reaches.
fn items_in_memory(view: &View<'_>, seq: Seq) -> Result<BTreeMap<Key, Past>, Problem> {
    let history = view.scheduler.history();
    view.scheduler.items_at(seq).ok_or_else(|| match history.reaches_back_to(seq) {
        true => Problem::new(Reason::Unavailable, "a transaction is under way").with_hint("try again"),
        false => {
            let (first, last) = (history.complete_since().saturating_sub(1), history.newest());
            let message = format!("the state after txn #{seq} is not remembered");
            Problem::new(Reason::Unknown, message).with_hint(format!("that after #{first} to #{last} is"))
        }
    })
}

/// What each source declares, and which of them are directories.
struct Present {
    sources: AsOf,
    directories: Vec<String>,
}

impl Northbound {
    /// Looks at a moment that cannot be told while a transaction is under way, which is waited for.
    async fn when_idle<T: Send + 'static>(
        &self,
        look: impl Fn(&View<'_>) -> Result<T, Problem> + Clone + Send + 'static,
    ) -> Result<T, Problem> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let mut newest = self.desk.newest();
            newest.mark_unchanged();
            let looked = self.desk.inquire(look.clone()).await.map_err(|gone| ended(&gone))?;
            let is_under_way = looked.as_ref().is_err_and(|problem| problem.reason() == Reason::Unavailable);
            if !is_under_way || tokio::time::timeout_at(deadline, newest.changed()).await.is_err() {
                return looked;
            }
        }
    }

    /// The items after a transaction: out of memory if it reaches that far, or else out of the state directory.
    pub(super) async fn items_at(&self, seq: Seq) -> Result<BTreeMap<Key, Past>, Problem> {
        let look = move |view: &View<'_>| {
            let is_older = view.keep.is_some_and(|keep| {
                seq < keep.since() || seq.saturating_add(1) < view.scheduler.history().complete_since()
            });
            if is_older { Ok(None) } else { items_in_memory(view, seq).map(Some) }
        };
        if let Some(items) = self.when_idle(look).await? {
            return Ok(items);
        }
        let items = self.desk.past(move |past| past.items_at(seq)).await;
        Ok(items.map_err(|error| history::problem(&error))?.unwrap_or_default())
    }

    /// What differs between two moments.
    pub(super) async fn differences(&self, request: v1::DiffRequest) -> Result<v1::DiffReply, Problem> {
        let newest = self.desk.inquire(|view| view.scheduler.history().newest()).await;
        let to = request.to.unwrap_or(newest.map_err(|gone| ended(&gone))?);
        let (before, after) = (self.items_at(request.from).await?, self.items_at(to).await?);
        let keys: BTreeSet<&Key> = before.keys().chain(after.keys()).collect();
        let side = |past: &Past| v1::Side {
            state: wire::state(past.state).into(),
            value: wire::value(past.value.as_ref()),
        };
        // One may come out of memory and the other from disk: only as they are told can they be compared.
        let differences = keys.into_iter().filter(|key| key.as_str().starts_with(&request.prefix));
        let differences = differences.map(|key| v1::Difference {
            key: key.to_string(),
            before: before.get(key).map(side),
            after: after.get(key).map(side),
        });
        let differences = differences.filter(|difference| difference.before != difference.after);
        Ok(v1::DiffReply { differences: differences.collect() })
    }

    /// What every source has to declare to go back to what was declared after a transaction.
    pub(super) async fn revert(&self, seq: Seq) -> Result<Vec<Declaration>, Problem> {
        let then = self.desk.past(move |past| past.declared_as_of(seq)).await;
        let Some(then) = then.map_err(|error| history::problem(&error))? else {
            return self.when_idle(move |view| from_items(view, seq)).await;
        };
        let look = |view: &View<'_>| Present {
            sources: view.ledger.sources().map(|(name, items)| (name.to_owned(), items.clone())).collect(),
            directories: view.ledger.directories.clone(),
        };
        let present = self.desk.inquire(look).await.map_err(|gone| ended(&gone))?;
        let declarations = between(&present.sources, then);
        let changed = declarations.iter().map(|declaration| &declaration.source);
        let files: Vec<String> = changed
            .filter(|source| present.directories.contains(source))
            .map(|source| format!("`{source}`"))
            .collect();
        if !files.is_empty() {
            let message = format!("going back to txn #{seq} changes what {} declares", files.join(", "));
            let hint =
                format!("it is a directory: change its files; `kilter diff --from {seq}` shows what changed");
            return Err(Problem::new(Reason::Refused, message).with_hint(hint));
        }
        Ok(declarations)
    }
}

/// What sources have to say so that they declare what they did, the places of the declarations apart.
fn between(now: &AsOf, then: AsOf) -> Vec<Declaration> {
    let leave = now.iter().filter(|(name, items)| !then.contains_key(*name) && !items.is_empty());
    let mut declarations: Vec<Declaration> =
        leave.map(|(name, _)| Declaration::leave(name.as_str())).collect();
    for (name, items) in then {
        let values = |items: &BTreeMap<Key, Mark>| -> Vec<(Key, ValueRef)> {
            items.iter().map(|(key, mark)| (key.clone(), mark.value.clone())).collect()
        };
        if now.get(&name).is_some_and(|known| values(known) == values(&items)) {
            continue;
        }
        let puts = items.into_iter().map(|(key, Mark { value, place, .. })| Put { key, value, place });
        declarations.push(Declaration::everything(name, puts.collect()));
    }
    declarations
}

/// What has to be declared to go back, from what the items were: whoever is heard with an item declares it.
fn from_items(view: &View<'_>, seq: Seq) -> Result<Vec<Declaration>, Problem> {
    let then = declared(items_in_memory(view, seq)?);
    let now: BTreeMap<Key, ValueRef> = view.scheduler.declared().into_iter().collect();
    let mut sources: BTreeMap<String, Declaration> = BTreeMap::new();
    for key in then.keys().chain(now.keys()).collect::<BTreeSet<_>>() {
        if then.get(key) == now.get(key) {
            continue;
        }
        let heard = view.declarers(key.as_str()).into_iter().next();
        let source = heard.map_or_else(|| NOBODY.to_owned(), |by| by.source.to_string());
        let entry = sources.entry(source.clone());
        let declaration = entry.or_insert_with(|| Declaration {
            source,
            puts: Vec::new(),
            removes: Vec::new(),
            extent: Extent::Patch,
        });
        match then.get(key) {
            Some(value) => {
                declaration.puts.push(Put { key: key.clone(), value: value.clone(), place: None });
            }
            None => declaration.removes.push(key.clone()),
        }
    }
    Ok(sources.into_values().collect())
}

/// What was declared among the items of a moment: what is derived or only seen is not.
fn declared(items: BTreeMap<Key, Past>) -> BTreeMap<Key, ValueRef> {
    let items = items.into_iter().filter(|(_, past)| {
        past.base.is_none() && !matches!(past.state, State::Obtained | State::Discovered)
    });
    items.filter_map(|(key, past)| Some((key, past.value?))).collect()
}
