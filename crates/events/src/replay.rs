//! Replay: a recorded run once more, on a fresh loop. The plans and the final graph must be the same.

use std::sync::Arc;

use kilter_scheduler::{Act, Descriptor, Key, OpId, Plan, PlanHash, Record, Stage, Txn};
use serde_json::Value as Json;

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
    /// A kind could not be added.
    #[error("line {line}: the kind cannot be added: {reason}")]
    Kind {
        /// The line.
        line: usize,
        /// Why.
        reason: String,
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

impl ReplayError {
    /// The line.
    pub fn line(&self) -> usize {
        match self {
            Self::Event { line, .. }
            | Self::Kind { line, .. }
            | Self::Push { line, .. }
            | Self::Answer { line, .. }
            | Self::Differs { line, .. } => *line,
        }
    }
}

/// What was replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The hashes of the plans, in order.
    pub plans: Vec<String>,
    /// How many events were taken in.
    pub events: usize,
}

/// Makes the descriptor of a kind that was added, out of its description.
pub type Describe<'a> = &'a dyn Fn(&Json) -> Result<Box<dyn Descriptor>, String>;

/// Replays a recording on a loop that is as the recorded one was at its start; `shown` sees every step.
pub fn replay(
    events: &mut EventLoop,
    lines: impl IntoIterator<Item = Line>,
    kinds: &EventKinds,
    values: &dyn ReadValue,
    describe: Describe<'_>,
    mut shown: impl FnMut(&Step),
) -> Result<Replayed, ReplayError> {
    let mut replay = Replay {
        events,
        kinds,
        values,
        describe,
        txn: None,
        open: Vec::new(),
        record: None,
        plan: None,
        done: Replayed::default(),
    };
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
    describe: Describe<'a>,
    /// What the loop asks for.
    txn: Option<Txn>,
    /// Operations that were offered and not answered.
    open: Vec<OpId>,
    record: Option<Arc<Record>>,
    plan: Option<Plan>,
    done: Replayed,
}

impl Replay<'_> {
    fn line(&mut self, line: usize, what: Line) -> Result<Option<Step>, ReplayError> {
        match what {
            Line::Started { heritage, .. } => {
                let fits = line == 1 && heritage.is_possible();
                self.expect(line, "a beginning", fits && self.events.is_new())?;
                self.events.inherit(&heritage);
            }
            Line::Kind(description) => {
                self.expect(line, "a kind", self.is_at(&[Stage::Idle]))?;
                let wrong = |reason| ReplayError::Kind { line, reason };
                let descriptor = (self.describe)(&description).map_err(wrong)?;
                let added = self.events.scheduler_mut().register(descriptor);
                added.map_err(|error| wrong(error.to_string()))?;
            }
            Line::Taken(written) => {
                let event = self.kinds.read(written, self.values);
                let event = event.map_err(|source| ReplayError::Event { line, source })?;
                let pushed = self.events.producer().push(event);
                pushed.map_err(|source| ReplayError::Push { line, source })?;
                self.done.events += 1;
            }
            Line::Next(now) => {
                self.expect(line, "a question", !self.events.awaits_commit() && !self.events.awaits_plan())?;
                let step = self.events.next(now);
                if let Step::Commit(txn) | Step::Plan(txn) = &step {
                    self.txn = Some(txn.clone());
                }
                return Ok(Some(step));
            }
            Line::Committed { now, plan, refused } => {
                self.expect(line, "a commit", self.events.awaits_commit() && self.is_at(&[Stage::Idle]))?;
                let record = self.record.take();
                self.same_plan(line, plan, record.as_deref().and_then(record_hash))?;
                match refused {
                    Some(why) if record.is_none() => self.events.refused(&why, now),
                    _ => self.events.committed(record, now),
                }
            }
            Line::Planned { now, plan } => {
                self.expect(line, "a plan", self.events.awaits_plan() && self.is_at(&[Stage::Idle]))?;
                let replayed = self.plan.take();
                let hash = replayed.as_ref().map(Plan::hash).as_ref().map(PlanHash::to_string);
                self.same_plan(line, plan, hash)?;
                self.events.planned(replayed, now);
            }
            Line::Ended { graph } => {
                let replayed = graph_hash(self.events.scheduler());
                if replayed != graph {
                    return Err(differs(line, format!("graph {graph}"), format!("graph {replayed}")));
                }
            }
            Line::Begun(_)
            | Line::Asked(_)
            | Line::Answered(..)
            | Line::Executed
            | Line::Abandoned
            | Line::Cancelled(_)
            | Line::Finished(_) => self.dialogue(line, what)?,
        }
        Ok(None)
    }

    /// What the scheduler was told.
    fn dialogue(&mut self, line: usize, what: Line) -> Result<(), ReplayError> {
        match what {
            Line::Begun(now) => {
                self.expect(line, "a transaction", self.is_at(&[Stage::Idle]))?;
                let txn = self.txn.take().ok_or_else(|| differs(line, "a transaction", "none"))?;
                self.events.scheduler_mut().begin(txn, now);
                (self.record, self.plan) = (None, None);
                self.open.clear();
            }
            Line::Asked(offered) => {
                self.expect(line, "an operation", self.is_at(&[Stage::Refreshing, Stage::Walking]))?;
                let replayed = self.events.scheduler_mut().next().map(|operation| operation.id);
                if replayed != offered {
                    return Err(differs(line, format!("{offered:?}"), format!("{replayed:?}")));
                }
                self.open.extend(replayed);
            }
            Line::Answered(id, answer, now) => {
                let at = self.open.iter().position(|open| *open == id);
                let at =
                    at.ok_or_else(|| differs(line, format!("an answer to {id:?}"), "no such operation"))?;
                self.open.swap_remove(at);
                let answer = answer.read(self.values);
                let answer = answer.map_err(|reason| ReplayError::Answer { line, reason })?;
                self.events.scheduler_mut().answer(id, answer, now);
            }
            Line::Executed => {
                self.expect(line, "an execution", self.is_at(&[Stage::Planned]))?;
                self.events.scheduler_mut().execute();
            }
            Line::Abandoned => {
                self.expect(line, "an abandoned plan", self.is_at(&[Stage::Planned]))?;
                self.plan = self.events.scheduler().plan().cloned();
                self.events.scheduler_mut().abandon();
            }
            Line::Cancelled(reason) => self.events.scheduler_mut().cancel(&reason),
            Line::Finished(now) => {
                if self.is_at(&[Stage::Refreshing, Stage::Walking])
                    && let Some(more) = self.events.scheduler_mut().next()
                {
                    return Err(differs(line, "the end of the transaction", told(&more.act)));
                }
                self.expect(line, "the end of the transaction", self.is_at(&[Stage::Ended]))?;
                self.record = Some(self.events.scheduler_mut().finish(now));
            }
            Line::Started { .. }
            | Line::Kind(_)
            | Line::Taken(_)
            | Line::Next(_)
            | Line::Committed { .. }
            | Line::Planned { .. }
            | Line::Ended { .. } => {}
        }
        Ok(())
    }

    fn is_at(&self, stages: &[Stage]) -> bool {
        stages.contains(&self.events.scheduler().stage())
    }

    fn expect(&self, line: usize, what: &str, fits: bool) -> Result<(), ReplayError> {
        let stage = self.events.scheduler().stage();
        if fits { Ok(()) } else { Err(differs(line, what, format!("nothing of the kind: {stage:?}"))) }
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

/// What an actuator would be asked to do, for people.
fn told(act: &Act) -> String {
    let word = match act {
        Act::Create { .. } => "create",
        Act::Update { .. } => "update",
        Act::Delete { .. } => "delete",
        Act::Retrieve { .. } => "read",
        Act::RetrieveAll { .. } => return "everything of a kind to be read".to_owned(),
    };
    format!("`{word} {}`", act.key().map(Key::as_str).unwrap_or_default())
}

fn differs(line: usize, recorded: impl Into<String>, replayed: impl Into<String>) -> ReplayError {
    ReplayError::Differs { line, recorded: recorded.into(), replayed: replayed.into() }
}
