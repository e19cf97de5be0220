//! Calling handlers: steps 7 and 10.

use std::sync::Arc;

use super::{Core, Role, Turn};
use crate::draft::{Draft, HandlerAt};
use crate::error::Place;
use crate::event::Method;
use crate::handler::{CallError, call};
use crate::record::HandlerRecord;
use crate::verify;

impl Turn {
    /// Step 7.
    pub(super) fn call_handlers(&mut self, core: &mut Core) {
        let order = std::mem::take(&mut self.order);
        let mut before = core.stopwatch.read();
        for at in order.iter().copied() {
            if self.stopped {
                break;
            }
            let called = self.call_handler(core, at);
            let after = core.stopwatch.read();
            let took = after.saturating_sub(before);
            before = after;
            let over_budget = took > core.settings.handler_budget;
            core.counts.over_budget += u64::from(over_budget);
            let handler = Arc::clone(&core.names[at]);
            let (change, error) = match called {
                Ok(change) => {
                    self.completed.push(at);
                    (change, None)
                }
                Err(error) => {
                    core.counts.panics += u64::from(error.panicked);
                    let text: Arc<str> = error.text.as_str().into();
                    self.fail(Place::Handler(Arc::clone(&handler)), error);
                    (String::new(), Some(text))
                }
            };
            self.records.push(HandlerRecord { handler, revert: false, change, error, took, over_budget });
        }
    }

    fn call_handler(&mut self, core: &mut Core, at: HandlerAt) -> Result<String, CallError> {
        let Core { handlers, inputs, internal, resyncs, settings, names, .. } = core;
        let handler = &mut handlers[at];
        let event = &self.queued.event;
        let is_resync = !matches!(event.method(), Method::Update { .. });
        let mut draft = Draft {
            handler: at,
            staged: &mut self.staged,
            internal,
            room: self.room.saturating_sub(self.asked.follow_ups.len()),
            bound: settings.follow_ups,
            asked: &mut self.asked,
            is_resync,
        };
        if !is_resync {
            return call(|| handler.update(event, &mut draft));
        }
        let (differences, verifies) = (&mut self.differences, self.role == Role::Verification);
        call(|| {
            let before = verifies.then(|| handler.own_state()).flatten();
            handler.resync(event, inputs, *resyncs, &mut draft)?;
            let after = verifies.then(|| handler.own_state()).flatten();
            differences.extend(verify::own_state(&names[at], before, after));
            Ok(String::new())
        })
    }

    /// Step 10.
    pub(super) fn revert_handlers(&mut self, core: &mut Core) {
        if self.failures.is_empty() || !self.reverts() || self.is_fatal() {
            return;
        }
        core.counts.reverted += 1;
        let mut before = core.stopwatch.read();
        for at in std::mem::take(&mut self.completed).into_iter().rev() {
            let (name, handler) = (Arc::clone(&core.names[at]), &mut core.handlers[at]);
            let reverted = call(|| handler.revert(&self.queued.event));
            let after = core.stopwatch.read();
            let took = after.saturating_sub(before);
            before = after;
            let error: Option<Arc<str>> = reverted.as_ref().err().map(|error| error.text.as_str().into());
            let over_budget = took > core.settings.handler_budget;
            let change = String::new();
            self.records.push(HandlerRecord {
                handler: Arc::clone(&name),
                revert: true,
                change,
                error,
                took,
                over_budget,
            });
            if let Err(error) = reverted {
                core.counts.panics += u64::from(error.panicked);
                self.fail(Place::Revert(name), error);
            }
            if self.is_fatal() {
                break;
            }
        }
    }
}
