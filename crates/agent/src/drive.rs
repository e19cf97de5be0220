//! Driving the loop: one task asks it what to do next, performs it, and tells the outcome.
//!
//! Decided here: that nothing is done between two steps but heeding the kernel, and that a stop is a cancellation of
//! what is under way and then a shutdown. Not decided here: the order among events; see [`kilter_events::EventLoop`].

use std::sync::Arc;
use std::time::Duration;

use kilter_cli::CommandError;
use kilter_events::builtin::Shutdown;
use kilter_events::{Event, EventLoop, EventRecord, Fatal, Opening, Producer, Step};
use kilter_linux::drift::Healing;
use kilter_linux::{KernelError, drift};
use kilter_model::document::Declared;
use kilter_scheduler::{Plan, Record, Request, Resync, Scheduler, Timestamp, Txn};
use kilter_southbound::{Cancel, Clock as _, Decision, Driver, Finished, Observer};
use tokio::sync::Notify;

use crate::assemble::Assembly;
use crate::clock::SteadyClock;
use crate::drift::{Attention, Heeded};
use crate::feed::directory::{self, Directory};

/// As long as nothing is due, somebody has to push.
const IDLE: Duration = Duration::from_secs(3600);

/// Somebody who sees what the agent does.
///
/// **Assumes** that the methods return soon: the loop waits for them.
pub trait Audience: Send {
    /// An event begins.
    fn opened(&mut self, _opening: &Opening) {}
    /// A transaction is planned and nothing is done yet; says whether it changes what is declared.
    fn planned(&mut self, _plan: &Plan, _declares: bool) -> Decision {
        Decision::Execute
    }
    /// An operation was answered.
    fn finished(&mut self, _operation: Finished<'_>) {}
    /// A transaction was carried out, well or not: of an event, or a retry.
    fn committed(&mut self, _record: &Record) {}
    /// An event has ended.
    fn closed(&mut self, _record: &EventRecord) {}
    /// Nothing is to be done right now; settled, if nothing is planned for later either.
    fn waiting(&mut self, _scheduler: &Scheduler, _settled: bool) -> Pursuit {
        Pursuit::GoOn
    }
    /// The kernel was heeded, and something came of it that a person should know.
    fn heeded(&mut self, _heeded: &Heeded) {}
    /// The directory has changed, and declares this from now on; or it is wrong, and what was declared stays.
    fn declared(&mut self, _declared: Result<&[Declared], &CommandError>) {}
    /// The agent must end.
    fn fatal(&mut self, _fatal: &Fatal) {}
}

/// Whether the agent goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pursuit {
    /// It goes on.
    GoOn,
    /// It ends.
    End,
}

/// Ends the agent, from anywhere.
#[derive(Clone, Debug)]
pub struct Stop {
    cancel: Cancel,
    producer: Producer,
}

impl Stop {
    /// Begins nothing further of what is under way, then shuts down.
    pub fn stop(&self, reason: &str) {
        self.cancel.cancel(reason);
        // A loop that has ended needs no shutdown.
        let _ = self.producer.push(Event::new(Shutdown));
    }
}

/// The agent, ready to run.
pub struct Agent {
    events: EventLoop,
    driver: Driver,
    clock: SteadyClock,
    attention: Attention,
    directory: Option<Directory>,
    pushed: Arc<Notify>,
    cancel: Cancel,
}

impl Agent {
    /// Begins to watch the kernel: what happens from here on is noticed.
    pub async fn new(assembly: Assembly, settings: drift::Settings) -> Result<Self, KernelError> {
        let Assembly { events, driver, linux, clock } = assembly;
        let pushed = Arc::new(Notify::new());
        let wake = Arc::clone(&pushed);
        events.producer().on_push(move || wake.notify_one());
        let watch = linux.watch().await?;
        let attention = Attention::new(watch, Healing::new(settings), events.producer());
        Ok(Self { events, driver, clock, attention, directory: None, pushed, cancel: Cancel::new() })
    }

    /// Declares the directory anew whenever it changes.
    #[must_use]
    pub fn following(self, directory: Directory) -> Self {
        Self { directory: Some(directory), ..self }
    }

    /// Where events are pushed.
    pub fn producer(&self) -> Producer {
        self.events.producer()
    }

    /// How to end the agent.
    pub fn stop(&self) -> Stop {
        Stop { cancel: self.cancel.clone(), producer: self.producer() }
    }

    /// Drives the loop until it has ended.
    pub async fn run(mut self, audience: &mut dyn Audience) -> EventLoop {
        loop {
            match self.events.next(self.clock.now()) {
                Step::Opened(opening) => audience.opened(&opening),
                Step::Commit(txn) => self.commit(txn, audience).await,
                Step::Plan(txn) => {
                    let plan = self.driver.plan_only(self.events.scheduler_mut(), txn, &self.clock).await;
                    self.events.planned(plan, self.clock.now());
                }
                Step::Closed(record) => audience.closed(&record),
                Step::Perform(effect) => {
                    let missing = format!("nobody performs `{}`", effect.name);
                    // The loop reserved room for it.
                    let _ = self.producer().push_ended(effect.ended(Err(missing)));
                }
                Step::Wait(deadline) => self.wait(deadline, audience).await,
                Step::Fatal(fatal) => {
                    audience.fatal(&fatal);
                    self.stop().stop("the agent must end");
                }
                Step::Stopped => return self.events,
            }
        }
    }

    fn declare(&mut self, declared: Result<Vec<Declared>, CommandError>, audience: &mut dyn Audience) {
        audience.declared(declared.as_deref());
        let Ok(declared) = declared else { return };
        self.attention.forgive(declared.iter().map(|item| &item.key));
        let pushed = self.producer().push(Event::new(directory::anew(&declared)));
        if let (Err(error), Some(directory)) = (pushed, &mut self.directory) {
            directory.read_again();
            let attempt = "failed to declare the directory, it will be tried again".to_owned();
            let error = CommandError::Broken { attempt, source: Some(Box::new(error)) };
            audience.declared(Err(&error));
        }
    }

    async fn commit(&mut self, txn: Txn, audience: &mut dyn Audience) {
        let Self { events, driver, clock, cancel, .. } = self;
        let declares = match &txn.request {
            Request::Changes { .. } | Request::Resync(Resync::Full(_) | Resync::Upstream(_)) => true,
            Request::Resync(Resync::Downstream | Resync::Refresh(_))
            | Request::Notification(_)
            | Request::Retry(_)
            | Request::LateKind
            | Request::Overdue(_) => false,
        };
        let mut relay = Relay { audience, declares };
        let ending = driver.run(events.scheduler_mut(), txn, clock, &mut relay, cancel).await;
        let record = ending.record();
        events.committed(record.clone(), clock.now());
        if let Some(record) = record {
            audience.committed(&record);
        }
    }

    async fn wait(&mut self, deadline: Option<Timestamp>, audience: &mut dyn Audience) {
        let now = self.clock.now();
        if self.attention.push_due(now) {
            return;
        }
        let later = self.attention.deadline();
        let settled = deadline.is_none() && later.is_none();
        if audience.waiting(self.events.scheduler(), settled) == Pursuit::End {
            return self.stop().stop("told to end");
        }
        let patience = deadline.into_iter().chain(later).min().map_or(IDLE, |at| at.since(now));
        tokio::select! {
            () = self.pushed.notified() => {}
            () = tokio::time::sleep(patience) => {}
            declared = changed(&mut self.directory) => self.declare(declared, audience),
            noticed = self.attention.noticed() => {
                let heeded = self.attention.heed(noticed, self.events.scheduler(), self.clock.now());
                if heeded != Heeded::default() {
                    audience.heeded(&heeded);
                }
            }
        }
    }
}

/// The next change of the directory, if one is followed.
async fn changed(directory: &mut Option<Directory>) -> Result<Vec<Declared>, CommandError> {
    match directory {
        Some(directory) => directory.changed().await,
        None => std::future::pending().await,
    }
}

/// Passes on what the driver tells.
struct Relay<'a> {
    audience: &'a mut dyn Audience,
    declares: bool,
}

impl Observer for Relay<'_> {
    fn planned(&mut self, plan: &Plan) -> Decision {
        self.audience.planned(plan, self.declares)
    }

    fn finished(&mut self, operation: Finished<'_>) {
        self.audience.finished(operation);
    }
}
