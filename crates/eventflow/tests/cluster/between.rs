//! Stands between a controller and the cluster: remembers its requests, holds one up, or ends its life.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use kilter_eventflow::client::Server;
use kilter_eventflow::object::Resource;
use kilter_eventflow::request::{Api, Rejected, Request, Sent};
use kilter_southbound::BoxFuture;
use tokio::sync::watch;

/// How far a controller may go.
pub(crate) struct Between {
    server: Server,
    log: Mutex<Vec<(Instant, Request)>>,
    /// So many writes are carried out; the answer to the last one is never learned.
    dies_after: Mutex<Option<usize>>,
    /// Requests of this sort wait until they are let through.
    holds: Option<fn(&Request) -> bool>,
    stage: watch::Sender<Stage>,
    /// Requests of this sort are rejected.
    rejects: Mutex<Option<Veto>>,
}

/// Which requests are rejected, and how.
type Veto = (fn(&Request) -> bool, Rejected);

/// What has become of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Runs,
    Held,
    LetThrough,
    Dead,
}

impl Between {
    fn new(server: Server, dies_after: Option<usize>, holds: Option<fn(&Request) -> bool>) -> Self {
        let (log, dies_after) = (Mutex::default(), Mutex::new(dies_after));
        Self {
            server,
            log,
            dies_after,
            holds,
            stage: watch::Sender::new(Stage::Runs),
            rejects: Mutex::default(),
        }
    }

    /// Rejects every request of a sort, until it relents.
    pub(crate) fn rejects(server: Server, sort: fn(&Request) -> bool, rejected: Rejected) -> Self {
        let between = Self::open(server);
        *between.rejects.lock().unwrap_or_else(PoisonError::into_inner) = Some((sort, rejected));
        between
    }

    /// Rejects nothing any more.
    pub(crate) fn relent(&self) {
        *self.rejects.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn rejection(&self, request: &Request) -> Option<Rejected> {
        let rejects = self.rejects.lock().unwrap_or_else(PoisonError::into_inner);
        rejects.as_ref().filter(|(sort, _)| sort(request)).map(|(_, rejected)| rejected.clone())
    }

    /// Lets everything through.
    pub(crate) fn open(server: Server) -> Self {
        Self::new(server, None, None)
    }

    /// Lets so many requests through.
    pub(crate) fn dies_after(server: Server, requests: usize) -> Self {
        Self::new(server, Some(requests), None)
    }

    /// Holds up the first request of a sort.
    pub(crate) fn holds(server: Server, sort: fn(&Request) -> bool) -> Self {
        Self::new(server, None, Some(sort))
    }

    pub(crate) fn is_dead(&self) -> bool {
        *self.stage.borrow() == Stage::Dead
    }

    /// Waits for its end.
    pub(crate) async fn died(&self) {
        let mut stage = self.stage.subscribe();
        // Whoever dropped it waits for nothing any more.
        let _ = stage.wait_for(|stage| *stage == Stage::Dead).await;
    }

    /// Lets it live, if it still does.
    pub(crate) fn spare(&self) {
        *self.dies_after.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn last(&self) -> Option<usize> {
        *self.dies_after.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_held(&self) -> bool {
        *self.stage.borrow() == Stage::Held
    }

    pub(crate) fn let_through(&self) {
        self.stage.send_replace(Stage::LetThrough);
    }

    pub(crate) fn deletions(&self, resource: Resource) -> usize {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.iter()
            .filter(|(_, it)| matches!(it, Request::Delete { id, .. } if id.resource == resource))
            .count()
    }

    /// When it wrote, or was about to, in order.
    pub(crate) fn writes(&self) -> Vec<Instant> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.iter().map(|(at, _)| *at).collect()
    }

    async fn die(&self) -> ! {
        self.stage.send_replace(Stage::Dead);
        std::future::pending().await
    }

    async fn carry(&self, request: Request) -> Result<Sent, Rejected> {
        // Nothing follows from what is read or announced.
        if matches!(request, Request::Announce { .. } | Request::Read { .. }) {
            return self.server.send(request).await;
        }
        let number = {
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            log.push((Instant::now(), request.clone()));
            log.len()
        };
        if self.last().is_some_and(|last| number > last) {
            self.die().await;
        }
        let is_first = *self.stage.borrow() == Stage::Runs;
        if is_first && self.holds.is_some_and(|sort| sort(&request)) {
            self.stage.send_replace(Stage::Held);
            let mut stage = self.stage.subscribe();
            // Whoever dropped it wants nothing any more.
            let _ = stage.wait_for(|stage| *stage == Stage::LetThrough).await;
        }
        if let Some(rejected) = self.rejection(&request) {
            return Err(rejected);
        }
        let sent = self.server.send(request).await;
        if self.last() == Some(number) {
            self.die().await;
        }
        sent
    }
}

impl Api for Between {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Sent, Rejected>> {
        Box::pin(self.carry(request))
    }
}
