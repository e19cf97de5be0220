//! Watching: server-sent events for statuses, transactions, events and confirmations.
//!
//! Decided here: one task follows the agent for all watchers ([`Board`]) and writes each change once; a watcher takes it
//! from there. Whoever is too slow for the board, or was away, goes on from the agent's history, and if that does not
//! reach back far enough, with a snapshot. So nothing is lost silently, and a watcher that does not read costs nothing.
//!
//! What belongs to a change is told before its `statuses`, which carry the cursor: whoever goes on from a cursor may hear
//! something twice, and misses nothing.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use kilter_api::openapi::{Answer, Form};
use kilter_api::v1;
use kilter_events::{EventRecord, Query};
use kilter_scheduler::{Changes, Cursor, Record, Status};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};

use super::Rest;
use super::asked::Asked;
use super::route::Route;
use super::trouble::Trouble;
use crate::desk::{Desk, Gone, View};
use crate::keep::PastEvent;
use crate::northbound::door::Caller;
use crate::northbound::{Northbound, confirm, convert, look};

/// How many changes the board holds; whoever is further behind goes on from the history.
const BOARD: usize = 256;

/// How many frames wait for one watcher that reads slowly.
const WAITING: usize = 4;

/// How often a watcher to whom nothing happens is told that the agent is there.
const QUIET: Duration = Duration::from_secs(15);

/// After a change was told, the next one is told as much later as this for each watcher: what happens meanwhile is told
/// together. It is a little more than telling one watcher takes, so that watchers never take all of a processor, nor fall
/// off the board because there are many of them.
const REST: Duration = Duration::from_micros(50);

/// However few they are, the next change is told as much later as this: a busy agent is not asked after every transaction.
const LEAST_REST: Duration = Duration::from_millis(1);

/// How often it is looked for what no transaction tells.
const LOOK: Duration = Duration::from_secs(1);

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/watch", watch)
            .about("Tells what changes, as server-sent events: `statuses` (a snapshot first), `transaction`, `event`, `confirmation`.")
            .may("cursor", Form::Text, "The last cursor that was seen: goes on from there.")
            .may("prefix", Form::Text, "Only statuses of items whose keys start with this.")
            .header("Last-Event-ID", "The same, as browsers say it.")
            .gives(Answer::Text("text/event-stream")),
    ]
}

/// One event of a stream.
pub(super) fn frame(event: &str, id: Option<&str>, message: &impl Serialize) -> Bytes {
    let json = serde_json::to_string(message).unwrap_or_else(|_| "null".to_owned());
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("event: {event}\n{id}data: {json}\n\n").into()
}

/// A response that is a stream of events.
pub(super) fn streamed(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let body = Body::from_stream(frames.map(Ok::<_, Infallible>));
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}

/// How far somebody has been told everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    /// The last transaction.
    txn: u64,
    /// The next event.
    event: u64,
}

impl Position {
    /// The newest.
    fn of(view: &View<'_>) -> Self {
        let newest = view.events.history().iter().next_back();
        Self { txn: view.scheduler.history().newest(), event: newest.map_or(0, |record| record.seq + 1) }
    }

    /// Whether everything up to another position has been told.
    fn covers(self, other: Self) -> bool {
        self.txn >= other.txn && self.event >= other.event
    }

    /// A position out of a cursor of this run: `RUN:TXN.EVENT`, or `RUN:TXN` as other replies tell it.
    fn parse(text: &str, instance: &str) -> Option<(u64, Option<u64>)> {
        let (run, position) = text.rsplit_once(':')?;
        let (txn, event) = match position.split_once('.') {
            Some((txn, event)) => (txn, Some(event.parse().ok()?)),
            None => (position, None),
        };
        (run == instance).then_some((txn.parse().ok()?, event))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.txn, self.event)
    }
}

/// What is seen in one look at the loop. What it becomes on the wire is made elsewhere, and holds up nobody.
struct Glimpse {
    transactions: Vec<Arc<Record>>,
    events: Vec<Arc<EventRecord>>,
    confirmation: Option<v1::Confirmation>,
    position: Position,
    /// What changed, some of it ready for the wire; `None` if everything has to be told.
    changed: Option<(Vec<v1::Status>, Vec<Status>)>,
}

impl Glimpse {
    fn of(view: &View<'_>, from: Option<Position>, prefix: &str) -> Self {
        let history = view.scheduler.history();
        let changed = from.filter(|from| history.reaches_back_to(from.txn)).and_then(|from| {
            match view.scheduler.watch(Some(Cursor::after(from.txn))).0 {
                Changes::Snapshot(_) => None,
                Changes::Changed(mut some) => {
                    let later = some.split_off(some.len().min(look::FEW));
                    Some((look::changed(view, &some, prefix), later))
                }
            }
        });
        let position = Position::of(view);
        let from = from.unwrap_or(position);
        let newer = history.iter().rev().take_while(|record| record.seq > from.txn);
        let mut transactions: Vec<_> = newer.cloned().collect();
        transactions.reverse();
        let events = view.events.history().query(Query::Range(from.event, u64::MAX));
        let confirmation = view.ledger.confirmation.as_ref().map(confirm::confirmation);
        Self { transactions, events, confirmation, position, changed }
    }
}

/// What happened since a position.
struct Since {
    transactions: Vec<v1::TransactionSummary>,
    events: Vec<v1::Event>,
    confirmation: Option<v1::Confirmation>,
    snapshot: bool,
    statuses: Vec<v1::Status>,
    position: Position,
}

impl Since {
    /// Looks; without a position everything there is, and nothing that happened.
    ///
    /// **Guarantees** that the loop is held up by a few items at a time, however many there are.
    async fn look(desk: &Desk, from: Option<Position>, prefix: &str) -> Result<Self, Gone> {
        let begins = prefix.to_owned();
        let mut glimpse = desk.inquire(move |view| Glimpse::of(view, from, &begins)).await?;
        let snapshot = glimpse.changed.is_none();
        let statuses = match glimpse.changed.take() {
            Some((mut told, later)) => {
                for some in later.chunks(look::FEW) {
                    let (some, begins) = (some.to_vec(), prefix.to_owned());
                    told.extend(desk.inquire(move |view| look::changed(view, &some, &begins)).await?);
                }
                told
            }
            None => {
                let begins = prefix.to_owned();
                let swept = desk.sweep(move |view, key| {
                    let is_meant =
                        key.as_str().starts_with(&begins) && view.scheduler.base_of(key.as_str()).is_none();
                    is_meant.then(|| convert::status(view, &view.scheduler.status(key.as_str())))
                });
                // What changed meanwhile is told once more with what comes next.
                swept.await?.found.into_values().collect()
            }
        };
        let Glimpse { transactions, events, confirmation, position, .. } = glimpse;
        Ok(Self {
            transactions: transactions.iter().map(|record| convert::summary(record)).collect(),
            events: events.iter().map(|record| convert::event(&PastEvent::from(&**record))).collect(),
            confirmation,
            snapshot,
            statuses,
            position,
        })
    }

    /// What belongs to the change, apart from statuses.
    fn frames(&self) -> Vec<u8> {
        let transactions =
            self.transactions.iter().map(|transaction| frame("transaction", None, transaction));
        let events = self.events.iter().map(|event| frame("event", None, event));
        transactions.chain(events).collect::<Vec<Bytes>>().concat()
    }
}

/// Statuses with the cursor; without any, the cursor alone.
fn cursor_frame(told: &v1::StatusesChanged) -> Bytes {
    if told.snapshot || !told.statuses.is_empty() {
        return frame("statuses", Some(&told.cursor), told);
    }
    format!("id: {}\n\n", told.cursor).into()
}

/// A change, written once for all watchers.
#[derive(Clone)]
struct Notice {
    position: Position,
    /// Transactions, events and confirmations.
    frames: Bytes,
    told: Arc<v1::StatusesChanged>,
    /// All of it, for whoever wants everything: a thousand watchers share it.
    whole: Bytes,
    /// Whether it tells of a confirmation, which has no position.
    confirms: bool,
}

/// Where every watcher takes changes from.
#[derive(Clone)]
pub(super) struct Board {
    notices: broadcast::Sender<Notice>,
}

impl Board {
    /// Follows an agent until it ends.
    pub(super) fn follow(agent: &Northbound) -> Self {
        let (notices, _) = broadcast::channel(BOARD);
        let board = Self { notices: notices.clone() };
        let (desk, instance) = (agent.desk.clone(), Arc::clone(&agent.instance));
        tokio::spawn(async move {
            // When the agent has ended, so has every watcher.
            let _ = follow(desk, &instance, &notices).await;
        });
        board
    }
}

async fn follow(desk: Desk, instance: &str, notices: &broadcast::Sender<Notice>) -> Result<(), Gone> {
    let mut newest = desk.newest();
    let mut position = desk.inquire(Position::of).await?;
    let mut confirmation = None;
    loop {
        // What no transaction tells is looked for now and then.
        if let Ok(ended) = tokio::time::timeout(LOOK, newest.changed()).await {
            ended.map_err(|_| Gone)?;
        }
        if notices.receiver_count() == 0 {
            let now = desk.inquire(Position::of).await?;
            // Asked again: whoever watches since then has looked before, and must hear of everything since.
            if notices.receiver_count() == 0 {
                position = now;
                tokio::time::sleep(LEAST_REST).await;
                continue;
            }
        }
        let since = Since::look(&desk, Some(position), "").await?;
        let mut frames = since.frames();
        let confirms = since.confirmation != confirmation;
        if confirms {
            confirmation.clone_from(&since.confirmation);
            let reply = v1::GetConfirmationReply { confirmation: since.confirmation };
            frames.extend_from_slice(&frame("confirmation", None, &reply));
        }
        if position == since.position && frames.is_empty() {
            continue;
        }
        position = since.position;
        let cursor = format!("{instance}:{position}");
        let told = v1::StatusesChanged { snapshot: since.snapshot, statuses: since.statuses, cursor };
        let whole = [&frames, cursor_frame(&told).as_ref()].concat().into();
        let told = Arc::new(told);
        // Whether anybody watches does not matter.
        let _ = notices.send(Notice { position, frames: frames.into(), told, whole, confirms });
        let watchers = u32::try_from(notices.receiver_count()).unwrap_or(u32::MAX);
        tokio::time::sleep(REST.saturating_mul(watchers).max(LEAST_REST)).await;
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WatchQuery {
    cursor: Option<String>,
    prefix: String,
}

async fn watch(
    State(rest): State<Rest>,
    Extension(_): Extension<Caller>,
    headers: HeaderMap,
    Asked(query): Asked<WatchQuery>,
) -> Result<Response, Trouble> {
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok());
    let said = last.or(query.cursor.as_deref());
    let said = said.and_then(|text| Position::parse(text, &rest.agent.instance));
    // It takes changes from before it looks, so that nothing falls between.
    let notices = rest.board.notices.subscribe();
    let newest = rest.agent.desk.inquire(Position::of).await?;
    let read = said.map(|(txn, event)| Position { txn, event: event.unwrap_or(newest.event) });
    let (sender, receiver) = mpsc::channel(WAITING);
    let watcher = Watcher {
        notices,
        desk: rest.agent.desk.clone(),
        instance: Arc::clone(&rest.agent.instance),
        prefix: query.prefix,
        read,
        sender,
        agent: rest.agent.clone(),
    };
    tokio::spawn(watcher.run());
    Ok(streamed(ReceiverStream::new(receiver)))
}

/// Somebody who watches.
struct Watcher {
    notices: broadcast::Receiver<Notice>,
    desk: Desk,
    instance: Arc<str>,
    prefix: String,
    /// Up to where everything was told; `None` before the first snapshot.
    read: Option<Position>,
    sender: mpsc::Sender<Bytes>,
    /// Who says when the agent hands over.
    agent: Northbound,
}

impl Watcher {
    /// Tells what changes until the watcher, or the agent, has gone.
    async fn run(mut self) {
        let mut must_catch_up = true;
        loop {
            // Room comes first: what is not taken stays on the board, and what falls off it is in the history.
            let Ok(permit) = self.sender.clone().reserve_owned().await else { return };
            if must_catch_up {
                let Ok(frames) = self.catch_up().await else { return };
                permit.send(frames);
                must_catch_up = false;
                continue;
            }
            let told = tokio::select! {
                told = tokio::time::timeout(QUIET, self.notices.recv()) => told,
                () = self.sender.closed() => return,
                // Whoever watches comes again, and the next agent goes on.
                () = self.agent.closing() => return,
            };
            match told {
                Err(_) => drop(permit.send(Bytes::from_static(b": here\n\n"))),
                Ok(Ok(notice)) => {
                    if let Some(frames) = self.wanted(&notice) {
                        permit.send(frames);
                    }
                }
                Ok(Err(RecvError::Lagged(_))) => must_catch_up = true,
                Ok(Err(RecvError::Closed)) => return,
            }
        }
    }

    /// What a notice is to this watcher.
    fn wanted(&mut self, notice: &Notice) -> Option<Bytes> {
        if self.read.is_some_and(|read| read.covers(notice.position)) && !notice.confirms {
            return None;
        }
        self.read = Some(notice.position);
        if self.prefix.is_empty() {
            return Some(notice.whole.clone());
        }
        let concerned = notice.told.statuses.iter().filter(|status| status.key.starts_with(&self.prefix));
        let statuses = concerned.cloned().collect();
        let (snapshot, cursor) = (notice.told.snapshot, notice.told.cursor.clone());
        let statuses = cursor_frame(&v1::StatusesChanged { snapshot, statuses, cursor });
        Some([notice.frames.as_ref(), statuses.as_ref()].concat().into())
    }

    /// What happened since the last thing that was told: everything, if it is the first, or too long ago.
    async fn catch_up(&mut self) -> Result<Bytes, Gone> {
        let since = Since::look(&self.desk, self.read, &self.prefix).await?;
        let mut frames = since.frames();
        self.read = Some(since.position);
        // Also that none waits: one may have ended since the last thing that was told.
        let reply = v1::GetConfirmationReply { confirmation: since.confirmation };
        frames.extend_from_slice(&frame("confirmation", None, &reply));
        let cursor = format!("{}:{}", self.instance, since.position);
        let told = v1::StatusesChanged { snapshot: since.snapshot, statuses: since.statuses, cursor };
        frames.extend_from_slice(&cursor_frame(&told));
        Ok(frames.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_of_another_run_is_none() {
        let position = Position { txn: 7, event: 3 };
        let cursor = format!("a-b:{position}");
        assert_eq!(Position::parse(&cursor, "a-b"), Some((7, Some(3))));
        assert_eq!(Position::parse("a-b:7", "a-b"), Some((7, None)));
        assert_eq!(Position::parse(&cursor, "a-c"), None);
        for odd in ["", ":", "a-b:", "a-b:x.1", "a-b:1.x", "a-b:-1.0"] {
            assert_eq!(Position::parse(odd, "a-b"), None, "{odd}");
        }
    }
}
