//! What was ordered at the desk: it becomes an event, and its end is told.

use kilter_events::builtin::Observed;
use kilter_events::{AskedResync, Event, EventRecord, PushError};
use kilter_scheduler::{Key, Outcome};

use super::Agent;
use crate::desk::{Applied, ApplyError, Declaration, Options, Order, Planned, Progress, Told};

/// How long the name of a source may be.
const LONGEST_NAME: usize = 64;

/// An event that was ordered and has not ended.
pub(crate) struct Ordered {
    pub(super) event: Event,
    /// What is declared, if anything.
    pub(super) declaration: Option<Declaration>,
    pub(super) options: Options,
    /// Who is told how it goes.
    pub(super) told: Option<Told>,
    /// Why it was refused.
    pub(super) refusal: Option<ApplyError>,
}

impl Ordered {
    /// A declaration; somebody may be told how it goes.
    pub(super) fn declaration(declaration: Declaration, options: Options, told: Option<Told>) -> Self {
        let event = Event::new(declaration.event(&options));
        Self { event, declaration: Some(declaration), options, told, refusal: None }
    }

    fn end(&self, ended: Result<Applied, ApplyError>) {
        if let Some(told) = &self.told {
            // Whoever does not listen any more is told nothing.
            let _ = told.send(Progress::Ended(ended));
        }
    }
}

impl Agent {
    /// Takes up what was ordered.
    pub(super) async fn take_up(&mut self, order: Order) {
        match order {
            Order::Plan(declaration, reply) => {
                // Whoever does not wait any more needs no answer; here and below.
                let _ = reply.send(self.plan(&declaration).await);
            }
            Order::Apply(declaration, options, told) => {
                let ordered = Ordered::declaration(*declaration, *options, Some(told));
                let declared = ordered.declaration.as_ref();
                match declared.map_or(Ok(()), |declaration| self.check_source(&declaration.source)) {
                    Ok(()) => {
                        let _ = self.push_ordered(ordered);
                    }
                    Err(error) => ordered.end(Err(error)),
                }
            }
            Order::Resync(scope, description, told) => {
                let event = Event::new(AskedResync { scope, description });
                let options = Options::default();
                let _ = self.push_ordered(Ordered {
                    event,
                    declaration: None,
                    options,
                    told: Some(told),
                    refusal: None,
                });
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
            Order::Settled(reply) => self.settling.push(reply),
        }
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

    /// An event has ended: what it declared is noted, and whoever ordered it is told.
    pub(super) fn note_closed(&mut self, record: &EventRecord) {
        let Some(at) = self.current.take() else { return };
        let ordered = self.ordered.remove(at);
        let stands = match &record.txn {
            Some(txn) => !matches!(txn.outcome, Outcome::Reverted(_) | Outcome::RevertFailed { .. }),
            None => record.failures.is_empty(),
        };
        if let Some(declaration) = ordered.declaration.as_ref().filter(|_| stands) {
            self.attention.forgive(declaration.puts.iter().map(|put| &put.key));
            self.ledger.note(declaration, record.txn.as_ref().map(|txn| txn.seq));
        }
        let ended = match (&ordered.refusal, &record.txn, record.cause()) {
            (Some(refusal), _, _) => Err(refusal.clone()),
            (None, None, Some(cause)) => Err(ApplyError::Refused { text: cause.to_string() }),
            (None, txn, _) => {
                let conflicts = record.conflicts.clone();
                Ok(Applied { event: record.seq, record: txn.clone(), conflicts })
            }
        };
        ordered.end(ended);
    }

    async fn plan(&mut self, declaration: &Declaration) -> Result<std::sync::Arc<Planned>, ApplyError> {
        self.check_source(&declaration.source)?;
        let preview = self.events.preview(&declaration.event(&Options::default()));
        let scheduler = self.events.scheduler_mut();
        let plan = self.driver.plan_only(scheduler, preview.txn, &self.clock).await.unwrap_or_default();
        // What is only looked at is no part of a recording.
        scheduler.take_journal();
        Ok(Planned::new(plan, preview.conflicts).into())
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
