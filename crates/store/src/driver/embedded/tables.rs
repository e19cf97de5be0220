//! The layout of the file.
//!
//! | table | key → value |
//! |---|---|
//! | `current` | key → the item as it is |
//! | `past` | key, revision that replaced or deleted it → the item as it was until then |
//! | `commits` | revision → the keys it changed, and whether each was put |
//! | `leases`, `leased` | lease → how long it lasts; lease, key → nothing |
//! | `histories` | name → first seq, last seq, count, bytes |
//! | `records`, `timelines` | history, seq → when, about what, bytes; history, about, seq → nothing |
//! | `numbers` | format, head and oldest revision, identity, last lease |
//!
//! A value is stored once: `commits` names keys only, and what a commit put is found in `current` or `past`.

use bytes::Bytes;
use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};

use super::translate::{READ, Trying, WRITE};
use crate::{Item, LeaseId, Revision, StoreError};

/// The format this program writes, and the newest it reads.
pub(super) const FORMAT: u64 = 1;

/// Created, modified, version, lease or zero, value.
pub(super) type Version = (u64, u64, u64, u64, &'static [u8]);
/// First seq, last seq, count, bytes.
pub(super) type Extent = (u64, u64, u64, u64);
/// When, about what, bytes.
pub(super) type StoredRecord = (u64, Vec<&'static str>, &'static [u8]);

pub(super) const CURRENT: TableDefinition<'_, &str, Version> = TableDefinition::new("current");
pub(super) const PAST: TableDefinition<'_, (&str, u64), Version> = TableDefinition::new("past");
pub(super) const COMMITS: TableDefinition<'_, u64, Vec<(&str, bool)>> = TableDefinition::new("commits");
pub(super) const LEASES: TableDefinition<'_, u64, u64> = TableDefinition::new("leases");
pub(super) const LEASED: TableDefinition<'_, (u64, &str), ()> = TableDefinition::new("leased");
pub(super) const HISTORIES: TableDefinition<'_, &str, Extent> = TableDefinition::new("histories");
pub(super) const RECORDS: TableDefinition<'_, (&str, u64), StoredRecord> = TableDefinition::new("records");
pub(super) const TIMELINES: TableDefinition<'_, (&str, &str, u64), ()> = TableDefinition::new("timelines");
pub(super) const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");

/// What `numbers` holds.
pub(super) mod number {
    pub(in super::super) const FORMAT: &str = "format";
    pub(in super::super) const HEAD: &str = "head";
    pub(in super::super) const OLDEST: &str = "oldest";
    pub(in super::super) const IDENTITY_HIGH: &str = "identity-high";
    pub(in super::super) const IDENTITY_LOW: &str = "identity-low";
    pub(in super::super) const LAST_LEASE: &str = "last-lease";
}

/// Every table, open for writing in one transaction.
pub(super) struct Tables<'txn> {
    pub(super) current: Table<'txn, &'static str, Version>,
    pub(super) past: Table<'txn, (&'static str, u64), Version>,
    pub(super) commits: Table<'txn, u64, Vec<(&'static str, bool)>>,
    pub(super) leases: Table<'txn, u64, u64>,
    pub(super) leased: Table<'txn, (u64, &'static str), ()>,
    pub(super) histories: Table<'txn, &'static str, Extent>,
    pub(super) records: Table<'txn, (&'static str, u64), StoredRecord>,
    pub(super) timelines: Table<'txn, (&'static str, &'static str, u64), ()>,
    pub(super) numbers: Table<'txn, &'static str, u64>,
}

impl<'txn> Tables<'txn> {
    /// Opens every table, and makes those that are absent.
    pub(super) fn open(txn: &'txn WriteTransaction) -> Result<Self, StoreError> {
        Ok(Self {
            current: txn.open_table(CURRENT).trying(WRITE)?,
            past: txn.open_table(PAST).trying(WRITE)?,
            commits: txn.open_table(COMMITS).trying(WRITE)?,
            leases: txn.open_table(LEASES).trying(WRITE)?,
            leased: txn.open_table(LEASED).trying(WRITE)?,
            histories: txn.open_table(HISTORIES).trying(WRITE)?,
            records: txn.open_table(RECORDS).trying(WRITE)?,
            timelines: txn.open_table(TIMELINES).trying(WRITE)?,
            numbers: txn.open_table(NUMBERS).trying(WRITE)?,
        })
    }

    /// A stored number; zero when it was never written.
    pub(super) fn number(&self, name: &str) -> Result<u64, StoreError> {
        number_of(&self.numbers, name)
    }

    /// Writes a number.
    pub(super) fn set_number(&mut self, name: &str, number: u64) -> Result<(), StoreError> {
        self.numbers.insert(name, number).trying(WRITE)?;
        Ok(())
    }
}

/// A stored number; zero when it was never written.
pub(super) fn number_of(
    numbers: &impl ReadableTable<&'static str, u64>,
    name: &str,
) -> Result<u64, StoreError> {
    let number = numbers.get(name).trying(READ)?;
    Ok(number.map_or(0, |number| number.value()))
}

/// A stored version as an item.
pub(super) fn item(key: &str, version: (u64, u64, u64, u64, &[u8])) -> Item {
    let (created, modified, version, lease, value) = version;
    Item {
        key: key.to_owned(),
        value: Bytes::copy_from_slice(value),
        created: Revision(created),
        modified: Revision(modified),
        version,
        lease: (lease != 0).then_some(LeaseId(lease)),
    }
}

/// An item as it is stored.
pub(super) fn version(item: &Item) -> (u64, u64, u64, u64, &[u8]) {
    (item.created.0, item.modified.0, item.version, item.lease.map_or(0, |lease| lease.0), &item.value)
}
