//! An agent over the fake world.

use std::path::Path;
use std::time::Duration;

use kilter_agent::SteadyClock;
use kilter_agent::assemble::{self, Assembly};
use kilter_agent::desk::{Applied, ApplyError, Declaration, Desk, Options, Put};
use kilter_agent::drift::Attention;
use kilter_agent::drive::{Agent, Audience, Stop};
use kilter_agent::keep::{Codec, Keep, Kept, Settings as KeepSettings};
use kilter_agent::recording::{self, Recording};
use kilter_events::{EventLoop, Parts, Settings};
use kilter_model::document::Declared;
use kilter_scheduler::{Key, Scheduler, State};
use kilter_southbound::{Clock as _, Driver};
use kilter_testkit::attrs::Attrs;
use kilter_testkit::hand::Hand;
use tokio::task::JoinHandle;

/// A running agent, and the world it acts on.
pub(crate) struct House {
    pub(crate) hand: Hand,
    pub(crate) desk: Desk,
    pub(crate) keep: Option<Keep>,
    pub(crate) stop: Stop,
    running: JoinHandle<EventLoop>,
}

impl House {
    /// An agent that begins over an empty world, and keeps nothing.
    pub(crate) fn start() -> Self {
        Self::over(Hand::default(), None)
    }

    /// An agent that begins over a world, and keeps what must outlive it in a directory.
    pub(crate) fn over(hand: Hand, directory: Option<&Path>) -> Self {
        Self::beginning(hand, directory, Vec::new())
    }

    /// An agent that somebody looks at.
    pub(crate) fn before(audience: impl Audience + 'static) -> Self {
        Self::with(Hand::default(), None, Vec::new(), audience)
    }

    /// An agent that tells somebody this often that its loop goes round.
    pub(crate) fn beating(audience: impl Audience + 'static, span: Duration) -> Self {
        Self::made(Hand::default(), None, Vec::new(), audience, Some(span), None)
    }

    /// An agent that keeps what documents declare in a directory, writes its run down there, and is looked at.
    pub(crate) fn recorded(directory: &Path, audience: impl Audience + 'static) -> Self {
        let kept = Keep::open(directory, &KeepSettings::default(), Codec::documents()).unwrap();
        let file = Some(directory.join("run"));
        let recording = Recording::open(&recording::Settings { file, ..recording::Settings::default() });
        Self::made(Hand::default(), Some(kept), Vec::new(), audience, None, recording.unwrap())
    }

    /// An agent that begins with what directories declare.
    pub(crate) fn beginning(
        hand: Hand,
        directory: Option<&Path>,
        directories: Vec<(String, Option<Vec<Declared>>)>,
    ) -> Self {
        let open = |directory| Keep::open(directory, &KeepSettings::default(), CODEC).unwrap();
        Self::with(hand, directory.map(open), directories, ())
    }

    pub(crate) fn with(
        hand: Hand,
        kept: Option<(Keep, Kept)>,
        directories: Vec<(String, Option<Vec<Declared>>)>,
        audience: impl Audience + 'static,
    ) -> Self {
        Self::made(hand, kept, directories, audience, None, None)
    }

    fn made(
        hand: Hand,
        kept: Option<(Keep, Kept)>,
        directories: Vec<(String, Option<Vec<Declared>>)>,
        mut audience: impl Audience + 'static,
        beats: Option<Duration>,
        recording: Option<Recording>,
    ) -> Self {
        let clock = SteadyClock::start();
        let mut scheduler = Scheduler::default();
        hand.world().forget_agent();
        let actuators = hand.serve(&mut scheduler).unwrap();
        let stopwatch = Box::new(|| Duration::ZERO);
        let parts = Parts { scheduler, handlers: Vec::new(), sources: Vec::new(), stopwatch };
        let events = EventLoop::new(Settings::default(), parts, clock.now()).unwrap();
        let driver = Driver::new(actuators, kilter_southbound::Settings::default());
        let attention = Attention::blind(events.producer());
        let record = recording::Settings::default();
        let agent = Agent::of(events, driver, clock, attention);
        let mut agent = agent.beating(beats).recording(recording, &record);
        let (keeps, kept) = kept.map_or_else(Default::default, |(keep, kept)| (Some(keep), kept));
        if let Some(keep) = keeps.clone() {
            agent = agent.keeping(keep);
        }
        agent.begin(kept, directories).unwrap();
        let (desk, stop) = (agent.desk(), agent.stop());
        let running = tokio::spawn(async move { agent.run(&mut audience).await });
        Self { hand, desk, keep: keeps, stop, running }
    }

    /// An agent over the kernel: its host is the network namespace of the calling thread. It hears nothing of what others do
    /// there, so that a test decides when it looks.
    pub(crate) fn real(netns_dir: &Path, directory: Option<&Path>) -> Self {
        let linux = kilter_linux::Settings { netns_dir: netns_dir.to_owned(), ..Default::default() };
        let settings = assemble::Settings { linux, ..Default::default() };
        let Assembly { events, driver, clock, .. } = assemble::assemble(settings).unwrap();
        let attention = Attention::blind(events.producer());
        let mut agent = Agent::of(events, driver, clock, attention);
        let open = |directory| Keep::open(directory, &KeepSettings::default(), Codec::documents()).unwrap();
        let (keep, kept) =
            directory.map(open).map_or_else(Default::default, |(keep, kept)| (Some(keep), kept));
        if let Some(keep) = keep.clone() {
            agent = agent.keeping(keep);
        }
        agent.begin(kept, Vec::new()).unwrap();
        let (desk, stop) = (agent.desk(), agent.stop());
        let running = tokio::spawn(async move { agent.run(&mut ()).await });
        Self { hand: Hand::default(), desk, keep, stop, running }
    }

    /// The agent is gone from one moment to the next; the world and the state directory stay.
    pub(crate) async fn crash(self) -> Hand {
        let Self { hand, desk, keep, running, .. } = self;
        running.abort();
        let _ = running.await;
        drop(desk);
        if let Some(keep) = keep {
            keep.close().await;
        }
        hand
    }

    /// Applies items under a name, as a patch.
    pub(crate) async fn apply(&self, source: &str, items: &[&str]) -> Result<Applied, ApplyError> {
        self.apply_with(source, items, Options::default()).await
    }

    /// Applies items under a name, as a patch.
    pub(crate) async fn apply_with(
        &self,
        source: &str,
        items: &[&str],
        options: Options,
    ) -> Result<Applied, ApplyError> {
        self.desk.apply(patch(source, items), options).await.ended().await
    }

    /// The state of an item.
    pub(crate) async fn state(&self, key: &str) -> State {
        let key = key.to_owned();
        self.desk.inquire(move |view| view.scheduler.status(&key).state).await.unwrap()
    }

    /// Ends the agent.
    pub(crate) async fn end(self) -> EventLoop {
        self.stop.stop("the test is over");
        self.running.await.unwrap()
    }
}

/// How the values of the scenarios are kept.
pub(crate) const CODEC: Codec = Codec {
    write: |value| value.to_json(),
    read: |_, json| {
        let attrs: Attrs = serde_json::from_value(json.clone()).map_err(|error| error.to_string())?;
        Ok(attrs.to_value())
    },
};

/// Items, each `KEY name=text…`.
pub(crate) fn puts(items: &[&str]) -> Vec<Put> {
    let put = |item: &&str| {
        let (key, attrs) = item.split_once(' ').unwrap_or((item, ""));
        Put { key: Key::new(key), value: Attrs::parse(attrs).unwrap().to_value(), place: None }
    };
    items.iter().map(put).collect()
}

/// Items as a patch.
pub(crate) fn patch(source: &str, items: &[&str]) -> Declaration {
    Declaration::patch(source, puts(items))
}
