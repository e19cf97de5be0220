//! The writer: one thread that changes the file.
//!
//! Decided here: which requests share a transaction of the file (all that wait), and how the store goes on after an
//! error. The steps of a group:
//!
//! 1. leases whose time is over are ended;
//! 2. each request is applied, or refused on its own;
//! 3. the transaction is committed and synced;
//! 4. watches are told, then everyone who asked is answered.
//!
//! When the file cannot be written, nobody's request happened; the file is opened again and the writer goes on. When
//! a *sync* fails, nobody knows what is on disk: every later write is refused until the program starts again.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::apply::{self, Group};
use super::queue::{Request, Taken};
use super::shared::{Head, Opened, Shared};
use super::tables::Tables;
use super::translate::{self, Trying, WRITE};
use super::{compact, leases};
use crate::{Committed, Lease, LeaseId, StoreError, Told};

/// The longest wait for a request, when no lease ends sooner.
const PATIENCE: Duration = Duration::from_secs(3600);
/// The wait after an error, when a lease is over and cannot be ended.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts the writer's thread.
pub(super) fn spawn(shared: Arc<Shared>) -> Result<JoinHandle<()>, StoreError> {
    let attempt = format!("start the writer of `{}`", shared.path.display());
    let writer = Writer { shared, broken: None, must_reopen: false };
    let thread = std::thread::Builder::new().name("store-writer".to_owned());
    thread.spawn(move || writer.run()).map_err(|error| translate::io(attempt, error))
}

struct Writer {
    shared: Arc<Shared>,
    /// Why nothing can be written any more.
    broken: Option<StoreError>,
    /// The file has to be opened again before the next write.
    must_reopen: bool,
}

/// A group that is on disk.
struct Done {
    head: Head,
    told: Vec<Told>,
    outcomes: Vec<Outcome>,
}

/// What one request came to.
enum Outcome {
    Committed(Committed),
    Compacted,
    Granted(Lease),
    Looked,
    Refused(StoreError),
}

impl Writer {
    fn run(mut self) {
        loop {
            let now = self.shared.settings.clock.now();
            let due = self.shared.deadlines.next(now).unwrap_or(PATIENCE).min(PATIENCE);
            let stuck = self.broken.is_some() || self.must_reopen;
            match self.shared.queue.take(if stuck { due.max(PAUSE) } else { due }) {
                Taken::Requests(requests) => self.group(requests),
                Taken::Closed => return,
            }
        }
    }

    /// Carries out requests together, and answers them.
    fn group(&mut self, requests: Vec<Request>) {
        let over = self.shared.deadlines.over(self.shared.settings.clock.now());
        if requests.is_empty() && over.is_empty() {
            return;
        }
        match self.attempt(&requests, &over) {
            Ok(done) => self.finish(requests, &over, done),
            // One that needs much room must not fail its neighbours.
            Err(StoreError::Full { .. }) if requests.len() > 1 => {
                requests.into_iter().for_each(|request| self.group(vec![request]));
            }
            Err(error) => requests.into_iter().for_each(|request| request.refuse(error.clone())),
        }
    }

    fn attempt(&mut self, requests: &[Request], over: &[LeaseId]) -> Result<Done, StoreError> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        if self.must_reopen {
            self.shared.reopen()?;
            self.must_reopen = false;
        }
        let shared = Arc::clone(&self.shared);
        let attempted = translate::guarded(WRITE, || {
            shared.with_opened(|opened| {
                let done = carry_out(&shared, opened, requests, over);
                done.map_err(|error| self.recover(opened, error))
            })
        });
        self.must_reopen |= attempted.is_err() && self.broken.is_none();
        attempted
    }

    /// What an error while writing means for what comes after it.
    fn recover(&mut self, opened: &Opened, error: StoreError) -> StoreError {
        if !opened.backend.sync_failed() {
            return error;
        }
        let source = Arc::new(error);
        self.broken = Some(StoreError::Unavailable {
            attempt: "write the store, since a sync failed; hint: look at the disk, then start again"
                .to_owned(),
            source: Arc::clone(&source) as _,
        });
        StoreError::Uncertain { attempt: WRITE.to_owned(), source }
    }

    /// Tells the watches, then everyone who asked.
    fn finish(&self, requests: Vec<Request>, over: &[LeaseId], done: Done) {
        let now = self.shared.settings.clock.now();
        over.iter().for_each(|lease| self.shared.deadlines.forget(*lease));
        done.told.into_iter().for_each(|told| self.shared.recent.add(told));
        self.shared.head.send_replace(done.head);
        for (request, outcome) in requests.into_iter().zip(done.outcomes) {
            // Whoever asked may have stopped waiting.
            match (request, outcome) {
                (request, Outcome::Refused(error)) => request.refuse(error),
                (Request::Write { answer, .. }, Outcome::Committed(committed)) => {
                    drop(answer.send(Ok(committed)));
                }
                (Request::Revoke { lease, answer }, Outcome::Committed(committed)) => {
                    self.shared.deadlines.forget(lease);
                    drop(answer.send(Ok(committed)));
                }
                (Request::Grant { answer, .. }, Outcome::Granted(lease)) => {
                    self.shared.deadlines.begin(lease, now);
                    drop(answer.send(Ok(lease)));
                }
                (Request::Compact { answer, .. }, Outcome::Compacted)
                | (Request::Expire { answer }, Outcome::Looked) => drop(answer.send(Ok(()))),
                (request, _) => unreachable!("an outcome of another kind than {request:?}"),
            }
        }
    }
}

/// Applies requests in one transaction of the file, and syncs it.
fn carry_out(
    shared: &Shared,
    opened: &Opened,
    requests: &[Request],
    over: &[LeaseId],
) -> Result<Done, StoreError> {
    let txn = opened.database.begin_write().trying(WRITE)?;
    let done = fill(shared, Tables::open(&txn)?, requests, over)?;
    let unchanged = |outcome: &Outcome| matches!(outcome, Outcome::Refused(_) | Outcome::Looked);
    if over.is_empty() && done.outcomes.iter().all(unchanged) {
        txn.abort().trying(WRITE)?;
    } else {
        txn.commit().trying(WRITE)?;
    }
    Ok(done)
}

/// Ends leases and applies requests to the tables of one transaction.
fn fill(
    shared: &Shared,
    tables: Tables<'_>,
    requests: &[Request],
    over: &[LeaseId],
) -> Result<Done, StoreError> {
    let mut group = Group::begin(tables)?;
    for lease in over {
        match leases::revoke(&mut group, *lease) {
            Ok(_) | Err(StoreError::NoSuchLease(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let mut outcomes = Vec::with_capacity(requests.len());
    for request in requests {
        outcomes.push(apply_one(shared, &mut group, request)?);
    }
    group.end(shared.settings.keep_revisions)?;
    let head = Head { revision: group.head, oldest: group.oldest, closed: false };
    Ok(Done { head, told: group.told, outcomes })
}

/// Applies one request. What is refused has changed nothing; any other error ends the whole group.
fn apply_one(shared: &Shared, group: &mut Group<'_>, request: &Request) -> Result<Outcome, StoreError> {
    let applied = match request {
        Request::Write { batch, .. } => apply::write(group, batch, &shared.settings).map(Outcome::Committed),
        Request::Compact { before, .. } => compact::compact(group, *before).map(|()| Outcome::Compacted),
        Request::Grant { ttl, .. } => leases::grant(&mut group.tables, *ttl).map(Outcome::Granted),
        Request::Revoke { lease, .. } => leases::revoke(group, *lease).map(Outcome::Committed),
        Request::Expire { .. } => Ok(Outcome::Looked),
    };
    match applied {
        Err(
            refusal @ (StoreError::Conflict { .. }
            | StoreError::NoSuchLease(_)
            | StoreError::Invalid { .. }
            | StoreError::Ahead { .. }),
        ) => Ok(Outcome::Refused(refusal)),
        other => other,
    }
}
