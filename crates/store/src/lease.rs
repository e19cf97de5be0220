//! Leases: items that last as long as somebody says so.

use std::fmt;
use std::time::Duration;

/// The name of a lease within its store; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// A granted lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its name.
    pub id: LeaseId,
    /// How long it lasts after it was granted or last kept alive. A store may grant more than was asked.
    pub ttl: Duration,
}
