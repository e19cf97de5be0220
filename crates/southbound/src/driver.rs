//! The driver: performs a transaction.

use std::sync::Arc;

use kilter_scheduler::{Action, Key, KindId, OpId, Operation, Plan, Record, Scheduler, Stage, Txn};
use tokio::time::Instant;

use crate::actuator::{Actuator, Actuators};
use crate::asked::action_of;
use crate::cancel::Cancel;
use crate::clock::Clock;
use crate::counters::{Counters, Counts};
use crate::dispatch::{Dispatch, Work};
use crate::error::AddActuatorError;
use crate::observer::{Decision, Finished, Observer};
use crate::settings::Settings;

/// Performs transactions: asks the walk for what may run, lets actuators do it, and tells the walk how it ended.
pub struct Driver {
    pub(crate) actuators: Actuators,
    pub(crate) settings: Settings,
    pub(crate) counters: Arc<Counters>,
}

/// How the performance of a transaction ended.
#[derive(Clone, Debug)]
pub enum Ending {
    /// It was carried out, well or not; the record tells.
    Recorded(Arc<Record>),
    /// It was stopped before anything was done, by the observer or by a cancellation, and left no trace.
    Abandoned,
}

impl Ending {
    /// The record, if the transaction was carried out.
    pub fn record(self) -> Option<Arc<Record>> {
        match self {
            Self::Recorded(record) => Some(record),
            Self::Abandoned => None,
        }
    }
}

impl Driver {
    /// Lets an actuator make a kind real that came late.
    pub fn add(
        &mut self,
        kind: impl Into<Arc<str>>,
        actuator: Arc<dyn Actuator>,
    ) -> Result<(), AddActuatorError> {
        self.actuators.add(kind, actuator)
    }

    /// A driver over these actuators.
    pub fn new(actuators: Actuators, settings: Settings) -> Self {
        Self { actuators, settings, counters: Arc::default() }
    }

    /// What was counted since the driver was made.
    pub fn counts(&self) -> Counts {
        self.counters.seen()
    }

    /// Performs a transaction: [begins](Self::begin) it, and unless somebody stops it, [executes](Self::execute) it.
    ///
    /// **Assumes** that it is called within a tokio runtime with time, with no transaction under way, and that the
    /// future is driven to its end: dropped halfway, it leaves the transaction open in the scheduler. To stop, cancel.
    pub async fn run(
        &self,
        scheduler: &mut Scheduler,
        txn: Txn,
        clock: &dyn Clock,
        observer: &mut dyn Observer,
        cancel: &Cancel,
    ) -> Ending {
        match self.begin(scheduler, txn, clock, observer, cancel).await {
            Decision::Execute => Ending::Recorded(self.execute(scheduler, clock, observer, cancel).await),
            Decision::Stop => {
                scheduler.abandon();
                Ending::Abandoned
            }
        }
    }

    /// The first half of a transaction, after which nothing is done yet and its plan is there:
    ///
    /// 1. begins it, and reads what it has to know;
    /// 2. shows the plan to the observer, who may want to stop it; so may a cancellation.
    ///
    /// The caller goes on with [`Self::execute`], or with [`Scheduler::abandon`], which leaves no trace.
    pub async fn begin(
        &self,
        scheduler: &mut Scheduler,
        txn: Txn,
        clock: &dyn Clock,
        observer: &mut dyn Observer,
        cancel: &Cancel,
    ) -> Decision {
        scheduler.begin(txn, clock.now());
        let mut performance = self.performance(scheduler, clock, observer, cancel);
        while performance.scheduler.stage() == Stage::Refreshing {
            performance.round().await;
        }
        if performance.is_stopped() { Decision::Stop } else { Decision::Execute }
    }

    /// The second half of a transaction that was [begun](Self::begin):
    ///
    /// 1. hands out every operation that may run, each actuator's as one batch;
    /// 2. takes the answers in whatever order they come, and asks at once for what became ready;
    /// 3. finishes it when the walk is at its end.
    ///
    /// A cancellation withdraws what no actuator has taken up, begins nothing further (a transaction that reverts on
    /// failure goes back), and waits for the rest until its deadline.
    pub async fn execute(
        &self,
        scheduler: &mut Scheduler,
        clock: &dyn Clock,
        observer: &mut dyn Observer,
        cancel: &Cancel,
    ) -> Arc<Record> {
        scheduler.execute();
        let mut performance = self.performance(scheduler, clock, observer, cancel);
        while performance.scheduler.stage() == Stage::Walking {
            performance.round().await;
        }
        performance.scheduler.finish(clock.now())
    }

    /// Plans a transaction, reading what it has to know, and leaves nothing behind but what was read.
    ///
    /// `None` if the scheduler's settings switch planning off.
    pub async fn plan_only(&self, scheduler: &mut Scheduler, txn: Txn, clock: &dyn Clock) -> Option<Plan> {
        scheduler.begin(txn, clock.now());
        let (mut nobody, never) = ((), Cancel::new());
        let mut performance = self.performance(scheduler, clock, &mut nobody, &never);
        while performance.scheduler.stage() == Stage::Refreshing {
            performance.round().await;
        }
        let plan = performance.scheduler.plan().cloned();
        performance.scheduler.abandon();
        plan
    }

    pub(crate) fn dispatch<T>(&self) -> Dispatch<'_, T> {
        Dispatch::new(&self.actuators, &self.settings, Arc::clone(&self.counters))
    }

    fn performance<'a>(
        &'a self,
        scheduler: &'a mut Scheduler,
        clock: &'a dyn Clock,
        observer: &'a mut dyn Observer,
        cancel: &'a Cancel,
    ) -> Performance<'a> {
        Performance { scheduler, clock, observer, cancel, heeded: false, dispatch: self.dispatch() }
    }
}

/// A transaction that is being performed.
struct Performance<'a> {
    scheduler: &'a mut Scheduler,
    clock: &'a dyn Clock,
    observer: &'a mut dyn Observer,
    cancel: &'a Cancel,
    /// Whether the cancellation has been heeded.
    heeded: bool,
    dispatch: Dispatch<'a, Handed>,
}

/// An operation that is handed out, as the driver remembers it.
struct Handed {
    id: OpId,
    kind: KindId,
    key: Option<Key>,
    action: Action,
    since: Instant,
}

impl Performance<'_> {
    /// Hands out what may run, and tells the walk what was answered since.
    async fn round(&mut self) {
        self.heed_cancellation();
        self.hand_out();
        if !self.dispatch.is_busy() {
            let waits = matches!(self.scheduler.stage(), Stage::Refreshing | Stage::Walking);
            assert!(!waits, "the walk waits for an answer, and nothing is under way");
            return;
        }
        // Neither who asks nor who answers keeps the other one waiting.
        let (observer, dispatch) = (&mut *self.observer, &mut self.dispatch);
        let heard = async {
            tokio::select! {
                () = observer.asked() => None,
                settled = dispatch.settled() => Some(settled),
            }
        };
        let heard = tokio::select! {
            biased;
            // The next round heeds it.
            _ = self.cancel.cancelled(), if !self.heeded => return,
            heard = heard => heard,
        };
        let Some(settled) = heard else { return self.observer.answer(self.scheduler) };
        for (handed, answer) in settled {
            self.observer.finished(Finished {
                key: handed.key.as_ref(),
                kind: self.scheduler.registry().name(handed.kind),
                action: handed.action,
                answer: &answer,
                took: handed.since.elapsed(),
            });
            self.scheduler.answer(handed.id, answer, self.clock.now());
        }
    }

    fn heed_cancellation(&mut self) {
        let Some(reason) = self.cancel.reason().filter(|_| !self.heeded) else { return };
        self.heeded = true;
        // Before anything is done there is nothing to go back from: the plan is abandoned instead.
        if self.scheduler.stage() == Stage::Walking {
            self.scheduler.cancel(&reason);
        }
        self.dispatch.withdraw(&reason);
    }

    fn hand_out(&mut self) {
        let since = Instant::now();
        let ready = self.scheduler.ready();
        let scheduler = &*self.scheduler;
        self.dispatch.hand_out(ready.into_iter().map(|Operation { id, kind, act }| {
            let key = act.key().cloned();
            let needs = key.as_ref().map(|key| scheduler.dependency_facts(key.as_str()));
            Work {
                kind: scheduler.registry().name(kind),
                tag: Handed { id, kind, key, action: action_of(&act), since },
                act,
                needs: needs.unwrap_or_default(),
            }
        }));
    }

    /// Whether somebody does not want the plan carried out.
    fn is_stopped(&mut self) -> bool {
        let refused = |plan| self.observer.planned(plan) == Decision::Stop;
        self.cancel.reason().is_some() || self.scheduler.plan().is_some_and(refused)
    }
}
