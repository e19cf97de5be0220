//! Batches: how operations reach an actuator and how its answers come back.
//!
//! A batch is a queue that the actuator takes from. What it has taken is under way, with a deadline of its own; what
//! it has not taken can still be withdrawn. So a long queue does not make its tail late, and a cancelled transaction
//! begins nothing more.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kilter_scheduler::{Act, Answer, Facts, Key};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::counters::Counters;
use crate::error::OperationError;

/// The number of an operation within one dispatch.
pub(crate) type Ticket = u64;

/// What comes back from actuators.
pub(crate) enum Event {
    /// An operation was answered.
    Answered(Ticket, Answer),
    /// The future of the batch that begins with this ticket came to its end.
    Ended(Ticket, Ended),
}

/// How the future of a batch ended.
pub(crate) enum Ended {
    Returned,
    Panicked(OperationError),
    Dropped,
}

/// The way back from actuators to the dispatch.
pub(crate) struct Line {
    pub(crate) sender: UnboundedSender<Event>,
    pub(crate) counters: Arc<Counters>,
}

/// When an actuator last gave a sign of life: took something up, or answered.
pub(crate) struct Pulse(Mutex<Instant>);

impl Pulse {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(now))
    }

    pub(crate) fn beat(&self, now: Instant) {
        let mut last = locked(&self.0);
        *last = now.max(*last);
    }

    pub(crate) fn last(&self) -> Instant {
        *locked(&self.0)
    }
}

/// When operations that were taken ahead were begun.
pub(crate) struct Begun {
    moments: Mutex<HashMap<Ticket, Instant>>,
    pulse: Arc<Pulse>,
}

impl Begun {
    pub(crate) fn new(pulse: Arc<Pulse>) -> Self {
        Self { moments: Mutex::default(), pulse }
    }

    fn begin(&self, ticket: Ticket) {
        let now = Instant::now();
        locked(&self.moments).entry(ticket).or_insert(now);
        self.pulse.beat(now);
    }

    fn at(&self, ticket: Ticket) -> Option<Instant> {
        locked(&self.moments).get(&ticket).copied()
    }
}

/// Operations that an actuator is asked to perform: a queue to take from.
///
/// As an iterator it takes them one by one.
///
/// **Guarantees**: either all are changes (create, update, delete) or all are reads (retrieve). They come in the
/// order of the plan, and none needs another one of the batch.
pub struct Batch {
    queue: Arc<Queue>,
    reads: bool,
    deadline: Duration,
}

/// The part of a batch that the dispatch shares.
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    begun: Arc<Begun>,
}

struct QueueState {
    waiting: VecDeque<Assignment>,
    /// What was taken up when: every ticket below the number that an earlier entry does not cover. What was taken ahead
    /// has no moment here.
    taken: Vec<(Ticket, Option<Instant>)>,
}

impl Batch {
    pub(crate) fn new(queue: Arc<Queue>, reads: bool, deadline: Duration) -> Self {
        Self { queue, reads, deadline }
    }

    /// Takes up to `count` operations out of the batch; none are left if it gives none.
    ///
    /// From here on each of them has [`Batch::deadline`] to be answered.
    pub fn take_up(&mut self, count: usize) -> Vec<Assignment> {
        self.take(count, Some(Instant::now()))
    }

    /// Takes up to `count` operations out of the batch that are not begun yet; none are left if it gives none.
    ///
    /// For an actuator that puts many operations in an order of its own. Each has [`Batch::deadline`] from
    /// [`Assignment::begin`] on; until then it fails only if the actuator is silent for that long.
    pub fn take_ahead(&mut self, count: usize) -> Vec<Assignment> {
        self.take(count, None)
    }

    fn take(&mut self, count: usize, begun: Option<Instant>) -> Vec<Assignment> {
        let mut state = locked(&self.queue.state);
        let count = count.min(state.waiting.len());
        let taken: Vec<Assignment> = state.waiting.drain(..count).collect();
        if let Some(last) = taken.last() {
            state.taken.push((last.reply.ticket + 1, begun));
            self.queue.pulse().beat(Instant::now());
        }
        taken
    }

    /// Takes everything out of the batch.
    pub fn take_all(&mut self) -> Vec<Assignment> {
        self.take_up(usize::MAX)
    }

    /// How many operations have not been taken up. It may shrink by itself: a cancelled transaction withdraws them.
    pub fn waiting(&self) -> usize {
        locked(&self.queue.state).waiting.len()
    }

    /// Whether all operations are reads; otherwise all are changes.
    pub fn is_read(&self) -> bool {
        self.reads
    }

    /// How long an operation may take once it is taken up.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }
}

impl Iterator for Batch {
    type Item = Assignment;

    fn next(&mut self) -> Option<Assignment> {
        self.take_up(1).pop()
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}

impl Queue {
    pub(crate) fn new(waiting: VecDeque<Assignment>, begun: Arc<Begun>) -> Self {
        Self { state: Mutex::new(QueueState { waiting, taken: Vec::new() }), begun }
    }

    /// When the operation was begun, if it was: taken up, or begun after it was taken ahead.
    pub(crate) fn begun_at(&self, ticket: Ticket) -> Option<Instant> {
        let state = locked(&self.state);
        let at = state.taken.partition_point(|(end, _)| *end <= ticket);
        match state.taken.get(at)? {
            (_, Some(moment)) => Some(*moment),
            (_, None) => self.begun.at(ticket),
        }
    }

    /// Takes back what was not taken up.
    pub(crate) fn withdraw(&self) -> Vec<Ticket> {
        locked(&self.state).waiting.drain(..).map(|assignment| assignment.reply.ticket).collect()
    }

    pub(crate) fn pulse(&self) -> &Pulse {
        &self.begun.pulse
    }
}

/// One operation that an actuator is asked to perform, with what it must know for it.
#[derive(Debug)]
pub struct Assignment {
    /// The name of the kind.
    pub kind: Arc<str>,
    /// What is to be done.
    pub act: Act,
    /// The facts of what the item needs, and of its base.
    pub needs: Vec<(Key, Facts)>,
    /// Takes the answer.
    pub reply: Reply,
}

impl Assignment {
    /// The item; `None` if the whole kind is to be read.
    pub fn key(&self) -> Option<&Key> {
        self.act.key()
    }

    /// Says that its turn has come, if it was taken ahead: its deadline counts from here.
    pub fn begin(&self) {
        self.reply.begun.begin(self.reply.ticket);
    }

    /// Answers.
    pub fn answer(self, answer: Answer) {
        self.reply.send(answer);
    }
}

/// The right to answer one operation, once, from any task or thread.
///
/// Dropping it does not answer: the operation fails when the batch ends, or at its deadline.
#[must_use = "the operation fails unless it is answered"]
pub struct Reply {
    ticket: Ticket,
    line: Arc<Line>,
    begun: Arc<Begun>,
}

impl Reply {
    pub(crate) fn new(ticket: Ticket, line: Arc<Line>, begun: Arc<Begun>) -> Self {
        Self { ticket, line, begun }
    }

    /// Answers. An answer that nobody waits for any more is counted and dropped.
    pub fn send(self, answer: Answer) {
        if self.line.sender.send(Event::Answered(self.ticket, answer)).is_err() {
            self.line.counters.late_answer();
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({})", self.ticket)
    }
}

/// Nothing that can panic runs under these locks, so a poisoned one is as good as new.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
