//! What a subscriber holds: one replica for each topic it follows, and the view over all of them.
//!
//! Decided here: which of several entries of an item is shown, and what must not be shown again after it was deleted.
//! When something is applied is decided in `subscriber`.

use std::collections::{BTreeMap, BTreeSet, btree_map};

use bytes::Bytes;

use crate::change::{Change, ItemKey, Revision, Topic};
use crate::replica::{Patch, Replica};

/// How new something is: first by how many logs the subscriber has seen, then by revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Which log, counted by the subscriber.
    pub epoch: u32,
    /// The revision in it.
    pub version: Revision,
}

/// What changed for a consumer: an item that is there, or is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewChange {
    /// The item.
    pub item: ItemKey,
    /// How new this is.
    pub stamp: Stamp,
    /// What it is; nothing if it is gone.
    pub value: Option<Bytes>,
}

/// An item as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The topic it is shown from.
    pub topic: Topic,
    /// How new it is.
    pub stamp: Stamp,
    /// What it is.
    pub value: Bytes,
}

/// The replica of a followed topic, and how far it is.
#[derive(Debug, Default)]
struct Part {
    replica: Replica,
    epoch: u32,
    /// Nothing as long as the topic was never complete.
    applied: Option<Revision>,
}

/// All replicas and the view over them.
///
/// **Guarantees** that no item is ever shown in a version below one that was shown or deleted before, whatever order
/// topics arrive in.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    parts: BTreeMap<Topic, Part>,
    shown: BTreeMap<ItemKey, Shown>,
    /// The highest deletion of items that an older entry of another topic could still bring back.
    gone: BTreeMap<ItemKey, Stamp>,
    gone_in_order: BTreeSet<(Stamp, ItemKey)>,
}

impl Cache {
    pub(crate) fn follow(&mut self, topic: &Topic) {
        self.parts.entry(topic.clone()).or_default();
    }

    /// Lets a topic go, with everything only it showed.
    pub(crate) fn unfollow(&mut self, topic: &Topic) -> Vec<ViewChange> {
        let Some(part) = self.parts.remove(topic) else { return Vec::new() };
        let mut changes = Vec::new();
        for (item, entry) in part.replica.items() {
            self.bury(item, Stamp { epoch: part.epoch, version: entry.version });
            changes.extend(self.settle(item));
        }
        self.prune();
        changes
    }

    /// How far a topic is; nothing if it was never complete.
    pub(crate) fn applied(&self, topic: &Topic) -> Option<Revision> {
        self.parts.get(topic)?.applied
    }

    pub(crate) fn epoch(&self, topic: &Topic) -> u32 {
        self.parts.get(topic).map_or(0, |part| part.epoch)
    }

    pub(crate) fn replica(&self, topic: &Topic) -> Option<&Replica> {
        self.parts.get(topic).map(|part| &part.replica)
    }

    pub(crate) fn shown(&self) -> &BTreeMap<ItemKey, Shown> {
        &self.shown
    }

    pub(crate) fn deletions_remembered(&self) -> usize {
        self.gone.len()
    }

    /// Moves a topic forward over a stretch in which nothing happened to it.
    pub(crate) fn advance(&mut self, topic: &Topic, to: Revision) {
        if let Some(part) = self.parts.get_mut(topic) {
            part.applied = part.applied.max(Some(to));
        }
        self.prune();
    }

    /// Applies changes that bring a topic to a position; the answer is what a consumer sees of it, at once.
    pub(crate) fn apply(&mut self, topic: &Topic, changes: &[Change], upto: Revision) -> Vec<ViewChange> {
        let mut seen = Vec::with_capacity(changes.len());
        for change in changes {
            let Some(part) = self.parts.get_mut(topic) else { return seen };
            let stamp = Stamp { epoch: part.epoch, version: change.version };
            part.replica.set(change);
            if change.value.is_none() {
                self.bury(&change.item, stamp);
            }
            seen.extend(self.update(topic, &change.item, stamp, change.value.as_ref()));
        }
        self.advance(topic, upto);
        seen
    }

    /// Brings a topic to a position of a log with what is different there; the answer is what a consumer sees of it.
    pub(crate) fn patch(
        &mut self,
        topic: &Topic,
        patch: &Patch,
        epoch: u32,
        at: Revision,
    ) -> Vec<ViewChange> {
        let Some(part) = self.parts.get_mut(topic) else { return Vec::new() };
        let old_epoch = std::mem::replace(&mut part.epoch, epoch);
        for (item, version) in &patch.kept {
            part.replica.renumber(item, *version);
        }
        let mut touched: Vec<ItemKey> = patch.kept.iter().map(|(item, _)| item.clone()).collect();
        for item in &patch.removes {
            let Some(part) = self.parts.get_mut(topic) else { break };
            if let Some(entry) = part.replica.set(&Change::delete(item.clone(), at)) {
                self.bury(item, Stamp { epoch: old_epoch, version: entry.version });
                touched.push(item.clone());
            }
        }
        for change in &patch.puts {
            if let Some(part) = self.parts.get_mut(topic) {
                part.replica.set(change);
            }
            touched.push(change.item.clone());
        }
        if let Some(part) = self.parts.get_mut(topic) {
            part.applied = Some(at);
        }
        touched.sort();
        let seen = touched.iter().filter_map(|item| self.settle(item)).collect();
        self.prune();
        seen
    }

    /// Counts what is held of a topic as part of a newer log; the answer is what a consumer sees of that.
    pub(crate) fn lift(&mut self, topic: &Topic, epoch: u32) -> Vec<ViewChange> {
        let Some(part) = self.parts.get_mut(topic) else { return Vec::new() };
        part.epoch = epoch;
        let items: Vec<ItemKey> = part.replica.items().keys().cloned().collect();
        let seen = items.iter().filter_map(|item| self.settle(item)).collect();
        self.prune();
        seen
    }

    /// Remembers that everything up to this is deleted.
    fn bury(&mut self, item: &ItemKey, stamp: Stamp) {
        let before = self.gone.get(item).copied();
        if before.is_some_and(|before| before >= stamp) {
            return;
        }
        if let Some(before) = before {
            self.gone_in_order.remove(&(before, item.clone()));
        }
        self.gone.insert(item.clone(), stamp);
        self.gone_in_order.insert((stamp, item.clone()));
    }

    /// Forgets the deletions that every followed topic has passed.
    fn prune(&mut self) {
        if self.gone_in_order.is_empty() {
            return;
        }
        let behind = self.parts.values().map(|part| {
            part.applied.map_or(Stamp::default(), |version| Stamp { epoch: part.epoch, version })
        });
        let passed = behind.min().unwrap_or(Stamp { epoch: u32::MAX, version: Revision::MAX });
        while self.gone_in_order.first().is_some_and(|(stamp, _)| *stamp <= passed) {
            if let Some((_, item)) = self.gone_in_order.pop_first() {
                self.gone.remove(&item);
            }
        }
    }

    /// Shows an item after one topic changed it. **Why** not always `settle`: what is newer than everything that is
    /// shown wins without a look at the other topics.
    fn update(
        &mut self,
        topic: &Topic,
        item: &ItemKey,
        stamp: Stamp,
        value: Option<&Bytes>,
    ) -> Option<ViewChange> {
        let Some(value) = value.filter(|_| self.gone.get(item).is_none_or(|gone| *gone <= stamp)) else {
            return self.settle(item);
        };
        let newest = || Shown { topic: topic.clone(), stamp, value: value.clone() };
        match self.shown.entry(item.clone()) {
            btree_map::Entry::Vacant(place) => drop(place.insert(newest())),
            btree_map::Entry::Occupied(mut shown) if shown.get().stamp < stamp => {
                drop(shown.insert(newest()))
            }
            btree_map::Entry::Occupied(_) => return self.settle(item),
        }
        Some(ViewChange { item: item.clone(), stamp, value: Some(value.clone()) })
    }

    /// Shows the newest entry of an item that is not deleted; the answer is what a consumer sees of that.
    fn settle(&mut self, item: &ItemKey) -> Option<ViewChange> {
        let entries = self.parts.iter().filter_map(|(topic, part)| {
            let entry = part.replica.items().get(item)?;
            Some((Stamp { epoch: part.epoch, version: entry.version }, topic, entry))
        });
        let newest = entries
            .max_by(|one, two| one.0.cmp(&two.0).then_with(|| two.1.cmp(one.1)))
            .filter(|(stamp, ..)| self.gone.get(item).is_none_or(|gone| gone <= stamp))
            .map(|(stamp, topic, entry)| Shown { topic: topic.clone(), stamp, value: entry.value.clone() });
        match newest {
            Some(newest) => {
                let before = self.shown.insert(item.clone(), newest.clone());
                let is_same = before.is_some_and(|before| {
                    let renumbered = before.stamp.epoch != newest.stamp.epoch || before.stamp == newest.stamp;
                    renumbered && before.value == newest.value
                });
                (!is_same).then(|| ViewChange {
                    item: item.clone(),
                    stamp: newest.stamp,
                    value: Some(newest.value),
                })
            }
            None => {
                let before = self.shown.remove(item)?;
                let stamp = self.gone.get(item).copied().unwrap_or(before.stamp);
                Some(ViewChange { item: item.clone(), stamp, value: None })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item() -> ItemKey {
        ItemKey::new("t", "k")
    }

    fn cache() -> (Cache, Topic, Topic) {
        let (one, two) = (Topic::new("one"), Topic::new("two"));
        let mut cache = Cache::default();
        for topic in [&one, &two] {
            cache.follow(topic);
            cache.patch(topic, &Patch::default(), 1, 0);
        }
        (cache, one, two)
    }

    fn value(cache: &Cache) -> Option<&[u8]> {
        cache.shown().get(&item()).map(|shown| shown.value.as_ref())
    }

    #[test]
    fn an_item_that_moves_is_right_in_either_order() {
        for delete_first in [true, false] {
            let (mut cache, one, two) = cache();
            cache.apply(&one, &[Change::put(item(), 1, "old")], 1);
            let delete = Change::delete(item(), 2);
            let put = Change::put(item(), 2, "new");
            if delete_first {
                cache.apply(&one, &[delete], 2);
                cache.apply(&two, &[put], 2);
            } else {
                cache.apply(&two, &[put], 2);
                cache.apply(&one, &[delete], 2);
            }
            assert_eq!(value(&cache), Some(&b"new"[..]));
            assert_eq!(cache.deletions_remembered(), 0);
        }
    }

    #[test]
    fn an_older_entry_of_another_topic_does_not_come_back() {
        let (mut cache, one, two) = cache();
        cache.apply(&one, &[Change::put(item(), 5, "five")], 5);
        cache.apply(&one, &[Change::delete(item(), 6)], 6);
        let seen = cache.apply(&two, &[Change::put(item(), 3, "three")], 3);
        assert_eq!((seen, value(&cache)), (vec![], None));
        cache.apply(&two, &[Change::delete(item(), 5)], 6);
        assert_eq!(cache.deletions_remembered(), 0);
    }

    #[test]
    fn another_log_is_newer_whatever_its_numbers() {
        let (mut cache, one, _) = cache();
        cache.apply(&one, &[Change::put(item(), 500, "late")], 500);
        let patch = Patch { puts: vec![Change::put(item(), 2, "restored")], ..Patch::default() };
        let seen = cache.patch(&one, &patch, 2, 3);
        assert_eq!(seen.len(), 1);
        assert_eq!(value(&cache), Some(&b"restored"[..]));
        let same = Patch { kept: vec![(item(), 7)], ..Patch::default() };
        assert_eq!(cache.patch(&one, &same, 3, 9), []);
    }
}
