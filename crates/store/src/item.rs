//! One stored item.

use bytes::Bytes;

use crate::{LeaseId, Revision, StoreError};

/// The longest key, in bytes.
const LONGEST_KEY: usize = 4096;

/// A key with its value, and where in the order of commits it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The key; prefixes are plain string prefixes.
    pub key: String,
    /// The value; no bytes is a value too.
    pub value: Bytes,
    /// The commit that put the key when it was absent.
    pub created: Revision,
    /// The commit that put this value.
    pub modified: Revision,
    /// How many commits have put it since it was created, that one included.
    pub version: u64,
    /// The lease whose end deletes it.
    pub lease: Option<LeaseId>,
}

/// Refuses a key that not every driver can hold.
pub(crate) fn check_key(key: &str) -> Result<(), StoreError> {
    if key.is_empty() {
        return Err(StoreError::invalid("key", "it is empty"));
    }
    if key.len() > LONGEST_KEY {
        return Err(StoreError::invalid("key", format!("it is longer than {LONGEST_KEY} bytes")));
    }
    if key.contains('\0') {
        return Err(StoreError::invalid("key", "it contains a zero byte"));
    }
    Ok(())
}
