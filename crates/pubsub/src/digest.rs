//! Digests: what two sides compare to know that they hold the same.
//!
//! Decided here: a digest is a sum over items, so that one change costs two additions and order does not matter. The
//! *version* digest (item, version) is kept up to date and compared with every beat. Sums by bucket, and the *content*
//! digest (item, value), are computed when somebody needs to know where the difference is.

use std::fmt;

use bytes::Bytes;

use crate::change::{ItemKey, Revision};

/// How many buckets items fall into, by the hash of their key.
pub(crate) const BUCKETS: usize = 256;

/// A sum of item hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub u128);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Digest {
    /// The version digest of these items: what whoever holds exactly them has.
    pub fn of<'a>(items: impl IntoIterator<Item = (&'a ItemKey, Revision)>) -> Self {
        let mut digest = Self::default();
        items.into_iter().for_each(|(item, version)| digest.add(version_hash(item, version)));
        digest
    }

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

/// How long an item may be, with what belongs to it, that is hashed in one piece.
const SHORT: usize = 256;

/// The hash of an item and of what belongs to it. **Why** not always a hasher: it is made for much, and most is little.
fn hash<const N: usize>(item: &ItemKey, rest: &[u8]) -> [u8; N] {
    let (table, key) = (item.table.as_bytes(), item.key.as_bytes());
    let lengths = [table, key].map(|name| (name.len() as u64).to_le_bytes());
    let parts: [&[u8]; 5] = [&lengths[0], table, &lengths[1], key, rest];
    let hash = match parts.iter().map(|part| part.len()).sum() {
        length @ ..=SHORT => {
            let (mut whole, mut at) = ([0; SHORT], 0);
            for part in parts {
                whole[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            blake3::hash(&whole[..length])
        }
        _ => {
            let mut hasher = blake3::Hasher::new();
            for part in parts {
                hasher.update(part);
            }
            hasher.finalize()
        }
    };
    let mut short = [0; N];
    short.copy_from_slice(&hash.as_bytes()[..N]);
    short
}

/// The hash of an item at a version.
pub(crate) fn version_hash(item: &ItemKey, version: Revision) -> u128 {
    u128::from_le_bytes(hash(item, &version.to_le_bytes()))
}

/// The hash of an item with a value.
pub(crate) fn content_hash(item: &ItemKey, value: &Bytes) -> u128 {
    u128::from_le_bytes(hash(item, value))
}

/// The hash an item is known by where its key would be too long; its lowest byte is its bucket.
pub(crate) fn key_hash(item: &ItemKey) -> u64 {
    u64::from_le_bytes(hash(item, &[]))
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
    fn a_hash_is_the_same_in_one_piece_and_in_several() {
        for length in [0, 1, SHORT - 34, SHORT - 33, SHORT, 5000] {
            let (item, value) = (ItemKey::new("table", "key-of-ten"), Bytes::from(vec![7; length]));
            let mut hasher = blake3::Hasher::new();
            for part in [&5_u64.to_le_bytes()[..], b"table", &10_u64.to_le_bytes(), b"key-of-ten", &value] {
                hasher.update(part);
            }
            let whole = content_hash(&item, &value).to_le_bytes();
            assert_eq!(whole, hasher.finalize().as_bytes()[..16], "{length} bytes");
        }
    }

    #[test]
    fn table_and_key_are_kept_apart() {
        let (left, right) = (ItemKey::new("ab", "c"), ItemKey::new("a", "bc"));
        assert_ne!(version_hash(&left, 1), version_hash(&right, 1));
        assert_ne!(key_hash(&left), key_hash(&right));
    }
}
