//! Digests: what two sides compare to know that they hold the same.
//!
//! Decided here: a digest is a sum over items, so that one change costs two additions and order does not matter. The
//! *version* digest (item, version) is kept up to date and compared with every beat. Sums by bucket, and the *content*
//! digest (item, value), are computed when somebody needs to know where the difference is.

use bytes::Bytes;

use crate::change::{ItemKey, Revision};

/// How many buckets items fall into, by the hash of their key.
pub(crate) const BUCKETS: usize = 256;

/// A sum of item hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub u128);

impl Digest {
    pub(crate) fn add(&mut self, hash: u128) {
        self.0 = self.0.wrapping_add(hash);
    }

    pub(crate) fn take(&mut self, hash: u128) {
        self.0 = self.0.wrapping_sub(hash);
    }
}

/// What two sides compare items by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// By version: inside one log.
    Versions,
    /// By value: between logs, whose versions have no common scale.
    Content,
}

fn hasher(item: &ItemKey) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(item.table.len() as u64).to_le_bytes());
    hasher.update(item.table.as_bytes());
    hasher.update(&(item.key.len() as u64).to_le_bytes());
    hasher.update(item.key.as_bytes());
    hasher
}

fn short<const N: usize>(hasher: &blake3::Hasher) -> [u8; N] {
    let mut short = [0; N];
    short.copy_from_slice(&hasher.finalize().as_bytes()[..N]);
    short
}

/// The hash of an item at a version.
pub(crate) fn version_hash(item: &ItemKey, version: Revision) -> u128 {
    let mut hasher = hasher(item);
    hasher.update(&version.to_le_bytes());
    u128::from_le_bytes(short(&hasher))
}

/// The hash of an item with a value.
pub(crate) fn content_hash(item: &ItemKey, value: &Bytes) -> u128 {
    let mut hasher = hasher(item);
    hasher.update(value);
    u128::from_le_bytes(short(&hasher))
}

/// The hash an item is known by where its key would be too long; its lowest byte is its bucket.
pub(crate) fn key_hash(item: &ItemKey) -> u64 {
    u64::from_le_bytes(short(&hasher(item)))
}

/// The bucket of a key's hash.
pub(crate) fn bucket(hash: u64) -> usize {
    usize::from(hash.to_le_bytes()[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_forgets_what_is_taken_out() {
        let (one, two) = (ItemKey::new("t", "one"), ItemKey::new("t", "two"));
        let mut digest = Digest::default();
        digest.add(version_hash(&one, 3));
        let only_one = digest;
        digest.add(version_hash(&two, 4));
        digest.take(version_hash(&two, 4));
        assert_eq!(digest, only_one);
    }

    #[test]
    fn table_and_key_are_kept_apart() {
        let (left, right) = (ItemKey::new("ab", "c"), ItemKey::new("a", "bc"));
        assert_ne!(version_hash(&left, 1), version_hash(&right, 1));
        assert_ne!(key_hash(&left), key_hash(&right));
    }
}
