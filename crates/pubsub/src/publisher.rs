//! The publishing side: serves any number of subscribers from one log, without I/O, clock or thread.
//!
//! Decided here: what a subscriber gets and when. It is a cursor into the log: what it has no room for stays in the
//! log, and what left the log is compared by digests. How a subscription catches up is in `catch_up`; where commits come
//! from is in `distributor`; who carries the frames is in `transport`.

mod catch_up;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use crate::change::{Change, Commit, ItemKey, LogId, Revision, Topic};
use crate::log::{Log, Logged};
use crate::message::{Mark, Message, Reason};
use crate::moment::{Jitter, Moment};
use crate::replica::Replica;
use crate::session::{Outgoing, Phase, Session, SessionId};
use crate::settings::Settings;
use crate::wire;

/// The largest value that is delivered. Of a larger one, an empty value is: so everybody knows that the item is there, in
/// this version, and nobody can use it.
pub const MAX_VALUE: usize = 1 << 20;

/// How many items that are too large are remembered until somebody asks.
const OVERSIZE: usize = 1024;

/// A change as it is delivered; the size of its value, if that is too large.
pub(crate) fn as_delivered(change: &mut Change) -> Option<usize> {
    let size = change.value.as_ref().map(Bytes::len).filter(|size| *size > MAX_VALUE)?;
    change.value = Some(Bytes::new());
    Some(size)
}

/// How many refusals of subscribers are remembered.
const NACKS: usize = 1024;

/// How what happens reaches subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Each session gets it, from its cursor on: transports that keep order and push back.
    Cursors,
    /// It is said once for everybody, and may be lost; sessions get answers only.
    Broadcast,
}

/// What a publisher has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublisherCounts {
    /// Slices that were appended.
    pub slices: u64,
    /// Stretches of the log that were sent instead of slices.
    pub ranges: u64,
    /// Comparisons by digest.
    pub deltas: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Subscribers that were told to ask again later.
    pub busy: u64,
    /// Subscribers that were told that the log does not reach back.
    pub compacted: u64,
    /// Sessions that were ended because nothing moved.
    pub stalled: u64,
    /// Values that are too large to be delivered.
    pub oversize: u64,
}

/// What a subscriber could not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its node.
    pub node: String,
    /// The topic.
    pub topic: Topic,
    /// The position.
    pub rev: Revision,
    /// The item, as text.
    pub item: String,
    /// Why.
    pub text: String,
}

/// Serves subscribers from a log.
///
/// **Guarantees** that memory is the items, the bounded log and one bounded window for each session, whatever
/// subscribers do; and that no subscriber delays another.
pub struct Publisher {
    settings: Settings,
    instance: u128,
    delivery: Delivery,
    log: Log,
    is_loaded: bool,
    sessions: BTreeMap<SessionId, Session>,
    followers: BTreeMap<Topic, BTreeSet<(SessionId, u32)>>,
    /// Subscriptions that compare digests or get items.
    served: BTreeSet<(SessionId, u32)>,
    waiting: BTreeSet<(SessionId, u32)>,
    stale_since: Option<Moment>,
    peers: Vec<String>,
    wakes: BTreeSet<SessionId>,
    broadcasts: VecDeque<Message>,
    next_broadcast: Moment,
    next_due: Option<Moment>,
    jitter: Jitter,
    counts: PublisherCounts,
    nacks: VecDeque<Refusal>,
    oversize: VecDeque<(Topic, ItemKey, usize)>,
}

impl Publisher {
    /// A publisher that knows nothing yet; subscribers wait until it is loaded.
    pub fn new(settings: Settings, delivery: Delivery, instance: u128, seed: u64) -> Self {
        let log = Log::new(LogId::default(), settings.log_bytes, settings.log_slices);
        Self {
            settings,
            instance,
            delivery,
            log,
            is_loaded: false,
            sessions: BTreeMap::new(),
            followers: BTreeMap::new(),
            served: BTreeSet::new(),
            waiting: BTreeSet::new(),
            stale_since: None,
            peers: Vec::new(),
            wakes: BTreeSet::new(),
            broadcasts: VecDeque::new(),
            next_broadcast: Moment::default(),
            next_due: None,
            jitter: Jitter::new(seed),
            counts: PublisherCounts::default(),
            nacks: VecDeque::new(),
            oversize: VecDeque::new(),
        }
    }

    /// Begins a log with everything that is there at a position.
    pub fn load(&mut self, log: LogId, rev: Revision, items: Vec<(Topic, Change)>, now: Moment) {
        let items = self.deliverable(items);
        self.log.begin(log, rev, items);
        self.is_loaded = true;
        self.stale_since = None;
        self.followers.clear();
        self.served.clear();
        self.waiting.clear();
        let welcome = self.welcome(now);
        for (id, session) in &mut self.sessions {
            session.subs.clear();
            if session.greeted {
                session.welcomed = true;
                session.say(&welcome, now);
                self.wakes.insert(*id);
            }
        }
        self.next_broadcast = now;
        self.next_due = Some(now);
    }

    /// Compares with a complete read of the same log, and delivers what differs; the answer is how many items did.
    pub fn reload(&mut self, rev: Revision, items: Vec<(Topic, Change)>, now: Moment) -> usize {
        let items = self.deliverable(items);
        let slices = self.log.reload(rev, items);
        let differed = slices.iter().map(|logged| logged.slice.changes.len()).sum();
        self.stale_since = None;
        self.deliver(&slices, now);
        differed
    }

    /// Appends a commit and delivers it.
    pub fn append(&mut self, commit: Commit, now: Moment) {
        let Commit { rev, changes } = commit;
        let changes = self.deliverable(changes);
        let slices = self.log.append(Commit { rev, changes });
        self.stale_since = None;
        self.deliver(&slices, now);
    }

    /// Learns that nothing else happened up to a position.
    pub fn progress(&mut self, rev: Revision, now: Moment) {
        self.stale_since = None;
        self.log.head = self.log.head.max(rev);
        self.admit_waiting(now);
    }

    /// Learns that the source cannot be reached.
    pub fn source_lost(&mut self, now: Moment) {
        self.stale_since.get_or_insert(now);
    }

    /// Where others are that serve the same.
    pub fn set_peers(&mut self, peers: Vec<String>) {
        self.peers = peers;
    }

    /// The log that is served.
    pub fn log_id(&self) -> LogId {
        self.log.id
    }

    /// This start of the publisher.
    pub fn instance(&self) -> u128 {
        self.instance
    }

    /// The last commit that is known.
    pub fn head(&self) -> Revision {
        self.log.head
    }

    /// Whether it knows what is there.
    pub fn is_loaded(&self) -> bool {
        self.is_loaded
    }

    /// What is there in a topic.
    pub fn view(&self, topic: &Topic) -> Option<&Replica> {
        self.log.get(topic).map(|log| &log.view)
    }

    /// The topics that have been written to or asked for.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.log.topics().map(|(topic, _)| topic)
    }

    /// How many slices the log holds, and their bytes.
    pub fn log_size(&self) -> (usize, usize) {
        (self.log.len(), self.log.bytes())
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// How many subscriptions compare digests or get everything right now.
    pub fn served(&self) -> usize {
        self.served.len()
    }

    /// What was counted.
    pub fn counts(&self) -> PublisherCounts {
        self.counts
    }

    /// What subscribers could not use, the last ones.
    pub fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.nacks.iter()
    }

    /// How many bytes wait for a session.
    pub fn queued(&self, id: SessionId) -> usize {
        self.sessions.get(&id).map_or(0, Session::queued)
    }

    fn deliverable(&mut self, mut items: Vec<(Topic, Change)>) -> Vec<(Topic, Change)> {
        for (topic, change) in &mut items {
            if let Some(size) = as_delivered(change) {
                self.counts.oversize += 1;
                self.oversize.push_back((topic.clone(), change.item.clone(), size));
            }
        }
        let forgotten = self.oversize.len().saturating_sub(OVERSIZE);
        self.oversize.drain(..forgotten);
        items
    }

    /// The next item whose value is too large, and the size of that.
    pub(crate) fn oversize(&mut self) -> Option<(Topic, ItemKey, usize)> {
        self.oversize.pop_front()
    }

    fn stale_ms(&self, now: Moment) -> u64 {
        self.stale_since.map_or(0, |since| u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX))
    }

    fn welcome(&self, now: Moment) -> Message {
        Message::Welcome {
            instance: self.instance,
            log: self.log.id,
            head: self.log.head,
            heartbeat_ms: u64::try_from(self.settings.heartbeat_interval.as_millis()).unwrap_or(u64::MAX),
            stale_ms: self.stale_ms(now),
            peers: self.peers.clone(),
        }
    }

    /// A subscriber is there.
    pub fn connected(&mut self, id: SessionId, now: Moment) {
        self.sessions.insert(id, Session::new(now));
        self.due_by(now.after(self.settings.heartbeat_interval));
    }

    /// A subscriber is not there any more.
    pub fn disconnected(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(&id) else { return };
        for (sub, subscription) in session.subs {
            self.forget(id, sub, &subscription.topic);
        }
        self.wakes.remove(&id);
    }

    fn forget(&mut self, id: SessionId, sub: u32, topic: &Topic) {
        self.served.remove(&(id, sub));
        self.waiting.remove(&(id, sub));
        if let Some(followers) = self.followers.get_mut(topic) {
            followers.remove(&(id, sub));
            if followers.is_empty() {
                self.followers.remove(topic);
                self.log.drop_if_blank(topic);
            }
        }
    }

    /// A subscriber says something. A session that is not known is asked to begin again.
    pub fn receive(&mut self, id: SessionId, message: Message, now: Moment) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.last_heard = now;
        if session.closing {
            return;
        }
        if let Message::Hello { node, token, .. } = message {
            return self.greet(id, node, token.as_deref(), now);
        }
        if !session.greeted {
            return self.send_away(id, Reason::Shutdown, now);
        }
        match message {
            Message::Subscribe { sub, topic, cursor, min_rev, mode } => {
                self.subscribe(id, sub, topic, cursor, min_rev, mode, now);
            }
            Message::Unsubscribe { sub } => {
                if let Some(subscription) = session.subs.remove(&sub) {
                    self.forget(id, sub, &subscription.topic);
                }
            }
            Message::Fetch { sub, after } => self.fetch(id, sub, after, now),
            Message::Sums { sub, sums } => self.compare(id, sub, sums, now),
            Message::Have { sub, last, held } => self.compared(id, sub, last, held, now),
            Message::Ack { applied } => self.acknowledge(id, &applied, now),
            Message::Nack { topic, rev, item, text } => {
                let node = session.node.clone();
                self.nacks.push_back(Refusal { node, topic, rev, item, text });
                if self.nacks.len() > NACKS {
                    self.nacks.pop_front();
                }
            }
            Message::Ping { nonce } => {
                session.say(&Message::Pong { nonce }, now);
                self.wakes.insert(id);
            }
            // What only publishers say.
            Message::Hello { .. }
            | Message::Welcome { .. }
            | Message::Subscribed { .. }
            | Message::Busy { .. }
            | Message::Txn(_)
            | Message::Range { .. }
            | Message::Compacted { .. }
            | Message::Want { .. }
            | Message::Items { .. }
            | Message::End { .. }
            | Message::Beat { .. }
            | Message::Lagging { .. }
            | Message::Goaway { .. }
            | Message::Pong { .. } => {}
        }
    }

    fn greet(&mut self, id: SessionId, node: String, token: Option<&str>, now: Moment) {
        if self.settings.token.is_some() && self.settings.token.as_deref() != token {
            return self.send_away(id, Reason::Refused, now);
        }
        let welcome = self.welcome(now);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.greeted = true;
        session.node = node;
        for (sub, subscription) in std::mem::take(&mut session.subs) {
            self.forget(id, sub, &subscription.topic);
        }
        if let Some(session) = self.sessions.get_mut(&id).filter(|_| self.is_loaded) {
            session.welcomed = true;
            session.say(&welcome, now);
            self.wakes.insert(id);
        }
    }

    fn acknowledge(&mut self, id: SessionId, applied: &[(Topic, Revision)], now: Moment) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        for (topic, applied) in applied {
            let sub = session.sub_of(topic).and_then(|sub| session.subs.get_mut(&sub));
            if let Some(sub) = sub.filter(|sub| sub.acked < *applied) {
                sub.acked = *applied;
                session.progress_at = now;
            }
        }
    }

    fn send_away(&mut self, id: SessionId, reason: Reason, now: Moment) {
        let peers = self.peers.clone();
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let retry_ms = if reason == Reason::Overload { 1000 } else { 0 };
        session.say(&Message::Goaway { reason, retry_ms, peers }, now);
        session.closing = true;
        self.wakes.insert(id);
    }

    /// Ends every session in order: each is told, and where to go.
    pub fn shut_down(&mut self, now: Moment) {
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in sessions {
            self.send_away(id, Reason::Shutdown, now);
        }
    }

    /// Gives slices to everybody who follows their topic and has room.
    fn deliver(&mut self, slices: &[Arc<Logged>], now: Moment) {
        self.counts.slices += slices.len() as u64;
        for logged in slices {
            if self.delivery == Delivery::Broadcast {
                self.broadcasts.push_back(Message::Txn(logged.slice.clone()));
                continue;
            }
            let Some(followers) = self.followers.get(&logged.slice.topic) else { continue };
            for (id, sub) in followers {
                let Some(session) = self.sessions.get_mut(id) else { continue };
                let has_room = session.queued() < self.settings.window;
                let is_coalesced = session.is_coalesced(&logged.slice.topic);
                let Some(subscription) = session.subs.get_mut(sub) else { continue };
                let is_next = (logged.slice.prev..=logged.slice.known).contains(&subscription.sent);
                let is_live = matches!(subscription.phase, Phase::Live);
                if !session.behind
                    && has_room
                    && is_next
                    && is_live
                    && !is_coalesced
                    && logged.frame.len() <= wire::MAX_FRAME
                {
                    subscription.sent = logged.slice.rev;
                    session.push(Outgoing::Slice(Arc::clone(logged)), now);
                    self.wakes.insert(*id);
                } else {
                    session.behind = true;
                    if has_room {
                        self.wakes.insert(*id);
                    }
                }
            }
        }
        self.admit_waiting(now);
    }

    /// The sessions that have something to take, since the last time this was asked.
    pub fn wakes(&mut self) -> BTreeSet<SessionId> {
        std::mem::take(&mut self.wakes)
    }

    /// The next frame for a session. Whoever carries frames asks as fast as the other side takes them, no faster.
    pub fn take(&mut self, id: SessionId, now: Moment) -> Option<Bytes> {
        self.take_outgoing(id, now).map(|outgoing| outgoing.frame().clone())
    }

    /// The same for whoever takes it inside the process.
    pub(crate) fn take_outgoing(&mut self, id: SessionId, now: Moment) -> Option<Outgoing> {
        if self.sessions.get(&id)?.behind {
            self.pump(id, now);
        }
        self.sessions.get_mut(&id)?.pop(now)
    }

    /// Whether a session ends as soon as everything was taken; also if there is none.
    pub fn is_closing(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_none_or(|session| session.closing)
    }

    /// What is said to everybody at once.
    pub fn broadcast(&mut self) -> Option<Message> {
        self.broadcasts.pop_front()
    }

    /// When something is due.
    pub fn deadline(&self) -> Option<Moment> {
        self.next_due
    }

    fn due_by(&mut self, moment: Moment) {
        self.next_due = Some(self.next_due.map_or(moment, |due| due.min(moment)));
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Moment) {
        if self.next_due.is_none_or(|due| due > now) {
            return;
        }
        self.next_due = None;
        if self.delivery == Delivery::Broadcast && self.is_loaded {
            if self.next_broadcast <= now {
                self.broadcast_beats(now);
                self.next_broadcast = now.after(self.settings.heartbeat_interval);
            }
            self.due_by(self.next_broadcast);
        }
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.advance_session(id, now);
        }
        self.give_up_waiting(now);
    }

    fn broadcast_beats(&mut self, now: Moment) {
        let stale_ms = self.stale_ms(now);
        let (instance, log, head) = (self.instance, self.log.id, self.log.head);
        for (topic, topic_log) in self.log.topics() {
            let mark = Mark { topic: topic.clone(), last: topic_log.last, digest: topic_log.view.digest() };
            self.broadcasts.push_back(Message::Beat { instance, log, head, stale_ms, marks: vec![mark] });
        }
    }

    fn advance_session(&mut self, id: SessionId, now: Moment) {
        let Some(session) = self.sessions.get(&id).filter(|session| !session.closing) else { return };
        let settings = &self.settings;
        let unsent =
            session.subs.values().any(|sub| matches!(sub.phase, Phase::Live) && sub.acked < sub.sent);
        let stalls = session.progress_at.after(settings.stall_timeout);
        let blocks = session.blocked_since().map(|since| since.after(settings.write_timeout));
        let silent = session.last_heard.after(settings.stall_timeout);
        if (unsent && stalls <= now) || blocks.is_some_and(|moment| moment <= now) || silent <= now {
            self.counts.stalled += 1;
            return self.send_away(id, Reason::Stalled, now);
        }
        let beat = session.last_beat.after(settings.heartbeat_interval);
        let next_beat = if beat <= now { now.after(settings.heartbeat_interval) } else { beat };
        let coalesced =
            session.subs.values().filter(|sub| sub.not_before > now).map(|sub| sub.not_before).min();
        let stalls = if unsent { stalls } else { silent };
        for moment in [Some(next_beat), blocks, Some(stalls), Some(silent), coalesced].into_iter().flatten() {
            self.due_by(moment.max(now.after(std::time::Duration::from_millis(1))));
        }
        if beat <= now {
            self.beat(id, now);
        }
        if self.sessions.get(&id).is_some_and(|session| session.behind) {
            self.wakes.insert(id);
        }
    }

    /// Tells one session where its topics stand. **Why** not those it is behind in: it will get there, and would only
    /// ask for what is on its way.
    fn beat(&mut self, id: SessionId, now: Moment) {
        let stale_ms = self.stale_ms(now);
        let (instance, log, head) = (self.instance, self.log.id, self.log.head);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.last_beat = now;
        if !session.welcomed {
            return;
        }
        let current = session
            .subs
            .values()
            .filter(|sub| matches!(sub.phase, Phase::Live) && sub.sent >= self.log.last(&sub.topic));
        let marks = current.map(|sub| Mark {
            topic: sub.topic.clone(),
            last: self.log.last(&sub.topic),
            digest: self.log.get(&sub.topic).map(|log| log.view.digest()).unwrap_or_default(),
        });
        let marks = if self.delivery == Delivery::Cursors { marks.collect() } else { Vec::new() };
        session.say(&Message::Beat { instance, log, head, stale_ms, marks }, now);
        self.wakes.insert(id);
    }
}
