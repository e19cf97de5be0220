//! A session inside one process: whoever follows takes slices and frames from the hub itself, without a task or a pipe in
//! between.
//!
//! Decided here: that whoever commits leaves what there is with the subscriber, if that has nothing yet. So those who follow
//! do not wait for each other at the hub.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::task::coop::consume_budget;

use crate::message::Message;
use crate::session::{Outgoing, SessionId};
use crate::wire::Names;

use super::hub::{Hub, lock};
use super::outlet::Rest;
use super::{Arrival, arrival};

/// How many bytes are taken at a time.
const TAKEN: usize = 64 << 10;

/// What was taken from a hub for a subscriber, and what there is besides.
pub(crate) type Batch = (Vec<Outgoing>, Rest);

/// Where something may be left for a subscriber.
///
/// **Guarantees** that what is taken from the hub is heard in that order, whoever takes it: nobody takes without this lock.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    left: Mutex<Option<Batch>>,
    wake: Notify,
}

impl Inbox {
    /// Tells the subscriber that there is something at the hub.
    pub(super) fn wake(&self) {
        self.leave(|| None);
    }

    /// Leaves with the subscriber what there is at the hub, unless something is left with it already.
    pub(super) fn prompt(&self, take: impl FnOnce() -> Batch) {
        self.leave(|| Some(take()).filter(|(taken, rest)| !taken.is_empty() || *rest == Rest::End));
    }

    fn leave(&self, take: impl FnOnce() -> Option<Batch>) {
        // If the subscriber takes right now, it waits afterwards, and is woken.
        if let Ok(mut left) = self.left.try_lock() {
            match left.as_mut() {
                // Whoever takes what was left looks for more.
                Some((_, rest)) if *rest == Rest::Nothing => *rest = Rest::More,
                Some(_) => {}
                None => *left = take(),
            }
        }
        self.wake.notify_one();
    }
}

/// The subscriber's end of a session with a hub of the same process. The session ends with it.
pub(crate) struct Joined {
    hub: Arc<Hub>,
    id: SessionId,
    inbox: Arc<Inbox>,
    names: Names,
    /// Whether everything was taken: then there is nothing to look for before somebody wakes.
    is_drained: bool,
}

/// What was taken says. **Why** a slice is not read out of its frame: everybody in the process shares its keys and values.
fn said(names: &mut Names, outgoing: &Outgoing) -> Option<Arrival> {
    match outgoing {
        Outgoing::Slice(logged) => Some(Arrival::Message(Message::Txn(logged.slice.clone()))),
        Outgoing::Frame(frame) => arrival(names, frame),
    }
}

impl Joined {
    pub(super) fn new(hub: Arc<Hub>, id: SessionId, inbox: Arc<Inbox>) -> Self {
        Self { hub, id, inbox, names: Names::default(), is_drained: false }
    }

    pub(super) fn send(&self, message: Message) {
        self.hub.receive(self.id, message);
    }

    fn take(&self) -> Batch {
        let mut left = lock(&self.inbox.left);
        left.take().unwrap_or_else(|| self.hub.take_outgoing(self.id, TAKEN))
    }

    /// The frames that came next; nothing at the end. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<Vec<Arrival>> {
        loop {
            if self.is_drained {
                self.inbox.wake.notified().await;
                self.is_drained = false;
            }
            consume_budget().await;
            let (taken, rest) = self.take();
            self.is_drained = rest == Rest::Nothing;
            if !taken.is_empty() {
                let names = &mut self.names;
                return Some(taken.iter().filter_map(|outgoing| said(names, outgoing)).collect());
            }
            if rest == Rest::End {
                return None;
            }
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.hub.close(self.id);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn batch(rest: Rest) -> Batch {
        (vec![Outgoing::Frame(Bytes::from_static(b"frame"))], rest)
    }

    fn rest(inbox: &Inbox) -> Option<Rest> {
        lock(&inbox.left).as_ref().map(|(_, rest)| *rest)
    }

    #[test]
    fn whoever_is_told_twice_looks_for_more_behind_what_was_left() {
        for is_prompted in [true, false] {
            let inbox = Inbox::default();
            inbox.prompt(|| batch(Rest::Nothing));
            assert_eq!(rest(&inbox), Some(Rest::Nothing));
            if is_prompted {
                inbox.prompt(|| unreachable!("something is left already"));
            } else {
                inbox.wake();
            }
            assert_eq!(rest(&inbox), Some(Rest::More));
        }
    }

    #[test]
    fn nothing_is_left_where_there_is_nothing() {
        let inbox = Inbox::default();
        inbox.prompt(|| (Vec::new(), Rest::Nothing));
        assert_eq!(rest(&inbox), None);
        inbox.prompt(|| (Vec::new(), Rest::End));
        assert_eq!(rest(&inbox), Some(Rest::End));
    }
}
