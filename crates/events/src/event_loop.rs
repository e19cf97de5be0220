//! The loop: a machine that is told what happened and says what to do next.
//!
//! Decided here: which of the things that are ready comes next. There is no thread, no clock and no I/O inside:
//! whoever drives it asks [`EventLoop::next`] with the present moment, does what the [`Step`] says, and tells the
//! outcome. The order is always the same: what is to be shown or begun, the event under way, follow-ups, the
//! verification they lead to, shutdown, healing, what the scheduler owes (retries), what waited at the gate, the queue.

use std::collections::VecDeque;
use std::sync::Arc;

use kilter_scheduler::{Plan, Record, Scheduler, Timestamp, Txn};
use serde_json::Value as Json;

use crate::builtin::VerificationResync;
use crate::draft::{Internal, Staged};
use crate::event::Event;
use crate::external::External;
use crate::fatal::{Fatal, FatalReason};
use crate::handler::{Handler, Stopwatch};
use crate::healing::Healing;
use crate::health::{Health, Level};
use crate::history::EventHistory;
use crate::inputs::Inputs;
use crate::queue::{Inbox, Producer, Queue, Queued};
use crate::recording::{Heritage, Line, Recorder, graph_hash};
use crate::settings::{Settings, SettingsError};
use crate::step::{Counts, Step};
use crate::turn::{Answer, COMPONENT, Closed, Core, Turn, Work};

/// What the loop waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// A transaction of the event under way.
    Commit,
    /// The plan of a verification.
    Plan,
    /// A transaction that the scheduler owes.
    Due,
}

/// What the loop is made of.
pub struct Parts {
    /// Decides about transactions; its kinds are registered.
    pub scheduler: Scheduler,
    /// The handlers, in order: who reads the state of another stands after it.
    pub handlers: Vec<Box<dyn Handler>>,
    /// The external sources that have a fixed place, in order: of those that declare an item, the first is heard.
    /// Others take their place after them when they first speak.
    pub sources: Vec<String>,
    /// Measures how long handlers take.
    pub stopwatch: Box<dyn Stopwatch>,
}

/// One event at a time: from the queue, through the handlers, into one transaction.
///
/// **Guarantees** that every blocking event is answered exactly once, that follow-ups are not overtaken, and that what
/// it does depends only on what it was told, in order.
pub struct EventLoop {
    pub(crate) core: Core,
    pub(crate) queue: Queue,
    producer: Producer,
    pub(crate) turn: Option<Turn>,
    pub(crate) awaited: Option<Awaited>,
    pub(crate) outputs: VecDeque<Step>,
    /// A verification is to follow when there is no follow-up left; the event it follows from.
    pub(crate) verify: Option<u64>,
    /// When the startup resync must be there.
    pub(crate) startup_deadline: Timestamp,
    pub(crate) fatal: Option<Fatal>,
    pub(crate) stopped: bool,
    recorder: Option<Recorder>,
}

impl EventLoop {
    /// A loop that waits for its startup resync.
    pub fn new(settings: Settings, parts: Parts, now: Timestamp) -> Result<Self, SettingsError> {
        settings.validate()?;
        let Parts { scheduler, handlers, sources, stopwatch } = parts;
        let inbox = Inbox::new(settings.queue);
        let startup_deadline = now.after(settings.startup_deadline);
        let mut health = Health::default();
        health.report(COMPONENT, Level::OutOfSync, "waits for the startup resync");
        Ok(Self {
            core: Core {
                scheduler,
                names: handlers.iter().map(|handler| handler.name().into()).collect(),
                handlers,
                stopwatch,
                inputs: Inputs::default(),
                external: External::new(&sources),
                internal: Internal::default(),
                healing: Healing::of(&settings),
                health,
                history: EventHistory::new(settings.limits()),
                counts: Counts::default(),
                resyncs: 0,
                next_seq: 0,
                next_effect: 0,
                spare: Staged::default(),
                settings,
            },
            queue: Queue::new(Arc::clone(&inbox)),
            producer: Producer::new(inbox),
            turn: None,
            awaited: None,
            outputs: VecDeque::new(),
            verify: None,
            startup_deadline,
            fatal: None,
            stopped: false,
            recorder: None,
        })
    }

    /// Pushes events, from any thread.
    pub fn producer(&self) -> Producer {
        self.producer.clone()
    }

    /// What decides about transactions.
    pub fn scheduler(&self) -> &Scheduler {
        &self.core.scheduler
    }

    /// What decides about transactions, to perform what a [`Step`] asks for.
    pub fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.core.scheduler
    }

    /// What happened so far.
    pub fn history(&self) -> &EventHistory {
        &self.core.history
    }

    /// How the loop and other components stand.
    pub fn health(&self) -> &Health {
        &self.core.health
    }

    /// Where other components report how they stand.
    pub fn health_mut(&mut self) -> &mut Health {
        &mut self.core.health
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        Counts { refused: self.producer.refused(), ..self.core.counts }
    }

    /// What handlers compute from.
    pub fn inputs(&self) -> &Inputs {
        &self.core.inputs
    }

    /// Goes on counting events after this one, which an earlier loop has looked at.
    ///
    /// **Assumes** that nothing has happened yet.
    pub fn continue_after(&mut self, seq: u64) {
        self.core.next_seq = seq + 1;
    }

    /// Gives sources that have no fixed place their places, in this order, after those that have one.
    ///
    /// **Assumes** that nothing has happened yet.
    pub fn place_sources<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        names.into_iter().for_each(|name| self.core.external.place(name));
    }

    /// Begins to write down everything that is needed to replay the run.
    ///
    /// **Assumes** that nothing has happened yet, but that numbers and places were given.
    pub fn record(&mut self, by: &str, now: Timestamp) {
        let heritage = Heritage {
            txn: self.core.scheduler.last_seq(),
            event: self.core.next_seq,
            sources: self.core.external.iter().map(|(name, _)| name.to_string()).collect(),
        };
        let started =
            Line::Started { now, settings: self.core.settings.clone(), heritage, by: by.to_owned() };
        self.recorder = Some(Recorder::new(started));
        self.queue.taken = Some(Vec::new());
        self.core.scheduler.keep_journal(true);
    }

    /// Writes down that a kind was added to the scheduler which the program does not bring along; a replay is given the
    /// description, and makes its descriptor of that.
    ///
    /// **Assumes** that no transaction is under way.
    pub fn note_kind(&mut self, description: &Json) {
        if let Some(recorder) = &mut self.recorder {
            recorder.kind(description.clone());
        }
    }

    /// What was written down since it was last taken; each line is one line of JSON.
    pub fn take_recording(&mut self) -> Vec<Line> {
        self.recorder.as_mut().map(Recorder::take).unwrap_or_default()
    }

    /// Ends the recording: what was written down since it was last taken, and the graph as it is.
    ///
    /// **Assumes** that no transaction is under way.
    pub fn end_recording(&mut self) -> Vec<Line> {
        let Some(recorder) = self.recorder.take() else { return Vec::new() };
        self.queue.taken = None;
        self.core.scheduler.keep_journal(false);
        recorder.end(graph_hash(&self.core.scheduler))
    }

    /// Whether nothing has happened yet, and nothing was taken over.
    pub(crate) fn is_new(&self) -> bool {
        self.core.next_seq == 0 && self.core.scheduler.last_seq() == 0
    }

    /// Takes over what an earlier loop left.
    pub(crate) fn inherit(&mut self, heritage: &Heritage) {
        self.core.scheduler.continue_after(heritage.txn);
        self.core.next_seq = heritage.event;
        self.place_sources(heritage.sources.iter().map(String::as_str));
    }

    /// What to do next.
    pub fn next(&mut self, now: Timestamp) -> Step {
        assert!(self.awaited.is_none(), "what was asked for is to be told first");
        let is_owed = |deadline| deadline <= now;
        let owed = self.recorder.is_some() && self.core.scheduler.deadline().is_some_and(is_owed);
        let step = self.step(now);
        if let Some(recorder) = &mut self.recorder {
            let taken = self.queue.taken.as_mut().map(std::mem::take).unwrap_or_default();
            recorder.asked(now, &taken, owed || !matches!(step, Step::Wait(_)));
        }
        step
    }

    fn step(&mut self, now: Timestamp) -> Step {
        loop {
            if let Some(step) = self.outputs.pop_front() {
                return step;
            }
            if let Some(turn) = &mut self.turn {
                match turn.draft(&mut self.core) {
                    Some(Work::Commit(txn)) => {
                        self.awaited = Some(Awaited::Commit);
                        return Step::Commit(txn);
                    }
                    Some(Work::Plan(txn)) => {
                        self.awaited = Some(Awaited::Plan);
                        return Step::Plan(txn);
                    }
                    None => self.close(Answer::Nothing, now),
                }
                continue;
            }
            match self.choose(now) {
                Choice::Event(queued) => {
                    let room = self.core.settings.follow_ups.saturating_sub(self.queue.follow_ups());
                    let (turn, opening) = Turn::open(&mut self.core, queued, room, now);
                    self.turn = Some(turn);
                    return Step::Opened(opening);
                }
                Choice::Due(txn) => {
                    self.awaited = Some(Awaited::Due);
                    return Step::Commit(txn);
                }
                Choice::End(fatal) => self.abort(fatal),
                Choice::Wait(deadline) => {
                    self.core.history.trim(now);
                    return Step::Wait(deadline);
                }
                Choice::Stopped => return Step::Stopped,
            }
        }
    }

    /// Which of the things that are ready comes next.
    fn choose(&mut self, now: Timestamp) -> Choice {
        if self.stopped {
            return Choice::Stopped;
        }
        if self.fatal.is_some() {
            self.queue.answer_all();
            return self.queue.shutdown().map_or(Choice::Wait(None), Choice::Event);
        }
        let core = &mut self.core;
        if let Some(queued) = self.queue.next_follow_up() {
            return Choice::Event(queued);
        }
        if let Some(seq) = self.verify.take() {
            let event = Event::new(VerificationResync);
            return Choice::Event(Queued { event, completion: None, follow_up_to: Some(seq) });
        }
        if let Some(queued) = self.queue.shutdown() {
            return Choice::Event(queued);
        }
        if core.resyncs == 0 {
            let deadline = self.startup_deadline;
            return match self.queue.startup() {
                Some(queued) => Choice::Event(queued),
                None if now < deadline => Choice::Wait(Some(deadline)),
                None => {
                    let patience = core.settings.startup_deadline;
                    let text = format!("the startup resync has not come within {patience:?}");
                    Choice::End(Fatal { reason: FatalReason::StartupDeadline, text })
                }
            };
        }
        if let Some(resync) = core.healing.due(now) {
            return Choice::Event(Queued::own(Event::new(resync)));
        }
        if let Some(txn) = core.scheduler.due(now) {
            return Choice::Due(txn);
        }
        if let Some(queued) = self.queue.next() {
            return Choice::Event(queued);
        }
        Choice::Wait(core.healing.deadline().into_iter().chain(core.scheduler.deadline()).min())
    }

    /// The transaction that was asked for has been performed; `None` if it was dropped before anything was done.
    pub fn committed(&mut self, record: Option<Arc<Record>>, now: Timestamp) {
        let awaited = self.awaited.take();
        if let Some(recorder) = &mut self.recorder {
            recorder.told(self.core.scheduler.take_journal());
            recorder.committed(record.as_deref(), None, now);
        }
        match awaited {
            Some(Awaited::Commit) => {
                let answer = record.map_or(Answer::Abandoned(None), Answer::Committed);
                self.close(answer, now);
            }
            Some(Awaited::Due) => {}
            Some(Awaited::Plan) | None => panic!("no transaction was asked for"),
        }
    }

    /// The transaction that was asked for was dropped before anything was done, for this reason.
    pub fn refused(&mut self, why: &str, now: Timestamp) {
        let awaited = self.awaited.take();
        if let Some(recorder) = &mut self.recorder {
            recorder.told(self.core.scheduler.take_journal());
            recorder.committed(None, Some(why), now);
        }
        match awaited {
            Some(Awaited::Commit) => self.close(Answer::Abandoned(Some(why.into())), now),
            Some(Awaited::Due) => {}
            Some(Awaited::Plan) | None => panic!("no transaction was asked for"),
        }
    }

    /// The transaction that was asked for has been planned and dropped.
    pub fn planned(&mut self, plan: Option<Plan>, now: Timestamp) {
        assert_eq!(self.awaited.take(), Some(Awaited::Plan), "no plan was asked for");
        if let Some(recorder) = &mut self.recorder {
            recorder.told(self.core.scheduler.take_journal());
            recorder.planned(plan.as_ref(), now);
        }
        self.close(Answer::Planned(plan), now);
    }

    pub(crate) fn awaits_commit(&self) -> bool {
        matches!(self.awaited, Some(Awaited::Commit | Awaited::Due))
    }

    pub(crate) fn awaits_plan(&self) -> bool {
        self.awaited == Some(Awaited::Plan)
    }

    fn close(&mut self, answer: Answer, now: Timestamp) {
        let Some(turn) = self.turn.take() else { return };
        let Closed { record, follow_ups, effects, fatal, is_shutdown, verify } =
            turn.close(&mut self.core, answer, now);
        self.queue.follow(follow_ups, record.seq);
        self.queue.reserve(effects.len());
        if verify {
            self.verify = Some(record.seq);
        } else if !record.failures.is_empty() {
            self.verify = None;
        }
        self.outputs.push_back(Step::Closed(record));
        self.outputs.extend(effects.into_iter().map(Step::Perform));
        if is_shutdown {
            self.stopped = true;
            self.queue.close();
        } else if let Some(fatal) = fatal {
            self.abort(fatal);
        }
    }

    /// Looks at nothing any more but a shutdown.
    fn abort(&mut self, fatal: Fatal) {
        self.core.health.report(COMPONENT, Level::Broken, fatal.to_string());
        self.queue.answer_all();
        self.outputs.push_back(Step::Fatal(fatal.clone()));
        self.fatal = Some(fatal);
    }

    /// Why the loop looks at nothing any more, if that is so.
    pub fn fatal(&self) -> Option<&Fatal> {
        self.fatal.as_ref()
    }
}

/// What comes next.
enum Choice {
    Event(Queued),
    Due(Txn),
    End(Fatal),
    Wait(Option<Timestamp>),
    Stopped,
}
