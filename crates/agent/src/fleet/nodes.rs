//! `kilter nodes`: how the nodes of a cluster stand; `kilter nodes set`: what a node is.
//!
//! Decided here: a node is in step when the digest of everything it follows is that of the store. Its lag is how many
//! items of the store it has not seen in their last version.

use std::collections::{BTreeMap, BTreeSet};

use kilter_cli::arguments::Form;
use kilter_cli::commands::nodes::{Nodes as Arguments, Set};
use kilter_cli::render::{Cell, table};
use kilter_cli::{CommandError, Exit, Output};
use kilter_pubsub::{Digest, ItemKey};
use serde::Serialize;

use super::{Cluster, wait_for};
use crate::cluster::door::Changes;
use crate::cluster::layout::Recipients;
use crate::cluster::settings::is_good_name;
use crate::ending::refused;
use crate::feed::cluster::merged::{MEMBERSHIP, Membership};
use crate::feed::cluster::standing::Standing;

/// Shows how nodes stand, or says what one is.
pub fn nodes(arguments: &Arguments, output: &mut Output) -> Result<Exit, CommandError> {
    wait_for(async {
        let cluster = Cluster::open(arguments.settings())?;
        match arguments.set() {
            Some(set) => tell(&cluster, set, output).await,
            None => {
                Nodes::read(&cluster).await?.show(arguments.form(), output)?;
                Ok(Exit::Applied)
            }
        }
    })
}

/// What the store holds of one topic.
#[derive(Default)]
struct Held {
    items: Vec<(ItemKey, u64)>,
}

/// A node as it is listed.
#[derive(Serialize)]
struct Line {
    node: String,
    health: String,
    /// How far it is in everything it follows.
    revision: Option<u64>,
    /// How many items it has not seen in their last version.
    lag: usize,
    /// Whether it holds exactly what the store holds for it.
    in_step: bool,
    items: usize,
    topics: Vec<String>,
    standing: Option<Standing>,
}

/// The nodes of a cluster, and what the store holds for them.
pub(super) struct Nodes {
    revision: u64,
    alive: BTreeSet<String>,
    standings: BTreeMap<String, Option<Standing>>,
    topics: BTreeMap<String, Held>,
}

impl Nodes {
    pub(super) async fn read(cluster: &Cluster) -> Result<Self, CommandError> {
        let (layout, told) = (&cluster.layout, |error| refused("the nodes cannot be listed", error));
        let (_, standings) = cluster.shelf.range(&layout.nodes()).await.map_err(told)?;
        let (_, alive) = cluster.shelf.range(&layout.alive()).await.map_err(told)?;
        let (revision, items) = cluster.shelf.range(&layout.items()).await.map_err(told)?;
        let name = |key: &str, prefix: &str| key.strip_prefix(prefix).unwrap_or(key).to_owned();
        let mut topics: BTreeMap<String, Held> = BTreeMap::new();
        for read in items {
            if let Some((topic, item)) = layout.parse_item(&read.key) {
                topics.entry(topic.to_string()).or_default().items.push((item, read.modified));
            }
        }
        Ok(Self {
            revision,
            alive: alive.iter().map(|read| name(&read.key, &layout.alive())).collect(),
            standings: standings
                .iter()
                .map(|read| (name(&read.key, &layout.nodes()), serde_json::from_str(&read.value).ok()))
                .collect(),
            topics,
        })
    }

    /// The nodes that are there, follow a topic, and do not have it up to a revision.
    pub(super) fn behind<'a>(&'a self, topic: &'a str, revision: u64) -> impl Iterator<Item = &'a str> {
        let followers = self.followers(topic);
        followers
            .filter(move |(_, standing)| {
                let held = &standing.topics[topic];
                let digest = self.digest(topic).to_string();
                !standing.is_declared || (held.applied < Some(revision) && held.digest != digest)
            })
            .map(|(name, _)| name)
    }

    /// The nodes that follow a topic: those that are there, and those that are away.
    pub(super) fn split(&self, topic: &str) -> (BTreeSet<String>, BTreeSet<String>) {
        let follows = |standing: &Option<Standing>| {
            standing.as_ref().is_some_and(|standing| standing.topics.contains_key(topic))
        };
        let names =
            self.standings.iter().filter(|(_, standing)| follows(standing)).map(|(name, _)| name.clone());
        names.partition(|name| self.alive.contains(name))
    }

    /// Whether a node that follows a topic has items that are not as they were declared.
    pub(super) fn has_troubles(&self, topic: &str) -> bool {
        self.followers(topic).any(|(_, standing)| !standing.troubles.is_empty())
    }

    fn followers<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = (&'a str, &'a Standing)> {
        let standings = self.standings.iter().filter(|(name, _)| self.alive.contains(*name));
        let standings = standings.filter_map(|(name, standing)| Some((name.as_str(), standing.as_ref()?)));
        standings.filter(move |(_, standing)| standing.topics.contains_key(topic))
    }

    fn digest(&self, topic: &str) -> Digest {
        let held = self.topics.get(topic).map(|held| held.items.as_slice()).unwrap_or_default();
        Digest::of(held.iter().map(|(item, version)| (item, *version)))
    }

    fn line(&self, node: &str, standing: Option<&Standing>) -> Line {
        let topics = standing.map(|standing| &standing.topics);
        let topics: Vec<_> = topics.into_iter().flatten().collect();
        let lag = topics.iter().map(|(topic, held)| {
            let newer = |version: u64| held.applied.is_none_or(|applied| applied < version);
            let items = self.topics.get(topic.as_str()).map(|held| held.items.as_slice()).unwrap_or_default();
            items.iter().filter(|(_, version)| newer(*version)).count()
        });
        let in_step = topics.iter().all(|(topic, held)| held.digest == self.digest(topic).to_string());
        Line {
            node: node.to_owned(),
            health: self.health(node, standing),
            revision: standing.and_then(Standing::applied),
            lag: lag.sum(),
            in_step: in_step && !topics.is_empty(),
            items: topics.iter().map(|(_, held)| held.items).sum(),
            topics: topics.iter().map(|(topic, _)| (*topic).clone()).collect(),
            standing: standing.cloned(),
        }
    }

    fn health(&self, node: &str, standing: Option<&Standing>) -> String {
        if !self.alive.contains(node) {
            return "away".to_owned();
        }
        let Some(standing) = standing else { return "cannot be read".to_owned() };
        let bad = ["FAILED", "RETRYING", "INVALID", "PENDING", "MISSING", "UNIMPLEMENTED"];
        let bad = bad.iter().filter_map(|state| Some(format!("{} {state}", standing.states.get(*state)?)));
        let bad: Vec<String> = bad.chain(standing.alarms.iter().cloned()).collect();
        if bad.is_empty() { "fine".to_owned() } else { bad.join(", ") }
    }

    fn show(&self, form: Form, output: &mut Output) -> Result<(), CommandError> {
        let lines: Vec<Line> =
            self.standings.iter().map(|(node, standing)| self.line(node, standing.as_ref())).collect();
        let width = output.width();
        let listed = serde_json::json!({ "revision": self.revision, "nodes": lines });
        Ok(output.show(form, &listed, || self.text(&lines, width))?)
    }

    fn text(&self, lines: &[Line], width: Option<usize>) -> String {
        let head = ["NODE", "REVISION", "LAG", "DIGEST", "ITEMS", "HEALTH", "FOLLOWS"];
        let rows = lines.iter().map(|line| -> Vec<Cell> {
            let revision = line.revision.map_or_else(|| "-".to_owned(), |revision| revision.to_string());
            let digest = if line.in_step { "equal" } else { "differs" };
            vec![
                line.node.as_str().into(),
                revision.into(),
                line.lag.to_string().into(),
                digest.into(),
                line.items.to_string().into(),
                line.health.as_str().into(),
                line.topics.join(" ").into(),
            ]
        });
        let text = table(&head, rows.collect(), width);
        format!("{text}the store is at revision {}\n", self.revision)
    }
}

/// Says which labels a node has and which tenants it hosts.
async fn tell(cluster: &Cluster, set: &Set, output: &mut Output) -> Result<Exit, CommandError> {
    let told = |error| refused("the node could not be told", error);
    let mut membership = Membership::default();
    for (name, value) in &set.labels {
        membership.labels.insert(name.clone(), value.clone());
    }
    membership.tenants.extend(set.tenants.iter().cloned());
    let parts = membership.labels.iter().flat_map(|(name, value)| [name, value]);
    if let Some(bad) = parts.chain(&membership.tenants).chain([&set.node]).find(|name| !is_good_name(name)) {
        let attempt = format!("`{bad}` cannot be a name in a cluster, hint: letters, digits and `-_.`");
        return Err(CommandError::Refused { attempt, source: None });
    }
    let topic = Recipients::Node(set.node.clone()).to_string();
    let key = cluster.layout.item(&topic, MEMBERSHIP);
    let mut changes = Changes::default();
    if membership == Membership::default() {
        changes.deletes.push(key);
    } else {
        changes.puts.insert(key, serde_json::to_string(&membership).unwrap_or_default());
    }
    let revision = cluster.shelf.commit(changes).await.map_err(told)?;
    output.print(&format!("{} is told in revision {revision}\n", set.node))?;
    Ok(Exit::Applied)
}
