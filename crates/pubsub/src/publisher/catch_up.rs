//! How a subscription gets to where the publisher is: from the log, by comparing digests, or with everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::change::{Change, Revision, Topic};
use crate::digest::{BUCKETS, Basis, Digest, bucket};
use crate::message::{CatchUp, Cursor, Held, Message, Mode, Reason};
use crate::moment::Moment;
use crate::session::{Outgoing, Parts, Phase, SessionId, Sub};

use super::{Delivery, Publisher};

/// How large a stretch of the log is, about.
const STRETCH: usize = 256 << 10;

/// How often buckets are asked for again because they changed meanwhile.
const ROUNDS: u32 = 8;

/// How many items one comparison may name.
const MAX_HELD: usize = 16 << 20;

impl Publisher {
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn subscribe(
        &mut self,
        id: SessionId,
        sub: u32,
        topic: Topic,
        cursor: Option<Cursor>,
        min_rev: Revision,
        mode: Mode,
        now: Moment,
    ) {
        let Some(session) = self.sessions.get_mut(&id).filter(|session| session.welcomed) else { return };
        if let Some(earlier) = session.sub_of(&topic) {
            session.subs.remove(&earlier);
            self.forget(id, earlier, &topic);
        }
        let until = now.after(self.settings.behind_timeout);
        let phase = Phase::Waiting { until, cursor, min_rev, mode };
        let acked = cursor.map_or(0, |cursor| cursor.applied);
        let subscription =
            Sub { topic: topic.clone(), sent: 0, acked, phase, lagging: false, not_before: now };
        if let Some(session) = self.sessions.get_mut(&id) {
            session.subs.insert(sub, subscription);
            session.progress_at = now;
        }
        self.log.topic(&topic);
        self.followers.entry(topic).or_default().insert((id, sub));
        self.waiting.insert((id, sub));
        self.due_by(until);
        self.admit(id, sub, now);
    }

    /// Admits subscriptions that waited for the publisher to get as far as their subscriber.
    pub(super) fn admit_waiting(&mut self, now: Moment) {
        for (id, sub) in self.waiting.clone() {
            self.admit(id, sub, now);
        }
    }

    pub(super) fn give_up_waiting(&mut self, now: Moment) {
        for (id, sub) in self.waiting.clone() {
            let session = self.sessions.get(&id);
            let Some(Phase::Waiting { until, .. }) =
                session.and_then(|session| session.subs.get(&sub)).map(|sub| &sub.phase)
            else {
                continue;
            };
            if *until <= now {
                self.waiting.remove(&(id, sub));
                self.send_away(id, Reason::Behind, now);
            } else {
                self.due_by(*until);
            }
        }
    }

    fn admit(&mut self, id: SessionId, sub: u32, now: Moment) {
        let session = self.sessions.get(&id);
        let Some(subscription) = session.and_then(|session| session.subs.get(&sub)) else { return };
        let Phase::Waiting { cursor, min_rev, mode, .. } = subscription.phase else { return };
        let cursor = cursor.filter(|_| mode != Mode::Snapshot);
        let same_log = cursor.filter(|cursor| cursor.log == self.log.id);
        if min_rev > self.log.head || same_log.is_some_and(|cursor| cursor.applied > self.log.head) {
            return;
        }
        let topic = subscription.topic.clone();
        let catch_up = match (cursor, same_log) {
            (None, _) => CatchUp::Snapshot,
            (Some(_), None) => CatchUp::Delta(Basis::Content),
            (_, Some(cursor)) if mode == Mode::Resume && self.log.reaches(&topic, cursor.applied).is_ok() => {
                CatchUp::Range
            }
            (_, Some(_)) => CatchUp::Delta(Basis::Versions),
        };
        self.waiting.remove(&(id, sub));
        if catch_up != CatchUp::Range && self.served.len() >= self.settings.snapshots {
            return self.put_off(id, sub, &topic, now);
        }
        let (log, head, last) = (self.log.id, self.log.head, self.log.last(&topic));
        let phase = match catch_up {
            CatchUp::Range => Phase::Live,
            CatchUp::Snapshot => Phase::Sending(self.everything(&topic)),
            CatchUp::Delta(basis) => {
                Phase::Delta { basis, sums: Vec::new(), want: Vec::new(), held: Vec::new(), rounds: 0 }
            }
        };
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Some(subscription) = session.subs.get_mut(&sub) {
            subscription.phase = phase;
            subscription.sent = cursor.map_or(0, |cursor| cursor.applied);
        }
        session.say(&Message::Subscribed { sub, log, head, last, catch_up }, now);
        session.behind = true;
        match catch_up {
            CatchUp::Range if self.delivery == Delivery::Broadcast => {
                let applied = cursor.map_or(0, |cursor| cursor.applied);
                if last > applied {
                    self.fetch(id, sub, applied, now);
                }
            }
            CatchUp::Range => {}
            CatchUp::Delta(_) => {
                self.counts.deltas += 1;
                self.served.insert((id, sub));
            }
            CatchUp::Snapshot => {
                self.counts.snapshots += 1;
                self.served.insert((id, sub));
            }
        }
        self.wakes.insert(id);
    }

    fn put_off(&mut self, id: SessionId, sub: u32, topic: &Topic, now: Moment) {
        self.counts.busy += 1;
        let retry = Duration::from_millis(500) + self.jitter.up_to(Duration::from_millis(1000));
        self.forget(id, sub, topic);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.subs.remove(&sub);
        let retry_ms = u64::try_from(retry.as_millis()).unwrap_or(u64::MAX);
        session.say(&Message::Busy { sub, retry_ms }, now);
        self.wakes.insert(id);
    }

    /// Everything in a topic.
    fn everything(&self, topic: &Topic) -> Parts {
        let view = self.log.get(topic).map(|log| &log.view);
        let items: Vec<Change> = view.map(|view| view.changes().collect()).unwrap_or_default();
        Parts {
            at: self.log.head,
            count: items.len() as u64,
            items: items.into_iter(),
            kept: Vec::new(),
            gone: Vec::new(),
            next: 0,
            digest: view.map(super::Replica::digest).unwrap_or_default(),
        }
    }

    pub(super) fn fetch(&mut self, id: SessionId, sub: u32, after: Revision, now: Moment) {
        let session = self.sessions.get(&id);
        let Some(subscription) = session.and_then(|session| session.subs.get(&sub)) else { return };
        if !matches!(subscription.phase, Phase::Live | Phase::Compacted) {
            return;
        }
        let stretch = self.log.stretch(&subscription.topic, after, STRETCH);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(subscription) = session.subs.get_mut(&sub) else { return };
        let answer = match stretch {
            Ok(stretch) => {
                subscription.phase = Phase::Live;
                subscription.sent =
                    if stretch.more { stretch.upto } else { subscription.sent.max(stretch.upto) };
                self.counts.ranges += 1;
                Message::Range {
                    sub,
                    after,
                    known: stretch.known,
                    upto: stretch.upto,
                    more: stretch.more,
                    changes: stretch.changes,
                }
            }
            Err(tail) => {
                subscription.phase = Phase::Compacted;
                self.counts.compacted += 1;
                let topic = subscription.topic.clone();
                session.note_left_behind(&topic, now);
                Message::Compacted { sub, tail }
            }
        };
        session.say(&answer, now);
        self.wakes.insert(id);
    }

    /// The subscriber's sums are there: which buckets differ?
    pub(super) fn compare(&mut self, id: SessionId, sub: u32, theirs: Vec<Digest>, now: Moment) {
        if theirs.len() != BUCKETS {
            return;
        }
        let session = self.sessions.get_mut(&id);
        let Some(subscription) = session.and_then(|session| session.subs.get_mut(&sub)) else { return };
        let Phase::Delta { basis, sums, .. } = &mut subscription.phase else { return };
        *sums = theirs;
        let (basis, topic) = (*basis, subscription.topic.clone());
        self.ask(id, sub, &topic, basis, now);
    }

    /// The buckets of a topic that differ from these sums.
    fn differing(&self, topic: &Topic, basis: Basis, theirs: &[Digest]) -> Vec<u8> {
        let ours = match self.log.get(topic) {
            Some(log) => log.view.sums(basis),
            None => vec![Digest::default(); BUCKETS],
        };
        let differ = ours.iter().zip(theirs).enumerate().filter(|(_, (ours, theirs))| ours != theirs);
        differ.filter_map(|(bucket, _)| u8::try_from(bucket).ok()).collect()
    }

    /// Asks for what the subscriber holds in the buckets that differ.
    fn ask(&mut self, id: SessionId, sub: u32, topic: &Topic, basis: Basis, now: Moment) {
        let session = self.sessions.get(&id).and_then(|session| session.subs.get(&sub));
        let Some(Phase::Delta { sums, .. }) = session.map(|sub| &sub.phase) else { return };
        let buckets = self.differing(topic, basis, sums);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(subscription) = session.subs.get_mut(&sub) else { return };
        if let Phase::Delta { want, held, rounds, .. } = &mut subscription.phase {
            want.clone_from(&buckets);
            held.clear();
            *rounds += 1;
        }
        session.say(&Message::Want { sub, buckets }, now);
        self.wakes.insert(id);
    }

    /// The subscriber told what it holds: what differs is sent.
    pub(super) fn compared(&mut self, id: SessionId, sub: u32, last: bool, more: Vec<Held>, now: Moment) {
        let session = self.sessions.get_mut(&id);
        let Some(subscription) = session.and_then(|session| session.subs.get_mut(&sub)) else { return };
        let topic = subscription.topic.clone();
        let Phase::Delta { basis, sums, want, held, rounds } = &mut subscription.phase else { return };
        held.extend(more);
        if !last && held.len() <= MAX_HELD {
            return;
        }
        let (basis, rounds) = (*basis, *rounds);
        let (sums, want, held) = (sums.clone(), want.clone(), std::mem::take(held));
        let still_covered = self.differing(&topic, basis, &sums).iter().all(|bucket| want.contains(bucket));
        if !still_covered && rounds < ROUNDS {
            return self.ask(id, sub, &topic, basis, now);
        }
        // What changes faster than it can be compared is sent whole.
        let parts = if still_covered {
            self.difference(&topic, basis, &want, &held)
        } else {
            self.everything(&topic)
        };
        let (log, head, last) = (self.log.id, self.log.head, self.log.last(&topic));
        if let Some(session) = self.sessions.get_mut(&id).filter(|_| !still_covered) {
            self.counts.snapshots += 1;
            session.say(&Message::Subscribed { sub, log, head, last, catch_up: CatchUp::Snapshot }, now);
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Some(subscription) = session.subs.get_mut(&sub) {
            subscription.phase = Phase::Sending(parts);
        }
        session.behind = true;
        self.wakes.insert(id);
    }

    fn difference(&self, topic: &Topic, basis: Basis, want: &[u8], held: &[Held]) -> Parts {
        let mut parts = self.everything(topic);
        let wanted: BTreeSet<usize> = want.iter().map(|bucket| usize::from(*bucket)).collect();
        let mut theirs: BTreeMap<u64, u64> = held.iter().map(|held| (held.key, held.mark)).collect();
        let (mut items, mut kept) = (Vec::new(), Vec::new());
        let ours = self.log.get(topic).map(|log| log.view.held(basis));
        for (item, entry, held) in ours.into_iter().flatten() {
            let is_equal = !wanted.contains(&bucket(held.key)) || theirs.get(&held.key) == Some(&held.mark);
            theirs.remove(&held.key);
            if !is_equal {
                items.push(Change::put(item.clone(), entry.version, entry.value.clone()));
            } else if basis == Basis::Content {
                kept.push(Held { key: held.key, mark: entry.version });
            }
        }
        parts.items = items.into_iter();
        parts.kept = kept;
        parts.gone = theirs.into_keys().collect();
        parts
    }

    /// Fills the room of a session from the log, in the order of revisions.
    pub(super) fn pump(&mut self, id: SessionId, now: Moment) {
        loop {
            let Some(session) = self.sessions.get(&id) else { return };
            if session.queued() >= self.settings.window {
                return;
            }
            let sending = session.subs.iter().find(|(_, sub)| matches!(sub.phase, Phase::Sending(_)));
            if let Some(sub) = sending.map(|(name, _)| *name) {
                self.send_part(id, sub, now);
                continue;
            }
            let is_pushed = self.delivery == Delivery::Cursors;
            let next = session.subs.iter().filter(|(_, sub)| is_pushed && matches!(sub.phase, Phase::Live));
            let next = next.filter(|(_, sub)| sub.not_before <= now || !session.is_coalesced(&sub.topic));
            let next = next.filter_map(|(name, sub)| {
                let log = self.log.get(&sub.topic).filter(|log| log.last > sub.sent)?;
                let rev = if sub.sent < log.tail { log.tail } else { log.after(sub.sent).next()?.slice.rev };
                Some((rev, *name))
            });
            let Some((_, sub)) = next.min() else { break };
            self.send_next(id, sub, now);
        }
        let waits = |session: &crate::session::Session| {
            session.subs.values().any(|sub| {
                matches!(sub.phase, Phase::Live)
                    && sub.not_before > now
                    && self.log.last(&sub.topic) > sub.sent
            })
        };
        let still_behind = self.delivery == Delivery::Cursors && self.sessions.get(&id).is_some_and(waits);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.behind = still_behind;
        }
    }

    fn send_part(&mut self, id: SessionId, sub: u32, now: Moment) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(subscription) = session.subs.get_mut(&sub) else { return };
        let Phase::Sending(parts) = &mut subscription.phase else { return };
        let message = match parts.part(sub) {
            Some(part) => part,
            None => {
                let end = parts.end(sub);
                subscription.sent = parts.at;
                subscription.phase = Phase::Live;
                self.served.remove(&(id, sub));
                end
            }
        };
        session.progress_at = now;
        session.say(&message, now);
    }

    /// Sends the next slice, or, to one that is far behind, what came of all of them.
    fn send_next(&mut self, id: SessionId, sub: u32, now: Moment) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(subscription) = session.subs.get(&sub) else { return };
        let (topic, sent) = (subscription.topic.clone(), subscription.sent);
        let is_coalesced = session.is_coalesced(&topic);
        let Some(log) = self.log.get(&topic) else { return };
        let behind = log.after(sent).len();
        let is_reached = self.log.reaches(&topic, sent).is_ok();
        if !is_reached || behind > self.settings.lag_slices || is_coalesced {
            if is_reached && !subscription.lagging {
                session.say(&Message::Lagging { sub, behind: behind as u64 }, now);
            }
            if let Some(subscription) = session.subs.get_mut(&sub) {
                subscription.lagging = true;
                if is_coalesced {
                    subscription.not_before = now.after(self.settings.coalesce_interval);
                }
            }
            if is_coalesced {
                self.due_by(now.after(self.settings.coalesce_interval));
            }
            return self.fetch(id, sub, sent, now);
        }
        let Some(logged) = log.after(sent).next().cloned() else { return };
        session.push(Outgoing::Slice(Arc::clone(&logged)), now);
        if let Some(subscription) = session.subs.get_mut(&sub) {
            subscription.sent = logged.slice.rev;
            subscription.lagging = behind > 1 && subscription.lagging;
        }
    }
}
