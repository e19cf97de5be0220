//! The keeper: carries out what platforms were promised, from the records and the cluster alone.
//!
//! Each round looks at every record whose operation is under way and does the next thing about it; a round follows
//! whenever something changes, or when something failed a while ago. There is nothing to lose: whoever starts finds the
//! same records. Provisioning is all or nothing: what can never succeed is taken back before it is called failed. What
//! fails is tried again at the pace of items, by the class of the rejection, and out of a budget of writes.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kilter_scheduler::Timestamp;
use kilter_southbound::{Clock, SystemClock};
use serde_json::Value as Json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::adoption::strangers;
use crate::budget::{Budget, Exhausted};
use crate::client::Server;
use crate::counts::Counts;
use crate::key;
use crate::mirror::Shared;
use crate::names;
use crate::object::{Id, Object, Resource};
use crate::osb::objects::{
    ACTIVATION_OWNER, FLOW_OWNER, activation, activation_id, flow, flow_id, is_of, may_be_of,
};
use crate::osb::pauses::{Hitch, Pauses};
use crate::osb::record::{Record, Stage};
use crate::osb::store::{Store, record};
use crate::read::is_marked;
use crate::request::{Api, Class, Request, Sent};
use crate::watch::{Extent, Wake, follow};

/// How long a platform is asked to wait for an operation, in seconds; then provisioning is given up.
pub const LONGEST: u64 = 600;

/// How long an instance that is gone is remembered, in seconds.
const REMEMBERED: u64 = 3600;

/// How often a deletion is tried of something that changes meanwhile.
const DELETIONS: usize = 3;

/// Seconds since 1970.
pub(crate) fn seconds() -> u64 {
    let Timestamp(nanoseconds) = SystemClock.now();
    nanoseconds / 1_000_000_000
}

/// Carries out operations.
pub struct Keeper {
    store: Store,
    mirror: Shared,
    wake: Wake,
    /// The orders that did not go on.
    pauses: Pauses,
    /// How often each object may be written for an order.
    budget: Mutex<Budget>,
    _watches: JoinSet<()>,
}

/// The resources that a service broker watches.
const WATCHED: [Resource; 5] = [
    Resource::Definition,
    Resource::EventFlow,
    Resource::EventActivation,
    Resource::Application,
    Resource::ServiceInstance,
];

impl Keeper {
    /// Begins to watch a cluster; `namespace` is where the records are.
    pub fn new(server: &Server, api: Arc<dyn Api>, counts: Arc<Counts>, namespace: &str) -> Self {
        let (mirror, wake) = (Shared::default(), Wake::default());
        let server = server.clone().counted(&counts);
        let mut watches = JoinSet::new();
        let records = Extent::labelled(Resource::ConfigMap, namespace, names::RECORD_LABEL);
        for extent in WATCHED.into_iter().map(Extent::from).chain([records]) {
            watches.spawn(follow(server.clone(), extent, mirror.clone(), wake.clone()));
        }
        let store = Store { api, counts, namespace: namespace.to_owned() };
        // Another number for each program.
        let pauses = Pauses::new(RandomState::new().build_hasher().finish());
        Self { store, mirror, wake, pauses, budget: Mutex::default(), _watches: watches }
    }

    /// What is known of the cluster, for the catalog.
    pub fn mirror(&self) -> Shared {
        self.mirror.clone()
    }

    pub(crate) fn store(&self) -> Store {
        self.store.clone()
    }

    /// Waits until everything that is watched has been read.
    pub async fn ready(&self) {
        let is_complete = || {
            let mirror = self.mirror.lock();
            WATCHED.into_iter().chain([Resource::ConfigMap]).all(|resource| mirror.is_complete(resource))
        };
        while !is_complete() {
            self.wake.changed().await;
        }
    }

    /// Carries out whatever is promised; never ends.
    pub async fn keep(&mut self) {
        loop {
            let next = self.round().await;
            tokio::select! {
                () = self.wake.changed() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Does the next thing about everything that is under way; when it has to be looked at again in any case.
    async fn round(&mut self) -> Instant {
        let now = SystemClock.now();
        self.adopt(now).await;
        let records: Vec<(Object, Record)> = {
            let mirror = self.mirror.lock();
            let objects = mirror.inside(Resource::ConfigMap, &self.store.namespace);
            objects.filter_map(|object| Some((object.clone(), record(object)?))).collect()
        };
        // What takes too long is looked at when it does, whatever happens until then.
        let ends = records
            .iter()
            .filter(|(_, record)| record.stage == Stage::Provisioning && record.doomed.is_none());
        let end = ends.map(|(_, record)| (record.since + LONGEST).saturating_sub(seconds())).min();
        for (object, record) in records {
            if record.stage == Stage::Deprovisioned && record.since + REMEMBERED < seconds() {
                self.forget(&object).await;
            }
            if self.is_resting(&record, now) || !self.has_work(&record) {
                continue;
            }
            match self.advance(record.clone(), object.version()).await {
                Ok(()) => self.pauses.forget(&record),
                Err(hitch) => self.put_off(record, object.version(), &hitch).await,
            }
        }
        // Whoever did not try again although it was his turn has nothing to do any more.
        self.pauses.sweep(now);
        let again = self.pauses.due().map(|due| due.since(SystemClock.now()));
        let end = end.map(|left| Duration::from_secs(left.max(1)));
        let pause = again.into_iter().chain(end).min().unwrap_or(Duration::from_secs(REMEMBERED));
        Instant::now() + pause
    }

    fn is_resting(&self, record: &Record, now: Timestamp) -> bool {
        self.pauses.is_resting(record, &self.mirror.lock(), now)
    }

    /// Whether an operation is under way, or something is gone that should be there.
    fn has_work(&self, record: &Record) -> bool {
        let mirror = self.mirror.lock();
        let is_there = |id: Id| mirror.get(&id).is_some();
        record.stage.is_under_way()
            || record.stage == Stage::Provisioned
                && !(is_there(flow_id(record)) && is_there(activation_id(record)))
    }

    /// Begins a record for every instance that the platform has and nobody here knows: an older service broker made it,
    /// or the records were lost.
    async fn adopt(&mut self, now: Timestamp) {
        let strangers = strangers(&self.mirror.lock(), &self.store.namespace, seconds());
        for record in strangers {
            if self.is_resting(&record, now) {
                continue;
            }
            tracing::info!("adopts instance `{}`", record.instance);
            match self.store.write(&record, None).await {
                Ok(written) => {
                    self.pauses.forget(&record);
                    written.into_iter().for_each(|sent| self.note(sent));
                }
                Err(source) => {
                    tracing::warn!("failed to adopt instance `{}`: {source}", record.instance);
                    let hitch = Hitch::Later { id: self.store.id(&record.instance), source };
                    self.pauses.note(&record, &hitch, &self.mirror.lock(), SystemClock.now());
                }
            }
        }
    }

    /// Takes note of an order that did not go on. Why is told to whoever asks, by every copy: the record says it, once for
    /// each sort of failure.
    async fn put_off(&mut self, mut record: Record, version: &str, hitch: &Hitch) {
        tracing::warn!("failed to go on with instance `{}`: {hitch}", record.instance);
        let is_news = self.pauses.note(&record, hitch, &self.mirror.lock(), SystemClock.now());
        let why = hitch.to_string();
        if is_news && record.hitch.as_ref() != Some(&why) {
            record.hitch = Some(why);
            // Nobody depends on it.
            if let Ok(written) = self.store.write(&record, Some(version)).await {
                written.into_iter().for_each(|sent| self.note(sent));
            }
        }
    }

    async fn advance(&self, mut record: Record, version: &str) -> Result<(), Hitch> {
        let now = seconds();
        let ended = match record.stage {
            Stage::Provisioning if record.doomed.is_some() => return self.take_back(record, version).await,
            Stage::Provisioning => self.provision(&record).await,
            Stage::Deprovisioning => self.remove(&record).await,
            Stage::Provisioned => return self.restore(record, version).await,
            Stage::ProvisionFailed | Stage::DeprovisionFailed | Stage::Deprovisioned => return Ok(()),
        };
        let is_provisioning = record.stage == Stage::Provisioning;
        let may_wait = !is_provisioning || now < record.since + LONGEST;
        let why = match ended {
            // What is awaited is seen by the watch.
            Ok(false) if may_wait => return Ok(()),
            Ok(false) => format!("it took too long: {} is still on its way out", flow_id(&record)),
            Ok(true) => {
                let stage = if is_provisioning { Stage::Provisioned } else { Stage::Deprovisioned };
                record.end(stage, "", now);
                return self.write(&record, version).await;
            }
            Err(Hitch::Never(why)) => why,
            Err(hitch) if may_wait => return Err(hitch),
            Err(hitch) => format!("it took too long: {hitch}"),
        };
        if is_provisioning {
            // Whoever goes on from here goes back.
            (record.doomed, record.hitch) = (Some(why), None);
        } else {
            record.end(Stage::DeprovisionFailed, why, now);
        }
        self.write(&record, version).await
    }

    /// Makes again what somebody took away, or a backup did not bring back: it follows from the record.
    async fn restore(&self, mut record: Record, version: &str) -> Result<(), Hitch> {
        let is_there = self.provision(&record).await?;
        if is_there && record.hitch.take().is_some() {
            return self.write(&record, version).await;
        }
        Ok(())
    }

    /// Takes back what was made for an instance that cannot be made; it has failed when nothing is left of it.
    async fn take_back(&self, mut record: Record, version: &str) -> Result<(), Hitch> {
        let mut why = record.doomed.clone().unwrap_or_default();
        match self.remove(&record).await {
            // Its end is seen by the watch.
            Ok(false) => return Ok(()),
            Ok(true) => {}
            Err(Hitch::Never(also)) => why = format!("{why}; and it could not be taken back: {also}"),
            Err(hitch) => return Err(hitch),
        }
        record.end(Stage::ProvisionFailed, why, seconds());
        self.write(&record, version).await
    }

    /// Writes what became of an operation. If somebody was faster, the watch tells, and it is decided again.
    async fn write(&self, record: &Record, version: &str) -> Result<(), Hitch> {
        let id = self.store.id(&record.instance);
        self.spend(record, &id)?;
        let written = self.store.write(record, Some(version)).await;
        let written = written.map_err(|source| Hitch::Later { id, source })?;
        written.into_iter().for_each(|sent| self.note(sent));
        Ok(())
    }

    /// Takes a write for an order out of the budget of an object.
    fn spend(&self, record: &Record, id: &Id) -> Result<(), Exhausted> {
        let rival = || self.mirror.lock().get(id).and_then(|object| object.rival().map(str::to_owned));
        let key = key::order(&names::record(&record.instance));
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        budget.spend(&key, id, SystemClock.now(), rival)
    }

    async fn forget(&self, object: &Object) {
        if let Err(rejected) = self.store.send(Request::deletion(object)).await {
            tracing::warn!("failed to forget {}: {rejected}", object.id());
        }
    }

    /// Makes the EventActivation and the EventFlow of an instance; whether both are there.
    async fn provision(&self, record: &Record) -> Result<bool, Hitch> {
        match self.mirror.lock().get(&flow_id(record)) {
            // The one before this one has to go first.
            Some(flow) if flow.is_deleting() => return Ok(false),
            Some(flow) if !may_be_of(flow, record) => {
                return Err(Hitch::Never(format!("{} exists, and is not of this instance", flow.id())));
            }
            _ => {}
        }
        // What is there of an instance that was made already is nobody's work.
        let is_kept = |id: Id| record.stage == Stage::Provisioned && self.mirror.lock().get(&id).is_some();
        if !is_kept(activation_id(record)) {
            self.apply(record, activation_id(record), ACTIVATION_OWNER, activation(record)).await?;
        }
        if !is_kept(flow_id(record)) {
            self.apply(record, flow_id(record), FLOW_OWNER, flow(record)).await?;
        }
        Ok(true)
    }

    async fn apply(&self, record: &Record, id: Id, owner: &'static str, body: Json) -> Result<(), Hitch> {
        self.spend(record, &id)?;
        let request = Request::Apply { id: id.clone(), owner, body };
        let sent = self.store.send(request).await.map_err(|rejected| Hitch::new(&id, rejected))?;
        self.note(sent);
        Ok(())
    }

    /// What our own write made is known at once, and not only when the watch tells.
    fn note(&self, sent: Sent) {
        if let Sent::Object(object) = sent {
            self.mirror.lock().see(object);
        }
    }

    /// Removes what there is of an instance; whether all of it is gone.
    async fn remove(&self, record: &Record) -> Result<bool, Hitch> {
        let known = self.mirror.lock().get(&flow_id(record)).cloned();
        // What another copy made may not have been seen yet: the cluster knows.
        let flow = match known {
            Some(flow) => Some(flow),
            None => self.look(flow_id(record)).await?,
        };
        if let Some(flow) = flow.filter(|flow| is_of(flow, record)) {
            if !flow.is_deleting() {
                self.delete(record, &flow).await?;
            }
            // Its end is seen by the watch: the controller takes down what was made for it first.
            return Ok(false);
        }
        if !self.is_wanted(record)
            && let Some(activation) = self.look(activation_id(record)).await?.filter(is_marked)
        {
            self.delete(record, &activation).await?;
        }
        Ok(true)
    }

    async fn look(&self, id: Id) -> Result<Option<Object>, Hitch> {
        match self.store.send(Request::Read { id: id.clone() }).await {
            Ok(Sent::Object(object)) => Ok(Some(object)),
            Ok(Sent::Gone) => Ok(None),
            Err(rejected) if matches!(rejected.class(), Class::Missing | Class::NotInstalled) => Ok(None),
            Err(rejected) => Err(Hitch::new(&id, rejected)),
        }
    }

    /// Deletes an object as it is at present: the controller tells how it stands, and so changes it.
    async fn delete(&self, record: &Record, object: &Object) -> Result<(), Hitch> {
        let (id, mut present) = (object.id().clone(), object.clone());
        for attempt in 1.. {
            self.spend(record, &id)?;
            match self.store.send(Request::deletion(&present)).await {
                Ok(_) => break,
                Err(rejected) if rejected.class() == Class::Missing => break,
                Err(rejected) if rejected.class() == Class::Conflict && attempt < DELETIONS => {
                    match self.look(id.clone()).await? {
                        Some(again) if again.uid() == object.uid() && !again.is_deleting() => present = again,
                        _ => break,
                    }
                }
                Err(rejected) => return Err(Hitch::new(&id, rejected)),
            }
        }
        Ok(())
    }

    /// Whether another instance stands on the EventActivation of this one.
    fn is_wanted(&self, of: &Record) -> bool {
        let mirror = self.mirror.lock();
        let mut records = mirror.inside(Resource::ConfigMap, &self.store.namespace).filter_map(record);
        records.any(|other| {
            other.instance != of.instance
                && other.asked.namespace == of.asked.namespace
                && other.asked.service_id == of.asked.service_id
                && matches!(other.stage, Stage::Provisioning | Stage::Provisioned)
        })
    }
}
