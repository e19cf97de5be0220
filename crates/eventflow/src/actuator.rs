//! The actuator of every kind: decides on the mirror, sends to the cluster, and lets the mirror know the answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use kilter_scheduler::{Act, Answer, Key, Origin, Retrieved};
use kilter_southbound::{ActError, Actuator, Assignment, Batch, BoxFuture, Clock, Made};
use tokio::sync::Semaphore;

use crate::announcement::event;
use crate::budget::{Budget, Exhausted};
use crate::counts::Counts;
use crate::key::{Named, object, source};
use crate::mirror::{Mirror, Shared};
use crate::object::{Id, Object, Resource};
use crate::patience::Rests;
use crate::read::{channel_seen, read, read_all, show};
use crate::request::{Api, Class, Rejected, Request, Sent};
use crate::send::send;
use crate::settings::Settings;
use crate::write::{Course, course};

/// How many requests are under way at the same time.
const AT_ONCE: usize = 16;

/// How often an operation is decided again because the cluster has moved on.
const DECISIONS: usize = 3;

/// How long a deletion may wait for the finalizers of others before it is looked at again: the watches tell its end.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Why an operation on the cluster failed.
#[derive(Debug, thiserror::Error)]
enum ActionError {
    /// The cluster did not take the request.
    #[error("failed to write {id}")]
    Rejected {
        /// The object.
        id: Id,
        /// Why.
        #[source]
        source: Rejected,
    },
    /// It must not be done now.
    #[error("{0}")]
    Refused(String),
    /// The cluster moved on faster than we decided.
    #[error("what `{0}` is made of changed {DECISIONS} times while it was decided on")]
    Unsteady(Key),
    /// The item is not one of ours.
    #[error("`{0}` cannot be written")]
    Foreign(Key),
}

/// Makes the controller's items real in a cluster.
pub(crate) struct Cluster {
    api: Arc<dyn Api>,
    mirror: Shared,
    settings: Arc<Settings>,
    counts: Arc<Counts>,
    clock: Arc<dyn Clock>,
    budget: Mutex<Budget>,
    rests: Mutex<Rests>,
    turns: Semaphore,
}

impl Cluster {
    pub(crate) fn new(
        api: Arc<dyn Api>,
        mirror: Shared,
        settings: Arc<Settings>,
        counts: Arc<Counts>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (budget, rests, turns) = (Mutex::default(), Mutex::default(), Semaphore::new(AT_ONCE));
        Self { api, mirror, settings, counts, clock, budget, rests, turns }
    }

    async fn attend(&self, assignment: Assignment) {
        let answer = match &assignment.act {
            Act::RetrieveAll { .. } => {
                Answer::Listed(read_all(&assignment.kind, &self.mirror.lock(), &self.settings))
            }
            Act::Retrieve { key, .. } => self.retrieve(key),
            act @ (Act::Create { key, .. } | Act::Update { key, .. } | Act::Delete { key, .. }) => {
                match self.act(key, act).await {
                    Ok(made) => made.into(),
                    Err(error) => Answer::Failed(error.into()),
                }
            }
        };
        assignment.answer(answer);
    }

    fn retrieve(&self, key: &Key) -> Answer {
        let mirror = self.mirror.lock();
        let found = match Named::of(key) {
            Some(named) => read(named, &mirror, &self.settings),
            None => {
                let seen = match source(key) {
                    Some(source) => channel_seen(source, &mirror, &self.settings),
                    None => object(key).and_then(|id| mirror.get(&id)).and_then(show).map(|(_, value)| value),
                };
                seen.map(|value| (value, Some(Origin::Observed)))
            }
        };
        match found {
            Some((value, origin)) => {
                Answer::Found(Retrieved { key: key.clone(), value, facts: None, origin })
            }
            None => Answer::Absent,
        }
    }

    async fn act(&self, key: &Key, act: &Act) -> Result<Made, ActError> {
        let named = Named::of(key).ok_or_else(|| ActError::lasting(ActionError::Foreign(key.clone())))?;
        if let Some((id, rejected)) = self.rests().why(key, self.clock.now()) {
            return Err(failed(id, rejected));
        }
        for _ in 0..DECISIONS {
            let course = course(named, act, &self.mirror.lock(), &self.settings);
            let requests = match course {
                Course::Done => return Ok(Made::Done),
                Course::Keep(object, why) => {
                    self.announce(&object, "Normal", "Retained", &format!("it is kept: {why}")).await;
                    return Ok(Made::Done);
                }
                Course::Wait => return Ok(Made::Within(PATIENCE)),
                Course::Refuse(why) => return Err(ActError::retriable(ActionError::Refused(why))),
                Course::Send(requests) => requests,
            };
            if let Some(made) = self.send_all(key, requests).await? {
                self.rests().forget(key);
                return Ok(made);
            }
        }
        Err(ActError::retriable(ActionError::Unsteady(key.clone())))
    }

    /// Sends requests one after another; `None` if the cluster has moved on and it has to be decided again.
    async fn send_all(&self, key: &Key, requests: Vec<Request>) -> Result<Option<Made>, ActError> {
        let mut made = Made::Done;
        for request in requests {
            let id = request.id().clone();
            self.spend(key, &id).map_err(ActError::retriable)?;
            let deletes = match &request {
                Request::Delete { uid, .. } => Some(uid.clone()),
                Request::Apply { .. }
                | Request::Status { .. }
                | Request::Patch { .. }
                | Request::Create { .. }
                | Request::Replace { .. }
                | Request::Announce { .. }
                | Request::Read { .. } => None,
            };
            match self.send(request).await {
                Ok(Sent::Object(object)) => {
                    if deletes.is_some() {
                        made = Made::Within(PATIENCE);
                    }
                    self.mirror.lock().see(object);
                }
                Ok(Sent::Gone) => {
                    if let Some(uid) = &deletes {
                        self.mirror.lock().lose(&id, uid);
                    }
                }
                Err(rejected) => match (rejected.class(), deletes) {
                    // What is not there needs no deletion and no patch.
                    (Class::Missing, Some(uid)) => self.mirror.lock().lose(&id, &uid),
                    (Class::Missing, None) => self.forget(&id),
                    // Somebody else has a say about what is shared: whoever decides again must know what that is, so
                    // not at once.
                    (Class::Conflict, Some(_)) if id.resource == Resource::Broker => {
                        return Err(failed(id, rejected));
                    }
                    (Class::Conflict, _) => {
                        self.reread(id).await?;
                        return Ok(None);
                    }
                    _ => {
                        self.bear(key, &id, &rejected).await;
                        return Err(failed(id, rejected));
                    }
                },
            }
        }
        Ok(Some(made))
    }

    fn rests(&self) -> MutexGuard<'_, Rests> {
        self.rests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a rejection. One that somebody has to do something about is told, once, about a flow that it concerns.
    async fn bear(&self, key: &Key, id: &Id, rejected: &Rejected) {
        let is_news = self.rests().note(key, id, rejected, self.clock.now());
        let calls = [(Class::Unauthorised, "Unauthorised"), (Class::Contested, "Contested")];
        let call = calls.into_iter().find(|(class, _)| is_news && *class == rejected.class());
        let Some((_, reason)) = call else { return };
        let flow = {
            let mirror = self.mirror.lock();
            Named::of(key).and_then(|named| concerned(named, &mirror).cloned())
        };
        if let Some(flow) = flow {
            self.announce(&flow, "Warning", reason, &format!("failed to write {id}: {}", rejected.message))
                .await;
        }
    }

    /// Tells an Event. Nobody depends on it, and it is not told twice.
    async fn announce(&self, about: &Object, kind: &str, reason: &str, message: &str) {
        let request = event(about, kind, reason, message, self.clock.now());
        self.counts.request(&request);
        if let Err(rejected) = self.api.send(request).await {
            self.counts.rejected(rejected.class());
        }
    }

    /// Takes a write for an item out of the budget of an object.
    fn spend(&self, key: &Key, id: &Id) -> Result<(), Exhausted> {
        let rival = || self.mirror.lock().get(id).and_then(|object| object.rival().map(str::to_owned));
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        budget.spend(key, id, self.clock.now(), rival)
    }

    async fn send(&self, request: Request) -> Result<Sent, Rejected> {
        send(&*self.api, &self.counts, request).await
    }

    async fn reread(&self, id: Id) -> Result<(), ActError> {
        match self.send(Request::Read { id: id.clone() }).await {
            Ok(Sent::Object(object)) => self.mirror.lock().see(object),
            Ok(Sent::Gone) => self.forget(&id),
            Err(rejected) if rejected.class() == Class::Missing => self.forget(&id),
            Err(rejected) => return Err(failed(id, rejected)),
        }
        Ok(())
    }

    fn forget(&self, id: &Id) {
        let mut mirror = self.mirror.lock();
        let uid = mirror.get(id).map(|known| known.uid().to_owned());
        if let Some(uid) = uid {
            mirror.lose(id, &uid);
        }
    }
}

/// A flow that an item was made for.
fn concerned<'a>(named: Named<'a>, mirror: &'a Mirror) -> Option<&'a Object> {
    match named {
        Named::Finalizer { namespace, flow }
        | Named::SinkClaim { namespace, flow }
        | Named::SubscriptionClaim { namespace, flow, .. } => {
            mirror.get(&Id::new(Resource::EventFlow, namespace, flow))
        }
        Named::Slot { namespace }
        | Named::Sink { namespace }
        | Named::Policy { namespace }
        | Named::Subscription { namespace, .. } => mirror.inside(Resource::EventFlow, namespace).next(),
    }
}

fn failed(id: Id, rejected: Rejected) -> ActError {
    let is_retriable = rejected.class().is_retriable();
    let error = ActionError::Rejected { id, source: rejected };
    if is_retriable { ActError::retriable(error) } else { ActError::lasting(error) }
}

impl Actuator for Cluster {
    fn perform(&self, batch: Batch) -> BoxFuture<'_, ()> {
        // An operation is taken up when its turn comes: only then its deadline begins.
        let next = move |mut batch: Batch| async move {
            let turn = self.turns.acquire().await.ok()?;
            Some(((batch.next()?, turn), batch))
        };
        let each = move |(assignment, turn)| async move {
            self.attend(assignment).await;
            drop(turn);
        };
        Box::pin(stream::unfold(batch, next).for_each_concurrent(None, each))
    }
}
