//! Watches that go on: from a revision, through lost connections, members and compactions.
//!
//! Decided here: how a watch resumes. The steps of a connection:
//!
//! 1. the revision it resumes behind is read: if it was compacted, the watch says so and ends;
//! 2. the watch is made behind it;
//! 3. when its first answer comes, the revision is read once more. A compaction that came between could have made an
//!    old server leave out a deletion in silence.
//!
//! A connection that is lost is told as [`StoreError::Unavailable`], once; asked again, the watch makes another.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::{SinkExt, StreamExt, stream};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout_at};
use tonic::{Status, Streaming};

use super::peers::{LONGEST_MESSAGE, Peers, Repeat, with_token};
use super::translate::{Ended, Verdict, judge};
use super::version::Version;
use super::wire::event::EventType;
use super::wire::watch_client::WatchClient;
use super::wire::watch_request::RequestUnion;
use super::wire::{self, ResponseHeader, WatchRequest, WatchResponse, unsigned};
use super::{range_call, status_of, wire_revision};
use crate::{Cause, Change, News, Revision, StoreError, Told, Watch};

/// The wait before a lost connection is made again, doubled each time up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

const ATTEMPT: &str = "watch";

/// A stream that ended.
#[derive(Debug, thiserror::Error)]
#[error("the server ended the watch{}", .0.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
struct EndedByServer(Option<String>);

/// Starts a watch behind a revision.
pub(super) async fn start(peers: Arc<Peers>, prefix: String, after: Revision) -> Result<Watch, StoreError> {
    probe(&peers, &prefix, after).await?;
    let follow = Follow {
        peers,
        prefix,
        cursor: after,
        connection: None,
        ready: VecDeque::new(),
        pause: Duration::ZERO,
    };
    let stream = stream::unfold(Some(follow), |follow| async move {
        let mut follow = follow?;
        let news = follow.next().await;
        let ended = news.as_ref().is_err_and(|error| !error.is_retriable());
        Some((news, (!ended).then_some(follow)))
    });
    Ok(Watch::new(stream.boxed()))
}

/// Reads at a revision, to learn whether it is kept.
async fn probe(peers: &Peers, prefix: &str, at: Revision) -> Result<(), StoreError> {
    let message = wire::RangeRequest {
        key: wire::start_of(prefix),
        range_end: wire::end_of(prefix),
        limit: 1,
        revision: wire_revision(at),
        keys_only: true,
    };
    match range_call(peers, &message).await {
        Ok(_) => Ok(()),
        Err(ended) => Err(explain(peers, ended, at).await),
    }
}

/// The error for whoever asked for a revision.
pub(super) async fn explain(peers: &Peers, ended: Ended, asked: Revision) -> StoreError {
    match ended {
        Ended::Compacted => StoreError::Compacted { asked, oldest: oldest(peers, asked).await },
        Ended::Ahead => StoreError::Ahead { asked, head: head(peers).await },
        Ended::NoSuchLease => StoreError::invalid("request", "it names a lease that is not there"),
        Ended::Final(error) => error,
    }
}

/// The newest revision; zero when it cannot be learnt.
async fn head(peers: &Peers) -> Revision {
    let message = wire::RangeRequest { key: Bytes::from_static(&[0]), keys_only: true, ..Default::default() };
    range_call(peers, &message)
        .await
        .map_or(Revision::ZERO, |answer| ResponseHeader::revision(&answer.header))
}

/// The oldest revision that is kept, which only a watch that begins too early is told; one that is certainly not
/// older when it cannot be learnt.
async fn oldest(peers: &Peers, asked: Revision) -> Revision {
    let told = peers.call("ask for the oldest revision", Repeat::Harmless, |channel, token| async move {
        let create = create_request("\u{1}", Revision::ZERO);
        let (_sender, requests) = requests(create);
        let mut client = WatchClient::new(channel);
        let mut answers = client.watch(with_token(requests, token)).await?.into_inner();
        while let Some(answer) = answers.next().await.transpose()? {
            if answer.compact_revision > 0 {
                return Ok(tonic::Response::new(Revision(unsigned(answer.compact_revision))));
            }
        }
        Err(Status::unavailable("the stream ended"))
    });
    told.await.unwrap_or(asked.next())
}

fn create_request(prefix: &str, after: Revision) -> WatchRequest {
    let create = wire::WatchCreateRequest {
        key: wire::start_of(prefix),
        range_end: wire::end_of(prefix),
        start_revision: wire_revision(after.next()),
        progress_notify: true,
        fragment: true,
    };
    WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}

/// A stream of requests that begins with one and stays open as long as its sender.
fn requests(first: WatchRequest) -> (mpsc::Sender<WatchRequest>, impl stream::Stream<Item = WatchRequest>) {
    let (sender, later) = mpsc::channel(1);
    (sender, stream::iter([first]).chain(later))
}

/// One watch, and how far it is.
struct Follow {
    peers: Arc<Peers>,
    prefix: String,
    /// Everything up to here has been told, or is ready.
    cursor: Revision,
    connection: Option<Connection>,
    /// What came, and was not told yet.
    ready: VecDeque<News>,
    /// The wait before the next connection.
    pause: Duration,
}

/// A watch at one member.
struct Connection {
    member: usize,
    answers: Streaming<WatchResponse>,
    /// Keeps the stream of requests open, and asks for progress.
    requests: mpsc::Sender<WatchRequest>,
    /// When to ask for progress, where the answer can be trusted.
    ask: Option<Interval>,
    /// Whether the revision it resumed behind was read once more.
    confirmed: bool,
    /// What came of an answer in several parts.
    parts: Vec<wire::Event>,
}

impl Follow {
    async fn next(&mut self) -> Result<News, StoreError> {
        loop {
            if let Some(news) = self.ready.pop_front() {
                return Ok(news);
            }
            if self.connection.is_none() {
                self.connect().await?;
            }
            let Some(connection) = &mut self.connection else { continue };
            match connection.receive().await {
                Ok(answer) => self.take(answer).await?,
                Err(cause) => return Err(self.lost(cause)),
            }
        }
    }

    /// Makes the watch at some member, behind what was told.
    async fn connect(&mut self) -> Result<(), StoreError> {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        probe(&self.peers, &self.prefix, self.cursor).await?;
        let peers = Arc::clone(&self.peers);
        let deadline = Instant::now() + peers.settings.attempt_timeout;
        let token = match peers.token(deadline).await {
            Ok(token) => token,
            Err(ended) => return Err(explain(&peers, ended, self.cursor).await),
        };
        let (member, peer) = peers.current();
        let (sender, requests) = requests(create_request(&self.prefix, self.cursor));
        let mut client = WatchClient::new(peer.channel.clone()).max_decoding_message_size(LONGEST_MESSAGE);
        let made = timeout_at(deadline, client.watch(with_token(requests, token))).await;
        let answers = match made {
            Ok(Ok(answers)) => answers.into_inner(),
            Ok(Err(status)) => return Err(self.refused(member, status).await),
            Err(elapsed) => {
                peers.leave(member);
                return Err(unavailable(Arc::new(elapsed)));
            }
        };
        let version = status_of(&peers, peer.channel.clone()).await.ok();
        let trusted =
            version.and_then(|said| Version::parse(&said)).is_some_and(Version::answers_progress_in_order);
        let ask = trusted.then(|| {
            let mut ask = interval(peers.settings.progress_interval);
            ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ask
        });
        let parts = Vec::new();
        self.connection =
            Some(Connection { member, answers, requests: sender, ask, confirmed: false, parts });
        Ok(())
    }

    /// Takes one answer of the server.
    async fn take(&mut self, answer: WatchResponse) -> Result<(), StoreError> {
        if answer.canceled {
            return Err(self.canceled(&answer).await);
        }
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if answer.created {
            return Ok(());
        }
        if !connection.confirmed {
            connection.confirmed = true;
            if let Err(error) = probe(&self.peers, &self.prefix, self.cursor).await {
                // The answer is not believed, so it has to come again.
                self.connection = None;
                return Err(error);
            }
        }
        self.pause = Duration::ZERO;
        let Some(connection) = &mut self.connection else { return Ok(()) };
        connection.parts.extend(answer.events);
        if answer.fragment {
            return Ok(());
        }
        let events = std::mem::take(&mut connection.parts);
        if events.is_empty() {
            let revision = ResponseHeader::revision(&answer.header);
            if revision > self.cursor {
                self.cursor = revision;
                self.ready.push_back(News::Progress(revision));
            }
            return Ok(());
        }
        for told in commits(events) {
            // A member that was restarted may begin again a little earlier.
            if told.revision > self.cursor {
                self.cursor = told.revision;
                self.ready.push_back(News::Commit(told));
            }
        }
        Ok(())
    }

    /// The server ended the watch: because of a compaction, for good; for any other reason, until it is made again.
    async fn canceled(&mut self, answer: &WatchResponse) -> StoreError {
        if answer.compact_revision > 0 {
            let oldest = Revision(unsigned(answer.compact_revision));
            return StoreError::Compacted { asked: self.cursor, oldest };
        }
        let why = Some(answer.cancel_reason.clone()).filter(|why| !why.is_empty());
        if why.as_ref().is_some_and(|why| why.contains("permission denied")) {
            let source = Arc::new(EndedByServer(why));
            return StoreError::Denied { attempt: ATTEMPT.to_owned(), source };
        }
        self.peers.forget_token().await;
        self.lost(Arc::new(EndedByServer(why)))
    }

    /// The server did not want to make the watch.
    async fn refused(&mut self, member: usize, status: Status) -> StoreError {
        match judge(ATTEMPT, &status) {
            Verdict::Refused(ended) => return explain(&self.peers, ended, self.cursor).await,
            Verdict::Token => self.peers.forget_token().await,
            Verdict::NotDone | Verdict::Unknown => {}
        }
        self.peers.leave(member);
        unavailable(Arc::new(status))
    }

    /// Gives a connection up.
    fn lost(&mut self, cause: Cause) -> StoreError {
        if let Some(connection) = self.connection.take() {
            self.peers.leave(connection.member);
        }
        unavailable(cause)
    }
}

fn unavailable(source: Cause) -> StoreError {
    StoreError::Unavailable { attempt: ATTEMPT.to_owned(), source }
}

impl Connection {
    /// The next answer; asks how far the watch is while there is none.
    async fn receive(&mut self) -> Result<WatchResponse, Cause> {
        loop {
            let Some(ask) = &mut self.ask else { return received(self.answers.next().await) };
            let answer = pin!(self.answers.next());
            let tick = pin!(ask.tick());
            match futures::future::select(answer, tick).await {
                futures::future::Either::Left((answer, _)) => return received(answer),
                futures::future::Either::Right(_) => {
                    let progress = RequestUnion::ProgressRequest(wire::WatchProgressRequest {});
                    let request = WatchRequest { request_union: Some(progress) };
                    if self.requests.send(request).await.is_err() {
                        return Err(Arc::new(EndedByServer(None)));
                    }
                }
            }
        }
    }
}

fn received(answer: Option<Result<WatchResponse, Status>>) -> Result<WatchResponse, Cause> {
    match answer {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(status)) => Err(Arc::new(status)),
        None => Err(Arc::new(EndedByServer(None))),
    }
}

/// Events as the commits they are of, in order.
fn commits(events: Vec<wire::Event>) -> Vec<Told> {
    let mut commits: Vec<Told> = Vec::new();
    for event in events {
        let deleted = event.r#type() == EventType::Delete;
        let Some(item) = event.kv.and_then(wire::KeyValue::into_item) else { continue };
        let revision = item.modified;
        let change = if deleted { Change::Deleted(item.key) } else { Change::Put(item) };
        match commits.last_mut().filter(|told| told.revision == revision) {
            Some(told) => told.changes.push(change),
            None => commits.push(Told { revision, changes: vec![change] }),
        }
    }
    for told in &mut commits {
        told.changes.sort_by(|one, other| one.key().cmp(other.key()));
    }
    commits
}
