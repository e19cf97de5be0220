//! The desk: how northbounds talk to the running agent, from any task.
//!
//! Decided here: that reading never waits for a transaction to end, and that whatever changes anything goes through the
//! queue like everything else. Not decided here: what is heard and what happens then (`events`), and how any of it looks
//! on a wire.
//!
//! Read next: [`Desk`], then [`View`] for what can be seen.

mod declaration;
mod order;
mod progress;
mod sweep;
mod view;
mod watching;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kilter_events::{AskedResync, Level};
use kilter_scheduler::{Cursor, Observation, OnFailure, Seq};
use kilter_store::StoreError;
use tokio::sync::{mpsc, oneshot, watch};

use crate::confirm::{ConfirmError, Pending, Say};
use crate::drive::tape::Tape;
use crate::keep::{Past, PastError};
use crate::recording::{RecordError, Recorded};
use crate::remote::AddKindError;

pub use declaration::{Confirm, Declaration, Expected, Options, Put};
pub use progress::{Applied, ApplyError, Operated, Planned, Progress};
pub use view::{Declarer, SourceLine, View};

pub use crate::ledger::{Ledger, Mark};
pub use sweep::Swept;
pub use watching::StatusWatch;

pub(crate) use declaration::event;
pub(crate) use order::{NewKind, Order, Question, Reception, Told};
pub(crate) use progress::hold_against;

/// How many orders may wait to be taken up.
const ORDERS: usize = 256;

/// The agent has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent has ended")]
pub struct Gone;

impl From<Gone> for ApplyError {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// Why it is not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettleError {
    /// There is still something to do.
    #[error("not settled within {within:?}")]
    Late {
        /// How long it was waited for.
        within: Duration,
    },
    /// The agent has ended.
    #[error("the agent has ended")]
    Gone,
}

/// Talks to the running agent. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Desk {
    questions: mpsc::UnboundedSender<Question>,
    orders: mpsc::Sender<Order>,
    newest: watch::Receiver<Seq>,
}

/// A desk, and where what it passes on arrives.
pub(crate) fn open() -> (Desk, Reception) {
    let (questions, asked) = mpsc::unbounded_channel();
    let (orders, ordered) = mpsc::channel(ORDERS);
    let (newest, seen) = watch::channel(0);
    let desk = Desk { questions, orders, newest: seen };
    (desk, Reception { questions: asked, orders: ordered, newest })
}

impl Desk {
    /// Looks at the agent; also while a transaction is performed, whatever an actuator is doing.
    ///
    /// **Assumes** that the closure returns soon: the loop waits for it.
    pub async fn inquire<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Gone> {
        let (reply, answer) = oneshot::channel();
        let question: Question = Box::new(move |view| {
            // Whoever does not wait any more needs no answer.
            let _ = reply.send(look(view));
        });
        self.questions.send(question).map_err(|_| Gone)?;
        answer.await.map_err(|_| Gone)
    }

    /// What a declaration would lead to, or those of several sources together; nothing is done.
    pub async fn plan(&self, declarations: impl Into<Vec<Declaration>>) -> Result<Arc<Planned>, ApplyError> {
        let declarations = declarations.into();
        self.ask(|reply| Order::Plan(declarations, reply)).await?
    }

    /// Applies a declaration, or those of several sources in one transaction, and tells how it goes; the last thing told
    /// is how it ended.
    ///
    /// What was ordered is carried out whether or not somebody listens.
    ///
    /// **Assumes** that a source speaks once.
    pub async fn apply(&self, declarations: impl Into<Vec<Declaration>>, options: Options) -> Changing {
        let declarations = declarations.into();
        self.order(|told| Order::Apply(declarations, Box::new(options), told)).await
    }

    /// Applies what a source of the agent itself declares, as far as that goes.
    pub(crate) async fn feed(&self, declaration: Declaration) -> Changing {
        let options = Options { on_failure: OnFailure::Continue, ..Options::default() };
        self.feed_with(declaration, options).await
    }

    /// Applies what a source of the agent itself declares, in this way.
    pub(crate) async fn feed_with(&self, declaration: Declaration, options: Options) -> Changing {
        self.order(|told| Order::Feed(Box::new(declaration), Box::new(options), told)).await
    }

    /// Notes how a part of the agent stands.
    pub(crate) async fn report(&self, component: impl Into<String>, level: Level, reason: String) {
        // An agent that has ended does not stand at all.
        let _ = self.orders.send(Order::Report(component.into(), level, reason)).await;
    }

    /// Recomputes and re-reads, and tells how it goes.
    pub async fn resync(&self, asked: AskedResync) -> Changing {
        self.order(|told| Order::Resync(asked, told)).await
    }

    /// Tells the agent what was seen of items.
    pub async fn notify(&self, seen: Vec<Observation>) -> Result<(), ApplyError> {
        self.ask(|reply| Order::Notify(seen, reply)).await?
    }

    /// Takes up kinds, and says whether each was; the items that waited for them come up.
    ///
    /// **Guarantees** that nothing is asked of their actuators before all of them are taken up: whoever takes up several
    /// may not be ready before.
    pub(crate) async fn add_kinds(&self, kinds: Vec<NewKind>) -> Result<Vec<Result<(), AddKindError>>, Gone> {
        self.ask(|reply| Order::AddKinds(kinds, reply)).await
    }

    /// Reads the declared items again whose keys begin so, and heals them.
    pub async fn read_again(&self, prefixes: Vec<String>) -> Result<(), ApplyError> {
        self.ask(|reply| Order::ReadAgain(prefixes, reply)).await?
    }

    /// Leaves items whose keys start with the prefix alone when they drift.
    pub async fn pause(&self, prefix: impl Into<String>) -> Result<(), Gone> {
        self.ask(|reply| Order::Pause(prefix.into(), reply)).await
    }

    /// Heals items again that were left alone under this prefix, beginning with what drifted meanwhile.
    pub async fn resume(&self, prefix: impl Into<String>) -> Result<(), Gone> {
        self.ask(|reply| Order::Resume(prefix.into(), reply)).await
    }

    /// Confirms the change that waits, so that it stays; without a name, whichever it is.
    pub async fn confirm(&self, id: Option<Seq>) -> Result<Seq, ConfirmError> {
        self.say(id, Say::Confirm).await
    }

    /// Lets the change wait this long from now on.
    pub async fn extend(&self, id: Option<Seq>, within: Duration) -> Result<Seq, ConfirmError> {
        self.say(id, Say::Extend(within)).await
    }

    /// Lets the change go back now, and tells how it goes.
    pub async fn cancel(&self, id: Option<Seq>) -> Changing {
        self.order(|told| Order::Cancel(id, told)).await
    }

    /// The change that waits for its confirmation.
    pub async fn confirmation(&self) -> Result<Option<Pending>, Gone> {
        self.inquire(|view| view.ledger.confirmation.clone()).await
    }

    async fn say(&self, id: Option<Seq>, say: Say) -> Result<Seq, ConfirmError> {
        self.ask(|reply| Order::Say(id, say, reply)).await.map_err(|Gone| ConfirmError::Gone)?
    }

    /// Begins to record the run in a file that is not there yet; everything is read anew first, as by an agent that hands
    /// over. Without a number of bytes it is as long as the settings say.
    pub async fn record(&self, file: PathBuf, most: Option<u64>) -> Result<Recorded, RecordError> {
        self.tape(Tape::Begin(file, most)).await?.ok_or(RecordError::Nothing)
    }

    /// Ends the recording of the run, and waits until it is written.
    pub async fn end_recording(&self) -> Result<Recorded, RecordError> {
        self.tape(Tape::End).await?.ok_or(RecordError::Nothing)
    }

    /// The recording of the run, or the last one; `None` if there was none.
    pub async fn recording(&self) -> Result<Option<Recorded>, RecordError> {
        self.tape(Tape::Show).await
    }

    async fn tape(&self, asked: Tape) -> Result<Option<Recorded>, RecordError> {
        self.ask(|reply| Order::Tape(asked, reply)).await.map_err(|Gone| RecordError::Gone)?
    }

    /// Waits until nothing is left to do and nothing is planned for later.
    pub async fn settled(&self, within: Duration) -> Result<(), SettleError> {
        match tokio::time::timeout(within, self.ask(Order::Settled)).await {
            Ok(settled) => settled.map_err(|Gone| SettleError::Gone),
            Err(_) => Err(SettleError::Late { within }),
        }
    }

    /// Waits until nothing is under way; something may be planned for later.
    pub async fn at_rest(&self) -> Result<(), Gone> {
        self.ask(Order::AtRest).await
    }

    /// Reads the past that is on disk, on a thread of its own; `None` if the agent keeps nothing.
    pub async fn past<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Past) -> Result<T, PastError> + Send + 'static,
    ) -> Result<Option<T>, PastError> {
        let Ok(Some(keep)) = self.inquire(|view| view.keep.cloned()).await else { return Ok(None) };
        let reading = tokio::task::spawn_blocking(move || read(&keep.past()?));
        reading.await.unwrap_or(Err(PastError::Store(StoreError::Closed))).map(Some)
    }

    /// Watches statuses: first everything, or what changed since the cursor, then every change.
    pub fn watch(&self, cursor: Option<Cursor>) -> StatusWatch {
        StatusWatch::new(self.clone(), self.newest.clone(), cursor)
    }

    /// Tells whenever a transaction has ended: the newest.
    pub fn newest(&self) -> watch::Receiver<Seq> {
        self.newest.clone()
    }

    async fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Result<T, Gone> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(order(reply)).await.map_err(|_| Gone)?;
        answer.await.map_err(|_| Gone)
    }

    async fn order(&self, order: impl FnOnce(Told) -> Order) -> Changing {
        let (told, progress) = mpsc::unbounded_channel();
        // If the agent has ended, so has the progress, and that is what is told.
        let _ = self.orders.send(order(told)).await;
        Changing { progress, has_ended: false }
    }
}

/// A change that is being made.
#[derive(Debug)]
pub struct Changing {
    progress: mpsc::UnboundedReceiver<Progress>,
    has_ended: bool,
}

impl Changing {
    /// What is told next; `None` after the end was told.
    ///
    /// **Guarantees** that the end is told, also if the agent ends.
    pub async fn next(&mut self) -> Option<Progress> {
        if self.has_ended {
            return None;
        }
        let told = self.progress.recv().await.unwrap_or(Progress::Ended(Err(ApplyError::Gone)));
        self.has_ended = matches!(told, Progress::Ended(_));
        Some(told)
    }

    /// Waits for the end.
    pub async fn ended(mut self) -> Result<Applied, ApplyError> {
        while let Some(told) = self.next().await {
            if let Progress::Ended(ended) = told {
                return ended;
            }
        }
        Err(ApplyError::Gone)
    }
}
