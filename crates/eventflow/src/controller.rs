//! The controller: drives the event loop over a mirror of the cluster.
//!
//! Decided here: that everything that changed since the last look is taken together, and that a status is written only
//! when it says something new. Not decided here: where the mirror's content comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt as _;
use futures::stream;
use kilter_events::builtin::{DatabaseResync, Drifted, Observed};
use kilter_events::{
    Event, EventLoop, Fatal, Parts, PushError, Settings as EventSettings, SettingsError, Step,
};
use kilter_scheduler::{
    Changes, Cursor, Explanation, Key, PatternError, RegisterError, Scheduler, State, Timestamp, Txn,
};
use kilter_southbound::{
    Actuator, Actuators, AddActuatorError, Cancel, Clock, Driver, Settings as DriverSettings,
};
use serde_json::json;

use crate::actuator::Cluster;
use crate::announcement::announcement;
use crate::budget::{Budget, REFILL, SPENT};
use crate::condition::FlowStatus;
use crate::counts::Counts;
use crate::flows::{Changed, ClusterChange, Flows};
use crate::key::{self, Named};
use crate::kinds::descriptors;
use crate::mirror::Shared;
use crate::names;
use crate::object::{Id, Object, Resource};
use crate::patience::{SLOW, Waits, pace};
use crate::read;
use crate::request::{Api, Class, Rejected, Request, Sent};
use crate::settings::Settings;
use crate::standing;
use crate::translate::{Told, everything, translate};

/// How many statuses are written at the same time.
const AT_ONCE: usize = 8;

/// Why a controller could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// A kind's keys are not well formed.
    #[error("failed to describe the kinds")]
    Kinds(#[from] PatternError),
    /// Two kinds claim the same keys.
    #[error("failed to register the kinds")]
    Register(#[from] RegisterError),
    /// A kind has two actuators.
    #[error("failed to add the actuators")]
    Actuators(#[from] AddActuatorError),
    /// A setting cannot be.
    #[error("failed to make the event loop")]
    Settings(#[from] SettingsError),
    /// The loop takes nothing any more.
    #[error("failed to tell the event loop what has changed")]
    Push(#[from] PushError),
    /// The loop has ended.
    #[error("the event loop has ended: {0}")]
    Ended(Fatal),
}

/// The flows whose status may have changed.
#[derive(Debug, Default)]
struct Stirred {
    everything: bool,
    namespaces: BTreeSet<String>,
    sources: BTreeSet<String>,
    flows: BTreeSet<(String, String)>,
}

impl Stirred {
    fn note_key(&mut self, key: &Key) {
        match Named::of(key) {
            Some(Named::Finalizer { namespace, flow }) => {
                self.flows.insert((namespace.to_owned(), flow.to_owned()));
            }
            Some(Named::SinkClaim { .. } | Named::SubscriptionClaim { .. }) => {}
            Some(
                Named::Slot { namespace }
                | Named::Sink { namespace }
                | Named::Policy { namespace }
                | Named::Subscription { namespace, .. },
            ) => {
                self.namespaces.insert(namespace.to_owned());
            }
            None => {}
        }
    }

    fn note_object(&mut self, id: &Id, object: Option<&Object>) {
        match id.resource {
            Resource::Definition => self.everything = true,
            Resource::EventFlow => {
                self.flows.insert((id.namespace.clone(), id.name.clone()));
            }
            Resource::Broker | Resource::Policy | Resource::PeerAuthentication => {
                self.namespaces.insert(id.namespace.clone());
            }
            Resource::Source => {
                self.sources.insert(id.name.clone());
            }
            Resource::Subscription => {
                let namespace = object.and_then(|it| it.label(names::BROKER_NAMESPACE_LABEL));
                self.namespaces.extend(namespace.map(str::to_owned));
            }
            Resource::Namespace
            | Resource::EventActivation
            | Resource::Trigger
            | Resource::Channel
            | Resource::Application
            | Resource::ServiceInstance
            | Resource::ConfigMap => {}
        }
    }

    fn concerns(&self, flow: &Object) -> bool {
        let Id { namespace, name, .. } = flow.id();
        self.everything
            || self.namespaces.contains(namespace)
            || self.sources.contains(read::source(flow))
            || self.flows.contains(&(namespace.clone(), name.clone()))
    }

    fn is_empty(&self) -> bool {
        !self.everything && self.namespaces.is_empty() && self.sources.is_empty() && self.flows.is_empty()
    }
}

/// Keeps the flows of a cluster.
pub struct Controller {
    events: EventLoop,
    driver: Driver,
    api: Arc<dyn Api>,
    mirror: Shared,
    settings: Arc<Settings>,
    counts: Arc<Counts>,
    clock: Arc<dyn Clock>,
    stirred: Stirred,
    seen: Option<Cursor>,
    /// Since when the operations of an item fail, one after another.
    failing: BTreeMap<Key, Timestamp>,
    /// How often each status may be written.
    budget: Budget,
    /// The statuses that could not be written.
    unwritten: Waits<(String, String)>,
}

impl Controller {
    /// A controller over a mirror whose lists are complete: it begins with everything that is there.
    pub fn new(
        settings: Settings,
        api: Arc<dyn Api>,
        mirror: Shared,
        clock: Arc<dyn Clock>,
        counts: Arc<Counts>,
    ) -> Result<Self, ControllerError> {
        let (seed, settings) = (settings.seed, Arc::new(settings));
        let mut scheduler = Scheduler::default();
        let mut actuators = Actuators::new();
        let cluster: Arc<dyn Actuator> = Arc::new(Cluster::new(
            Arc::clone(&api),
            mirror.clone(),
            Arc::clone(&settings),
            Arc::clone(&counts),
            Arc::clone(&clock),
        ));
        for descriptor in descriptors()? {
            actuators.add(descriptor.kind(), Arc::clone(&cluster))?;
            scheduler.register(descriptor)?;
        }
        let started = Instant::now();
        let parts = Parts {
            scheduler,
            handlers: vec![Box::new(Flows::new(Arc::clone(&settings)))],
            sources: Vec::new(),
            stopwatch: Box::new(move || started.elapsed()),
        };
        let events = EventLoop::new(loop_settings(seed), parts, clock.now())?;
        let (inputs, leaving) = {
            let mut mirror = mirror.lock();
            mirror.take_changed();
            everything(&mirror, &settings)
        };
        events.producer().push(Event::new(DatabaseResync { inputs, ..DatabaseResync::default() }))?;
        if !leaving.is_empty() {
            events.producer().push(Event::new(ClusterChange(leaving)))?;
        }
        Ok(Self {
            events,
            driver: Driver::new(actuators, DriverSettings::default()),
            api,
            mirror,
            settings,
            counts,
            clock,
            stirred: Stirred { everything: true, ..Stirred::default() },
            seen: None,
            failing: BTreeMap::new(),
            budget: Budget::default(),
            unwritten: Waits::new(seed),
        })
    }

    /// What decides; to look at.
    pub fn scheduler(&self) -> &Scheduler {
        self.events.scheduler()
    }

    /// Why a flow is not ready: a chain of causes for each of its children; nothing if there is no such flow.
    pub fn explain(&self, namespace: &str, name: &str) -> Vec<Explanation> {
        let id = Id::new(Resource::EventFlow, namespace, name);
        let Some(flow) = self.mirror.lock().get(&id).cloned() else { return Vec::new() };
        let mut keys = vec![key::finalizer(namespace, name), key::slot(namespace), key::sink(namespace)];
        keys.extend(self.settings.policy.map(|_| key::policy(namespace)));
        keys.push(key::subscription(namespace, read::source(&flow)));
        keys.iter().map(|key| self.scheduler().explain(key.as_str())).collect()
    }

    /// Takes in everything that has changed and does what follows, until nothing is left but to wait.
    ///
    /// The answer is when it has to be called again even if nothing changes.
    pub async fn settle(&mut self) -> Result<Option<Timestamp>, ControllerError> {
        loop {
            if self.events.is_between_turns() && self.events.glance().has_started() {
                self.take_in()?;
            }
            match self.events.next(self.clock.now()) {
                Step::Commit(txn) => self.commit(txn).await,
                Step::Plan(txn) => {
                    let scheduler = self.events.scheduler_mut();
                    let plan = self.driver.plan_only(scheduler, txn, &*self.clock).await;
                    self.events.planned(plan, self.clock.now());
                }
                Step::Opened(opening) => tracing::debug!(event = opening.seq, "{}", opening.description),
                Step::Closed(record) => {
                    for failure in &record.failures {
                        tracing::warn!(event = record.seq, "{failure}");
                    }
                }
                Step::Perform(effect) => {
                    let missing = format!("nobody performs `{}`", effect.name);
                    self.events.producer().push_ended(effect.ended(Err(missing)))?;
                }
                Step::Wait(deadline) => {
                    if !self.mirror.lock().has_changed() {
                        return Ok(deadline);
                    }
                }
                Step::Fatal(fatal) => return Err(ControllerError::Ended(fatal)),
                Step::Stopped => return Ok(None),
            }
        }
    }

    async fn commit(&mut self, txn: Txn) {
        let scheduler = self.events.scheduler_mut();
        let never = Cancel::new();
        let record = self.driver.run(scheduler, txn, &*self.clock, &mut (), &never).await.record();
        self.events.committed(record, self.clock.now());
        let (changes, seen) = self.events.scheduler().watch(self.seen);
        self.seen = Some(seen);
        let statuses = match changes {
            Changes::Snapshot(statuses) => {
                self.stirred.everything = true;
                statuses
            }
            Changes::Changed(statuses) => {
                statuses.iter().for_each(|status| self.stirred.note_key(&status.key));
                statuses
            }
        };
        let now = self.clock.now();
        for status in statuses {
            if status.state == State::Retrying {
                self.failing.entry(status.key).or_insert(now);
            } else {
                self.failing.remove(&status.key);
            }
        }
    }

    /// Tells the loop what has changed in the cluster.
    fn take_in(&mut self) -> Result<(), ControllerError> {
        let told = {
            let mut mirror = self.mirror.lock();
            let changed = mirror.take_changed();
            if changed.is_empty() {
                return Ok(());
            }
            for (id, before) in &changed {
                self.stirred.note_object(id, mirror.get(id).or(before.as_ref()));
            }
            translate(&changed, &mirror, self.events.scheduler(), &self.settings)
        };
        let Told { changes, observed, drifted } = told;
        let producer = self.events.producer();
        // What comes is taken in before what goes: a claim that replaces the last one holds what is shared.
        let (going, coming): (Vec<_>, Vec<_>) = changes.into_iter().partition(Changed::is_departure);
        let (gone, seen): (Vec<_>, Vec<_>) = observed.into_iter().partition(|seen| seen.value.is_none());
        for (changes, observed) in [(coming, seen), (going, gone)] {
            if !changes.is_empty() {
                producer.push(Event::new(ClusterChange(changes)))?;
            }
            if !observed.is_empty() {
                producer.push(Event::new(Observed(observed)))?;
            }
        }
        if !drifted.is_empty() {
            producer.push(Event::new(Drifted(drifted)))?;
        }
        Ok(())
    }

    /// Writes the statuses that say something new, and those whose turn has come again; how many were written.
    pub async fn write_statuses(&mut self) -> usize {
        let now = self.clock.now();
        self.stirred.flows.extend(self.unwritten.ripe(now).cloned());
        if self.stirred.is_empty() {
            return 0;
        }
        let stirred = std::mem::take(&mut self.stirred);
        let mut due = self.due_statuses(&stirred);
        // What is gone, or says again what is written, is not tried any more.
        let owed: BTreeSet<(String, String)> =
            due.iter().map(|(id, ..)| (id.namespace.clone(), id.name.clone())).collect();
        self.unwritten.retain(now, |name| owed.contains(name));
        due.retain(|(id, ..)| self.may_write(id, now));
        let (api, mirror, counts) = (&self.api, &self.mirror, &self.counts);
        let written = stream::iter(due).map(|(id, status, announcement)| async move {
            let request = status_request(id.clone(), &status);
            counts.request(&request);
            match api.send(request).await {
                Ok(Sent::Object(object)) => mirror.lock().see(object),
                Ok(Sent::Gone) => {}
                Err(rejected) if rejected.class() == Class::Missing => {}
                Err(rejected) => {
                    counts.rejected(rejected.class());
                    tracing::warn!("failed to write the status of {id}: {rejected}");
                    return (id, Some(rejected));
                }
            }
            if let Some(announcement) = announcement {
                counts.request(&announcement);
                // Nobody depends on it, and it is not told twice.
                if let Err(rejected) = api.send(announcement).await {
                    counts.rejected(rejected.class());
                }
            }
            (id, None)
        });
        let ended: Vec<(Id, Option<Rejected>)> = written.buffer_unordered(AT_ONCE).collect().await;
        let count = ended.len();
        for (id, rejected) in ended {
            self.note_status((id.namespace, id.name), rejected.as_ref());
        }
        count
    }

    /// Takes a write of a status out of its budget. One for which there is none left, or that waits, is written later.
    fn may_write(&mut self, id: &Id, now: Timestamp) -> bool {
        let name = (id.namespace.clone(), id.name.clone());
        if self.unwritten.get(&name).is_some_and(|it| it.is_firm && now < it.due) {
            return false;
        }
        let key = key::status(&id.namespace, &id.name);
        let rival = || self.mirror.lock().get(id).and_then(|flow| flow.rival().map(str::to_owned));
        let Err(exhausted) = self.budget.spend(&key, id, now, rival) else { return true };
        tracing::warn!("the status of a flow waits: {exhausted}");
        self.unwritten.note(name, SPENT, Some(REFILL), now);
        false
    }

    /// When a status is tried again that could not be written: what can never be is not, until it says something else.
    fn note_status(&mut self, name: (String, String), rejected: Option<&Rejected>) {
        match rejected.filter(|rejected| rejected.class().is_retriable()) {
            Some(rejected) => drop(self.unwritten.reject(name, rejected, self.clock.now())),
            None => self.unwritten.forget(&name),
        }
    }

    /// Whether a status may say something new.
    pub fn owes_statuses(&self) -> bool {
        !self.stirred.is_empty()
    }

    /// When a status that could not be written has to be tried again.
    pub fn statuses_due(&self) -> Option<Timestamp> {
        self.unwritten.due()
    }

    fn due_statuses(&self, stirred: &Stirred) -> Vec<(Id, FlowStatus, Option<Request>)> {
        let mirror = self.mirror.lock();
        let now = self.clock.now();
        let flows = mirror.of(Resource::EventFlow).filter(|flow| stirred.concerns(flow));
        flows
            .filter_map(|flow| {
                let status =
                    standing::status(flow, &mirror, self.scheduler(), &self.settings, &self.failing, now);
                let written = standing::written(flow);
                let announcement = announcement(flow, &written, &status, now);
                status.is_worth_writing(&written).then(|| (flow.id().clone(), status, announcement))
            })
            .collect()
    }
}

fn status_request(id: Id, status: &FlowStatus) -> Request {
    let body = json!({
        "apiVersion": id.resource.api_version(),
        "kind": id.resource.kind(),
        "metadata": {"name": id.name, "namespace": id.namespace},
        "status": status,
    });
    Request::Status { id, body }
}

/// What fails is tried again at the pace of everything here.
fn loop_settings(seed: u64) -> EventSettings {
    let pace = pace(seed);
    EventSettings {
        retry_delay: pace.period,
        retry_attempts: u32::MAX,
        retry_cap: SLOW,
        retry_jitter: pace.jitter,
        healing_attempts: u32::MAX,
        healing_cap: SLOW,
        // Everything that is declared is known before anything is done: what else is ours is a leftover.
        prune: true,
        history_count: 1000,
        ..EventSettings::default()
    }
}
