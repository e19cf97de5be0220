//! Histories: records behind each other, beside the items in the same file.
//!
//! Decided here: how records are numbered, bounded and found. What a record says is its writer's affair: it is bytes,
//! with a time and the names of what it is about. A history is trimmed as it grows, from its oldest end.

use std::collections::HashMap;
use std::ops::RangeBounds;
use std::time::Duration;

use bytes::Bytes;
use redb::{ReadOnlyTable, ReadTransaction, ReadableTable};

use super::tables::{Extent, HISTORIES, RECORDS, StoredRecord, TIMELINES, Tables};
use super::translate::{READ, Trying, WRITE};
use crate::StoreError;
use crate::item::check_key;

/// A record to append to a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Append {
    /// The name of the history.
    pub history: String,
    /// Its position, above that of every record before it.
    pub seq: u64,
    /// When it happened, in milliseconds since the epoch.
    pub at_millis: u64,
    /// What it is about: it is found again by each of these, in their timelines.
    pub about: Vec<String>,
    /// What it says.
    pub bytes: Bytes,
}

/// How long a history may become. The newest record always stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Records older than this, seen from the newest, are forgotten.
    pub age: Option<Duration>,
    /// At most so many records.
    pub count: Option<u64>,
    /// At most so many bytes of records.
    pub bytes: Option<u64>,
}

/// A record of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its position.
    pub seq: u64,
    /// When it happened, in milliseconds since the epoch.
    pub at_millis: u64,
    /// What it is about.
    pub about: Vec<String>,
    /// What it says.
    pub bytes: Bytes,
}

/// One history as it is at one moment.
pub struct History {
    name: String,
    extent: Option<Extent>,
    records: ReadOnlyTable<(&'static str, u64), StoredRecord>,
    timelines: ReadOnlyTable<(&'static str, &'static str, u64), ()>,
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("History")
            .field("name", &self.name)
            .field("extent", &self.extent)
            .finish_non_exhaustive()
    }
}

impl History {
    pub(super) fn open(txn: &ReadTransaction, name: &str) -> Result<Self, StoreError> {
        let histories = txn.open_table(HISTORIES).trying(READ)?;
        let extent = histories.get(name).trying(READ)?.map(|extent| extent.value());
        let records = txn.open_table(RECORDS).trying(READ)?;
        let timelines = txn.open_table(TIMELINES).trying(READ)?;
        Ok(Self { name: name.to_owned(), extent, records, timelines })
    }

    /// The position of the oldest record; `None` before the first.
    pub fn first(&self) -> Option<u64> {
        self.extent.map(|(first, ..)| first)
    }

    /// The position of the newest record; `None` before the first.
    pub fn last(&self) -> Option<u64> {
        self.extent.map(|(_, last, ..)| last)
    }

    /// How many records there are.
    pub fn count(&self) -> u64 {
        self.extent.map_or(0, |(_, _, count, _)| count)
    }

    /// How many bytes they hold.
    pub fn bytes(&self) -> u64 {
        self.extent.map_or(0, |(.., bytes)| bytes)
    }

    /// The record at a position.
    pub fn get(&self, seq: u64) -> Result<Option<Record>, StoreError> {
        let stored = self.records.get((self.name.as_str(), seq)).trying(READ)?;
        Ok(stored.map(|stored| record(seq, stored.value())))
    }

    /// Records of some positions, the oldest first, at most so many.
    pub fn forward(&self, seqs: impl RangeBounds<u64>, limit: usize) -> Result<Vec<Record>, StoreError> {
        let entries = self.records.range(self.span(seqs)).trying(READ)?;
        entries.take(limit).map(|entry| read(entry.trying(READ)?)).collect()
    }

    /// Records of some positions, the newest first, at most so many.
    pub fn backward(&self, seqs: impl RangeBounds<u64>, limit: usize) -> Result<Vec<Record>, StoreError> {
        let entries = self.records.range(self.span(seqs)).trying(READ)?;
        entries.rev().take(limit).map(|entry| read(entry.trying(READ)?)).collect()
    }

    /// The positions of the records about something, the newest first, at most so many.
    pub fn timeline(
        &self,
        about: &str,
        seqs: impl RangeBounds<u64>,
        limit: usize,
    ) -> Result<Vec<u64>, StoreError> {
        let (start, end) = ends(seqs);
        let name = self.name.as_str();
        let entries = self.timelines.range((name, about, start)..=(name, about, end)).trying(READ)?;
        entries.rev().take(limit).map(|entry| Ok(entry.trying(READ)?.0.value().2)).collect()
    }

    fn span(&self, seqs: impl RangeBounds<u64>) -> std::ops::RangeInclusive<(&str, u64)> {
        let (start, end) = ends(seqs);
        (self.name.as_str(), start)..=(self.name.as_str(), end)
    }
}

/// The first and the last position of a range; a range of nothing begins behind its end.
fn ends(seqs: impl RangeBounds<u64>) -> (u64, u64) {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let start = match seqs.start_bound() {
        Included(seq) => Some(*seq),
        Excluded(seq) => seq.checked_add(1),
        Unbounded => Some(0),
    };
    let end = match seqs.end_bound() {
        Included(seq) => Some(*seq),
        Excluded(seq) => seq.checked_sub(1),
        Unbounded => Some(u64::MAX),
    };
    start.zip(end).filter(|(start, end)| start <= end).unwrap_or((u64::MAX, u64::MAX))
}

type Entry = (redb::AccessGuard<'static, (&'static str, u64)>, redb::AccessGuard<'static, StoredRecord>);

fn read((key, stored): Entry) -> Result<Record, StoreError> {
    Ok(record(key.value().1, stored.value()))
}

fn record(seq: u64, (at_millis, about, bytes): (u64, Vec<&str>, &[u8])) -> Record {
    let about = about.into_iter().map(str::to_owned).collect();
    Record { seq, at_millis, about, bytes: Bytes::copy_from_slice(bytes) }
}

/// Refuses records that cannot be appended to any history.
pub(super) fn check(appends: &[Append]) -> Result<(), StoreError> {
    let mut last = HashMap::new();
    for append in appends {
        check_key(&append.history)?;
        append.about.iter().try_for_each(|about| check_key(about))?;
        if last.insert(append.history.as_str(), append.seq).is_some_and(|last| last >= append.seq) {
            return Err(out_of_order(append));
        }
    }
    Ok(())
}

/// Refuses records whose position is not above the last of their history.
pub(super) fn check_seqs(tables: &Tables<'_>, appends: &[Append]) -> Result<(), StoreError> {
    for append in appends {
        let extent = tables.histories.get(append.history.as_str()).trying(READ)?;
        if extent.is_some_and(|extent| extent.value().1 >= append.seq) {
            return Err(out_of_order(append));
        }
    }
    Ok(())
}

fn out_of_order(append: &Append) -> StoreError {
    let reason = format!("its seq {} is not above the last one of `{}`", append.seq, append.history);
    StoreError::invalid("record", reason)
}

/// Appends a record, and forgets the oldest ones until the bounds hold.
pub(super) fn append(tables: &mut Tables<'_>, append: &Append, bounds: Bounds) -> Result<(), StoreError> {
    let name = append.history.as_str();
    let about: Vec<&str> = append.about.iter().map(String::as_str).collect();
    for about in &about {
        tables.timelines.insert((name, *about, append.seq), ()).trying(WRITE)?;
    }
    let size = size_of_record(&about, &append.bytes);
    tables
        .records
        .insert((name, append.seq), (append.at_millis, about, append.bytes.as_ref()))
        .trying(WRITE)?;
    let before = tables.histories.get(name).trying(READ)?.map(|extent| extent.value());
    let (first, _, count, bytes) = before.unwrap_or((append.seq, 0, 0, 0));
    let extent = (first, append.seq, count + 1, bytes + size);
    let extent = trim(tables, name, extent, bounds, append.at_millis)?;
    tables.histories.insert(name, extent).trying(WRITE)?;
    Ok(())
}

fn size_of_record(about: &[&str], bytes: &[u8]) -> u64 {
    let total = bytes.len() + about.iter().map(|about| about.len()).sum::<usize>();
    u64::try_from(total).expect("a length fits in 64 bits")
}

/// Forgets the oldest records until the bounds hold; the newest always stays.
fn trim(
    tables: &mut Tables<'_>,
    name: &str,
    extent: Extent,
    bounds: Bounds,
    now_millis: u64,
) -> Result<Extent, StoreError> {
    let (mut first, last, mut count, mut bytes) = extent;
    let age = bounds.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
    while count > 1 {
        let oldest = tables.records.get((name, first)).trying(READ)?;
        let Some((at, about, size)) = oldest.map(|oldest| {
            let (at, about, said) = oldest.value();
            let size = size_of_record(&about, said);
            (at, about.into_iter().map(str::to_owned).collect::<Vec<_>>(), size)
        }) else {
            break;
        };
        let over = bounds.count.is_some_and(|most| count > most)
            || bounds.bytes.is_some_and(|most| bytes > most)
            || age.is_some_and(|age| now_millis.saturating_sub(at) > age);
        if !over {
            break;
        }
        tables.records.remove((name, first)).trying(WRITE)?;
        for about in &about {
            tables.timelines.remove((name, about.as_str(), first)).trying(WRITE)?;
        }
        count -= 1;
        bytes = bytes.saturating_sub(size);
        let next = tables.records.range((name, first)..=(name, last)).trying(READ)?.next();
        first = match next {
            Some(entry) => entry.trying(READ)?.0.value().1,
            None => last,
        };
    }
    Ok((first, last, count, bytes))
}
