//! The distributor: tails a source of truth and publishes what happens there.
//!
//! Decided here: when the source is read, when it is tailed, and what a difference means. A distributor originates
//! nothing: everything it says is derived from commits, so any number of them serve the same log, and one that dies
//! between a commit and its delivery loses nothing. What the source is, the driver knows: it is asked by values
//! ([`Request`]) and answers by values.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::change::{Change, Commit, ItemKey, LogId, Revision, Topic};
use crate::moment::{Jitter, Moment};
use crate::publisher::{Delivery, Publisher, as_delivered};
use crate::settings::Settings;
use crate::subscriber::SourceUnavailable;

/// How many commits wait while the source is read again; with more, it is tailed anew.
const HELD: usize = 65_536;

/// How many things that nobody has asked for are remembered; then the oldest are forgotten.
const NOTICES: usize = 1024;

/// How the source tells what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tail {
    /// It is watched.
    Watch,
    /// It is asked every `poll-interval`, and when a writer pokes.
    Poll,
}

/// What a distributor asks of its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// To read everything at one revision; answered by `source_read`.
    Read {
        /// The name of this read.
        read: u64,
    },
    /// To tell every commit after a revision, in order, from now on: `committed`, `progressed`, `tail_lost`,
    /// `tail_compacted`. It takes the place of an earlier one.
    Watch {
        /// The log that is meant, as the source named it. A source that numbers otherwise meanwhile answers
        /// `tail_compacted`.
        log: LogId,
        /// What is known.
        after: Revision,
    },
    /// To tell the commits after a revision once: `committed` for each, then `progressed`; or `tail_lost`.
    Poll {
        /// The log that is meant.
        log: LogId,
        /// What is known.
        after: Revision,
    },
}

/// Everything in the source at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceState {
    /// Who numbers the revisions.
    pub log: LogId,
    /// The revision.
    pub rev: Revision,
    /// Every item, under its topic.
    pub items: Vec<(Topic, Change)>,
}

/// What a distributor has noticed about its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It can be read again.
    Loaded {
        /// The log.
        log: LogId,
        /// The revision.
        rev: Revision,
    },
    /// It cannot be reached; what is known is served on.
    SourceLost,
    /// It held something else than was told: an event was lost, or something broke.
    Differed {
        /// How many items differed.
        items: usize,
    },
    /// It holds a value that is too large to be delivered: whoever follows the topic is told that there is one, and keeps
    /// what it had.
    Oversize {
        /// The topic.
        topic: Topic,
        /// The item.
        item: ItemKey,
        /// How many bytes the value has.
        size: usize,
    },
    /// It went back to an earlier revision: everybody moves to another log.
    WentBack {
        /// Where it was.
        from: Revision,
        /// Where it is.
        to: Revision,
    },
}

#[derive(Debug)]
enum Phase {
    /// Waits for a read of everything.
    Loading { read: u64 },
    /// Gets what happens.
    Tailing,
    /// Tries again.
    Lost { until: Moment },
}

#[derive(Debug)]
struct Audit {
    read: u64,
    touched: BTreeSet<(Topic, ItemKey)>,
}

/// Tails a source and serves subscribers.
pub struct Distributor {
    settings: Settings,
    tail: Tail,
    publisher: Publisher,
    phase: Phase,
    /// The source's own name of its log, and ours, which differs after it went back.
    source_log: Option<LogId>,
    audit: Option<Audit>,
    /// A revision that an audit has seen and the tail has not told.
    missing: Option<Revision>,
    next_audit: Moment,
    next_poll: Moment,
    is_poked: bool,
    is_polling: bool,
    held: Vec<Commit>,
    attempts: u32,
    next_read: u64,
    jitter: Jitter,
    requests: VecDeque<Request>,
    notices: VecDeque<Notice>,
}

impl Distributor {
    /// A distributor that begins by reading its source.
    pub fn new(
        settings: Settings,
        delivery: Delivery,
        tail: Tail,
        instance: u128,
        seed: u64,
        now: Moment,
    ) -> Self {
        let publisher = Publisher::new(settings.clone(), delivery, instance, seed);
        let mut distributor = Self {
            settings,
            tail,
            publisher,
            phase: Phase::Lost { until: now },
            source_log: None,
            audit: None,
            missing: None,
            next_audit: now,
            next_poll: now,
            is_poked: false,
            is_polling: false,
            held: Vec::new(),
            attempts: 0,
            next_read: 0,
            jitter: Jitter::new(seed ^ 0x5bd1_e995),
            requests: VecDeque::new(),
            notices: VecDeque::new(),
        };
        distributor.plan_audit(now);
        distributor.load();
        distributor
    }

    /// The publishing side, for whoever carries its frames.
    pub fn publisher(&mut self) -> &mut Publisher {
        &mut self.publisher
    }

    /// The publishing side, to look at.
    pub fn published(&self) -> &Publisher {
        &self.publisher
    }

    /// What to ask the source, in order; nothing if that is all for now.
    pub fn request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// What was noticed, in order.
    pub fn notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn note(&mut self, notice: Notice) {
        if self.notices.len() >= NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
    }

    /// Appends a commit and delivers it.
    fn append(&mut self, commit: Commit, now: Moment) {
        self.publisher.append(commit, now);
        self.note_oversize();
    }

    fn note_oversize(&mut self) {
        while let Some((topic, item, size)) = self.publisher.oversize() {
            self.note(Notice::Oversize { topic, item, size });
        }
    }

    fn ask_read(&mut self) -> u64 {
        self.next_read += 1;
        self.requests.push_back(Request::Read { read: self.next_read });
        self.next_read
    }

    fn load(&mut self) {
        let read = self.ask_read();
        self.audit = None;
        self.phase = Phase::Loading { read };
    }

    fn plan_audit(&mut self, now: Moment) {
        let interval = self.settings.audit_interval;
        self.next_audit = now.after(interval + self.jitter.up_to(interval / 2));
    }

    /// Whether there is something to ask the source, and something that was noticed about it.
    pub(crate) fn is_waited_for(&self) -> (bool, bool) {
        (!self.requests.is_empty(), !self.notices.is_empty())
    }

    /// The source was read, or could not be. A failure changes nothing of what is served.
    pub fn source_read(&mut self, read: u64, answer: Result<SourceState, SourceUnavailable>, now: Moment) {
        let is_audit = self.audit.as_ref().is_some_and(|audit| audit.read == read);
        let is_load = matches!(self.phase, Phase::Loading { read: asked } if asked == read);
        match answer {
            Ok(state) if is_load => self.loaded(state, now),
            Ok(state) if is_audit => self.audited(state, now),
            Err(SourceUnavailable) if is_load => {
                self.held.clear();
                self.lose(now);
            }
            Err(SourceUnavailable) if is_audit => self.audit = None,
            Ok(_) | Err(SourceUnavailable) => {}
        }
    }

    fn loaded(&mut self, state: SourceState, now: Moment) {
        let SourceState { log, rev, items } = state;
        let is_same = self.publisher.is_loaded() && self.source_log == Some(log);
        let head = self.publisher.head();
        if is_same && rev >= head {
            let differed = self.publisher.reload(rev, items, now);
            if differed > 0 {
                self.note(Notice::Differed { items: differed });
            }
        } else {
            let ours = if is_same {
                self.note(Notice::WentBack { from: head, to: rev });
                LogId::of(&format!("{} went back from {head} to {rev}", self.publisher.log_id()))
            } else {
                log
            };
            self.source_log = Some(log);
            self.publisher.load(ours, rev, items, now);
        }
        self.note_oversize();
        self.note(Notice::Loaded { log: self.publisher.log_id(), rev });
        self.attempts = 0;
        self.phase = Phase::Tailing;
        for commit in std::mem::take(&mut self.held) {
            self.append(commit, now);
        }
        self.resume(now);
    }

    fn resume(&mut self, now: Moment) {
        let (log, after) = (self.source_log.unwrap_or_default(), self.publisher.head());
        match self.tail {
            Tail::Watch => self.requests.push_back(Request::Watch { log, after }),
            Tail::Poll => self.poll(now),
        }
    }

    fn poll(&mut self, now: Moment) {
        self.is_poked = false;
        self.is_polling = true;
        self.next_poll = now.after(self.settings.poll_interval);
        let (log, after) = (self.source_log.unwrap_or_default(), self.publisher.head());
        self.requests.push_back(Request::Poll { log, after });
    }

    /// A writer says that there is something new: a source that is polled is asked at once, and so is one that was lost,
    /// because somebody has just reached it. No harm is done if it is not heard.
    pub fn poke(&mut self, now: Moment) {
        if let Phase::Lost { until } = &mut self.phase {
            *until = now;
        }
        if self.tail == Tail::Poll && matches!(self.phase, Phase::Tailing) {
            self.is_poked = true;
            if !self.is_polling {
                self.poll(now);
            }
        }
    }

    /// The source tells a commit.
    pub fn committed(&mut self, commit: Commit, now: Moment) {
        if let Some(audit) = &mut self.audit {
            audit
                .touched
                .extend(commit.changes.iter().map(|(topic, change)| (topic.clone(), change.item.clone())));
        }
        match self.phase {
            Phase::Tailing => self.append(commit, now),
            Phase::Loading { .. } if self.publisher.is_loaded() && self.held.len() < HELD => {
                self.held.push(commit)
            }
            Phase::Loading { .. } | Phase::Lost { .. } => {}
        }
    }

    /// The source tells that there is nothing else up to a revision.
    pub fn progressed(&mut self, rev: Revision, now: Moment) {
        self.is_polling = false;
        if matches!(self.phase, Phase::Tailing) {
            self.attempts = 0;
            self.publisher.progress(rev, now);
            if self.is_poked {
                self.poll(now);
            }
        }
    }

    /// The source cannot be tailed right now.
    pub fn tail_lost(&mut self, now: Moment) {
        self.is_polling = false;
        if matches!(self.phase, Phase::Tailing) {
            self.lose(now);
        }
    }

    /// The source does not know any more what happened after the revision that was asked for.
    pub fn tail_compacted(&mut self) {
        self.is_polling = false;
        if matches!(self.phase, Phase::Tailing | Phase::Lost { .. }) {
            self.held.clear();
            self.load();
        }
    }

    fn lose(&mut self, now: Moment) {
        if self.attempts == 0 {
            self.note(Notice::SourceLost);
        }
        self.publisher.source_lost(now);
        self.audit = None;
        let step = self.settings.backoff.saturating_mul(1 << self.attempts.min(16));
        self.attempts += 1;
        let wait = step.min(self.settings.backoff_cap);
        self.phase = Phase::Lost { until: now.after(wait / 2 + self.jitter.up_to(wait / 2)) };
    }

    /// Compares what is served with a read that is not newer; what happened meanwhile is left out.
    fn audited(&mut self, mut state: SourceState, now: Moment) {
        let Some(audit) = self.audit.take() else { return };
        for (_, change) in &mut state.items {
            let _ = as_delivered(change);
        }
        let head = self.publisher.head();
        if self.source_log != Some(state.log) || self.missing.is_some_and(|missing| head < missing) {
            // Another log, or a commit that was there at the last audit and has not been told since.
            self.missing = None;
            self.held.clear();
            return self.load();
        }
        self.missing = (state.rev > head).then_some(state.rev);
        if self.missing.is_some() {
            // What has not been told yet cannot be compared: it should be soon.
            self.next_audit = now.after(self.settings.heartbeat_interval);
            return;
        }
        let is_quiet =
            |topic: &Topic, item: &ItemKey| !audit.touched.contains(&(topic.clone(), item.clone()));
        let read: BTreeSet<(&Topic, &ItemKey)> =
            state.items.iter().map(|(topic, change)| (topic, &change.item)).collect();
        let wrong = state.items.iter().filter(|(topic, change)| {
            let entry = self.publisher.view(topic).and_then(|view| view.items().get(&change.item));
            let is_same = entry.is_some_and(|entry| {
                entry.version == change.version && Some(&entry.value) == change.value.as_ref()
            });
            !is_same && is_quiet(topic, &change.item)
        });
        let extra = self.publisher.topics().filter_map(|topic| Some((topic, self.publisher.view(topic)?)));
        let extra = extra.flat_map(|(topic, view)| view.items().keys().map(move |item| (topic, item)));
        let extra = extra.filter(|(topic, item)| !read.contains(&(*topic, *item)) && is_quiet(topic, item));
        if wrong.count() + extra.count() > 0 {
            self.held.clear();
            self.load();
        }
    }

    /// When something is due.
    pub fn deadline(&self) -> Option<Moment> {
        let own = match self.phase {
            Phase::Loading { .. } => None,
            Phase::Lost { until } => Some(until),
            Phase::Tailing if self.tail == Tail::Poll && !self.is_polling => {
                Some(self.next_audit.min(self.next_poll))
            }
            Phase::Tailing => Some(self.next_audit),
        };
        own.into_iter().chain(self.publisher.deadline()).min()
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Moment) {
        self.publisher.advance(now);
        match self.phase {
            Phase::Lost { until } if until <= now => {
                if self.publisher.is_loaded() {
                    self.phase = Phase::Tailing;
                    self.resume(now);
                } else {
                    self.load();
                }
            }
            Phase::Tailing => {
                if self.next_audit <= now {
                    self.plan_audit(now);
                    let read = self.ask_read();
                    self.audit = Some(Audit { read, touched: BTreeSet::new() });
                }
                if self.tail == Tail::Poll && !self.is_polling && self.next_poll <= now {
                    self.poll(now);
                }
            }
            Phase::Loading { .. } | Phase::Lost { .. } => {}
        }
    }

    /// How long what is served may be behind the source when everything works: how often it is asked.
    pub fn tail_delay(&self) -> Duration {
        if self.tail == Tail::Poll { self.settings.poll_interval } else { Duration::ZERO }
    }
}
