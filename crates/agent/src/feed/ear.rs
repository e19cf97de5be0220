//! The ear: the kernel tells when something stirs in a directory, so that nobody has to look all the time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe::Receiver;

use super::directory::Traces;

/// Hears that something stirs in directories; not what.
#[derive(Debug)]
pub(super) struct Ear {
    /// What the kernel tells; it is read like a pipe.
    events: Receiver,
    /// The directories that were listened to when they were last looked at.
    heard: BTreeSet<PathBuf>,
}

impl Ear {
    /// An ear that listens to nothing yet.
    ///
    /// **Assumes** a tokio runtime.
    pub(super) fn open() -> std::io::Result<Self> {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { events: Receiver::from_owned_fd_unchecked(events)?, heard: BTreeSet::new() })
    }

    /// Listens to every directory among these; says whether the root is one, none is out of earshot, and all of them
    /// were listened to before: only then is everything heard that happened since the look that found them.
    pub(super) fn listen(&mut self, root: &Path, found: &Traces) -> bool {
        let flags = WatchFlags::ONLYDIR
            | WatchFlags::ATTRIB
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MODIFY
            | WatchFlags::MOVE
            | WatchFlags::MOVE_SELF;
        let directories = found.iter().filter(|(path, trace)| trace.is_none() && path.is_dir());
        let directories: BTreeSet<PathBuf> = directories.map(|(path, _)| path.clone()).collect();
        // One that is listened to already is not listened to twice, and one of the same name made anew is.
        let all = directories.iter().all(|path| inotify::add_watch(&self.events, path, flags).is_ok());
        let is_known = directories == self.heard;
        let is_root = directories.contains(root);
        self.heard = directories;
        all && is_known && is_root
    }

    /// Ends when something has stirred since it was last asked.
    ///
    /// **Guarantees** that nothing is lost when it is dropped halfway.
    pub(super) async fn heard(&self) {
        if self.events.readable().await.is_err() {
            return std::future::pending().await;
        }
        let mut buffer = [0; 4096];
        while self.events.try_read(&mut buffer).is_ok_and(|length| length > 0) {}
    }
}
