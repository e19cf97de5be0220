//! Declared state at rest: items under keys, changed by commits that count one growing revision.
//!
//! Decided here: what a store promises ([`Store`]), and in which words it fails ([`StoreError`]). *Absent* is `None`
//! with the revision at which it is true, *empty* is a value of no bytes, *unavailable* is an error: the three are
//! never mistaken for each other. Who is told of changes beyond a [`Watch`], and what a value means, is decided
//! elsewhere.
//!
//! | driver | for |
//! |---|---|
//! | [`embedded`] | one machine: one file, nothing to install; histories lie beside the items |
//! | [`etcd`] | a fleet: an etcd cluster, 3.4 or newer |
//!
//! Read [`Store`] first, then [`Commit`], [`Snapshot`] and [`Watch`].

mod commit;
mod driver;
mod error;
mod item;
mod lease;
mod range;
mod revision;
mod store;
mod watch;

pub use commit::{Commit, Committed, Compare, Difference, Expected, Put};
pub use driver::{embedded, etcd};
pub use error::{Cause, Holder, StoreError};
pub use item::Item;
pub use lease::{Lease, LeaseId};
pub use range::{Found, Range, Snapshot};
pub use revision::Revision;
pub use store::{Answer, Identity, Store};
pub use watch::{Change, News, Told, Watch};
