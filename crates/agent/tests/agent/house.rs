//! An agent over the fake world.

use std::time::Duration;

use kilter_agent::SteadyClock;
use kilter_agent::desk::{Applied, ApplyError, Declaration, Desk, Options, Put};
use kilter_agent::drift::Attention;
use kilter_agent::drive::{Agent, Stop};
use kilter_events::builtin::DatabaseResync;
use kilter_events::{Event, EventLoop, Parts, Settings};
use kilter_scheduler::{Key, Scheduler, State};
use kilter_southbound::{Clock as _, Driver};
use kilter_testkit::attrs::Attrs;
use kilter_testkit::hand::Hand;
use tokio::task::JoinHandle;

/// A running agent, and the world it acts on.
pub(crate) struct House {
    pub(crate) hand: Hand,
    pub(crate) desk: Desk,
    stop: Stop,
    running: JoinHandle<EventLoop>,
}

impl House {
    /// An agent that has started over an empty world.
    pub(crate) fn start() -> Self {
        let house = Self::start_over(Hand::default());
        house.producer().push(Event::new(DatabaseResync::default())).unwrap();
        house
    }

    fn start_over(hand: Hand) -> Self {
        let clock = SteadyClock::start();
        let mut scheduler = Scheduler::default();
        let actuators = hand.serve(&mut scheduler).unwrap();
        let stopwatch = Box::new(|| Duration::ZERO);
        let parts = Parts { scheduler, handlers: Vec::new(), sources: Vec::new(), stopwatch };
        let events = EventLoop::new(Settings::default(), parts, clock.now()).unwrap();
        let driver = Driver::new(actuators, kilter_southbound::Settings::default());
        let attention = Attention::blind(events.producer());
        let agent = Agent::of(events, driver, clock, attention);
        let (desk, stop) = (agent.desk(), agent.stop());
        let running = tokio::spawn(async move { agent.run(&mut ()).await });
        Self { hand, desk, stop, running }
    }

    fn producer(&self) -> kilter_events::Producer {
        self.stop.producer()
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
