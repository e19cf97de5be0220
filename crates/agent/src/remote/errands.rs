//! Errands: what has to be told to the desk because of a process, by a task of its own.
//!
//! **Why** of its own: the desk takes nothing up while the loop waits for an answer of this very process, and the task
//! that reads those answers must never wait for the desk.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use kilter_model::remote::prefix;
use tokio::sync::Notify;

use super::Remotes;
use super::line::Line;
use crate::desk::Desk;

/// More names than these stand for the whole kind.
const MOST: usize = 10_000;

/// What is to be read again because a process noticed something.
#[derive(Debug, Default)]
pub struct Errands {
    noticed: Mutex<BTreeSet<String>>,
    some: Notify,
}

impl Errands {
    /// The process noticed that items of a kind are not as they were.
    pub fn notice(&self, kind: &str, names: &[String]) {
        let prefix = prefix(kind);
        let mut noticed = self.noticed.lock().unwrap_or_else(PoisonError::into_inner);
        if noticed.len() + names.len() > MOST {
            noticed.retain(|key| !key.starts_with(&prefix));
            noticed.insert(prefix);
        } else {
            noticed.extend(names.iter().map(|name| format!("{prefix}{name}")));
        }
        self.some.notify_one();
    }

    fn take(&self) -> Vec<String> {
        let mut noticed = self.noticed.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *noticed).into_iter().collect()
    }

    /// Runs errands until the line is closed and that is told.
    pub async fn run(&self, remotes: &Remotes, desk: &Desk, line: &Arc<Line>) {
        loop {
            // Asked before: a line that closes meanwhile is told about once more.
            let is_closed = line.is_closed();
            remotes.stand(desk, line).await;
            if is_closed {
                return;
            }
            loop {
                tokio::select! {
                    () = line.stands_otherwise() => break,
                    () = self.some.notified() => {
                        // An agent that has ended needs not be told.
                        let _ = desk.read_again(self.take()).await;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_notices_without_end_is_remembered_by_the_kind() {
        let errands = Errands::default();
        errands.notice("shop.shelf", &["top".to_owned(), "low".to_owned()]);
        errands.notice("shop.board", &["top".to_owned(), "top".to_owned()]);
        assert_eq!(errands.take(), ["shop/board/top", "shop/shelf/low", "shop/shelf/top"]);
        for number in 0..2 * MOST {
            errands.notice("shop.shelf", &[number.to_string()]);
        }
        let taken = errands.take();
        assert!(taken.len() <= MOST && taken.contains(&"shop/shelf/".to_owned()), "{}", taken.len());
        assert!(errands.take().is_empty());
    }
}
