//! Performing a transaction, and keeping what comes of it.

use kilter_events::{Level, chain};
use kilter_scheduler::{Request, Resync, Txn};
use kilter_southbound::{Clock as _, Decision};

use super::audience::Audience;
use super::relay::{Relay, Settled};
use super::{AGAIN, Agent};
use crate::keep::Settlement;

/// The component under which the state directory is reported.
const COMPONENT: &str = "state-directory";

/// The component under which the history is reported.
const HISTORY: &str = "history";

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
        let owed = self.keep_owed().await;
        let began = self.clock.now();
        let Self {
            events,
            driver,
            clock,
            cancel,
            reception,
            ledger,
            ordered,
            current,
            keep,
            beats,
            timings,
            ..
        } = self;
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
            owed,
            makes: Vec::new(),
            acts: false,
            beats,
            alive: false,
            timings,
        };
        let mut decision = driver.begin(scheduler, txn, clock, &mut relay, cancel).await; // 1
        let planned = clock.now();
        relay.timings.part("plan", planned.since(began));
        if decision == Decision::Execute {
            decision = relay.intend(scheduler).await; // 2
        }
        let intended = clock.now();
        let record = match decision {
            Decision::Execute => Some(driver.execute(scheduler, clock, &mut relay, cancel).await), // 3
            Decision::Stop => {
                scheduler.abandon();
                None
            }
        };
        let executed = clock.now();
        let settled = relay.settle(scheduler, record.as_ref(), executed).await; // 4
        if record.is_some() {
            let kept = clock.now();
            relay.timings.part("execute", executed.since(intended));
            relay.timings.part("keep", intended.since(planned) + kept.since(executed));
            relay.timings.part("commit", kept.since(began));
        }
        let refusal = relay.ordered.and_then(|ordered| ordered.refusal.clone());
        if let Some(text) = &settled.unkept {
            audience.unkept(text);
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
        if let Some(text) = &settled.unkept {
            self.events.health_mut().report(COMPONENT, Level::OutOfSync, text.as_str());
            self.ledger.unkept = Some(text.clone());
            self.owed_again = self.clock.now().after(AGAIN);
            return self.owe(settled);
        }
        self.note_in_ledger(&settled);
    }

    /// What was carried out counts, and has yet to be kept.
    pub(super) fn owe(&mut self, settled: Settled) {
        self.note_in_ledger(&settled);
        self.owed.push(settled);
    }

    fn note_in_ledger(&mut self, settled: &Settled) {
        for delta in &settled.deltas {
            self.attention.forgive(delta.puts.iter().map(|(key, _)| key));
            self.ledger.apply(delta);
        }
        if let Some(confirmation) = &settled.confirmation {
            self.ledger.confirmation.clone_from(confirmation);
        }
    }

    /// Tells what is missing in the history.
    pub(super) fn note_missing(&mut self, audience: &mut dyn Audience) {
        let Some(missing) = self.missing.as_ref().map(|missing| missing.borrow().clone()) else { return };
        let count = missing.count;
        match &missing.why {
            Some(why) => {
                let text = format!("{count} records could not be remembered: {why}");
                self.events.health_mut().report(HISTORY, Level::Warning, text);
            }
            None => self.events.health_mut().report(HISTORY, Level::Fine, ""),
        }
        audience.unremembered(&missing);
    }

    /// Writes down what was carried out and could not be kept then, in its order. If that fails once more, the answer is
    /// why: until it is kept, nothing that comes after it may be.
    pub(super) async fn keep_owed(&mut self) -> Option<String> {
        if self.owed.is_empty() {
            return None;
        }
        while let Some(Settled { deltas, confirmation, seq, .. }) = self.owed.first() {
            let settlement = Settlement {
                deltas: deltas.clone(),
                record: None,
                last: *seq,
                confirmation: confirmation.clone(),
            };
            let kept = match &self.keep {
                Some(keep) => keep.settle(&settlement).await,
                None => Ok(()),
            };
            if let Err(error) = kept {
                let text = chain(&error);
                self.owed_again = self.clock.now().after(AGAIN);
                self.ledger.unkept = Some(text.clone());
                self.events.health_mut().report(COMPONENT, Level::OutOfSync, text.as_str());
                return Some(text);
            }
            self.owed.remove(0);
        }
        self.ledger.unkept = None;
        self.held.relent();
        self.events.health_mut().report(COMPONENT, Level::Fine, "");
        None
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
