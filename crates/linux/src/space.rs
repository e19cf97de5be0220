//! Network namespaces as places to work in: how one is found and entered, and the request socket kept for it.
//!
//! **Guarantees**: a socket belongs to the namespace in which it was opened, for its whole life. A kept socket keeps
//! its namespace alive, so [`Spaces::forget`] goes with every deletion.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FsWord, fstatfs};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::netlink::socket::Counters;
use crate::netlink::{KernelError, Refusal, Requests};
use crate::settings::Settings;

/// The name of the namespace that the agent runs in.
pub(crate) const HOST: &str = "host";

/// The magic number of the filesystem of namespaces.
const NSFS: FsWord = 0x6e73_6673;

/// Where a namespace is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Mounted under its name in the folder of named namespaces.
    Named,
    /// At a path of its own.
    Path(PathBuf),
    /// The one of a process.
    Process(u32),
}

/// The namespaces that are known, with the sockets that were opened in them.
#[derive(Debug)]
pub(crate) struct Spaces {
    settings: Settings,
    counters: Arc<Counters>,
    /// The namespace in which the southbound was made.
    host: File,
    places: Mutex<HashMap<String, Place>>,
    open: Mutex<HashMap<String, Arc<Space>>>,
    made: tokio::sync::Notify,
}

/// One namespace that is open.
#[derive(Debug)]
pub(crate) struct Space {
    /// Its name.
    pub(crate) name: String,
    /// Keeps it to hand.
    handle: File,
    /// Its number among namespaces: the same as long as it lives.
    pub(crate) inode: u64,
    /// Its number among all namespaces that there were since the machine was started.
    pub(crate) cookie: u64,
    requests: Mutex<Requests>,
    /// The same for packet filters, from when it is first needed.
    filters: Mutex<Option<Requests>>,
    /// The port of the request socket.
    pub(crate) port: u32,
}

impl Spaces {
    pub(crate) fn new(settings: Settings) -> Result<Self, Refusal> {
        raise_file_limit();
        let host = File::open("/proc/thread-self/ns/net")?;
        Ok(Self {
            settings,
            counters: Arc::default(),
            host,
            places: Mutex::default(),
            open: Mutex::default(),
            made: tokio::sync::Notify::new(),
        })
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The path of a named namespace.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.settings.netns_dir.join(name)
    }

    /// Says where a namespace is found, if not under its name.
    pub(crate) fn place(&self, name: &str, place: Place) {
        let before = locked(&self.places).insert(name.to_owned(), place.clone());
        if before.is_some_and(|before| before != place) {
            self.forget(name);
        }
    }

    /// Where a namespace is found.
    pub(crate) fn place_of(&self, name: &str) -> Place {
        locked(&self.places).get(name).cloned().unwrap_or(Place::Named)
    }

    /// The names of the namespaces with a place of their own.
    pub(crate) fn placed(&self) -> Vec<String> {
        locked(&self.places).keys().cloned().collect()
    }

    /// Opens the file of a namespace, without entering it; `None` if there is no namespace of that name.
    pub(crate) fn find(&self, name: &str) -> Result<Option<File>, Refusal> {
        if name == HOST {
            return Ok(Some(self.host.try_clone()?));
        }
        match self.place_of(name) {
            Place::Named => open_namespace(&self.path(name)),
            Place::Path(path) => open_namespace(&path),
            Place::Process(pid) => open_namespace(Path::new(&format!("/proc/{pid}/ns/net"))),
        }
    }

    /// The namespace, opened if need be.
    ///
    /// A namespace that was deleted and made again under the same name is another one: the kept socket of the old one
    /// is dropped.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<Space>, KernelError> {
        let refused = |refusal| KernelError::refused("open network namespace", name, refusal);
        let kept = locked(&self.open).get(name).cloned();
        if let (Some(space), true) = (&kept, name == HOST) {
            return Ok(Arc::clone(space));
        }
        let Some(handle) = self.find(name).map_err(refused)? else {
            self.forget(name);
            return Err(KernelError::NoNamespace { name: name.to_owned() });
        };
        let inode = inode(&handle).map_err(refused)?;
        if let Some(space) = kept.filter(|space| space.inode == inode) {
            return Ok(space);
        }
        let counters = Arc::clone(&self.counters);
        let requests =
            inside(&handle, || Requests::open(counters)).and_then(|opened| opened).map_err(refused)?;
        let (port, cookie) = (requests.port(), requests.cookie().map_err(refused)?);
        let name_of = name.to_owned();
        let (requests, filters) = (Mutex::new(requests), Mutex::default());
        let space = Arc::new(Space { name: name_of, handle, inode, cookie, requests, filters, port });
        locked(&self.open).insert(name.to_owned(), Arc::clone(&space));
        Ok(space)
    }

    /// Says that a namespace was made or placed.
    pub(crate) fn note_made(&self) {
        self.made.notify_one();
    }

    /// Ends when a namespace was made or placed since it was last asked.
    pub(crate) async fn namespaces_made(&self) {
        self.made.notified().await;
    }

    /// Lets go of a namespace that is gone or about to go.
    pub(crate) fn forget(&self, name: &str) {
        locked(&self.open).remove(name);
    }

    /// Forgets that a namespace had a place of its own.
    pub(crate) fn displace(&self, name: &str) {
        locked(&self.places).remove(name);
        self.forget(name);
    }

    /// The names in the folder of named namespaces that are namespaces, sorted.
    pub(crate) fn named(&self) -> Result<Vec<String>, Refusal> {
        let entries = match std::fs::read_dir(&self.settings.netns_dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if let (Ok(name), Ok(Some(_))) = (entry.file_name().into_string(), open_namespace(&entry.path()))
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

impl Space {
    /// The request socket. Whoever holds it is alone with it.
    pub(crate) fn requests(&self) -> MutexGuard<'_, Requests> {
        locked(&self.requests)
    }

    /// Asks something about packet filters.
    pub(crate) fn of_filters<T>(
        &self,
        counters: &Arc<Counters>,
        ask: impl FnOnce(&mut Requests) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut filters = locked(&self.filters);
        match &mut *filters {
            Some(requests) => ask(requests),
            None => {
                let counters = Arc::clone(counters);
                let opened = inside(&self.handle, || Requests::open_netfilter(counters));
                ask(filters.insert(opened.and_then(|opened| opened)?))
            }
        }
    }

    /// The file of the namespace, to name it in a request.
    pub(crate) fn handle(&self) -> &File {
        &self.handle
    }

    /// Runs something on a thread inside the namespace.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Refusal> {
        inside(&self.handle, work)
    }
}

/// Opens the file of a namespace; `None` if there is none, or if the file is not that of a namespace.
pub(crate) fn open_namespace(path: &Path) -> Result<Option<File>, Refusal> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok((fstatfs(&file)?.f_type == NSFS).then_some(file))
}

/// The number of a namespace.
pub(crate) fn inode(handle: &File) -> Result<u64, Refusal> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(handle.metadata()?.ino())
}

/// Runs something on a short-lived thread inside a namespace.
pub(crate) fn inside<T: Send>(
    namespace: impl AsFd + Sync,
    work: impl FnOnce() -> T + Send,
) -> Result<T, Refusal> {
    on_a_thread(|| {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(work())
    })
}

/// Runs something on a thread of its own; a panic there is a panic here.
pub(crate) fn on_a_thread<T: Send>(work: impl FnOnce() -> Result<T, Refusal> + Send) -> Result<T, Refusal> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("kilter-netns".to_owned()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Each namespace costs a few descriptors: take what may be had.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused, the limit stays: then the open that fails says so.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Nothing that can panic half-way runs under these locks, so a poisoned one is as good as new.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
