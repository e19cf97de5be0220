//! The change that waits for its confirmation: what is said about it, and its way back.
//!
//! Decided here: once it is on its way back nothing can be said about it any more; a way back that cannot be gone is tried
//! again ever less often, and one on which nothing is left to change is over.

use std::sync::Arc;

use kilter_events::{Event, EventRecord};
use kilter_scheduler::{OnFailure, Seq, Timestamp};
use kilter_southbound::{Cancel, Clock as _, Ending};

use super::Agent;
use super::audience::Audience;
use super::ordered::{Ordered, Work};
use super::relay::Settled;
use crate::confirm::{ConfirmError, Pending, Say};
use crate::desk::{self, Declaration, Options, Progress, Told};
use crate::ledger::Undo;
use crate::probes::decide;

impl Agent {
    /// The change that waits for its confirmation, if it is this one.
    fn waiting(&self, id: Option<Seq>) -> Result<Seq, ConfirmError> {
        match (id, self.ledger.confirmation.as_ref().map(|pending| pending.id)) {
            (_, None) => Err(ConfirmError::Nothing),
            (Some(asked), Some(waiting)) if asked != waiting => Err(ConfirmError::Another { asked, waiting }),
            (_, Some(waiting)) => Ok(waiting),
        }
    }

    /// Confirms or extends the change that waits.
    pub(super) async fn say(&mut self, id: Option<Seq>, say: Say) -> Result<Seq, ConfirmError> {
        let id = self.waiting(id)?;
        if self.goes_back {
            return Err(ConfirmError::GoesBack { id });
        }
        if let Some(text) = self.keep_owed().await {
            return Err(ConfirmError::NotKept { text });
        }
        let pending = match say {
            Say::Confirm => None,
            Say::Extend(within) => self.ledger.confirmation.clone().map(|pending| Pending {
                deadline: self.clock.now().after(within),
                within,
                ..pending
            }),
        };
        if let Some(keep) = &self.keep {
            let kept = keep.confirm(pending.as_ref()).await;
            kept.map_err(|error| ConfirmError::NotKept { text: kilter_events::chain(&error) })?;
        }
        self.ledger.confirmation = pending;
        Ok(id)
    }

    /// Somebody wants the change to go back. Whoever comes second is told of the same way back.
    pub(super) fn cancel(&mut self, id: Option<Seq>, told: Told) {
        if let Err(error) = self.waiting(id) {
            // Whoever does not listen any more is told nothing.
            let _ = told.send(Progress::Ended(Err(error.into())));
            return;
        }
        let mut ordered = self.ordered.iter_mut();
        match ordered.find(|ordered| matches!(ordered.work, Work::GoBack(_))) {
            Some(way_back) => way_back.told.push(told),
            None => self.go_back("it was cancelled", vec![told]),
        }
    }

    /// Lets the change go back whose time is up.
    pub(super) fn see_to_confirmation(&mut self, now: Timestamp) {
        let is_late = self.ledger.confirmation.as_ref().is_some_and(|pending| pending.deadline <= now);
        if is_late && !self.goes_back && self.way_back.is_over(now) {
            self.go_back("it was not confirmed in time", Vec::new());
        }
    }

    /// Until when nothing has to be done about the change that waits.
    pub(super) fn confirmation_deadline(&self) -> Option<Timestamp> {
        let pending = self.ledger.confirmation.as_ref().filter(|_| !self.goes_back)?;
        Some(pending.deadline.max(self.way_back.until))
    }

    /// Lets the change that waits for its confirmation go back; somebody may be told how it goes.
    fn go_back(&mut self, why: &str, told: Vec<Told>) {
        let Some(pending) = &self.ledger.confirmation else { return };
        let (declarations, options) = way_back(pending, why);
        let event = Event::new(desk::event(&declarations, &options));
        let ordered = Ordered { options, told, ..Ordered::new(event, Work::GoBack(declarations)) };
        self.goes_back = self.push_ordered(ordered).is_ok();
        if !self.goes_back {
            self.way_back.put_off(self.clock.now());
        }
    }

    /// The way back has ended: what went back is settled, what had nothing to change is over, and what failed is tried
    /// again.
    pub(super) async fn note_gone_back(&mut self, ordered: &Ordered, record: &EventRecord) {
        let Work::GoBack(declarations) = &ordered.work else { return };
        self.goes_back = false;
        if self.ledger.confirmation.is_none() {
            return self.way_back.relent();
        }
        let has_failed = ordered.refusal.is_some() || record.cause().is_some() || record.txn.is_some();
        if has_failed {
            return self.way_back.put_off(self.clock.now());
        }
        let deltas = self.ledger.deltas(declarations, None);
        self.owe(Settled { deltas, confirmation: Some(None), ..Settled::default() });
        self.keep_owed().await;
    }

    /// Tries the probes of a change that waits, once for each change, and again by an agent that came back.
    pub(super) fn probe(&mut self) {
        let Some(pending) = &self.ledger.confirmation else { return };
        if self.probed.replace(pending.id) != Some(pending.id) && !pending.probes.is_empty() {
            tokio::spawn(decide(self.desk.clone(), pending.id, pending.probes.clone()));
        }
    }

    /// In the end: a change that nobody has confirmed goes back now if no later agent will know of it.
    pub(super) async fn take_back(&mut self, audience: &mut dyn Audience) {
        if self.keep.is_some() || self.clean_up {
            return;
        }
        let Some(pending) = self.ledger.confirmation.take() else { return };
        let (declarations, options) = way_back(&pending, "the agent ends");
        let txn = self.events.preview(&desk::event(&declarations, &options)).txn;
        let (scheduler, never) = (self.events.scheduler_mut(), Cancel::new());
        let txn = txn.described(&options.description);
        let ending = self.driver.run(scheduler, txn, &self.clock, &mut (), &never).await;
        let record = match ending {
            Ending::Recorded(record) => Some(record),
            Ending::Abandoned => None,
        };
        audience.gone_back(pending.id, record.as_ref().map(Arc::as_ref));
    }
}

/// What has to be declared for a change to go back, and how.
fn way_back(pending: &Pending, why: &str) -> (Vec<Declaration>, Options) {
    let declarations = pending.undo.iter().map(Undo::declaration).collect();
    let description = format!("change #{} goes back: {why}", pending.id);
    (declarations, Options { on_failure: OnFailure::Continue, description, ..Options::default() })
}
