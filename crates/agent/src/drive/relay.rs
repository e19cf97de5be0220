//! What goes on around a transaction: questions are answered, progress is told, intent and outcome are kept.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kilter_events::{Glance, chain};
use kilter_scheduler::{Action, Key, Plan, Record, Scheduler, Timestamp};
use kilter_southbound::{BoxFuture, Decision, Finished, Observer};
use kilter_store::StoreError;
use tokio::sync::mpsc;
use tokio::time::Interval;

use super::audience::Audience;
use super::beat;
use super::ordered::{Ordered, Work, stands};
use crate::confirm::Pending;
use crate::desk::{ApplyError, Ledger, Operated, Planned, Progress, Question, View, hold_against};
use crate::keep::{Keep, Settlement};
use crate::ledger::Delta;

/// The pauses between attempts to keep what was carried out.
const PATIENCE: [Duration; 3] = [Duration::ZERO, Duration::from_millis(100), Duration::from_secs(1)];

/// Passes on what the driver tells, and answers questions meanwhile.
pub(super) struct Relay<'a> {
    pub(super) audience: &'a mut dyn Audience,
    pub(super) declares: bool,
    /// The order that the transaction is carried out for.
    pub(super) ordered: Option<&'a mut Ordered>,
    pub(super) questions: &'a mut mpsc::UnboundedReceiver<Question>,
    pub(super) asked: Option<Question>,
    pub(super) glance: Glance<'a>,
    pub(super) ledger: &'a Ledger,
    pub(super) keep: Option<&'a Keep>,
    /// What the plan makes, and whether it does anything at all.
    pub(super) makes: Vec<Key>,
    pub(super) acts: bool,
    pub(super) beats: &'a mut Option<Interval>,
    /// Whether a beat is due.
    pub(super) alive: bool,
}

/// What becomes of the ledger after a transaction.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) deltas: Vec<Delta>,
    /// The confirmation that is waited for from now on, or no longer.
    pub(super) confirmation: Option<Option<Pending>>,
    /// Why it could not be kept.
    pub(super) unkept: Option<StoreError>,
}

impl Relay<'_> {
    /// Before the first operation: writes down what is about to be made. What cannot be kept is not begun.
    pub(super) async fn intend(&mut self, scheduler: &Scheduler) -> Decision {
        let (Some(keep), true) = (self.keep, self.acts) else { return Decision::Execute };
        let begins = match self.ordered.as_ref().map(|ordered| &ordered.work) {
            Some(Work::Declare(_) | Work::GoBack(_)) => false,
            Some(Work::Begin(..)) => true,
            Some(Work::Nothing) | None => return Decision::Execute,
        };
        let makes = std::mem::take(&mut self.makes);
        let Err(error) = self.meanwhile(scheduler, keep.intend(&makes)).await else {
            return Decision::Execute;
        };
        // An agent that begins keeps the network even if it cannot write: what it makes is declared elsewhere.
        if begins {
            return Decision::Execute;
        }
        if let Some(ordered) = &mut self.ordered {
            ordered.refusal = Some(ApplyError::NotKept { text: chain(&error) });
        }
        Decision::Stop
    }

    /// After the last operation: writes down what is declared from now on, before anybody is answered.
    pub(super) async fn settle(
        &mut self,
        scheduler: &Scheduler,
        record: Option<&Arc<Record>>,
        now: Timestamp,
    ) -> Settled {
        let Some(record) = record else { return Settled::default() };
        let Some(ordered) = self.ordered.as_deref() else {
            self.keep.iter().for_each(|keep| keep.note_txn(record));
            return Settled::default();
        };
        let mut settled = self.changed(ordered, record, now);
        let Some(keep) = self.keep else { return settled };
        if matches!(ordered.work, Work::Nothing) {
            keep.note_txn(record);
            return settled;
        }
        let settlement = Settlement {
            deltas: settled.deltas.clone(),
            record: Some(record),
            confirmation: settled.confirmation.clone(),
        };
        for pause in PATIENCE {
            let write = async {
                tokio::time::sleep(pause).await;
                keep.settle(&settlement).await
            };
            settled.unkept = self.meanwhile(scheduler, write).await.err();
            if settled.unkept.is_none() {
                break;
            }
        }
        if let (Some(error), Some(ordered)) = (&settled.unkept, &mut self.ordered) {
            ordered.refusal = Some(ApplyError::Unkept { seq: record.seq, text: chain(error) });
        }
        settled
    }

    /// What a transaction changes in the ledger.
    fn changed(&self, ordered: &Ordered, record: &Record, now: Timestamp) -> Settled {
        let stands = stands(record);
        let (deltas, confirmation) = match &ordered.work {
            Work::Nothing => (Vec::new(), None),
            Work::Begin(deltas, expired) => (deltas.clone(), expired.then_some(None)),
            Work::Declare(_) | Work::GoBack(_) if !stands => (Vec::new(), None),
            Work::GoBack(declarations) => (self.ledger.deltas(declarations, Some(record.seq)), Some(None)),
            Work::Declare(declarations) => {
                let deltas = self.ledger.deltas(declarations, Some(record.seq));
                let confirm = ordered.options.confirm.as_ref().map(|confirm| Pending {
                    id: record.seq,
                    deadline: now.after(confirm.within),
                    description: ordered.options.description.clone(),
                    undo: deltas.iter().map(|delta| self.ledger.undo(delta)).collect(),
                });
                (deltas, confirm.map(Some))
            }
        };
        Settled { deltas, confirmation, unkept: None }
    }

    /// Waits for something, and answers questions meanwhile.
    async fn meanwhile<T>(&mut self, scheduler: &Scheduler, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            let done = tokio::select! {
                done = &mut work => Some(done),
                () = self.asked() => None,
            };
            match done {
                Some(done) => return done,
                None => self.answer(scheduler),
            }
        }
    }

    /// Whether whoever ordered it wants it: the plan that was shown, and no other change that waits.
    fn consider(&mut self, plan: &Plan, decision: Decision) -> Decision {
        let Some(ordered) = &mut self.ordered else { return decision };
        if let Some(told) = &ordered.told {
            let planned = Planned::new(plan.clone(), self.glance.conflicts().to_vec());
            // Whoever does not listen any more is told nothing.
            let _ = told.send(Progress::Planned(Arc::new(planned)));
        }
        let waits = self.ledger.confirmation.as_ref().filter(|_| matches!(ordered.work, Work::Declare(_)));
        ordered.refusal = match (decision, waits) {
            (Decision::Stop, _) => Some(ApplyError::Refused { text: "the plan was not accepted".to_owned() }),
            (Decision::Execute, Some(pending)) => Some(ApplyError::Unconfirmed { id: pending.id }),
            (Decision::Execute, None) => {
                ordered.options.expected.as_ref().and_then(|expected| hold_against(expected, plan).err())
            }
        };
        if ordered.refusal.is_some() { Decision::Stop } else { Decision::Execute }
    }
}

impl Observer for Relay<'_> {
    fn planned(&mut self, plan: &Plan) -> Decision {
        for step in &plan.steps {
            self.acts |= matches!(step.action, Action::Create | Action::Update | Action::Delete);
            if step.action == Action::Create {
                self.makes.push(step.key.clone());
            }
        }
        let decision = self.audience.planned(plan, self.declares);
        self.consider(plan, decision)
    }

    fn finished(&mut self, operation: Finished<'_>) {
        self.audience.finished(operation);
        if let Some(told) = self.ordered.as_ref().and_then(|ordered| ordered.told.as_ref()) {
            let _ = told.send(Progress::Operated(Operated::of(operation)));
        }
    }

    fn asked(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            tokio::select! {
                Some(question) = self.questions.recv() => self.asked = Some(question),
                () = beat(self.beats) => self.alive = true,
            }
        })
    }

    fn answer(&mut self, scheduler: &Scheduler) {
        let view = View { scheduler, events: self.glance, ledger: self.ledger, keep: self.keep };
        if let Some(question) = self.asked.take() {
            question(&view);
        }
        if std::mem::take(&mut self.alive) {
            self.audience.alive();
        }
    }
}
