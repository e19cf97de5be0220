//! The dispatch: hands operations to actuators and collects their answers, whatever the actuators do.
//!
//! Every operation that is handed out is settled exactly once: by its actuator's answer, or by the dispatch when the
//! kind has no actuator, the deadline passes, the actuator panics or ends without an answer, or the operation is
//! withdrawn. Decided here: when an operation counts as failed. Not decided here: what follows from it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use kilter_scheduler::{Act, Answer, Facts, Key};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::actuator::{Actuator, Actuators};
use crate::asked::{Asked, is_read};
use crate::batch::{Assignment, Batch, Begun, Ended, Event, Line, Pulse, Queue, Reply, Ticket};
use crate::counters::Counters;
use crate::error::OperationError;
use crate::settings::Settings;

/// As good as never, for a span that no clock can hold.
const AGES: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// How many answers are taken before the walk is asked for what became ready.
const ANSWERS_AT_ONCE: usize = 4096;

/// An operation to hand out; `tag` is how the caller knows it.
pub(crate) struct Work<'k, T> {
    pub(crate) tag: T,
    pub(crate) kind: &'k str,
    pub(crate) act: Act,
    pub(crate) needs: Vec<(Key, Facts)>,
}

/// What is for one actuator, with the shared names of the kinds.
type Share<'k, T> = Vec<(Arc<str>, Work<'k, T>)>;

/// Operations on their way through actuators.
pub(crate) struct Dispatch<'a, T> {
    actuators: &'a Actuators,
    settings: &'a Settings,
    line: Arc<Line>,
    receiver: mpsc::UnboundedReceiver<Event>,
    /// By actuator.
    pulses: Vec<Arc<Pulse>>,
    next_ticket: Ticket,
    open: BTreeMap<Ticket, Open<T>>,
    /// By first ticket; a batch takes up a contiguous range of them.
    batches: BTreeMap<Ticket, Running>,
    /// When to look for overdue operations, in which batch.
    checks: BTreeSet<(Instant, Ticket)>,
    settled: Vec<(T, Answer)>,
}

/// An operation that is not settled.
struct Open<T> {
    tag: T,
    batch: Ticket,
    asked: Asked,
}

/// A batch with operations that are not settled.
struct Running {
    end: Ticket,
    left: usize,
    deadline: Duration,
    check: Instant,
    queue: Arc<Queue>,
    /// Dropped with the batch: then the actuator's future knows that nobody waits for it.
    _wanted: oneshot::Sender<()>,
}

impl<'a, T> Dispatch<'a, T> {
    pub(crate) fn new(actuators: &'a Actuators, settings: &'a Settings, counters: Arc<Counters>) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let now = Instant::now();
        Self {
            actuators,
            settings,
            line: Arc::new(Line { sender, counters }),
            receiver,
            pulses: (0..actuators.len()).map(|_| Arc::new(Pulse::new(now))).collect(),
            next_ticket: 0,
            open: BTreeMap::new(),
            batches: BTreeMap::new(),
            checks: BTreeSet::new(),
            settled: Vec::new(),
        }
    }

    /// Whether anything that was handed out has not come back.
    pub(crate) fn is_busy(&self) -> bool {
        !self.open.is_empty() || !self.settled.is_empty()
    }

    /// Hands every actuator its share as one batch, changes and reads apart.
    pub(crate) fn hand_out<'k>(&mut self, work: impl Iterator<Item = Work<'k, T>>) {
        let mut shares: BTreeMap<(usize, bool), Share<'k, T>> = BTreeMap::new();
        for work in work {
            if let Some((kind, place)) = self.actuators.find(work.kind) {
                shares.entry((place, is_read(&work.act))).or_default().push((Arc::clone(kind), work));
            } else {
                let error = OperationError::NoActuator { kind: work.kind.to_owned() };
                self.settled.push((work.tag, error.into()));
            }
        }
        let size = self.settings.max_batch.map_or(usize::MAX, usize::from);
        for ((place, reads), share) in shares {
            let mut share = share.into_iter().peekable();
            while share.peek().is_some() {
                self.start(place, reads, share.by_ref().take(size));
            }
        }
    }

    /// Starts one batch.
    fn start<'k>(&mut self, place: usize, reads: bool, share: impl Iterator<Item = (Arc<str>, Work<'k, T>)>)
    where
        T: 'k,
    {
        let first = self.next_ticket;
        let begun = Arc::new(Begun::new(Arc::clone(&self.pulses[place])));
        let mut waiting = VecDeque::new();
        for (kind, Work { tag, act, needs, .. }) in share {
            let ticket = self.next_ticket;
            self.next_ticket += 1;
            self.open.insert(ticket, Open { tag, batch: first, asked: Asked::of(&act) });
            waiting.push_back(Assignment {
                kind,
                act,
                needs,
                reply: Reply::new(ticket, Arc::clone(&self.line), Arc::clone(&begun)),
            });
        }
        let deadline = if reads { self.settings.retrieve_deadline } else { self.settings.op_deadline };
        let now = Instant::now();
        self.pulses[place].beat(now);
        let left = waiting.len();
        let queue = Arc::new(Queue::new(waiting, begun));
        let (wanted, unwanted) = oneshot::channel();
        let attended = attend(
            Arc::clone(self.actuators.at(place)),
            Batch::new(Arc::clone(&queue), reads, deadline),
            first,
            Arc::clone(&self.line),
            unwanted,
            self.settings.grace,
        );
        tokio::spawn(attended);
        let check = later(now, deadline);
        self.checks.insert((check, first));
        let end = self.next_ticket;
        self.batches.insert(first, Running { end, left, deadline, check, queue, _wanted: wanted });
    }

    /// Waits until something is settled, and gives everything that is.
    ///
    /// **Assumes** that the dispatch is busy. May be dropped at its await point: nothing is lost.
    pub(crate) async fn settled(&mut self) -> Vec<(T, Answer)> {
        let mut events = Vec::new();
        while self.settled.is_empty() {
            let check = self.checks.first().map(|(check, _)| *check);
            let overdue = async {
                match check {
                    Some(check) => tokio::time::sleep_until(check).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = self.receiver.recv_many(&mut events, ANSWERS_AT_ONCE) => {}
                () = overdue => self.look_for_overdue(Instant::now()),
            }
            for event in events.drain(..) {
                self.heed(event);
            }
        }
        std::mem::take(&mut self.settled)
    }

    /// Takes back everything that no actuator has taken up.
    pub(crate) fn withdraw(&mut self, reason: &Arc<str>) {
        let queues: Vec<Arc<Queue>> = self.batches.values().map(|batch| Arc::clone(&batch.queue)).collect();
        for ticket in queues.iter().flat_map(|queue| queue.withdraw()) {
            self.settle(ticket, OperationError::Cancelled { reason: Arc::clone(reason) }.into());
        }
    }

    fn heed(&mut self, event: Event) {
        match event {
            Event::Answered(ticket, answer) => match self.open.get(&ticket) {
                Some(open) => {
                    let answer = open.asked.check(answer);
                    if let Some(batch) = self.batches.get(&open.batch) {
                        batch.queue.pulse().beat(Instant::now());
                    }
                    self.settle(ticket, answer);
                }
                None => self.line.counters.late_answer(),
            },
            Event::Ended(batch, ended) => self.fail_rest(batch, &ended),
        }
    }

    /// Fails what the batch left unanswered.
    fn fail_rest(&mut self, first: Ticket, ended: &Ended) {
        let Some(batch) = self.batches.get(&first) else { return };
        let (queue, deadline) = (Arc::clone(&batch.queue), batch.deadline);
        // The actuator may have moved the batch elsewhere: what fails here must not be begun there.
        queue.withdraw();
        let now = Instant::now();
        for ticket in self.open_in(first) {
            let overdue = queue.begun_at(ticket).is_some_and(|begun| later(begun, deadline) <= now);
            let error = match ended {
                Ended::Panicked(error) => error.clone(),
                Ended::Returned | Ended::Dropped if overdue => OperationError::Overdue { within: deadline },
                Ended::Returned | Ended::Dropped => OperationError::NoAnswer,
            };
            self.settle(ticket, error.into());
        }
    }

    /// Fails what has had its time, in the batches whose check is due.
    ///
    /// An operation that is overdue gives its actuator a new chance to take up what waits behind it.
    fn look_for_overdue(&mut self, now: Instant) {
        let later = self.checks.split_off(&(now, Ticket::MAX));
        let due: Vec<Ticket> =
            std::mem::replace(&mut self.checks, later).into_iter().map(|(_, first)| first).collect();
        for first in &due {
            self.fail_overdue(*first, now);
        }
        for first in due {
            self.fail_not_taken_up(first, now);
            self.plan_check(first);
        }
    }

    /// Fails what was begun too long ago.
    fn fail_overdue(&mut self, first: Ticket, now: Instant) {
        let Some(Running { queue, deadline, .. }) = self.batches.get(&first) else { return };
        let (queue, within) = (Arc::clone(queue), *deadline);
        for ticket in self.open_in(first) {
            if queue.begun_at(ticket).is_some_and(|begun| later(begun, within) <= now) {
                queue.pulse().beat(now);
                self.settle(ticket, OperationError::Overdue { within }.into());
            }
        }
    }

    /// Fails what waits for an actuator that is silent: what it did not take up, and what it took ahead and did not
    /// begin.
    fn fail_not_taken_up(&mut self, first: Ticket, now: Instant) {
        let Some(Running { queue, deadline, .. }) = self.batches.get(&first) else { return };
        let (queue, within) = (Arc::clone(queue), *deadline);
        if later(queue.pulse().last(), within) > now {
            return;
        }
        queue.withdraw();
        for ticket in self.open_in(first) {
            if queue.begun_at(ticket).is_none() {
                self.settle(ticket, OperationError::NotTakenUp { within }.into());
            }
        }
    }

    /// Plans when to look at the batch again: when the next of its operations may be overdue.
    fn plan_check(&mut self, first: Ticket) {
        let open = self.open_in(first);
        let Some(batch) = self.batches.get_mut(&first) else { return };
        let silent_since = batch.queue.pulse().last();
        let since = open.into_iter().map(|ticket| batch.queue.begun_at(ticket).unwrap_or(silent_since)).min();
        batch.check = later(since.unwrap_or(silent_since), batch.deadline);
        self.checks.insert((batch.check, first));
    }

    /// The operations of a batch that are not settled.
    fn open_in(&self, first: Ticket) -> Vec<Ticket> {
        let end = self.batches.get(&first).map_or(first, |batch| batch.end);
        self.open.range(first..end).map(|(ticket, _)| *ticket).collect()
    }

    fn settle(&mut self, ticket: Ticket, answer: Answer) {
        let Some(open) = self.open.remove(&ticket) else { return };
        if let Some(batch) = self.batches.get_mut(&open.batch) {
            batch.left -= 1;
            if batch.left == 0 {
                self.checks.remove(&(batch.check, open.batch));
                self.batches.remove(&open.batch);
            }
        }
        self.settled.push((open.tag, answer));
    }
}

impl<T> Drop for Dispatch<'_, T> {
    /// Begins nothing more, and counts the answers that came too late to be seen.
    fn drop(&mut self) {
        for batch in self.batches.values() {
            batch.queue.withdraw();
        }
        self.receiver.close();
        while let Ok(event) = self.receiver.try_recv() {
            if let Event::Answered(..) = event {
                self.line.counters.late_answer();
            }
        }
    }
}

/// Lets the actuator perform the batch, and reports its end.
///
/// Once nobody waits for the batch, its future has the grace to end by itself; then it is dropped.
async fn attend(
    actuator: Arc<dyn Actuator>,
    batch: Batch,
    first: Ticket,
    line: Arc<Line>,
    unwanted: oneshot::Receiver<()>,
    grace: Duration,
) {
    // The call stands inside, so that a panic before the first await point is caught too.
    let acting = AssertUnwindSafe(async { actuator.perform(batch).await }).catch_unwind();
    let mut acting = pin!(acting);
    let result = tokio::select! {
        biased;
        result = &mut acting => Some(result),
        _ = unwanted => tokio::time::timeout(grace, acting).await.ok(),
    };
    let ended = match result {
        Some(Ok(())) => Ended::Returned,
        Some(Err(payload)) => {
            line.counters.panic();
            Ended::Panicked(OperationError::panicked(&*payload))
        }
        None => {
            line.counters.dropped_batch();
            Ended::Dropped
        }
    };
    // Without a receiver the transaction is over, and nobody has to know.
    let _ = line.sender.send(Event::Ended(first, ended));
}

/// The moment after the span, or ages away.
fn later(moment: Instant, span: Duration) -> Instant {
    moment.checked_add(span).unwrap_or_else(|| moment + AGES)
}
