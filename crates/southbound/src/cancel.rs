//! Cancelling a transaction that is under way.

use std::sync::Arc;

use tokio::sync::watch;

/// A wish to stop, shared by the one who may have it and the driver that heeds it.
///
/// **Guarantees**: it is kept; a driver that looks later sees it, and the first reason stays.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<watch::Sender<Option<Arc<str>>>>);

impl Default for Cancel {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl Cancel {
    /// Nothing is cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to stop, for a reason that people will read.
    pub fn cancel(&self, reason: impl Into<Arc<str>>) {
        let reason = reason.into();
        self.0.send_if_modified(|wish| {
            let first = wish.is_none();
            wish.get_or_insert(reason);
            first
        });
    }

    /// The reason, if somebody asked to stop.
    pub fn reason(&self) -> Option<Arc<str>> {
        self.0.borrow().clone()
    }

    /// Ends when somebody asks to stop.
    pub async fn cancelled(&self) -> Arc<str> {
        let mut wish = self.0.subscribe();
        let found = wish.wait_for(Option::is_some).await.expect("the sender lives in `self`");
        found.clone().expect("waited for a reason")
    }
}
