//! What is delivered: items under topics, changed by commits of a log.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// A position in a log: the revision of a commit. Positions of different logs are never compared.
pub type Revision = u64;

/// The identity of whoever numbers the commits: a store in one incarnation, a broker's stream, or one start of a
/// publisher that numbers by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u128);

impl LogId {
    /// The identity that follows from a text, the same for everybody: for a store, its cluster and incarnation.
    pub fn of(text: &str) -> Self {
        let hash = blake3::hash(text.as_bytes());
        let mut short = [0; 16];
        short.copy_from_slice(&hash.as_bytes()[..16]);
        Self(u128::from_le_bytes(short))
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A name that subscribers follow. Topics match exactly: `abc` has nothing to do with `abcd`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

impl Topic {
    /// The topic of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identity of an item: its table and its key there, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ItemKey {
    /// The table.
    pub table: Arc<str>,
    /// The key inside it.
    pub key: Arc<str>,
}

impl ItemKey {
    /// The item of this key in this table.
    pub fn new(table: impl Into<Arc<str>>, key: impl Into<Arc<str>>) -> Self {
        Self { table: table.into(), key: key.into() }
    }
}

impl Ord for ItemKey {
    /// **Why** not derived: most items that are compared share the name of their table, which is then not read.
    fn cmp(&self, other: &Self) -> Ordering {
        let tables = match Arc::ptr_eq(&self.table, &other.table) {
            true => Ordering::Equal,
            false => self.table.cmp(&other.table),
        };
        tables.then_with(|| self.key.cmp(&other.key))
    }
}

impl PartialOrd for ItemKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The names of tables, one copy of each for everybody who uses it.
#[derive(Debug, Default)]
pub(crate) struct Tables(BTreeSet<Arc<str>>);

/// How many names are shared; more come and go.
const SHARED: usize = 1024;

impl Tables {
    /// Lets an item use the copy of its table's name that others use.
    pub(crate) fn share(&mut self, item: &mut ItemKey) {
        if let Some(known) = self.0.get(&item.table) {
            item.table = Arc::clone(known);
            return;
        }
        if self.0.len() >= SHARED {
            self.0.clear();
        }
        self.0.insert(Arc::clone(&item.table));
    }
}

impl fmt::Display for ItemKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.table, self.key)
    }
}

/// What happened to one item: it was put, or deleted. Both have a version, which is the revision that did it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The item.
    pub item: ItemKey,
    /// The revision that wrote the item last.
    pub version: Revision,
    /// What it is; nothing if it was deleted.
    pub value: Option<Bytes>,
}

impl Change {
    /// An item that was put.
    pub fn put(item: ItemKey, version: Revision, value: impl Into<Bytes>) -> Self {
        Self { item, version, value: Some(value.into()) }
    }

    /// An item that was deleted.
    pub fn delete(item: ItemKey, version: Revision) -> Self {
        Self { item, version, value: None }
    }

    /// About how many bytes it takes in a log or on a wire.
    pub fn size(&self) -> usize {
        self.item.table.len() + self.item.key.len() + self.value.as_ref().map_or(0, Bytes::len) + 24
    }
}

/// The changes of one commit in one topic: what becomes visible together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The log it belongs to.
    pub log: LogId,
    /// The topic.
    pub topic: Topic,
    /// The commit.
    pub rev: Revision,
    /// The slice before it in this topic.
    pub prev: Revision,
    /// Whoever holds the topic as of any position from `prev` to this one gets right by applying the slice. It is the
    /// position before `rev`, unless the publisher has not seen what happened in between.
    pub known: Revision,
    /// What happened.
    pub changes: Vec<Change>,
}

/// One transaction of the source of truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its revision, greater than that of every commit before it.
    pub rev: Revision,
    /// What happened, each under its topic. An item that moves is deleted in one topic and put in the other.
    pub changes: Vec<(Topic, Change)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_of_a_log_follows_from_its_text() {
        assert_eq!(LogId::of("etcd 7"), LogId::of("etcd 7"));
        assert_ne!(LogId::of("etcd 7"), LogId::of("etcd 8"));
        assert_eq!(LogId(255).to_string().len(), 32);
    }

    #[test]
    fn items_are_in_the_order_of_their_tables_whoever_holds_the_names() {
        let [mut one, mut two] = [ItemKey::new("tap", "b"), ItemKey::new("tap", "a")];
        assert!(ItemKey::new("route", "z") < two && two < one);
        let mut tables = Tables::default();
        tables.share(&mut one);
        tables.share(&mut two);
        assert!(Arc::ptr_eq(&one.table, &two.table) && two < one);
        assert_eq!(two, ItemKey::new("tap", "a"));
    }

    #[test]
    fn items_are_shown_as_paths() {
        assert_eq!(ItemKey::new("tap", "a").to_string(), "tap/a");
    }
}
