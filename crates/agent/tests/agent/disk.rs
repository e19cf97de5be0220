//! A disk that runs out of room when the test says so.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use kilter_agent::keep::{Keep, Settings};
use kilter_store::embedded::Medium;
use kilter_testkit::hand::Hand;

use crate::house::{CODEC, House};

/// A disk in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    /// How long it may get; any length if nothing is said.
    room: Option<usize>,
    /// Whether nothing at all can be written.
    is_stuck: bool,
}

impl Disk {
    pub(crate) fn medium(&self) -> Arc<dyn Medium> {
        Arc::new(self.clone())
    }

    /// It gets no longer than it is: what is large does not fit, what is small still may.
    pub(crate) fn fill(&self) {
        let mut state = self.state();
        state.room = Some(state.bytes.len());
    }

    /// Not one byte can be written.
    pub(crate) fn stick(&self) {
        self.state().is_stuck = true;
    }

    /// There is room again.
    pub(crate) fn free(&self) {
        let mut state = self.state();
        (state.room, state.is_stuck) = (None, false);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

fn no_room() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

fn at(offset: u64, length: usize) -> std::ops::Range<usize> {
    let offset = usize::try_from(offset).unwrap();
    offset..offset + length
}

impl Medium for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let found = state.bytes.get(at(offset, out.len()));
        out.copy_from_slice(found.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let (mut state, len) = (self.state(), usize::try_from(len).unwrap());
        if state.is_stuck || state.room.is_some_and(|room| len > room) {
            return Err(no_room());
        }
        state.bytes.resize(len, 0);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let place = at(offset, bytes.len());
        if state.is_stuck || state.room.is_some_and(|room| place.end > room) {
            return Err(no_room());
        }
        if state.bytes.len() < place.end {
            state.bytes.resize(place.end, 0);
        }
        state.bytes[place].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl House {
    /// An agent that begins over a world, and keeps what must outlive it on a disk of the test.
    pub(crate) fn on(hand: Hand, disk: &Disk) -> Self {
        let kept = Keep::open_on("disk", disk.medium(), &Settings::default(), CODEC).unwrap();
        Self::with(hand, Some(kept), Vec::new(), ())
    }
}
