//! Performing a transaction, and keeping what comes of it.

use kilter_events::{Level, chain};
use kilter_scheduler::{Request, Resync, Txn};
use kilter_southbound::{Clock as _, Decision};

use super::Agent;
use super::audience::Audience;
use super::relay::{Relay, Settled};
use crate::keep::Settlement;

/// The component under which the state directory is reported.
const COMPONENT: &str = "state-directory";

impl Agent {
    /// Performs a transaction:
    ///
    /// 1. it is begun and planned, and whoever has a say may stop it;
    /// 2. what it is about to make is written down; if that fails, nothing is done;
    /// 3. it is carried out;
    /// 4. what is declared from now on is written down;
    /// 5. the loop is told, and then those who wait for a change.
    pub(super) async fn commit(&mut self, txn: Txn, audience: &mut dyn Audience) {
        let declares = declares(&txn);
        self.keep_owed().await;
        let Self { events, driver, clock, cancel, reception, ledger, ordered, current, keep, beats, .. } =
            self;
        let (scheduler, glance) = events.split();
        let mut relay = Relay {
            audience,
            declares,
            ordered: current.and_then(|at| ordered.get_mut(at)),
            questions: &mut reception.questions,
            asked: None,
            glance,
            ledger,
            keep: keep.as_ref(),
            makes: Vec::new(),
            acts: false,
            beats,
            alive: false,
        };
        let mut decision = driver.begin(scheduler, txn, clock, &mut relay, cancel).await; // 1
        if decision == Decision::Execute {
            decision = relay.intend(scheduler).await; // 2
        }
        let record = match decision {
            Decision::Execute => Some(driver.execute(scheduler, clock, &mut relay, cancel).await), // 3
            Decision::Stop => {
                scheduler.abandon();
                None
            }
        };
        let settled = relay.settle(scheduler, record.as_ref(), clock.now()).await; // 4
        let refusal = relay.ordered.and_then(|ordered| ordered.refusal.clone());
        if let Some(error) = &settled.unkept {
            audience.unkept(&chain(error));
        }
        self.note_settled(settled);
        match (&record, refusal) {
            (None, Some(why)) => self.events.refused(&why.to_string(), self.clock.now()), // 5
            (record, _) => self.events.committed(record.clone(), self.clock.now()),
        }
        if let Some(record) = record {
            self.reception.newest.send_replace(record.seq);
            audience.committed(&record);
        }
    }

    fn note_settled(&mut self, settled: Settled) {
        let Settled { deltas, confirmation, unkept } = settled;
        for delta in &deltas {
            self.attention.forgive(delta.puts.iter().map(|(key, _)| key));
            self.ledger.apply(delta);
        }
        if let Some(confirmation) = &confirmation {
            self.ledger.confirmation.clone_from(confirmation);
        }
        if let Some(error) = unkept {
            let text = chain(&error);
            self.events.health_mut().report(COMPONENT, Level::OutOfSync, &*text);
            self.ledger.unkept = Some(text);
            self.owed.push(Settled { deltas, confirmation, unkept: None });
        }
    }

    /// Writes down what was carried out and could not be kept then.
    pub(super) async fn keep_owed(&mut self) {
        let Some(keep) = self.keep.as_ref().filter(|_| !self.owed.is_empty()) else { return };
        while let Some(Settled { deltas, confirmation, .. }) = self.owed.first() {
            let settlement =
                Settlement { deltas: deltas.clone(), record: None, confirmation: confirmation.clone() };
            if keep.settle(&settlement).await.is_err() {
                return;
            }
            self.owed.remove(0);
        }
        self.ledger.unkept = None;
        self.events.health_mut().report(COMPONENT, Level::Fine, "");
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
