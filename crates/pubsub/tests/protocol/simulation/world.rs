//! The network of processes, and what a script or a throw can do to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use kilter_pubsub::{
    Delivery, Digest, Distributor, ItemKey, LogId, Mark, Message, Mirror, Moment, Nearness, Notice, Output,
    Report, Request, Revision, SessionId, Settings, Subscriber, Tail, Topic, wire,
};
use kilter_testkit::dice::Dice;

use super::check::Witness;
use super::clock::Clock;
use super::network::{Arrival, Network, Weather};
use super::store::Store;

pub(crate) struct DistributorProcess {
    pub(crate) core: Option<Distributor>,
    life: u64,
    clock: Clock,
    watch: Option<(u64, Revision)>,
    /// Commits that its watch will lose.
    pub(crate) lost_commits: usize,
    has_lost: bool,
    /// Whether it can reach the store.
    pub(crate) source_reachable: bool,
    pub(crate) notices: Vec<Notice>,
    /// When it said last where a topic with items stands.
    beats: BTreeMap<Topic, u64>,
}

impl DistributorProcess {
    /// Whether its watch has ever lost a commit.
    pub(crate) fn lost_commits_ever(&self) -> bool {
        self.has_lost
    }
}

pub(crate) struct SubscriberProcess {
    pub(crate) core: Option<Subscriber>,
    life: u64,
    clock: Clock,
    connection: Option<u64>,
    pub(crate) witness: Witness,
    pub(crate) reports: Vec<(u64, Report)>,
    /// Milliseconds it takes for every frame.
    pub(crate) slowness: u64,
    /// Whether it can reach the store.
    pub(crate) source_reachable: bool,
    pub(crate) received_bytes: usize,
    /// Bytes of answers with items: what was sent again.
    pub(crate) resent_bytes: usize,
    /// For how long its publisher last said to have no word from the store.
    pub(crate) told_stale_ms: u64,
    /// What the subscriber sent, by the name of the message.
    pub(crate) sent: BTreeMap<&'static str, u64>,
    /// What the subscriber heard, by the name of the message.
    pub(crate) heard: BTreeMap<&'static str, u64>,
    /// Frames that will arrive as rubbish.
    pub(crate) garble: usize,
    /// How often it began to follow a topic of which it held nothing.
    pub(crate) follows: u64,
    /// Whether its machine is suspended.
    pub(crate) suspended: bool,
    pub(crate) mirror: Option<Mirror>,
}

impl SubscriberProcess {
    /// The name of its connection.
    pub(crate) fn connection_name(&self) -> Option<u64> {
        self.connection
    }
}

struct Connection {
    subscriber: usize,
    distributor: usize,
    life: u64,
    up_at: u64,
    down_at: u64,
    in_flight: usize,
    open: bool,
}

pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) delivery: Delivery,
    pub(crate) tail: Tail,
    pub(crate) store: Store,
    pub(crate) distributors: Vec<DistributorProcess>,
    pub(crate) subscribers: Vec<SubscriberProcess>,
    pub(crate) weather: Weather,
    /// Frames on their way on one connection, at most.
    pub(crate) in_flight: usize,
    /// Pairs of subscriber and distributor that cannot reach each other.
    pub(crate) cut: BTreeSet<(usize, usize)>,
    /// When subscribers said who they are.
    pub(crate) hellos: Vec<u64>,
    /// How much clocks gain or lose at most, in millionths.
    pub(crate) drift: u32,
    pub(crate) dice: Dice,
    network: Network,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    next_watch: u64,
    /// Microseconds.
    pub(crate) now: u64,
    /// Whether values need not be those of the store.
    pub(crate) excuse_values: bool,
    pub(crate) trace: Option<Vec<String>>,
    pub(crate) broken: Option<String>,
}

pub(crate) fn item(name: &str) -> ItemKey {
    ItemKey::new("t", name)
}

pub(crate) fn topic(name: &str) -> Topic {
    Topic::new(name)
}

impl World {
    pub(crate) fn new(settings: Settings, delivery: Delivery, seed: u64) -> Self {
        settings.validate().expect("the settings can be");
        Self {
            settings,
            delivery,
            tail: Tail::Watch,
            store: Store::new(),
            distributors: Vec::new(),
            subscribers: Vec::new(),
            weather: Weather { delay: 2, ..Weather::default() },
            in_flight: 16,
            cut: BTreeSet::new(),
            hellos: Vec::new(),
            drift: 0,
            dice: Dice::new(seed),
            network: Network::default(),
            connections: BTreeMap::new(),
            next_connection: 0,
            next_watch: 0,
            now: 0,
            excuse_values: false,
            trace: None,
            broken: None,
        }
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9.3} {}", self.now as f64 / 1e6, line()));
        }
    }

    /// What went wrong, the first time.
    pub(crate) fn fail(&mut self, what: String) {
        self.note(|| format!("BROKEN {what}"));
        self.broken.get_or_insert(what);
    }

    fn at(&self, clock: Clock) -> Moment {
        clock.at(self.now)
    }

    /// A clock that begins anywhere within an hour, and gains or loses.
    fn clock(&mut self) -> Clock {
        let offset = self.dice.below(3_600_000_000) as u64;
        let drift = self.drift as usize;
        let gain = if drift == 0 { 0 } else { self.dice.below(2 * drift + 1) as i32 - self.drift as i32 };
        Clock { offset, gain }
    }

    pub(crate) fn add_distributor(&mut self) -> usize {
        self.distributors.push(DistributorProcess {
            core: None,
            life: 0,
            clock: Clock::default(),
            watch: None,
            lost_commits: 0,
            has_lost: false,
            source_reachable: true,
            notices: Vec::new(),
            beats: BTreeMap::new(),
        });
        let index = self.distributors.len() - 1;
        self.start_distributor(index);
        index
    }

    pub(crate) fn start_distributor(&mut self, index: usize) {
        let (clock, instance) = (self.clock(), u128::from(self.dice.number()));
        let (settings, delivery, tail, seed) =
            (self.settings.clone(), self.delivery, self.tail, self.dice.number());
        let now = self.at(clock);
        let process = &mut self.distributors[index];
        process.life += 1;
        process.clock = clock;
        process.watch = None;
        process.beats.clear();
        process.core = Some(Distributor::new(settings, delivery, tail, instance, seed, now));
        self.note(|| format!("d{index} starts"));
        self.drive_distributor(index);
    }

    /// Ends a distributor without a word.
    pub(crate) fn crash_distributor(&mut self, index: usize) {
        self.note(|| format!("d{index} crashes"));
        self.distributors[index].core = None;
        self.distributors[index].watch = None;
        let ended: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, one)| one.distributor == index)
            .map(|(name, _)| *name)
            .collect();
        for connection in ended {
            self.network.send(self.now + 1000, Arrival::Closed { connection });
        }
    }

    /// A node of this name with these topics; distributors are known by their number.
    pub(crate) fn add_subscriber(&mut self, topics: &[Topic]) -> usize {
        self.subscribers.push(SubscriberProcess {
            core: None,
            life: 0,
            clock: Clock::default(),
            connection: None,
            witness: Witness::default(),
            reports: Vec::new(),
            slowness: 0,
            source_reachable: true,
            received_bytes: 0,
            resent_bytes: 0,
            told_stale_ms: 0,
            sent: BTreeMap::new(),
            heard: BTreeMap::new(),
            garble: 0,
            follows: 0,
            suspended: false,
            mirror: None,
        });
        let index = self.subscribers.len() - 1;
        self.start_subscriber(index, topics, false);
        index
    }

    pub(crate) fn start_subscriber(&mut self, index: usize, topics: &[Topic], from_mirror: bool) {
        let (clock, instance, seed) = (self.clock(), u128::from(self.dice.number()), self.dice.number());
        let now = self.at(clock);
        let addresses = (0..self.distributors.len()).map(|number| number.to_string());
        let mut core =
            Subscriber::new(self.settings.clone(), format!("s{index}"), instance, addresses, seed, now);
        let process = &mut self.subscribers[index];
        process.witness = Witness::default();
        if let Some(mirror) = process.mirror.take().filter(|_| from_mirror) {
            core.restore(mirror);
        }
        process.follows = 0;
        for topic in topics {
            process.follows += u64::from(!core.followed().any(|known| known == topic));
            core.follow(topic.clone(), now);
        }
        process.life += 1;
        process.clock = clock;
        process.core = Some(core);
        self.note(|| format!("s{index} starts, from its mirror: {from_mirror}"));
        self.drive_subscriber(index);
    }

    /// Ends a subscriber; its mirror stays on its disk.
    pub(crate) fn crash_subscriber(&mut self, index: usize) {
        self.note(|| format!("s{index} crashes"));
        let process = &mut self.subscribers[index];
        process.mirror = process.core.as_ref().and_then(Subscriber::mirror);
        process.core = None;
        if let Some(connection) = process.connection.take() {
            self.drop_at_distributor(connection);
        }
    }

    fn drop_at_distributor(&mut self, connection: u64) {
        let Some(ended) = self.connections.remove(&connection) else { return };
        let process = &mut self.distributors[ended.distributor];
        if let Some(core) = process.core.as_mut().filter(|_| process.life == ended.life) {
            core.publisher().disconnected(SessionId(connection));
        }
    }

    /// Breaks the connection of a subscriber; both sides learn it.
    pub(crate) fn break_connection(&mut self, subscriber: usize) {
        if let Some(connection) = self.subscribers[subscriber].connection {
            self.note(|| format!("the connection of s{subscriber} breaks"));
            self.drop_at_distributor(connection);
            self.network.send(self.now + 1000, Arrival::Closed { connection });
        }
    }

    pub(crate) fn follow(&mut self, subscriber: usize, topic: &Topic) {
        let now = self.at(self.subscribers[subscriber].clock);
        let process = &mut self.subscribers[subscriber];
        if let Some(core) = &mut process.core {
            process.follows += u64::from(!core.followed().any(|known| known == topic));
            core.follow(topic.clone(), now);
        }
        self.note(|| format!("s{subscriber} follows {topic}"));
        self.drive_subscriber(subscriber);
    }

    pub(crate) fn unfollow(&mut self, subscriber: usize, topic: &Topic) {
        if let Some(core) = &mut self.subscribers[subscriber].core {
            core.unfollow(topic);
        }
        self.note(|| format!("s{subscriber} follows {topic} no more"));
        self.drive_subscriber(subscriber);
    }

    /// How near a subscriber is to what is published.
    pub(crate) fn nearness(&self, subscriber: usize) -> Nearness {
        let process = &self.subscribers[subscriber];
        process.core.as_ref().expect("it runs").nearness(self.at(process.clock))
    }

    /// A writer pokes a distributor.
    pub(crate) fn poke(&mut self, index: usize) {
        let now = self.at(self.distributors[index].clock);
        if let Some(core) = &mut self.distributors[index].core {
            core.poke(now);
        }
        self.drive_distributor(index);
    }

    /// The consumer of a subscriber refuses an item.
    pub(crate) fn refuse(&mut self, subscriber: usize, topic: &Topic, item: &ItemKey) {
        let now = self.at(self.subscribers[subscriber].clock);
        if let Some(core) = &mut self.subscribers[subscriber].core {
            core.refuse(topic, item, "it cannot be used", now);
        }
        self.drive_subscriber(subscriber);
    }

    pub(crate) fn put(&mut self, to: &str, key: &str) -> Revision {
        let value = format!("{key} {}", self.store.rev() + 1).into_bytes();
        self.commit(&[(topic(to), item(key), value)], &[])
    }

    pub(crate) fn delete(&mut self, key: &str) -> Revision {
        self.commit(&[], &[item(key)])
    }

    pub(crate) fn commit(&mut self, puts: &[(Topic, ItemKey, Vec<u8>)], deletes: &[ItemKey]) -> Revision {
        let rev = self.store.commit(puts, deletes);
        self.note(|| {
            let puts: Vec<String> =
                puts.iter().map(|(topic, item, _)| format!("{item} in {topic}")).collect();
            format!("commit {rev}: put {puts:?}, delete {deletes:?}")
        });
        for index in 0..self.distributors.len() {
            self.feed(index);
        }
        rev
    }

    /// A writer puts an item that it has read in this version; nothing comes of it if somebody else was faster, or if the
    /// store is away.
    pub(crate) fn put_if(&mut self, to: &str, key: &str, expected: Option<Revision>) -> Option<Revision> {
        let value = format!("{key} after {expected:?} {}", self.dice.number()).into_bytes();
        let rev = self.store.commit_if(expected, (topic(to), item(key), value))?;
        self.note(|| format!("commit {rev}: put {key} in {to}, which was at {expected:?}"));
        (0..self.distributors.len()).for_each(|index| self.feed(index));
        Some(rev)
    }

    /// Tells a distributor what its watch has not told yet.
    fn feed(&mut self, index: usize) {
        let process = &mut self.distributors[index];
        let (Some((watch, after)), life) = (process.watch, process.life) else { return };
        if !self.store.available || !process.source_reachable || self.tail == Tail::Poll {
            return;
        }
        let at = self.now + 200;
        let Some(commits) = self.store.after(after) else {
            process.watch = None;
            return self
                .network
                .send(at, Arrival::WatchEnded { distributor: index, life, watch, compacted: true });
        };
        process.watch = Some((watch, self.store.rev()));
        for commit in commits {
            if self.distributors[index].lost_commits > 0 {
                self.distributors[index].lost_commits -= 1;
                self.distributors[index].has_lost = true;
                self.note(|| format!("the watch of d{index} loses commit {}", commit.rev));
                continue;
            }
            self.network.send(at, Arrival::Commit { distributor: index, life, watch, commit });
        }
    }

    /// The store goes away, or comes back; watches end when it goes.
    pub(crate) fn set_store(&mut self, available: bool) {
        self.note(|| format!("the store is available: {available}"));
        self.store.available = available;
        if !available {
            self.end_watches();
        }
    }

    pub(crate) fn end_watches(&mut self) {
        for index in 0..self.distributors.len() {
            self.end_watch(index);
        }
    }

    fn end_watch(&mut self, index: usize) {
        let process = &mut self.distributors[index];
        if let Some((watch, _)) = process.watch.take() {
            let life = process.life;
            self.network.send(
                self.now + 500,
                Arrival::WatchEnded { distributor: index, life, watch, compacted: false },
            );
        }
    }

    /// Whether a distributor can reach the store.
    pub(crate) fn set_source(&mut self, index: usize, reachable: bool) {
        self.note(|| format!("d{index} reaches the store: {reachable}"));
        self.distributors[index].source_reachable = reachable;
        if !reachable {
            self.end_watch(index);
        }
    }

    /// The store is restored from a backup of an earlier revision.
    pub(crate) fn restore_store(&mut self, back: u64, log: Option<LogId>) {
        let rev = self.store.rev().saturating_sub(back).max(self.store.life().start);
        let log = log.unwrap_or_else(|| LogId::of(&format!("life {}", self.store.lives.len())));
        self.note(|| format!("the store is restored to revision {rev} as {log}"));
        self.store.restore(rev, log);
        self.end_watches();
    }

    /// Breaks or mends the way between a subscriber and a distributor. What is on a connection then goes nowhere.
    pub(crate) fn set_cut(&mut self, subscriber: usize, distributor: usize, cut: bool) {
        self.note(|| format!("s{subscriber} and d{distributor} are cut: {cut}"));
        if cut {
            self.cut.insert((subscriber, distributor));
        } else {
            self.cut.remove(&(subscriber, distributor));
        }
    }

    fn is_cut(&self, subscriber: usize, distributor: usize) -> bool {
        self.cut.contains(&(subscriber, distributor))
    }

    fn delay(&mut self) -> u64 {
        100 + self.dice.below(self.weather.delay.max(1) * 1000) as u64
    }

    fn happens(&mut self, percent: usize) -> bool {
        percent > 0 && self.dice.below(100) < percent
    }

    /// Lets time pass.
    pub(crate) fn run_for(&mut self, span: Duration) {
        let end = self.now + span.as_micros() as u64;
        while self.broken.is_none() && self.step(end) {}
        self.now = self.now.max(end);
    }

    pub(crate) fn run_millis(&mut self, millis: u64) {
        self.run_for(Duration::from_millis(millis));
    }

    /// Lets time pass until something is so; the answer is how long it took, in microseconds.
    pub(crate) fn run_until(&mut self, limit: Duration, mut is_so: impl FnMut(&Self) -> bool) -> Option<u64> {
        let (start, end) = (self.now, self.now + limit.as_micros() as u64);
        loop {
            if is_so(self) {
                return Some(self.now - start);
            }
            if self.broken.is_some() || !self.step(end) {
                return None;
            }
        }
    }

    /// What happens next, if that is before the end.
    fn step(&mut self, end: u64) -> bool {
        let mut next = self.network.next_at().map(|at| (at, None));
        let distributors = self.distributors.iter().enumerate().filter_map(|(index, process)| {
            let due = process.core.as_ref()?.deadline()?;
            Some((process.clock.when(due), Some((true, index))))
        });
        let subscribers = self.subscribers.iter().enumerate().filter_map(|(index, process)| {
            let due = process.core.as_ref().filter(|_| !process.suspended)?.deadline()?;
            Some((process.clock.when(due), Some((false, index))))
        });
        for one in distributors.chain(subscribers) {
            if next.is_none_or(|next| one.0 < next.0) {
                next = Some(one);
            }
        }
        let Some((at, who)) = next.filter(|(at, _)| *at <= end) else { return false };
        self.now = self.now.max(at);
        match who {
            None => {
                if let Some(arrival) = self.network.next() {
                    self.arrive(arrival);
                }
            }
            Some((true, index)) => {
                let now = self.at(self.distributors[index].clock);
                if let Some(core) = &mut self.distributors[index].core {
                    core.advance(now);
                }
                self.drive_distributor(index);
            }
            Some((false, index)) => {
                let now = self.at(self.subscribers[index].clock);
                if let Some(core) = &mut self.subscribers[index].core {
                    core.advance(now);
                }
                self.drive_subscriber(index);
            }
        }
        true
    }

    fn arrive(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Opened { connection, accepted } => self.opened(connection, accepted),
            Arrival::Up { connection, frame } => self.up(connection, &frame),
            Arrival::Down { connection, frame } => self.down(connection, &frame),
            Arrival::Heard { subscriber, life, from, frame } => {
                if self.subscribers[subscriber].life == life && !self.is_cut(subscriber, from) {
                    self.hear(subscriber, &frame);
                }
            }
            Arrival::Closed { connection } => {
                let subscriber = self.subscribers.iter().position(|one| one.connection == Some(connection));
                self.drop_at_distributor(connection);
                if let Some(index) = subscriber {
                    self.subscribers[index].connection = None;
                    let now = self.at(self.subscribers[index].clock);
                    if let Some(core) = &mut self.subscribers[index].core {
                        core.disconnected(now);
                    }
                    self.drive_subscriber(index);
                }
            }
            Arrival::OwnRead { subscriber, life, read, answer } => {
                let is_same = self.subscribers[subscriber].life == life;
                if let Some(core) = self.subscribers[subscriber].core.as_mut().filter(|_| is_same) {
                    core.source_read(read, answer);
                    self.drive_subscriber(subscriber);
                }
            }
            Arrival::Commit { .. }
            | Arrival::Progress { .. }
            | Arrival::WatchEnded { .. }
            | Arrival::Read { .. } => {
                self.arrive_from_source(arrival);
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "what is not from a source arrives elsewhere")]
    fn arrive_from_source(&mut self, arrival: Arrival) {
        let (index, life) = match &arrival {
            Arrival::Commit { distributor, life, .. }
            | Arrival::Progress { distributor, life, .. }
            | Arrival::WatchEnded { distributor, life, .. }
            | Arrival::Read { distributor, life, .. } => (*distributor, *life),
            _ => return,
        };
        let process = &mut self.distributors[index];
        if process.life != life {
            return;
        }
        let now = process.clock.at(self.now);
        let current = self.next_watch_of(index);
        let Some(core) = self.distributors[index].core.as_mut() else { return };
        match arrival {
            Arrival::Commit { watch, commit, .. } if current.is_none_or(|current| current == watch) => {
                core.committed(commit, now);
            }
            Arrival::Progress { watch, rev, .. } if current.is_none_or(|current| current == watch) => {
                core.progressed(rev, now);
            }
            Arrival::WatchEnded { watch, compacted, .. }
                if current.is_none_or(|current| current == watch) =>
            {
                if compacted {
                    core.tail_compacted();
                } else {
                    core.tail_lost(now);
                }
            }
            Arrival::Read { read, answer, .. } => core.source_read(read, answer, now),
            _ => {}
        }
        self.drive_distributor(index);
    }

    fn next_watch_of(&self, index: usize) -> Option<u64> {
        self.distributors[index].watch.map(|(watch, _)| watch)
    }

    fn opened(&mut self, connection: u64, accepted: bool) {
        let Some(open) = self.connections.get_mut(&connection) else { return };
        let (subscriber, distributor) = (open.subscriber, open.distributor);
        let is_reachable =
            !self.is_cut(subscriber, distributor) && self.distributors[distributor].core.is_some();
        if !accepted || !is_reachable || self.subscribers[subscriber].connection != Some(connection) {
            self.network.send(self.now, Arrival::Closed { connection });
            return;
        }
        let life = self.distributors[distributor].life;
        if let Some(open) = self.connections.get_mut(&connection) {
            open.open = true;
            open.life = life;
        }
        let now = self.at(self.distributors[distributor].clock);
        if let Some(core) = &mut self.distributors[distributor].core {
            core.publisher().connected(SessionId(connection), now);
        }
        let now = self.at(self.subscribers[subscriber].clock);
        if let Some(core) = &mut self.subscribers[subscriber].core {
            core.connected(now);
        }
        self.drive_subscriber(subscriber);
    }

    fn up(&mut self, connection: u64, frame: &Bytes) {
        let Some(open) = self.connections.get(&connection) else { return };
        let (subscriber, index, life) = (open.subscriber, open.distributor, open.life);
        if self.is_cut(subscriber, index) || self.distributors[index].life != life {
            return;
        }
        let message = wire::decode(frame).expect("what was encoded is decoded").expect("a known message");
        let now = self.at(self.distributors[index].clock);
        if let Some(core) = &mut self.distributors[index].core {
            core.publisher().receive(SessionId(connection), message, now);
        }
        self.drive_distributor(index);
    }

    fn down(&mut self, connection: u64, frame: &Bytes) {
        let Some(open) = self.connections.get_mut(&connection) else { return };
        open.in_flight -= 1;
        let (subscriber, distributor) = (open.subscriber, open.distributor);
        if self.subscribers[subscriber].connection == Some(connection)
            && !self.is_cut(subscriber, distributor)
        {
            self.hear(subscriber, frame);
        }
        self.carry(distributor, connection);
    }

    fn hear(&mut self, index: usize, frame: &Bytes) {
        let now = self.at(self.subscribers[index].clock);
        let process = &mut self.subscribers[index];
        let Some(core) = process.core.as_mut().filter(|_| !process.suspended) else { return };
        process.received_bytes += frame.len();
        if process.garble > 0 && frame.len() > 40 {
            process.garble -= 1;
            core.garbled(now);
        } else {
            let message = wire::decode(frame).expect("what was encoded is decoded").expect("a known message");
            *process.heard.entry(name_of(&message)).or_default() += 1;
            if matches!(message, Message::Range { .. } | Message::Items { .. }) {
                process.resent_bytes += frame.len();
            }
            let mut beat = None;
            if let Message::Beat { stale_ms, log, marks, .. } = &message {
                process.told_stale_ms = *stale_ms;
                beat = Some((*log, marks.clone()));
            }
            core.receive(message, now);
            if let Some((log, marks)) = beat {
                self.check_marks(index, log, &marks);
            }
        }
        self.drive_subscriber(index);
    }

    /// Does what a distributor asks for.
    pub(crate) fn drive_distributor(&mut self, index: usize) {
        let life = self.distributors[index].life;
        while let Some(request) = self.distributors[index].core.as_mut().and_then(Distributor::request) {
            self.answer(index, life, request);
        }
        let Some(core) = self.distributors[index].core.as_mut() else { return };
        let mut notices = Vec::new();
        while let Some(notice) = core.notice() {
            notices.push(notice);
        }
        let mut said = Vec::new();
        while let Some(message) = core.publisher().broadcast() {
            let marks = if let Message::Beat { marks, .. } = &message { marks.clone() } else { Vec::new() };
            said.push((marks, wire::encode(&message)));
        }
        let wakes = core.publisher().wakes();
        for notice in notices {
            self.note(|| format!("d{index} notices {notice:?}"));
            if matches!(notice, Notice::Loaded { .. }) {
                // Its topics begin anew.
                self.distributors[index].beats.clear();
            }
            self.distributors[index].notices.push(notice);
        }
        for (marks, frame) in said {
            marks.iter().for_each(|mark| self.check_beat(index, mark));
            self.say(index, &frame);
        }
        for SessionId(connection) in wakes {
            self.carry(index, connection);
        }
    }

    fn answer(&mut self, index: usize, life: u64, request: Request) {
        let is_reachable = self.store.available && self.distributors[index].source_reachable;
        let at = self.now + 300;
        let distributor = index;
        match request {
            Request::Read { read } => {
                let answer =
                    if is_reachable { self.store.read() } else { Err(kilter_pubsub::SourceUnavailable) };
                self.network.send(at, Arrival::Read { distributor, life, read, answer });
            }
            Request::Watch { log, after } => {
                self.next_watch += 1;
                let watch = self.next_watch;
                if is_reachable && log != self.store.log {
                    self.network.send(at, Arrival::WatchEnded { distributor, life, watch, compacted: true });
                } else if is_reachable {
                    self.distributors[index].watch = Some((watch, after));
                    self.feed(index);
                    if let Some((watch, rev)) = self.distributors[index].watch {
                        self.network.send(at, Arrival::Progress { distributor, life, watch, rev });
                    }
                } else {
                    self.network.send(at, Arrival::WatchEnded { distributor, life, watch, compacted: false });
                }
            }
            Request::Poll { log, after } => {
                let watch = 0;
                let is_known = is_reachable && log == self.store.log;
                match self.store.after(after).filter(|_| is_known) {
                    Some(commits) => {
                        for commit in commits {
                            self.network.send(at, Arrival::Commit { distributor, life, watch, commit });
                        }
                        let rev = self.store.rev();
                        self.network.send(at, Arrival::Progress { distributor, life, watch, rev });
                    }
                    None => {
                        let compacted = is_reachable;
                        self.network.send(at, Arrival::WatchEnded { distributor, life, watch, compacted });
                    }
                }
            }
        }
    }

    /// G5: whoever says everything to everybody says where a topic stands at least every heartbeat, by its own clock. One
    /// without items may be forgotten meanwhile.
    fn check_beat(&mut self, index: usize, mark: &Mark) {
        let process = &mut self.distributors[index];
        let clock = process.clock;
        if mark.digest == Digest::default() {
            process.beats.remove(&mark.topic);
            return;
        }
        let Some(before) = process.beats.insert(mark.topic.clone(), self.now) else { return };
        let between = clock.at(self.now).since(clock.at(before));
        if between > self.settings.heartbeat_interval + Duration::from_millis(2) {
            self.fail(format!("G5: d{index} said nothing about {} for {between:?}", mark.topic));
        }
    }

    /// Says something to everybody who listens.
    fn say(&mut self, from: usize, frame: &Bytes) {
        for subscriber in 0..self.subscribers.len() {
            let life = self.subscribers[subscriber].life;
            let copies = 1 + usize::from(self.happens(self.weather.twice));
            for _ in 0..copies {
                if self.happens(self.weather.loss) {
                    continue;
                }
                let at = self.now + self.delay();
                self.network.send(at, Arrival::Heard { subscriber, life, from, frame: frame.clone() });
            }
        }
    }

    /// Carries frames of a distributor as fast as the other side takes them.
    fn carry(&mut self, index: usize, connection: u64) {
        loop {
            let now = self.at(self.distributors[index].clock);
            let Some(open) = self.connections.get(&connection).filter(|open| open.open) else { return };
            if open.in_flight >= self.in_flight || self.distributors[index].life != open.life {
                return;
            }
            let subscriber = open.subscriber;
            let Some(core) = self.distributors[index].core.as_mut() else { return };
            let Some(frame) = core.publisher().take(SessionId(connection), now) else {
                if core.publisher().is_closing(SessionId(connection)) {
                    core.publisher().disconnected(SessionId(connection));
                    let at =
                        self.connections.get(&connection).map_or(0, |open| open.down_at).max(self.now) + 1;
                    self.network.send(at, Arrival::Closed { connection });
                }
                return;
            };
            if self.happens(self.weather.hostile) {
                continue;
            }
            let slow = self.subscribers[subscriber].slowness * 1000;
            let delay = self.delay();
            let Some(open) = self.connections.get_mut(&connection) else { return };
            let at = (self.now + delay).max(open.down_at + slow).max(open.down_at + 1);
            open.down_at = at;
            open.in_flight += 1;
            self.network.send(at, Arrival::Down { connection, frame });
        }
    }

    /// Does what a subscriber asks for, and looks at what it shows.
    pub(crate) fn drive_subscriber(&mut self, index: usize) {
        while let Some(output) = self.subscribers[index].core.as_mut().and_then(Subscriber::output) {
            match output {
                Output::Connect(address) => self.connect(index, &address),
                Output::Disconnect => {
                    if let Some(connection) = self.subscribers[index].connection.take() {
                        self.drop_at_distributor(connection);
                    }
                }
                Output::Send(message) => self.send(index, &message),
                Output::Changed { topic, changes } => {
                    let seen = self.subscribers[index].witness.see(&topic, &changes);
                    self.note(|| format!("s{index} sees {topic}: {}", show(&changes)));
                    if let Err(what) = seen {
                        self.fail(format!("s{index}: {what}"));
                    }
                }
                Output::Synced(topic) => self.note(|| format!("s{index} has all of {topic}")),
                Output::Read { read, topic } => {
                    let is_reachable = self.subscribers[index].source_reachable;
                    let answer = if is_reachable {
                        self.store.read_topic(&topic)
                    } else {
                        Err(kilter_pubsub::SourceUnavailable)
                    };
                    let life = self.subscribers[index].life;
                    self.network
                        .send(self.now + 300, Arrival::OwnRead { subscriber: index, life, read, answer });
                }
                Output::Report(report) => {
                    self.note(|| format!("s{index} reports {report:?}"));
                    let now = self.now;
                    self.subscribers[index].reports.push((now, report));
                }
            }
        }
        self.check(index);
    }

    fn connect(&mut self, index: usize, address: &str) {
        let distributor: usize = address.parse().expect("addresses are numbers");
        if let Some(before) = self.subscribers[index].connection.take() {
            self.drop_at_distributor(before);
        }
        self.next_connection += 1;
        let connection = self.next_connection;
        let now = self.now;
        self.connections.insert(
            connection,
            Connection {
                subscriber: index,
                distributor,
                life: 0,
                up_at: now,
                down_at: now,
                in_flight: 0,
                open: false,
            },
        );
        self.subscribers[index].connection = Some(connection);
        let accepted = self.distributors.get(distributor).is_some_and(|one| one.core.is_some());
        let at = self.now + self.delay();
        // A way that is cut answers nothing, not even no.
        if !self.is_cut(index, distributor) {
            self.network.send(at, Arrival::Opened { connection, accepted });
        }
    }

    fn send(&mut self, index: usize, message: &Message) {
        *self.subscribers[index].sent.entry(name_of(message)).or_default() += 1;
        if matches!(message, Message::Hello { .. }) {
            self.hellos.push(self.now);
        }
        let frame = wire::encode(message);
        let Some(connection) = self.subscribers[index].connection else { return };
        if self.happens(self.weather.hostile) {
            return;
        }
        let delay = self.delay();
        let Some(open) = self.connections.get_mut(&connection).filter(|open| open.open) else { return };
        let at = (self.now + delay).max(open.up_at + 1);
        open.up_at = at;
        self.network.send(at, Arrival::Up { connection, frame });
    }
}

fn show(changes: &[kilter_pubsub::ViewChange]) -> String {
    let one = |change: &kilter_pubsub::ViewChange| {
        let sign = if change.value.is_some() { '+' } else { '-' };
        format!("{sign}{}@{}.{}", change.item.key, change.stamp.epoch, change.stamp.version)
    };
    changes.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only what a test counts has a name")]
fn name_of(message: &Message) -> &'static str {
    match message {
        Message::Hello { .. } => "hello",
        Message::Subscribe { .. } => "subscribe",
        Message::Fetch { .. } => "fetch",
        Message::Sums { .. } => "sums",
        Message::Have { .. } => "have",
        Message::Ack { .. } => "ack",
        Message::Nack { .. } => "nack",
        Message::Unsubscribe { .. } => "unsubscribe",
        Message::Txn(_) => "txn",
        Message::Range { .. } => "range",
        Message::Lagging { .. } => "lagging",
        _ => "other",
    }
}
