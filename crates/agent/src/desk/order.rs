//! What the desk passes on to the task that drives the loop.

use std::sync::Arc;

use kilter_events::{AskedResync, Level};
use kilter_scheduler::{Descriptor, Observation, Seq};
use kilter_southbound::Actuator;
use serde_json::Value as Json;
use tokio::sync::{mpsc, oneshot, watch};

use super::declaration::{Declaration, Options};
use super::progress::{ApplyError, Planned, Progress};
use super::view::View;
use crate::confirm::{ConfirmError, Say};
use crate::drive::tape::{Tape, TapeReply};
use crate::remote::AddKindError;

/// Something that is asked about the agent; answered at any time, also while a transaction is performed.
pub(crate) type Question = Box<dyn FnOnce(&View<'_>) + Send>;

/// Where progress is told.
pub(crate) type Told = mpsc::UnboundedSender<Progress>;

/// A kind, and what makes it real.
pub(crate) struct NewKind {
    pub(crate) descriptor: Box<dyn Descriptor>,
    pub(crate) actuator: Arc<dyn Actuator>,
    /// What a recording holds of it.
    pub(crate) written: Json,
}

/// Something that is asked of the agent; taken up between two events.
pub(crate) enum Order {
    /// Say what would be done.
    Plan(Vec<Declaration>, oneshot::Sender<Result<Arc<Planned>, ApplyError>>),
    /// Apply declarations in one transaction.
    Apply(Vec<Declaration>, Box<Options>, Told),
    /// Apply what a source of the agent itself declares, whose name nobody else may use.
    Feed(Box<Declaration>, Box<Options>, Told),
    /// Note how a part of the agent stands.
    Report(String, Level, String),
    /// Recompute and re-read.
    Resync(AskedResync, Told),
    /// Take in what was seen.
    Notify(Vec<Observation>, oneshot::Sender<Result<(), ApplyError>>),
    /// Leave items alone.
    Pause(String, oneshot::Sender<()>),
    /// Heal them again.
    Resume(String, oneshot::Sender<()>),
    /// Let the change that waits go back; without a name, whichever it is.
    Cancel(Option<Seq>, Told),
    /// Confirm or extend the change that waits; without a name, whichever it is.
    Say(Option<Seq>, Say, oneshot::Sender<Result<Seq, ConfirmError>>),
    /// Take up kinds; whether each was.
    AddKinds(Vec<NewKind>, oneshot::Sender<Vec<Result<(), AddKindError>>>),
    /// Read the declared items again whose keys begin so.
    ReadAgain(Vec<String>, oneshot::Sender<Result<(), ApplyError>>),
    /// Begin or end the recording of the run, or say how it stands.
    Tape(Tape, TapeReply),
    /// Say when nothing is under way.
    AtRest(oneshot::Sender<()>),
    /// Say when nothing is left to do.
    Settled(oneshot::Sender<()>),
}

/// Where questions and orders arrive.
pub(crate) struct Reception {
    pub(crate) questions: mpsc::UnboundedReceiver<Question>,
    pub(crate) orders: mpsc::Receiver<Order>,
    /// The newest transaction, for those who wait for a change.
    pub(crate) newest: watch::Sender<Seq>,
}
