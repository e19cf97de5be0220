//! What was ordered: it becomes an event, and its end is told.

use std::sync::Arc;

use kilter_events::builtin::Observed;
use kilter_events::{Event, EventRecord, PushError};
use kilter_scheduler::{Key, OnFailure, Outcome, Record, Seq};
use kilter_southbound::Clock as _;

use super::Agent;
use crate::confirm::{ConfirmError, Say};
use crate::desk::{self, Applied, ApplyError, Declaration, Options, Order, Planned, Progress, Told};
use crate::ledger::{Delta, Undo};

/// How long the name of a source may be.
const LONGEST_NAME: usize = 64;

/// What an event changes in the ledger.
pub(super) enum Work {
    /// Sources declare.
    Declare(Vec<Declaration>),
    /// A change that was not confirmed goes back.
    GoBack(Vec<Declaration>),
    /// The agent begins: what is not kept yet, and whether a change went back that was not confirmed in time.
    Begin(Vec<Delta>, bool),
    /// Nothing.
    Nothing,
}

/// An event that was ordered and has not ended.
pub(crate) struct Ordered {
    pub(super) event: Event,
    pub(super) work: Work,
    pub(super) options: Options,
    /// Who is told how it goes.
    pub(super) told: Option<Told>,
    /// Why it was refused, or could not be kept.
    pub(super) refusal: Option<ApplyError>,
}

impl Ordered {
    pub(super) fn new(event: Event, work: Work) -> Self {
        Self { event, work, options: Options::default(), told: None, refusal: None }
    }

    /// Declarations of one transaction; somebody may be told how it goes.
    pub(super) fn declarations(declarations: Vec<Declaration>, options: Options, told: Option<Told>) -> Self {
        let event = Event::new(desk::event(&declarations, &options));
        Self { options, told, ..Self::new(event, Work::Declare(declarations)) }
    }

    fn end(&self, ended: Result<Applied, ApplyError>) {
        if let Some(told) = &self.told {
            // Whoever does not listen any more is told nothing.
            let _ = told.send(Progress::Ended(ended));
        }
    }
}

/// Whether a transaction left what it declared.
pub(super) fn stands(record: &Record) -> bool {
    !matches!(record.outcome, Outcome::Reverted(_) | Outcome::RevertFailed { .. })
}

impl Agent {
    /// Takes up what was ordered.
    pub(super) async fn take_up(&mut self, order: Order) {
        match order {
            Order::Plan(declarations, reply) => {
                // Whoever does not wait any more needs no answer; here and below.
                let _ = reply.send(self.plan(&declarations).await);
            }
            Order::Apply(declarations, options, told) => {
                let refusal = self.check_apply(&declarations).err();
                let ordered = Ordered::declarations(declarations, *options, Some(told));
                match refusal {
                    None => {
                        let _ = self.push_ordered(ordered);
                    }
                    Some(error) => ordered.end(Err(error)),
                }
            }
            Order::Resync(asked, told) => {
                let ordered = Ordered::new(Event::new(asked), Work::Nothing);
                let _ = self.push_ordered(Ordered { told: Some(told), ..ordered });
            }
            Order::Notify(seen, reply) => {
                let pushed = self.producer().push(Event::new(Observed(seen)));
                let _ = reply.send(pushed.map_err(|error| refusal(&error)));
            }
            Order::Pause(prefix, reply) => {
                self.attention.pause(&prefix);
                self.ledger.paused = self.attention.paused();
                let _ = reply.send(());
            }
            Order::Resume(prefix, reply) => {
                let declared = self.events.scheduler().declared().into_iter().map(|(key, _)| key);
                let concerned: Vec<Key> = declared.filter(|key| key.as_str().starts_with(&prefix)).collect();
                self.attention.resume(&prefix, concerned);
                self.ledger.paused = self.attention.paused();
                let _ = reply.send(());
            }
            Order::Say(id, say, reply) => {
                let _ = reply.send(self.say(id, say).await);
            }
            Order::Cancel(id, told) => match self.waiting(id) {
                Ok(_) => self.go_back("it was cancelled", Some(told)),
                Err(error) => {
                    let _ = told.send(Progress::Ended(Err(error.into())));
                }
            },
            Order::Settled(reply) => self.settling.push(reply),
        }
    }

    /// The change that waits for its confirmation, if it is this one.
    fn waiting(&self, id: Option<Seq>) -> Result<Seq, ConfirmError> {
        match (id, self.ledger.confirmation.as_ref().map(|pending| pending.id)) {
            (_, None) => Err(ConfirmError::Nothing),
            (Some(asked), Some(waiting)) if asked != waiting => Err(ConfirmError::Another { asked, waiting }),
            (_, Some(waiting)) => Ok(waiting),
        }
    }

    /// Confirms or extends the change that waits.
    async fn say(&mut self, id: Option<Seq>, say: Say) -> Result<Seq, ConfirmError> {
        let id = self.waiting(id)?;
        let pending = match say {
            Say::Confirm => None,
            Say::Extend(within) => self.ledger.confirmation.clone().map(|mut pending| {
                pending.deadline = self.clock.now().after(within);
                pending
            }),
        };
        if let Some(keep) = &self.keep {
            let kept = keep.confirm(pending.as_ref()).await;
            kept.map_err(|error| ConfirmError::NotKept { text: kilter_events::chain(&error) })?;
        }
        self.ledger.confirmation = pending;
        Ok(id)
    }

    /// Lets the change that waits for its confirmation go back; somebody may be told how it goes.
    pub(super) fn go_back(&mut self, why: &str, told: Option<Told>) {
        let Some(pending) = self.ledger.confirmation.as_ref().filter(|_| !self.goes_back) else { return };
        let declarations: Vec<Declaration> = pending.undo.iter().map(Undo::declaration).collect();
        let description = format!("change #{} goes back: {why}", pending.id);
        let options = Options { on_failure: OnFailure::Continue, description, ..Options::default() };
        let event = Event::new(desk::event(&declarations, &options));
        let ordered = Ordered { options, told, ..Ordered::new(event, Work::GoBack(declarations)) };
        self.goes_back = self.push_ordered(ordered).is_ok();
    }

    /// Pushes the event of an order; one for which there is no room is told so.
    pub(super) fn push_ordered(&mut self, ordered: Ordered) -> Result<(), PushError> {
        match self.producer().push(ordered.event.clone()) {
            Ok(()) => {
                self.ordered.push(ordered);
                Ok(())
            }
            Err(error) => {
                ordered.end(Err(refusal(&error)));
                Err(error)
            }
        }
    }

    /// Notes which order the event belongs to that begins.
    pub(super) fn note_opened(&mut self) {
        let event = self.events.under_way();
        self.current =
            event.and_then(|event| self.ordered.iter().position(|ordered| ordered.event.is_same(event)));
    }

    /// An event has ended: whoever ordered it is told.
    pub(super) fn note_closed(&mut self, record: &EventRecord) {
        if let Some(keep) = &self.keep {
            keep.note_event(record);
        }
        let Some(at) = self.current.take() else { return };
        let ordered = self.ordered.remove(at);
        let waits = |txn: &Arc<Record>| self.ledger.confirmation.clone().filter(|it| it.id == txn.seq);
        let ended = match (&ordered.refusal, &record.txn, record.cause()) {
            (Some(refusal), _, _) => Err(refusal.clone()),
            (None, None, Some(cause)) => Err(ApplyError::Refused { text: cause.to_string() }),
            (None, txn, _) => Ok(Applied {
                event: record.seq,
                record: txn.clone(),
                conflicts: record.conflicts.clone(),
                confirmation: txn.as_ref().and_then(waits),
            }),
        };
        ordered.end(ended);
        self.hold_again(&ordered);
        if matches!(ordered.work, Work::GoBack(_)) {
            self.goes_back = false;
        }
    }

    /// A directory does not ask twice: what could not be kept, or came while a change waited, is tried again.
    fn hold_again(&mut self, ordered: &Ordered) {
        let Work::Declare(declarations) = &ordered.work else { return };
        let is_unkept = match &ordered.refusal {
            None => return self.held.relent(),
            Some(ApplyError::NotKept { .. }) => true,
            Some(ApplyError::Unconfirmed { .. }) => false,
            Some(_) => return,
        };
        for declaration in declarations {
            if self.ledger.directories.contains(&declaration.source) {
                self.held.hold(declaration.clone());
                if is_unkept {
                    self.held.put_off(self.clock.now());
                }
            }
        }
    }

    async fn plan(&mut self, declarations: &[Declaration]) -> Result<Arc<Planned>, ApplyError> {
        self.check_sources(declarations)?;
        let preview = self.events.preview(&desk::event(declarations, &Options::default()));
        let scheduler = self.events.scheduler_mut();
        let plan = self.driver.plan_only(scheduler, preview.txn, &self.clock).await.unwrap_or_default();
        // What is only looked at is no part of a recording.
        scheduler.take_journal();
        Ok(Planned::new(plan, preview.conflicts).into())
    }

    fn check_apply(&self, declarations: &[Declaration]) -> Result<(), ApplyError> {
        self.check_sources(declarations)?;
        match &self.ledger.confirmation {
            Some(pending) => Err(ApplyError::Unconfirmed { id: pending.id }),
            None => Ok(()),
        }
    }

    fn check_sources(&self, declarations: &[Declaration]) -> Result<(), ApplyError> {
        declarations.iter().try_for_each(|declaration| self.check_source(&declaration.source))
    }

    fn check_source(&self, name: &str) -> Result<(), ApplyError> {
        let is_good = |letter: char| letter.is_alphanumeric() || "-_./".contains(letter);
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_good) {
            return Err(ApplyError::BadName { name: name.to_owned() });
        }
        if self.ledger.directories.iter().any(|directory| directory == name) {
            return Err(ApplyError::Reserved { source_name: name.to_owned() });
        }
        Ok(())
    }
}

fn refusal(error: &PushError) -> ApplyError {
    match error {
        PushError::Full { .. } => ApplyError::Busy,
        PushError::Closed => ApplyError::Gone,
    }
}
