//! What was ordered: it becomes an event, and its end is told.

use std::sync::Arc;

use kilter_events::builtin::{Drifted, Observed};
use kilter_events::{Event, EventRecord, PushError};
use kilter_scheduler::{Key, Outcome, Record};
use kilter_southbound::Clock as _;

use super::Agent;
use crate::confirm::Pending;
use crate::desk::{self, Applied, ApplyError, Declaration, NewKind, Options, Order, Planned, Progress, Told};
use crate::ledger::Delta;
use crate::remote::AddKindError;

/// How long the name of a source may be.
const LONGEST_NAME: usize = 64;

/// What an event changes in the ledger.
pub(super) enum Work {
    /// Sources declare.
    Declare(Vec<Declaration>),
    /// A change that was not confirmed goes back.
    GoBack(Vec<Declaration>),
    /// The agent begins: what is not kept yet, and the confirmation that is waited for from now on, or no longer, if that
    /// is not kept yet either.
    Begin(Vec<Delta>, Option<Option<Pending>>),
    /// Nothing.
    Nothing,
}

/// An event that was ordered and has not ended.
pub(crate) struct Ordered {
    pub(super) event: Event,
    pub(super) work: Work,
    pub(super) options: Options,
    /// Those who are told how it goes.
    pub(super) told: Vec<Told>,
    /// Why it was refused, or could not be kept.
    pub(super) refusal: Option<ApplyError>,
}

impl Ordered {
    pub(super) fn new(event: Event, work: Work) -> Self {
        Self { event, work, options: Options::default(), told: Vec::new(), refusal: None }
    }

    /// Declarations of one transaction; somebody may be told how it goes.
    pub(super) fn declarations(declarations: Vec<Declaration>, options: Options, told: Option<Told>) -> Self {
        let event = Event::new(desk::event(&declarations, &options));
        Self { options, told: told.into_iter().collect(), ..Self::new(event, Work::Declare(declarations)) }
    }

    fn end(&self, ended: Result<Applied, ApplyError>) {
        self.tell(|| Progress::Ended(ended.clone()));
    }

    /// Tells something to those who are told.
    pub(super) fn tell(&self, progress: impl Fn() -> Progress) {
        for told in &self.told {
            // Whoever does not listen any more is told nothing.
            let _ = told.send(progress());
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
            Order::Feed(declaration, options, told) => {
                let refusal = self.unconfirmed().err();
                let ordered = Ordered::declarations(vec![*declaration], *options, Some(told));
                match refusal {
                    None => {
                        let _ = self.push_ordered(ordered);
                    }
                    Some(error) => ordered.end(Err(error)),
                }
            }
            Order::Report(component, level, reason) => {
                self.events.health_mut().report(&component, level, reason);
            }
            Order::Resync(asked, told) => {
                let ordered = Ordered::new(Event::new(asked), Work::Nothing);
                let _ = self.push_ordered(Ordered { told: vec![told], ..ordered });
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
                self.attention.resume(&prefix, self.events.scheduler());
                self.ledger.paused = self.attention.paused();
                let _ = reply.send(());
            }
            Order::Say(id, say, reply) => {
                let _ = reply.send(self.say(id, say).await);
            }
            Order::Cancel(id, told) => self.cancel(id, told),
            Order::AddKinds(kinds, reply) => {
                let _ = reply.send(kinds.into_iter().map(|kind| self.add_kind(kind)).collect());
            }
            Order::ReadAgain(prefixes, reply) => {
                let _ = reply.send(self.read_again(&prefixes));
            }
            Order::Tape(asked, reply) => self.tape(asked, reply),
            Order::AtRest(reply) => self.resting.push(reply),
            Order::Settled(reply) => self.settling.push(reply),
        }
    }

    fn add_kind(&mut self, kind: NewKind) -> Result<(), AddKindError> {
        let NewKind { descriptor, actuator, written } = kind;
        let kind = descriptor.kind().to_owned();
        self.events.scheduler_mut().register(descriptor)?;
        self.events.note_kind(&written);
        self.kinds.push(written);
        self.driver.add(kind, actuator)?;
        Ok(())
    }

    fn read_again(&self, prefixes: &[String]) -> Result<(), ApplyError> {
        let declared = self.events.scheduler().declared().into_iter().map(|(key, _)| key);
        let is_meant = |key: &Key| prefixes.iter().any(|prefix| key.as_str().starts_with(prefix));
        let keys: Vec<Key> = declared.filter(is_meant).collect();
        if keys.is_empty() {
            return Ok(());
        }
        self.producer().push(Event::new(Drifted(keys))).map_err(|error| refusal(&error))
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
    pub(super) async fn note_closed(&mut self, record: &EventRecord) {
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
        self.note_gone_back(&ordered, record).await;
        ordered.end(ended);
        self.hold_again(&ordered);
        self.probe();
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
        // Whoever is told tries again by themselves.
        for declaration in declarations.iter().filter(|_| ordered.told.is_empty()) {
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
        self.unconfirmed()
    }

    /// Whether a change waits for its confirmation: then nothing else is declared.
    fn unconfirmed(&self) -> Result<(), ApplyError> {
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
