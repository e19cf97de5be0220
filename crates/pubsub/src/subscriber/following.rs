//! One followed topic: how a lost message is told from a late one, and how what is missing is brought in.
//!
//! The ladder, cheapest first: what arrives late within the window; a stretch of the publisher's log; what differs, by
//! digests; everything. The source itself is asked only when no publisher answers (`source`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::cache::ViewChange;
use crate::change::{Change, ItemKey, LogId, Revision, Slice, Topic};
use crate::digest::{Basis, Digest, bucket, key_hash};
use crate::message::{CatchUp, Cursor, Held, Mark, Message, Mode};
use crate::moment::Moment;
use crate::replica::Patch;

use super::{Output, Report, Subscriber};

/// How many items one message names.
const HELD: usize = 100_000;

/// What a topic waits for.
#[derive(Debug, Default)]
pub(super) enum Phase {
    /// For a session.
    #[default]
    Idle,
    /// For the publisher to accept the subscription.
    Asked { until: Moment, attempts: u32, mode: Mode },
    /// For everything up to a position, from the log.
    Ranging { until: Moment, target: Revision, attempts: u32 },
    /// For what differs, or everything.
    Replacing { until: Moment, basis: Option<Basis>, incoming: Incoming },
    /// For nothing.
    Live,
    /// For what is late.
    Gap { until: Moment },
    /// For what is lost behind a position; how often that was asked for without coming further.
    Repair { until: Moment, after: Revision, attempts: u32 },
    /// For its turn.
    Resting { until: Moment, mode: Mode },
}

/// What came of a snapshot, or of what differs, so far.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    parts: BTreeSet<u32>,
    items: Vec<Change>,
    kept: Vec<Held>,
    gone: Vec<u64>,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug)]
struct End {
    at: Revision,
    parts: u32,
    count: u64,
    digest: Digest,
}

/// One followed topic.
#[derive(Debug, Default)]
pub(super) struct Following {
    /// The current subscription; answers to others are ignored.
    pub(super) sub: u32,
    /// What the answer to it may not be older than.
    min_rev: Revision,
    /// The log of what is held.
    pub(super) log: LogId,
    pub(super) phase: Phase,
    /// Slices behind a gap.
    pub(super) ahead: BTreeMap<Revision, Slice>,
    ahead_bytes: usize,
    /// The last slice that is known to exist.
    expected: Revision,
    pub(super) was_synced: bool,
    replaced_at: Option<Moment>,
    replace_wait: Duration,
    pub(super) read: Option<u64>,
}

impl Following {
    /// Goes back to waiting for a session.
    pub(super) fn rest(&mut self) {
        self.phase = Phase::Idle;
        self.sub = 0;
        self.clear_ahead();
    }

    pub(super) fn clear_ahead(&mut self) {
        self.ahead.clear();
        self.ahead_bytes = 0;
        self.expected = 0;
    }

    /// When something is due.
    pub(super) fn until(&self) -> Option<Moment> {
        match self.phase {
            Phase::Idle | Phase::Live => None,
            Phase::Asked { until, .. }
            | Phase::Ranging { until, .. }
            | Phase::Replacing { until, .. }
            | Phase::Gap { until }
            | Phase::Repair { until, .. }
            | Phase::Resting { until, .. } => Some(until),
        }
    }
}

/// Whether a slice can be applied to what is held at a position.
fn fits(slice: &Slice, position: Revision) -> bool {
    (slice.prev..=slice.known).contains(&position)
}

fn slice_size(slice: &Slice) -> usize {
    slice.changes.iter().map(Change::size).sum()
}

impl Subscriber {
    /// Asks for a topic, from where it stands.
    pub(super) fn ask(&mut self, topic: &Topic, mode: Mode, now: Moment) {
        self.ask_again(topic, mode, 0, now);
    }

    fn ask_again(&mut self, topic: &Topic, mode: Mode, attempts: u32, now: Moment) {
        self.next_sub += 1;
        let sub = self.next_sub;
        let applied = self.cache.applied(topic);
        let Some(following) = self.followed.get_mut(topic) else { return };
        let until = now.after(self.settings.fetch_timeout + self.settings.behind_timeout);
        (following.sub, following.min_rev) = (sub, self.min_rev);
        following.phase = Phase::Asked { until, attempts, mode };
        let cursor = applied.map(|applied| Cursor { log: following.log, applied });
        self.send(Message::Subscribe { sub, topic: topic.clone(), cursor, min_rev: self.min_rev, mode });
    }

    fn topic_of(&self, sub: u32) -> Option<Topic> {
        let found = self.followed.iter().find(|(_, following)| following.sub == sub && sub > 0);
        found.map(|(topic, _)| topic.clone())
    }

    /// How far a topic is in the log that is served; nothing if what is held is of another one.
    pub(super) fn position(&self, topic: &Topic) -> Option<Revision> {
        let is_current = self.followed.get(topic).is_some_and(|following| Some(following.log) == self.log);
        self.cache.applied(topic).filter(|_| is_current)
    }

    pub(super) fn subscribed(
        &mut self,
        sub: u32,
        log: LogId,
        head: Revision,
        last: Revision,
        catch_up: CatchUp,
        now: Moment,
    ) {
        let Some(topic) = self.topic_of(sub).filter(|_| Some(log) == self.log) else { return };
        let position = self.position(&topic);
        let progress = now.after(self.settings.progress_timeout);
        let fetch = now.after(self.settings.fetch_timeout);
        let base_wait = self.settings.snapshot_interval;
        let Some(following) = self.followed.get_mut(&topic) else { return };
        let basis = match catch_up {
            CatchUp::Range => {
                following.phase = Phase::Ranging { until: fetch, target: last, attempts: 0 };
                if position.is_some_and(|position| last <= position) {
                    self.cache.advance(&topic, head);
                    self.note_position(&topic);
                }
                return self.drain(&topic, now);
            }
            CatchUp::Snapshot => None,
            CatchUp::Delta(basis) => Some(basis),
        };
        if position.is_some() {
            let is_calm =
                following.replaced_at.is_none_or(|at| now.since(at) > self.settings.snapshot_interval_cap);
            let wait = if is_calm { base_wait } else { following.replace_wait * 2 };
            following.replace_wait = wait.min(self.settings.snapshot_interval_cap);
            following.replaced_at = Some(now);
        }
        following.phase = Phase::Replacing { until: progress, basis, incoming: Incoming::default() };
        if let Some(basis) = basis {
            let sums = self.cache.replica(&topic).map(|replica| replica.sums(basis)).unwrap_or_default();
            self.send(Message::Sums { sub, sums });
        }
    }

    pub(super) fn put_off(&mut self, sub: u32, retry: Duration, now: Moment) {
        let following = self.followed.values_mut().find(|following| following.sub == sub);
        if let Some(following) = following {
            let mode = if let Phase::Asked { mode, .. } = following.phase { mode } else { Mode::Resume };
            following.phase = Phase::Resting { until: now.after(retry), mode };
        }
    }

    /// Takes the next step of the ladder, if the last time is long enough ago.
    fn climb(&mut self, topic: &Topic, mode: Mode, now: Moment) {
        let Some(following) = self.followed.get_mut(topic) else { return };
        let not_before = following.replaced_at.map(|at| at.after(following.replace_wait));
        match not_before.filter(|moment| *moment > now) {
            Some(until) => following.phase = Phase::Resting { until, mode },
            None => self.ask(topic, mode, now),
        }
    }

    pub(super) fn compacted(&mut self, sub: u32, now: Moment) {
        if let Some(topic) = self.topic_of(sub) {
            self.climb(&topic, Mode::Delta, now);
        }
    }

    /// A slice came: it is applied, kept for later, or known already.
    pub(super) fn slice(&mut self, slice: Slice, now: Moment) {
        let topic = slice.topic.clone();
        let position = self.position(&topic);
        let Some(following) = self.followed.get_mut(&topic).filter(|_| Some(slice.log) == self.log) else {
            self.counts.foreign += 1;
            return;
        };
        if position.is_some_and(|position| slice.rev <= position) {
            self.counts.duplicates += 1;
            return;
        }
        let is_replacing = matches!(following.phase, Phase::Replacing { .. });
        if position.is_some_and(|position| fits(&slice, position)) && !is_replacing {
            self.apply_slice(&topic, &slice);
            return self.drain(&topic, now);
        }
        let (limit, bytes) = (self.settings.ahead_slices, self.settings.ahead_bytes);
        following.expected = following.expected.max(slice.rev);
        if following.ahead.contains_key(&slice.rev) {
            self.counts.duplicates += 1;
        } else if following.ahead.len() < limit && following.ahead_bytes + slice_size(&slice) <= bytes {
            following.ahead_bytes += slice_size(&slice);
            following.ahead.insert(slice.rev, slice);
        }
        if matches!(following.phase, Phase::Live) && following.ahead.len() > self.settings.gap_tolerance {
            self.open_gap(&topic, now);
        }
    }

    fn apply_slice(&mut self, topic: &Topic, slice: &Slice) {
        self.counts.slices += 1;
        self.head = self.head.max(slice.rev);
        let changes = self.cache.apply(topic, &slice.changes, slice.rev);
        self.note_position(topic);
        self.show(topic, changes);
    }

    pub(super) fn note_position(&mut self, topic: &Topic) {
        if let Some(position) = self.position(topic) {
            self.min_rev = self.min_rev.max(position);
        }
    }

    /// Applies what waited and is next; then sees whether anything is still missing.
    fn drain(&mut self, topic: &Topic, now: Moment) {
        let Some(mut position) = self.position(topic) else { return };
        loop {
            let Some(following) = self.followed.get_mut(topic) else { return };
            let Some(first) = following.ahead.first_entry() else { break };
            if !fits(first.get(), position) && first.get().rev > position {
                break;
            }
            let slice = first.remove();
            following.ahead_bytes -= slice_size(&slice);
            if slice.rev > position {
                position = slice.rev;
                self.apply_slice(topic, &slice);
            }
        }
        self.judge(topic, now);
    }

    /// Whether a topic has everything that is known to exist.
    fn judge(&mut self, topic: &Topic, now: Moment) {
        let Some(position) = self.position(topic) else { return };
        let Some(following) = self.followed.get_mut(topic) else { return };
        let is_complete = following.ahead.is_empty() && following.expected <= position;
        match following.phase {
            Phase::Ranging { target, .. } if position >= target => {
                following.phase = Phase::Live;
                let is_first = !std::mem::replace(&mut following.was_synced, true);
                if is_first {
                    self.outputs.push_back(Output::Synced(topic.clone()));
                }
                if !is_complete {
                    self.open_gap(topic, now);
                }
            }
            Phase::Gap { .. } | Phase::Repair { .. } if is_complete => {
                following.phase = Phase::Live;
                self.report(Report::Repaired { topic: topic.clone(), upto: position });
            }
            // What was missing came; what is missing behind it has a window of its own.
            Phase::Gap { .. } => self.wait_for_late(topic, now),
            Phase::Idle
            | Phase::Asked { .. }
            | Phase::Ranging { .. }
            | Phase::Replacing { .. }
            | Phase::Live
            | Phase::Repair { .. }
            | Phase::Resting { .. } => {}
        }
    }

    fn open_gap(&mut self, topic: &Topic, now: Moment) {
        let after = self.position(topic).unwrap_or_default();
        let Some(following) = self.followed.get(topic) else { return };
        let upto = following.expected;
        self.counts.gaps += 1;
        self.report(Report::Gap { topic: topic.clone(), after, upto });
        self.wait_for_late(topic, now);
    }

    /// Gives what is missing the window to come by itself, if there is one.
    fn wait_for_late(&mut self, topic: &Topic, now: Moment) {
        let Some(following) = self.followed.get_mut(topic) else { return };
        let window = self.settings.reorder_window;
        following.phase = Phase::Gap { until: now.after(window) };
        if window.is_zero() {
            self.repair(topic, 0, now);
        }
    }

    /// Asks for what is missing.
    fn repair(&mut self, topic: &Topic, attempts: u32, now: Moment) {
        let Some(after) = self.position(topic) else { return };
        if attempts >= self.settings.fetch_attempts {
            return self.disconnected(now);
        }
        let Some(following) = self.followed.get_mut(topic) else { return };
        let until = now.after(self.settings.fetch_timeout);
        following.phase = Phase::Repair { until, after, attempts: attempts + 1 };
        let sub = following.sub;
        self.counts.fetches += 1;
        self.send(Message::Fetch { sub, after });
    }

    /// What came of a stretch of the log.
    pub(super) fn range(
        &mut self,
        sub: u32,
        from: RangeInclusive<Revision>,
        upto: Revision,
        more: bool,
        changes: &[Change],
        now: Moment,
    ) {
        let Some(topic) = self.topic_of(sub) else { return };
        let Some(position) = self.position(&topic) else { return };
        let Some(following) = self.followed.get_mut(&topic) else { return };
        if matches!(following.phase, Phase::Replacing { .. }) {
            return;
        }
        let until = now.after(self.settings.fetch_timeout);
        if let Phase::Ranging { until: due, .. } = &mut following.phase {
            *due = until;
        }
        if from.contains(&position) && upto > position {
            self.counts.ranges += 1;
            self.counts.fetched += changes.len() as u64;
            let seen = self.cache.apply(&topic, changes, upto);
            self.note_position(&topic);
            self.show(&topic, seen);
        } else if upto <= position {
            self.counts.duplicates += 1;
        }
        self.drain(&topic, now);
        let Some(following) = self.followed.get(&topic) else { return };
        match following.phase {
            Phase::Repair { .. } if more => self.repair(&topic, 0, now),
            // What was asked for came; what was lost meanwhile, and is still missing, has a window of its own.
            Phase::Repair { after, .. } if self.position(&topic) > Some(after) => {
                self.wait_for_late(&topic, now)
            }
            Phase::Ranging { target, .. } if more => {
                if let Some(following) = self.followed.get_mut(&topic) {
                    following.phase = Phase::Ranging { until, target, attempts: 0 };
                }
                let after = self.position(&topic).unwrap_or_default();
                self.send(Message::Fetch { sub, after });
            }
            Phase::Idle
            | Phase::Asked { .. }
            | Phase::Ranging { .. }
            | Phase::Replacing { .. }
            | Phase::Live
            | Phase::Gap { .. }
            | Phase::Repair { .. }
            | Phase::Resting { .. } => {}
        }
    }

    /// A publisher says where a topic stands.
    pub(super) fn mark(&mut self, mark: &Mark, head: Revision, now: Moment) {
        let Some(position) = self.position(&mark.topic) else { return };
        let Some(following) = self.followed.get_mut(&mark.topic) else { return };
        let is_settled = matches!(following.phase, Phase::Live | Phase::Gap { .. } | Phase::Repair { .. });
        if !is_settled {
            return;
        }
        if mark.last > position {
            following.expected = following.expected.max(mark.last);
            if matches!(following.phase, Phase::Live) {
                self.open_gap(&mark.topic, now);
            }
            return;
        }
        if !following.ahead.is_empty() || following.expected > position || head < position {
            return;
        }
        self.cache.advance(&mark.topic, head);
        self.note_position(&mark.topic);
        let is_equal = self.cache.replica(&mark.topic).is_some_and(|replica| replica.digest() == mark.digest);
        if is_equal {
            self.counts.equal_digests += 1;
        } else {
            self.counts.mismatches += 1;
            self.report(Report::Mismatch { topic: mark.topic.clone(), at: head });
            self.climb(&mark.topic, Mode::Delta, now);
        }
    }

    /// Tells what is held in the buckets that differ.
    pub(super) fn tell(&mut self, sub: u32, buckets: &[u8], now: Moment) {
        let Some(topic) = self.topic_of(sub) else { return };
        let progress = now.after(self.settings.progress_timeout);
        let Some(following) = self.followed.get_mut(&topic) else { return };
        let Phase::Replacing { until, basis: Some(basis), .. } = &mut following.phase else { return };
        *until = progress;
        let wanted: BTreeSet<usize> = buckets.iter().map(|bucket| usize::from(*bucket)).collect();
        let held = self.cache.replica(&topic).into_iter().flat_map(|replica| replica.held(*basis));
        let held: Vec<Held> =
            held.map(|(_, _, held)| held).filter(|held| wanted.contains(&bucket(held.key))).collect();
        let mut parts = held.chunks(HELD).peekable();
        if parts.peek().is_none() {
            return self.send(Message::Have { sub, last: true, held: Vec::new() });
        }
        let mut messages = Vec::new();
        while let Some(part) = parts.next() {
            messages.push(Message::Have { sub, last: parts.peek().is_none(), held: part.to_vec() });
        }
        messages.into_iter().for_each(|message| self.send(message));
    }

    pub(super) fn collect(
        &mut self,
        sub: u32,
        part: u32,
        items: Vec<Change>,
        kept: Vec<Held>,
        gone: Vec<u64>,
        now: Moment,
    ) {
        let Some(topic) = self.topic_of(sub) else { return };
        let progress = now.after(self.settings.progress_timeout);
        let Some(following) = self.followed.get_mut(&topic) else { return };
        let Phase::Replacing { until, incoming, .. } = &mut following.phase else { return };
        *until = progress;
        if incoming.parts.insert(part) {
            incoming.items.extend(items);
            incoming.kept.extend(kept);
            incoming.gone.extend(gone);
        }
        self.complete(&topic, now);
    }

    pub(super) fn end(
        &mut self,
        sub: u32,
        at: Revision,
        parts: u32,
        count: u64,
        digest: Digest,
        now: Moment,
    ) {
        let Some(topic) = self.topic_of(sub) else { return };
        let Some(following) = self.followed.get_mut(&topic) else { return };
        let Phase::Replacing { incoming, .. } = &mut following.phase else { return };
        incoming.end = Some(End { at, parts, count, digest });
        self.complete(&topic, now);
    }

    /// Replaces what is held as soon as everything is there, and only if it fits.
    fn complete(&mut self, topic: &Topic, now: Moment) {
        let Some(following) = self.followed.get_mut(topic) else { return };
        let Phase::Replacing { basis, incoming, .. } = &mut following.phase else { return };
        let Some(end) = incoming.end.filter(|end| incoming.parts.len() == end.parts as usize) else { return };
        let (basis, incoming) = (*basis, std::mem::take(incoming));
        // Another topic may have come further since this one was asked for: what is measured is what was asked.
        let min_rev = following.min_rev;
        let patch = self.patch_of(topic, basis, incoming);
        let replica = self.cache.replica(topic);
        let fits = replica.is_some_and(|replica| replica.preview(&patch) == (end.count, end.digest));
        let is_older = self.position(topic).is_some_and(|position| end.at < position) || end.at < min_rev;
        if !fits || is_older {
            self.counts.spoiled += 1;
            return match basis {
                Some(_) if !is_older => self.ask(topic, Mode::Snapshot, now),
                _ => self.disconnected(now),
            };
        }
        match basis {
            Some(_) => self.counts.deltas += 1,
            None => self.counts.snapshots += 1,
        }
        let Some(log) = self.log else { return };
        self.replace(topic, &patch, log, end.at);
        if let Some(following) = self.followed.get_mut(topic) {
            following.phase = Phase::Ranging { until: now, target: end.at, attempts: 0 };
            following.expected = following.ahead.last_key_value().map_or(0, |(rev, _)| *rev);
        }
        self.drain(topic, now);
    }

    /// What makes the replica what the publisher says it is.
    fn patch_of(&self, topic: &Topic, basis: Option<Basis>, incoming: Incoming) -> Patch {
        let nothing = BTreeMap::new();
        let items = self.cache.replica(topic).map_or(&nothing, |replica| replica.items());
        let new: BTreeSet<&ItemKey> = incoming.items.iter().map(|change| &change.item).collect();
        let old = items.keys().filter(|item| !new.contains(item));
        let (removes, kept): (Vec<ItemKey>, Vec<(ItemKey, Revision)>) = match basis {
            None => (old.cloned().collect(), Vec::new()),
            Some(Basis::Versions) => {
                let gone: BTreeSet<u64> = incoming.gone.into_iter().collect();
                let is_gone = |item: &&ItemKey| !gone.is_empty() && gone.contains(&key_hash(item));
                (old.filter(is_gone).cloned().collect(), Vec::new())
            }
            Some(Basis::Content) => {
                let versions: BTreeMap<u64, Revision> =
                    incoming.kept.iter().map(|held| (held.key, held.mark)).collect();
                let (mut removes, mut kept) = (Vec::new(), Vec::new());
                for item in old {
                    match versions.get(&key_hash(item)) {
                        Some(version) => kept.push((item.clone(), *version)),
                        None => removes.push(item.clone()),
                    }
                }
                (removes, kept)
            }
        };
        Patch { puts: incoming.items, removes, kept }
    }

    /// Brings a topic to a position of a log, and shows what is different there.
    pub(super) fn replace(&mut self, topic: &Topic, patch: &Patch, log: LogId, at: Revision) {
        let was_elsewhere = self.cache.applied(topic).is_some() && self.position(topic).is_none();
        let changes: Vec<ViewChange> = self.cache.patch(topic, patch, self.epoch, at);
        if let Some(following) = self.followed.get_mut(topic) {
            following.log = log;
        }
        self.note_position(topic);
        if was_elsewhere {
            self.report(Report::Rebased { topic: topic.clone(), changed: changes.len() });
        }
        self.show(topic, changes);
    }

    /// A frame could not be read. What it held is missing and will be noticed; what was asked for is asked for otherwise.
    pub fn garbled(&mut self, now: Moment) {
        self.counts.garbled += 1;
        let waiting: Vec<(Topic, u32)> = self
            .followed
            .iter()
            .filter(|(_, following)| {
                matches!(following.phase, Phase::Repair { .. } | Phase::Replacing { .. })
            })
            .map(|(topic, following)| (topic.clone(), following.sub))
            .collect();
        for (topic, _) in waiting {
            let rev = self.position(&topic).unwrap_or_default();
            let text = "the answer could not be read".to_owned();
            self.send(Message::Nack { topic: topic.clone(), rev, item: String::new(), text });
            match self.followed.get(&topic).map(|following| &following.phase) {
                Some(Phase::Repair { .. }) => self.ask(&topic, Mode::Delta, now),
                Some(Phase::Replacing { .. }) => self.ask(&topic, Mode::Snapshot, now),
                _ => {}
            }
        }
    }

    pub(super) fn advance_topic(&mut self, topic: &Topic, now: Moment) {
        let attempts_allowed = self.settings.fetch_attempts;
        let Some(following) = self.followed.get_mut(topic) else { return };
        match following.phase {
            Phase::Asked { attempts, mode, .. } if attempts + 1 < attempts_allowed => {
                self.ask_again(topic, mode, attempts + 1, now);
            }
            Phase::Asked { .. } | Phase::Replacing { .. } => self.disconnected(now),
            Phase::Ranging { target, attempts, .. } => {
                if attempts >= attempts_allowed {
                    return self.disconnected(now);
                }
                let until = now.after(self.settings.fetch_timeout);
                following.phase = Phase::Ranging { until, target, attempts: attempts + 1 };
                let sub = following.sub;
                let after = self.position(topic).unwrap_or_default();
                self.send(Message::Fetch { sub, after });
            }
            Phase::Gap { .. } => self.repair(topic, 0, now),
            // Whoever comes further while it waits has a publisher that answers.
            Phase::Repair { after, attempts, .. } => {
                let has_advanced = self.position(topic) > Some(after);
                self.repair(topic, if has_advanced { 0 } else { attempts }, now);
            }
            Phase::Resting { mode, .. } => self.ask(topic, mode, now),
            Phase::Idle | Phase::Live => {}
        }
    }
}
