//! Who sees what the agent does.

use kilter_cli::CommandError;
use kilter_events::{EventRecord, Fatal, Opening};
use kilter_model::document::Declared;
use kilter_scheduler::{Plan, Record, Scheduler, Seq};
use kilter_southbound::{Decision, Finished};

use crate::drift::Heeded;
use crate::keep::Missing;

/// Somebody who sees what the agent does.
///
/// **Assumes** that the methods return soon: the loop waits for them.
pub trait Audience: Send {
    /// An event begins.
    fn opened(&mut self, _opening: &Opening) {}
    /// A transaction is planned and nothing is done yet; says whether it changes what is declared.
    fn planned(&mut self, _plan: &Plan, _declares: bool) -> Decision {
        Decision::Execute
    }
    /// An operation was answered.
    fn finished(&mut self, _operation: Finished<'_>) {}
    /// A transaction was carried out, well or not: of an event, or a retry.
    fn committed(&mut self, _record: &Record) {}
    /// An event has ended.
    fn closed(&mut self, _record: &EventRecord) {}
    /// Nothing is to be done right now; settled, if nothing is planned for later either.
    fn waiting(&mut self, _scheduler: &Scheduler, _settled: bool) -> Pursuit {
        Pursuit::GoOn
    }
    /// The kernel was heeded, and something came of it that a person should know.
    fn heeded(&mut self, _heeded: &Heeded) {}
    /// The directory has changed, and declares this from now on; or it is wrong, and what was declared stays.
    fn declared(&mut self, _declared: Result<&[Declared], &CommandError>) {}
    /// What was carried out could not be kept; it is tried again.
    fn unkept(&mut self, _text: &str) {}
    /// What happened could not be remembered; or can be again, then without a reason.
    fn unremembered(&mut self, _missing: &Missing) {}
    /// The recording of the run has ended before the run, for this reason.
    fn unrecorded(&mut self, _text: &str) {}
    /// The loop goes round; called as often as was asked for, also while a transaction is performed.
    fn alive(&mut self) {}
    /// In the end: a change that nobody had confirmed went back; without a record nothing could be done about it.
    fn gone_back(&mut self, _id: Seq, _record: Option<&Record>) {}
    /// The agent begins to end.
    fn stopping(&mut self) {}
    /// The agent must end.
    fn fatal(&mut self, _fatal: &Fatal) {}
}

/// Nobody looks on.
impl Audience for () {}

/// Whether the agent goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pursuit {
    /// It goes on.
    GoOn,
    /// It ends.
    End,
}
