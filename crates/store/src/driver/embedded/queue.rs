//! Requests on their way to the writer.
//!
//! Decided here: how many may wait. Whoever comes when the queue is full waits for room; nothing is dropped.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use super::Batch;
use crate::{Committed, Lease, LeaseId, Revision, StoreError};

/// How many requests may wait for the writer.
const ROOM: usize = 1024;

/// Where the answer to a request goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// One thing asked of the writer.
#[derive(Debug)]
pub(super) enum Request {
    Write { batch: Batch, answer: Reply<Committed> },
    Compact { before: Revision, answer: Reply<()> },
    Grant { ttl: Duration, answer: Reply<Lease> },
    Revoke { lease: LeaseId, answer: Reply<Committed> },
    Expire { answer: Reply<()> },
}

impl Request {
    /// Answers with an error.
    pub(super) fn refuse(self, error: StoreError) {
        // Whoever asked may have stopped waiting.
        match self {
            Self::Write { answer, .. } | Self::Revoke { answer, .. } => drop(answer.send(Err(error))),
            Self::Compact { answer, .. } | Self::Expire { answer } => drop(answer.send(Err(error))),
            Self::Grant { answer, .. } => drop(answer.send(Err(error))),
        }
    }
}

/// What the writer finds when it looks.
#[derive(Debug)]
pub(super) enum Taken {
    /// Requests in the order they came; none when the time is over first.
    Requests(Vec<Request>),
    /// Nothing will come any more.
    Closed,
}

/// Requests in the order they came.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    room: Semaphore,
}

#[derive(Debug, Default)]
struct Waiting {
    requests: VecDeque<Request>,
    closed: bool,
}

impl Default for Queue {
    fn default() -> Self {
        Self { waiting: Mutex::default(), changed: Condvar::new(), room: Semaphore::new(ROOM) }
    }
}

impl Queue {
    /// Waits until one more request may be pushed; the room is taken until the permit is dropped.
    pub(super) async fn room(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        self.room.acquire().await.map_err(|_| StoreError::Closed)
    }

    pub(super) fn push(&self, request: Request) -> Result<(), StoreError> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.closed {
            return Err(StoreError::Closed);
        }
        waiting.requests.push_back(request);
        self.changed.notify_one();
        Ok(())
    }

    /// Waits for requests, at most for a span, and takes all there are.
    pub(super) fn take(&self, patience: Duration) -> Taken {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |waiting: &mut Waiting| waiting.requests.is_empty() && !waiting.closed;
        let (mut waiting, _) =
            self.changed.wait_timeout_while(waiting, patience, idle).unwrap_or_else(PoisonError::into_inner);
        if waiting.requests.is_empty() && waiting.closed {
            return Taken::Closed;
        }
        Taken::Requests(waiting.requests.drain(..).collect())
    }

    /// Takes nothing more; what waits already is still done.
    pub(super) fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.room.close();
        self.changed.notify_all();
    }
}
