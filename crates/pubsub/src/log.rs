//! The log of a publisher: what happened lately, by topic, and what is there now.
//!
//! Decided here: how far back the log reaches, how slices are chained, and what came of a stretch of it. Subscribers
//! are cursors into it; nobody has a queue of their own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use crate::change::{Change, Commit, ItemKey, LogId, Revision, Slice, Topic};
use crate::message::Message;
use crate::replica::Replica;
use crate::wire;

/// A slice in the log, and its frame, which is made once for everybody.
#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) slice: Slice,
    pub(crate) frame: Bytes,
    size: usize,
}

/// One topic: its items, and its last slices.
#[derive(Debug)]
pub(crate) struct TopicLog {
    pub(crate) view: Replica,
    pub(crate) slices: VecDeque<Arc<Logged>>,
    /// Every slice after this is in the log.
    pub(crate) tail: Revision,
    /// The last slice, or where the log began.
    pub(crate) last: Revision,
}

impl TopicLog {
    fn new(base: Revision) -> Self {
        Self { view: Replica::default(), slices: VecDeque::new(), tail: base, last: base }
    }

    /// The slices after a position.
    pub(crate) fn after(&self, position: Revision) -> impl ExactSizeIterator<Item = &Arc<Logged>> {
        let first = self.slices.partition_point(|logged| logged.slice.rev <= position);
        self.slices.range(first..)
    }
}

/// What came of a stretch of the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) known: Revision,
    pub(crate) upto: Revision,
    pub(crate) more: bool,
    pub(crate) changes: Vec<Change>,
}

/// Everything a publisher knows about the source of truth.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) id: LogId,
    /// The last commit that is known.
    pub(crate) head: Revision,
    base: Revision,
    topics: BTreeMap<Topic, TopicLog>,
    /// The topics of the slices, in the order in which they were appended.
    order: VecDeque<Topic>,
    bytes: usize,
    max_bytes: usize,
    max_slices: usize,
}

impl Log {
    pub(crate) fn new(id: LogId, max_bytes: usize, max_slices: usize) -> Self {
        Self {
            id,
            head: 0,
            base: 0,
            topics: BTreeMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            max_bytes,
            max_slices,
        }
    }

    /// Begins at a position with everything that is there.
    pub(crate) fn begin(&mut self, id: LogId, rev: Revision, items: Vec<(Topic, Change)>) {
        *self = Self { head: rev, base: rev, ..Self::new(id, self.max_bytes, self.max_slices) };
        for (topic, change) in items {
            self.topic(&topic).view.set(&change);
        }
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = (&Topic, &TopicLog)> {
        self.topics.iter()
    }

    pub(crate) fn get(&self, topic: &Topic) -> Option<&TopicLog> {
        self.topics.get(topic)
    }

    /// A topic, which may be one that nobody has written to.
    pub(crate) fn topic(&mut self, topic: &Topic) -> &mut TopicLog {
        let base = self.base;
        self.topics.entry(topic.clone()).or_insert_with(|| TopicLog::new(base))
    }

    /// Forgets a topic that nobody has written to.
    pub(crate) fn drop_if_blank(&mut self, topic: &Topic) {
        let base = self.base;
        let is_blank =
            |log: &&TopicLog| log.view.items().is_empty() && log.slices.is_empty() && log.last == base;
        if self.topics.get(topic).as_ref().is_some_and(is_blank) {
            self.topics.remove(topic);
        }
    }

    /// The last slice of a topic, or where the log began.
    pub(crate) fn last(&self, topic: &Topic) -> Revision {
        self.topics.get(topic).map_or(self.base, |log| log.last)
    }

    /// How far back a topic reaches.
    pub(crate) fn tail(&self, topic: &Topic) -> Revision {
        self.topics.get(topic).map_or(self.base, |log| log.tail)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Appends a commit; the answer is its slices. A commit that is known already gives none.
    pub(crate) fn append(&mut self, commit: Commit) -> Vec<Arc<Logged>> {
        if commit.rev <= self.head {
            return Vec::new();
        }
        self.head = commit.rev;
        let mut by_topic: BTreeMap<Topic, Vec<Change>> = BTreeMap::new();
        for (topic, change) in commit.changes {
            by_topic.entry(topic).or_default().push(change);
        }
        let (rev, known) = (commit.rev, commit.rev - 1);
        let slices =
            by_topic.into_iter().map(|(topic, changes)| self.append_slice(topic, rev, known, changes));
        let slices = slices.collect();
        self.compact();
        slices
    }

    fn append_slice(
        &mut self,
        topic: Topic,
        rev: Revision,
        known: Revision,
        changes: Vec<Change>,
    ) -> Arc<Logged> {
        let id = self.id;
        let log = self.topic(&topic);
        for change in &changes {
            log.view.set(change);
        }
        let slice = Slice { log: id, topic: topic.clone(), rev, prev: log.last, known, changes };
        let message = Message::Txn(slice);
        let frame = wire::encode(&message);
        let Message::Txn(slice) = message else { unreachable!("it was made a line ago") };
        let size = frame.len() + slice.changes.iter().map(Change::size).sum::<usize>();
        let is_sendable = frame.len() <= wire::MAX_FRAME;
        let logged = Arc::new(Logged { slice, frame, size });
        log.last = rev;
        if !is_sendable {
            // Nobody can get it in one piece: everybody behind it compares instead.
            self.forget(&topic, rev);
            return logged;
        }
        log.slices.push_back(Arc::clone(&logged));
        self.bytes += size;
        self.order.push_back(topic);
        logged
    }

    /// Lets all slices of a topic go, so that whoever is behind a position compares.
    fn forget(&mut self, topic: &Topic, rev: Revision) {
        if let Some(log) = self.topics.get_mut(topic) {
            log.tail = rev;
            self.bytes -= log.slices.iter().map(|logged| logged.size).sum::<usize>();
            log.slices.clear();
        }
        self.order.retain(|other| other != topic);
    }

    /// Lets the oldest slices go until the rest fits.
    fn compact(&mut self) {
        while self.bytes > self.max_bytes || self.order.len() > self.max_slices {
            let Some(topic) = self.order.pop_front() else { return };
            let Some(log) = self.topics.get_mut(&topic) else { continue };
            if let Some(oldest) = log.slices.pop_front() {
                log.tail = log.tail.max(oldest.slice.rev);
                self.bytes -= oldest.size;
            }
        }
    }

    /// Compares what is there with a complete read of the source at a position, and appends what differs as one slice
    /// for each topic. Nothing is compared with a read that is older than what is known.
    ///
    /// **Why**: a source that forgot its history, or lost an event, must not cost every subscriber a snapshot.
    pub(crate) fn reload(&mut self, rev: Revision, items: Vec<(Topic, Change)>) -> Vec<Arc<Logged>> {
        if rev < self.head {
            return Vec::new();
        }
        // What happened between what was known and the read was not seen: no topic may be said to have been quiet.
        let known = self.head;
        let mut fresh: BTreeMap<Topic, BTreeMap<ItemKey, Change>> = BTreeMap::new();
        let mut homes: BTreeMap<ItemKey, Revision> = BTreeMap::new();
        for (topic, change) in items {
            let home = homes.entry(change.item.clone()).or_default();
            *home = change.version.max(*home);
            fresh.entry(topic).or_default().insert(change.item.clone(), change);
        }
        let topics: BTreeSet<Topic> = self.topics.keys().chain(fresh.keys()).cloned().collect();
        let mut appended = Vec::new();
        for topic in topics {
            let new = fresh.remove(&topic).unwrap_or_default();
            let changes = self.difference(&topic, &new, &homes, rev);
            if self.last(&topic) < rev && (rev > known || !changes.is_empty()) {
                appended.push(self.append_slice(topic, rev, known.min(rev - 1), changes));
            } else if !changes.is_empty() {
                // The position is taken: the digest of the next beat tells subscribers to compare.
                let log = self.topic(&topic);
                for change in &changes {
                    log.view.set(change);
                }
                self.forget(&topic, rev);
            }
        }
        (self.head, self.base) = (rev, rev);
        self.compact();
        appended
    }

    fn difference(
        &self,
        topic: &Topic,
        new: &BTreeMap<ItemKey, Change>,
        homes: &BTreeMap<ItemKey, Revision>,
        rev: Revision,
    ) -> Vec<Change> {
        let nothing = BTreeMap::new();
        let old = self.topics.get(topic).map_or(&nothing, |log| log.view.items());
        let is_known = |change: &&Change| {
            let entry = old.get(&change.item);
            entry.is_some_and(|entry| {
                entry.version == change.version && Some(&entry.value) == change.value.as_ref()
            })
        };
        let puts = new.values().filter(|change| !is_known(change)).cloned();
        let removed = old.keys().filter(|item| !new.contains_key(*item));
        let deletes =
            removed.map(|item| Change::delete(item.clone(), homes.get(item).copied().unwrap_or(rev)));
        puts.chain(deletes).collect()
    }

    /// What came of everything in a topic after a position; an error says how far back the log reaches.
    pub(crate) fn stretch(&self, topic: &Topic, after: Revision, room: usize) -> Result<Stretch, Revision> {
        self.reaches(topic, after)?;
        let mut changes: BTreeMap<&ItemKey, &Change> = BTreeMap::new();
        let (mut size, mut upto, mut unseen) = (0, after, None);
        let Some(log) = self.topics.get(topic) else {
            let upto = self.head.max(after);
            return Ok(Stretch { known: upto.max(1) - 1, upto, more: false, changes: Vec::new() });
        };
        for logged in log.after(after) {
            let own: usize = logged.slice.changes.iter().map(Change::size).sum();
            if size + own > room && upto > after {
                let known = unseen.unwrap_or(upto - 1);
                let changes = changes.into_values().cloned().collect();
                return Ok(Stretch { known, upto, more: true, changes });
            }
            if logged.slice.known + 1 < logged.slice.rev {
                unseen.get_or_insert(logged.slice.known);
            }
            for change in &logged.slice.changes {
                if let Some(before) = changes.insert(&change.item, change) {
                    size -= before.size();
                }
                size += change.size();
            }
            upto = logged.slice.rev;
        }
        let (changes, upto) = (changes.into_values().cloned().collect(), self.head.max(after));
        Ok(Stretch { known: unseen.unwrap_or(upto.max(1) - 1), upto, more: false, changes })
    }

    /// Whether everything in a topic after a position is in the log; an error says from where on it is.
    pub(crate) fn reaches(&self, topic: &Topic, after: Revision) -> Result<(), Revision> {
        let tail = self.tail(topic);
        if after < tail {
            return Err(tail);
        }
        let next = self.topics.get(topic).and_then(|log| log.after(after).next());
        match next.filter(|logged| logged.slice.known < after) {
            Some(logged) => Err(logged.slice.rev),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic() -> Topic {
        Topic::new("t")
    }

    fn put(key: &str, rev: Revision) -> Commit {
        let change = Change::put(ItemKey::new("t", key), rev, format!("{key}{rev}"));
        Commit { rev, changes: vec![(topic(), change)] }
    }

    fn log(slices: usize) -> Log {
        let mut log = Log::new(LogId(1), 1 << 20, slices);
        log.begin(LogId(1), 10, Vec::new());
        log
    }

    #[test]
    fn slices_are_chained_by_topic() {
        let mut log = log(8);
        assert_eq!(log.append(put("a", 12))[0].slice.prev, 10);
        let elsewhere = Change::put(ItemKey::new("t", "z"), 13, "z");
        log.append(Commit { rev: 13, changes: vec![(Topic::new("other"), elsewhere)] });
        assert_eq!(log.append(put("a", 14))[0].slice.prev, 12);
        assert_eq!(log.append(put("a", 14)).len(), 0);
    }

    #[test]
    fn a_stretch_holds_the_last_change_of_each_item() {
        let mut log = log(8);
        for (key, rev) in [("a", 11), ("b", 12), ("a", 13)] {
            log.append(put(key, rev));
        }
        let stretch = log.stretch(&topic(), 11, 1 << 20).unwrap();
        let versions: Vec<_> = stretch.changes.iter().map(|change| change.version).collect();
        assert_eq!((versions, stretch.upto, stretch.more), (vec![13, 12], 13, false));
        let short = log.stretch(&topic(), 10, 1).unwrap();
        assert_eq!((short.upto, short.more, short.changes.len()), (11, true, 1));
    }

    #[test]
    fn what_left_the_log_cannot_be_told() {
        let mut log = log(2);
        for rev in 11..15 {
            log.append(put("a", rev));
        }
        assert_eq!(log.stretch(&topic(), 11, 1 << 20), Err(12));
        assert_eq!(log.stretch(&topic(), 12, 1 << 20).unwrap().changes.len(), 1);
        assert_eq!((log.len(), log.topic(&topic()).view.items().len()), (2, 1));
    }

    #[test]
    fn a_reload_appends_what_differs_and_nothing_else() {
        let mut log = log(8);
        log.append(put("a", 11));
        log.append(put("b", 12));
        let items = vec![
            (topic(), Change::put(ItemKey::new("t", "a"), 11, "a11")),
            (topic(), Change::put(ItemKey::new("t", "c"), 15, "c15")),
        ];
        let slices = log.reload(20, items.clone());
        assert_eq!(slices.len(), 1);
        let changes: Vec<_> =
            slices[0].slice.changes.iter().map(|change| change.item.key.to_string()).collect();
        assert_eq!((changes, slices[0].slice.prev), (vec!["c".to_owned(), "b".to_owned()], 12));
        assert_eq!((slices[0].slice.known, log.reaches(&topic(), 15)), (12, Err(20)));
        let quiet = log.reload(21, items.clone());
        assert_eq!((quiet.len(), quiet[0].slice.changes.len(), quiet[0].slice.known), (1, 0, 20));
        assert_eq!(log.reload(21, items).len(), 0);
        assert_eq!(log.reload(5, Vec::new()).len(), 0);
    }
}
