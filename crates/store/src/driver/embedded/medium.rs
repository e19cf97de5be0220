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
    /// Opens a file, which only its owner may read; makes it if it is absent, with its name on disk too.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let attempt = || format!("open `{}`", path.display());
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let file = file.map_err(|error| translate::io(attempt(), error))?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))
            .and_then(|directory| directory.sync_all())
            .map_err(|error| translate::io(attempt(), error))?;
        Ok(Self { file })
    }
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
