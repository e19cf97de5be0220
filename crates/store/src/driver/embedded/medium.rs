//! What the file lies on: the few operations that the embedded store asks of a disk.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::StorageBackend;

use super::translate;
use crate::StoreError;

/// A place for bytes that forgets, when the power fails, what was not synced.
pub trait Medium: fmt::Debug + Send + Sync {
    /// How many bytes there are.
    fn len(&self) -> io::Result<u64>;

    /// Whether there is not one byte.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `out` with the bytes from an offset on.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Makes it longer, with zeroes, or shorter.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Writes bytes from an offset on.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns when everything written so far is safe.
    fn sync(&self) -> io::Result<()>;
}

/// A file on a disk.
#[derive(Debug)]
pub(super) struct DiskFile {
    file: File,
}

impl DiskFile {
    /// Opens a file that is there.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file = opened.map_err(|error| failed_to_open(path, error))?;
        Ok(Self { file })
    }

    /// Whether a store has to be made before the file can be opened.
    pub(super) fn is_absent(path: &Path) -> Result<bool, StoreError> {
        match std::fs::metadata(path) {
            Ok(metadata) => Ok(metadata.len() == 0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(failed_to_open(path, error)),
        }
    }

    /// Makes a file that only its owner may read: `fill` gets one under another name, which takes its own when it is
    /// on disk whole.
    ///
    /// **Why** a power cut while a store is made leaves nothing that looks like a damaged one.
    pub(super) fn make(
        path: &Path,
        fill: impl FnOnce(Self) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let failed = |error| failed_to_open(path, error);
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".unfinished");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&unfinished).map_err(failed)?;
        fill(Self { file: file.try_clone().map_err(failed)? })?;
        file.sync_all().map_err(failed)?;
        std::fs::rename(&unfinished, path).map_err(failed)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = File::open(directory.unwrap_or(Path::new(".")));
        directory.and_then(|directory| directory.sync_all()).map_err(failed)
    }
}

fn failed_to_open(path: &Path, error: io::Error) -> StoreError {
    translate::io(format!("open `{}`", path.display()), error)
}

impl Medium for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// A medium as the file format's library asks for it; remembers whether a sync has failed.
#[derive(Clone, Debug)]
pub(super) struct Backend {
    medium: Arc<dyn Medium>,
    sync_failed: Arc<AtomicBool>,
}

impl Backend {
    pub(super) fn new(medium: Arc<dyn Medium>) -> Self {
        Self { medium, sync_failed: Arc::default() }
    }

    /// Whether a sync has failed: what it should have made safe may be there or not.
    pub(super) fn sync_failed(&self) -> bool {
        self.sync_failed.load(Ordering::Acquire)
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.medium.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.medium.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.medium.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let synced = self.medium.sync();
        if synced.is_err() {
            self.sync_failed.store(true, Ordering::Release);
        }
        synced
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.medium.write(offset, data)
    }
}
