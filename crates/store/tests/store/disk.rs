//! A disk that loses its power, or its room, at a chosen moment.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use kilter_store::embedded::Medium;
use kilter_testkit::dice::Dice;

/// What a disk writes whole or not at all, in bytes.
const SECTOR: usize = 512;

/// What may go wrong with a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The power fails before this write, resize or sync, counted from zero.
    PowerAt(usize),
    /// It never gets longer than so many bytes.
    Room(u64),
    /// It cannot be written.
    ReadOnly,
    /// The sync with this number fails.
    SyncFails(usize),
}

#[derive(Debug, Default)]
struct State {
    /// What is safe.
    safe: Vec<u8>,
    /// What is seen while the power is on.
    seen: Vec<u8>,
    /// What was done since the last sync.
    since: Vec<Done>,
    operations: usize,
    syncs: usize,
    trouble: Option<Trouble>,
}

#[derive(Clone, Debug)]
enum Done {
    Wrote(usize, Vec<u8>),
    Resized(usize),
}

/// A disk in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

impl Disk {
    /// A disk with something on it, all of it safe.
    pub(crate) fn with(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(State { safe: bytes.clone(), seen: bytes, ..State::default() })))
    }

    pub(crate) fn medium(&self) -> Arc<dyn Medium> {
        Arc::new(self.clone())
    }

    pub(crate) fn set_trouble(&self, trouble: Option<Trouble>) {
        self.locked().trouble = trouble;
    }

    /// How many writes, resizes and syncs there were.
    pub(crate) fn operations(&self) -> usize {
        self.locked().operations
    }

    /// How many syncs there were.
    pub(crate) fn syncs(&self) -> usize {
        self.locked().syncs
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.locked().seen.clone()
    }

    /// What is found when the power is back: of what was not synced, each sector may be there or not.
    pub(crate) fn after_power_cut(&self, dice: &mut Dice) -> Self {
        let state = self.locked();
        let mut found = state.safe.clone();
        for done in &state.since {
            match (dice.below(3), done) {
                (0, _) => {}
                (_, Done::Resized(length)) => found.resize(*length, 0),
                (1, Done::Wrote(offset, bytes)) => write(&mut found, *offset, bytes),
                (_, Done::Wrote(offset, bytes)) => {
                    let mut at = 0;
                    while at < bytes.len() {
                        let end = bytes.len().min(at + SECTOR - (offset + at) % SECTOR);
                        if dice.one_in(2) {
                            write(&mut found, offset + at, &bytes[at..end]);
                        }
                        at = end;
                    }
                }
            }
        }
        drop(state);
        Self::with(found)
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Counts an operation, which may be the one that fails.
    fn operate(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.locked();
        match state.trouble {
            Some(Trouble::PowerAt(operation)) if state.operations >= operation => {
                return Err(io::Error::other("the power is off"));
            }
            Some(Trouble::ReadOnly) => return Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            Some(Trouble::PowerAt(_) | Trouble::Room(_) | Trouble::SyncFails(_)) | None => {}
        }
        state.operations += 1;
        Ok(state)
    }
}

fn write(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    let end = offset + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(written);
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl Medium for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.locked().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.locked();
        if let Some(Trouble::PowerAt(operation)) = state.trouble
            && state.operations >= operation
        {
            return Err(io::Error::other("the power is off"));
        }
        let start = index(offset);
        let there = state.seen.get(start..start + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(there);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.operate()?;
        if matches!(state.trouble, Some(Trouble::Room(room)) if len > room && len > state.seen.len() as u64) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.seen.resize(index(len), 0);
        state.since.push(Done::Resized(index(len)));
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.operate()?;
        write(&mut state.seen, index(offset), bytes);
        state.since.push(Done::Wrote(index(offset), bytes.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.operate()?;
        state.syncs += 1;
        if state.trouble == Some(Trouble::SyncFails(state.syncs)) {
            return Err(io::Error::other("the disk did not answer"));
        }
        for done in std::mem::take(&mut state.since) {
            match done {
                Done::Wrote(offset, bytes) => write(&mut state.safe, offset, &bytes),
                Done::Resized(length) => state.safe.resize(length, 0),
            }
        }
        Ok(())
    }
}
