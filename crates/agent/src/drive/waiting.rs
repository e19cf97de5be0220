//! Waiting: what the agent sees to when the loop has nothing to do, and what ends the wait.

use kilter_scheduler::Timestamp;
use kilter_southbound::Clock as _;
use tokio::sync::watch;
use tokio::time::Interval;

use super::audience::{Audience, Pursuit};
use super::{Agent, IDLE};
use crate::drift::Heeded;
use crate::keep::Missing;

impl Agent {
    /// What the agent itself has to see to later: a confirmation that does not come, what could not be kept, what there
    /// was no room for.
    fn own_deadline(&self) -> Option<Timestamp> {
        if !self.takes_orders() {
            return None;
        }
        let owed = (!self.owed.is_empty()).then_some(self.owed_again);
        self.confirmation_deadline().into_iter().chain(owed).chain(self.held.deadline()).min()
    }

    /// Sees to what is due by now, between two events: also if there always is a next one.
    pub(super) async fn see_to(&mut self, now: Timestamp) {
        self.see_to_confirmation(now);
        if self.owed_again <= now {
            self.keep_owed().await;
        }
        if self.held.is_due(now) {
            self.push_held();
        }
    }

    /// Waits until there is something to do, and takes up what comes meanwhile.
    pub(super) async fn wait(&mut self, deadline: Option<Timestamp>, audience: &mut dyn Audience) {
        let now = self.clock.now();
        if self.attention.push_due(self.events.scheduler(), now) {
            return;
        }
        let later = self.attention.deadline();
        let settled = deadline.is_none() && later.is_none();
        if audience.waiting(self.events.scheduler(), settled) == Pursuit::End {
            return self.stop().stop("told to end");
        }
        // Whoever does not wait any more needs no answer.
        self.resting.drain(..).for_each(|reply| reply.send(()).unwrap_or_default());
        if settled {
            self.settling.drain(..).for_each(|reply| reply.send(()).unwrap_or_default());
        }
        let takes_orders = self.takes_orders();
        let follows = self.ledger.confirmation.is_none();
        let own = self.own_deadline();
        let patience = deadline.into_iter().chain(later).chain(own).min().map_or(IDLE, |at| at.since(now));
        tokio::select! {
            () = self.pushed.notified() => {}
            () = beat(&mut self.beats) => audience.alive(),
            () = news(&mut self.missing) => self.note_missing(audience),
            Some(question) = self.reception.questions.recv() => self.answer(question),
            Some(order) = self.reception.orders.recv(), if takes_orders => self.take_up(order).await,
            () = tokio::time::sleep(patience) => {}
            // A change that waits for its confirmation goes back to what was declared before it, and to nothing else.
            Some(stirred) = self.stirred.recv(), if follows => self.declare(stirred, audience),
            noticed = self.attention.noticed() => {
                let heeded = self.attention.heed(noticed, self.events.scheduler(), self.clock.now());
                self.ledger.contested = self.attention.contested();
                if heeded != Heeded::default() {
                    audience.heeded(&heeded);
                }
            }
        }
    }
}

/// Ends when something else is missing in the history.
async fn news(missing: &mut Option<watch::Receiver<Missing>>) {
    let news = match missing {
        Some(missing) => missing.changed().await.is_ok(),
        None => false,
    };
    if !news {
        // The writer ends with the process.
        std::future::pending().await
    }
}

/// Ends when a beat is due; never, if nobody wants to know.
pub(super) async fn beat(beats: &mut Option<Interval>) {
    match beats {
        Some(beats) => {
            beats.tick().await;
        }
        None => std::future::pending().await,
    }
}
