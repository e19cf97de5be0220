//! Watching the kernel: what somebody else does to a namespace comes out as values.
//!
//! Numbered steps: 1. a socket per namespace receives its groups of events, then the links are read once, so that an
//! index has a name; 2. events that our own requests caused are left out where the kernel says whose they are;
//! 3. everything that is there to be read is read, and of each item only the last word counts; 4. what is left is
//! [`Noticed`]. An overrun is told as such: whoever listens reads again what may have been missed.
//!
//! Not decided here: whether an item is declared, and whether it is healed. See [`crate::drift`].

mod filters;
pub(crate) mod namespace;
mod others;

use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use kilter_model::declare::Declare as _;
use kilter_model::linux::{NetnsName, keys};
use kilter_scheduler::{Key, Observation, Origin, ValueRef};
use rustix::fs::inotify;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::drift;
use crate::linux::Linux;
use crate::netlink::{KernelError, Refusal};
use crate::shared::Shared;
use crate::survey;
use crate::syscall;
use crate::sysctl;
use filters::watch_filters;
use namespace::watch_namespace;

/// How often places that no folder tells of are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How long after a file appeared a namespace may take to be mounted on it.
const MOUNTED: Duration = Duration::from_millis(50);

/// What was noticed.
#[derive(Clone, Debug)]
pub enum Noticed {
    /// An item appeared, changed or went, and not by our doing as far as the kernel says.
    Item(Observation),
    /// Events of a namespace were lost: anything in it may have changed.
    Overrun {
        /// The namespace.
        netns: NetnsName,
    },
}

/// Watches every namespace until it is dropped.
#[derive(Debug)]
pub struct Watch {
    receiver: mpsc::UnboundedReceiver<Vec<Noticed>>,
    supervisor: JoinHandle<()>,
}

impl Watch {
    /// What was noticed since the last call, together; waits for something. `None` when nothing can come any more.
    pub async fn next(&mut self) -> Option<Vec<Noticed>> {
        let mut noticed = self.receiver.recv().await?;
        while let Ok(more) = self.receiver.try_recv() {
            noticed.extend(more);
        }
        Some(noticed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

impl Linux {
    /// Watches every namespace there is and every one that comes.
    ///
    /// **Guarantees**: what happens after this returns is noticed. **Assumes** a tokio runtime with I/O and time.
    pub async fn watch(&self) -> Result<Watch, KernelError> {
        self.watch_every(drift::Settings::default().sysctl_interval).await
    }

    /// The same, and reads declared kernel parameters as often as this: of most of them the kernel tells nothing. Nought is
    /// never.
    pub async fn watch_every(&self, interval: Duration) -> Result<Watch, KernelError> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut supervisor = Supervisor::new(Arc::clone(&self.shared), sender, interval)
            .map_err(|refusal| KernelError::refused("watch", "network namespaces", refusal))?;
        supervisor.look(false).await;
        let supervisor = tokio::spawn(supervisor.run());
        Ok(Watch { receiver, supervisor })
    }
}

/// Keeps one watcher per namespace.
struct Supervisor {
    shared: Arc<Shared>,
    folder: AsyncFd<OwnedFd>,
    sender: mpsc::UnboundedSender<Vec<Noticed>>,
    /// When kernel parameters are read.
    parameters: Option<Interval>,
    /// By name: the number of the namespace, and its watchers.
    watched: HashMap<NetnsName, (u64, Vec<JoinHandle<()>>)>,
}

impl Supervisor {
    fn new(
        shared: Arc<Shared>,
        sender: mpsc::UnboundedSender<Vec<Noticed>>,
        interval: Duration,
    ) -> Result<Self, Refusal> {
        let folder = &shared.spaces.settings().netns_dir;
        std::fs::create_dir_all(folder)?;
        let events = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let flags = inotify::WatchFlags::CREATE
            | inotify::WatchFlags::DELETE
            | inotify::WatchFlags::MOVED_FROM
            | inotify::WatchFlags::MOVED_TO;
        inotify::add_watch(&events, folder, flags)?;
        let folder = syscall::readable(events)?;
        let parameters = (!interval.is_zero()).then(|| {
            let mut parameters = tokio::time::interval_at(Instant::now() + interval, interval);
            parameters.set_missed_tick_behavior(MissedTickBehavior::Delay);
            parameters
        });
        Ok(Self { shared, folder, sender, parameters, watched: HashMap::new() })
    }

    async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            tokio::select! {
                ready = self.folder.readable() => {
                    let Ok(mut ready) = ready else { return };
                    let names = names_that_left(self.folder.get_ref());
                    ready.clear_ready();
                    drop(ready);
                    self.look(true).await;
                    self.tell_left(names);
                    // The file comes before the namespace that is mounted on it.
                    tokio::time::sleep(MOUNTED).await;
                }
                () = shared.spaces.namespaces_made() => {}
                () = tick(&mut self.parameters) => self.look_at_parameters().await,
                () = tokio::time::sleep(LOOK) => {}
            }
            self.look(true).await;
            if self.sender.is_closed() {
                return;
            }
        }
    }

    /// Tells of kernel parameters that somebody has changed.
    async fn look_at_parameters(&self) {
        let shared = Arc::clone(&self.shared);
        let look = move || -> Vec<Noticed> {
            let namespaces = shared.declared.namespaces();
            namespaces.iter().flat_map(|netns| changed_parameters(&shared, netns)).collect()
        };
        let noticed = tokio::task::spawn_blocking(look).await.unwrap_or_default();
        if !noticed.is_empty() {
            self.tell(noticed);
        }
    }

    /// Watches what has come since the last look, and lets go of what is gone.
    async fn look(&mut self, tell: bool) {
        let shared = Arc::clone(&self.shared);
        let found = tokio::task::spawn_blocking(move || present(&shared)).await.unwrap_or_default();
        let gone: Vec<NetnsName> = self
            .watched
            .iter()
            .filter(|(name, (inode, _))| found.get(*name) != Some(inode))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            if let Some((_, watchers)) = self.watched.remove(&name) {
                watchers.iter().for_each(JoinHandle::abort);
            }
            self.shared.spaces.forget(name.as_str());
            if !found.contains_key(&name) {
                self.tell(vec![Noticed::Item(seen(keys::netns(&name), None, Origin::Observed))]);
            }
        }
        for (name, inode) in found {
            if self.watched.contains_key(&name) {
                continue;
            }
            let (shared, sender, netns) = (Arc::clone(&self.shared), self.sender.clone(), name.clone());
            let filters = watch_filters(Arc::clone(&shared), sender.clone(), netns.clone()).await;
            if let Ok(watcher) = watch_namespace(shared, sender, netns, tell).await {
                let watchers = std::iter::once(watcher).chain(filters.ok()).collect();
                self.watched.insert(name.clone(), (inode, watchers));
                if tell {
                    self.tell_arrival(&name).await;
                }
            }
        }
    }

    /// Tells of names that left the folder between two looks: we may have made what they named.
    ///
    /// **Why** the file counts and not whether a namespace is mounted on it: one that is being made has its file first.
    fn tell_left(&self, names: BTreeSet<NetnsName>) {
        for name in names {
            let is_gone = !self.shared.spaces.path(name.as_str()).exists();
            if is_gone && !self.watched.contains_key(&name) {
                self.tell(vec![Noticed::Item(seen(keys::netns(&name), None, Origin::Observed))]);
            }
        }
    }

    /// Tells of a namespace that came, and of what is in it already.
    async fn tell_arrival(&self, name: &NetnsName) {
        let (shared, netns) = (Arc::clone(&self.shared), name.clone());
        let read =
            tokio::task::spawn_blocking(move || survey::one(&shared, &keys::netns(&netns), None)).await;
        if let Ok(Ok(Some(found))) = read {
            let origin = found.origin.unwrap_or(Origin::Observed);
            // Whatever happened in it before it was watched, also if it is ours: somebody may have been faster than we.
            let overrun = Noticed::Overrun { netns: name.clone() };
            self.tell(vec![Noticed::Item(seen(found.key, Some(found.value), origin)), overrun]);
        }
    }

    fn tell(&self, noticed: Vec<Noticed>) {
        // Without a receiver nobody wants to know.
        let _ = self.sender.send(noticed);
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        for (_, watchers) in self.watched.values() {
            watchers.iter().for_each(JoinHandle::abort);
        }
    }
}

/// Kernel parameters of a namespace that somebody has changed.
fn changed_parameters(shared: &Shared, netns: &NetnsName) -> Vec<Noticed> {
    let item = |sysctl: kilter_model::linux::Sysctl| {
        Noticed::Item(seen(sysctl.key(), Some(ValueRef::new(sysctl)), Origin::Declared))
    };
    sysctl::changed(shared, netns).into_iter().map(item).collect()
}

/// Ends at the next moment of an interval; never without one.
async fn tick(interval: &mut Option<Interval>) {
    match interval {
        Some(interval) => drop(interval.tick().await),
        None => std::future::pending().await,
    }
}

/// The names that have left the folder since it was last read.
fn names_that_left(folder: &OwnedFd) -> BTreeSet<NetnsName> {
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(folder, &mut buffer);
    let mut names = BTreeSet::new();
    while let Ok(event) = events.next() {
        if event.events().intersects(inotify::ReadFlags::DELETE | inotify::ReadFlags::MOVED_FROM) {
            let name = event.file_name().and_then(|name| name.to_str().ok());
            names.extend(name.map(NetnsName::new));
        }
    }
    names
}

/// Which namespaces there are, by their numbers.
fn present(shared: &Shared) -> HashMap<NetnsName, u64> {
    let names = survey::namespaces(shared).unwrap_or_default();
    let number = |name: NetnsName| {
        let handle = shared.spaces.find(name.as_str()).ok().flatten()?;
        Some((name, crate::space::inode(&handle).ok()?))
    };
    names.into_iter().filter_map(number).collect()
}

fn seen(key: Key, value: Option<ValueRef>, origin: Origin) -> Observation {
    Observation { key, value, facts: None, origin }
}
