//! One event from its start to its record, in thirteen steps:
//!
//! 1. a resync that carries snapshots refreshes the caches;
//! 2. an update of inputs or external declarations is reflected in the caches;
//! 3. the order of the handlers is determined;
//! 4. handlers that are not interested are left out;
//! 5. a record is prepared;
//! 6. the event is announced;
//! 7. the handlers are called, in order;
//! 8. external declarations are laid over what they drafted;
//! 9. the draft is sealed and committed as one transaction;
//! 10. if anything failed and the event reverts, handlers take back what they did, in the opposite order;
//! 11. the record is finished, what follows is released, the producer is told;
//! 12. a healing resync that failed is tried again, or is the end;
//! 13. healing is planned if it is needed.
//!
//! The turn pauses twice, because what comes next is done outside: after step 6 (the announcement is shown before any
//! handler runs) and inside step 9 (the transaction is performed). Decided here: the error matrix. A panic counts as
//! an abort of the event, and as a reason to heal in every mode, since the handler's state is suspect.

use std::sync::Arc;

use kilter_scheduler::{
    Change, Key, OnFailure, Outcome, Plan, Record, Request, Resync, Scheduler, State, Timestamp, Txn,
};

use crate::builtin::{
    DatabaseResync, ExternalChange, ExternalResync, HealingResync, InputChange, Observed, Shutdown,
    VerificationResync,
};
use crate::draft::{Asked, Draft, HandlerAt, Internal, Staged};
use crate::effect::Effect;
use crate::error::{EventError, Failure, Place, Severity};
use crate::event::{Direction, Event, Method, Scope, UpdateMode};
use crate::external::{Conflict, External};
use crate::fatal::{Fatal, FatalReason};
use crate::handler::{CallError, Handler, Stopwatch, call};
use crate::healing::{AfterFailure, Healing};
use crate::health::{Health, Level};
use crate::history::EventHistory;
use crate::inputs::Inputs;
use crate::queue::Queued;
use crate::record::{Difference, EventRecord, HandlerRecord};
use crate::settings::Settings;
use crate::step::{Counts, Opening};
use crate::verify;

/// The component under which the loop reports its health.
pub(crate) const COMPONENT: &str = "event-loop";

/// What turns work on.
pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) scheduler: Scheduler,
    pub(crate) handlers: Vec<Box<dyn Handler>>,
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) stopwatch: Box<dyn Stopwatch>,
    pub(crate) inputs: Inputs,
    pub(crate) external: External,
    pub(crate) internal: Internal,
    pub(crate) healing: Healing,
    pub(crate) health: Health,
    pub(crate) history: EventHistory,
    pub(crate) counts: Counts,
    pub(crate) resyncs: u64,
    pub(crate) next_seq: u64,
    pub(crate) next_effect: u64,
}

/// What kind of event it is for the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Ordinary,
    Healing,
    Verification,
    Shutdown,
}

/// What is to be done outside before the turn can go on.
#[derive(Debug)]
pub(crate) enum Work {
    Commit(Txn),
    Plan(Txn),
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Answer {
    /// There was nothing to do.
    Nothing,
    /// The transaction was carried out.
    Committed(Arc<Record>),
    /// The transaction was dropped before anything was done.
    Abandoned,
    /// This is what would be done.
    Planned(Option<Plan>),
}

/// What a turn leaves behind.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) record: Arc<EventRecord>,
    pub(crate) follow_ups: Vec<Event>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) fatal: Option<Fatal>,
    pub(crate) is_shutdown: bool,
    pub(crate) verify: bool,
}

/// An event that is being looked at.
#[derive(Debug)]
pub(crate) struct Turn {
    queued: Queued,
    role: Role,
    seq: u64,
    start: Timestamp,
    /// The handlers to call, in order.
    order: Vec<HandlerAt>,
    /// Those whose update went well, in order.
    completed: Vec<HandlerAt>,
    staged: Staged,
    asked: Asked,
    /// How many follow-ups there may be.
    room: usize,
    changes: Vec<Change>,
    /// No further handler is called and nothing is committed.
    stopped: bool,
    needs_healing: bool,
    records: Vec<HandlerRecord>,
    failures: Vec<Failure>,
    conflicts: Vec<Conflict>,
    differences: Vec<Difference>,
    txn: Option<Arc<Record>>,
    txn_error: Option<Arc<str>>,
}

impl Turn {
    /// Steps 1 to 6.
    pub(crate) fn open(core: &mut Core, queued: Queued, room: usize, now: Timestamp) -> (Self, Opening) {
        let mut turn = Self::new(queued, room, now);
        turn.refresh_caches(core); // 1
        turn.reflect_update(core); // 2
        turn.order_handlers(core); // 3
        turn.leave_out_uninterested(core); // 4
        turn.prepare_record(core); // 5
        let opening = turn.announce(core); // 6
        (turn, opening)
    }

    /// Steps 7, 8 and the first half of 9; what is to be performed, if anything.
    pub(crate) fn draft(&mut self, core: &mut Core) -> Option<Work> {
        self.call_handlers(core); // 7
        self.merge_external(core); // 8
        self.seal(core) // 9
    }

    /// The second half of step 9, and steps 10 to 13.
    pub(crate) fn close(mut self, core: &mut Core, answer: Answer, now: Timestamp) -> Closed {
        self.take_outcome(core, answer); // 9
        self.revert_handlers(core); // 10
        let mut closed = self.finish_record(core, now); // 11
        closed.end_healing(core); // 12
        closed.plan_healing(core, now); // 13
        closed.into_closed(core)
    }

    fn new(queued: Queued, room: usize, now: Timestamp) -> Self {
        let event = &queued.event;
        let role = match event.body::<HealingResync>() {
            Some(HealingResync::AfterError { .. }) => Role::Healing,
            Some(HealingResync::Periodic) | None if event.is::<VerificationResync>() => Role::Verification,
            Some(HealingResync::Periodic) | None if event.is::<Shutdown>() => Role::Shutdown,
            Some(HealingResync::Periodic) | None => Role::Ordinary,
        };
        Self {
            queued,
            role,
            seq: 0,
            start: now,
            order: Vec::new(),
            completed: Vec::new(),
            staged: Staged::default(),
            asked: Asked::default(),
            room,
            changes: Vec::new(),
            stopped: false,
            needs_healing: false,
            records: Vec::new(),
            failures: Vec::new(),
            conflicts: Vec::new(),
            differences: Vec::new(),
            txn: None,
            txn_error: None,
        }
    }

    fn method(&self) -> Method {
        self.queued.event.method()
    }

    fn reverts(&self) -> bool {
        self.method().mode() == Some(UpdateMode::RevertOnFailure)
    }

    fn is_fatal(&self) -> bool {
        self.failures.iter().any(|failure| failure.severity == Severity::Fatal)
    }

    /// Notes that something went wrong, and what follows from it: the rows of the error matrix about handlers.
    fn fail(&mut self, place: Place, error: CallError) {
        let CallError { severity, panicked, text } = error;
        let heals = match self.method() {
            Method::Update { mode: UpdateMode::BestEffort, .. }
            | Method::Resync(_)
            | Method::Notification => true,
            Method::Update { mode: UpdateMode::BestEffortIgnoringErrors, .. } => severity == Severity::Abort,
            Method::Update { mode: UpdateMode::RevertOnFailure, .. } => {
                panicked || matches!(place, Place::Revert(_))
            }
        };
        self.needs_healing |= heals;
        self.stopped |= severity >= Severity::Abort || self.reverts();
        self.failures.push(Failure { place, severity, panicked, text: text.into() });
    }

    /// Something is wrong with what the event says; healing would not mend it.
    fn refuse(&mut self, problem: impl ToString) {
        let text = problem.to_string().into();
        self.failures.push(Failure {
            place: Place::Preparation,
            severity: Severity::Plain,
            panicked: false,
            text,
        });
        self.stopped |= self.reverts();
    }

    /// Step 1.
    fn refresh_caches(&mut self, core: &mut Core) {
        let Method::Resync(_) = self.method() else { return };
        core.resyncs += 1;
        let event = self.queued.event.clone();
        if let Some(resync) = event.body::<DatabaseResync>() {
            core.inputs.clone_from(&resync.inputs);
            for (source, items) in &resync.external {
                if let Err(unknown) = core.external.replace(source, items) {
                    self.refuse(unknown);
                }
            }
            core.healing.start_periodic(self.start);
        }
        if let Some(resync) = event.body::<ExternalResync>()
            && let Err(unknown) = core.external.replace(&resync.source, &resync.items)
        {
            self.refuse(unknown);
        }
    }

    /// Step 2.
    fn reflect_update(&mut self, core: &mut Core) {
        let Method::Update { .. } = self.method() else { return };
        let event = self.queued.event.clone();
        if let Some(change) = event.body::<InputChange>() {
            core.inputs.set(&change.resource, &change.name, change.new.clone());
        }
        if let Some(change) = event.body::<ExternalChange>()
            && let Err(unknown) = core.external.patch(&change.source, &change.changes)
        {
            self.refuse(unknown);
        }
    }

    /// Step 3.
    fn order_handlers(&mut self, core: &Core) {
        self.order = match self.method() {
            Method::Update { direction: Direction::Reverse, .. } => (0..core.handlers.len()).rev().collect(),
            Method::Resync(Scope::Downstream) | Method::Notification => Vec::new(),
            Method::Update { direction: Direction::Forward, .. } | Method::Resync(_) => {
                (0..core.handlers.len()).collect()
            }
        };
    }

    /// Step 4.
    fn leave_out_uninterested(&mut self, core: &Core) {
        let mut order = std::mem::take(&mut self.order);
        order.retain(|at| {
            let (handler, event) = (&core.handlers[*at], &self.queued.event);
            match call(|| Ok(handler.handles(event))) {
                Ok(interested) => interested,
                Err(error) => {
                    self.fail(Place::Handler(Arc::clone(&core.names[*at])), error);
                    false
                }
            }
        });
        self.order = order;
    }

    /// Step 5.
    fn prepare_record(&mut self, core: &mut Core) {
        self.seq = core.next_seq;
        core.next_seq += 1;
        self.records.reserve(self.order.len());
    }

    /// Step 6.
    fn announce(&self, core: &Core) -> Opening {
        Opening {
            seq: self.seq,
            follow_up_to: self.queued.follow_up_to,
            description: Arc::clone(self.queued.event.description()),
            handlers: self.order.iter().map(|at| Arc::clone(&core.names[*at])).collect(),
        }
    }

    /// Step 7.
    fn call_handlers(&mut self, core: &mut Core) {
        let order = std::mem::take(&mut self.order);
        let mut before = core.stopwatch.read();
        for at in order.iter().copied() {
            if self.stopped {
                break;
            }
            let called = self.call_handler(core, at);
            let after = core.stopwatch.read();
            let took = after.saturating_sub(before);
            before = after;
            let over_budget = took > core.settings.handler_budget;
            core.counts.over_budget += u64::from(over_budget);
            let handler = Arc::clone(&core.names[at]);
            let (change, error) = match called {
                Ok(change) => {
                    self.completed.push(at);
                    (change, None)
                }
                Err(error) => {
                    core.counts.panics += u64::from(error.panicked);
                    let text: Arc<str> = error.text.as_str().into();
                    self.fail(Place::Handler(Arc::clone(&handler)), error);
                    (String::new(), Some(text))
                }
            };
            self.records.push(HandlerRecord { handler, revert: false, change, error, took, over_budget });
        }
    }

    fn call_handler(&mut self, core: &mut Core, at: HandlerAt) -> Result<String, CallError> {
        let Core { handlers, inputs, internal, resyncs, settings, names, .. } = core;
        let handler = &mut handlers[at];
        let event = &self.queued.event;
        let is_resync = !matches!(event.method(), Method::Update { .. });
        let mut draft = Draft {
            handler: at,
            staged: &mut self.staged,
            internal,
            room: self.room.saturating_sub(self.asked.follow_ups.len()),
            bound: settings.follow_ups,
            asked: &mut self.asked,
            is_resync,
        };
        if !is_resync {
            return call(|| handler.update(event, &mut draft));
        }
        let (differences, verifies) = (&mut self.differences, self.role == Role::Verification);
        call(|| {
            let before = verifies.then(|| handler.own_state()).flatten();
            handler.resync(event, inputs, *resyncs, &mut draft)?;
            let after = verifies.then(|| handler.own_state()).flatten();
            differences.extend(verify::own_state(&names[at], before, after));
            Ok(String::new())
        })
    }

    /// Step 8.
    fn merge_external(&mut self, core: &Core) {
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
        self.changes = changes;
    }

    /// Step 9, before the transaction.
    fn seal(&mut self, core: &Core) -> Option<Work> {
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
            Method::Notification => {
                let seen = self.queued.event.body::<Observed>().map(|observed| observed.0.clone());
                Request::Notification(seen.unwrap_or_default())
            }
        };
        let txn = Txn { request, description: self.describe(), retry: core.settings.txn_retry() };
        if self.role == Role::Verification {
            return Some(Work::Plan(txn));
        }
        Some(Work::Commit(txn))
    }

    /// The name of the event, and what each handler changed.
    fn describe(&self) -> String {
        let mut text = self.queued.event.name().to_string();
        for record in self.records.iter().filter(|record| !record.change.is_empty()) {
            text.push_str("\n* ");
            text.push_str(&record.handler);
            text.push_str(": ");
            text.push_str(&record.change);
        }
        text
    }

    /// Step 9, after the transaction: the rows of the error matrix about commits.
    fn take_outcome(&mut self, core: &mut Core, answer: Answer) {
        let record = match answer {
            Answer::Nothing => return,
            Answer::Planned(plan) => {
                let found = verify::differences(core, &self.staged, plan.as_ref());
                self.differences.extend(found);
                return;
            }
            Answer::Abandoned => {
                self.fail_commit("the transaction was dropped before anything was done".into(), true);
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
            Method::Update { .. } | Method::Resync(Scope::Downstream) | Method::Notification => {}
        }
        self.txn = Some(record);
    }

    fn fail_commit(&mut self, text: Arc<str>, uncertain: bool) {
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

    /// Step 10.
    fn revert_handlers(&mut self, core: &mut Core) {
        if self.failures.is_empty() || !self.reverts() || self.is_fatal() {
            return;
        }
        core.counts.reverted += 1;
        let mut before = core.stopwatch.read();
        for at in std::mem::take(&mut self.completed).into_iter().rev() {
            let (name, handler) = (Arc::clone(&core.names[at]), &mut core.handlers[at]);
            let reverted = call(|| handler.revert(&self.queued.event));
            let after = core.stopwatch.read();
            let took = after.saturating_sub(before);
            before = after;
            let error: Option<Arc<str>> = reverted.as_ref().err().map(|error| error.text.as_str().into());
            let over_budget = took > core.settings.handler_budget;
            let change = String::new();
            self.records.push(HandlerRecord {
                handler: Arc::clone(&name),
                revert: true,
                change,
                error,
                took,
                over_budget,
            });
            if let Err(error) = reverted {
                core.counts.panics += u64::from(error.panicked);
                self.fail(Place::Revert(name), error);
            }
            if self.is_fatal() {
                break;
            }
        }
    }

    /// Step 11.
    fn finish_record(self, core: &mut Core, now: Timestamp) -> Finished {
        let event = &self.queued.event;
        let record = Arc::new(EventRecord {
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
struct Finished {
    record: Arc<EventRecord>,
    asked: Asked,
    role: Role,
    needs_healing: bool,
    fatal: Option<Fatal>,
}

impl Finished {
    /// Step 12.
    fn end_healing(&mut self, core: &mut Core) {
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
    fn plan_healing(&self, core: &mut Core, now: Timestamp) {
        if self.needs_healing {
            let cause = self.record.cause().map(ToString::to_string).unwrap_or_default();
            core.healing.plan(&cause.into(), now);
        }
    }

    fn into_closed(self, core: &mut Core) -> Closed {
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
