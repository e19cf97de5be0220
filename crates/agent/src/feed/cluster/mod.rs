//! The cluster: what its store declares for this node becomes a source of the agent.
//!
//! Decided here: which topics a node follows, that nothing is declared before everything is known, and that what was
//! declared stays while nobody can be reached. What arrives together is declared together, one transaction for each commit
//! or several of them. How it reaches the node is decided in `pubsub`; what cannot be understood in `merged`; what others
//! see of this node in `standing`; what becomes of a change that nodes try together in `trial`.
//!
//! Numbered steps: 1. what an earlier run declared and held is read; 2. the topics are followed, before anything is read;
//! 3. what changes is taken in, and declared as fast as the agent takes it; 4. what is held is kept in the state directory.

mod ballot;
pub mod merged;
mod mirror;
pub mod standing;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kilter_events::Level;
use kilter_pubsub::transport::{Connector, Event, Follower, Hub, Network};
use kilter_pubsub::{Delivery, Mirror, Neighbour, Notice, Report, Topic};
use kilter_scheduler::{Key, ValueRef};
use kilter_store::Store;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use self::merged::{Membership, Merged};
use self::trial::Trials;
use crate::cluster::Settings;
use crate::cluster::distributor::fresh;
use crate::cluster::layout::{Layout, Recipients};
use crate::cluster::remarks;
use crate::cluster::settings::OpenError;
use crate::cluster::source::Source;
use crate::cluster::table::Table;
use crate::desk::{Applied, ApplyError, Declaration, Desk};

/// What the source is called.
pub const SOURCE: &str = "cluster";

/// The component under which the feed is reported.
const COMPONENT: &str = "cluster";

/// How many events are taken in at once.
const TOGETHER: usize = 1024;

/// How long what is held may differ from what is kept.
const KEPT_WITHIN: Duration = Duration::from_secs(2);

/// How long it is told that something was wrong which was put right.
const ALARMED: Duration = Duration::from_secs(600);

/// The pauses between attempts to declare what was refused.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A declaration on its way, and how it ended.
type Declaring = Pin<Box<dyn Future<Output = (Declaration, Result<Applied, ApplyError>)> + Send>>;

/// Asks a feed to say when it has declared everything that has reached it.
pub(crate) type Flush = mpsc::UnboundedSender<oneshot::Sender<()>>;

/// What a node has of its cluster.
pub struct Reach {
    /// The store, if it can be asked.
    pub store: Option<Arc<dyn Store>>,
    /// A distributor in the same process, whose notices become those of the node.
    pub hub: Option<Arc<Hub>>,
}

/// The feed of a cluster.
pub struct Feed {
    settings: Settings,
    source: Option<Source>,
    table: Option<Table>,
    desk: Desk,
    follower: Arc<Follower>,
    events: mpsc::Receiver<Event>,
    followed: BTreeSet<Topic>,
    /// Topics that have never been complete.
    missing: BTreeSet<Topic>,
    merged: Merged,
    trials: Trials,
    declaring: Option<Declaring>,
    pause: Duration,
    not_before: Instant,
    mirror: PathBuf,
    keep_at: Option<Instant>,
    /// What was last reported about the feed.
    reported: (Level, String),
    is_stale: bool,
    /// A distributor of this process.
    hub: Option<Arc<Hub>>,
    /// What that one says is wrong.
    noticed: Option<String>,
    /// What was wrong and was put right, and until when that is told.
    alarm: Option<(String, Instant)>,
    /// When a node that no distributor has answered yet says so.
    silent_at: Option<Instant>,
    flush: Flush,
    flushes: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
    /// Who waits until everything is declared.
    waiting: Vec<oneshot::Sender<()>>,
}

/// The topics that concern a node.
fn topics(settings: &Settings, membership: &Membership) -> BTreeSet<Topic> {
    let label = |(name, value): (&String, &String)| Recipients::Label(name.clone(), value.clone());
    let own = [Recipients::All, Recipients::Node(settings.node_name())].into_iter();
    let labels = settings.labels.iter().chain(&membership.labels).map(label);
    let tenants = settings.tenants.iter().chain(&membership.tenants).cloned().map(Recipients::Tenant);
    own.chain(labels).chain(tenants).map(|recipients| recipients.topic()).collect()
}

/// The addresses of distributors that the settings name.
fn addresses(settings: &Settings) -> Vec<String> {
    let (pubsub, scheme) = (&settings.pubsub, settings.pubsub.carrier().scheme());
    let address = |place: &String| match place.parse::<std::net::Ipv6Addr>() {
        Ok(six) => format!("{scheme}://[{six}]:{}", pubsub.port),
        Err(_) if place.contains("://") => place.clone(),
        Err(_) if place.contains(':') => format!("{scheme}://{place}"),
        Err(_) => format!("{scheme}://{place}:{}", pubsub.port),
    };
    pubsub.publishers.iter().map(address).collect()
}

/// How this node reaches what it follows: a distributor of its own process, others over a network, or the store itself;
/// and the distributor of its own process, if it has one, by whatever way.
fn connector(
    settings: &Settings,
    reach: &Reach,
    source: Option<&Source>,
) -> Result<(Connector, Option<Arc<Hub>>), OpenError> {
    // What is only said to everybody is not heard inside the process.
    let is_heard = settings.pubsub.carrier().delivery() == Delivery::Cursors;
    if let Some(hub) = reach.hub.as_ref().filter(|_| is_heard) {
        return Ok((Connector::Local(Arc::clone(hub)), reach.hub.clone()));
    }
    if settings.pubsub.is_apart() {
        let network = match settings.read_tls()? {
            Some(tls) => Network::tls(&tls).map_err(OpenError::Tls)?,
            None => Network::new(),
        };
        return Ok((Connector::Network(network), reach.hub.clone()));
    }
    let source = source.ok_or(OpenError::NoStore)?.clone();
    let instance = fresh();
    let (pubsub, tail) = (settings.pubsub.clone(), settings.pubsub.tail);
    let hub = Hub::start(pubsub, Delivery::Cursors, tail, instance, instance as u64);
    tokio::spawn(source.serve(Arc::clone(&hub)));
    Ok((Connector::Local(Arc::clone(&hub)), Some(hub)))
}

impl Feed {
    /// Begins to follow what concerns this node. What an earlier run declared comes from the desk.
    ///
    /// **Assumes** a tokio runtime.
    pub fn start(
        settings: Settings,
        reach: &Reach,
        desk: Desk,
        directory: PathBuf,
    ) -> Result<Self, OpenError> {
        let layout = Layout::new(&settings.prefix);
        let source = reach.store.clone().map(|store| Source::new(store, layout.clone()));
        let (connector, hub) = connector(&settings, reach, source.as_ref())?;
        let is_remote = matches!(connector, Connector::Network(_));
        let table = reach.store.clone().filter(|_| is_remote);
        let table = table.map(|store| Table::new(store, layout, &settings.pubsub, None));
        let mirror = mirror::path(&directory);
        let followed = topics(&settings, &Membership::default());
        // A label or tenant that the node is told about is told again; what belongs to it is fetched then.
        let held = mirror::read(&mirror, |name| followed.contains(&Topic::new(name)));
        let (flush, flushes) = mpsc::unbounded_channel();
        let trials = Trials::new(&settings, reach.store.clone(), desk.clone());
        let instance = fresh();
        let silent_at = Some(Instant::now() + settings.pubsub.peer_timeout);
        let (follower, events) = Follower::start(
            settings.pubsub.clone(),
            settings.node_name(),
            (instance, instance as u64),
            connector,
            if is_remote { addresses(&settings) } else { vec!["here".to_owned()] },
            held,
        );
        Ok(Self {
            settings,
            source,
            table,
            desk,
            follower: Arc::new(follower),
            events,
            missing: followed.clone(),
            followed,
            merged: Merged::default(),
            trials,
            declaring: None,
            pause: PAUSES.0,
            not_before: Instant::now(),
            mirror,
            keep_at: None,
            reported: (Level::Fine, String::new()),
            is_stale: false,
            hub,
            noticed: None,
            alarm: None,
            silent_at,
            flush,
            flushes,
            waiting: Vec::new(),
        })
    }

    /// What follows for this node, to be looked at.
    pub(crate) fn follower(&self) -> Arc<Follower> {
        Arc::clone(&self.follower)
    }

    /// How to wait until everything is declared that has reached this node.
    pub(crate) fn flush(&self) -> Flush {
        self.flush.clone()
    }

    /// Feeds the agent until it ends.
    pub async fn run(mut self) {
        let Ok(earlier) = self.desk.inquire(declared_before).await else { return }; // 1
        self.merged = Merged::after(earlier);
        self.trials.resume().await;
        for topic in self.followed.clone() {
            self.follower.follow(topic).await; // 2
        }
        loop {
            self.declare();
            if self.events.is_empty() && self.declaring.is_none() && self.merged.is_settled() {
                // Whoever does not wait any more needs no answer.
                self.waiting.drain(..).for_each(|waiting| waiting.send(()).unwrap_or_default());
            }
            let retry = self.not_before;
            let keep = self.keep_at;
            let silent = self.silent_at;
            let calm = self.alarm.as_ref().map(|(_, until)| *until);
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(event) => self.take_together(event).await, // 3
                    None => return,
                },
                (declaration, ended) = ended(&mut self.declaring) => {
                    if !self.note_ended(&declaration, ended) {
                        return self.keep().await;
                    }
                }
                tried = self.trials.ended() => {
                    self.merged.owe_items(tried);
                    self.look_at_joints();
                }
                Some(waiting) = self.flushes.recv() => self.waiting.push(waiting),
                () = due(self.table.as_ref()) => self.look_around().await,
                () = sleep_until(retry), if retry > Instant::now() => {}
                () = sleep_until(keep.unwrap_or(retry)), if keep.is_some() => self.keep().await, // 4
                () = sleep_until(silent.unwrap_or(retry)), if silent.is_some() => {
                    (self.silent_at, self.is_stale) = (None, true);
                    self.report().await;
                }
                notice = noticed(self.hub.as_ref()) => {
                    self.note(&notice);
                    self.report().await;
                }
                () = sleep_until(calm.unwrap_or(retry)), if calm.is_some() => {
                    self.alarm = None;
                    self.report().await;
                }
            }
        }
    }

    /// Takes in an event, and whatever has come with it.
    async fn take_together(&mut self, first: Event) {
        let mut next = Some(first);
        for _ in 0..TOGETHER {
            let Some(event) = next else { break };
            self.take(event).await;
            next = self.events.try_recv().ok();
        }
        if let Some(event) = next {
            self.take(event).await;
        }
        self.follow_membership().await;
        if self.missing.is_empty() {
            self.merged.complete();
        }
        self.look_at_joints();
        self.report().await;
    }

    fn look_at_joints(&mut self) {
        if self.merged.is_complete() {
            self.trials.look(&self.merged);
        }
    }

    async fn take(&mut self, event: Event) {
        match event {
            Event::Changed { topic, changes } => {
                for (item, reason) in self.merged.take(changes) {
                    self.follower.refuse(topic.clone(), item, reason).await;
                }
                self.keep_at.get_or_insert_with(|| Instant::now() + KEPT_WITHIN);
            }
            Event::Synced(topic) => {
                self.missing.remove(&topic);
            }
            Event::Read { read, topic } => {
                let (follower, source) = (Arc::clone(&self.follower), self.source.clone());
                tokio::spawn(async move {
                    let answer = match source {
                        Some(source) => source.read_topic(&topic).await,
                        None => Err(kilter_pubsub::SourceUnavailable),
                    };
                    follower.source_read(read, answer).await;
                });
            }
            Event::Report(Report::Connected { .. }) => (self.silent_at, self.is_stale) = (None, false),
            Event::Report(Report::Stale | Report::Fenced) => self.is_stale = true,
            Event::Report(Report::Mismatch { topic, .. }) => {
                self.alarm(format!(
                    "`{topic}` was not what its distributor holds, what differed was fetched"
                ));
            }
            Event::Report(Report::Rebased { topic, changed }) if changed > 0 => {
                self.alarm(format!(
                    "the store is another one or went back: {changed} items of `{topic}` differ"
                ));
            }
            Event::Report(Report::Gap { .. } | Report::Repaired { .. } | Report::Rebased { .. }) => {}
        }
    }

    /// Lets it be told for a while that something was wrong.
    fn alarm(&mut self, text: String) {
        self.alarm = Some((text, Instant::now() + ALARMED));
    }

    /// Takes in what the distributor of this process noticed.
    fn note(&mut self, notice: &Notice) {
        match notice {
            Notice::Loaded { .. } => self.noticed = None,
            Notice::SourceLost => self.noticed = remarks::wrong(notice),
            Notice::Differed { .. } | Notice::Oversize { .. } | Notice::WentBack { .. } => {
                remarks::wrong(notice).into_iter().for_each(|text| self.alarm(text));
            }
        }
    }

    /// Follows and drops topics, as the node is told what it is.
    async fn follow_membership(&mut self) {
        let wanted = topics(&self.settings, self.merged.membership());
        if wanted == self.followed {
            return;
        }
        for topic in wanted.difference(&self.followed) {
            // As long as not everything is known, this belongs to it.
            self.missing.insert(topic.clone());
            self.follower.follow(topic.clone()).await;
        }
        for topic in self.followed.difference(&wanted) {
            self.missing.remove(topic);
            self.follower.unfollow(topic.clone()).await;
        }
        self.followed = wanted;
    }

    /// Says how the feed stands, if that is something else than before.
    async fn report(&mut self) {
        let (level, text) = match self.merged.wrong().first_key_value() {
            Some((key, reason)) => {
                let more = self.merged.wrong().len() - 1;
                let more = if more == 0 { String::new() } else { format!(", and {more} more") };
                (Level::Warning, format!("`{key}` cannot be used, its last good value stays: {reason}{more}"))
            }
            None if self.is_stale => {
                (Level::Warning, "no distributor answers, what was declared stays".to_owned())
            }
            None => match self.noticed.as_ref().or(self.alarm.as_ref().map(|(text, _)| text)) {
                Some(text) => (Level::Warning, text.clone()),
                None => (Level::Fine, String::new()),
            },
        };
        if (level, &text) != (self.reported.0, &self.reported.1) {
            self.reported = (level, text.clone());
            self.desk.report(COMPONENT, level, text).await;
        }
    }

    /// Declares what is owed, unless something is on its way already.
    fn declare(&mut self) {
        let is_later = self.not_before > Instant::now();
        if self.declaring.is_some() || self.trials.is_trying() || is_later {
            return;
        }
        let Some(declaration) = self.merged.declaration() else { return };
        let desk = self.desk.clone();
        self.declaring = Some(Box::pin(async move {
            let ended = desk.feed(declaration.clone()).await.ended().await;
            (declaration, ended)
        }));
    }

    /// Notes how a declaration ended; the answer says whether the agent is still there.
    fn note_ended(&mut self, declaration: &Declaration, ended: Result<Applied, ApplyError>) -> bool {
        self.declaring = None;
        match ended {
            Ok(_) | Err(ApplyError::Unkept { .. }) => self.pause = PAUSES.0,
            Err(ApplyError::Gone) => return false,
            Err(_) => {
                self.merged.owe(declaration);
                self.not_before = Instant::now() + self.pause;
                self.pause = (self.pause * 2).min(PAUSES.1);
            }
        }
        true
    }

    /// Looks who distributes.
    async fn look_around(&mut self) {
        let Some(table) = &mut self.table else { return };
        for neighbour in table.look().await {
            match neighbour {
                Neighbour::Appeared(address) => self.follower.learn(vec![address]).await,
                Neighbour::Disappeared(address) => self.follower.forget(address).await,
                Neighbour::Namesake(_) => {}
            }
        }
    }

    /// Keeps what is held. What cannot be written is fetched again after a restart.
    async fn keep(&mut self) {
        self.keep_at = None;
        let Some(held): Option<Mirror> = self.follower.mirror().await else { return };
        let path = self.mirror.clone();
        let _ = tokio::task::spawn_blocking(move || mirror::write(&path, held)).await;
    }
}

/// What an earlier run declared.
fn declared_before(view: &crate::desk::View<'_>) -> BTreeMap<Key, ValueRef> {
    let own = view.ledger.sources().find(|(name, _)| *name == SOURCE);
    own.into_iter()
        .flat_map(|(_, items)| items)
        .map(|(key, mark)| (key.clone(), mark.value.clone()))
        .collect()
}

async fn ended(declaring: &mut Option<Declaring>) -> (Declaration, Result<Applied, ApplyError>) {
    match declaring {
        Some(declaring) => declaring.await,
        None => std::future::pending().await,
    }
}

async fn noticed(hub: Option<&Arc<Hub>>) -> Notice {
    match hub {
        Some(hub) => hub.notice().await,
        None => std::future::pending().await,
    }
}

async fn due(table: Option<&Table>) {
    match table {
        Some(table) => table.due().await,
        None => std::future::pending().await,
    }
}
