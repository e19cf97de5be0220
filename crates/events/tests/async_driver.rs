//! The loop in an asynchronous agent: events from other threads, transactions performed by the southbound driver.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use kilter_events::builtin::{DatabaseResync, Shutdown};
use kilter_events::{
    Draft, Event, EventKind, EventLoop, Handler, HandlerError, Inputs, Method, Parts, ReadValue, Settings,
    Step, UpdateMode, from_json, to_json,
};
use kilter_scheduler::{Key, Kind, Scheduler, Timestamp, describe};
use kilter_southbound::{
    ActError, Actuators, Cancel, Clock, Context, Driver, Made, ReadOne, Seen, SingleItem, Sought, each,
};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::sync::Notify;

struct NoteKind;

impl Kind for NoteKind {
    type Value = String;
    const NAME: &'static str = "note";
    const KEYS: &'static [&'static str] = &["note/*"];
}

/// Notes on a board; one of them cannot be written.
#[derive(Clone, Default)]
struct Board(Arc<Mutex<BTreeMap<Key, String>>>);

impl Board {
    fn notes(&self) -> MutexGuard<'_, BTreeMap<Key, String>> {
        self.0.lock().expect("nobody panics while it is locked")
    }
}

impl SingleItem for Board {
    type Value = String;

    async fn create(&self, key: &Key, text: &String, _: &Context) -> Result<Made, ActError> {
        tokio::task::yield_now().await;
        if text == "unspeakable" {
            return Err(ActError::lasting("the board refuses"));
        }
        self.notes().insert(key.clone(), text.clone());
        Ok(Made::Done)
    }

    async fn delete(&self, key: &Key, _: &String, _: &Context) -> Result<Made, ActError> {
        self.notes().remove(key);
        Ok(Made::Done)
    }

    async fn retrieve_all(
        &self,
        _: &[Sought<'_, String>],
        _: &Context,
    ) -> Result<Vec<Seen<String>>, ActError> {
        let notes = self.notes();
        Ok(notes.iter().map(|(key, text)| Seen::new(key.clone(), text.clone())).collect())
    }

    fn read_one(&self) -> ReadOne {
        ReadOne::OutOfAll
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Write(String, String);

impl EventKind for Write {
    const KIND: &'static str = "write";

    fn name(&self) -> String {
        format!("Write {}", self.0)
    }

    fn method(&self) -> Method {
        Method::update(UpdateMode::RevertOnFailure)
    }

    fn encode(&self) -> Json {
        to_json(self)
    }

    fn decode(body: Json, _values: &dyn ReadValue) -> Result<Self, String> {
        from_json(body)
    }
}

struct Notes(BTreeMap<String, String>);

impl Handler for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn handles(&self, _: &Event) -> bool {
        true
    }

    fn resync(&mut self, _: &Event, _: &Inputs, _: u64, draft: &mut Draft<'_>) -> Result<(), HandlerError> {
        self.0.iter().for_each(|(name, text)| draft.put(format!("note/{name}"), text.clone()));
        Ok(())
    }

    fn update(&mut self, event: &Event, draft: &mut Draft<'_>) -> Result<String, HandlerError> {
        if let Some(Write(name, text)) = event.body() {
            self.0.insert(name.clone(), text.clone());
            draft.put(format!("note/{name}"), text.clone());
        }
        Ok(String::new())
    }

    fn revert(&mut self, event: &Event) -> Result<(), HandlerError> {
        if let Some(Write(name, _)) = event.body() {
            self.0.remove(name);
        }
        Ok(())
    }
}

struct Started(Instant);

impl Clock for Started {
    fn now(&self) -> Timestamp {
        Timestamp::default().after(self.0.elapsed())
    }
}

async fn drive(mut events: EventLoop, driver: Driver, clock: Started, pushed: Arc<Notify>) -> EventLoop {
    loop {
        match events.next(clock.now()) {
            Step::Commit(txn) => {
                let cancel = Cancel::new();
                let ending = driver.run(events.scheduler_mut(), txn, &clock, &mut (), &cancel).await;
                events.committed(ending.record(), clock.now());
            }
            Step::Plan(txn) => {
                let plan = driver.plan_only(events.scheduler_mut(), txn, &clock).await;
                events.planned(plan, clock.now());
            }
            Step::Wait(deadline) => {
                let patience = deadline.map_or(Duration::from_secs(60), |at| at.since(clock.now()));
                let _ = tokio::time::timeout(patience, pushed.notified()).await;
            }
            Step::Opened(_) | Step::Closed(_) | Step::Perform(_) | Step::Fatal(_) => {}
            Step::Stopped => return events,
        }
    }
}

#[tokio::test]
async fn events_of_other_threads_reach_the_world_and_are_answered() {
    let board = Board::default();
    let mut actuators = Actuators::new();
    actuators.add("note", Arc::new(each(board.clone()))).unwrap();
    let driver = Driver::new(actuators, kilter_southbound::Settings::default());
    let mut scheduler = Scheduler::default();
    scheduler.register(describe(NoteKind).unwrap()).unwrap();
    let clock = Started(Instant::now());
    let parts = Parts {
        scheduler,
        handlers: vec![Box::new(Notes(BTreeMap::new()))],
        sources: Vec::new(),
        stopwatch: Box::new({
            let started = clock.0;
            move || started.elapsed()
        }),
    };
    let settings = Settings { verification: true, ..Settings::default() };
    let events = EventLoop::new(settings, parts, clock.now()).unwrap();
    let (producer, pushed) = (events.producer(), Arc::new(Notify::new()));
    let wake = Arc::clone(&pushed);
    producer.on_push(move || wake.notify_one());
    let running = tokio::spawn(drive(events, driver, clock, pushed));

    let writers: Vec<_> = (0..4)
        .map(|number| {
            let producer = producer.clone();
            std::thread::spawn(move || {
                let text = if number == 3 { "unspeakable" } else { "hello" };
                let event = Event::new(Write(format!("n{number}"), text.to_owned()));
                producer.push_blocking(event).unwrap().wait().is_ok()
            })
        })
        .collect();
    producer.push(Event::new(DatabaseResync::default())).unwrap();
    let answers = tokio::task::spawn_blocking(|| {
        writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(answers.await.unwrap(), [true, true, true, false]);

    producer.push(Event::new(Shutdown)).unwrap();
    let events = running.await.unwrap();
    let written: Vec<String> = board.notes().keys().map(ToString::to_string).collect();
    assert_eq!(written, ["note/n0", "note/n1", "note/n2"]);
    let records = events.history().query(kilter_events::Query::All);
    assert!(records.iter().all(|record| record.differences.is_empty()), "{records:?}");
}
