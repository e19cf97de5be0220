//! One run of the controller, from its start to its end.
//!
//! Numbered steps: 1. every resource is watched; 2. the lease is taken, and kept from here on; 3. every list has been read; 4. the controller
//! begins with what is there; 5. it settles whenever something changes, or when something is due; 6. statuses follow a
//! moment later, many changes in one write.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use kilter_scheduler::Timestamp;
use kilter_southbound::{Clock, SystemClock};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::Server;
use crate::controller::{Controller, ControllerError};
use crate::counts::Counts;
use crate::lease::Lease;
use crate::mirror::Shared;
use crate::object::Resource;
use crate::onlooker;
use crate::request::Api;
use crate::serve::{Question, Seen, serve};
use crate::settings::Settings;
use crate::watch::{Wake, follow};

/// How long changes are gathered before a status is written.
const GATHERED: Duration = Duration::from_millis(200);

/// As long as nothing is due, something has to change.
const IDLE: Duration = Duration::from_secs(3600);

/// Why a run ended before it was stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Somebody else leads.
    #[error("the lease was lost")]
    Deposed,
    /// The controller cannot go on.
    #[error(transparent)]
    Controller(#[from] ControllerError),
}

/// The parts of a run.
pub struct Run {
    /// The cluster, as it is watched.
    pub server: Server,
    /// Who carries requests to it: usually the same.
    pub api: Arc<dyn Api>,
    /// What can be set.
    pub settings: Settings,
    /// The right to act; `None` if nobody else could.
    pub lease: Option<Lease>,
    /// What is counted.
    pub counts: Arc<Counts>,
    /// Where numbers and the combined status may be asked for; `None` for nowhere.
    pub listener: Option<TcpListener>,
    /// What is served there beside them.
    pub page: Router,
}

impl Run {
    /// Keeps the flows of the cluster until it is stopped.
    pub async fn until(self, stop: impl Future<Output = ()>) -> Result<(), RunError> {
        let Self { server, api, settings, mut lease, counts, listener, page } = self;
        let (mirror, wake) = (Shared::default(), Wake::default());
        let server = server.counted(&counts);
        let (ask, mut questions) = mpsc::channel(16);
        let mut watches = JoinSet::new();
        for resource in Resource::ALL {
            watches.spawn(follow(server.clone(), resource, mirror.clone(), wake.clone()));
        } // 1
        if let Some(listener) = listener {
            let (mirror, counts, wake) = (mirror.clone(), Arc::clone(&counts), wake.clone());
            let seen = Seen { mirror, counts, wake, ask, places: onlooker::places() };
            watches.spawn(serve(listener, seen, page));
        }
        let mut stop = pin!(stop);
        if let Some(lease) = &mut lease {
            tokio::select! {
                () = &mut stop => return Ok(()),
                () = lease.take() => tracing::info!("leads"),
            }
        } // 2
        let led = async {
            match &mut lease {
                Some(lease) => lease.keep().await,
                None => std::future::pending().await,
            }
        };
        let kept = async {
            while !Resource::ALL.into_iter().all(|resource| mirror.lock().is_complete(resource)) {
                wake.changed().await;
            } // 3
            let clock: Arc<dyn Clock> = Arc::new(SystemClock);
            match Controller::new(settings, api, mirror.clone(), clock, counts) {
                Ok(mut controller) => keep(&mut controller, &wake, &mut questions).await,
                Err(error) => error,
            } // 4
        };
        let ended = tokio::select! {
            () = &mut stop => Ok(()),
            () = led => Err(RunError::Deposed),
            error = kept => Err(error.into()),
        };
        if let (Ok(()), Some(lease)) = (&ended, &mut lease) {
            lease.give_up().await;
        }
        ended
    }
}

/// Settles whenever something changes or is due; ends only if it cannot go on.
async fn keep(
    controller: &mut Controller,
    wake: &Wake,
    questions: &mut mpsc::Receiver<Question>,
) -> ControllerError {
    let mut write_at: Option<Instant> = None;
    loop {
        let deadline = match controller.settle().await {
            Ok(deadline) => deadline,
            Err(error) => return error,
        }; // 5
        let at = |moment: Timestamp| Instant::now() + moment.since(SystemClock.now());
        let again = controller.statuses_due().map(at);
        if write_at.into_iter().chain(again).any(|at| at <= Instant::now()) {
            controller.write_statuses().await;
            write_at = None;
            continue;
        }
        if write_at.is_none() && controller.owes_statuses() {
            write_at = Some(Instant::now() + GATHERED);
        } // 6
        let due = deadline.map(at).into_iter().chain(again).chain(write_at);
        let next = due.min().unwrap_or_else(|| Instant::now() + IDLE);
        tokio::select! {
            () = wake.changed() => {}
            () = tokio::time::sleep_until(next) => {}
            Some(Question { namespace, flow, answer }) = questions.recv() => {
                // Whoever asked may have gone.
                let _ = answer.send(controller.explain(&namespace, &flow));
            }
        }
    }
}
