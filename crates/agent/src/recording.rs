//! The recording of a run: everything the loop was told, a line of JSON for each thing, in a file.
//!
//! Decided here: where the lines go and how much of them. A thread of its own writes, so that a slow disk holds up
//! nobody; a recording that cannot be written, or has reached its bound, ends, and the run goes on. Not decided here: what
//! has to be written down ([`kilter_events::Line`]), and how it is run once more ([`crate::replay`]).

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use kilter_events::Line;
use kilter_scheduler::Timestamp;

/// How many takings wait for the disk at most.
const WAITING: usize = 256;

/// What can be set about recording.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// The file in which the run is written down; what it held before goes to a file of the same name with `.1` behind.
    /// Default: none, nothing is recorded.
    pub file: Option<PathBuf>,
    /// The recording ends when it has about this many bytes; the run goes on. Default: 256 MiB.
    pub bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { file: None, bytes: 256 << 20 }
    }
}

/// Why nothing can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Something is recorded already.
    #[error("the run is recorded in `{}` already, hint: `kilter record --stop` ends that", .path.display())]
    Recorded {
        /// The file.
        path: PathBuf,
    },
    /// Nothing is recorded.
    #[error("nothing is recorded")]
    Nothing,
    /// The file is named from somewhere, and the agent is somewhere else.
    #[error("`{}` is no whole path of a file", .path.display())]
    Partial {
        /// The path.
        path: PathBuf,
    },
    /// The agent has ended.
    #[error("the agent has ended")]
    Gone,
    /// What the file held before cannot be put aside.
    #[error("failed to put the earlier recording `{}` aside", .path.display())]
    Aside {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file cannot be made.
    #[error("failed to make the recording `{}`", .path.display())]
    Make {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// How a recording stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is written.
    Going = 0,
    /// It has reached its bound.
    Full = 1,
    /// It could not be written.
    Failed = 2,
    /// Somebody ended it.
    Ended = 3,
}

/// A recording as it is told about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The file.
    pub file: PathBuf,
    /// When it began.
    pub since: Timestamp,
    /// How many bytes are written.
    pub bytes: u64,
    /// About how many it may have.
    pub most: u64,
    /// How it stands.
    pub standing: Standing,
}

/// A file in which a run is written down.
#[derive(Debug)]
pub struct Recording {
    trace: Trace,
    lines: Option<SyncSender<Vec<Line>>>,
    writer: Option<JoinHandle<()>>,
}

/// What is known of a recording, also when it has ended. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    file: PathBuf,
    most: u64,
    since: Timestamp,
    progress: Arc<Progress>,
}

/// What the writer tells.
#[derive(Debug, Default)]
struct Progress {
    standing: AtomicU8,
    written: AtomicU64,
}

impl Progress {
    /// It is written no longer for this reason, unless there was another one.
    fn end(&self, standing: Standing) {
        let _ = self.standing.compare_exchange(0, standing as u8, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// It could not be written, whatever was thought of it before.
    fn fail(&self) {
        self.standing.store(Standing::Failed as u8, Ordering::SeqCst);
    }

    fn standing(&self) -> Standing {
        let known = [Standing::Going, Standing::Full, Standing::Failed, Standing::Ended];
        known[usize::from(self.standing.load(Ordering::SeqCst)) % known.len()]
    }
}

impl Trace {
    /// What can be told about it.
    pub(crate) fn told(&self) -> Recorded {
        Recorded {
            file: self.file.clone(),
            since: self.since,
            bytes: self.progress.written.load(Ordering::SeqCst),
            most: self.most,
            standing: self.progress.standing(),
        }
    }
}

impl Recording {
    /// Opens the file that the settings name, if they name one; what it held before is put aside.
    pub fn open(settings: &Settings) -> Result<Option<Self>, RecordError> {
        let Some(path) = &settings.file else { return Ok(None) };
        put_aside(path).map_err(|source| RecordError::Aside { path: path.clone(), source })?;
        Self::make(path, settings.bytes).map(Some)
    }

    /// Opens a file that is not there yet.
    ///
    /// **Guarantees** that nothing that is there is touched: who asks for it is somebody else than who runs the agent.
    pub fn make(path: &Path, most: u64) -> Result<Self, RecordError> {
        // What is declared is nobody's business but the owner's.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let made = made.map_err(|source| RecordError::Make { path: path.to_owned(), source })?;
        let (lines, taken) = sync_channel(WAITING);
        let progress = Arc::new(Progress::default());
        let told = Arc::clone(&progress);
        let writer = std::thread::spawn(move || {
            if write(made, most, &taken, &told).is_err() {
                told.fail();
            }
        });
        let trace = Trace { file: path.to_owned(), most, since: Timestamp::default(), progress };
        Ok(Self { trace, lines: Some(lines), writer: Some(writer) })
    }

    /// The run is written down from this moment on.
    pub(crate) fn begin(&mut self, now: Timestamp) -> Trace {
        self.trace.since = now;
        self.trace.clone()
    }

    /// How it stands.
    pub(crate) fn standing(&self) -> Standing {
        self.trace.progress.standing()
    }

    /// Where it is written.
    pub(crate) fn file(&self) -> &Path {
        &self.trace.file
    }

    /// Writes these lines down. If the disk cannot follow, the recording has failed.
    pub(crate) fn add(&self, lines: Vec<Line>) {
        let sent = self.lines.as_ref().filter(|_| !lines.is_empty()).map(|sender| sender.try_send(lines));
        if let Some(Err(_)) = sent {
            self.trace.progress.fail();
        }
    }

    /// Waits until everything is written, unless that has failed; what can be told about it in the end.
    pub(crate) fn end(mut self) -> Recorded {
        self.lines = None;
        let has_failed = self.standing() == Standing::Failed;
        if let Some(writer) = self.writer.take().filter(|_| !has_failed) {
            // A writer that panicked has told what there is to tell.
            let _ = writer.join();
        }
        self.trace.progress.end(Standing::Ended);
        self.trace.told()
    }
}

fn write(file: File, bytes: u64, taken: &Receiver<Vec<Line>>, progress: &Progress) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    let mut written = 0;
    for lines in taken {
        for line in lines {
            let mut text = serde_json::to_vec(&line)?;
            text.push(b'\n');
            written += text.len() as u64;
            file.write_all(&text)?;
        }
        file.flush()?;
        progress.written.store(written, Ordering::SeqCst);
        if written >= bytes {
            // What comes until the loop has looked is written too: a recording ends between two steps.
            progress.end(Standing::Full);
        }
    }
    file.get_ref().sync_all()
}

/// The earlier recording gets a name of its own, in place of the one before it.
fn put_aside(path: &Path) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".1");
    match fs::rename(path, aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_recording_is_put_aside_and_a_full_one_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run");
        fs::write(&file, "the run before\n").unwrap();
        let settings = Settings { file: Some(file.clone()), bytes: 10 };
        let recording = Recording::open(&settings).unwrap().unwrap();
        recording.add(vec![Line::Executed, Line::Next(Timestamp(7))]);
        while recording.standing() == Standing::Going {
            std::thread::yield_now();
        }
        assert_eq!(recording.standing(), Standing::Full);
        recording.add(vec![Line::Abandoned]);
        let told = recording.end();
        assert_eq!((told.standing, told.bytes), (Standing::Full, 34));
        assert_eq!(fs::read_to_string(&file).unwrap(), "\"executed\"\n{\"next\":7}\n\"abandoned\"\n");
        assert_eq!(fs::read_to_string(folder.path().join("run.1")).unwrap(), "the run before\n");
    }

    #[test]
    fn a_file_that_is_there_is_not_recorded_over() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "precious").unwrap();
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &link).unwrap();
        assert!(Recording::make(&file, 10).is_err() && Recording::make(&link, 10).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_recording_that_cannot_be_written_has_failed() {
        let (lines, progress) = (sync_channel(1), Progress::default());
        lines.0.send(vec![Line::Executed]).unwrap();
        drop(lines.0);
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert!(write(full, 10, &lines.1, &progress).is_err());
    }
}
