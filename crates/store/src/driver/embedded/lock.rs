//! One process per file: a lock beside it that names who holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::translate;
use crate::{Holder, StoreError};

/// The lock of a file, held until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub(super) fn take(path: &Path) -> Result<Self, StoreError> {
        let beside = beside(path);
        let failed = |error| translate::io(format!("lock `{}`", beside.display()), error);
        let options =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&beside);
        let mut file = options.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = read_holder(&mut file);
                return Err(StoreError::TakenByAnother { path: path.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // The name is a courtesy to whoever comes next; on a full disk the lock holds without it.
        let _ = write_holder(&mut file);
        Ok(Self { file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file stays: deleting it could take a lock away from somebody who has it open already.
        let _ = self.file.set_len(0);
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn write_holder(file: &mut File) -> std::io::Result<()> {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "{} {}", std::process::id(), name.unwrap_or_default())
}

fn read_holder(file: &mut File) -> Holder {
    let mut text = String::new();
    // What cannot be read is not known: the holder is then told without a name.
    let _ = file.read_to_string(&mut text);
    let (pid, name) = text.split_once(' ').unwrap_or((&text, ""));
    Holder { pid: pid.parse().ok(), name: (!name.is_empty()).then(|| name.to_owned()) }
}
