//! Closing: nobody is let in any more, whoever was is answered, and the socket stays open for whoever comes next.

use std::time::Duration;

use tokio::sync::{oneshot, watch};

/// Hears that nobody is to be let in any more.
#[derive(Clone, Debug, Default)]
pub struct Closing(Option<watch::Receiver<bool>>);

impl Closing {
    /// Somebody who says it, and those who hear it.
    pub fn pair() -> (Closer, Self) {
        let (says, hears) = watch::channel(false);
        (Closer(says), Self(Some(hears)))
    }

    /// Ends when it was said; never, if nobody will.
    pub(crate) async fn said(&mut self) {
        let said = match &mut self.0 {
            Some(hears) => hears.wait_for(|is_said| *is_said).await.is_ok(),
            None => false,
        };
        if !said {
            std::future::pending().await
        }
    }
}

/// Says that nobody is to be let in any more.
#[derive(Debug)]
pub struct Closer(watch::Sender<bool>);

impl Closer {
    /// Says so, and waits until whoever was let in is answered, but not for ever. Whoever only watches or waits is told to
    /// come again.
    pub async fn close(self, served: oneshot::Receiver<()>, within: Duration) {
        // A server that has ended needs not be told.
        let _ = self.0.send(true);
        let _ = tokio::time::timeout(within, served).await;
    }
}
