//! The transaction of an event: steps 8 and 9.

use std::collections::BTreeSet;
use std::sync::Arc;

use kilter_scheduler::{
    Change, Key, OnFailure, Outcome, Record, Request, Resync, Retry, State, Txn, Undeclared,
};

use super::{Answer, Core, Role, Turn, Work};
use crate::builtin::{DatabaseResync, Drifted, ExternalChange, Observed};
use crate::declare::{AskedResync, DeclaredChange};
use crate::error::{Failure, Place, Severity};
use crate::event::{Method, Scope, UpdateMode};
use crate::external::Before;
use crate::verify;

impl Turn {
    /// Step 8.
    pub(super) fn merge_external(&mut self, core: &Core) {
        if self.stopped {
            return;
        }
        let registry = core.scheduler.registry();
        let (external, conflicts) = (&core.external, &mut self.conflicts);
        let is_resync = matches!(self.queued.event.method(), Method::Resync(Scope::Full | Scope::Upstream));
        let mut changes = Vec::with_capacity(self.staged.len());
        let mut add = |key: &Key, internal: Option<kilter_scheduler::ValueRef>| {
            let value = if external.declares(key.as_str()) {
                external.merged(registry, key, internal, conflicts)
            } else {
                internal
            };
            changes.push(Change { key: key.clone(), value, labels: None });
        };
        for (key, wanted) in &self.staged {
            add(key, wanted.value.clone());
        }
        if is_resync && !external.is_empty() {
            let rest = external.keys().into_iter().filter(|key| !self.staged.contains_key(*key));
            rest.for_each(|key| add(key, None));
        }
        if let Some(change) = self.queued.event.body::<ExternalChange>() {
            let rest = change.changes.keys().filter(|key| !self.staged.contains_key(*key));
            rest.for_each(|key| add(key, core.internal.get(key.as_str()).cloned()));
        }
        // Two sources may speak about the same item.
        let spoken: BTreeSet<&Key> = self.before.iter().flat_map(Before::keys).collect();
        let rest = spoken.into_iter().filter(|key| !self.staged.contains_key(*key));
        rest.for_each(|key| add(key, core.internal.get(key.as_str()).cloned()));
        self.changes = changes;
    }

    /// Step 9, before the transaction.
    pub(super) fn seal(&mut self, core: &Core) -> Option<Work> {
        if self.stopped {
            return None;
        }
        let changes = std::mem::take(&mut self.changes);
        let request = match self.method() {
            Method::Update { .. } if changes.is_empty() => return None,
            Method::Update { mode, .. } => {
                let on_failure = match mode {
                    UpdateMode::RevertOnFailure => OnFailure::Revert,
                    UpdateMode::BestEffort | UpdateMode::BestEffortIgnoringErrors => OnFailure::Continue,
                };
                Request::Changes { changes, on_failure }
            }
            Method::Resync(Scope::Full) => Request::Resync(Resync::Full(changes)),
            Method::Resync(Scope::Upstream) => Request::Resync(Resync::Upstream(changes)),
            Method::Resync(Scope::Downstream) => Request::Resync(Resync::Downstream),
            Method::Resync(Scope::Refresh) => {
                let drifted = self.queued.event.body::<Drifted>().map(|drifted| drifted.0.clone());
                Request::Resync(Resync::Refresh(drifted.unwrap_or_default()))
            }
            Method::Notification => {
                let seen = self.queued.event.body::<Observed>().map(|observed| observed.0.clone());
                Request::Notification(seen.unwrap_or_default())
            }
        };
        let retry = self.retry(core);
        let undeclared = self.undeclared(core);
        let txn = Txn { request, description: self.describe(), retry, undeclared };
        if self.role == Role::Verification {
            return Some(Work::Plan(txn));
        }
        Some(Work::Commit(txn))
    }

    /// Whether and when what fails is tried again: whoever asks may say so, or else the settings do. A resync of what is
    /// leaves to each item what it was declared with, unless it is asked for more.
    fn retry(&self, core: &Core) -> Option<Retry> {
        let event = &self.queued.event;
        if event.body::<AskedResync>().is_some_and(|asked| asked.retry) {
            return Some(core.settings.asked_retry());
        }
        if matches!(self.method(), Method::Resync(Scope::Downstream | Scope::Refresh)) {
            return None;
        }
        let own = event.body::<DeclaredChange>().and_then(|change| change.retry);
        own.or_else(|| core.settings.txn_retry())
    }

    /// What becomes of items of ours that nobody declares: whoever asks may say so, or else the settings do.
    fn undeclared(&self, core: &Core) -> Undeclared {
        let event = &self.queued.event;
        if event.body::<AskedResync>().is_some_and(|asked| asked.prune) {
            return Undeclared::Remove;
        }
        let leftovers = event.body::<DatabaseResync>().map(|resync| &resync.leftovers);
        match leftovers {
            _ if core.settings.prune => Undeclared::Remove,
            Some(leftovers) => Undeclared::RemoveOnly(Arc::clone(leftovers)),
            None => Undeclared::Keep,
        }
    }

    /// The name of the event, and what each handler changed.
    fn describe(&self) -> String {
        let mut text = self.queued.event.name().to_string();
        if let Some(change) =
            self.queued.event.body::<DeclaredChange>().filter(|it| !it.description.is_empty())
        {
            text.push_str("\n* ");
            text.push_str(&change.description);
        }
        for record in self.records.iter().filter(|record| !record.change.is_empty()) {
            text.push_str("\n* ");
            text.push_str(&record.handler);
            text.push_str(": ");
            text.push_str(&record.change);
        }
        text
    }

    /// Step 9, after the transaction: the rows of the error matrix about commits.
    pub(super) fn take_outcome(&mut self, core: &mut Core, answer: Answer) {
        let record = match answer {
            Answer::Nothing => return,
            Answer::Planned(plan) => {
                let found = verify::differences(core, &self.staged, plan.as_ref());
                self.differences.extend(found);
                return;
            }
            Answer::Abandoned(why) => {
                let why =
                    why.unwrap_or_else(|| "the transaction was dropped before anything was done".into());
                // A source that is refused declares what it declared before: nothing is uncertain.
                self.fail_commit(why, self.before.is_empty());
                return;
            }
            Answer::Committed(record) => record,
        };
        core.counts.transactions += 1;
        let cause = record.outcome.cause().map(|cause| format!("{}: {}", cause.key, cause.error));
        if let Some(mut text) = cause {
            let mut uncertain = !self.reverts() && !self.is_excused(core, &record);
            if let Outcome::RevertFailed { revert, .. } = &record.outcome {
                text.push_str(&format!("; the way back failed: {}: {}", revert.key, revert.error));
                uncertain = true;
            }
            self.fail_commit(text.into(), uncertain);
        }
        let stands = !matches!(record.outcome, Outcome::Reverted(_) | Outcome::RevertFailed { .. });
        match self.method() {
            Method::Update { .. } if stands => core.internal.patch(&self.staged),
            Method::Resync(Scope::Full | Scope::Upstream) => core.internal.replace(&self.staged),
            Method::Update { .. }
            | Method::Resync(Scope::Downstream | Scope::Refresh)
            | Method::Notification => {}
        }
        self.txn = Some(record);
    }

    /// Step 10: a source whose declaration does not stand declares what it declared before.
    pub(super) fn restore_external(&mut self, core: &mut Core) {
        let reverted =
            |record: &Record| matches!(record.outcome, Outcome::Reverted(_) | Outcome::RevertFailed { .. });
        let stands = match &self.txn {
            Some(record) => !reverted(record),
            None => self.failures.is_empty(),
        };
        let before = std::mem::take(&mut self.before);
        if !stands {
            before.into_iter().rev().for_each(|before| core.external.restore(before));
        }
    }

    pub(super) fn fail_commit(&mut self, text: Arc<str>, uncertain: bool) {
        let ignored = self.method().mode() == Some(UpdateMode::BestEffortIgnoringErrors);
        self.needs_healing |= uncertain && !ignored;
        self.txn_error = Some(Arc::clone(&text));
        let (place, severity) = (Place::Commit, Severity::Plain);
        self.failures.push(Failure { place, severity, panicked: false, text });
    }

    /// Whether every failure of the transaction is one that healing is not for: of an item that only external sources
    /// declare, or of a value that was refused, so that what was applied before stays.
    fn is_excused(&self, core: &Core, record: &Record) -> bool {
        record.failures.iter().all(|cause| {
            let key = &cause.key;
            if core.scheduler.item(key.as_str()).is_some_and(|item| item.state == State::Invalid) {
                return true;
            }
            let step = record.changes().find(|step| step.key == *key);
            let base = step.and_then(|step| step.base.as_ref()).unwrap_or(key).as_str();
            let is_internal = core.internal.get(base).is_some() || self.staged.contains_key(base);
            core.external.declares(base) && !is_internal
        })
    }
}
