//! Explanations: who declares an item, the chain of causes to its root, who changed it last, and what would unblock it.
//!
//! Decided here: who changed an item last, and its last error, are looked up in the state directory where memory does not
//! reach: an agent that begins only takes over what it finds.

use kilter_api::v1::{self, Author, Problem};
use kilter_cli::wire;
use kilter_scheduler::{Action, Link, Moment, Record, TxnType, Why};

use super::change::ended;
use super::{Northbound, convert, history, look};
use crate::desk::View;
use crate::keep::PastTxn;

/// How many transactions of an item are read at most to find out who changed it last, and its last error.
const PAST: usize = 256;

/// What memory knows about an item.
struct Known {
    explanation: v1::Explanation,
    /// Whether the item is there, or was in this run.
    is_known: bool,
    /// Whether somebody changed it in this run; taking it over is no change.
    is_changed: bool,
}

impl Northbound {
    /// Why an item stands where it stands; `None` if nobody has ever heard of it.
    pub(super) async fn explained(&self, key: String) -> Result<Option<v1::Explanation>, Problem> {
        let asked = key.clone();
        let known = self.desk.inquire(move |view| explain(view, &asked)).await;
        let Known { mut explanation, is_known, is_changed } = known.map_err(|gone| ended(&gone))?;
        if is_changed && !explanation.last_error.is_empty() {
            return Ok(Some(explanation));
        }
        let past = self.desk.past(move |past| Ok(remembered(&past.timeline(&key, PAST)?, &key))).await;
        let past = past.map_err(|error| history::problem(&error))?.unwrap_or_default();
        let is_remembered = past.last_change.is_some();
        if !is_changed && is_remembered {
            (explanation.last_change, explanation.author) = (past.last_change, past.author.into());
        }
        if explanation.last_error.is_empty() {
            (explanation.last_error, explanation.last_error_txn) = past.last_error;
        }
        Ok((is_known || is_remembered).then_some(explanation))
    }
}

/// What the state directory remembers of an item.
#[derive(Default)]
struct Remembered {
    last_change: Option<v1::Moment>,
    author: Author,
    last_error: (String, u64),
}

/// Looks through the transactions of an item, the newest first.
fn remembered(txns: &[PastTxn], key: &str) -> Remembered {
    let mut found = Remembered::default();
    for record in txns.iter().map(|txn| &txn.record) {
        let steps = record.changes().filter(|step| step.key.as_str() == key);
        for step in steps.rev() {
            if found.last_change.is_none() && look::is_told(step) && is_change(step.action) {
                let moment = Moment { seq: record.seq, at: record.start, step };
                (found.last_change, found.author) = told(&moment, record);
            }
            if let (Some(error), true) = (&step.error, found.last_error.0.is_empty()) {
                found.last_error = (error.to_string(), record.seq);
            }
        }
    }
    found
}

/// Whether something is done to an item; reading it, or taking it over, leaves it as it was.
fn is_change(action: Action) -> bool {
    !matches!(action, Action::Adopt | Action::Retrieve)
}

/// What was done to an item, and who did it.
fn told(moment: &Moment<'_>, record: &Record) -> (Option<v1::Moment>, Author) {
    let author = author(moment.step.action, &record.txn_type);
    (Some(convert::moment(moment, &record.txn_type, &record.description)), author)
}

/// Why an item stands where it stands, as far as memory reaches.
fn explain(view: &View<'_>, key: &str) -> Known {
    let chain = view.scheduler.explain(key);
    let item = view.scheduler.item(key);
    let timeline = || view.scheduler.history().timeline(key).filter(|moment| look::is_told(moment.step));
    let change = timeline().filter(|moment| is_change(moment.step.action)).last();
    let is_changed = change.is_some();
    let moment = change.or_else(|| timeline().last());
    let is_known = item.is_some() || moment.is_some();
    let base = item.as_ref().and_then(|item| item.base.clone());
    let declarers = view.declarers(base.as_ref().map_or(key, |base| base.as_str()));
    let paused: Vec<&String> =
        view.ledger.paused.iter().filter(|prefix| key.starts_with(prefix.as_str())).collect();
    let (last_error, last_error_txn) = last_error(view, key);
    let record = moment.as_ref().and_then(|moment| view.scheduler.history().get(moment.seq));
    let (last_change, author) =
        moment.zip(record).map(|(moment, record)| told(&moment, record)).unwrap_or_default();
    let mut unblock: Vec<String> = chain.links.iter().filter_map(|link| to_do(view, link)).collect();
    // What was paused is what has to be resumed.
    unblock.extend(paused.iter().map(|prefix| format!("let it be healed again: kilter resume {prefix}")));
    if view.ledger.contested.iter().any(|contested| contested.as_str() == key) {
        unblock.push("stop whoever else keeps changing it, then apply it again".to_owned());
    }
    unblock.dedup();
    let explanation = v1::Explanation {
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
        paused: !paused.is_empty(),
    };
    Known { explanation, is_known, is_changed }
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
        Why::NotReached => Some(format!("wait until the transaction under way is done with `{key}`")),
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
