//! What directories declare and could not be taken up: it waits, and is tried again ever less often.

use kilter_scheduler::Timestamp;

use super::AGAIN;
use super::backoff::Backoff;
use crate::desk::Declaration;

/// The newest declaration of each directory that waits, and when they are tried again.
#[derive(Debug, Default)]
pub(super) struct Held {
    declarations: Vec<Declaration>,
    again: Backoff,
}

impl Held {
    /// A directory has changed: what it says counts, and is tried at once.
    pub(super) fn replace(&mut self, declaration: Declaration) {
        self.declarations.retain(|held| held.source != declaration.source);
        self.declarations.push(declaration);
        self.relent();
    }

    /// A declaration waits, unless its directory has said something newer.
    pub(super) fn hold(&mut self, declaration: Declaration) {
        if self.declarations.iter().all(|held| held.source != declaration.source) {
            self.declarations.push(declaration);
        }
    }

    /// An attempt failed: the next one comes after a pause, twice as long as the one before.
    pub(super) fn put_off(&mut self, now: Timestamp) {
        self.again.put_off(now);
    }

    /// What stood in the way may be gone: what waits is tried at once.
    pub(super) fn relent(&mut self) {
        self.again.relent();
    }

    /// When what waits is to be tried again.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        (!self.declarations.is_empty()).then_some(self.again.until)
    }

    /// Whether what waits is to be tried; if so, not again before a moment has passed.
    pub(super) fn is_due(&mut self, now: Timestamp) -> bool {
        let is_due = self.again.is_over(now);
        if is_due {
            self.again.until = now.after(AGAIN);
        }
        is_due
    }

    /// Takes out what waits.
    pub(super) fn take(&mut self) -> Vec<Declaration> {
        std::mem::take(&mut self.declarations)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn declaration() -> Declaration {
        Declaration::everything("site", Vec::new())
    }

    /// How often what waits is tried in this time, if it fails every time.
    fn attempts(held: &mut Held, from: Timestamp, within: Duration) -> usize {
        let (mut now, mut attempts) = (from, 0);
        while now <= from.after(within) {
            if held.is_due(now) && !held.take().is_empty() {
                attempts += 1;
                held.hold(declaration());
                held.put_off(now);
            }
            now = held.deadline().unwrap();
        }
        attempts
    }

    #[test]
    fn what_fails_is_tried_ever_less_often_and_at_least_once_a_minute() {
        let mut held = Held::default();
        held.hold(declaration());
        let minutes = Duration::from_secs(25 * 60);
        assert_eq!(attempts(&mut held, Timestamp::default(), minutes), 30);
    }

    #[test]
    fn what_stood_in_the_way_and_is_gone_ends_the_pause() {
        let mut held = Held::default();
        held.hold(declaration());
        let hour = Timestamp::default().after(Duration::from_secs(3600));
        (0..9).for_each(|_| held.put_off(hour));
        assert!(!held.is_due(hour.after(AGAIN)));
        held.relent();
        assert!(held.is_due(hour.after(AGAIN)));
    }

    #[test]
    fn what_a_directory_said_before_does_not_come_back() {
        let mut held = Held::default();
        held.replace(declaration());
        held.hold(Declaration::leave("site"));
        let taken = held.take();
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].extent, kilter_events::Extent::Everything);
    }
}
