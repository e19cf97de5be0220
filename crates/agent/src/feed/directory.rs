//! The directory: documents on disk, read at the start and whenever they change.
//!
//! Decided here: a change counts when it has stood still for one look, so that a file that is being written is not read
//! halfway; and documents that are wrong, or gone altogether, declare nothing new: what was declared stays. When to look
//! is told by the kernel (`ear`); what it does not tell of, such as what a link leads to, is looked at now and then.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kilter_cli::{CommandError, read};
use kilter_model::document::Declared;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use super::ear::Ear;

/// What the source of `kilter up` is called.
pub const SOURCE: &str = "directory";

/// How often the directory is looked at while it stirs, or if the kernel does not tell of it.
const LOOK: Duration = Duration::from_millis(250);

/// How often it is looked at otherwise.
const SELDOM: Duration = Duration::from_secs(5);

/// What can be seen of files without reading them; nothing of a directory.
pub(super) type Traces = BTreeMap<PathBuf, Option<(SystemTime, u64)>>;

/// A directory that is looked at again and again.
#[derive(Debug)]
pub struct Directory {
    name: String,
    path: PathBuf,
    /// As it was when it was last read.
    read: Traces,
    /// As it was at the last look, if that is something else.
    stirred: Option<Traces>,
    look: Instant,
    /// Hears the kernel from the first look on.
    ear: Option<Ear>,
}

impl Directory {
    /// A directory as it is now, as the source of this name: what changes from here on is noticed.
    pub fn new(name: &str, path: &Path) -> Self {
        Self {
            name: name.to_owned(),
            path: path.to_owned(),
            read: traces(path),
            stirred: None,
            look: Instant::now(),
            ear: None,
        }
    }

    /// The name of the source.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it declares after the next change, or what is wrong with it then.
    ///
    /// **Guarantees** that no change is lost when it is dropped halfway.
    pub async fn changed(&mut self) -> Result<Vec<Declared>, CommandError> {
        loop {
            self.pause().await;
            self.look = Instant::now() + LOOK;
            let path = self.path.clone();
            let Ok(found) = spawn_blocking(move || traces(&path)).await else { continue };
            let is_heard = self.listen(&found);
            if found == self.read {
                if is_heard {
                    self.look = Instant::now() + SELDOM;
                }
                self.stirred = None;
            } else if self.stirred.as_ref() != Some(&found) {
                self.stirred = Some(found);
            } else {
                let path = self.path.clone();
                let Ok(declared) = spawn_blocking(move || read::documents(&[path])).await else { continue };
                self.stirred = None;
                self.read = found;
                return declared;
            }
        }
    }

    /// Waits until a look is due, or the kernel tells that there is something to see.
    async fn pause(&self) {
        match &self.ear {
            Some(ear) if self.stirred.is_none() => tokio::select! {
                () = ear.heard() => {}
                () = sleep_until(self.look) => {}
            },
            _ => sleep_until(self.look).await,
        }
    }

    /// Listens to every directory of these; says whether that is all of them, and was so before they were looked at.
    fn listen(&mut self, found: &Traces) -> bool {
        if self.ear.is_none() {
            self.ear = Ear::open().ok();
        }
        let root = &self.path;
        self.ear.as_mut().is_some_and(|ear| ear.listen(root, found))
    }
}

/// The traces of a file, or of everything below a directory that may be a document.
fn traces(path: &Path) -> Traces {
    let mut traces = Traces::new();
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        let trace = std::fs::metadata(&path).ok().filter(|found| !found.is_dir());
        let trace = trace.and_then(|found| Some((found.modified().ok()?, found.len())));
        for entry in std::fs::read_dir(&path).into_iter().flatten().flatten() {
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            // A link to a directory may lead in a circle.
            let is_circle = entry.file_type().is_ok_and(|found| found.is_symlink()) && entry.path().is_dir();
            if !is_hidden && !is_circle {
                waiting.push(entry.path());
            }
        }
        traces.insert(path, trace);
    }
    traces
}
