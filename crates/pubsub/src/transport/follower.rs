//! The follower: one subscriber, driven by a runtime.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};

use crate::cache::ViewChange;
use crate::change::{ItemKey, Topic};
use crate::moment::Moment;
use crate::settings::Settings;
use crate::subscriber::{
    Mirror, Nearness, Output, Report, SourceRead, SourceUnavailable, Subscriber, SubscriberCounts,
    TopicStatus,
};

use super::{Arrival, Clock, Connector, Link, WAITING};

/// What a follower tells its owner, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// What changed, all at once.
    Changed {
        /// The topic that changed.
        topic: Topic,
        /// What is different, by item.
        changes: Vec<ViewChange>,
    },
    /// A topic is complete for the first time.
    Synced(Topic),
    /// A topic shall be read from the source; answered by `source_read`.
    Read {
        /// The name of this read.
        read: u64,
        /// The topic.
        topic: Topic,
    },
    /// Something worth knowing.
    Report(Report),
}

/// How long a connection may take to be made.
const CONNECTING: Duration = Duration::from_secs(5);

/// How long a follower rests that waits for nothing.
const IDLE: Duration = Duration::from_secs(60);
const NEVER: Moment = Moment(Duration::MAX);

type Command = Box<dyn FnOnce(&mut Subscriber, Moment) + Send>;

/// A subscriber that follows topics by itself; it ends when this is dropped.
pub struct Follower {
    commands: mpsc::Sender<Command>,
    task: JoinHandle<()>,
}

impl Follower {
    /// Begins to follow; events come through the channel. An owner that does not take them slows its publisher down, and
    /// nobody else. **Assumes** a running runtime.
    pub fn start(
        settings: Settings,
        node: impl Into<String>,
        identity: (u128, u64),
        connector: Connector,
        addresses: Vec<String>,
        mirror: Option<Mirror>,
    ) -> (Self, mpsc::Receiver<Event>) {
        let (commands, asked) = mpsc::channel(WAITING);
        let (events, told) = mpsc::channel(WAITING);
        let clock = Clock::start();
        let (instance, seed) = identity;
        let mut core = Subscriber::new(settings, node, instance, addresses, seed, clock.now());
        if let Some(mirror) = mirror {
            core.restore(mirror);
        }
        let untold = VecDeque::new();
        let driver = Driver { core, clock, connector, connecting: None, link: None, untold };
        let task = tokio::spawn(driver.run(asked, events));
        (Self { commands, task }, told)
    }

    async fn command(&self, command: impl FnOnce(&mut Subscriber, Moment) + Send + 'static) {
        // A follower that has ended has nothing to be told.
        let _ = self.commands.send(Box::new(command)).await;
    }

    /// Follows a topic.
    pub async fn follow(&self, topic: Topic) {
        self.command(move |core, now| core.follow(topic, now)).await;
    }

    /// Follows a topic no more.
    pub async fn unfollow(&self, topic: Topic) {
        self.command(move |core, _| core.unfollow(&topic)).await;
    }

    /// Learns where publishers are.
    pub async fn learn(&self, addresses: Vec<String>) {
        self.command(move |core, _| core.learn(addresses)).await;
    }

    /// Forgets an address that was learnt.
    pub async fn forget(&self, address: String) {
        self.command(move |core, _| core.forget(&address)).await;
    }

    /// Answers a read of the source.
    pub async fn source_read(&self, read: u64, answer: Result<SourceRead, SourceUnavailable>) {
        self.command(move |core, _| core.source_read(read, answer)).await;
    }

    /// Refuses an item that cannot be used.
    pub async fn refuse(&self, topic: Topic, item: ItemKey, text: String) {
        self.command(move |core, now| core.refuse(&topic, &item, text, now)).await;
    }

    /// What is held, to be kept on disk.
    pub async fn mirror(&self) -> Option<Mirror> {
        let (answer, answered) = oneshot::channel();
        self.command(move |core, _| drop(answer.send(core.mirror()))).await;
        answered.await.ok().flatten()
    }

    /// Where every topic stands; nothing if the follower has ended.
    pub async fn topics(&self) -> Vec<TopicStatus> {
        let (answer, answered) = oneshot::channel();
        self.command(move |core, _| drop(answer.send(core.topics()))).await;
        answered.await.unwrap_or_default()
    }

    /// How near it is to what is published; nothing if the follower has ended.
    pub async fn nearness(&self) -> Option<Nearness> {
        let (answer, answered) = oneshot::channel();
        // Whoever asked may have stopped waiting.
        self.command(move |core, now| _ = answer.send(core.nearness(now))).await;
        answered.await.ok()
    }

    /// What was counted.
    pub async fn counts(&self) -> SubscriberCounts {
        let (answer, answered) = oneshot::channel();
        // Whoever asked may have stopped waiting.
        self.command(move |core, _| answer.send(core.counts()).unwrap_or_default()).await;
        answered.await.unwrap_or_default()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The next moment at which something is due. It is set for every message, and almost always to a later one, which costs
/// nothing: a timer that passes too early is set once more.
struct Timer {
    sleep: Pin<Box<Sleep>>,
    at: Moment,
}

impl Timer {
    fn start() -> Self {
        Self { sleep: Box::pin(tokio::time::sleep(IDLE)), at: NEVER }
    }

    /// Lets it pass at a moment, or before.
    fn set(&mut self, due: Moment, clock: Clock) {
        if due < self.at {
            self.at = due;
            self.sleep.as_mut().reset(Instant::now() + clock.until(due));
        }
    }

    async fn passed(&mut self) {
        self.sleep.as_mut().await;
        self.at = NEVER;
    }
}

/// A connection in the making.
type Connecting = Pin<Box<dyn Future<Output = Option<Link>> + Send>>;

struct Driver {
    core: Subscriber,
    clock: Clock,
    connector: Connector,
    connecting: Option<Connecting>,
    link: Option<Link>,
    /// What the owner has not taken yet. As long as there is something, nothing else is read or waited for.
    untold: VecDeque<Event>,
}

impl Driver {
    async fn run(mut self, mut asked: mpsc::Receiver<Command>, events: mpsc::Sender<Event>) {
        let mut timer = Timer::start();
        loop {
            self.perform();
            self.tell(&events);
            timer.set(self.core.deadline().unwrap_or_else(|| self.clock.now().after(IDLE)), self.clock);
            let is_listening = self.untold.is_empty();
            let arrived = async {
                match &mut self.link {
                    Some(link) => link.next().await,
                    None => std::future::pending().await,
                }
            };
            let connected = async {
                match &mut self.connecting {
                    Some(connecting) => connecting.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                command = asked.recv() => match command {
                    Some(command) => command(&mut self.core, self.clock.now()),
                    None => return,
                },
                room = events.reserve(), if !is_listening => {
                    let Ok(room) = room else { return };
                    if let Some(event) = self.untold.pop_front() {
                        room.send(event);
                    }
                    self.tell(&events);
                    if self.untold.is_empty() {
                        self.core.listens_again(self.clock.now());
                    }
                }
                link = connected, if is_listening => self.connect(link),
                batch = arrived, if is_listening => self.arrive(batch),
                () = timer.passed(), if is_listening => self.core.advance(self.clock.now()),
            }
        }
    }

    /// Tells the owner as much as there is room for.
    fn tell(&mut self, events: &mpsc::Sender<Event>) {
        while !self.untold.is_empty() {
            // An owner that has gone is noticed by whoever waits for room.
            let Ok(room) = events.try_reserve() else { return };
            if let Some(event) = self.untold.pop_front() {
                room.send(event);
            }
        }
    }

    fn connect(&mut self, link: Option<Link>) {
        self.connecting = None;
        self.link = link;
        match self.link {
            Some(_) => self.core.connected(self.clock.now()),
            None => self.core.disconnected(self.clock.now()),
        }
    }

    fn arrive(&mut self, batch: Option<Vec<Arrival>>) {
        let now = self.clock.now();
        let Some(batch) = batch else {
            self.link = None;
            return self.core.disconnected(now);
        };
        for arrival in batch {
            match arrival {
                Arrival::Message(message) => self.core.receive(message, now),
                Arrival::Garbled => self.core.garbled(now),
                Arrival::Foreign(topic) => self.core.foreign(&topic, now),
            }
        }
        if self.core.deadline().is_some_and(|due| due <= now) {
            self.core.advance(now);
        }
    }

    /// Does what the machine asks for; what the owner shall know is told as it takes it.
    fn perform(&mut self) {
        while let Some(output) = self.core.output() {
            let event = match output {
                Output::Connect(address) => {
                    let connector = self.connector.clone();
                    self.connecting = Some(Box::pin(async move {
                        let link = tokio::time::timeout(CONNECTING, connector.connect(&address)).await;
                        link.ok()?.ok()
                    }));
                    continue;
                }
                Output::Disconnect => {
                    (self.link, self.connecting) = (None, None);
                    continue;
                }
                Output::Send(message) => {
                    if let Some(link) = &mut self.link {
                        link.send(message);
                    }
                    continue;
                }
                Output::Changed { topic, changes } => Event::Changed { topic, changes },
                Output::Synced(topic) => Event::Synced(topic),
                Output::Read { read, topic } => Event::Read { read, topic },
                Output::Report(report) => Event::Report(report),
            };
            self.untold.push_back(event);
        }
    }
}
