//! Watching statuses through the desk.

use kilter_scheduler::{Changes, Cursor, Seq};
use tokio::sync::watch;

use super::{Desk, Gone, Swept, View};

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
            let changed = match self.cursor {
                Some(cursor) => self.desk.inquire(move |view| since(view, cursor)).await?,
                None => None,
            };
            let Some((changes, cursor)) = changed else { return self.snapshot().await };
            self.cursor = Some(cursor);
            match changes {
                Changes::Changed(statuses) if statuses.is_empty() => {}
                changes @ (Changes::Snapshot(_) | Changes::Changed(_)) => return Ok(changes),
            }
        }
    }

    /// Every status, looked at a few at a time.
    async fn snapshot(&mut self) -> Result<Changes, Gone> {
        let swept = self.desk.sweep(|view, key| {
            view.scheduler.base_of(key.as_str()).is_none().then(|| view.scheduler.status(key.as_str()))
        });
        let Swept { found, after } = swept.await?;
        self.cursor = Some(Cursor::after(after));
        Ok(Changes::Snapshot(found.into_values().collect()))
    }

    /// How far was read, to go on from there later.
    pub fn cursor(&self) -> Option<Cursor> {
        self.cursor
    }
}

/// What changed since, if the history reaches back so far.
fn since(view: &View<'_>, cursor: Cursor) -> Option<(Changes, Cursor)> {
    view.scheduler.history().reaches_back_to(cursor.seq()).then(|| view.scheduler.watch(Some(cursor)))
}
