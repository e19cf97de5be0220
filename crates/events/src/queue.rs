//! The queue: who may push, and who comes first.
//!
//! Decided here: the bound, the startup gate, and the order among events that are ready: follow-ups, the verification
//! they lead to, shutdown, what waited at the gate, the queue. Not decided here: timers; see [`crate::healing`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::builtin::{DatabaseResync, Shutdown};
use crate::completion::{Completion, Waiter};
use crate::effect::EffectEnded;
use crate::error::EventError;
use crate::event::Event;

/// Why an event was not taken into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// There is no room.
    #[error("the queue of {bound} events is full")]
    Full {
        /// How many events it holds.
        bound: usize,
    },
    /// The loop has ended.
    #[error("the event loop has ended")]
    Closed,
}

/// An event in the queue.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) event: Event,
    pub(crate) completion: Option<Completion>,
    pub(crate) follow_up_to: Option<u64>,
}

impl Queued {
    /// An event that the loop makes by itself.
    pub(crate) fn own(event: Event) -> Self {
        Self { event, completion: None, follow_up_to: None }
    }

    /// Tells the producer that nothing will come of it.
    pub(crate) fn refuse(self, why: EventError) {
        if let Some(completion) = self.completion {
            completion.complete(Err(why));
        }
    }
}

type Wake = Arc<dyn Fn() + Send + Sync>;

/// Where producers leave events, from any thread.
pub(crate) struct Inbox {
    bound: usize,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    events: VecDeque<Queued>,
    shutdown: VecDeque<Queued>,
    /// Room that is taken without being in the queue: events behind the gate, results that are awaited.
    taken: usize,
    closed: bool,
    refused: u64,
    wake: Option<Wake>,
}

impl Inbox {
    pub(crate) fn new(bound: usize) -> Arc<Self> {
        Arc::new(Self { bound, inside: Mutex::default() })
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        // Nothing panics while it is locked; a poisoned lock would still hold whole events.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, queued: Queued, reserved: bool) -> Result<(), PushError> {
        let mut inside = self.inside();
        let refusal = if inside.closed {
            Some(PushError::Closed)
        } else if queued.event.is::<Shutdown>() {
            None
        } else if !reserved && inside.events.len() + inside.taken >= self.bound {
            Some(PushError::Full { bound: self.bound })
        } else {
            None
        };
        if let Some(refusal) = refusal {
            inside.refused += 1;
            drop(inside);
            queued.refuse(EventError::Refused(refusal));
            return Err(refusal);
        }
        if queued.event.is::<Shutdown>() {
            inside.shutdown.push_back(queued);
        } else {
            inside.taken -= usize::from(reserved && inside.taken > 0);
            inside.events.push_back(queued);
        }
        let wake = inside.wake.clone();
        drop(inside);
        if let Some(wake) = wake {
            wake();
        }
        Ok(())
    }

    fn reserve(&self, places: usize) {
        self.inside().taken += places;
    }

    fn close(&self) -> Vec<Queued> {
        let mut inside = self.inside();
        inside.closed = true;
        inside.taken = 0;
        let shutdown = std::mem::take(&mut inside.shutdown);
        inside.events.drain(..).chain(shutdown).collect()
    }
}

/// Pushes events into the loop, from any thread. Cloning is cheap.
#[derive(Clone)]
pub struct Producer(Arc<Inbox>);

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Producer(..)")
    }
}

impl Producer {
    pub(crate) fn new(inbox: Arc<Inbox>) -> Self {
        Self(inbox)
    }

    /// Leaves an event. The error covers only the queue, not what becomes of the event.
    pub fn push(&self, event: Event) -> Result<(), PushError> {
        self.0.push(Queued { event, completion: None, follow_up_to: None }, false)
    }

    /// Leaves an event whose end is waited for. A refused event is answered, too.
    pub fn push_blocking(&self, event: Event) -> Result<Waiter, PushError> {
        let (completion, waiter) = Completion::pair();
        self.push_completed(event, completion).map(|()| waiter)
    }

    /// Leaves an event whose end is told through the completion. A refused event is answered, too.
    pub fn push_completed(&self, event: Event, completion: Completion) -> Result<(), PushError> {
        self.0.push(Queued { event, completion: Some(completion), follow_up_to: None }, false)
    }

    /// Leaves the result of an effect. There is room for it: it was reserved when the effect was handed out.
    pub fn push_ended(&self, ended: EffectEnded) -> Result<(), PushError> {
        self.0.push(Queued { event: Event::new(ended), completion: None, follow_up_to: None }, true)
    }

    /// Is called after every event that was taken, from the producer's thread; replaces what was set before.
    pub fn on_push(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.0.inside().wake = Some(Arc::new(wake));
    }

    /// How many events were refused.
    pub fn refused(&self) -> u64 {
        self.0.inside().refused
    }
}

/// The events that are ready, and the order among them.
#[derive(Debug)]
pub(crate) struct Queue {
    inbox: Arc<Inbox>,
    follow_ups: VecDeque<Queued>,
    /// What came before the startup resync, in order.
    delayed: VecDeque<Queued>,
    /// What this call took out of the inbox, to be written down; `None` while nothing is recorded.
    pub(crate) taken: Option<Vec<Event>>,
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inbox(..)")
    }
}

impl Queue {
    pub(crate) fn new(inbox: Arc<Inbox>) -> Self {
        Self { inbox, follow_ups: VecDeque::new(), delayed: VecDeque::new(), taken: None }
    }

    /// How many follow-ups wait.
    pub(crate) fn follow_ups(&self) -> usize {
        self.follow_ups.len()
    }

    pub(crate) fn follow(&mut self, events: Vec<Event>, to: u64) {
        let queued = |event| Queued { event, completion: None, follow_up_to: Some(to) };
        self.follow_ups.extend(events.into_iter().map(queued));
    }

    pub(crate) fn reserve(&self, places: usize) {
        self.inbox.reserve(places);
    }

    fn note(&mut self, queued: Queued) -> Queued {
        if let Some(taken) = &mut self.taken {
            taken.push(queued.event.clone());
        }
        queued
    }

    pub(crate) fn next_follow_up(&mut self) -> Option<Queued> {
        self.follow_ups.pop_front()
    }

    pub(crate) fn shutdown(&mut self) -> Option<Queued> {
        let queued = self.inbox.inside().shutdown.pop_front()?;
        Some(self.note(queued))
    }

    /// Only the first database resync passes the gate; what came before it waits in order.
    pub(crate) fn startup(&mut self) -> Option<Queued> {
        loop {
            let mut inside = self.inbox.inside();
            let queued = inside.events.pop_front()?;
            let passes = queued.event.is::<DatabaseResync>();
            inside.taken += usize::from(!passes);
            drop(inside);
            let queued = self.note(queued);
            if passes {
                return Some(queued);
            }
            self.delayed.push_back(queued);
        }
    }

    /// What waited at the gate, then what was pushed.
    pub(crate) fn next(&mut self) -> Option<Queued> {
        let mut inside = self.inbox.inside();
        if let Some(queued) = self.delayed.pop_front() {
            inside.taken -= 1;
            return Some(queued);
        }
        let queued = inside.events.pop_front()?;
        drop(inside);
        Some(self.note(queued))
    }

    /// Closes the gate once more: this one passes it, and what waited at it waits in the inbox again, before everything
    /// else.
    pub(crate) fn put_back(&mut self, first: Queued) {
        let mut inside = self.inbox.inside();
        inside.taken -= self.delayed.len();
        while let Some(queued) = self.delayed.pop_back() {
            inside.events.push_front(queued);
        }
        inside.events.push_front(first);
    }

    /// Answers everything but shutdown.
    pub(crate) fn answer_all(&mut self) {
        let mut inside = self.inbox.inside();
        inside.taken -= self.delayed.len();
        let pushed: Vec<Queued> = inside.events.drain(..).collect();
        drop(inside);
        for queued in self.follow_ups.drain(..).chain(self.delayed.drain(..)).chain(pushed) {
            queued.refuse(EventError::Aborting);
        }
    }

    /// Takes nothing any more, and answers everything.
    pub(crate) fn close(&mut self) {
        let pushed = self.inbox.close();
        for queued in self.follow_ups.drain(..).chain(self.delayed.drain(..)).chain(pushed) {
            queued.refuse(EventError::Aborted);
        }
    }
}

impl Drop for Queue {
    /// A producer learns that nobody will look at its event.
    fn drop(&mut self) {
        self.close();
    }
}
