//! The end of an event: steps 11, 12 and 13.

use std::sync::Arc;

use kilter_scheduler::{Record, Timestamp};

use super::{COMPONENT, Closed, Core, Role, Turn};
use crate::draft::Asked;
use crate::effect::Effect;
use crate::error::{EventError, Severity};
use crate::event::UpdateMode;
use crate::fatal::{Fatal, FatalReason};
use crate::healing::AfterFailure;
use crate::health::Level;
use crate::record::EventRecord;

impl Turn {
    /// Step 11.
    pub(super) fn finish_record(mut self, core: &mut Core, now: Timestamp) -> Finished {
        core.spare = std::mem::take(&mut self.staged);
        core.spare.clear();
        let event = &self.queued.event;
        let weigh = |txn: &Record| core.scheduler.history().weight(txn.seq).unwrap_or_else(|| txn.weight());
        let txn_weight = self.txn.as_deref().map_or(0, weigh);
        let record = Arc::new(EventRecord {
            txn_weight,
            seq: self.seq,
            start: self.start,
            stop: now.max(self.start),
            follow_up_to: self.queued.follow_up_to,
            name: Arc::clone(event.name()),
            description: Arc::clone(event.description()),
            method: event.method(),
            handlers: self.records,
            txn_error: self.txn_error,
            txn: self.txn,
            failures: self.failures,
            conflicts: self.conflicts,
            differences: self.differences,
        });
        core.counts.events += 1;
        core.counts.failed += u64::from(!record.failures.is_empty());
        core.history.push(Arc::clone(&record), now);
        // What follows from an event that did not happen does not happen; verification only looks.
        let undone = self.stopped
            || self.role == Role::Verification
            || (event.method().mode() == Some(UpdateMode::RevertOnFailure) && !record.failures.is_empty());
        let asked = if undone { Asked::default() } else { self.asked };
        if let Some(completion) = self.queued.completion {
            completion.complete(match record.cause() {
                None => Ok(()),
                Some(cause) => Err(EventError::Failed {
                    seq: record.seq,
                    name: Arc::clone(&record.name),
                    cause: cause.clone(),
                }),
            });
        }
        let fatal = record.failures.iter().find(|failure| failure.severity == Severity::Fatal);
        let fatal = fatal.map(|failure| Fatal { reason: FatalReason::Handler, text: failure.to_string() });
        let needs_healing = self.needs_healing && self.role != Role::Shutdown && fatal.is_none();
        Finished { record, asked, role: self.role, needs_healing, fatal }
    }
}

/// A turn whose record is finished.
pub(super) struct Finished {
    record: Arc<EventRecord>,
    asked: Asked,
    role: Role,
    needs_healing: bool,
    fatal: Option<Fatal>,
}

impl Finished {
    /// Step 12.
    pub(super) fn end_healing(&mut self, core: &mut Core) {
        if self.role != Role::Healing || self.fatal.is_some() {
            return;
        }
        core.counts.healings += 1;
        if !self.needs_healing {
            core.healing.healed();
            return;
        }
        if core.healing.fail() == AfterFailure::GiveUp {
            let cause = self.record.cause().map(ToString::to_string).unwrap_or_default();
            let attempts = core.settings.healing_attempts;
            let text = format!("healing has failed {attempts} times; last: {cause}");
            self.fatal = Some(Fatal { reason: FatalReason::Healing, text });
            self.needs_healing = false;
        }
    }

    /// Step 13.
    pub(super) fn plan_healing(&self, core: &mut Core, now: Timestamp) {
        if self.needs_healing {
            let cause = self.record.cause().map(ToString::to_string).unwrap_or_default();
            core.healing.plan(&cause.into(), now);
        }
    }

    pub(super) fn into_closed(self, core: &mut Core) -> Closed {
        let Self { record, asked, role, needs_healing: _, fatal } = self;
        report_health(core, &record, fatal.as_ref());
        let verify = core.settings.verification
            && record.failures.is_empty()
            && !matches!(role, Role::Verification | Role::Shutdown)
            && core.healing.planned().is_none();
        let effects = asked.effects.into_iter().map(|(at, name, argument)| {
            core.next_effect += 1;
            let (id, handler) = (core.next_effect, Arc::clone(&core.names[at]));
            Effect { id, event: record.seq, handler, name, argument }
        });
        Closed {
            effects: effects.collect(),
            record,
            follow_ups: asked.follow_ups,
            fatal,
            is_shutdown: role == Role::Shutdown,
            verify,
        }
    }
}

fn report_health(core: &mut Core, record: &EventRecord, fatal: Option<&Fatal>) {
    let slow = record.handlers.iter().find(|one| one.over_budget);
    let (level, reason) = match (fatal, core.healing.planned()) {
        (Some(fatal), _) => (Level::Broken, fatal.to_string()),
        (None, Some(error)) => (Level::OutOfSync, format!("healing is planned: {error}")),
        (None, None) if core.resyncs == 0 => (Level::OutOfSync, "waits for the startup resync".to_owned()),
        (None, None) => match (record.differences.first(), slow) {
            (Some(difference), _) => (Level::Warning, format!("verification has found: {difference}")),
            (None, Some(slow)) => (
                Level::Warning,
                format!("handler `{}` took {:?} for event #{}", slow.handler, slow.took, record.seq),
            ),
            (None, None) => (Level::Fine, String::new()),
        },
    };
    core.health.report(COMPONENT, level, reason);
}
