//! The house: the event loop with scripted handlers, the scheduler and the fake world, driven by a script.
//!
//! [`command::Command`] lists the commands. What is asserted without being asked: every blocking event is answered at
//! most once, and exactly once by the end; follow-ups are not overtaken; no operation is unsafe; the scheduler's own
//! invariants hold; and at the end the whole run is replayed from its recording, with the same plans and graph.

pub mod command;
pub mod event;
pub mod handler;
pub mod perform;
pub mod random;

mod check;
mod run;
mod show;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kilter_events::builtin::{DatabaseResync, Shutdown};
use kilter_events::{
    Answered, Completion, Effect, Event, EventLoop, Inputs, Line, Parts, Producer, PushError, Settings, Step,
    to_json,
};
use kilter_scheduler::{Key, Record, Request, Scheduler};
use serde_json::{Map, Value as Json};

use crate::attrs::Attrs;
use crate::clock::Clock;
use crate::kinds;
use crate::scenario::Failed;
use crate::world::World;
use event::Planned;
use handler::{Mishaps, Scripted};

/// The event loop in a fake world.
pub struct House {
    settings: Map<String, Json>,
    names: Vec<String>,
    sources: Vec<String>,
    events: Option<EventLoop>,
    producer: Option<Producer>,
    handlers: Vec<Scripted>,
    world: World,
    clock: Clock,
    watch: Arc<Mutex<Duration>>,
    /// What the outside says; the next database resync carries it.
    inputs: Inputs,
    defined: BTreeMap<String, Planned>,
    /// What handlers ask for with the startup resync.
    at_startup: BTreeMap<String, Planned>,
    /// Blocking events, each with how often it was answered.
    waiting: Vec<(String, usize)>,
    answers: Arc<Mutex<Vec<(usize, Answered)>>>,
    effects: BTreeMap<u64, Effect>,
    lines: Vec<Line>,
    banners: bool,
    /// The last transaction that the scheduler owed.
    owed: Option<Arc<Record>>,
    /// The events that were opened, each with the one it follows from.
    opened: Vec<Option<u64>>,
}

impl Default for House {
    fn default() -> Self {
        Self::new()
    }
}

/// Runs the script at this path and compares its output; with `UPDATE_GOLDENFILES=1`, writes it.
pub fn run(path: impl AsRef<Path>) -> std::io::Result<()> {
    goldenscript::run(&mut House::new(), path)
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

impl House {
    /// Handlers `one`, `two` and `three`, sources `file`, `api` and `flow`, and an empty world.
    pub fn new() -> Self {
        Self {
            settings: Map::new(),
            names: words(&["one", "two", "three"]),
            sources: words(&["file", "api", "flow"]),
            events: None,
            producer: None,
            handlers: Vec::new(),
            world: World::default(),
            clock: Clock::default(),
            watch: Arc::default(),
            inputs: Inputs::default(),
            defined: BTreeMap::new(),
            at_startup: BTreeMap::new(),
            waiting: Vec::new(),
            answers: Arc::default(),
            effects: BTreeMap::new(),
            lines: Vec::new(),
            banners: false,
            owed: None,
            opened: Vec::new(),
        }
    }

    fn parsed_settings(&self) -> Result<Settings, Failed> {
        Ok(serde_json::from_value(Json::Object(self.settings.clone()))?)
    }

    /// A loop whose handlers go wrong as planned; the world is told about its kinds.
    fn make(
        &self,
        world: &mut World,
        mishaps: impl Fn(usize) -> Mishaps,
    ) -> Result<(EventLoop, Vec<Scripted>), Failed> {
        let mut scheduler = Scheduler::default();
        world.register(&mut scheduler, kinds::KINDS)?;
        let names = self.names.iter().enumerate();
        let handlers: Vec<Scripted> = names
            .map(|(at, name)| {
                let at_startup = self.at_startup.get(name).cloned();
                Scripted::new(name, mishaps(at), at_startup, Arc::clone(&self.watch))
            })
            .collect();
        let watch = Arc::clone(&self.watch);
        let parts = Parts {
            scheduler,
            handlers: handlers.iter().map(|handler| Box::new(handler.clone()) as _).collect(),
            sources: self.sources.clone(),
            stopwatch: Box::new(move || *watch.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        Ok((EventLoop::new(self.parsed_settings()?, parts, Clock::default().now())?, handlers))
    }

    /// The loop; it is made when it is first needed.
    pub fn events(&mut self) -> Result<&mut EventLoop, Failed> {
        if self.events.is_none() && self.producer.is_none() {
            let mut world = std::mem::take(&mut self.world);
            let made = self.make(&mut world, |_| Mishaps::default());
            self.world = world;
            let (mut events, handlers) = made?;
            events.record("", Clock::default().now());
            self.producer = Some(events.producer());
            (self.events, self.handlers) = (Some(events), handlers);
        }
        self.events.as_mut().ok_or_else(|| "the loop is gone".into())
    }

    fn producer(&mut self) -> Result<Producer, Failed> {
        if self.producer.is_none() {
            self.events()?;
        }
        self.producer.clone().ok_or_else(|| "there is no producer".into())
    }

    /// The handler of that name.
    pub fn handler(&mut self, name: &str) -> Result<&Scripted, Failed> {
        self.events()?;
        let found = self.handlers.iter().find(|handler| handler.title() == name);
        found.ok_or_else(|| format!("no handler is called `{name}`").into())
    }

    /// Defines an event that can be pushed by name, or followed up with.
    pub fn define(&mut self, event: Planned) {
        self.defined.insert(event.name.clone(), event);
    }

    fn defined(&self, name: &str) -> Result<&Planned, Failed> {
        self.defined.get(name).ok_or_else(|| format!("no event is defined as `{name}`").into())
    }

    /// Pushes an event; with a name, somebody waits for it.
    pub fn push(&mut self, event: Event, waits: Option<&str>) -> Result<Result<(), PushError>, Failed> {
        let producer = self.producer()?;
        let Some(name) = waits else { return Ok(producer.push(event)) };
        let (at, answers) = (self.waiting.len(), Arc::clone(&self.answers));
        self.waiting.push((name.to_owned(), 0));
        let completion = Completion::new(move |answered| {
            answers.lock().unwrap_or_else(PoisonError::into_inner).push((at, answered));
        });
        Ok(producer.push_completed(event, completion))
    }

    /// Pushes a resync with everything the outside says.
    pub fn push_resync(&mut self, local: bool) -> Result<Result<(), PushError>, Failed> {
        let inputs = self.inputs.clone();
        self.push(Event::new(DatabaseResync { local, inputs, ..DatabaseResync::default() }), None)
    }

    /// Pushes a shutdown, and somebody waits for it.
    pub fn push_shutdown(&mut self) -> Result<Result<(), PushError>, Failed> {
        self.push(Event::new(Shutdown), Some("shutdown"))
    }

    /// The outside says something else about an input; nobody is told.
    pub fn set_input(&mut self, handler: &str, key: &Key, attrs: Option<&Attrs>) -> Option<Json> {
        let old = self.inputs.get(handler, key.as_str()).cloned();
        self.inputs.set(handler, key.as_str(), attrs.map(to_json));
        old
    }

    /// One step of the loop, performed on the world.
    pub fn step(&mut self) -> Result<Step, Failed> {
        let now = self.clock.now();
        let step = self.events()?.next(now);
        let Some(events) = self.events.as_mut() else { return Err("the loop is gone".into()) };
        match &step {
            Step::Commit(txn) => {
                let record = perform::perform(events.scheduler_mut(), &mut self.world, txn.clone(), now)?;
                let is_owed =
                    matches!(txn.request, Request::Retry(_) | Request::LateKind | Request::Overdue(_));
                self.owed = is_owed.then(|| Arc::clone(&record));
                events.committed(Some(record), now);
            }
            Step::Plan(txn) => {
                let plan = perform::plan(events.scheduler_mut(), &mut self.world, txn.clone(), now)?;
                events.planned(plan, now);
            }
            Step::Perform(effect) => {
                self.effects.insert(effect.id, effect.clone());
            }
            Step::Opened(_) | Step::Closed(_) | Step::Wait(_) | Step::Fatal(_) | Step::Stopped => {}
        }
        self.lines.extend(events.take_recording());
        self.note_order(&step)?;
        Ok(step)
    }

    /// The answers that came since this was last asked, each with the name of its event.
    pub fn take_answers(&mut self) -> Vec<(String, Answered)> {
        let answers = std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner));
        answers
            .into_iter()
            .map(|(at, answered)| {
                self.waiting[at].1 += 1;
                (self.waiting[at].0.clone(), answered)
            })
            .collect()
    }

    /// The world.
    pub fn world(&mut self) -> &mut World {
        &mut self.world
    }

    /// The clock.
    pub fn clock(&mut self) -> &mut Clock {
        &mut self.clock
    }
}
