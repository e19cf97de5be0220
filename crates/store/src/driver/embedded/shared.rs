//! What the callers, the writer and the watches share.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use redb::{Builder, Database};
use tokio::sync::watch;

use super::leases::Deadlines;
use super::medium::{Backend, Medium};
use super::queue::Queue;
use super::settings::Settings;
use super::tables::{FORMAT, Tables, number};
use super::tail::Recent;
use super::translate::{self, READ, Trying};
use super::verify;
use super::view::View;
use crate::{Identity, Revision, StoreError};

/// How far the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The newest revision.
    pub(super) revision: Revision,
    /// The oldest revision that is kept.
    pub(super) oldest: Revision,
    /// Whether the store was closed.
    pub(super) closed: bool,
}

/// An open file.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) backend: Backend,
}

/// What the callers, the writer and the watches share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) path: PathBuf,
    pub(super) medium: Arc<dyn Medium>,
    pub(super) settings: Settings,
    pub(super) identity: Identity,
    pub(super) queue: Queue,
    pub(super) deadlines: Deadlines,
    pub(super) recent: Recent,
    pub(super) head: watch::Sender<Head>,
    /// The open file, or why it is not open.
    opened: RwLock<Result<Opened, StoreError>>,
}

impl Shared {
    /// Opens the file, makes its tables, and reads how far it is.
    pub(super) fn open(path: &Path, medium: Arc<dyn Medium>, settings: Settings) -> Result<Self, StoreError> {
        let attempt = format!("open `{}`", path.display());
        if settings.verify {
            translate::guarded(&attempt, || verify::verify(&attempt, &medium, settings.cache_bytes))?;
        }
        let opened = open_file(path, &medium, &settings)?;
        let (head, identity, leases) = translate::guarded(&attempt, || begin(path, &opened.database))?;
        let deadlines = Deadlines::starting(leases, settings.clock.now());
        Ok(Self {
            path: path.to_owned(),
            medium,
            settings,
            identity,
            queue: Queue::default(),
            deadlines,
            recent: Recent::default(),
            head: watch::Sender::new(head),
            opened: RwLock::new(Ok(opened)),
        })
    }

    /// Opens the file again, after an error that its library does not go on from.
    pub(super) fn reopen(&self) -> Result<(), StoreError> {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        // The old one first: it must not write to the file behind the new one's back.
        *opened = Err(StoreError::Closed);
        *opened = open_file(&self.path, &self.medium, &self.settings);
        opened.as_ref().map(drop).map_err(Clone::clone)
    }

    /// Does something with the open file.
    pub(super) fn with_opened<T>(
        &self,
        work: impl FnOnce(&Opened) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        opened.as_ref().map_err(Clone::clone).and_then(work)
    }

    /// Everything as it is at this moment.
    pub(super) fn view(&self) -> Result<View, StoreError> {
        translate::guarded(READ, || {
            let txn = self.with_opened(|opened| {
                use redb::ReadableDatabase;
                opened.database.begin_read().trying(READ)
            })?;
            View::new(txn)
        })
    }

    /// Reads on a thread that may block.
    pub(super) async fn read<T: Send + 'static>(
        self: Arc<Self>,
        read: impl FnOnce(&View) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reading = tokio::task::spawn_blocking(move || {
            let view = self.view()?;
            translate::guarded(READ, || read(&view))
        });
        reading.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Closes the file, and tells every watch.
    pub(super) fn close(&self) {
        *self.opened.write().unwrap_or_else(PoisonError::into_inner) = Err(StoreError::Closed);
        self.head.send_modify(|head| head.closed = true);
    }
}

fn open_file(path: &Path, medium: &Arc<dyn Medium>, settings: &Settings) -> Result<Opened, StoreError> {
    let attempt = format!("open `{}`", path.display());
    translate::guarded(&attempt, || {
        let backend = Backend::new(Arc::clone(medium));
        let mut builder = Builder::new();
        builder.set_cache_size(settings.cache_bytes);
        let database = builder.create_with_backend(backend.clone()).trying(&attempt)?;
        Ok(Opened { database, backend })
    })
}

/// What a file says of itself: how far it is, who it is, and its leases with their lengths in milliseconds.
type Beginning = (Head, Identity, Vec<(u64, u64)>);

/// Makes the tables of a new file, and reads the beginning of any.
fn begin(path: &Path, database: &Database) -> Result<Beginning, StoreError> {
    let attempt = format!("open `{}`", path.display());
    let txn = database.begin_write().trying(&attempt)?;
    let mut tables = Tables::open(&txn)?;
    let found = tables.number(number::FORMAT)?;
    if found > FORMAT {
        return Err(StoreError::Newer { path: path.to_owned(), found, known: FORMAT });
    }
    if found == 0 {
        let identity = fresh_identity();
        tables.set_number(number::IDENTITY_HIGH, (identity >> 64) as u64)?;
        tables.set_number(number::IDENTITY_LOW, identity as u64)?;
        tables.set_number(number::FORMAT, FORMAT)?;
    }
    let identity = (u128::from(tables.number(number::IDENTITY_HIGH)?) << 64)
        | u128::from(tables.number(number::IDENTITY_LOW)?);
    let head = Head {
        revision: Revision(tables.number(number::HEAD)?),
        oldest: Revision(tables.number(number::OLDEST)?),
        closed: false,
    };
    let leases = super::leases::stored(&tables)?;
    drop(tables);
    if found == 0 {
        txn.commit().trying(&attempt)?;
    } else {
        txn.abort().trying(&attempt)?;
    }
    Ok((head, Identity(identity), leases))
}

/// A number that no other file has: from the hasher's random keys and the time.
fn fresh_identity() -> u128 {
    let moment = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let random = RandomState::new();
    let high = random.hash_one((moment, std::process::id()));
    let low = RandomState::new().hash_one((high, moment));
    (u128::from(high) << 64) | u128::from(low)
}
