//! Driving the loop: one task asks it what to do next, performs it, and tells the outcome.
//!
//! Decided here: what is done between two steps (heeding the kernel, taking up what was ordered at the desk, answering
//! questions), and that a stop is a cancellation of what is under way and then a shutdown. Not decided here: the order
//! among events; see [`kilter_events::EventLoop`].

mod audience;
mod backoff;
mod commit;
mod confirming;
mod held;
mod ordered;
mod relay;
pub(crate) mod tape;
mod waiting;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kilter_cli::CommandError;
use kilter_events::builtin::Shutdown;
use kilter_events::{Event, EventLoop, Producer, PushError, Step};
use kilter_linux::drift::Healing;
use kilter_linux::{KernelError, drift};
use kilter_model::document::Declared;
use kilter_scheduler::{OnFailure, Resync, Seq, Timestamp, Txn, Undeclared};
use kilter_southbound::{Cancel, Clock as _, Driver};
use serde_json::Value as Json;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Interval, interval};

use crate::assemble::Assembly;
use crate::clock::SteadyClock;
use crate::desk::{self, Declaration, Desk, Ledger, Options, Question, Reception, View};
use crate::drift::Attention;
use crate::feed::directory::Directory;
use crate::keep::{Keep, Kept, Missing};
use crate::recording::{Recording, Settings as RecordSettings, Trace};
use crate::replay::program;
use crate::start::{self, Beginning};
use crate::timings::Timings;

use self::backoff::Backoff;
use self::held::Held;
use self::ordered::{Ordered, Work};
use self::relay::Settled;
use self::tape::TapeReply;

pub use audience::{Audience, Pursuit};

/// When the agent tries again what did not work.
const AGAIN: Duration = Duration::from_secs(1);

/// How many questions are answered between two steps: whoever asks without end does not stop the loop.
const QUESTIONS: usize = 64;

/// As long as nothing is due, somebody has to push.
const IDLE: Duration = Duration::from_secs(3600);

/// Ends the agent, from anywhere.
#[derive(Clone, Debug)]
pub struct Stop {
    cancel: Cancel,
    producer: Producer,
    hands_over: Arc<AtomicBool>,
}

impl Stop {
    /// Begins nothing further of what is under way, then shuts down.
    pub fn stop(&self, reason: &str) {
        self.cancel.cancel(reason);
        // A loop that has ended needs no shutdown.
        let _ = self.producer.push(Event::new(Shutdown));
    }

    /// Lets what is under way come to its end, then shuts down; whoever comes next keeps what is declared.
    pub(crate) fn finish(&self) {
        self.hands_over.store(true, Ordering::SeqCst);
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
    /// What directories say that have changed.
    stirred: mpsc::Receiver<Stirred>,
    stirring: mpsc::Sender<Stirred>,
    /// Declarations of directories that could not be taken up.
    held: Held,
    pushed: Arc<Notify>,
    cancel: Cancel,
    desk: Desk,
    reception: Reception,
    ledger: Ledger,
    /// What was ordered and has not ended.
    ordered: Vec<Ordered>,
    /// The order of the event under way.
    current: Option<usize>,
    /// Who waits until nothing is under way.
    resting: Vec<oneshot::Sender<()>>,
    /// Who waits until nothing is left to do.
    settling: Vec<oneshot::Sender<()>>,
    keep: Option<Keep>,
    /// What is missing in the history.
    missing: Option<watch::Receiver<Missing>>,
    /// What was carried out and could not be kept.
    owed: Vec<Settled>,
    /// When that is tried again.
    owed_again: Timestamp,
    /// Whether the change that waits for its confirmation is on its way back.
    goes_back: bool,
    /// When a way back that could not be gone is tried again.
    way_back: Backoff,
    /// The change whose probes are tried.
    probed: Option<Seq>,
    /// Whether everything that is declared is removed in the end.
    clean_up: bool,
    /// Whether it ends so that another agent takes over.
    hands_over: Arc<AtomicBool>,
    /// How often the audience wants to know that the loop goes round.
    beats: Option<Interval>,
    /// Where the run is written down.
    recording: Option<Recording>,
    /// How long things took.
    timings: Timings,
    /// What is known of that, or of the last one.
    recorded: Option<Trace>,
    /// Recordings that begin when nothing follows from what was: the file, how long it may be, and who waits.
    to_record: VecDeque<(PathBuf, Option<u64>, TapeReply)>,
    /// The kinds that were added, as a recording holds them.
    kinds: Vec<Json>,
    /// How long a recording may be unless somebody says otherwise.
    record_most: u64,
}

/// A directory that has changed, and what it declares from now on.
type Stirred = (String, Result<Vec<Declared>, CommandError>);

impl Agent {
    /// Begins to watch the kernel: what happens from here on is noticed.
    pub async fn new(assembly: Assembly, settings: drift::Settings) -> Result<Self, KernelError> {
        let Assembly { events, driver, linux, clock } = assembly;
        let watch = linux.watch_every(settings.sysctl_interval).await?;
        let attention = Attention::new(watch, Healing::new(settings), events.producer());
        Ok(Self::of(events, driver, clock, attention))
    }

    /// An agent of these parts, whatever they act on.
    pub fn of(events: EventLoop, driver: Driver, clock: SteadyClock, attention: Attention) -> Self {
        let pushed = Arc::new(Notify::new());
        let wake = Arc::clone(&pushed);
        events.producer().on_push(move || wake.notify_one());
        let (desk, reception) = desk::open();
        let (stirring, stirred) = mpsc::channel(1);
        Self {
            events,
            driver,
            clock,
            attention,
            stirred,
            stirring,
            held: Held::default(),
            pushed,
            cancel: Cancel::new(),
            desk,
            reception,
            ledger: Ledger::default(),
            ordered: Vec::new(),
            current: None,
            resting: Vec::new(),
            settling: Vec::new(),
            keep: None,
            missing: None,
            owed: Vec::new(),
            owed_again: Timestamp::default(),
            goes_back: false,
            way_back: Backoff::default(),
            probed: None,
            clean_up: false,
            hands_over: Arc::default(),
            beats: None,
            recording: None,
            timings: Timings::default(),
            recorded: None,
            to_record: VecDeque::new(),
            kinds: Vec::new(),
            record_most: RecordSettings::default().bytes,
        }
    }

    /// Keeps what must outlive the process in a state directory.
    #[must_use]
    pub fn keeping(self, keep: Keep) -> Self {
        Self { missing: Some(keep.missing()), keep: Some(keep), ..self }
    }

    /// Removes everything that is declared when it ends; what was kept stays kept.
    #[must_use]
    pub fn cleaning_up(self, clean_up: bool) -> Self {
        Self { clean_up, ..self }
    }

    /// Tells the audience this often that the loop goes round.
    #[must_use]
    pub fn beating(self, span: Option<Duration>) -> Self {
        Self { beats: span.filter(|span| !span.is_zero()).map(interval), ..self }
    }

    /// Writes the run down, if there is where to; what somebody else asks to be recorded is as long as these settings say.
    #[must_use]
    pub fn recording(self, recording: Option<Recording>, settings: &RecordSettings) -> Self {
        Self { recording, record_most: settings.bytes, ..self }
    }

    /// Begins: what was kept and what the directories say is declared, before anything else.
    ///
    /// The directories come in their order, each with what it declares, or `None` if that cannot be read: then it
    /// declares what it declared before.
    pub fn begin(
        &mut self,
        kept: Kept,
        directories: Vec<(String, Option<Vec<Declared>>)>,
    ) -> Result<(), PushError> {
        let names: Vec<String> = directories.iter().map(|(name, _)| name.clone()).collect();
        let said = directories.into_iter().filter_map(|(name, declared)| Some(everything(name, declared?)));
        let said: Vec<Declaration> = said.collect();
        self.events.scheduler_mut().continue_after(kept.last_txn);
        if let Some(seq) = kept.last_event {
            self.events.continue_after(seq);
        }
        let Beginning { resync, ledger, deltas, confirmation } =
            start::begin(kept, &said, &names, self.clock.now());
        let placed = names.iter().map(String::as_str).chain(ledger.placed());
        self.events.place_sources(placed);
        let paths = std::mem::take(&mut self.ledger.paths);
        self.ledger = ledger;
        self.ledger.paths = paths;
        if let Some(recording) = &mut self.recording {
            let now = self.clock.now();
            self.recorded = Some(recording.begin(now));
            self.events.record(&program(), now);
        }
        self.push_ordered(Ordered::new(Event::new(resync), Work::Begin(deltas, confirmation)))
    }

    /// Where northbounds talk to the agent.
    pub fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// Declares a directory anew whenever it changes, as long as the agent runs.
    ///
    /// **Assumes** a tokio runtime.
    pub fn follow(&mut self, mut directory: Directory) {
        self.ledger.paths.insert(directory.name().to_owned(), directory.path().to_owned());
        let stirring = self.stirring.clone();
        tokio::spawn(async move {
            loop {
                let declared = directory.changed().await;
                if stirring.send((directory.name().to_owned(), declared)).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Where events are pushed.
    pub fn producer(&self) -> Producer {
        self.events.producer()
    }

    /// How to end the agent.
    pub fn stop(&self) -> Stop {
        let hands_over = Arc::clone(&self.hands_over);
        Stop { cancel: self.cancel.clone(), producer: self.producer(), hands_over }
    }

    /// Drives the loop until it has ended.
    pub async fn run(mut self, audience: &mut dyn Audience) -> EventLoop {
        loop {
            self.attend().await;
            self.write_down(audience);
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
                    self.note_closed(&record).await;
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
                Step::Stopped => {
                    audience.stopping();
                    self.end_recording();
                    self.take_back(audience).await;
                    self.clean_up().await;
                    if let Some(keep) = &self.keep {
                        // What cannot be written any more is missing in the history, and nowhere else.
                        let _ = keep.flush().await;
                    }
                    return self.events;
                }
            }
        }
    }

    /// Removes everything that is declared, if it was told to.
    async fn clean_up(&mut self) {
        if self.clean_up && !self.hands_over.load(Ordering::SeqCst) {
            let txn = Txn::resync(Resync::Upstream(Vec::new())).with_undeclared(Undeclared::Keep);
            let (scheduler, never) = (self.events.scheduler_mut(), Cancel::new());
            self.driver.run(scheduler, txn.described("clean up"), &self.clock, &mut (), &never).await;
        }
    }

    /// Answers questions, and between two events sees to what is due and takes up orders.
    async fn attend(&mut self) {
        for _ in 0..QUESTIONS {
            let Ok(question) = self.reception.questions.try_recv() else { break };
            self.answer(question);
        }
        if self.takes_orders() {
            self.see_to(self.clock.now()).await;
            self.see_to_tape();
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
        let (ledger, keep, timings) = (&self.ledger, self.keep.as_ref(), &self.timings);
        question(&View { scheduler, events: self.events.glance(), ledger, keep, timings });
    }

    fn declare(&mut self, (name, declared): Stirred, audience: &mut dyn Audience) {
        audience.declared(declared.as_deref());
        if let Ok(declared) = declared {
            self.held.replace(everything(name, declared));
        }
        self.push_held();
    }

    /// Pushes what directories declare; what there is no room for waits.
    fn push_held(&mut self) {
        if self.ledger.confirmation.is_some() {
            return;
        }
        for declaration in self.held.take() {
            let options = Options { on_failure: OnFailure::Continue, ..Options::default() };
            let again = declaration.clone();
            if self.push_ordered(Ordered::declarations(vec![declaration], options, None)).is_err() {
                self.held.hold(again);
            }
        }
    }
}

/// Everything that a directory declares.
fn everything(name: String, declared: Vec<Declared>) -> Declaration {
    Declaration::everything(name, declared.into_iter().map(Into::into).collect())
}
