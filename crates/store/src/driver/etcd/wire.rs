//! etcd's messages, made from `proto/etcd.proto`, and how items look in them.

use bytes::Bytes;

use crate::{Item, LeaseId, Revision};

#[allow(missing_docs, unreachable_pub, clippy::all, reason = "made by the compiler of the protocol")]
mod made {
    tonic::include_proto!("etcdserverpb");
}
pub(super) use made::*;

/// A number as etcd counts it; what does not fit is beyond anything etcd knows.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of etcd's that is never negative.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// The end of the keys that begin with a prefix: the prefix with its last byte raised. An empty prefix is every key.
pub(super) fn end_of(prefix: &str) -> Bytes {
    let mut end = prefix.as_bytes().to_vec();
    // No byte of UTF-8 is 255: the last one can always be raised.
    match end.last_mut() {
        Some(last) => *last += 1,
        None => end.push(0),
    }
    end.into()
}

/// The first key of a prefix.
pub(super) fn start_of(prefix: &str) -> Bytes {
    if prefix.is_empty() { Bytes::from_static(&[0]) } else { Bytes::copy_from_slice(prefix.as_bytes()) }
}

impl ResponseHeader {
    /// The newest revision when the answer was given.
    pub(super) fn revision(header: &Option<Self>) -> Revision {
        Revision(header.as_ref().map_or(0, |header| unsigned(header.revision)))
    }
}

impl KeyValue {
    /// The item; `None` for a key that is not text, which is nobody's of ours.
    pub(super) fn into_item(self) -> Option<Item> {
        Some(Item {
            key: String::from_utf8(self.key.to_vec()).ok()?,
            value: self.value,
            created: Revision(unsigned(self.create_revision)),
            modified: Revision(unsigned(self.mod_revision)),
            version: unsigned(self.version),
            lease: (self.lease != 0).then_some(LeaseId(self.lease as u64)),
        })
    }
}
