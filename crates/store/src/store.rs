//! What every driver promises.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::{Commit, Committed, Found, Lease, LeaseId, Range, Revision, Snapshot, StoreError, Watch};

/// What a store answers, some time.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Which numbering revisions belong to: those of two identities are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity(pub u128);

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Declared state at rest.
///
/// **Guarantees** what was acknowledged stays: a crash of the store or of the process loses none of it. What was read
/// is true at the revision that comes with it. An error never stands for *absent*.
pub trait Store: fmt::Debug + Send + Sync {
    /// Which numbering the revisions belong to.
    fn identity(&self) -> Answer<'_, Identity>;

    /// Reads one key.
    fn get(&self, key: &str) -> Answer<'_, Found>;

    /// Reads the items of a range as of one revision.
    fn range(&self, range: Range) -> Answer<'_, Snapshot>;

    /// Changes items, all or nothing.
    fn commit(&self, commit: Commit) -> Answer<'_, Committed>;

    /// Tells every commit behind `after` that touches a prefix.
    ///
    /// A [`Snapshot`] read at a revision and a watch after the same one leave nothing out and tell nothing twice.
    fn watch(&self, prefix: &str, after: Revision) -> Answer<'_, Watch>;

    /// Gives up what is older than a revision: snapshots before it, and watches that begin before it.
    fn compact(&self, before: Revision) -> Answer<'_, ()>;

    /// Grants a lease.
    fn grant(&self, ttl: Duration) -> Answer<'_, Lease>;

    /// Lets a lease begin anew.
    fn keep_alive(&self, lease: LeaseId) -> Answer<'_, Lease>;

    /// Ends a lease; its items are deleted in one commit.
    fn revoke(&self, lease: LeaseId) -> Answer<'_, Committed>;

    /// What its owner should know about it, one line each.
    fn remarks(&self) -> Answer<'_, Vec<String>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
