//! Watching statuses through the desk.

use kilter_scheduler::{Changes, Cursor, Seq};
use tokio::sync::watch;

use super::{Desk, Gone};

/// Watches statuses.
///
/// **Guarantees** that nothing is lost silently: whoever reads too slowly for the history gets everything again.
#[derive(Debug)]
pub struct StatusWatch {
    desk: Desk,
    newest: watch::Receiver<Seq>,
    cursor: Option<Cursor>,
}

impl StatusWatch {
    pub(super) fn new(desk: Desk, mut newest: watch::Receiver<Seq>, cursor: Option<Cursor>) -> Self {
        newest.mark_changed();
        Self { desk, newest, cursor }
    }

    /// What changed since the last call; waits until something has.
    ///
    /// The first call does not wait unless the cursor is up to date.
    pub async fn next(&mut self) -> Result<Changes, Gone> {
        loop {
            self.newest.changed().await.map_err(|_| Gone)?;
            let cursor = self.cursor;
            let (changes, cursor) = self.desk.inquire(move |view| view.scheduler.watch(cursor)).await?;
            self.cursor = Some(cursor);
            match changes {
                Changes::Changed(statuses) if statuses.is_empty() => {}
                changes @ (Changes::Snapshot(_) | Changes::Changed(_)) => return Ok(changes),
            }
        }
    }

    /// How far was read, to go on from there later.
    pub fn cursor(&self) -> Option<Cursor> {
        self.cursor
    }
}
