//! What happened: transactions, events and timelines, of this run and of those before it.
//!
//! Decided here: what memory still holds is answered from there, and what is older from the state directory. Not decided
//! here: how long anything is remembered; see [`crate::keep::Settings`].

use kilter_api::v1::{self, Problem, Reason};
use kilter_events::Query;
use kilter_scheduler::{Moment, Record};

use super::change::ended;
use super::{Northbound, convert, look};
use crate::keep::{PastError, PastEvent};

/// Why the past cannot be told.
pub(super) fn problem(error: &PastError) -> Problem {
    let reason = match error {
        PastError::Forgotten { .. } | PastError::GivenUp { .. } => Reason::Unknown,
        PastError::Store(_) | PastError::Damaged { .. } => Reason::Broken,
    };
    Problem::of(reason, error)
}

/// How many are asked for; zero means all.
fn count(last: u32) -> usize {
    if last == 0 { usize::MAX } else { last as usize }
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

impl Northbound {
    /// The transactions that are remembered.
    pub(super) async fn transactions(
        &self,
        request: v1::ListTransactionsRequest,
    ) -> Result<v1::ListTransactionsReply, Problem> {
        let (count, after) = (count(request.last), request.after);
        let look = move |view: &crate::desk::View<'_>| {
            let history = view.scheduler.history();
            let newest = history.iter().rev().take_while(|record| record.seq > after);
            let newest: Vec<_> = newest.take(count).map(|record| convert::summary(record)).collect();
            (newest, history.complete_since())
        };
        let (mut newest, since) = self.desk.inquire(look).await.map_err(|gone| ended(&gone))?;
        let missing = count - newest.len();
        let older = self.desk.past(move |past| {
            let older = past.transactions(Some(since), missing)?;
            let older = older.iter().map(|txn| &txn.record).filter(|record| record.seq > after);
            Ok((older.map(convert::summary).collect::<Vec<_>>(), past.oldest()?))
        });
        let (older, oldest) = older.await.map_err(|error| problem(&error))?.unwrap_or_default();
        newest.extend(older);
        newest.reverse();
        let complete_since = oldest.unwrap_or(since).min(since);
        Ok(v1::ListTransactionsReply { transactions: newest, complete_since })
    }

    /// One transaction.
    pub(super) async fn transaction(&self, seq: u64) -> Result<v1::Transaction, Problem> {
        let look = move |view: &crate::desk::View<'_>| {
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

    /// What happened to an item.
    pub(super) async fn timeline_of(&self, key: String) -> Result<v1::TimelineReply, Problem> {
        let asked = key.clone();
        let look = move |view: &crate::desk::View<'_>| {
            let history = view.scheduler.history();
            let told: Vec<_> = history.iter().flat_map(|record| moments(record, &asked)).collect();
            let unknown = view.scheduler.item(&asked).is_none().then(|| look::unknown(view, &asked));
            (told, history.complete_since(), unknown)
        };
        let (newer, since, unknown) = self.desk.inquire(look).await.map_err(|gone| ended(&gone))?;
        let older = self.desk.past(move |past| {
            let older = past.timeline(&key, usize::MAX)?;
            let older = older.iter().rev().filter(|txn| txn.record.seq < since);
            Ok(older.flat_map(|txn| moments(&txn.record, &key)).collect::<Vec<_>>())
        });
        let mut moments = older.await.map_err(|error| problem(&error))?.unwrap_or_default();
        moments.extend(newer);
        match unknown {
            Some(unknown) if moments.is_empty() => Err(unknown),
            _ => Ok(v1::TimelineReply { moments }),
        }
    }

    /// The events that are remembered.
    pub(super) async fn events(
        &self,
        request: v1::ListEventsRequest,
    ) -> Result<v1::ListEventsReply, Problem> {
        let count = count(request.last);
        let look = |view: &crate::desk::View<'_>| {
            let all = view.events.history().query(Query::All);
            all.iter().map(|record| PastEvent::from(&**record)).collect::<Vec<_>>()
        };
        let newer = self.desk.inquire(look).await.map_err(|gone| ended(&gone))?;
        let since = newer.first().map(|event| event.seq);
        let (older, newer) = match request.seq {
            Some(seq) => {
                let is_older = since.is_none_or(|since| seq < since);
                let older = self.desk.past(move |past| past.events(Some(seq.saturating_add(1)), 1));
                let older = if is_older { older.await } else { Ok(None) };
                let mut older = older.map_err(|error| problem(&error))?.unwrap_or_default();
                older.retain(|event| event.seq == seq);
                (older, newer.into_iter().filter(|event| event.seq == seq).collect())
            }
            None => {
                let newer = newer.split_at(newer.len().saturating_sub(count)).1.to_vec();
                let missing = count - newer.len();
                let older = self.desk.past(move |past| past.events(since, missing)).await;
                (older.map_err(|error| problem(&error))?.unwrap_or_default(), newer)
            }
        };
        let events: Vec<v1::Event> = older.iter().rev().chain(&newer).map(convert::event).collect();
        match request.seq {
            Some(seq) if events.is_empty() => {
                Err(Problem::new(Reason::Unknown, format!("event {seq} is not remembered")))
            }
            _ => Ok(v1::ListEventsReply { events }),
        }
    }
}
