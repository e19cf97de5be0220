//! An agent over the fake world.

use std::path::Path;
use std::time::Duration;

use kilter_agent::SteadyClock;
use kilter_agent::desk::{Applied, ApplyError, Declaration, Desk, Options, Put};
use kilter_agent::drift::Attention;
use kilter_agent::drive::{Agent, Stop};
use kilter_agent::keep::{Codec, Keep, Kept, Settings as KeepSettings};
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
    stop: Stop,
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

    /// An agent that begins with what directories declare.
    pub(crate) fn beginning(
        hand: Hand,
        directory: Option<&Path>,
        directories: Vec<(String, Option<Vec<Declared>>)>,
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
        let mut agent = Agent::of(events, driver, clock, attention);
        let mut kept = Kept::default();
        let mut keeps = None;
        if let Some(directory) = directory {
            let (keep, found) = Keep::open(directory, &KeepSettings::default(), CODEC).unwrap();
            (keeps, kept) = (Some(keep.clone()), found);
            agent = agent.keeping(keep);
        }
        agent.begin(kept, directories).unwrap();
        let (desk, stop) = (agent.desk(), agent.stop());
        let running = tokio::spawn(async move { agent.run(&mut ()).await });
        Self { hand, desk, keep: keeps, stop, running }
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
const CODEC: Codec = Codec {
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
