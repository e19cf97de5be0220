//! Explanations: who declares an item, the chain of causes to its root, who changed it last, and what would unblock it.

use kilter_api::v1::{self, Author, Problem};
use kilter_cli::wire;
use kilter_scheduler::{Action, Link, TxnType, Why};

use super::{convert, look};
use crate::desk::View;

/// Why an item stands where it stands.
pub(super) fn explain(view: &View<'_>, key: &str) -> Result<v1::Explanation, Problem> {
    let chain = view.scheduler.explain(key);
    let item = view.scheduler.item(key);
    let moment = view.scheduler.history().timeline(key).filter(|moment| look::is_told(moment.step)).last();
    if item.is_none() && moment.is_none() {
        return Err(look::unknown(view, key));
    }
    let base = item.as_ref().and_then(|item| item.base.clone());
    let declarers = view.declarers(base.as_ref().map_or(key, |base| base.as_str()));
    let is_paused = view.ledger.paused.iter().any(|prefix| key.starts_with(prefix.as_str()));
    let (last_error, last_error_txn) = last_error(view, key);
    let record = moment.as_ref().and_then(|moment| view.scheduler.history().get(moment.seq));
    let author = match (&moment, record) {
        (Some(moment), Some(record)) => author(moment.step.action, &record.txn_type),
        _ => Author::Unspecified,
    };
    let last_change = moment
        .zip(record)
        .map(|(moment, record)| convert::moment(&moment, &record.txn_type, &record.description));
    let mut unblock: Vec<String> = chain.links.iter().filter_map(|link| to_do(view, link)).collect();
    if is_paused {
        unblock.push(format!("let it be healed again: kilter resume {key}"));
    }
    if view.ledger.contested.iter().any(|contested| contested.as_str() == key) {
        unblock.push("stop whoever else keeps changing it, then apply it again".to_owned());
    }
    unblock.dedup();
    Ok(v1::Explanation {
        key: key.to_owned(),
        state: wire::state(view.scheduler.status(key).state).into(),
        kind: item.and_then(|item| item.kind).unwrap_or_default(),
        declared_by: convert::declared_by(&declarers),
        links: chain.links.iter().map(|link| self::link(view, link)).collect(),
        last_change,
        author: author.into(),
        last_error,
        last_error_txn,
        unblock,
        paused: is_paused,
    })
}

fn link(view: &View<'_>, link: &Link) -> v1::Link {
    v1::Link {
        depth: u32::try_from(link.depth).unwrap_or(u32::MAX),
        key: link.key.to_string(),
        state: wire::state(link.state).into(),
        why: link.why.to_string(),
        place: convert::place_of(view, link.key.as_str()),
    }
}

/// The last error of an item that is remembered, and the transaction it happened in.
fn last_error(view: &View<'_>, key: &str) -> (String, u64) {
    let failed = view
        .scheduler
        .history()
        .timeline(key)
        .filter_map(|moment| moment.step.error.as_ref().map(|error| (error.to_string(), moment.seq)));
    failed.last().unwrap_or_default()
}

/// Who did something to an item, from what was done in which kind of transaction.
fn author(action: Action, txn_type: &TxnType) -> Author {
    if matches!(action, Action::Miss | Action::Observe | Action::Forget) {
        return Author::Other;
    }
    match txn_type {
        TxnType::Changes { .. } | TxnType::FullResync | TxnType::UpstreamResync => Author::Declared,
        TxnType::DownstreamResync
        | TxnType::Refresh
        | TxnType::Retry { .. }
        | TxnType::LateKind
        | TxnType::Overdue => Author::Healing,
        TxnType::Notification => match action {
            // What somebody else did made it possible or impossible; the operation is ours.
            Action::Create | Action::Update | Action::Delete => Author::Healing,
            Action::Retrieve
            | Action::Hold
            | Action::Observe
            | Action::Forget
            | Action::Adopt
            | Action::Release
            | Action::Refuse
            | Action::Drop
            | Action::Miss
            | Action::Settle => Author::Other,
        },
    }
}

/// What a person can do about the root of a chain; `None` if it is no root.
fn to_do(view: &View<'_>, link: &Link) -> Option<String> {
    let key = &link.key;
    let at = || convert::place_of(view, key.as_str()).map(|place| format!(" at {place}")).unwrap_or_default();
    match &link.why {
        Why::NotDeclared => Some(format!("declare `{key}`, or make it appear")),
        Why::NoKind => Some(format!("correct the key `{key}`: no kind of this agent owns it")),
        Why::Failed { next_attempt: Some(attempt), .. } => {
            Some(format!("wait: attempt {attempt} at `{key}` is planned"))
        }
        Why::Failed { next_attempt: None, .. } => {
            Some(format!("remove the cause of the error of `{key}`, then: kilter resync --scope downstream"))
        }
        Why::Refused(_) => Some(format!("correct the value of `{key}`{}", at())),
        Why::Unconfirmed(_) => Some(format!("wait until the change of `{key}` is seen")),
        Why::Disappeared => Some("make it again: kilter resync --scope downstream".to_owned()),
        Why::Found => Some(format!("declare `{key}` to keep it, or remove it: kilter resync --prune")),
        // An "any of" of which no member is there has no link below it.
        Why::Waits(unmet) => {
            let open: Vec<String> = unmet
                .iter()
                .filter(|one| matches!(one, kilter_scheduler::Unmet::AnyOf { .. }))
                .map(|one| format!("declare {one}, which `{key}` needs"))
                .collect();
            let absent = unmet.iter().filter(|one| matches!(one, kilter_scheduler::Unmet::Absent(_)));
            let absent = absent.map(|one| format!("make sure that there is {one}, for `{key}`"));
            let all: Vec<String> = open.into_iter().chain(absent).collect();
            (!all.is_empty()).then(|| all.join("; "))
        }
        Why::AsDeclared | Why::Seen | Why::HeldBy(_) | Why::Base(_) | Why::Above => None,
    }
}
