//! The embedded driver: one file, opened by one process.
//!
//! Decided here: how the parts are put together. The steps of a write:
//!
//! 1. [`Embedded::write`] puts the batch into the queue (`queue`), and waits when too many wait already;
//! 2. the writer (`writer`), a thread of its own, takes everything that waits and applies it in one transaction of the
//!    file (`apply`, `history`), so that all of it shares one sync;
//! 3. when the sync has returned, the commits are shown to watches (`tail`) and every caller is answered.
//!
//! Reads (`view`) never wait for writes. The layout of the file is in `tables`, what lies under it in `medium`.

mod apply;
mod clock;
mod compact;
pub mod history;
mod leases;
mod lock;
mod medium;
mod queue;
mod settings;
mod shared;
mod tables;
mod tail;
mod translate;
mod verify;
mod view;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::oneshot;

pub use clock::{Clock, Monotonic};
pub use medium::Medium;
pub use settings::Settings;
pub use view::View;

use crate::item::check_key;
use crate::{
    Answer, Commit, Committed, Found, Identity, Lease, LeaseId, Range, Revision, Snapshot, Store, StoreError,
    Watch,
};
use history::Append;
use lock::Lock;
use medium::DiskFile;
use queue::Request;
use shared::Shared;

/// What is written together: changed items, and records behind histories.
///
/// **Guarantees** all of it is on disk when it is acknowledged, and none of it when the commit's comparison fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The items to change.
    pub commit: Commit,
    /// The records to append.
    pub appends: Vec<Append>,
}

impl From<Commit> for Batch {
    fn from(commit: Commit) -> Self {
        Self { commit, appends: Vec::new() }
    }
}

impl Batch {
    /// Also appends a record.
    #[must_use]
    pub fn append(mut self, append: Append) -> Self {
        self.appends.push(append);
        self
    }
}

/// A store in one file.
///
/// **Guarantees** what was acknowledged survives `kill -9` and a power cut; a batch is there whole or not at all.
/// **Assumes** that the disk keeps what it says it has synced.
#[derive(Debug)]
pub struct Embedded {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    _lock: Option<Lock>,
}

impl Embedded {
    /// Opens the store in a file, which is made if it is absent.
    ///
    /// Blocks while the file is read, and longer after a crash: what lies in it is then checked.
    pub fn open(path: &Path, settings: Settings) -> Result<Self, StoreError> {
        let lock = Lock::take(path)?;
        if DiskFile::is_absent(path)? {
            DiskFile::make(path, |file| Shared::open(path, Arc::new(file), settings.clone()).map(drop))?;
        }
        let file = DiskFile::open(path)?;
        Self::start(path, Arc::new(file), settings, Some(lock))
    }

    /// Opens the store that lies on a medium; the name is for messages.
    ///
    /// **Assumes** that nobody else has it open.
    pub fn open_on(name: &str, medium: Arc<dyn Medium>, settings: Settings) -> Result<Self, StoreError> {
        Self::start(Path::new(name), medium, settings, None)
    }

    fn start(
        path: &Path,
        medium: Arc<dyn Medium>,
        settings: Settings,
        lock: Option<Lock>,
    ) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared::open(path, medium, settings)?);
        let writer = writer::spawn(Arc::clone(&shared))?;
        Ok(Self { shared, writer: Some(writer), _lock: lock })
    }

    /// Everything as it is at this moment, to read at leisure. Blocks while it reads.
    pub fn view(&self) -> Result<View, StoreError> {
        self.shared.view()
    }

    /// Writes a batch, all or nothing; answers when it is on disk. Whoever stops waiting does not take it back.
    pub async fn write(&self, batch: Batch) -> Result<Committed, StoreError> {
        batch.commit.check()?;
        history::check(&batch.appends)?;
        self.ask(|answer| Request::Write { batch, answer }).await
    }

    /// Ends the leases whose time is over, as the writer does by itself when it is due.
    pub async fn expire(&self) -> Result<(), StoreError> {
        self.ask(|answer| Request::Expire { answer }).await
    }

    /// Puts a request into the queue and waits for its answer.
    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Request,
    ) -> Result<T, StoreError> {
        let _room = self.shared.queue.room().await?;
        let (answer, answered) = oneshot::channel();
        self.shared.queue.push(request(answer))?;
        answered.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Reads on a thread that may block.
    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&View) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'static, T> {
        let shared = Arc::clone(&self.shared);
        async move { shared.read(read).await }.boxed()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.shared.queue.close();
        if let Some(writer) = self.writer.take() {
            // A panic of the writer has been told to everyone who waited for it.
            let _ = writer.join();
        }
        self.shared.close();
    }
}

impl Store for Embedded {
    fn identity(&self) -> Answer<'_, Identity> {
        std::future::ready(Ok(self.shared.identity)).boxed()
    }

    fn get(&self, key: &str) -> Answer<'_, Found> {
        let key = key.to_owned();
        self.read(move |view| {
            check_key(&key)?;
            Ok(Found { revision: view.revision(), item: view.get(&key)? })
        })
    }

    fn range(&self, range: Range) -> Answer<'_, Snapshot> {
        self.read(move |view| view.range(&range))
    }

    fn commit(&self, commit: Commit) -> Answer<'_, Committed> {
        self.write(commit.into()).boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> Answer<'_, Watch> {
        let watch = tail::watch(Arc::clone(&self.shared), prefix.to_owned(), after);
        std::future::ready(watch).boxed()
    }

    fn compact(&self, before: Revision) -> Answer<'_, ()> {
        self.ask(move |answer| Request::Compact { before, answer }).boxed()
    }

    fn grant(&self, ttl: Duration) -> Answer<'_, Lease> {
        self.ask(move |answer| Request::Grant { ttl, answer }).boxed()
    }

    fn keep_alive(&self, lease: LeaseId) -> Answer<'_, Lease> {
        let kept = self.shared.deadlines.keep_alive(lease, self.shared.settings.clock.now());
        std::future::ready(kept.ok_or(StoreError::NoSuchLease(lease))).boxed()
    }

    fn revoke(&self, lease: LeaseId) -> Answer<'_, Committed> {
        self.ask(move |answer| Request::Revoke { lease, answer }).boxed()
    }
}
