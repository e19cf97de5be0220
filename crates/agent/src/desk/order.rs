//! What the desk passes on to the task that drives the loop.

use std::sync::Arc;

use kilter_events::AskedResync;
use kilter_scheduler::{Observation, Seq};
use tokio::sync::{mpsc, oneshot, watch};

use super::declaration::{Declaration, Options};
use super::progress::{ApplyError, Planned, Progress};
use super::view::View;
use crate::confirm::{ConfirmError, Say};

/// Something that is asked about the agent; answered at any time, also while a transaction is performed.
pub(crate) type Question = Box<dyn FnOnce(&View<'_>) + Send>;

/// Where progress is told.
pub(crate) type Told = mpsc::UnboundedSender<Progress>;

/// Something that is asked of the agent; taken up between two events.
pub(crate) enum Order {
    /// Say what would be done.
    Plan(Vec<Declaration>, oneshot::Sender<Result<Arc<Planned>, ApplyError>>),
    /// Apply declarations in one transaction.
    Apply(Vec<Declaration>, Box<Options>, Told),
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
