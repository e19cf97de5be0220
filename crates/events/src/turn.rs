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

mod calls;
mod commit;
mod ending;

use std::sync::Arc;

use kilter_scheduler::{Change, Plan, Record, Scheduler, Timestamp, Txn};

use crate::builtin::{
    DatabaseResync, ExternalChange, ExternalResync, HealingResync, InputChange, Shutdown, VerificationResync,
};
use crate::declare::DeclaredChange;
use crate::draft::{Asked, HandlerAt, Internal, Staged};
use crate::effect::Effect;
use crate::error::{Failure, Place, Severity};
use crate::event::{Direction, Event, Method, Scope, UpdateMode};
use crate::external::{Before, Conflict, External};
use crate::fatal::Fatal;
use crate::handler::{CallError, Handler, Stopwatch, call};
use crate::healing::Healing;
use crate::health::Health;
use crate::history::EventHistory;
use crate::inputs::Inputs;
use crate::queue::Queued;
use crate::record::{Difference, EventRecord, HandlerRecord};
use crate::settings::Settings;
use crate::step::{Counts, Opening};

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
    /// The empty table of the turn before.
    pub(crate) spare: Staged,
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
    /// The transaction was dropped before anything was done; why, if that is known.
    Abandoned(Option<Arc<str>>),
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
    /// What each source that speaks declared before, until it is known whether the event stands.
    before: Vec<Before>,
}

impl Turn {
    /// Steps 1 to 6.
    pub(crate) fn open(core: &mut Core, queued: Queued, room: usize, now: Timestamp) -> (Self, Opening) {
        let mut turn = Self::new(queued, room, now, std::mem::take(&mut core.spare));
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
        self.restore_external(core); // 10
        let mut closed = self.finish_record(core, now); // 11
        closed.end_healing(core); // 12
        closed.plan_healing(core, now); // 13
        closed.into_closed(core)
    }

    fn new(queued: Queued, room: usize, now: Timestamp, staged: Staged) -> Self {
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
            staged,
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
            before: Vec::new(),
        }
    }

    /// The event.
    pub(crate) fn event(&self) -> &Event {
        &self.queued.event
    }

    /// Where sources contradict each other about what it declares.
    pub(crate) fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
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

    /// Step 1.
    fn refresh_caches(&mut self, core: &mut Core) {
        let Method::Resync(_) = self.method() else { return };
        core.resyncs += 1;
        let event = self.queued.event.clone();
        if let Some(resync) = event.body::<DatabaseResync>() {
            core.inputs.clone_from(&resync.inputs);
            for (source, items) in &resync.external {
                core.external.replace(source, items);
            }
            core.healing.start_periodic(self.start);
        }
        if let Some(resync) = event.body::<ExternalResync>() {
            core.external.replace(&resync.source, &resync.items);
        }
    }

    /// Step 2.
    fn reflect_update(&mut self, core: &mut Core) {
        let Method::Update { .. } = self.method() else { return };
        let event = self.queued.event.clone();
        if let Some(change) = event.body::<InputChange>() {
            core.inputs.set(&change.resource, &change.name, change.new.clone());
        }
        if let Some(change) = event.body::<ExternalChange>() {
            core.external.patch(&change.source, &change.changes);
        }
        let said = event.body::<DeclaredChange>().map(|change| change.said.as_slice()).unwrap_or_default();
        self.before = said.iter().map(|said| core.external.declare(said)).collect();
    }

    /// Step 3.
    fn order_handlers(&mut self, core: &Core) {
        self.order = match self.method() {
            Method::Update { direction: Direction::Reverse, .. } => (0..core.handlers.len()).rev().collect(),
            Method::Resync(Scope::Downstream | Scope::Refresh) | Method::Notification => Vec::new(),
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
        // Number 0 belongs to the startup resync, also if a shutdown comes before it.
        self.seq = if core.resyncs == 0 { core.next_seq.max(1) } else { core.next_seq };
        core.next_seq = self.seq;
        core.next_seq += 1;
        self.records.reserve_exact(self.order.len());
        self.completed.reserve_exact(self.order.len());
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
}
