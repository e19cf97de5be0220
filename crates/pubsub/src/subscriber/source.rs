//! The last resort, and the first: what a subscriber takes from the source itself, and from its own disk.
//!
//! Decided here: what a read of the source may change. A read that failed changes nothing.

use crate::change::{Change, LogId, Revision, Topic};
use crate::moment::Moment;
use crate::publisher::as_delivered;
use crate::replica::Patch;

use super::{Following, Output, Subscriber};

/// A complete read of one topic at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRead {
    /// Who numbers the revisions.
    pub log: LogId,
    /// The revision that was read.
    pub rev: Revision,
    /// Everything in the topic at that revision.
    pub items: Vec<Change>,
}

/// The source could not be read, or not completely. It says nothing about what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to read the source")]
pub struct SourceUnavailable;

/// What a subscriber held when it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The log.
    pub log: LogId,
    /// Each topic with its position and its items.
    pub topics: Vec<(Topic, Revision, Vec<Change>)>,
}

fn everything(held: impl Iterator<Item = crate::change::ItemKey>, items: Vec<Change>) -> Patch {
    let new: std::collections::BTreeSet<_> = items.iter().map(|change| change.item.clone()).collect();
    Patch { removes: held.filter(|item| !new.contains(item)).collect(), puts: items, kept: Vec::new() }
}

impl Subscriber {
    /// Takes back what was held at the end of an earlier start, and follows those topics.
    ///
    /// **Assumes** that nothing is followed yet.
    pub fn restore(&mut self, mirror: Mirror) {
        self.enter(mirror.log);
        for (topic, applied, items) in mirror.topics {
            self.cache.follow(&topic);
            self.followed.insert(topic.clone(), Following::default());
            self.replace(&topic, &everything(std::iter::empty(), items), mirror.log, applied);
        }
    }

    /// A publisher of the first design says that something happened to a topic, and nothing that it could be held against: the
    /// source is read, at most as often as snapshots are taken, if no other publisher answers.
    pub fn foreign(&mut self, topic: &Topic, now: Moment) {
        self.counts.foreign += 1;
        self.stay(now);
        if !self.settings.fallback || self.is_active() || !self.followed.contains_key(topic) {
            return;
        }
        let not_before = self.source_read_at.map(|at| at.after(self.settings.snapshot_interval));
        self.next_source_read = self.next_source_read.min(not_before.unwrap_or(now).max(now));
    }

    pub(super) fn read_source(&mut self, now: Moment) {
        self.source_read_at = Some(now);
        self.next_source_read = now.after(self.settings.fallback_after);
        let topics: Vec<Topic> = self.followed.keys().cloned().collect();
        for topic in topics {
            self.next_read += 1;
            let read = self.next_read;
            if let Some(following) = self.followed.get_mut(&topic) {
                following.read = Some(read);
                self.outputs.push_back(Output::Read { read, topic });
            }
        }
    }

    /// The source answered a read. What is newer already stays; what could not be read stays, too.
    pub fn source_read(&mut self, read: u64, answer: Result<SourceRead, SourceUnavailable>) {
        let found = self.followed.iter_mut().find(|(_, following)| following.read == Some(read));
        let Some((topic, following)) = found else { return };
        following.read = None;
        let topic = topic.clone();
        let Ok(SourceRead { log, rev, mut items }) = answer else { return };
        for change in &mut items {
            let _ = as_delivered(change);
        }
        if self.is_active() {
            return;
        }
        self.enter(log);
        let is_older = self.cache.epoch(&topic) == self.epoch && self.cache.applied(&topic) > Some(rev);
        if is_older || rev < self.min_rev {
            return;
        }
        self.counts.source_reads += 1;
        let held: Vec<_> = self.items(&topic).map(|(item, ..)| item.clone()).collect();
        self.replace(&topic, &everything(held.into_iter(), items), log, rev);
        let is_first = self
            .followed
            .get_mut(&topic)
            .is_some_and(|following| !std::mem::replace(&mut following.was_synced, true));
        if is_first {
            self.outputs.push_back(Output::Synced(topic));
        }
    }
}
