//! Driving the loop: one task asks it what to do next, performs it, and tells the outcome.
//!
//! Decided here: what is done between two steps (heeding the kernel, taking up what was ordered at the desk, answering
//! questions), and that a stop is a cancellation of what is under way and then a shutdown. Not decided here: the order
//! among events; see [`kilter_events::EventLoop`].

mod audience;
mod commit;
mod ordered;

use std::sync::Arc;
use std::time::Duration;

use kilter_cli::CommandError;
use kilter_events::builtin::Shutdown;
use kilter_events::{Event, EventLoop, Producer, Step};
use kilter_linux::drift::Healing;
use kilter_linux::{KernelError, drift};
use kilter_model::document::Declared;
use kilter_scheduler::{OnFailure, Timestamp};
use kilter_southbound::{Cancel, Clock as _, Driver};
use tokio::sync::{Notify, oneshot};

use crate::assemble::Assembly;
use crate::clock::SteadyClock;
use crate::desk::{self, Desk, Ledger, Options, Question, Reception, View};
use crate::drift::{Attention, Heeded};
use crate::feed::directory::{self, Directory};

use self::ordered::Ordered;

pub use audience::{Audience, Pursuit};

/// How many questions are answered between two steps: whoever asks without end does not stop the loop.
const QUESTIONS: usize = 64;

/// As long as nothing is due, somebody has to push.
const IDLE: Duration = Duration::from_secs(3600);

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

    /// Where events are pushed.
    pub fn producer(&self) -> Producer {
        self.producer.clone()
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
    desk: Desk,
    reception: Reception,
    ledger: Ledger,
    /// What was ordered and has not ended.
    ordered: Vec<Ordered>,
    /// The order of the event under way.
    current: Option<usize>,
    /// Who waits until nothing is left to do.
    settling: Vec<oneshot::Sender<()>>,
}

impl Agent {
    /// Begins to watch the kernel: what happens from here on is noticed.
    pub async fn new(assembly: Assembly, settings: drift::Settings) -> Result<Self, KernelError> {
        let Assembly { events, driver, linux, clock } = assembly;
        let watch = linux.watch().await?;
        let attention = Attention::new(watch, Healing::new(settings), events.producer());
        Ok(Self::of(events, driver, clock, attention))
    }

    /// An agent of these parts, whatever they act on.
    pub fn of(events: EventLoop, driver: Driver, clock: SteadyClock, attention: Attention) -> Self {
        let pushed = Arc::new(Notify::new());
        let wake = Arc::clone(&pushed);
        events.producer().on_push(move || wake.notify_one());
        let (desk, reception) = desk::open();
        Self {
            events,
            driver,
            clock,
            attention,
            directory: None,
            pushed,
            cancel: Cancel::new(),
            desk,
            reception,
            ledger: Ledger::default(),
            ordered: Vec::new(),
            current: None,
            settling: Vec::new(),
        }
    }

    /// Where northbounds talk to the agent.
    pub fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// Declares the directory anew whenever it changes.
    #[must_use]
    pub fn following(mut self, directory: Directory) -> Self {
        self.ledger.directories.push(directory::SOURCE.to_owned());
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
            self.attend().await;
            match self.events.next(self.clock.now()) {
                Step::Opened(opening) => {
                    self.note_opened();
                    audience.opened(&opening);
                }
                Step::Commit(txn) => self.commit(txn, audience).await,
                Step::Plan(txn) => {
                    let plan = self.driver.plan_only(self.events.scheduler_mut(), txn, &self.clock).await;
                    self.events.planned(plan, self.clock.now());
                }
                Step::Closed(record) => {
                    self.note_closed(&record);
                    audience.closed(&record);
                }
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

    /// Answers questions, and between two events takes up orders.
    async fn attend(&mut self) {
        for _ in 0..QUESTIONS {
            let Ok(question) = self.reception.questions.try_recv() else { break };
            self.answer(question);
        }
        while self.takes_orders() {
            let Ok(order) = self.reception.orders.try_recv() else { break };
            self.take_up(order).await;
        }
    }

    /// Before the startup resync nobody knows what is declared.
    fn takes_orders(&self) -> bool {
        self.events.is_between_turns() && self.events.glance().has_started()
    }

    fn answer(&self, question: Question) {
        let scheduler = self.events.scheduler();
        question(&View { scheduler, events: self.events.glance(), ledger: &self.ledger });
    }

    fn declare(&mut self, declared: Result<Vec<Declared>, CommandError>, audience: &mut dyn Audience) {
        audience.declared(declared.as_deref());
        let Ok(declared) = declared else { return };
        let options = Options { on_failure: OnFailure::Continue, ..Options::default() };
        let pushed = self.push_ordered(Ordered::declaration(directory::anew(declared), options, None));
        if let (Err(error), Some(directory)) = (pushed, &mut self.directory) {
            directory.read_again();
            let attempt = "failed to declare the directory, it will be tried again".to_owned();
            let error = CommandError::Broken { attempt, source: Some(Box::new(error)) };
            audience.declared(Err(&error));
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
        if settled {
            // Whoever does not wait any more needs no answer.
            self.settling.drain(..).for_each(|reply| reply.send(()).unwrap_or_default());
        }
        let takes_orders = self.takes_orders();
        let patience = deadline.into_iter().chain(later).min().map_or(IDLE, |at| at.since(now));
        tokio::select! {
            () = self.pushed.notified() => {}
            Some(question) = self.reception.questions.recv() => self.answer(question),
            Some(order) = self.reception.orders.recv(), if takes_orders => self.take_up(order).await,
            () = tokio::time::sleep(patience) => {}
            declared = changed(&mut self.directory) => self.declare(declared, audience),
            noticed = self.attention.noticed() => {
                let heeded = self.attention.heed(noticed, self.events.scheduler(), self.clock.now());
                self.ledger.contested = self.attention.contested();
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
