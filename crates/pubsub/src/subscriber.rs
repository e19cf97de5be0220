//! The subscribing side: follows topics through whichever publisher can be reached, without I/O, clock or thread.
//!
//! Decided here: which publisher to talk to, when it counts as dead, and what survives that: everything. What a message
//! means for a topic is in `following`; what consumers see is in `cache`.
//!
//! **Guarantees** (G1–G9 of `docs/concepts/pubsub.md`): what is shown never goes back; the changes of a commit in a topic
//! are seen together; a failure to read or to connect deletes nothing.

mod following;
mod source;
mod status;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use crate::cache::{Cache, Shown, ViewChange};
use crate::change::{Change, ItemKey, LogId, Revision, Tables, Topic};
use crate::message::{Message, Mode, Reason};
use crate::moment::{Jitter, Moment};
use crate::settings::{Settings, StaleAction};

use following::{Following, Phase};
pub use source::{Mirror, SourceRead, SourceUnavailable};
pub use status::{Nearness, SubscriberCounts, TopicStatus};

/// How long a publisher that is behind, stale or unreachable is avoided while there are others.
const AVOIDED: Duration = Duration::from_secs(30);

/// How long connecting and greeting may take.
const GREETING: Duration = Duration::from_secs(5);

/// What a subscriber asks of whoever drives it, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// To connect to a publisher; answered by `connected` or `disconnected`.
    Connect(String),
    /// To let the connection go.
    Disconnect,
    /// To send a message to the publisher.
    Send(Message),
    /// To show a consumer what changed, all at once.
    Changed {
        /// The topic that changed.
        topic: Topic,
        /// What is different, by item.
        changes: Vec<ViewChange>,
    },
    /// To tell that a topic is complete for the first time.
    Synced(Topic),
    /// To read a topic from the source of truth itself; answered by `source_read`.
    Read {
        /// The name of this read.
        read: u64,
        /// The topic.
        topic: Topic,
    },
    /// To tell something worth knowing.
    Report(Report),
}

/// Something worth knowing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A publisher answers.
    Connected {
        /// Its address.
        address: String,
    },
    /// No publisher answers; everything is kept.
    Stale,
    /// What is held is older than `fence-after`.
    Fenced,
    /// Something is missing.
    Gap {
        /// The topic.
        topic: Topic,
        /// What is there.
        after: Revision,
        /// What is known to exist.
        upto: Revision,
    },
    /// What was missing is there.
    Repaired {
        /// The topic.
        topic: Topic,
        /// How far it is.
        upto: Revision,
    },
    /// The digest of a topic is not that of its publisher: what differs is fetched.
    Mismatch {
        /// The topic.
        topic: Topic,
        /// Where.
        at: Revision,
    },
    /// A topic was brought to another log.
    Rebased {
        /// The topic.
        topic: Topic,
        /// How many items are different there.
        changed: usize,
    },
}

#[derive(Debug)]
enum Link {
    Down { until: Moment },
    Connecting { until: Moment },
    Greeting { until: Moment },
    Active { instance: u128, heard: Moment },
}

#[derive(Debug)]
struct Address {
    uri: String,
    /// Whether somebody set it: no table takes it away.
    is_set: bool,
    avoided_until: Moment,
}

#[derive(Debug)]
struct Refused {
    attempts: u32,
    due: Moment,
}

/// Follows topics.
pub struct Subscriber {
    settings: Settings,
    node: String,
    instance: u128,
    jitter: Jitter,
    addresses: Vec<Address>,
    at: Option<String>,
    link: Link,
    attempts: u32,
    log: Option<LogId>,
    epoch: u32,
    /// The highest revision of this log that was ever applied.
    min_rev: Revision,
    /// The last commit of this log that a publisher has told of, and when one told anything.
    head: Revision,
    told_at: Moment,
    cache: Cache,
    tables: Tables,
    followed: BTreeMap<Topic, Following>,
    refused: BTreeMap<ItemKey, Refused>,
    next_sub: u32,
    next_read: u64,
    next_ack: Moment,
    next_source_read: Moment,
    source_read_at: Option<Moment>,
    stale_since: Option<Moment>,
    is_fenced: bool,
    outputs: VecDeque<Output>,
    counts: SubscriberCounts,
}

impl Subscriber {
    /// A subscriber that follows nothing yet, and knows these addresses of publishers for good.
    pub fn new(
        settings: Settings,
        node: impl Into<String>,
        instance: u128,
        addresses: impl IntoIterator<Item = String>,
        seed: u64,
        now: Moment,
    ) -> Self {
        let next_source_read = now.after(settings.fallback_after);
        let mut subscriber = Self {
            settings,
            node: node.into(),
            instance,
            jitter: Jitter::new(seed),
            addresses: Vec::new(),
            at: None,
            link: Link::Down { until: now },
            attempts: 0,
            log: None,
            epoch: 0,
            min_rev: 0,
            head: 0,
            told_at: now,
            cache: Cache::default(),
            tables: Tables::default(),
            followed: BTreeMap::new(),
            refused: BTreeMap::new(),
            next_sub: 0,
            next_read: 0,
            next_ack: now,
            next_source_read,
            source_read_at: None,
            stale_since: Some(now),
            is_fenced: false,
            outputs: VecDeque::new(),
            counts: SubscriberCounts::default(),
        };
        subscriber.learn(addresses);
        subscriber.addresses.iter_mut().for_each(|address| address.is_set = true);
        subscriber
    }

    /// Learns where publishers are; those it knows already stay.
    pub fn learn(&mut self, addresses: impl IntoIterator<Item = String>) {
        for uri in addresses {
            if !self.addresses.iter().any(|known| known.uri == uri) {
                self.addresses.push(Address { uri, is_set: false, avoided_until: Moment::default() });
            }
        }
    }

    /// Forgets an address that was learnt; those it began with stay. So does a session that is healthy, whatever a table
    /// says.
    pub fn forget(&mut self, uri: &str) {
        self.addresses.retain(|address| address.is_set || address.uri != uri);
    }

    /// Follows a topic: before anything of it is read, so that nothing in between is lost.
    pub fn follow(&mut self, topic: Topic, now: Moment) {
        if self.followed.contains_key(&topic) {
            return;
        }
        self.cache.follow(&topic);
        self.followed.insert(topic.clone(), Following::default());
        if self.is_active() {
            self.ask(&topic, Mode::Resume, now);
        }
    }

    /// Follows a topic no more; what only it showed is gone for the consumer.
    pub fn unfollow(&mut self, topic: &Topic) {
        let Some(following) = self.followed.remove(topic) else { return };
        if self.is_active() && following.sub > 0 {
            self.send(Message::Unsubscribe { sub: following.sub });
        }
        let changes = self.cache.unfollow(topic);
        self.show(topic, changes);
    }

    /// The topics that are followed.
    pub fn followed(&self) -> impl Iterator<Item = &Topic> {
        self.followed.keys()
    }

    /// What a consumer sees: every item that is there.
    pub fn view(&self) -> &BTreeMap<ItemKey, Shown> {
        self.cache.shown()
    }

    /// What is held of a topic.
    pub fn items(&self, topic: &Topic) -> impl Iterator<Item = (&ItemKey, Revision, &Bytes)> {
        let replica = self.cache.replica(topic).into_iter();
        replica.flat_map(|replica| {
            replica.items().iter().map(|(item, entry)| (item, entry.version, &entry.value))
        })
    }

    /// Where every topic stands.
    pub fn topics(&self) -> Vec<TopicStatus> {
        let status = |(topic, following): (&Topic, &Following)| TopicStatus {
            topic: topic.clone(),
            applied: self.cache.applied(topic),
            is_live: self.is_active() && matches!(following.phase, Phase::Live),
            items: self.cache.replica(topic).map_or(0, |replica| replica.items().len()),
            digest: self.cache.replica(topic).map(|replica| replica.digest()).unwrap_or_default(),
        };
        self.followed.iter().map(status).collect()
    }

    /// The log that is followed.
    pub fn log_id(&self) -> Option<LogId> {
        self.log
    }

    /// Since when no publisher has answered; nothing if one does.
    pub fn stale_since(&self) -> Option<Moment> {
        self.stale_since
    }

    /// What was counted.
    pub fn counts(&self) -> SubscriberCounts {
        self.counts
    }

    /// How near it is to what is published.
    pub fn nearness(&self, now: Moment) -> Nearness {
        let positions = self.followed.keys().map(|topic| self.position(topic).unwrap_or_default());
        let lag = positions.min().map_or(0, |position| self.head.saturating_sub(position));
        Nearness { counts: self.counts, lag, age: now.since(self.told_at) }
    }

    /// How many deletions are remembered, and how many slices wait behind gaps.
    pub fn remembered(&self) -> (usize, usize) {
        (
            self.cache.deletions_remembered(),
            self.followed.values().map(|following| following.ahead.len()).sum(),
        )
    }

    /// What to do next, in order; nothing if that is all for now.
    pub fn output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn send(&mut self, message: Message) {
        self.outputs.push_back(Output::Send(message));
    }

    fn report(&mut self, report: Report) {
        self.outputs.push_back(Output::Report(report));
    }

    fn show(&mut self, topic: &Topic, changes: Vec<ViewChange>) {
        if changes.is_empty() {
            return;
        }
        for change in &changes {
            self.refused.remove(&change.item);
        }
        self.outputs.push_back(Output::Changed { topic: topic.clone(), changes });
    }

    fn is_active(&self) -> bool {
        matches!(self.link, Link::Active { .. })
    }

    /// The connection that was asked for is there.
    pub fn connected(&mut self, now: Moment) {
        if let Link::Connecting { .. } = self.link {
            self.greet(now);
        }
    }

    fn greet(&mut self, now: Moment) {
        self.link = Link::Greeting { until: now.after(GREETING.min(self.settings.peer_timeout * 2)) };
        let (node, instance, token) = (self.node.clone(), self.instance, self.settings.token.clone());
        self.send(Message::Hello { node, instance, token });
    }

    /// Whoever is at the other end speaks, though it does not answer: it is listened to on.
    fn stay(&mut self, now: Moment) {
        if let Link::Greeting { until } = &mut self.link {
            *until = now.after(GREETING);
        }
    }

    /// Nobody listened for a while: that silence says nothing about the publisher.
    pub fn listens_again(&mut self, now: Moment) {
        if let Link::Active { heard, .. } = &mut self.link {
            *heard = now;
        }
    }

    /// The connection is gone, or could not be made.
    pub fn disconnected(&mut self, now: Moment) {
        if !matches!(self.link, Link::Down { .. }) {
            self.avoid(now);
            self.lose(Duration::ZERO, now);
        }
    }

    /// Prefers other addresses for a while.
    fn avoid(&mut self, now: Moment) {
        let until = now.after(AVOIDED);
        if let Some(address) =
            self.addresses.iter_mut().find(|address| Some(&address.uri) == self.at.as_ref())
        {
            address.avoided_until = until;
        }
    }

    /// Gives the session up; everything that is held stays.
    fn lose(&mut self, at_least: Duration, now: Moment) {
        let step = self.settings.backoff.saturating_mul(1 << self.attempts.min(16));
        let wait = self.jitter.up_to(step.min(self.settings.backoff_cap)).max(at_least);
        self.attempts += 1;
        self.counts.sessions_lost += 1;
        self.outputs.push_back(Output::Disconnect);
        if self.is_active() {
            self.stale_since = Some(now);
            self.next_source_read = now.after(self.settings.fallback_after);
            self.report(Report::Stale);
        }
        self.link = Link::Down { until: now.after(wait) };
        for following in self.followed.values_mut() {
            following.rest();
        }
    }

    fn connect(&mut self, now: Moment) {
        let fresh: Vec<usize> =
            (0..self.addresses.len()).filter(|index| self.addresses[*index].avoided_until <= now).collect();
        let index = match fresh.len() {
            0 => (0..self.addresses.len()).min_by_key(|index| self.addresses[*index].avoided_until),
            many => fresh.get(self.jitter.below(many)).copied(),
        };
        let Some(address) = index.and_then(|index| self.addresses.get(index)) else {
            self.link = Link::Down { until: now.after(self.settings.backoff_cap) };
            return;
        };
        self.at = Some(address.uri.clone());
        self.link = Link::Connecting { until: now.after(GREETING) };
        self.outputs.push_back(Output::Connect(address.uri.clone()));
    }

    /// A message came, from the publisher or for everybody.
    pub fn receive(&mut self, message: Message, now: Moment) {
        if let Link::Active { heard, .. } = &mut self.link
            && !matches!(message, Message::Txn(_) | Message::Beat { .. })
        {
            *heard = now;
        }
        match message {
            Message::Welcome { instance, log, head, stale_ms, peers, .. } => {
                self.learn(peers);
                self.welcomed(instance, log, now);
                self.note_head(log, head, now);
                self.prefer_fresh(stale_ms, now);
            }
            Message::Subscribed { sub, log, head, last, catch_up } => {
                self.subscribed(sub, log, head, last, catch_up, now);
            }
            Message::Busy { sub, retry_ms } => self.put_off(sub, Duration::from_millis(retry_ms), now),
            Message::Txn(mut slice) => {
                slice.changes.iter_mut().for_each(|change| self.tables.share(&mut change.item));
                self.slice(slice, now);
            }
            Message::Range { sub, after, known, upto, more, mut changes } => {
                changes.iter_mut().for_each(|change| self.tables.share(&mut change.item));
                self.range(sub, after..=known, upto, more, &changes, now);
            }
            Message::Compacted { sub, .. } => self.compacted(sub, now),
            Message::Want { sub, buckets } => self.tell(sub, &buckets, now),
            Message::Items { sub, part, mut items, kept, gone } => {
                items.iter_mut().for_each(|change| self.tables.share(&mut change.item));
                self.collect(sub, part, items, kept, gone, now)
            }
            Message::End { sub, at, parts, count, digest } => self.end(sub, at, parts, count, digest, now),
            Message::Beat { instance, log, head, stale_ms, marks } => {
                if let Link::Active { instance: ours, heard } = &mut self.link
                    && *ours == instance
                {
                    *heard = now;
                    self.attempts = 0;
                    if Some(log) != self.log {
                        return self.greet(now);
                    }
                    if self.prefer_fresh(stale_ms, now) {
                        return;
                    }
                }
                self.note_head(log, head, now);
                if Some(log) == self.log {
                    marks.into_iter().for_each(|mark| self.mark(&mark, head, now));
                }
            }
            Message::Goaway { reason, retry_ms, peers } => {
                self.learn(peers);
                if matches!(reason, Reason::Behind | Reason::Refused | Reason::Shutdown) {
                    self.avoid(now);
                }
                let spread = self.jitter.up_to(Duration::from_secs(1)).min(self.settings.backoff_cap);
                self.lose(Duration::from_millis(retry_ms) + spread, now);
            }
            // What only subscribers say, or what needs no answer.
            Message::Lagging { .. }
            | Message::Pong { .. }
            | Message::Hello { .. }
            | Message::Subscribe { .. }
            | Message::Unsubscribe { .. }
            | Message::Fetch { .. }
            | Message::Sums { .. }
            | Message::Have { .. }
            | Message::Ack { .. }
            | Message::Nack { .. }
            | Message::Ping { .. } => {}
        }
    }

    /// Notes how far the log is.
    fn note_head(&mut self, log: LogId, head: Revision, now: Moment) {
        if Some(log) == self.log {
            self.head = self.head.max(head);
            self.told_at = now;
        }
    }

    fn welcomed(&mut self, instance: u128, log: LogId, now: Moment) {
        if !matches!(self.link, Link::Greeting { .. } | Link::Active { .. }) {
            return;
        }
        self.link = Link::Active { instance, heard: now };
        self.stale_since = None;
        self.is_fenced = false;
        self.next_ack = now.after(self.settings.ack_interval);
        let address = self.at.clone().unwrap_or_default();
        self.report(Report::Connected { address });
        self.enter(log);
        let mode = if self.settings.always_snapshot_on_reconnect { Mode::Snapshot } else { Mode::Resume };
        let topics: Vec<Topic> = self.followed.keys().cloned().collect();
        for topic in topics {
            self.ask(&topic, mode, now);
        }
    }

    /// Enters a log. Positions of another one mean nothing in it.
    fn enter(&mut self, log: LogId) {
        if self.log == Some(log) {
            return;
        }
        self.counts.rebases += u64::from(self.log.is_some());
        self.log = Some(log);
        self.epoch += 1;
        (self.min_rev, self.head) = (0, 0);
        let mut returned = Vec::new();
        for (topic, following) in &mut self.followed {
            // Answers that are still on their way speak of the other log.
            following.rest();
            if following.log == log {
                returned.push(topic.clone());
            }
        }
        // A topic may never have left a log that everything else returns to.
        for topic in returned {
            let changes = self.cache.lift(&topic, self.epoch);
            self.note_position(&topic);
            self.show(&topic, changes);
        }
    }

    /// Looks for a publisher whose source is not away, if there may be one; the answer says whether it does.
    fn prefer_fresh(&mut self, stale_ms: u64, now: Moment) -> bool {
        if Duration::from_millis(stale_ms) <= self.settings.stale_limit {
            return false;
        }
        self.avoid(now);
        let others = self.addresses.iter().any(|address| address.avoided_until <= now);
        if others {
            self.lose(Duration::ZERO, now);
        }
        others
    }

    /// The consumer cannot use an item: the publisher is told, and the item shown again later.
    pub fn refuse(&mut self, topic: &Topic, item: &ItemKey, text: impl Into<String>, now: Moment) {
        let refused = self.refused.entry(item.clone()).or_insert(Refused { attempts: 0, due: now });
        let wait = Duration::from_secs(1).saturating_mul(1 << refused.attempts.min(6));
        refused.due = now.after(wait.min(Duration::from_secs(60)));
        refused.attempts += 1;
        let rev = self.cache.shown().get(item).map_or(0, |shown| shown.stamp.version);
        if self.is_active() {
            let (topic, item, text) = (topic.clone(), item.to_string(), text.into());
            self.send(Message::Nack { topic, rev, item, text });
        }
    }

    /// When something is due.
    pub fn deadline(&self) -> Option<Moment> {
        let link = match self.link {
            Link::Down { until } | Link::Connecting { until } | Link::Greeting { until } => Some(until),
            Link::Active { heard, .. } => Some(heard.after(self.settings.peer_timeout).min(self.next_ack)),
        };
        let topics = self.followed.values().filter_map(Following::until);
        let refused = self.refused.values().map(|refused| refused.due);
        let source = (self.settings.fallback && !self.is_active()).then_some(self.next_source_read);
        let fence = self.stale_since.filter(|_| self.may_fence());
        let fence = fence.map(|since| since.after(self.settings.fence_after));
        link.into_iter().chain(topics).chain(refused).chain(source).chain(fence).min()
    }

    fn may_fence(&self) -> bool {
        self.settings.stale_action == StaleAction::Fence && !self.is_fenced
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Moment) {
        match self.link {
            Link::Down { until } if until <= now => self.connect(now),
            Link::Connecting { until } | Link::Greeting { until } if until <= now => self.disconnected(now),
            Link::Active { heard, .. } if now.since(heard) >= self.settings.peer_timeout => {
                self.disconnected(now)
            }
            Link::Down { .. } | Link::Connecting { .. } | Link::Greeting { .. } | Link::Active { .. } => {}
        }
        if self.is_active() && self.next_ack <= now {
            self.acknowledge(now);
        }
        let due =
            self.followed.iter().filter(|(_, following)| following.until().is_some_and(|due| due <= now));
        let due: Vec<Topic> = due.map(|(topic, _)| topic.clone()).collect();
        for topic in due {
            self.advance_topic(&topic, now);
        }
        self.show_refused(now);
        if self.settings.fallback && !self.is_active() && self.next_source_read <= now {
            self.read_source(now);
        }
        let fence = self.stale_since.filter(|_| self.may_fence());
        if fence.is_some_and(|since| now.since(since) >= self.settings.fence_after) {
            self.is_fenced = true;
            self.report(Report::Fenced);
        }
    }

    fn acknowledge(&mut self, now: Moment) {
        self.next_ack = now.after(self.settings.ack_interval);
        let current = self.followed.iter().filter(|(_, following)| Some(following.log) == self.log);
        let applied = current.filter_map(|(topic, _)| Some((topic.clone(), self.cache.applied(topic)?)));
        let applied = applied.collect();
        self.send(Message::Ack { applied });
    }

    fn show_refused(&mut self, now: Moment) {
        let due: Vec<ItemKey> = self
            .refused
            .iter()
            .filter(|(_, refused)| refused.due <= now)
            .map(|(item, _)| item.clone())
            .collect();
        for item in due {
            let Some(shown) = self.cache.shown().get(&item).cloned() else {
                self.refused.remove(&item);
                continue;
            };
            if let Some(refused) = self.refused.get_mut(&item) {
                refused.due = now.after(Duration::from_secs(3600));
            }
            let change = ViewChange { item, stamp: shown.stamp, value: Some(shown.value) };
            self.outputs.push_back(Output::Changed { topic: shown.topic, changes: vec![change] });
        }
    }

    /// What is held, to be kept on disk and given to `restore` at the next start.
    pub fn mirror(&self) -> Option<Mirror> {
        let current = self.followed.iter().filter(|(_, following)| Some(following.log) == self.log);
        let topics = current.filter_map(|(topic, _)| {
            let items: Vec<Change> = self.cache.replica(topic)?.changes().collect();
            Some((topic.clone(), self.cache.applied(topic)?, items))
        });
        Some(Mirror { log: self.log?, topics: topics.collect() })
    }
}
