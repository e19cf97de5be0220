//! Performing a transaction: the plan is looked at, questions are answered meanwhile, progress is told.

use std::sync::Arc;

use kilter_events::Glance;
use kilter_scheduler::{Plan, Request, Resync, Scheduler, Txn};
use kilter_southbound::{BoxFuture, Clock as _, Decision, Finished, Observer};
use tokio::sync::mpsc;

use super::Agent;
use super::audience::Audience;
use super::ordered::Ordered;
use crate::desk::{ApplyError, Ledger, Operated, Planned, Progress, Question, View, hold_against};

impl Agent {
    /// Performs a transaction:
    ///
    /// 1. it is begun and planned, and whoever has a say may stop it;
    /// 2. it is carried out;
    /// 3. the loop is told, and then those who wait for a change.
    pub(super) async fn commit(&mut self, txn: Txn, audience: &mut dyn Audience) {
        let declares = declares(&txn);
        let Self { events, driver, clock, cancel, reception, ledger, ordered, current, .. } = self;
        let (scheduler, glance) = events.split();
        let ordered = current.and_then(|at| ordered.get_mut(at));
        let questions = &mut reception.questions;
        let mut relay = Relay { audience, declares, ordered, questions, asked: None, glance, ledger };
        let record = match driver.begin(scheduler, txn, clock, &mut relay, cancel).await {
            Decision::Execute => Some(driver.execute(scheduler, clock, &mut relay, cancel).await),
            Decision::Stop => {
                scheduler.abandon();
                None
            }
        };
        let refusal = relay.ordered.and_then(|ordered| ordered.refusal.clone());
        match (&record, refusal) {
            (None, Some(why)) => self.events.refused(&why.to_string(), self.clock.now()),
            (record, _) => self.events.committed(record.clone(), self.clock.now()),
        }
        if let Some(record) = record {
            self.reception.newest.send_replace(record.seq);
            audience.committed(&record);
        }
    }
}

/// Whether a transaction changes what is declared.
fn declares(txn: &Txn) -> bool {
    match &txn.request {
        Request::Changes { .. } | Request::Resync(Resync::Full(_) | Resync::Upstream(_)) => true,
        Request::Resync(Resync::Downstream | Resync::Refresh(_))
        | Request::Notification(_)
        | Request::Retry(_)
        | Request::LateKind
        | Request::Overdue(_) => false,
    }
}

/// Passes on what the driver tells, and answers questions meanwhile.
struct Relay<'a> {
    audience: &'a mut dyn Audience,
    declares: bool,
    /// The order that the transaction is carried out for.
    ordered: Option<&'a mut Ordered>,
    questions: &'a mut mpsc::UnboundedReceiver<Question>,
    asked: Option<Question>,
    glance: Glance<'a>,
    ledger: &'a Ledger,
}

impl Observer for Relay<'_> {
    fn planned(&mut self, plan: &Plan) -> Decision {
        let decision = self.audience.planned(plan, self.declares);
        let Some(ordered) = &mut self.ordered else { return decision };
        if let Some(told) = &ordered.told {
            let planned = Planned::new(plan.clone(), self.glance.conflicts().to_vec());
            // Whoever does not listen any more is told nothing.
            let _ = told.send(Progress::Planned(Arc::new(planned)));
        }
        let refusal = match decision {
            Decision::Stop => Some(ApplyError::Refused { text: "the plan was not accepted".to_owned() }),
            Decision::Execute => {
                ordered.options.expected.as_ref().and_then(|expected| hold_against(expected, plan).err())
            }
        };
        ordered.refusal = refusal;
        if ordered.refusal.is_some() { Decision::Stop } else { Decision::Execute }
    }

    fn finished(&mut self, operation: Finished<'_>) {
        self.audience.finished(operation);
        if let Some(told) = self.ordered.as_ref().and_then(|ordered| ordered.told.as_ref()) {
            let _ = told.send(Progress::Operated(Operated::of(operation)));
        }
    }

    fn asked(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            match self.questions.recv().await {
                Some(question) => self.asked = Some(question),
                None => std::future::pending().await,
            }
        })
    }

    fn answer(&mut self, scheduler: &Scheduler) {
        let view = View { scheduler, events: self.glance, ledger: self.ledger };
        if let Some(question) = self.asked.take() {
            question(&view);
        }
    }
}
