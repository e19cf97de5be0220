//! How a node stands, written back to the store for everybody to see.
//!
//! Decided here: what is told, and how often: when it changes, at most once a second. That a node has come further without
//! anything being different for it is told rarely, because every commit of the store does that, this one too. That the node
//! is there hangs on a lease; how it stood last stays.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kilter_events::Level;
use kilter_pubsub::transport::Follower;
use kilter_scheduler::{State, Status};
use kilter_store::{Commit, LeaseId, Store, StoreError};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Feed, Flush};
use crate::cluster::Settings;
use crate::cluster::layout::Layout;
use crate::desk::{Desk, Gone, View};
use crate::handover::Handover;

/// How often a node looks at itself.
const LOOK: Duration = Duration::from_secs(1);

/// How long what is told of how far a node is may be old, if nothing is different for it.
const OLD: Duration = Duration::from_secs(600);

/// How many items with a trouble are told.
const TROUBLES: usize = 50;

/// A topic as a node holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicStanding {
    /// How far it is; nothing if it was never complete.
    pub applied: Option<u64>,
    /// Whether it gets what happens.
    pub live: bool,
    /// How many items it has.
    pub items: usize,
    /// The digest of its items and their versions.
    pub digest: String,
}

/// An item that is not as it was declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The item.
    pub key: String,
    /// Its state.
    pub state: String,
    /// Why, or what it waits for.
    pub reason: String,
}

/// How a node stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The version of its program.
    pub version: String,
    /// The topics that it follows.
    pub topics: BTreeMap<String, TopicStanding>,
    /// Whether everything of them is declared and was carried out, well or not.
    pub is_declared: bool,
    /// How many items are in which state.
    pub states: BTreeMap<String, usize>,
    /// Items that are not as they were declared, the first ones.
    pub troubles: Vec<Trouble>,
    /// What its parts complain about.
    pub alarms: Vec<String>,
    /// The last transaction.
    pub txn: u64,
}

impl Standing {
    /// How far it is in everything it follows; nothing if something was never complete.
    pub fn applied(&self) -> Option<u64> {
        let applied: Option<Vec<u64>> = self.topics.values().map(|topic| topic.applied).collect();
        applied?.into_iter().min()
    }

    /// The same, wherever in the log a topic is.
    fn anywhere(&self) -> Self {
        let mut same = self.clone();
        same.topics.values_mut().for_each(|topic| topic.applied = topic.applied.map(|_| 0));
        same
    }

    /// Whether whoever knows that one, which is so old, shall be told this one.
    fn is_news(&self, told: &Self, age: Duration) -> bool {
        self != told && (age >= OLD || self.anywhere() != told.anywhere())
    }
}

fn name_of(state: State) -> String {
    state.to_string()
}

fn trouble(status: &Status) -> Option<Trouble> {
    let is_fine = matches!(status.state, State::Configured | State::Obtained | State::Discovered);
    let unmet = || status.unmet.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let reason = match &status.error {
        Some(error) => error.to_string(),
        None if status.unmet.is_empty() => String::new(),
        None => format!("needs {}", unmet()),
    };
    (!is_fine).then(|| Trouble { key: status.key.to_string(), state: name_of(status.state), reason })
}

fn look(view: &View<'_>) -> Standing {
    let statuses = view.scheduler.statuses("");
    let mut states: BTreeMap<String, usize> = BTreeMap::new();
    for status in &statuses {
        *states.entry(name_of(status.state)).or_default() += 1;
    }
    let health = view.events.health();
    let alarms = health.components().filter(|(_, standing)| standing.level > Level::Fine);
    Standing {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        topics: BTreeMap::new(),
        is_declared: false,
        states,
        troubles: statuses.iter().filter_map(trouble).take(TROUBLES).collect(),
        alarms: alarms.map(|(name, standing)| format!("{name}: {}", standing.reason)).collect(),
        txn: view.scheduler.history().newest(),
    }
}

/// Tells how a node stands.
pub(crate) struct Teller {
    store: Arc<dyn Store>,
    layout: Layout,
    node: String,
    desk: Desk,
    follower: Arc<Follower>,
    flush: Flush,
    /// Whether another agent takes over, for which the node is there all the while.
    handover: Handover,
    lease: Option<LeaseId>,
    /// How long a node counts as there without a word.
    ttl: Duration,
    renewal: Duration,
}

impl Teller {
    pub(crate) fn new(
        settings: &Settings,
        store: Arc<dyn Store>,
        desk: Desk,
        feed: &Feed,
        handover: Handover,
    ) -> Self {
        Self {
            store,
            layout: Layout::new(&settings.prefix),
            node: settings.node_name(),
            desk,
            follower: feed.follower(),
            flush: feed.flush(),
            handover,
            lease: None,
            ttl: settings.pubsub.lease,
            renewal: settings.pubsub.lease_renewal,
        }
    }

    /// Tells how the node stands until the agent ends. A store that is away is told later.
    pub(crate) async fn run(mut self) {
        let (mut told, mut again): (Option<(Standing, Instant)>, _) = (None, Instant::now());
        while let Ok(standing) = self.standing().await {
            if again <= Instant::now() && self.keep_alive().await.is_ok() {
                again = Instant::now() + self.renewal;
            }
            if told.as_ref().is_none_or(|(told, at)| standing.is_news(told, at.elapsed())) {
                told = self.tell(&standing).await.is_ok().then(|| (standing, Instant::now()));
            }
            tokio::time::sleep(LOOK).await;
        }
        if let Some(lease) = self.lease.filter(|_| !self.handover.is_on()) {
            // If that does not work, the lease runs out.
            let _ = self.store.revoke(lease).await;
        }
    }

    async fn standing(&self) -> Result<Standing, Gone> {
        // First what is held, then whether that is declared, then how it went: so what is told fits together.
        let topics = self.follower.topics().await.into_iter().map(|status| {
            let topic = TopicStanding {
                applied: status.applied,
                live: status.is_live,
                items: status.items,
                digest: status.digest.to_string(),
            };
            (status.topic.to_string(), topic)
        });
        let topics = topics.collect();
        let (flushed, is_flushed) = oneshot::channel();
        let _ = self.flush.send(flushed);
        let is_declared = matches!(tokio::time::timeout(LOOK, is_flushed).await, Ok(Ok(())));
        let standing = self.desk.inquire(look).await?;
        Ok(Standing { topics, is_declared, ..standing })
    }

    async fn tell(&self, standing: &Standing) -> Result<(), StoreError> {
        let text = serde_json::to_string(standing).unwrap_or_default();
        let key = format!("{}{}", self.layout.nodes(), self.node);
        self.store.commit(Commit::new().put(key, text)).await.map(drop)
    }

    async fn keep_alive(&mut self) -> Result<(), StoreError> {
        if let Some(lease) = self.lease {
            match self.store.keep_alive(lease).await {
                Err(StoreError::NoSuchLease(_)) => self.lease = None,
                kept => return kept.map(drop),
            }
        }
        let lease = self.store.grant(self.ttl).await?.id;
        let alive = format!("{}{}", self.layout.alive(), self.node);
        self.store.commit(Commit::new().put(alive, "").under(lease)).await?;
        self.lease = Some(lease);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(applied: Option<u64>, digest: &str) -> Standing {
        let topic = TopicStanding { applied, live: true, items: 1, digest: digest.to_owned() };
        Standing { topics: BTreeMap::from([("all".to_owned(), topic)]), ..Standing::default() }
    }

    #[test]
    fn to_come_further_without_a_difference_is_told_rarely() {
        let told = at(Some(7), "a");
        assert!(!at(Some(7), "a").is_news(&told, OLD));
        assert!(!at(Some(8), "a").is_news(&told, OLD / 2));
        assert!(at(Some(8), "a").is_news(&told, OLD));
        assert!(at(Some(8), "b").is_news(&told, Duration::ZERO));
        assert!(at(None, "a").is_news(&told, Duration::ZERO));
    }
}
