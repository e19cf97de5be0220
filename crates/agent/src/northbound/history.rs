//! What happened: transactions, events and timelines, of this run and of those before it.
//!
//! Decided here: what memory still holds is answered from there, and what is older from the state directory. Not decided
//! here: how long anything is remembered; see [`crate::keep::Settings`].

use std::sync::Arc;

use kilter_api::v1::{self, Problem, Reason};
use kilter_scheduler::{Moment, Record, Seq, Timestamp};

use super::change::ended;
use super::{Northbound, convert, look, pages};
use crate::desk::View;
use crate::keep::{PastError, PastEvent};

/// Why the past cannot be told.
pub(super) fn problem(error: &PastError) -> Problem {
    let reason = match error {
        PastError::Forgotten { .. } | PastError::GivenUp { .. } => Reason::Unknown,
        PastError::Store(_) | PastError::Damaged { .. } => Reason::Broken,
    };
    Problem::of(reason, error)
}

/// One more than a page holds: it says whether there is another one.
fn and_one(size: Option<usize>) -> usize {
    size.map_or(usize::MAX, |size| size + 1)
}

/// What happened to an item in one transaction.
fn moments(record: &Record, key: &str) -> Vec<v1::Moment> {
    let steps = record.changes().filter(|step| step.key.as_str() == key && look::is_told(step));
    let moments = steps.map(|step| {
        let moment = Moment { seq: record.seq, at: record.start, step };
        convert::moment(&moment, &record.txn_type, &record.description)
    });
    moments.collect()
}

/// What memory holds of the transactions.
struct Memory {
    /// Oldest first.
    records: Vec<Arc<Record>>,
    /// The oldest from which on nothing is missing; what is older is in the state directory, if there is one.
    since: Seq,
}

impl Memory {
    fn of(view: &View<'_>) -> Self {
        let history = view.scheduler.history();
        Self { records: history.iter().cloned().collect(), since: history.complete_since() }
    }

    /// What is not told by the state directory; all of it, if there is none.
    fn beside<T>(&self, older: Option<&T>) -> &[Arc<Record>] {
        let told = self.records.partition_point(|record| older.is_some() && record.seq < self.since);
        &self.records[told..]
    }
}

impl Northbound {
    /// Everything that memory holds; what is made of it holds up nobody.
    async fn memory(&self) -> Result<Memory, Problem> {
        self.desk.inquire(Memory::of).await.map_err(|gone| ended(&gone))
    }

    /// The transactions that are remembered, oldest first.
    pub(super) async fn transactions(
        &self,
        request: v1::ListTransactionsRequest,
    ) -> Result<v1::ListTransactionsReply, Problem> {
        let (size, before) =
            (pages::size(request.last, request.page_size), pages::before(&request.page_token)?);
        let (count, after) = (and_one(size), request.after);
        let is_meant = move |seq: Seq| seq > after && before.is_none_or(|before| seq < before);
        let look = move |view: &View<'_>| {
            let history = view.scheduler.history();
            let newest =
                history.iter().rev().skip_while(|record| !is_meant(record.seq) && record.seq > after);
            let newest = newest.take_while(|record| is_meant(record.seq)).take(count);
            let mut records: Vec<_> = newest.cloned().collect();
            records.reverse();
            Memory { records, since: history.complete_since() }
        };
        let memory = self.desk.inquire(look).await.map_err(|gone| ended(&gone))?;
        let since = memory.since;
        let missing = count - memory.beside(Some(&())).len();
        let older = self.desk.past(move |past| {
            let older = past.transactions(Some(before.unwrap_or(since).min(since)), missing)?;
            let older = older.iter().rev().map(|txn| &txn.record).filter(|record| is_meant(record.seq));
            Ok((older.map(convert::summary).collect::<Vec<_>>(), past.oldest()?))
        });
        let older = older.await.map_err(|error| problem(&error))?;
        let newer = memory.beside(older.as_ref()).iter().map(|record| convert::summary(record));
        let newer: Vec<_> = newer.collect();
        let (mut transactions, oldest) = older.unwrap_or_default();
        transactions.extend(newer);
        let complete_since = oldest.unwrap_or(since).min(since);
        let next_page_token = pages::cut_newest(&mut transactions, size, |txn| txn.seq);
        Ok(v1::ListTransactionsReply { transactions, complete_since, next_page_token })
    }

    /// One transaction.
    pub(super) async fn transaction(&self, seq: u64) -> Result<v1::Transaction, Problem> {
        let look = move |view: &View<'_>| {
            let history = view.scheduler.history();
            let found = history.get(seq).map(|record| convert::transaction(record));
            (found, history.complete_since(), history.newest())
        };
        let (found, since, newest) = self.desk.inquire(look).await.map_err(|gone| ended(&gone))?;
        if let Some(found) = found {
            return Ok(found);
        }
        let found = self.desk.past(move |past| match past.transaction(seq) {
            Ok(txn) => Ok((Some(convert::transaction(&txn.record)), None)),
            Err(PastError::Forgotten { .. }) => Ok((None, past.oldest()?)),
            Err(error) => Err(error),
        });
        let (found, oldest) = found.await.map_err(|error| problem(&error))?.unwrap_or_default();
        found.ok_or_else(|| {
            let first = oldest.unwrap_or(since).min(since);
            let message = format!("txn #{seq} is not remembered");
            Problem::new(Reason::Unknown, message)
                .with_hint(format!("everything from #{first} to #{newest} is"))
        })
    }

    /// The transactions that are wanted with all that was done, the oldest first.
    pub(super) async fn whole_transactions(
        &self,
        is_wanted: impl Fn(&Record) -> bool + Clone + Send + 'static,
    ) -> Result<Vec<v1::Transaction>, Problem> {
        let memory = self.memory().await?;
        let (since, is_older) = (memory.since, is_wanted.clone());
        let older = self.desk.past(move |past| {
            let older = past.transactions(Some(since), usize::MAX)?;
            let older = older.iter().rev().map(|txn| &txn.record).filter(|record| is_older(record));
            Ok(older.map(convert::transaction).collect::<Vec<_>>())
        });
        let older = older.await.map_err(|error| problem(&error))?;
        let newer = memory.beside(older.as_ref()).iter().filter(|record| is_wanted(record));
        let newer: Vec<_> = newer.map(|record| convert::transaction(record)).collect();
        let mut transactions = older.unwrap_or_default();
        transactions.extend(newer);
        Ok(transactions)
    }

    /// The last transaction that had ended at a moment; zero if none had.
    pub(super) async fn last_before(&self, moment: Timestamp) -> Result<Seq, Problem> {
        let look = move |view: &View<'_>| {
            let history = view.scheduler.history();
            let last = history.iter().rev().find(|record| record.stop <= moment).map(|record| record.seq);
            (last, history.complete_since())
        };
        let (last, since) = self.desk.inquire(look).await.map_err(|gone| ended(&gone))?;
        if let Some(last) = last {
            return Ok(last);
        }
        let older = self.desk.past(move |past| {
            let older = past.transactions(Some(since), usize::MAX)?;
            Ok(older.iter().find(|txn| txn.record.stop <= moment).map(|txn| txn.record.seq))
        });
        Ok(older.await.map_err(|error| problem(&error))?.flatten().unwrap_or_default())
    }

    /// What happened to an item, oldest first, page by page.
    pub(super) async fn timeline_page(
        &self,
        request: v1::TimelineRequest,
    ) -> Result<v1::TimelineReply, Problem> {
        let (size, before) = (pages::size(0, request.page_size), pages::before(&request.page_token)?);
        let mut moments = self.timeline_of(request.key).await?;
        moments.retain(|moment| before.is_none_or(|before| moment.txn < before));
        let next_page_token = pages::cut_newest(&mut moments, size, |moment| moment.txn);
        Ok(v1::TimelineReply { moments, next_page_token })
    }

    /// What happened to an item, oldest first.
    pub(super) async fn timeline_of(&self, key: String) -> Result<Vec<v1::Moment>, Problem> {
        let asked = key.clone();
        let look = move |view: &View<'_>| (Memory::of(view), view.scheduler.item(&asked).is_none());
        let (memory, unknown) = self.desk.inquire(look).await.map_err(|gone| ended(&gone))?;
        let (since, wanted) = (memory.since, key.clone());
        let older = self.desk.past(move |past| {
            let older = past.timeline(&wanted, usize::MAX)?;
            let older = older.iter().rev().filter(|txn| txn.record.seq < since);
            Ok(older.flat_map(|txn| moments(&txn.record, &wanted)).collect::<Vec<_>>())
        });
        let older = older.await.map_err(|error| problem(&error))?;
        let newer = memory.beside(older.as_ref()).iter().flat_map(|record| moments(record, &key));
        let newer: Vec<_> = newer.collect();
        let mut moments = older.unwrap_or_default();
        moments.extend(newer);
        if unknown && moments.is_empty() {
            return Err(self.unknown(&key).await);
        }
        Ok(moments)
    }

    /// Every transaction that memory holds.
    pub(super) async fn records(&self) -> Result<Vec<Arc<Record>>, Problem> {
        Ok(self.memory().await?.records)
    }

    /// The events that are remembered, oldest first.
    pub(super) async fn events(
        &self,
        request: v1::ListEventsRequest,
    ) -> Result<v1::ListEventsReply, Problem> {
        let (size, before) =
            (pages::size(request.last, request.page_size), pages::before(&request.page_token)?);
        let mut events = match request.seq {
            Some(seq) => {
                let mut found = self.past_events(Some(seq.saturating_add(1)), 1).await?;
                found.retain(|event| event.seq == seq);
                if found.is_empty() {
                    return Err(Problem::new(Reason::Unknown, format!("event {seq} is not remembered")));
                }
                found
            }
            None => self.past_events(before, and_one(size)).await?,
        };
        let next_page_token = pages::cut_newest(&mut events, size, |event| event.seq);
        Ok(v1::ListEventsReply { events: events.iter().map(convert::event).collect(), next_page_token })
    }

    /// So many of the newest events, or of the newest before one, oldest first: of this run and of those before it.
    pub(super) async fn past_events(
        &self,
        before: Option<u64>,
        count: usize,
    ) -> Result<Vec<PastEvent>, Problem> {
        let look = move |view: &View<'_>| {
            let history = view.events.history();
            let newest = history.iter().rev();
            let newest = newest.skip_while(|record| before.is_some_and(|before| record.seq >= before));
            let next = history.iter().next_back().map_or(0, |record| record.seq + 1);
            (newest.take(count).cloned().collect::<Vec<_>>(), next)
        };
        let (newest, next) = self.desk.inquire(look).await.map_err(|gone| ended(&gone))?;
        // Memory may have forgotten some between those it keeps for good and those that are recent.
        let gap = newest.windows(2).position(|two| two[0].seq != two[1].seq + 1);
        let whole = gap.map_or(newest.len(), |at| at + 1);
        let end = before.unwrap_or(next).min(next);
        let whole = if newest.first().is_some_and(|first| first.seq + 1 < end) { 0 } else { whole };
        let (since, missing) = match whole.checked_sub(1).and_then(|last| newest.get(last)) {
            Some(oldest) => (Some(oldest.seq), count - whole),
            None => (before, count),
        };
        let older = self.desk.past(move |past| past.events(since, missing)).await;
        let older = older.map_err(|error| problem(&error))?;
        let whole = if older.is_some() { whole } else { newest.len() };
        let mut events: Vec<PastEvent> = newest[..whole].iter().map(|record| (&**record).into()).collect();
        events.extend(older.unwrap_or_default());
        events.reverse();
        Ok(events)
    }
}
