//! Completions: how the producer of a blocking event learns how it ended, exactly once.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use crate::error::EventError;

/// How a blocking event ended.
pub type Answered = Result<(), EventError>;

/// The duty to tell a producer how its event ended.
///
/// **Guarantees** that the producer is told exactly once, from whatever thread: a completion that is dropped without
/// having been used (shutdown, abort, panic) tells that the event was aborted.
pub struct Completion(Option<Box<dyn FnOnce(Answered) + Send>>);

impl Completion {
    /// Tells through a closure; it is called exactly once.
    pub fn new(tell: impl FnOnce(Answered) + Send + 'static) -> Self {
        Self(Some(Box::new(tell)))
    }

    /// Tells somebody who waits.
    pub fn pair() -> (Self, Waiter) {
        let (sender, receiver) = mpsc::sync_channel(1);
        // A producer that does not wait any more needs no answer.
        let tell = move |answered| sender.try_send(answered).unwrap_or_default();
        (Self::new(tell), Waiter(receiver))
    }

    pub(crate) fn complete(mut self, answered: Answered) {
        self.tell(answered);
    }

    fn tell(&mut self, answered: Answered) {
        if let Some(tell) = self.0.take() {
            // A producer that panics on its answer is no reason for the loop to end.
            let _ = catch_unwind(AssertUnwindSafe(|| tell(answered)));
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.tell(Err(EventError::Aborted));
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completion(..)")
    }
}

/// Waits for the end of a blocking event.
#[derive(Debug)]
pub struct Waiter(mpsc::Receiver<Answered>);

impl Waiter {
    /// Waits until the event has ended.
    pub fn wait(self) -> Answered {
        self.0.recv().unwrap_or(Err(EventError::Aborted))
    }

    /// Waits for a while; `None` if the event has not ended by then, or the answer was taken before.
    pub fn wait_for(&self, patience: Duration) -> Option<Answered> {
        self.0.recv_timeout(patience).ok()
    }

    /// The answer, if it is there.
    pub fn take(&self) -> Option<Answered> {
        self.0.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_dropped_completion_tells_that_the_event_was_aborted() {
        let (completion, waiter) = Completion::pair();
        drop(completion);
        assert_eq!(waiter.wait(), Err(EventError::Aborted));
    }

    #[test]
    fn the_producer_is_told_once_and_across_threads() {
        let told = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&told);
        let completion = Completion::new(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        });
        std::thread::spawn(move || completion.complete(Ok(()))).join().unwrap();
        assert_eq!(told.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_completion_lost_to_a_panic_still_tells() {
        let (completion, waiter) = Completion::pair();
        let lost = std::thread::spawn(move || {
            let _completion = completion;
            std::panic::resume_unwind(Box::new("planned"));
        });
        assert!(lost.join().is_err());
        assert_eq!(waiter.wait(), Err(EventError::Aborted));
    }

    #[test]
    fn a_producer_that_panics_or_left_is_no_harm() {
        Completion::new(|_| std::panic::resume_unwind(Box::new("planned"))).complete(Ok(()));
        let (completion, waiter) = Completion::pair();
        drop(waiter);
        completion.complete(Ok(()));
    }
}
