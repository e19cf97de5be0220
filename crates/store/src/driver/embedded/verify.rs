//! Looking for damage when the store is opened.
//!
//! Decided here: a file that was closed in order is read whole and held against its checksums before anything is
//! believed. The look is taken on a copy that forgets what is written to it, because the library would repair what it
//! finds by going back to an earlier commit, and nobody would know. A file that was not closed in order is checked by
//! the library itself, which goes back to the last commit that is whole.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redb::{Builder, DatabaseError};

use super::medium::{Backend, Medium};
use super::translate::Trying;
use crate::StoreError;

/// The checksums do not fit.
#[derive(Debug, thiserror::Error)]
#[error("the checksums do not fit what is stored")]
struct Damaged;

/// Reads everything on a medium, and says whether it is as it was written.
pub(super) fn verify(attempt: &str, medium: &Arc<dyn Medium>, cache_bytes: usize) -> Result<(), StoreError> {
    let trial = Trial { medium: Arc::clone(medium), state: Mutex::default() };
    if trial.medium.is_empty().map_err(|error| super::translate::io(attempt.to_owned(), error))? {
        return Ok(());
    }
    let unclean = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&unclean);
    let mut builder = Builder::new();
    builder.set_cache_size(cache_bytes);
    builder.set_repair_callback(move |session| {
        seen.store(true, Ordering::Release);
        session.abort();
    });
    let mut database = match builder.create_with_backend(Backend::new(Arc::new(trial))) {
        Err(DatabaseError::RepairAborted) if unclean.load(Ordering::Acquire) => return Ok(()),
        opened => opened.trying(attempt)?,
    };
    if database.check_integrity().trying(attempt)? {
        return Ok(());
    }
    Err(StoreError::Corrupt { attempt: attempt.to_owned(), source: Arc::new(Damaged) })
}

/// A medium seen through a pane: what is written stays on the pane.
#[derive(Debug)]
struct Trial {
    medium: Arc<dyn Medium>,
    state: Mutex<Pane>,
}

/// What was written, in blocks, and how long the medium seems to be.
#[derive(Debug, Default)]
struct Pane {
    blocks: BTreeMap<u64, Vec<u8>>,
    len: Option<u64>,
}

const BLOCK: u64 = 4096;

impl Trial {
    /// What lies in one block, beneath the pane.
    fn beneath(&self, block: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 4096];
        let start = block * BLOCK;
        let there = usize::try_from(self.medium.len()?.saturating_sub(start).min(BLOCK)).unwrap_or(0);
        self.medium.read(start, &mut bytes[..there])?;
        Ok(bytes)
    }
}

/// The parts of a span by block: the block, where the part begins in it, and its length.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut at = offset;
    let end = offset + length as u64;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let (block, begin) = (at / BLOCK, at % BLOCK);
            let part = (BLOCK - begin).min(end - at);
            at += part;
            (block, begin as usize, part as usize)
        })
    })
}

impl Medium for Trial {
    fn len(&self) -> io::Result<u64> {
        let pane = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        pane.len.map_or_else(|| self.medium.len(), Ok)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let pane = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if pane.blocks.is_empty() {
            return self.medium.read(offset, out);
        }
        let mut done = 0;
        for (block, begin, part) in parts(offset, out.len()) {
            let into = &mut out[done..done + part];
            match pane.blocks.get(&block) {
                Some(bytes) => into.copy_from_slice(&bytes[begin..begin + part]),
                None => into.copy_from_slice(&self.beneath(block)?[begin..begin + part]),
            }
            done += part;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).len = Some(len);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut pane = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        for (block, begin, part) in parts(offset, bytes.len()) {
            let mut whole = match pane.blocks.remove(&block) {
                Some(whole) => whole,
                None => self.beneath(block)?,
            };
            whole[begin..begin + part].copy_from_slice(&bytes[done..done + part]);
            pane.blocks.insert(block, whole);
            done += part;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
