//! Watches: from the newest commits in memory, or from the file when they are slower than that.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt, stream};
use tokio::sync::watch;

use super::shared::{Head, Shared};
use crate::{Change, News, Revision, StoreError, Told, Watch};

/// How many commits are kept in memory.
const RECENT_COMMITS: usize = 1024;
/// How many bytes of values are kept in memory, besides those of the newest commit.
const RECENT_BYTES: usize = 4 << 20;
/// How many commits are read from the file at once.
const READ_AT_ONCE: usize = 256;

/// The newest commits, shared by all watches.
#[derive(Debug, Default)]
pub(super) struct Recent {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    commits: VecDeque<Arc<Told>>,
    bytes: usize,
}

impl Recent {
    /// Adds a commit, and gives up the oldest ones.
    pub(super) fn add(&self, told: Told) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += weight(&told);
        kept.commits.push_back(Arc::new(told));
        while kept.commits.len() > 1 && (kept.commits.len() > RECENT_COMMITS || kept.bytes > RECENT_BYTES) {
            if let Some(oldest) = kept.commits.pop_front() {
                kept.bytes -= weight(&oldest);
            }
        }
    }

    /// Every commit behind a revision; `None` when some of them are not in memory.
    fn behind(&self, after: Revision) -> Option<Vec<Arc<Told>>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let first = kept.commits.front()?.revision;
        (first <= after.next()).then(|| {
            let known = usize::try_from(after.next().0 - first.0).unwrap_or(usize::MAX);
            kept.commits.iter().skip(known).cloned().collect()
        })
    }
}

fn weight(told: &Told) -> usize {
    let of = |change: &Change| match change {
        Change::Put(item) => item.key.len() + item.value.len(),
        Change::Deleted(key) => key.len(),
    };
    told.changes.iter().map(of).sum()
}

/// Watches a prefix behind a revision.
pub(super) fn watch(shared: Arc<Shared>, prefix: String, after: Revision) -> Result<Watch, StoreError> {
    let head = shared.head.subscribe();
    let Head { revision, oldest, .. } = *head.borrow();
    if after > revision {
        return Err(StoreError::Ahead { asked: after, head: revision });
    }
    if after < oldest {
        return Err(StoreError::Compacted { asked: after, oldest });
    }
    let tail = Tail { shared, prefix, cursor: after, head, ready: VecDeque::new() };
    let stream = stream::unfold(Some(tail), |tail| async move {
        let mut tail = tail?;
        let news = tail.next().await;
        let ended = news.as_ref().is_err_and(|error| !error.is_retriable());
        Some((news, (!ended).then_some(tail)))
    });
    Ok(Watch::new(stream.boxed()))
}

/// One watch, and how far it is.
struct Tail {
    shared: Arc<Shared>,
    prefix: String,
    /// Everything up to here has been looked at.
    cursor: Revision,
    head: watch::Receiver<Head>,
    /// What was found, and not told yet.
    ready: VecDeque<News>,
}

impl Tail {
    async fn next(&mut self) -> Result<News, StoreError> {
        loop {
            if let Some(news) = self.ready.pop_front() {
                return Ok(news);
            }
            let head = *self.head.borrow_and_update();
            if head.closed {
                return Err(StoreError::Closed);
            }
            if self.cursor < head.revision {
                self.look().await?;
            } else if self.head.changed().await.is_err() {
                return Err(StoreError::Closed);
            }
        }
    }

    /// Looks at the next commits; what touches the prefix is made ready, or how far it was looked.
    async fn look(&mut self) -> Result<(), StoreError> {
        let commits = match self.shared.recent.behind(self.cursor) {
            Some(commits) => commits,
            None => {
                let after = self.cursor;
                let read =
                    Arc::clone(&self.shared).read(move |view| view.commits(after, READ_AT_ONCE)).await?;
                read.into_iter().map(Arc::new).collect()
            }
        };
        let Some(last) = commits.last().map(|last| last.revision) else { return Ok(()) };
        for told in &commits {
            let changes: Vec<_> = told
                .changes
                .iter()
                .filter(|change| change.key().starts_with(&self.prefix))
                .cloned()
                .collect();
            if !changes.is_empty() {
                self.ready.push_back(News::Commit(Told { revision: told.revision, changes }));
            }
        }
        let told_last = matches!(self.ready.back(), Some(News::Commit(told)) if told.revision == last);
        if !told_last {
            self.ready.push_back(News::Progress(last));
        }
        self.cursor = last;
        Ok(())
    }
}
