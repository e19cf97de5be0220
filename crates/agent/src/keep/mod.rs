//! The state directory: what must outlive the process.
//!
//! Decided here: in which order things are written, so that a crash at any point loses nothing that was acknowledged
//! and leaves nothing behind that nobody declared:
//!
//! 1. the *intent* of a change, before the first operation; if it cannot be written, nothing is done;
//! 2. the operations;
//! 3. what is declared from now on, the record, a pending confirmation, and the end of the intent, in one write;
//! 4. only then the caller is answered.
//!
//! After a crash between 1 and 3 the old declarations stand, and what the intent names and nobody declares is removed.
//! Not decided here: how bytes reach the disk; see [`kilter_store`].
//!
//! Read next: [`Keep`], then `layout` for what lies under which key.

mod kept;
pub(crate) mod layout;
mod past;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kilter_events::EventRecord;
use kilter_scheduler::{Key, Record, Seq, Timestamp, ValueRef};
use kilter_store::embedded::history::{Append, Bounds};
use kilter_store::embedded::{Batch, Embedded, Medium, Settings as StoreSettings};
use kilter_store::{Commit, Committed, StoreError};
use serde::Serialize;
use serde_json::{Value as Json, json};
use tokio::sync::{mpsc, oneshot, watch};

use crate::confirm::Pending;
use crate::ledger::Delta;

pub use kept::{Kept, KeptSource};
pub use past::{AsOf, Past, PastError, PastEvent, PastHandler, PastTxn};

/// The file in the state directory.
const FILE: &str = "kilter.redb";
/// The history of transactions, and the one of events.
pub(crate) const TRANSACTIONS: &str = "transactions";
pub(crate) const EVENTS: &str = "events";

/// How values become JSON at rest, and values again.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    /// A value as JSON.
    pub write: fn(&ValueRef) -> Json,
    /// The value of an item out of its JSON, or what is wrong with it.
    pub read: fn(&Key, &Json) -> Result<ValueRef, String>,
}

impl Codec {
    /// For the kinds that documents declare.
    pub fn documents() -> Self {
        Self {
            write: |value| kilter_model::export::to_json(value).unwrap_or_else(|| value.to_json()),
            read: |_, json| {
                let read = kilter_model::export::read_back(json);
                read.map(|(_, value)| value).map_err(|error| kilter_events::chain(&error))
            },
        }
    }
}

/// What can be set about the state directory.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// How many days transactions and events are remembered. Default: 30.
    pub history_days: u64,
    /// At most about this many bytes of transactions are remembered, and as many of events. Default: 256 MiB.
    pub history_bytes: u64,
    /// How many changes of what is declared can be gone back to. Default: 10 000.
    pub revisions: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { history_days: 30, history_bytes: 256 << 20, revisions: 10_000 }
    }
}

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// It cannot be made.
    #[error("failed to make the state directory `{}`", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// What is in it cannot be opened or read.
    #[error("failed to open the state directory `{}`", .path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: StoreError,
    },
}

/// What is written when a change has ended.
#[derive(Debug, Default)]
pub(crate) struct Settlement<'a> {
    /// What is declared from now on; nothing if the change does not stand.
    pub(crate) deltas: Vec<Delta>,
    /// The record, if it can still be remembered in its place.
    pub(crate) record: Option<&'a Record>,
    /// The transaction.
    pub(crate) last: Option<Seq>,
    /// The confirmation that is waited for from now on, or no longer.
    pub(crate) confirmation: Option<Option<Pending>>,
}

/// What must outlive the process. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Keep {
    store: Arc<Embedded>,
    codec: Codec,
    /// The first transaction of this run.
    since: Seq,
    /// The revision of the last write.
    head: Arc<AtomicU64>,
    /// Whether an intent may be written down.
    intends: Arc<AtomicBool>,
    writes: mpsc::UnboundedSender<Write>,
    /// What is missing in the history; ends when the writer has ended.
    missing: watch::Receiver<Missing>,
}

/// What could not be remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// How many transactions and events, in this run.
    pub count: usize,
    /// Why, while it still is so.
    pub why: Option<String>,
}

/// A write, and who waits for it.
struct Write {
    batch: Batch,
    reply: Option<oneshot::Sender<Result<Committed, StoreError>>>,
}

impl Keep {
    /// Opens the state directory, which is made if it is absent, and reads what it holds.
    ///
    /// **Assumes** a tokio runtime. Blocks while it reads.
    pub fn open(directory: &Path, settings: &Settings, codec: Codec) -> Result<(Self, Kept), KeepError> {
        std::fs::create_dir_all(directory)
            .map_err(|source| KeepError::Directory { path: directory.to_owned(), source })?;
        Self::begin(directory, settings, codec, |settings| Embedded::open(&directory.join(FILE), settings))
    }

    /// Like [`open`](Self::open), on a medium other than a file; the name is for messages.
    ///
    /// **Assumes** a tokio runtime. Blocks while it reads.
    pub fn open_on(
        name: &str,
        medium: Arc<dyn Medium>,
        settings: &Settings,
        codec: Codec,
    ) -> Result<(Self, Kept), KeepError> {
        Self::begin(Path::new(name), settings, codec, |settings| Embedded::open_on(name, medium, settings))
    }

    fn begin(
        path: &Path,
        settings: &Settings,
        codec: Codec,
        store: impl FnOnce(StoreSettings) -> Result<Embedded, StoreError>,
    ) -> Result<(Self, Kept), KeepError> {
        let bounds = Bounds {
            age: Some(std::time::Duration::from_secs(settings.history_days.saturating_mul(86_400))),
            count: None,
            bytes: Some(settings.history_bytes),
        };
        let settings = StoreSettings {
            keep_revisions: Some(settings.revisions),
            histories: [TRANSACTIONS, EVENTS].map(|name| (name.to_owned(), bounds)).into(),
            verify: false,
            ..StoreSettings::default()
        };
        let open = |source| KeepError::Open { path: path.to_owned(), source };
        let store = Arc::new(store(settings).map_err(open)?);
        let view = store.view().map_err(open)?;
        let kept = kept::read(&view, codec).map_err(open)?;
        let head = Arc::new(AtomicU64::new(view.revision().0));
        let intends = Arc::new(AtomicBool::new(view.get(layout::INTENT).map_err(open)?.is_some()));
        drop(view);
        let (writes, written) = mpsc::unbounded_channel();
        let (misses, missing) = watch::channel(Missing::default());
        tokio::spawn(write_in_order(Arc::clone(&store), written, misses));
        let since = kept.last_txn + 1;
        Ok((Self { store, codec, since, head, intends, writes, missing }, kept))
    }

    /// The first transaction of this run: what came before is only on disk.
    pub(crate) fn since(&self) -> Seq {
        self.since
    }

    /// Lets go of the state directory; ends when everything is written and somebody else may open it.
    ///
    /// **Assumes** that no clone is left.
    pub async fn close(self) {
        let Self { store, writes, mut missing, .. } = self;
        drop((store, writes));
        // Whatever it is told: only its end counts.
        while missing.changed().await.is_ok() {}
    }

    /// Writes down what is about to be made; nothing may be made before.
    pub(crate) async fn intend(&self, keys: &[Key]) -> Result<(), StoreError> {
        let intent = json!({ "keys": keys }).to_string();
        self.intends.store(true, Ordering::SeqCst);
        self.write(Commit::new().put(layout::INTENT, intent).into()).await
    }

    /// Writes down how a change ended. If there is nothing to lose, it is only remembered, and nobody waits for that: so it
    /// is with the start of an agent that finds everything as it is declared.
    pub(crate) async fn settle(&self, settlement: &Settlement<'_>) -> Result<(), StoreError> {
        let ends_nothing = settlement.confirmation.is_none() && !self.intends.load(Ordering::SeqCst);
        if settlement.deltas.is_empty() && ends_nothing {
            settlement.record.iter().for_each(|record| self.note_txn(record));
            return Ok(());
        }
        let mut commit = Commit::new().delete(layout::INTENT);
        for delta in &settlement.deltas {
            commit = layout::add_delta(commit, delta, self.codec);
        }
        commit = match &settlement.confirmation {
            Some(Some(pending)) => commit.put(layout::CONFIRMATION, pending.to_json(self.codec).to_string()),
            Some(None) => commit.delete(layout::CONFIRMATION),
            None => commit,
        };
        if let Some(seq) = settlement.last.filter(|_| !settlement.deltas.is_empty()) {
            commit = commit.put(layout::LAST, seq.to_string());
        }
        let mut batch = Batch::from(commit);
        if let Some(record) = settlement.record {
            // Every settlement of a declaration changes an item: the mark of the transaction.
            let head = self.head.load(Ordering::SeqCst);
            let revision = if settlement.deltas.is_empty() { head } else { head + 1 };
            batch = batch.append(txn_note(record, revision, self.since));
        }
        self.write(batch).await?;
        self.intends.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Writes down that a confirmation is waited for until another moment, or no longer.
    pub(crate) async fn confirm(&self, pending: Option<&Pending>) -> Result<(), StoreError> {
        let commit = match pending {
            Some(pending) => Commit::new().put(layout::CONFIRMATION, pending.to_json(self.codec).to_string()),
            None => Commit::new().delete(layout::CONFIRMATION),
        };
        self.write(commit.into()).await
    }

    /// Remembers a transaction that changed no declaration; nobody waits for it.
    pub(crate) fn note_txn(&self, record: &Record) {
        let revision = self.head.load(Ordering::SeqCst);
        self.note(txn_note(record, revision, self.since));
    }

    /// Remembers an event; nobody waits for it.
    pub(crate) fn note_event(&self, record: &EventRecord) {
        self.note(event_note(record));
    }

    fn note(&self, append: Append) {
        // The writer ends with the process.
        let _ = self.writes.send(Write { batch: Batch::default().append(append), reply: None });
    }

    /// Waits until everything that was noted is written.
    pub(crate) async fn flush(&self) -> Result<(), StoreError> {
        self.write(Batch::default()).await
    }

    /// What is missing in the history, and whatever is from now on.
    pub(crate) fn missing(&self) -> watch::Receiver<Missing> {
        self.missing.clone()
    }

    async fn write(&self, batch: Batch) -> Result<(), StoreError> {
        let (reply, written) = oneshot::channel();
        self.writes.send(Write { batch, reply: Some(reply) }).map_err(|_| StoreError::Closed)?;
        let committed = written.await.unwrap_or(Err(StoreError::Closed))?;
        self.head.store(committed.revision.0, Ordering::SeqCst);
        Ok(())
    }
}

/// Writes in order. What nobody waits for is written together; if it cannot be written, it is missing in the history
/// and nowhere else, and that is told.
async fn write_in_order(
    store: Arc<Embedded>,
    mut writes: mpsc::UnboundedReceiver<Write>,
    misses: watch::Sender<Missing>,
) {
    let mut noted = Batch::default();
    while let Some(write) = writes.recv().await {
        let mut next = Some(write);
        while let Some(Write { batch, reply }) = next.take() {
            match reply {
                None => noted.appends.extend(batch.appends),
                Some(reply) => {
                    write_notes(&store, &mut noted, &misses).await;
                    // Whoever does not wait any more needs no answer.
                    let _ = reply.send(store.write(batch).await);
                }
            }
            next = writes.try_recv().ok();
        }
        write_notes(&store, &mut noted, &misses).await;
    }
    drop(store);
    drop(misses);
}

async fn write_notes(store: &Embedded, noted: &mut Batch, misses: &watch::Sender<Missing>) {
    let count = noted.appends.len();
    if count == 0 {
        return;
    }
    let why = store.write(std::mem::take(noted)).await.err().map(|error| kilter_events::chain(&error));
    misses.send_if_modified(|missing| {
        let is_news = why.is_some() || missing.why.is_some();
        missing.count += if why.is_some() { count } else { 0 };
        missing.why = why;
        is_news
    });
}

/// A transaction in the history.
#[derive(Serialize)]
struct TxnNote<'a> {
    revision: u64,
    since: Seq,
    record: &'a Record,
}

fn txn_note(record: &Record, revision: u64, since: Seq) -> Append {
    let mut about: Vec<String> = record.changes().map(|step| step.key.to_string()).collect();
    about.sort();
    about.dedup();
    // Written as it is read: a record may be of ten thousand items, and its tree would take most of the start of an agent.
    let bytes =
        serde_json::to_vec(&TxnNote { revision, since, record }).expect("a record is plain data").into();
    Append {
        history: TRANSACTIONS.to_owned(),
        seq: record.seq,
        at_millis: millis(record.start),
        about,
        bytes,
    }
}

fn event_note(record: &EventRecord) -> Append {
    let txn: Option<Seq> = record.txn.as_ref().map(|txn| txn.seq);
    // The transaction is remembered by itself.
    let mut alone = record.clone();
    alone.txn = None;
    let mut json = kilter_events::to_json(&alone);
    if let Json::Object(fields) = &mut json {
        fields.insert("txn".to_owned(), json!(txn));
    }
    let (bytes, about) = (json.to_string().into(), Vec::new());
    // Numbers of a history begin above zero.
    Append { history: EVENTS.to_owned(), seq: record.seq + 1, at_millis: millis(record.start), about, bytes }
}

fn millis(at: Timestamp) -> u64 {
    at.0 / 1_000_000
}
