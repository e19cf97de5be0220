//! Internal records as wire types, in one place; steps and plans are in [`kilter_cli::wire`].

use kilter_api::v1;
use kilter_cli::wire;
use kilter_events::{Conflict, Method, Scope, UpdateMode};
use kilter_model::document::Place;
use kilter_scheduler::{Cause, Executed, Item, Moment, Outcome, Record, State, Status, TxnType};

use crate::desk::{ApplyError, Declarer, Planned, View};
use crate::keep::PastEvent;

/// Where something stands in a file.
pub(super) fn place(place: &Place) -> v1::Place {
    v1::Place { file: place.file.to_string(), line: place.line, column: place.column }
}

/// Where an item is declared by the source that is heard; a derived one where its base is.
pub(super) fn place_of(view: &View<'_>, key: &str) -> Option<v1::Place> {
    let base = view.scheduler.item(key).and_then(|item| item.base);
    let key = base.as_ref().map_or(key, |base| base.as_str());
    let heard = view.declarers(key).into_iter().next()?;
    heard.mark?.place.as_ref().map(place)
}

/// Who declares an item.
pub(super) fn declared_by(declarers: &[Declarer]) -> Vec<v1::DeclaredBy> {
    let wire = |declarer: &Declarer| {
        let mark = declarer.mark.as_ref();
        v1::DeclaredBy {
            source: declarer.source.to_string(),
            place: mark.and_then(|mark| mark.place.as_ref()).map(place),
            txn: mark.and_then(|mark| mark.txn).unwrap_or_default(),
            heard: declarer.is_heard,
        }
    };
    declarers.iter().map(wire).collect()
}

/// One item.
pub(super) fn item(view: &View<'_>, item: &Item) -> v1::Item {
    v1::Item {
        key: item.key.to_string(),
        kind: item.kind.clone().unwrap_or_default(),
        state: wire::state(item.state).into(),
        base: item.base.as_ref().map(ToString::to_string).unwrap_or_default(),
        declared: wire::value(item.declared.as_ref()),
        actual: wire::value(item.actual.as_ref()),
        observed: item.declared.is_none(),
        needs: wire::unmet(&item.needs),
        unmet: wire::unmet(&item.unmet),
        held_by: item.held_by.iter().map(ToString::to_string).collect(),
        error: item.error.as_deref().unwrap_or_default().to_owned(),
        declared_by: declared_by(&view.declarers(item.key.as_str())),
    }
}

/// A status with why it is not where it should be, and those of its derived items.
pub(super) fn status(view: &View<'_>, status: &Status) -> v1::Status {
    v1::Status {
        key: status.key.to_string(),
        state: wire::state(status.state).into(),
        exists: status.exists,
        last: status.last.map(|last| last.name().to_owned()).unwrap_or_default(),
        error: status.error.as_deref().unwrap_or_default().to_owned(),
        fields: status
            .fields
            .iter()
            .map(|field| v1::FieldError { path: field.path.clone(), message: field.message.clone() })
            .collect(),
        unmet: wire::unmet(&status.unmet),
        held_by: status.held_by.iter().map(ToString::to_string).collect(),
        changed_by: status.changed_by.unwrap_or_default(),
        derived: status.derived.iter().map(|derived| self::status(view, derived)).collect(),
        why: why(view, status),
        declared: view.scheduler.item(status.key.as_str()).is_some_and(|item| item.declared.is_some()),
    }
}

/// Why an item is not where it should be, with the place of its declaration; empty if it is.
fn why(view: &View<'_>, status: &Status) -> String {
    match status.state {
        State::Configured | State::Obtained | State::Removed | State::Nonexistent => return String::new(),
        State::Missing
        | State::Unimplemented
        | State::Discovered
        | State::Pending
        | State::Invalid
        | State::Failed
        | State::Retrying
        | State::Applying
        | State::Removing => {}
    }
    let explanation = view.scheduler.explain(status.key.as_str());
    let why = explanation.links.first().map(|link| link.why.to_string()).unwrap_or_default();
    match place_of(view, status.key.as_str()) {
        Some(place) => format!("{why} ({place})"),
        None => why,
    }
}

/// What is planned, with who contradicts whom.
pub(super) fn planned(planned: &Planned, after_txn: u64) -> v1::Plan {
    let mut plan = wire::plan(&planned.plan, after_txn);
    plan.conflicts = conflicts(&planned.conflicts);
    let digest = |(key, digest): (kilter_scheduler::Key, String)| v1::Digest { key: key.to_string(), digest };
    plan.digests = planned.expected().digests.into_iter().map(digest).collect();
    plan
}

/// Contradictions, one for each item and unheard source.
pub(super) fn conflicts(list: &[Conflict]) -> Vec<v1::Conflict> {
    let mut conflicts: Vec<v1::Conflict> = Vec::new();
    for conflict in list {
        let (key, unheard) = (conflict.key.to_string(), conflict.unheard.to_string());
        match conflicts.iter_mut().find(|known| known.key == key && known.unheard == unheard) {
            Some(known) => known.fields.push(conflict.field.clone()),
            None => conflicts.push(v1::Conflict {
                key,
                heard: conflict.heard.to_string(),
                unheard,
                place: None,
                fields: vec![conflict.field.clone()],
            }),
        }
    }
    conflicts
}

fn cause(cause: &Cause) -> v1::Cause {
    v1::Cause { key: cause.key.to_string(), error: cause.error.to_string() }
}

/// One transaction, on one line of a list.
pub(super) fn summary(record: &Record) -> v1::TransactionSummary {
    let (outcome, first, revert) = match &record.outcome {
        Outcome::Applied => (v1::Outcome::Applied, None, None),
        Outcome::AppliedWithPending => (v1::Outcome::Pending, None, None),
        Outcome::Incomplete(first) => (v1::Outcome::Incomplete, Some(first), None),
        Outcome::Reverted(first) => (v1::Outcome::Reverted, Some(first), None),
        Outcome::RevertFailed { cause, revert } => (v1::Outcome::RevertFailed, Some(cause), Some(revert)),
    };
    let operations = record.steps().iter().filter(|step| is_operation(step)).count();
    v1::TransactionSummary {
        seq: record.seq,
        txn_type: record.txn_type.to_string(),
        description: record.description.clone(),
        start: Some(wire::moment(record.start)),
        stop: Some(wire::moment(record.stop)),
        outcome: outcome.into(),
        cause: first.map(cause),
        revert_cause: revert.map(cause),
        operations: operations as u64,
        failures: record.failures.len() as u64,
    }
}

/// Whether a step changes the world.
fn is_operation(step: &kilter_scheduler::Step) -> bool {
    use kilter_scheduler::Action;
    !step.marks.property && matches!(step.action, Action::Create | Action::Update | Action::Delete)
}

/// One transaction with its plan and what was carried out.
pub(super) fn transaction(record: &Record) -> v1::Transaction {
    let (as_planned, executed) = match &record.executed {
        Executed::AsPlanned => (true, Vec::new()),
        Executed::Steps(steps) => (false, wire::steps(steps)),
    };
    v1::Transaction {
        summary: Some(summary(record)),
        planned: wire::steps(record.planned.as_deref().unwrap_or_default()),
        as_planned,
        executed,
        failures: record.failures.iter().map(cause).collect(),
        ignored: record.ignored.iter().map(ToString::to_string).collect(),
    }
}

/// One change of one item, with the transaction it belongs to.
pub(super) fn moment(moment: &Moment<'_>, txn_type: &TxnType, description: &str) -> v1::Moment {
    let step = moment.step;
    v1::Moment {
        txn: moment.seq,
        at: Some(wire::moment(moment.at)),
        action: step.action.name().to_owned(),
        before: wire::state(step.before.state).into(),
        state: wire::state(step.after.state).into(),
        value: wire::value(step.after.value.as_ref()),
        error: step.error.as_deref().unwrap_or_default().to_owned(),
        txn_type: txn_type.to_string(),
        description: description.to_owned(),
    }
}

/// One event.
pub(super) fn event(record: &PastEvent) -> v1::Event {
    let handlers = record.handlers.iter().map(|one| v1::HandlerRecord {
        handler: one.handler.to_string(),
        revert: one.revert,
        change: one.change.clone(),
        error: one.error.as_deref().unwrap_or_default().to_owned(),
    });
    v1::Event {
        seq: record.seq,
        start: Some(wire::moment(record.start)),
        stop: Some(wire::moment(record.stop)),
        follow_up_to: record.follow_up_to,
        name: record.name.to_string(),
        description: record.description.to_string(),
        method: method(record.method).to_owned(),
        handlers: handlers.collect(),
        txn: record.txn.unwrap_or_default(),
        failures: record.failures.iter().map(ToString::to_string).collect(),
        conflicts: conflicts(&record.conflicts),
    }
}

/// What an event asks for, in words.
fn method(method: Method) -> &'static str {
    match method {
        Method::Update { mode: UpdateMode::BestEffort, .. } => "update, best effort",
        Method::Update { mode: UpdateMode::BestEffortIgnoringErrors, .. } => "update, ignoring errors",
        Method::Update { mode: UpdateMode::RevertOnFailure, .. } => "update, revert on failure",
        Method::Resync(Scope::Full) => "full resync",
        Method::Resync(Scope::Upstream) => "upstream resync",
        Method::Resync(Scope::Downstream) => "downstream resync",
        Method::Resync(Scope::Refresh) => "refresh",
        Method::Notification => "notification",
    }
}

/// Why nothing was done.
pub(super) fn refusal(error: &ApplyError) -> v1::Problem {
    use v1::Reason;
    let reason = match error {
        ApplyError::Stale { .. } => Reason::Stale,
        ApplyError::Reserved { .. }
        | ApplyError::Refused { .. }
        | ApplyError::Unconfirmed { .. }
        | ApplyError::NotKept { .. } => Reason::Refused,
        ApplyError::NotWaiting(_) => Reason::Unknown,
        ApplyError::Unkept { .. } => Reason::Broken,
        ApplyError::BadName { .. } => Reason::Invalid,
        ApplyError::Busy | ApplyError::Gone => Reason::Unavailable,
    };
    let problem = v1::Problem::of(reason, error);
    if let ApplyError::Stale { changed } = error {
        return problem.about(changed.iter().map(ToString::to_string));
    }
    problem
}
