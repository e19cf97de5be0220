//! Three handlers: `pods` remembers pods, `addresses` gives each an address, `wiring` depends on both and drafts a tap
//! per pod. One pod is added, one fails and is reverted, one fails and is healed. Run it with
//! `cargo run -p kilter-events --example three_handlers`.

#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kilter_events::builtin::{DatabaseResync, Shutdown};
use kilter_events::{
    Draft, Event, EventKind, EventLoop, Handler, HandlerError, Inputs, Method, Parts, ReadValue, Settings,
    Step, UpdateMode, banner, chain, from_json, to_json,
};
use kilter_scheduler::{
    Act, Answer, Failure, Key, Kind, Operation, Record, Retrieved, Scheduler, Stage, Timestamp, Txn,
    ValueRef, describe,
};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// A pod is to be connected.
#[derive(Debug, Serialize, Deserialize)]
struct AddPod {
    name: String,
    /// Whether a failure takes everything back, or heals.
    all_or_nothing: bool,
}

impl EventKind for AddPod {
    const KIND: &'static str = "add-pod";

    fn name(&self) -> String {
        format!("Add Pod {}", self.name)
    }

    fn details(&self) -> Vec<String> {
        vec![format!("* Network namespace: /run/netns/{}", self.name)]
    }

    fn method(&self) -> Method {
        Method::update(if self.all_or_nothing { UpdateMode::RevertOnFailure } else { UpdateMode::BestEffort })
    }

    fn encode(&self) -> Json {
        to_json(self)
    }

    fn decode(body: Json, _values: &dyn ReadValue) -> Result<Self, String> {
        from_json(body)
    }
}

/// What handlers know of each other: each writes its own part, later ones read the parts before theirs.
#[derive(Debug, Default)]
struct Known {
    pods: Vec<String>,
    addresses: BTreeMap<String, String>,
}

type Shared = Arc<Mutex<Known>>;

fn known(shared: &Shared) -> MutexGuard<'_, Known> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Pods(Shared);

impl Handler for Pods {
    fn name(&self) -> &str {
        "pods"
    }

    fn handles(&self, event: &Event) -> bool {
        event.is::<AddPod>()
    }

    fn resync(&mut self, _: &Event, _: &Inputs, _: u64, _: &mut Draft<'_>) -> Result<(), HandlerError> {
        Ok(())
    }

    fn update(&mut self, event: &Event, _: &mut Draft<'_>) -> Result<String, HandlerError> {
        let Some(pod) = event.body::<AddPod>() else { return Ok(String::new()) };
        known(&self.0).pods.push(pod.name.clone());
        Ok(format!("remember pod {}", pod.name))
    }

    fn revert(&mut self, _: &Event) -> Result<(), HandlerError> {
        known(&self.0).pods.pop();
        Ok(())
    }
}

struct Addresses(Shared);

impl Handler for Addresses {
    fn name(&self) -> &str {
        "addresses"
    }

    fn handles(&self, event: &Event) -> bool {
        event.is::<AddPod>()
    }

    fn resync(&mut self, _: &Event, _: &Inputs, _: u64, _: &mut Draft<'_>) -> Result<(), HandlerError> {
        Ok(())
    }

    fn update(&mut self, event: &Event, _: &mut Draft<'_>) -> Result<String, HandlerError> {
        let Some(pod) = event.body::<AddPod>() else { return Ok(String::new()) };
        let mut known = known(&self.0);
        let address = format!("10.1.0.{}/24", known.pods.len());
        known.addresses.insert(pod.name.clone(), address.clone());
        Ok(format!("give {address}"))
    }

    fn revert(&mut self, event: &Event) -> Result<(), HandlerError> {
        if let Some(pod) = event.body::<AddPod>() {
            known(&self.0).addresses.remove(&pod.name);
        }
        Ok(())
    }
}

struct Wiring(Shared);

impl Wiring {
    fn draft(&self, pod: &str, draft: &mut Draft<'_>) -> Result<(), HandlerError> {
        let known = known(&self.0);
        let address =
            known.addresses.get(pod).ok_or_else(|| HandlerError::plain("the pod has no address"))?;
        draft.put(format!("tap/{pod}"), Tap { address: address.clone() });
        Ok(())
    }
}

impl Handler for Wiring {
    fn name(&self) -> &str {
        "wiring"
    }

    fn handles(&self, event: &Event) -> bool {
        event.is::<AddPod>() || matches!(event.method(), Method::Resync(_))
    }

    fn resync(&mut self, _: &Event, _: &Inputs, _: u64, draft: &mut Draft<'_>) -> Result<(), HandlerError> {
        let pods = known(&self.0).pods.clone();
        pods.iter().try_for_each(|pod| self.draft(pod, draft))
    }

    fn update(&mut self, event: &Event, draft: &mut Draft<'_>) -> Result<String, HandlerError> {
        let Some(pod) = event.body::<AddPod>() else { return Ok(String::new()) };
        self.draft(&pod.name, draft)?;
        Ok(format!("wire tap/{}", pod.name))
    }

    fn revert(&mut self, _: &Event) -> Result<(), HandlerError> {
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Tap {
    address: String,
}

struct TapKind;

impl Kind for TapKind {
    type Value = Tap;
    const NAME: &'static str = "example.tap";
    const KEYS: &'static [&'static str] = &["tap/*"];
}

/// What makes things real; here, a map, and keys whose creation fails once.
#[derive(Default)]
struct World {
    things: BTreeMap<Key, ValueRef>,
    fails: Vec<&'static str>,
}

impl World {
    fn perform(&mut self, operation: Operation) -> Answer {
        match operation.act {
            Act::Create { key, .. } if self.fails.contains(&key.as_str()) => {
                self.fails.retain(|fails| *fails != key.as_str());
                return Answer::Failed(Failure::retriable("no such network namespace"));
            }
            Act::Create { key, value } | Act::Update { key, new: value, .. } => {
                self.things.insert(key, value);
            }
            Act::Delete { key, .. } => {
                self.things.remove(&key);
            }
            Act::Retrieve { key, .. } => {
                let found = self.things.get(&key).cloned();
                return found.map_or(Answer::Absent, |value| {
                    Answer::Found(Retrieved { key, value, facts: None, origin: None })
                });
            }
            Act::RetrieveAll { .. } => {
                let things = self.things.iter();
                let all = things.map(|(key, value)| Retrieved {
                    key: key.clone(),
                    value: value.clone(),
                    facts: None,
                    origin: None,
                });
                return Answer::Listed(all.collect());
            }
        }
        Answer::done()
    }

    fn run(&mut self, scheduler: &mut Scheduler, txn: Txn, now: Timestamp) -> Arc<Record> {
        scheduler.begin(txn, now);
        loop {
            match scheduler.stage() {
                Stage::Planned => scheduler.execute(),
                Stage::Refreshing | Stage::Walking => {
                    for operation in scheduler.ready() {
                        let id = operation.id;
                        let answer = self.perform(operation);
                        scheduler.answer(id, answer, now);
                    }
                }
                Stage::Ended | Stage::Idle => return scheduler.finish(now),
            }
        }
    }
}

/// Does what the loop says until it has nothing to do; then time passes until it has.
fn drive(events: &mut EventLoop, world: &mut World, mut now: Timestamp) -> Timestamp {
    loop {
        match events.next(now) {
            Step::Opened(opening) => print!("{}", banner::opening(&opening)),
            Step::Commit(txn) => {
                let record = world.run(events.scheduler_mut(), txn, now);
                for step in record.steps() {
                    println!("    {} {} → {}", step.action.name(), step.key, step.after.state);
                }
                events.committed(Some(record), now);
            }
            Step::Closed(record) => println!("{}", banner::closing(&record)),
            Step::Wait(Some(deadline)) => now = deadline,
            Step::Fatal(fatal) => println!("the agent ends with exit code {}: {fatal}", fatal.exit_code()),
            Step::Wait(None) | Step::Stopped | Step::Plan(_) | Step::Perform(_) => return now,
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shared = Shared::default();
    let mut scheduler = Scheduler::default();
    scheduler.register(describe(TapKind)?)?;
    let started = Instant::now();
    let parts = Parts {
        scheduler,
        handlers: vec![
            Box::new(Pods(Arc::clone(&shared))),
            Box::new(Addresses(Arc::clone(&shared))),
            Box::new(Wiring(Arc::clone(&shared))),
        ],
        sources: Vec::new(),
        stopwatch: Box::new(move || started.elapsed()),
    };
    let mut now = Timestamp::default().after(Duration::from_secs(1_700_000_000));
    // Without retries of the scheduler, so that healing is seen.
    let settings = Settings { retry: false, ..Settings::default() };
    let mut events = EventLoop::new(settings, parts, now)?;
    let producer = events.producer();
    let mut world = World { fails: vec!["tap/green", "tap/red"], ..World::default() };

    producer.push(Event::new(DatabaseResync::default()))?;
    for (name, all_or_nothing) in [("blue", true), ("green", true), ("red", false)] {
        let event = Event::new(AddPod { name: name.to_owned(), all_or_nothing });
        let waiter = producer.push_blocking(event)?;
        now = drive(&mut events, &mut world, now);
        match waiter.wait() {
            Ok(()) => println!("{name} is connected\n"),
            Err(error) => println!("{name} is not connected: {}\n", chain(&error)),
        }
    }
    producer.push(Event::new(Shutdown))?;
    drive(&mut events, &mut world, now);
    let things: Vec<String> = world.things.keys().map(ToString::to_string).collect();
    println!("what exists: {}", things.join(", "));
    Ok(())
}
