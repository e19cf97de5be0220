//! Earlier moments: what differs between two of them, and what has to be declared to go back to one.
//!
//! Decided here: going back declares again what was declared then. It is one declaration of one source; a moment that
//! would need several is refused with their names.

use std::collections::{BTreeMap, BTreeSet};

use kilter_api::v1::{self, Problem, Reason};
use kilter_cli::wire;
use kilter_events::Extent;
use kilter_scheduler::{Key, Past, State, ValueRef};

use crate::desk::{Declaration, Put, View};

/// The name of the source that declares again what nobody declares any more.
const NOBODY: &str = "cli";

/// The items after a transaction.
pub(super) fn items_at(view: &View<'_>, seq: u64) -> Result<BTreeMap<Key, Past>, Problem> {
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

/// What differs between two moments.
pub(super) fn diff(view: &View<'_>, request: &v1::DiffRequest) -> Result<v1::DiffReply, Problem> {
    let to = request.to.unwrap_or_else(|| view.scheduler.history().newest());
    let (before, after) = (items_at(view, request.from)?, items_at(view, to)?);
    let keys: BTreeSet<&Key> = before.keys().chain(after.keys()).collect();
    let side = |past: &Past| v1::Side {
        state: wire::state(past.state).into(),
        value: wire::value(past.value.as_ref()),
    };
    let differences = keys.into_iter().filter(|key| key.as_str().starts_with(&request.prefix));
    let differences = differences.filter(|key| before.get(*key) != after.get(*key));
    let differences = differences.map(|key| v1::Difference {
        key: key.to_string(),
        before: before.get(key).map(side),
        after: after.get(key).map(side),
    });
    Ok(v1::DiffReply { differences: differences.collect() })
}

/// The declaration that goes back to the state after a transaction.
pub(super) fn revert(view: &View<'_>, seq: u64) -> Result<Declaration, Problem> {
    let then = declared(items_at(view, seq)?);
    let now: BTreeMap<Key, ValueRef> = view.scheduler.declared().into_iter().collect();
    let mut sources: BTreeSet<String> = BTreeSet::new();
    let (mut puts, mut removes) = (Vec::new(), Vec::new());
    for key in then.keys().chain(now.keys()).collect::<BTreeSet<_>>() {
        if then.get(key) == now.get(key) {
            continue;
        }
        sources.extend(view.declarers(key.as_str()).first().map(|by| by.source.to_string()));
        match then.get(key) {
            Some(value) => puts.push(Put { key: key.clone(), value: value.clone(), place: None }),
            None => removes.push(key.clone()),
        }
    }
    let mut names = sources.into_iter();
    let source = names.next().unwrap_or_else(|| NOBODY.to_owned());
    let others: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if !others.is_empty() {
        let message = format!(
            "going back to txn #{seq} changes items of several sources: `{source}`, {}",
            others.join(", ")
        );
        let hint = "`kilter diff --from N` shows what changed; apply each source's documents of that time";
        return Err(Problem::new(Reason::Refused, message).with_hint(hint));
    }
    Ok(Declaration { source, puts, removes, extent: Extent::Patch })
}

/// What was declared among the items of a moment: what is derived or only seen is not.
fn declared(items: BTreeMap<Key, Past>) -> BTreeMap<Key, ValueRef> {
    let items = items.into_iter().filter(|(_, past)| {
        past.base.is_none() && !matches!(past.state, State::Obtained | State::Discovered)
    });
    items.filter_map(|(key, past)| Some((key, past.value?))).collect()
}
