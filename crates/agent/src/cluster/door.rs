//! The door of a distributor: how writers of the same machine reach it and, if its store is a file, the store.
//!
//! Decided here: what is said through the socket, one JSON text a line each way. A writer that has committed elsewhere
//! pokes; one whose store is the distributor's file reads and commits through it. Who may open the socket may write: its
//! owner and its group.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kilter_pubsub::transport::Hub;
use kilter_store::{Commit, Expected, LeaseId, Range, Revision, Store, StoreError};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::settings::{OpenError, Settings};
use crate::northbound::socket::{Socket, SocketError};

/// The longest line.
const LONGEST: usize = 16 << 20;

/// What is asked.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Asked {
    /// There is something new in the store.
    Poke,
    /// What lies behind a prefix?
    Range(String),
    /// To change items, all or nothing.
    Commit(Changes),
    /// A lease of this many milliseconds.
    Grant(u64),
    /// To let a lease begin anew.
    KeepAlive(u64),
}

/// What a writer changes: nothing of it happens if something is not as expected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// What is put.
    pub puts: BTreeMap<String, String>,
    /// What is deleted.
    pub deletes: Vec<String>,
    /// The commits that put keys last; nothing for one that is absent.
    pub expected: BTreeMap<String, Option<u64>>,
    /// The lease that the puts hang on.
    #[serde(default)]
    pub lease: Option<u64>,
}

impl Changes {
    fn commit(self) -> Commit {
        let mut commit = Commit { lease: self.lease.map(LeaseId), ..Commit::new() };
        for (key, modified) in self.expected {
            let expected =
                modified.map_or(Expected::Absent, |modified| Expected::Modified(Revision(modified)));
            commit = commit.expect(key, expected);
        }
        for (key, value) in self.puts {
            commit = commit.put(key, value);
        }
        self.deletes.into_iter().fold(commit, Commit::delete)
    }
}

/// One key that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// The key.
    pub key: String,
    /// Its value, as text.
    pub value: String,
    /// The commit that put it.
    pub modified: u64,
}

/// What is answered.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answered {
    Done { revision: u64, items: Vec<Read> },
    Conflict(String),
    Failed(String),
}

/// Why what lies in the store of the cluster could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// Somebody else changed it in between.
    #[error("somebody else changed the same items, hint: try again")]
    Conflict,
    /// The store does not do it.
    #[error("failed to reach the store of the cluster")]
    Store(#[source] StoreError),
    /// The distributor that has the store open does not answer.
    #[error("failed to reach the distributor at `{}`, hint: it has the store open", .path.display())]
    Door {
        /// Its socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The distributor that has the store open could not do it.
    #[error("the distributor could not do it: {0}")]
    Answered(String),
}

impl From<StoreError> for ShelfError {
    fn from(error: StoreError) -> Self {
        if matches!(error, StoreError::Conflict { .. }) { Self::Conflict } else { Self::Store(error) }
    }
}

/// The store of a cluster as a writer reaches it: itself, or through the distributor that has it open.
#[derive(Clone, Debug)]
pub enum Shelf {
    /// Itself.
    Store(Arc<dyn Store>, PathBuf),
    /// Through a distributor of this machine.
    Door(PathBuf),
}

impl Shelf {
    /// Reaches the store that the settings name.
    pub fn open(settings: &Settings) -> Result<Self, OpenError> {
        let door = PathBuf::from(&settings.pubsub.poke_socket);
        match settings.store.as_ref().ok_or(OpenError::NoStore)?.open() {
            Ok(store) => Ok(Self::Store(store, door)),
            Err(OpenError::Store(StoreError::TakenByAnother { .. })) => Ok(Self::Door(door)),
            Err(error) => Err(error),
        }
    }

    /// Everything behind a prefix, at one revision.
    pub async fn range(&self, prefix: &str) -> Result<(u64, Vec<Read>), ShelfError> {
        match self {
            Self::Store(store, _) => Ok(range(store, prefix).await?),
            Self::Door(path) => ask(path, &Asked::Range(prefix.to_owned())).await,
        }
    }

    /// Changes items, all or nothing; the answer is the revision. A distributor of this machine is poked.
    pub async fn commit(&self, changes: Changes) -> Result<u64, ShelfError> {
        match self {
            Self::Store(store, door) => {
                let committed = store.commit(changes.commit()).await?;
                // Where nobody listens, nobody waits for it.
                let _ = ask(door, &Asked::Poke).await;
                Ok(committed.revision.0)
            }
            Self::Door(path) => Ok(ask(path, &Asked::Commit(changes)).await?.0),
        }
    }

    /// Grants a lease; the answer is its name.
    pub async fn grant(&self, ttl: Duration) -> Result<u64, ShelfError> {
        match self {
            Self::Store(store, _) => Ok(store.grant(ttl).await?.id.0),
            Self::Door(path) => {
                let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
                Ok(ask(path, &Asked::Grant(ttl)).await?.0)
            }
        }
    }

    /// Lets a lease begin anew.
    pub async fn keep_alive(&self, lease: u64) -> Result<(), ShelfError> {
        match self {
            Self::Store(store, _) => Ok(store.keep_alive(LeaseId(lease)).await.map(drop)?),
            Self::Door(path) => ask(path, &Asked::KeepAlive(lease)).await.map(drop),
        }
    }
}

async fn range(store: &Arc<dyn Store>, prefix: &str) -> Result<(u64, Vec<Read>), StoreError> {
    let snapshot = store.range(Range::of(prefix)).await?;
    let items = snapshot.items.into_iter().filter_map(|item| {
        let value = String::from_utf8(item.value.to_vec()).ok()?;
        Some(Read { key: item.key, value, modified: item.modified.0 })
    });
    Ok((snapshot.revision.0, items.collect()))
}

async fn ask(path: &Path, asked: &Asked) -> Result<(u64, Vec<Read>), ShelfError> {
    let failed = |source| ShelfError::Door { path: path.to_owned(), source };
    let mut line = serde_json::to_vec(asked).map_err(io::Error::other).map_err(failed)?;
    line.push(b'\n');
    let mut stream = BufReader::new(UnixStream::connect(path).await.map_err(failed)?);
    stream.get_mut().write_all(&line).await.map_err(failed)?;
    line.clear();
    stream.read_until(b'\n', &mut line).await.map_err(failed)?;
    match serde_json::from_slice(&line).map_err(io::Error::other).map_err(failed)? {
        Answered::Done { revision, items } => Ok((revision, items)),
        Answered::Conflict(_) => Err(ShelfError::Conflict),
        Answered::Failed(text) => Err(ShelfError::Answered(text)),
    }
}

/// Opens the door, which is open as long as somebody waits for the answer.
pub(crate) fn open(
    path: &Path,
    hub: Arc<Hub>,
    store: Arc<dyn Store>,
) -> Result<impl Future<Output = ()> + Send + 'static, SocketError> {
    let socket = Socket::open(path)?;
    let unopened = |source| SocketError::Unopened { path: path.to_owned(), source };
    let listener = socket.listener().and_then(UnixListener::from_std).map_err(unopened)?;
    Ok(async move {
        let _socket = socket;
        let mut visits = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let (hub, store) = (Arc::clone(&hub), Arc::clone(&store));
                        // A visitor who leaves has nothing to be told.
                        visits.spawn(async move { drop(visit(stream, &hub, &store).await) });
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                },
                Some(_) = visits.join_next() => {}
            }
        }
    })
}

async fn visit(stream: UnixStream, hub: &Hub, store: &Arc<dyn Store>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = tokio::io::AsyncReadExt::take(&mut stream, LONGEST as u64);
        if limited.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        let answered = match serde_json::from_slice(&line) {
            Ok(asked) => answer(asked, hub, store).await,
            Err(error) => Answered::Failed(format!("this cannot be understood: {error}")),
        };
        let mut text = serde_json::to_vec(&answered).map_err(io::Error::other)?;
        text.push(b'\n');
        stream.get_mut().write_all(&text).await?;
    }
}

async fn answer(asked: Asked, hub: &Hub, store: &Arc<dyn Store>) -> Answered {
    let done = match asked {
        Asked::Poke => {
            hub.with(|core, now| core.poke(now));
            Ok((0, Vec::new()))
        }
        Asked::Range(prefix) => range(store, &prefix).await,
        Asked::Commit(changes) => {
            store.commit(changes.commit()).await.map(|committed| (committed.revision.0, Vec::new()))
        }
        Asked::Grant(ttl) => {
            store.grant(Duration::from_millis(ttl)).await.map(|lease| (lease.id.0, Vec::new()))
        }
        Asked::KeepAlive(lease) => {
            store.keep_alive(LeaseId(lease)).await.map(|lease| (lease.id.0, Vec::new()))
        }
    };
    match done {
        Ok((revision, items)) => Answered::Done { revision, items },
        Err(error @ StoreError::Conflict { .. }) => Answered::Conflict(error.to_string()),
        Err(error) => Answered::Failed(kilter_events::chain(&error)),
    }
}
