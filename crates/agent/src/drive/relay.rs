//! What goes on around a transaction: questions are answered, progress is told, intent and outcome are kept.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kilter_events::{Glance, chain};
use kilter_scheduler::{Action, Key, Plan, Record, Scheduler, Seq, Timestamp};
use kilter_southbound::{BoxFuture, Decision, Finished, Observer};
use tokio::sync::mpsc;
use tokio::time::Interval;

use super::audience::Audience;
use super::ordered::{Ordered, Work, stands};
use super::waiting::beat;
use crate::confirm::Pending;
use crate::desk::{ApplyError, Ledger, Operated, Planned, Progress, Question, View, hold_against};
use crate::keep::{Keep, Settlement};
use crate::ledger::Delta;
use crate::timings::Timings;

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
    /// Why something that was carried out before is not kept yet: nothing that comes after it may be kept before it.
    pub(super) owed: Option<String>,
    /// What the plan makes, and whether it does anything at all.
    pub(super) makes: Vec<Key>,
    pub(super) acts: bool,
    pub(super) beats: &'a mut Option<Interval>,
    /// Whether a beat is due.
    pub(super) alive: bool,
    pub(super) timings: &'a mut Timings,
}

/// What becomes of the ledger after a transaction.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) deltas: Vec<Delta>,
    /// The confirmation that is waited for from now on, or no longer.
    pub(super) confirmation: Option<Option<Pending>>,
    /// The transaction.
    pub(super) seq: Option<Seq>,
    /// Why it could not be kept.
    pub(super) unkept: Option<String>,
}

impl Relay<'_> {
    /// Before the first operation: writes down what is about to be made. What cannot be kept is not begun.
    pub(super) async fn intend(&mut self, scheduler: &Scheduler) -> Decision {
        let (Some(keep), true) = (self.keep, self.acts) else { return Decision::Execute };
        // What a way back makes besides an unkept change was declared before it, and still is on disk.
        if self.owed.is_some() {
            return Decision::Execute;
        }
        let must_be_kept = match self.ordered.as_ref().map(|ordered| &ordered.work) {
            Some(Work::Declare(_)) => true,
            Some(Work::Begin(..) | Work::GoBack(_)) => false,
            Some(Work::Nothing) | None => return Decision::Execute,
        };
        let makes = std::mem::take(&mut self.makes);
        let Err(error) = self.meanwhile(scheduler, keep.intend(&makes)).await else {
            return Decision::Execute;
        };
        // An agent that begins keeps the network even if it cannot write: what it makes is declared elsewhere. A change goes
        // back all the same, too: the confirmation that is kept repeats it at the next start.
        if !must_be_kept {
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
            last: settled.seq,
            confirmation: settled.confirmation.clone(),
        };
        settled.unkept.clone_from(&self.owed);
        let patience: &[Duration] = if self.owed.is_some() { &[] } else { &PATIENCE };
        for pause in patience.iter().copied() {
            let write = async {
                tokio::time::sleep(pause).await;
                keep.settle(&settlement).await
            };
            settled.unkept = self.meanwhile(scheduler, write).await.err().map(|error| chain(&error));
            if settled.unkept.is_none() {
                break;
            }
        }
        if let (Some(text), Some(ordered)) = (&settled.unkept, &mut self.ordered) {
            ordered.refusal = Some(ApplyError::Unkept { seq: record.seq, text: text.clone() });
        }
        settled
    }

    /// What a transaction changes in the ledger.
    fn changed(&self, ordered: &Ordered, record: &Record, now: Timestamp) -> Settled {
        let stands = stands(record);
        let (deltas, confirmation) = match &ordered.work {
            Work::Nothing => (Vec::new(), None),
            Work::Begin(deltas, confirmation) => (deltas.clone(), confirmation.clone()),
            Work::Declare(_) | Work::GoBack(_) if !stands => (Vec::new(), None),
            Work::GoBack(declarations) => (self.ledger.deltas(declarations, Some(record.seq)), Some(None)),
            Work::Declare(declarations) => {
                let deltas = self.ledger.deltas(declarations, Some(record.seq));
                // What changes nothing cannot go back, and waits for nobody; a cluster decides also about that.
                let confirm = ordered.options.confirm.as_ref();
                let confirm =
                    confirm.filter(|confirm| confirm.joint.is_some() || !deltas.iter().all(Delta::is_empty));
                let confirm = confirm.map(|confirm| Pending {
                    id: record.seq,
                    deadline: now.after(confirm.within),
                    within: confirm.within,
                    description: ordered.options.description.clone(),
                    probes: confirm.probes.clone(),
                    joint: confirm.joint.clone(),
                    undo: deltas.iter().map(|delta| self.ledger.undo(delta)).collect(),
                });
                (deltas, confirm.map(Some))
            }
        };
        Settled { deltas, confirmation, seq: Some(record.seq), unkept: None }
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
        if !ordered.told.is_empty() {
            let planned = Arc::new(Planned::new(plan.clone(), self.glance.conflicts().to_vec()));
            ordered.tell(|| Progress::Planned(Arc::clone(&planned)));
        }
        let declares = matches!(ordered.work, Work::Declare(_));
        let waits = self.ledger.confirmation.as_ref().filter(|_| declares);
        let owed = self.owed.as_ref().filter(|_| declares);
        ordered.refusal = match (decision, waits, owed) {
            (Decision::Stop, _, _) => {
                Some(ApplyError::Refused { text: "the plan was not accepted".to_owned() })
            }
            (Decision::Execute, Some(pending), _) => Some(ApplyError::Unconfirmed { id: pending.id }),
            (Decision::Execute, None, Some(text)) => {
                let text = format!("neither is the change before it yet: {text}");
                Some(ApplyError::NotKept { text })
            }
            (Decision::Execute, None, None) => {
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
        self.timings.finished(&operation);
        self.audience.finished(operation);
        if let Some(ordered) = &self.ordered {
            ordered.tell(|| Progress::Operated(Operated::of(operation)));
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
        if let Some(question) = self.asked.take() {
            let (events, ledger, keep) = (self.glance, self.ledger, self.keep);
            question(&View { scheduler, events, ledger, keep, timings: self.timings });
        }
        if std::mem::take(&mut self.alive) {
            self.audience.alive();
        }
    }
}
