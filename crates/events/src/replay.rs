//! Replay: a recorded run once more, on a fresh loop. The plans and the final graph must be the same.

use std::sync::Arc;

use kilter_scheduler::{OpId, Plan, PlanHash, Record, Txn};

use crate::event::{DecodeError, EventKinds, ReadValue};
use crate::event_loop::EventLoop;
use crate::queue::PushError;
use crate::recording::{Line, graph_hash, record_hash};
use crate::step::Step;

/// Why a run could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// An event could not be read.
    #[error("line {line}: the event cannot be read")]
    Event {
        /// The line.
        line: usize,
        /// Why.
        #[source]
        source: DecodeError,
    },
    /// An event was not taken.
    #[error("line {line}: the event is not taken")]
    Push {
        /// The line.
        line: usize,
        /// Why.
        #[source]
        source: PushError,
    },
    /// An answer could not be read.
    #[error("line {line}: the answer cannot be read: {reason}")]
    Answer {
        /// The line.
        line: usize,
        /// Why.
        reason: String,
    },
    /// The replay does something else than the run did.
    #[error("line {line}: the run has {recorded}, the replay has {replayed}")]
    Differs {
        /// The line.
        line: usize,
        /// What the run did.
        recorded: String,
        /// What the replay does.
        replayed: String,
    },
}

/// What was replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The hashes of the plans, in order.
    pub plans: Vec<String>,
    /// How many events were taken in.
    pub events: usize,
}

/// Replays a recording on a loop that is as the recorded one was at its start; `shown` sees every step.
pub fn replay(
    events: &mut EventLoop,
    lines: impl IntoIterator<Item = Line>,
    kinds: &EventKinds,
    values: &dyn ReadValue,
    mut shown: impl FnMut(&Step),
) -> Result<Replayed, ReplayError> {
    let mut replay =
        Replay { events, kinds, values, txn: None, record: None, plan: None, done: Replayed::default() };
    for (line, what) in (1..).zip(lines) {
        if let Some(step) = replay.line(line, what)? {
            shown(&step);
        }
    }
    Ok(replay.done)
}

struct Replay<'a> {
    events: &'a mut EventLoop,
    kinds: &'a EventKinds,
    values: &'a dyn ReadValue,
    /// What the loop asks for.
    txn: Option<Txn>,
    record: Option<Arc<Record>>,
    plan: Option<Plan>,
    done: Replayed,
}

impl Replay<'_> {
    fn line(&mut self, line: usize, what: Line) -> Result<Option<Step>, ReplayError> {
        let scheduler = self.events.scheduler_mut();
        match what {
            Line::Started { .. } => {}
            Line::Taken(written) => {
                let event = self.kinds.read(written, self.values);
                let event = event.map_err(|source| ReplayError::Event { line, source })?;
                let pushed = self.events.producer().push(event);
                pushed.map_err(|source| ReplayError::Push { line, source })?;
                self.done.events += 1;
            }
            Line::Next(now) => {
                let step = self.events.next(now);
                if let Step::Commit(txn) | Step::Plan(txn) = &step {
                    self.txn = Some(txn.clone());
                }
                return Ok(Some(step));
            }
            Line::Begun(now) => match self.txn.take() {
                Some(txn) => {
                    scheduler.begin(txn, now);
                    self.plan = None;
                }
                None => return Err(differs(line, "a transaction", "none")),
            },
            Line::Asked(offered) => {
                let replayed = scheduler.next().map(|operation| operation.id);
                if replayed != offered {
                    let shown = |id: Option<OpId>| format!("{id:?}");
                    return Err(differs(line, shown(offered), shown(replayed)));
                }
            }
            Line::Answered(id, answer, now) => {
                let answer = answer.read(self.values);
                let answer = answer.map_err(|reason| ReplayError::Answer { line, reason })?;
                scheduler.answer(id, answer, now);
            }
            Line::Executed => scheduler.execute(),
            Line::Abandoned => {
                self.plan = scheduler.plan().cloned();
                scheduler.abandon();
            }
            Line::Cancelled(reason) => scheduler.cancel(&reason),
            Line::Finished(now) => self.record = Some(scheduler.finish(now)),
            Line::Committed { now, plan } => {
                let record = self.record.take();
                self.same_plan(line, plan, record.as_deref().and_then(record_hash))?;
                self.events.committed(record, now);
            }
            Line::Planned { now, plan } => {
                let replayed = self.plan.take();
                self.same_plan(
                    line,
                    plan,
                    replayed.as_ref().map(Plan::hash).as_ref().map(PlanHash::to_string),
                )?;
                self.events.planned(replayed, now);
            }
            Line::Ended { graph } => {
                let replayed = graph_hash(self.events.scheduler());
                if replayed != graph {
                    return Err(differs(line, format!("graph {graph}"), format!("graph {replayed}")));
                }
            }
        }
        Ok(None)
    }

    fn same_plan(
        &mut self,
        line: usize,
        recorded: Option<String>,
        replayed: Option<String>,
    ) -> Result<(), ReplayError> {
        if recorded != replayed {
            return Err(differs(line, format!("plan {recorded:?}"), format!("plan {replayed:?}")));
        }
        self.done.plans.extend(replayed);
        Ok(())
    }
}

fn differs(line: usize, recorded: impl Into<String>, replayed: impl Into<String>) -> ReplayError {
    ReplayError::Differs { line, recorded: recorded.into(), replayed: replayed.into() }
}
