//! Starting over: a loop that runs becomes one that waits for its startup resync, so that a recording can begin with it.
//!
//! Decided here: what goes on (numbers, histories, counts, kinds, the places of sources, what is in the queue) and what is
//! found out anew (the graph, retries, healing). **Assumes** that handlers compute everything anew by a resync.

use std::sync::Arc;

use kilter_scheduler::Timestamp;

use crate::builtin::DatabaseResync;
use crate::draft::Internal;
use crate::event::Event;
use crate::event_loop::EventLoop;
use crate::healing::Healing;
use crate::health::Level;
use crate::queue::Queued;
use crate::turn::COMPONENT;

impl EventLoop {
    /// Whether nothing is under way and nothing follows from what was.
    pub fn may_start_over(&self) -> bool {
        let follows = self.queue.follow_ups() > 0 || self.verify.is_some();
        let has_ended = self.stopped || self.fatal.is_some();
        self.is_between_turns() && self.core.resyncs > 0 && !follows && !has_ended
    }

    /// Starts over: the loop knows nothing else than what an earlier loop would have left to it, and its startup resync comes
    /// next. Returns that.
    ///
    /// **Assumes** that it [may](Self::may_start_over).
    pub fn start_over(&mut self, now: Timestamp) -> Event {
        assert!(self.may_start_over(), "an event is under way, or follows");
        let core = &mut self.core;
        let leftovers = core.scheduler.start_over().into_iter().collect();
        let inputs = std::mem::take(&mut core.inputs);
        let external = core.external.take_items();
        core.internal = Internal::default();
        core.healing = Healing::of(&core.settings);
        core.health.report(COMPONENT, Level::OutOfSync, "waits for the startup resync");
        core.resyncs = 0;
        self.startup_deadline = now.after(core.settings.startup_deadline);
        let resync = DatabaseResync { local: false, inputs, external, leftovers: Arc::new(leftovers) };
        let event = Event::new(resync);
        self.queue.put_back(Queued::own(event.clone()));
        event
    }
}
