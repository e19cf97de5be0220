//! One topic as somebody holds it: its items, how far they are, and their digest.
//!
//! Decided here: what a replica is and how its digest follows its items. Publishers and subscribers hold the same type,
//! which is why their digests can be compared. What consumers see of several replicas is in `cache`.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::change::{Change, ItemKey, Revision};
use crate::digest::{BUCKETS, Basis, Digest, bucket, content_hash, key_hash, version_hash};
use crate::message::Held;

/// One item of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The revision that wrote it.
    pub version: Revision,
    /// What it is.
    pub value: Bytes,
}

/// What makes one replica out of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patch {
    pub(crate) puts: Vec<Change>,
    pub(crate) removes: Vec<ItemKey>,
    /// Items whose value stays, with the version they have in another log.
    pub(crate) kept: Vec<(ItemKey, Revision)>,
}

/// The items of one topic.
///
/// **Guarantees** that the digest is that of the items, whatever was done to them.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    items: BTreeMap<ItemKey, Entry>,
    digest: Digest,
}

impl Replica {
    /// The items, by key.
    pub fn items(&self) -> &BTreeMap<ItemKey, Entry> {
        &self.items
    }

    /// The version digest of the items.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Puts or removes one item; the answer is what was there.
    pub(crate) fn set(&mut self, change: &Change) -> Option<Entry> {
        let before = match &change.value {
            Some(value) => {
                self.digest.add(version_hash(&change.item, change.version));
                let entry = Entry { version: change.version, value: value.clone() };
                self.items.insert(change.item.clone(), entry)
            }
            None => self.items.remove(&change.item),
        };
        if let Some(before) = &before {
            self.digest.take(version_hash(&change.item, before.version));
        }
        before
    }

    /// Gives an item another version; its value stays.
    pub(crate) fn renumber(&mut self, item: &ItemKey, version: Revision) {
        if let Some(entry) = self.items.get_mut(item) {
            self.digest.take(version_hash(item, entry.version));
            self.digest.add(version_hash(item, version));
            entry.version = version;
        }
    }

    /// How many items there would be after a patch, and their digest.
    pub(crate) fn preview(&self, patch: &Patch) -> (u64, Digest) {
        let (mut count, mut digest) = (self.items.len() as u64, self.digest);
        for change in &patch.puts {
            match self.items.get(&change.item) {
                Some(before) => digest.take(version_hash(&change.item, before.version)),
                None => count += 1,
            }
            digest.add(version_hash(&change.item, change.version));
        }
        for item in &patch.removes {
            if let Some(before) = self.items.get(item) {
                digest.take(version_hash(item, before.version));
                count -= 1;
            }
        }
        for (item, version) in &patch.kept {
            if let Some(before) = self.items.get(item) {
                digest.take(version_hash(item, before.version));
                digest.add(version_hash(item, *version));
            }
        }
        (count, digest)
    }

    /// The sums by bucket.
    pub(crate) fn sums(&self, basis: Basis) -> Vec<Digest> {
        let mut sums = vec![Digest::default(); BUCKETS];
        for (item, entry) in &self.items {
            sums[bucket(key_hash(item))].add(match basis {
                Basis::Versions => version_hash(item, entry.version),
                Basis::Content => content_hash(item, &entry.value),
            });
        }
        sums
    }

    /// Every item as it is told to the other side: the hash of its key, and its version or a hash of its value.
    pub(crate) fn held(&self, basis: Basis) -> impl Iterator<Item = (&ItemKey, &Entry, Held)> {
        self.items.iter().map(move |(item, entry)| {
            let mark = match basis {
                Basis::Versions => entry.version,
                Basis::Content => content_hash(item, &entry.value) as u64,
            };
            (item, entry, Held { key: key_hash(item), mark })
        })
    }

    /// Every item as a change.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Change> {
        self.items.iter().map(|(item, entry)| Change {
            item: item.clone(),
            version: entry.version,
            value: Some(entry.value.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(key: &str) -> ItemKey {
        ItemKey::new("t", key)
    }

    fn of(changes: &[Change]) -> Replica {
        let mut replica = Replica::default();
        for change in changes {
            replica.set(change);
        }
        replica
    }

    #[test]
    fn equal_items_have_equal_digests_whatever_the_way() {
        let long = of(&[
            Change::put(item("a"), 1, "x"),
            Change::put(item("b"), 2, "x"),
            Change::put(item("a"), 3, "y"),
            Change::delete(item("b"), 4),
        ]);
        let short = of(&[Change::put(item("a"), 3, "y")]);
        assert_eq!(long.digest(), short.digest());
        assert_eq!(long.sums(Basis::Content), short.sums(Basis::Content));
        assert_ne!(long.digest(), of(&[Change::put(item("a"), 2, "y")]).digest());
    }

    #[test]
    fn a_preview_tells_what_a_patch_gives() {
        let mut replica = of(&[Change::put(item("a"), 1, "x"), Change::put(item("b"), 2, "x")]);
        let patch = Patch {
            puts: vec![Change::put(item("c"), 5, "z")],
            removes: vec![item("a"), item("nothing")],
            kept: vec![(item("b"), 9)],
        };
        let preview = replica.preview(&patch);
        replica.set(&patch.puts[0]);
        replica.set(&Change::delete(item("a"), 6));
        replica.renumber(&item("b"), 9);
        assert_eq!(preview, (2, replica.digest()));
    }
}
