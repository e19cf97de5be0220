//! A small world to act on: things that exist, and a script of what happens to operations on them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, join_all};
use kilter_scheduler::{
    Act, Answer, Change, Derived, Descriptor, Facts, Failure, FieldError, Key, KeyPattern, Needs, Retrieved,
    Scheduler, Settings as SchedulerSettings, Transition, Txn, ValueRef,
};
use kilter_southbound::{
    Actuator, Actuators, Assignment, Batch, Cancel, Driver, Ending, Settings, SystemClock,
};
use serde::Serialize;
use tokio::time::sleep; // A planned delay in paused time, never a wait: the tests poll for conditions until a deadline.

/// The value of every item in these tests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Thing {
    pub(crate) needs: Vec<String>,
    pub(crate) size: u32,
    /// Makes no difference to the world.
    pub(crate) remark: &'static str,
}

pub(crate) fn thing() -> Thing {
    Thing::default()
}

pub(crate) fn needing(keys: &[&str]) -> Thing {
    Thing { needs: keys.iter().map(|key| (*key).to_owned()).collect(), ..Thing::default() }
}

/// A kind of things: its keys are its name and one segment.
struct Things(&'static str);

impl Descriptor for Things {
    fn kind(&self) -> &str {
        self.0
    }

    fn keys(&self) -> Vec<KeyPattern> {
        vec![KeyPattern::parse(&format!("{}/*", self.0)).unwrap()]
    }

    fn validate(&self, _key: &Key, _value: &ValueRef) -> Vec<FieldError> {
        Vec::new()
    }

    fn needs(&self, _key: &Key, value: &ValueRef, needs: &mut Needs) {
        for key in value.downcast::<Thing>().map_or(&[][..], |thing| &thing.needs) {
            needs.on(key);
        }
    }

    fn derive(&self, _key: &Key, _value: &ValueRef, _derived: &mut Derived) {}

    fn transition(&self, _key: &Key, old: &ValueRef, new: &ValueRef) -> Transition {
        match (old.downcast::<Thing>(), new.downcast::<Thing>()) {
            (Some(old), Some(new)) if old.size == new.size && old.needs == new.needs => Transition::Same,
            _ => Transition::InPlace,
        }
    }
}

/// What happens to a change of an item; without a script it is done at once.
#[derive(Clone, Copy)]
pub(crate) enum Script {
    Takes(Duration),
    Fails(&'static str),
    Hangs,
    Panics,
    /// The actuator forgets to answer.
    IsForgotten,
    /// The actuator gives an answer to another question.
    IsMisunderstood,
}

#[derive(Default)]
pub(crate) struct World {
    state: Mutex<WorldState>,
}

#[derive(Default)]
pub(crate) struct WorldState {
    pub(crate) items: BTreeMap<Key, Thing>,
    scripts: BTreeMap<Key, Script>,
    /// `create a/1`, in the order in which it began.
    pub(crate) begun: Vec<String>,
    /// Each batch of changes: whose it was, and the keys.
    pub(crate) batches: Vec<(&'static str, Vec<String>)>,
    /// The facts that came along, by item: keys of what it needs.
    pub(crate) told: BTreeMap<Key, Vec<String>>,
    under_way: usize,
    pub(crate) most_at_once: usize,
}

impl World {
    pub(crate) fn lock(&self) -> MutexGuard<'_, WorldState> {
        self.state.lock().unwrap()
    }

    pub(crate) fn script(&self, key: &str, script: Script) {
        self.lock().scripts.insert(key.into(), script);
    }

    /// Performs one change as its script says; `None` leaves it without an answer.
    pub(crate) async fn change(&self, act: &Act) -> Option<Answer> {
        let (verb, key) = match act {
            Act::Create { key, .. } => ("create", key),
            Act::Update { key, .. } => ("update", key),
            Act::Delete { key, .. } => ("delete", key),
            Act::Retrieve { .. } | Act::RetrieveAll { .. } => panic!("not a change: {act:?}"),
        };
        let script = {
            let mut state = self.lock();
            state.begun.push(format!("{verb} {key}"));
            state.under_way += 1;
            state.most_at_once = state.most_at_once.max(state.under_way);
            state.scripts.get(key).copied()
        };
        let answer = match script {
            None => Some(self.change_now(act)),
            Some(Script::Takes(time)) => {
                sleep(time).await;
                Some(self.change_now(act))
            }
            Some(Script::Fails(why)) => Some(Answer::Failed(Failure::retriable(why))),
            Some(Script::Hangs) => std::future::pending().await,
            Some(Script::Panics) => panic!("no hands for {key}"),
            Some(Script::IsForgotten) => None,
            Some(Script::IsMisunderstood) => Some(Answer::Listed(Vec::new())),
        };
        self.lock().under_way -= 1;
        answer
    }

    fn change_now(&self, act: &Act) -> Answer {
        let mut state = self.lock();
        match act {
            Act::Create { key, value } | Act::Update { key, new: value, .. } => {
                state.items.insert(key.clone(), value.downcast::<Thing>().unwrap().clone());
            }
            Act::Delete { key, .. } => drop(state.items.remove(key)),
            Act::Retrieve { .. } | Act::RetrieveAll { .. } => panic!("not a change: {act:?}"),
        }
        Answer::Done { facts: Some(Facts::new("made".to_owned())) }
    }

    fn read(&self, kind: &str, act: &Act) -> Answer {
        let state = self.lock();
        let seen = |key: &Key, thing: &Thing| Retrieved {
            key: key.clone(),
            value: ValueRef::new(thing.clone()),
            facts: None,
            origin: None,
        };
        match act {
            Act::Retrieve { key, .. } => {
                state.items.get(key).map_or(Answer::Absent, |thing| Answer::Found(seen(key, thing)))
            }
            Act::RetrieveAll { .. } => {
                let of_kind = |key: &Key| key.as_str().split('/').next() == Some(kind);
                let all = state.items.iter().filter(|(key, _)| of_kind(key));
                Answer::Listed(all.map(|(key, thing)| seen(key, thing)).collect())
            }
            Act::Create { .. } | Act::Update { .. } | Act::Delete { .. } => panic!("not a read: {act:?}"),
        }
    }
}

/// An actuator that takes its whole batch at once and does all of it at the same time.
pub(crate) struct Hand {
    pub(crate) name: &'static str,
    pub(crate) world: Arc<World>,
}

impl Hand {
    async fn attend(&self, assignment: Assignment) {
        let Assignment { kind, act, reply, .. } = assignment;
        if matches!(act, Act::Retrieve { .. } | Act::RetrieveAll { .. }) {
            reply.send(self.world.read(&kind, &act));
        } else if let Some(answer) = self.world.change(&act).await {
            reply.send(answer);
        }
    }
}

impl Actuator for Hand {
    fn perform(&self, mut batch: Batch) -> BoxFuture<'_, ()> {
        async move {
            let reads = batch.is_read();
            let assignments = batch.take_all();
            if !reads {
                let mut state = self.world.lock();
                let keys = assignments.iter().filter_map(Assignment::key).map(Key::to_string).collect();
                state.batches.push((self.name, keys));
                for assignment in &assignments {
                    let told = assignment.needs.iter().map(|(key, _)| key.to_string()).collect();
                    state.told.insert(assignment.key().unwrap().clone(), told);
                }
            }
            join_all(assignments.into_iter().map(|assignment| self.attend(assignment))).await;
        }
        .boxed()
    }
}

/// A scheduler, a driver and a world with the kinds `a`, `b` and `c`, and the kind `nobody` without an actuator.
pub(crate) struct House {
    pub(crate) scheduler: Scheduler,
    pub(crate) driver: Driver,
    pub(crate) world: Arc<World>,
    pub(crate) cancel: Cancel,
}

pub(crate) const KINDS: [&str; 3] = ["a", "b", "c"];

impl House {
    /// Each kind has a hand of its own.
    pub(crate) fn new() -> Self {
        let world = Arc::new(World::default());
        let mut actuators = Actuators::new();
        for name in KINDS {
            actuators.add(name, Arc::new(Hand { name, world: Arc::clone(&world) })).unwrap();
        }
        Self::with(world, actuators, Settings::default())
    }

    pub(crate) fn with(world: Arc<World>, actuators: Actuators, settings: Settings) -> Self {
        let mut scheduler = Scheduler::new(SchedulerSettings::default());
        for kind in KINDS.into_iter().chain(["nobody"]) {
            scheduler.register(Box::new(Things(kind))).unwrap();
        }
        Self { scheduler, driver: Driver::new(actuators, settings), world, cancel: Cancel::new() }
    }

    pub(crate) async fn run(&mut self, txn: Txn) -> Arc<kilter_scheduler::Record> {
        self.run_to_ending(txn).await.record().unwrap()
    }

    pub(crate) async fn run_to_ending(&mut self, txn: Txn) -> Ending {
        self.driver.run(&mut self.scheduler, txn, &SystemClock, &mut (), &self.cancel).await
    }

    pub(crate) fn cancel_after(&self, time: Duration) {
        let cancel = self.cancel.clone();
        tokio::spawn(async move {
            sleep(time).await;
            cancel.cancel("enough is enough");
        });
    }

    /// The state of an item, with the error if there is one.
    pub(crate) fn state(&self, key: &str) -> (String, Option<String>) {
        let status = self.scheduler.status(key);
        (status.state.to_string(), status.error.map(|error| error.to_string()))
    }

    pub(crate) fn error(&self, key: &str) -> String {
        self.state(key).1.unwrap_or_else(|| panic!("{key} has no error: {:?}", self.scheduler.status(key)))
    }

    pub(crate) fn exists(&self, key: &str) -> bool {
        self.world.lock().items.contains_key(key)
    }
}

pub(crate) fn put(items: &[(&str, Thing)]) -> Txn {
    Txn::changes(items.iter().map(|(key, thing)| Change::put(*key, ValueRef::new(thing.clone()))).collect())
}

pub(crate) fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}
