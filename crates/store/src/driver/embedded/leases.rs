//! Leases: their lengths on disk, their deadlines in memory.
//!
//! Decided here: keeping a lease alive writes nothing. After a restart every lease has its whole length again, so that
//! nobody loses items because the store was away.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redb::ReadableTable;

use super::apply::{Group, delete_all};
use super::tables::{Tables, number};
use super::translate::{READ, Trying, WRITE};
use crate::{Committed, Lease, LeaseId, StoreError};

/// When each lease ends, on the store's clock.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    leases: Mutex<BTreeMap<LeaseId, Deadline>>,
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    ttl: Duration,
    at: Duration,
}

impl Deadlines {
    /// All leases that are stored, each beginning anew.
    pub(super) fn starting(stored: Vec<(u64, u64)>, now: Duration) -> Self {
        let deadlines = Self::default();
        for (id, millis) in stored {
            deadlines.begin(Lease { id: LeaseId(id), ttl: Duration::from_millis(millis) }, now);
        }
        deadlines
    }

    pub(super) fn begin(&self, lease: Lease, now: Duration) {
        self.locked().insert(lease.id, Deadline { ttl: lease.ttl, at: now.saturating_add(lease.ttl) });
    }

    /// Lets a lease begin anew, unless its time is over.
    pub(super) fn keep_alive(&self, id: LeaseId, now: Duration) -> Option<Lease> {
        let mut leases = self.locked();
        let deadline = leases.get_mut(&id).filter(|deadline| deadline.at > now)?;
        deadline.at = now.saturating_add(deadline.ttl);
        Some(Lease { id, ttl: deadline.ttl })
    }

    pub(super) fn forget(&self, id: LeaseId) {
        self.locked().remove(&id);
    }

    /// The leases whose time is over.
    pub(super) fn over(&self, now: Duration) -> Vec<LeaseId> {
        self.locked().iter().filter(|(_, deadline)| deadline.at <= now).map(|(id, _)| *id).collect()
    }

    /// How long until the next one ends.
    pub(super) fn next(&self, now: Duration) -> Option<Duration> {
        self.locked().values().map(|deadline| deadline.at.saturating_sub(now)).min()
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<LeaseId, Deadline>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every lease with its length in milliseconds.
pub(super) fn stored(tables: &Tables<'_>) -> Result<Vec<(u64, u64)>, StoreError> {
    let mut leases = Vec::new();
    for entry in tables.leases.iter().trying(READ)? {
        let (id, millis) = entry.trying(READ)?;
        leases.push((id.value(), millis.value()));
    }
    Ok(leases)
}

/// Writes a new lease.
pub(super) fn grant(tables: &mut Tables<'_>, ttl: Duration) -> Result<Lease, StoreError> {
    let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return Err(StoreError::invalid("lease", "it lasts less than a millisecond"));
    }
    let id = tables.number(number::LAST_LEASE)? + 1;
    tables.set_number(number::LAST_LEASE, id)?;
    tables.leases.insert(id, millis).trying(WRITE)?;
    Ok(Lease { id: LeaseId(id), ttl: Duration::from_millis(millis) })
}

/// Ends a lease, and deletes its items in one commit.
pub(super) fn revoke(group: &mut Group<'_>, lease: LeaseId) -> Result<Committed, StoreError> {
    if group.tables.leases.remove(lease.0).trying(WRITE)?.is_none() {
        return Err(StoreError::NoSuchLease(lease));
    }
    let mut keys = Vec::new();
    for entry in group.tables.leased.range((lease.0, "")..(lease.0 + 1, "")).trying(READ)? {
        keys.push(entry.trying(READ)?.0.value().1.to_owned());
    }
    delete_all(group, &keys)
}
