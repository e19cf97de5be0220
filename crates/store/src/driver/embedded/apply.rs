//! Batches, applied to the tables of one transaction of the file.
//!
//! Decided here: everything that may refuse a batch comes before its first change, so that a refused batch leaves its
//! neighbours in the transaction alone.

use redb::ReadableTable;

use super::history;
use super::settings::Settings;
use super::tables::{Tables, item, number, version};
use super::translate::{READ, Trying, WRITE};
use super::{Batch, compact};
use crate::{Change, Commit, Committed, Difference, Item, Put, Revision, StoreError, Told};

/// The longest value of an item or a record, in bytes.
const LONGEST_VALUE: usize = 64 << 20;

/// Batches that share one transaction of the file.
pub(super) struct Group<'txn> {
    pub(super) tables: Tables<'txn>,
    pub(super) head: Revision,
    pub(super) oldest: Revision,
    /// The commits made so far, for the watches.
    pub(super) told: Vec<Told>,
}

impl<'txn> Group<'txn> {
    pub(super) fn begin(tables: Tables<'txn>) -> Result<Self, StoreError> {
        let head = Revision(tables.number(number::HEAD)?);
        let oldest = Revision(tables.number(number::OLDEST)?);
        Ok(Self { tables, head, oldest, told: Vec::new() })
    }

    /// Compacts what is over the bound, and writes how far the store is.
    pub(super) fn end(&mut self, keep: Option<u64>) -> Result<(), StoreError> {
        if let Some(keep) = keep {
            let before = Revision(self.head.0.saturating_sub(keep));
            compact::forget(self, before)?;
        }
        self.tables.set_number(number::HEAD, self.head.0)?;
        self.tables.set_number(number::OLDEST, self.oldest.0)
    }
}

/// Writes one batch, or refuses it before anything is changed.
pub(super) fn write(
    group: &mut Group<'_>,
    batch: &Batch,
    settings: &Settings,
) -> Result<Committed, StoreError> {
    check_lengths(batch)?;
    check_comparisons(&group.tables, &batch.commit)?;
    check_lease(&group.tables, &batch.commit)?;
    history::check_seqs(&group.tables, &batch.appends)?;
    let committed = change(group, &batch.commit)?;
    for append in &batch.appends {
        let bounds = settings.histories.get(&append.history).copied().unwrap_or_default();
        history::append(&mut group.tables, append, bounds)?;
    }
    Ok(committed)
}

/// Deletes keys in one commit.
pub(super) fn delete_all(group: &mut Group<'_>, keys: &[String]) -> Result<Committed, StoreError> {
    change(group, &Commit { deletes: keys.to_vec(), ..Commit::default() })
}

fn check_lengths(batch: &Batch) -> Result<(), StoreError> {
    let values = batch.commit.puts.iter().map(|put| put.value.len());
    let longest = values.chain(batch.appends.iter().map(|append| append.bytes.len())).max();
    if longest.is_some_and(|longest| longest > LONGEST_VALUE) {
        return Err(StoreError::invalid("value", format!("it is longer than {LONGEST_VALUE} bytes")));
    }
    Ok(())
}

fn check_comparisons(tables: &Tables<'_>, commit: &Commit) -> Result<(), StoreError> {
    let mut differences = Vec::new();
    for compare in &commit.compare {
        let actual = current(tables, &compare.key)?;
        if !compare.expected.holds(actual.as_ref()) {
            let (key, expected) = (compare.key.clone(), compare.expected.clone());
            differences.push(Difference { key, expected, actual });
        }
    }
    if differences.is_empty() { Ok(()) } else { Err(StoreError::Conflict { differences }) }
}

fn check_lease(tables: &Tables<'_>, commit: &Commit) -> Result<(), StoreError> {
    match commit.lease {
        Some(lease) if tables.leases.get(lease.0).trying(READ)?.is_none() => {
            Err(StoreError::NoSuchLease(lease))
        }
        Some(_) | None => Ok(()),
    }
}

/// Makes the puts and deletes of a commit under the next revision; none if they change nothing.
fn change(group: &mut Group<'_>, commit: &Commit) -> Result<Committed, StoreError> {
    let revision = group.head.next();
    let mut changes = Vec::new();
    for one in &commit.puts {
        changes.push(Change::Put(put(&mut group.tables, revision, one, commit)?));
    }
    for key in &commit.deletes {
        if let Some(previous) = current(&group.tables, key)? {
            retire(&mut group.tables, &previous, revision)?;
            group.tables.current.remove(key.as_str()).trying(WRITE)?;
            changes.push(Change::Deleted(key.clone()));
        }
    }
    if changes.is_empty() {
        return Ok(Committed { revision: group.head });
    }
    changes.sort_by(|one, other| one.key().cmp(other.key()));
    let keys =
        changes.iter().map(|change| (change.key(), matches!(change, Change::Put(_)))).collect::<Vec<_>>();
    group.tables.commits.insert(revision.0, keys).trying(WRITE)?;
    group.head = revision;
    group.told.push(Told { revision, changes });
    Ok(Committed { revision })
}

fn put(tables: &mut Tables<'_>, revision: Revision, put: &Put, commit: &Commit) -> Result<Item, StoreError> {
    let previous = current(tables, &put.key)?;
    if let Some(previous) = &previous {
        retire(tables, previous, revision)?;
    }
    let item = Item {
        key: put.key.clone(),
        value: put.value.clone(),
        created: previous.as_ref().map_or(revision, |previous| previous.created),
        modified: revision,
        version: previous.as_ref().map_or(1, |previous| previous.version + 1),
        lease: commit.lease,
    };
    tables.current.insert(put.key.as_str(), version(&item)).trying(WRITE)?;
    if let Some(lease) = item.lease {
        tables.leased.insert((lease.0, put.key.as_str()), ()).trying(WRITE)?;
    }
    Ok(item)
}

/// Keeps an item as it was until a revision, and frees it from its lease.
fn retire(tables: &mut Tables<'_>, item: &Item, until: Revision) -> Result<(), StoreError> {
    tables.past.insert((item.key.as_str(), until.0), version(item)).trying(WRITE)?;
    if let Some(lease) = item.lease {
        tables.leased.remove((lease.0, item.key.as_str())).trying(WRITE)?;
    }
    Ok(())
}

fn current(tables: &Tables<'_>, key: &str) -> Result<Option<Item>, StoreError> {
    let stored = tables.current.get(key).trying(READ)?;
    Ok(stored.map(|stored| item(key, stored.value())))
}
