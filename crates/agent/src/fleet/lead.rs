//! Leads a joint change: nodes try it, one wave after another, and in the end all keep it or none does.
//!
//! Decided here: when a wave has passed, when the change is kept, and what takes it back: a node that fails, goes away, or
//! does not pass in time, and whoever leads it ending. What nodes do is decided in `feed/cluster/trial`; what lies in the
//! store about it in `cluster/joint`.
//!
//! Numbered steps: 1. the nodes are found, and none may be away; 2. the change is put, for the nodes of the first wave;
//! 3. it is waited until all of them pass, and go on passing while it soaks; then the next wave begins; 4. one commit puts
//! what it changes and deletes it; or it is only deleted; 5. it is waited until the nodes have followed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kilter_cli::arguments::Form;
use kilter_cli::commands::rollout::Wave;
use kilter_cli::{CommandError, Exit, Output};
use serde::Serialize;

use super::nodes::Nodes;
use super::{Cluster, LOOK};
use crate::cluster::distributor::fresh;
use crate::cluster::door::{Changes, ShelfError};
use crate::cluster::joint::{Joint, Stage, Vote};
use crate::ending::refused;

/// How many changes one commit takes, beside the joint change itself: etcd takes 128.
const MOST: usize = 120;

/// How long nodes have to follow what was decided.
const FOLLOWING: Duration = Duration::from_secs(60);

/// How long a store has to say whether it declared a change. One that was not made has gone back long before.
const DECIDING: Duration = Duration::from_secs(60);

/// How long the change stands without whoever leads it.
const LEASE: Duration = Duration::from_secs(10);

const CANNOT: &str = "nothing was begun";

/// Why a joint change cannot be begun.
#[derive(Debug, thiserror::Error)]
enum BeginError {
    #[error("nobody follows `{0}`, hint: `kilter nodes` lists who follows what")]
    Nobody(String),
    #[error("{0} are away, hint: `--without-away` goes on without them, and they get it when they come back")]
    Away(String),
    #[error("{0} changes do not fit into one commit of the store, hint: at most {MOST}")]
    TooLarge(usize),
}

/// What is changed together.
pub(super) struct Change {
    pub(super) topic: String,
    /// What is written when it is decided.
    pub(super) changes: Changes,
}

/// How it is led.
pub(super) struct Terms<'a> {
    /// How many nodes have tried it after each wave; the last wave is everybody.
    pub(super) waves: &'a [Wave],
    /// How long a wave goes on passing before the next one begins.
    pub(super) soak: Duration,
    /// How long a wave may take to pass.
    pub(super) within: Duration,
    /// What must pass on every node.
    pub(super) probes: Vec<crate::confirm::Probe>,
    pub(super) without_away: bool,
    pub(super) form: Form,
}

/// How it ended, as it is told.
#[derive(Serialize)]
struct Ended {
    change: String,
    to: String,
    kept: bool,
    /// Why it was taken back.
    reason: String,
    /// The revision that declares it.
    revision: Option<u64>,
    waves: Vec<Vec<String>>,
    nodes: BTreeMap<String, Vote>,
}

/// The nodes of each wave.
fn waves(nodes: &BTreeSet<String>, waves: &[Wave]) -> Vec<Vec<String>> {
    let mut rest: Vec<String> = nodes.iter().rev().cloned().collect();
    let mut found = Vec::new();
    for wave in waves.iter().copied().chain([Wave::Percent(100)]) {
        let upto = match wave {
            Wave::Nodes(count) => count,
            Wave::Percent(percent) => (nodes.len() * usize::from(percent)).div_ceil(100),
        };
        let size = upto.saturating_sub(nodes.len() - rest.len()).min(rest.len());
        let wave = rest.split_off(rest.len() - size);
        if !wave.is_empty() {
            found.push(wave.into_iter().rev().collect());
        }
    }
    found
}

/// A joint change that is led.
struct Lead<'a> {
    cluster: &'a Cluster,
    id: String,
    key: String,
    lease: u64,
    renewed: Instant,
    joint: Joint,
    /// The commit that put the change last.
    modified: u64,
    /// What nodes said last; one that is gone is still in here.
    said: BTreeMap<String, Vote>,
}

/// Leads a change to its end.
pub(super) async fn lead(
    cluster: &Cluster,
    change: Change,
    terms: &Terms<'_>,
    output: &mut Output,
) -> Result<Exit, CommandError> {
    let waves = waves(&participants(cluster, &change, terms).await?, terms.waves); // 1
    let told = |error| refused("the joint change could not be led, and goes back", error);
    let mut tell = |text: String| -> Result<(), CommandError> {
        if terms.form == Form::Table {
            output.print(&text)?;
        }
        Ok(())
    };
    let mut lead = Lead::begin(cluster, &change, terms).await.map_err(told)?;
    tell(format!("joint change {} to {}\n", lead.id, change.topic))?;
    let mut reason = None;
    for (at, wave) in waves.iter().enumerate() {
        tell(format!("wave {} of {}: {}\n", at + 1, waves.len(), wave.join(" ")))?;
        lead.extend(wave).await.map_err(told)?; // 2
        reason = lead.pass(terms).await.map_err(told)?; // 3
        if reason.is_some() {
            break;
        }
    }
    let mut revision = None;
    if reason.is_none() {
        let kept = lead.decide(&change.changes).await; // 4
        match kept.map_err(|error| refused("nobody knows whether the joint change is kept", error))? {
            Ok(kept) => revision = Some(kept),
            Err(why) => reason = Some(why.to_owned()),
        }
    }
    if let Some(reason) = &reason {
        tell(format!("halted: {reason}\n"))?;
        lead.take_back().await.map_err(told)?;
    }
    let wanted = if revision.is_some() { &[Stage::Kept][..] } else { &[Stage::Back, Stage::Failed] };
    let late = lead.follow(wanted).await.map_err(told)?; // 5
    let exit = match (revision, late.is_empty()) {
        (Some(_), true) => Exit::Applied,
        (Some(_), false) => Exit::Pending,
        (None, true) => Exit::Reverted,
        (None, false) => Exit::RevertFailed,
    };
    let count = lead.joint.nodes.len();
    let ended = Ended {
        change: lead.id,
        to: change.topic,
        kept: revision.is_some(),
        reason: reason.unwrap_or_default(),
        revision,
        waves,
        nodes: lead.said,
    };
    output.show(terms.form, &ended, || {
        let late = if late.is_empty() { String::new() } else { format!(", not told by {}", late.join(" ")) };
        match revision {
            Some(revision) => format!("kept by {count} nodes, declared in revision {revision}{late}\n"),
            None => format!("taken back: {count} nodes are as before{late}\n"),
        }
    })?;
    Ok(exit)
}

/// The nodes that have to try a change.
async fn participants(
    cluster: &Cluster,
    change: &Change,
    terms: &Terms<'_>,
) -> Result<BTreeSet<String>, CommandError> {
    let size = change.changes.puts.len() + change.changes.deletes.len();
    if size > MOST {
        return Err(refused(CANNOT, BeginError::TooLarge(size)));
    }
    let nodes = Nodes::read(cluster).await?;
    let (there, away) = nodes.split(&change.topic);
    if !away.is_empty() && !terms.without_away {
        let away: Vec<String> = away.into_iter().collect();
        return Err(refused(CANNOT, BeginError::Away(away.join(", "))));
    }
    if there.is_empty() {
        return Err(refused(CANNOT, BeginError::Nobody(change.topic.clone())));
    }
    Ok(there)
}

impl<'a> Lead<'a> {
    async fn begin(cluster: &'a Cluster, change: &Change, terms: &Terms<'_>) -> Result<Self, ShelfError> {
        let id = format!("{:08x}", fresh() & 0xffff_ffff);
        let place = cluster.layout.topic(&change.topic);
        let own = |key: &str| key.strip_prefix(&place).unwrap_or(key).to_owned();
        let json = |text: &str| serde_json::from_str(text).unwrap_or_default();
        let joint = Joint {
            topic: change.topic.clone(),
            nodes: BTreeSet::new(),
            puts: change.changes.puts.iter().map(|(key, text)| (own(key), json(text))).collect(),
            deletes: change.changes.deletes.iter().map(|key| own(key)).collect(),
            probes: terms.probes.clone(),
            within: u64::try_from(terms.within.as_millis()).unwrap_or(u64::MAX),
        };
        let lease = cluster.shelf.grant(LEASE).await?;
        let key = cluster.layout.joint(&change.topic, &id);
        Ok(Self {
            cluster,
            id,
            key,
            lease,
            renewed: Instant::now(),
            joint,
            modified: 0,
            said: BTreeMap::new(),
        })
    }

    /// Lets more nodes try it.
    async fn extend(&mut self, wave: &[String]) -> Result<(), ShelfError> {
        self.joint.nodes.extend(wave.iter().cloned());
        let text = serde_json::to_string(&self.joint).unwrap_or_default();
        let expected = (self.modified > 0).then_some(self.modified);
        let changes = Changes {
            puts: BTreeMap::from([(self.key.clone(), text)]),
            expected: BTreeMap::from([(self.key.clone(), expected)]),
            lease: Some(self.lease),
            ..Changes::default()
        };
        self.modified = self.cluster.shelf.commit(changes).await?;
        Ok(())
    }

    /// Waits until every node that tries it passes, and has done so for the soak; the answer is why it cannot be kept.
    async fn pass(&mut self, terms: &Terms<'_>) -> Result<Option<String>, ShelfError> {
        let began = Instant::now();
        let mut passing = None;
        loop {
            let votes = self.votes().await?;
            let failed = votes.iter().find(|(_, vote)| matches!(vote.stage, Stage::Failed | Stage::Back));
            if let Some((node, vote)) = failed {
                return Ok(Some(format!("{node}: {}", vote.reason)));
            }
            // What a node says hangs on a lease.
            if let Some(node) = self.said.keys().find(|node| !votes.contains_key(*node)) {
                return Ok(Some(format!("{node} has gone away")));
            }
            let late: Vec<String> =
                self.joint.nodes.iter().filter_map(|node| lateness(node, &votes)).collect();
            if late.is_empty() {
                let since = *passing.get_or_insert_with(Instant::now);
                if since.elapsed() >= terms.soak {
                    return Ok(None);
                }
            } else {
                passing = None;
                if began.elapsed() > terms.within + terms.soak {
                    return Ok(Some(format!("not in time: {}", late.join(", "))));
                }
            }
            self.renew().await?;
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn renew(&mut self) -> Result<(), ShelfError> {
        if self.renewed.elapsed() >= LEASE / 5 {
            self.cluster.shelf.keep_alive(self.lease).await?;
            self.renewed = Instant::now();
        }
        Ok(())
    }

    /// What nodes say at this moment.
    async fn votes(&mut self) -> Result<BTreeMap<String, Vote>, ShelfError> {
        let prefix = self.cluster.layout.votes(&self.id);
        let (_, read) = self.cluster.shelf.range(&prefix).await?;
        let vote = |read: crate::cluster::door::Read| {
            Some((read.key.strip_prefix(&prefix)?.to_owned(), serde_json::from_str(&read.value).ok()?))
        };
        let votes: BTreeMap<String, Vote> = read.into_iter().filter_map(vote).collect();
        self.said.extend(votes.clone());
        Ok(votes)
    }

    /// Declares what was tried; the answer is the revision that does, or why it cannot be declared.
    ///
    /// A store that does not say whether it did is asked until it does: the commit is made again, which it cannot be twice,
    /// and what stands there then tells which of them it was. The error is that of a store that says nothing for long.
    async fn decide(&self, changes: &Changes) -> Result<Result<u64, &'static str>, ShelfError> {
        let deadline = Instant::now() + DECIDING;
        let mut is_uncertain = false;
        loop {
            let ended = match self.keep(changes.clone()).await {
                Ok(revision) => return Ok(Ok(revision)),
                Err(ShelfError::Conflict) if is_uncertain => self.kept_at(changes).await,
                Err(ShelfError::Conflict) => return Ok(Err("somebody else changed the same items")),
                Err(error) => Err(error),
            };
            match ended {
                Ok(kept) => return Ok(kept.ok_or("the store did not declare it in time")),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => is_uncertain = true,
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Declares what was tried, and deletes the change, in one commit.
    async fn keep(&self, mut changes: Changes) -> Result<u64, ShelfError> {
        changes.deletes.push(self.key.clone());
        changes.expected.insert(self.key.clone(), Some(self.modified));
        self.cluster.shelf.commit(changes).await
    }

    /// The revision that declared what was tried, if it stands there and the change is gone.
    async fn kept_at(&self, changes: &Changes) -> Result<Option<u64>, ShelfError> {
        let (_, read) = self.cluster.shelf.range(&self.cluster.layout.topic(&self.joint.topic)).await?;
        let is_there = |key: &String| read.iter().any(|read| read.key == *key);
        let put = |(key, value): (&String, &String)| {
            let found = read.iter().find(|read| read.key == *key && read.value == *value);
            found.map(|read| read.modified)
        };
        let puts: Option<Vec<u64>> = changes.puts.iter().map(put).collect();
        let is_gone = !changes.deletes.iter().chain([&self.key]).any(is_there);
        let revision = puts.map(|puts| puts.into_iter().max().unwrap_or(self.modified));
        Ok(revision.filter(|revision| is_gone && *revision >= self.modified))
    }

    async fn take_back(&self) -> Result<(), ShelfError> {
        let changes = Changes { deletes: vec![self.key.clone()], ..Changes::default() };
        self.cluster.shelf.commit(changes).await.map(drop)
    }

    /// Waits until every node that began has said one of these; the answer is who has not, and who is away cannot.
    async fn follow(&mut self, wanted: &[Stage]) -> Result<Vec<String>, ShelfError> {
        let deadline = Instant::now() + FOLLOWING;
        let alive = self.cluster.layout.alive();
        loop {
            self.votes().await?;
            let late = self.said.iter().filter(|(_, vote)| !wanted.contains(&vote.stage));
            let late: Vec<String> = late.map(|(node, _)| node.clone()).collect();
            let (_, there) = self.cluster.shelf.range(&alive).await?;
            let is_there =
                |node: &String| there.iter().any(|read| read.key.strip_prefix(&alive) == Some(node));
            if !late.iter().any(is_there) || Instant::now() > deadline {
                return Ok(late);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// What a node lacks to pass.
fn lateness(node: &str, votes: &BTreeMap<String, Vote>) -> Option<String> {
    match votes.get(node) {
        Some(vote) if vote.stage == Stage::Passed => None,
        Some(vote) if vote.reason.is_empty() => Some(node.to_owned()),
        Some(vote) => Some(format!("{node} ({})", vote.reason)),
        None => Some(format!("{node} (has not begun)")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kilter_store::embedded::{Embedded, Settings as EmbeddedSettings};
    use kilter_store::{
        Answer, Commit, Committed, Found, Identity, Lease, LeaseId, Range, Revision, Snapshot, Store,
        StoreError, Watch,
    };

    use super::*;
    use crate::cluster::door::Shelf;
    use crate::cluster::layout::Layout;

    /// How the next commits of a store end.
    #[derive(Debug)]
    enum Fate {
        /// It happens, and nobody is told.
        Unheard,
        /// It does not, and nobody is told.
        Lost,
    }

    #[derive(Debug)]
    struct Unsure {
        store: Embedded,
        fate: Fate,
        left: AtomicUsize,
    }

    impl Store for Unsure {
        fn identity(&self) -> Answer<'_, Identity> {
            self.store.identity()
        }

        fn get(&self, key: &str) -> Answer<'_, Found> {
            self.store.get(key)
        }

        fn range(&self, range: Range) -> Answer<'_, Snapshot> {
            self.store.range(range)
        }

        fn commit(&self, commit: Commit) -> Answer<'_, Committed> {
            let left =
                self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            Box::pin(async move {
                if left.is_err() {
                    return self.store.commit(commit).await;
                }
                if matches!(self.fate, Fate::Unheard) {
                    self.store.commit(commit).await?;
                }
                let source = Arc::new(std::io::Error::from(std::io::ErrorKind::TimedOut));
                Err(StoreError::Uncertain { attempt: "commit".to_owned(), source })
            })
        }

        fn watch(&self, prefix: &str, after: Revision) -> Answer<'_, Watch> {
            self.store.watch(prefix, after)
        }

        fn compact(&self, before: Revision) -> Answer<'_, ()> {
            self.store.compact(before)
        }

        fn grant(&self, ttl: Duration) -> Answer<'_, Lease> {
            self.store.grant(ttl)
        }

        fn keep_alive(&self, lease: LeaseId) -> Answer<'_, Lease> {
            self.store.keep_alive(lease)
        }

        fn revoke(&self, lease: LeaseId) -> Answer<'_, Committed> {
            self.store.revoke(lease)
        }
    }

    /// What is decided when the first commit of the decision has this fate, after somebody else did this.
    async fn decided(
        fate: Fate,
        meanwhile: Changes,
    ) -> (Result<u64, &'static str>, Vec<crate::cluster::door::Read>) {
        let directory = tempfile::tempdir().unwrap();
        let store = Embedded::open(&directory.path().join("store"), EmbeddedSettings::default()).unwrap();
        let unsure = Arc::new(Unsure { store, fate, left: AtomicUsize::new(0) });
        let shelf = Shelf::Store(Arc::clone(&unsure) as Arc<dyn Store>, directory.path().join("door"));
        let cluster = Cluster { shelf, layout: Layout::new("kilter/") };
        let place = cluster.layout.topic("all");
        let put = |key: &str| BTreeMap::from([(format!("{place}{key}"), "{}".to_owned())]);
        cluster.shelf.commit(Changes { puts: put("old"), ..Changes::default() }).await.unwrap();
        let changes = Changes {
            puts: put("new"),
            deletes: vec![format!("{place}old")],
            expected: BTreeMap::from([(format!("{place}new"), None), (format!("{place}old"), Some(1))]),
            lease: None,
        };
        let terms = Terms {
            waves: &[],
            soak: Duration::ZERO,
            within: Duration::ZERO,
            probes: Vec::new(),
            without_away: false,
            form: Form::Table,
        };
        let change = Change { topic: "all".to_owned(), changes };
        let mut lead = Lead::begin(&cluster, &change, &terms).await.unwrap();
        lead.extend(&["n1".to_owned()]).await.unwrap();
        if meanwhile != Changes::default() {
            cluster.shelf.commit(meanwhile).await.unwrap();
        }
        unsure.left.store(1, Ordering::Relaxed);
        let decided = lead.decide(&change.changes).await.unwrap();
        (decided, cluster.shelf.range(&place).await.unwrap().1)
    }

    #[tokio::test]
    async fn a_decision_that_nobody_heard_of_is_looked_up() {
        for fate in [Fate::Unheard, Fate::Lost] {
            let (decided, read) = decided(fate, Changes::default()).await;
            let keys: Vec<&str> = read.iter().map(|read| read.key.as_str()).collect();
            assert_eq!(keys.len(), 1, "{keys:?}");
            assert!(keys[0].ends_with("new"), "{keys:?}");
            assert_eq!(decided, Ok(read[0].modified));
        }
    }

    #[tokio::test]
    async fn a_decision_that_was_not_made_is_not_told_as_one() {
        let place = Layout::new("kilter/").topic("all");
        let puts = BTreeMap::from([(format!("{place}new"), "{\"other\":1}".to_owned())]);
        let (decided, read) = decided(Fate::Lost, Changes { puts, ..Changes::default() }).await;
        assert_eq!(
            (decided.is_err(), read.len()),
            (true, 3),
            "the old one, the other one, and the change itself"
        );
    }

    #[test]
    fn every_node_is_in_one_wave_and_the_last_wave_is_the_rest() {
        let nodes: BTreeSet<String> = (0..20).map(|n| format!("n{n:02}")).collect();
        let sizes = |steps: &[Wave]| waves(&nodes, steps).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(&[]), [20]);
        assert_eq!(sizes(&[Wave::Nodes(1), Wave::Percent(25)]), [1, 4, 15]);
        assert_eq!(sizes(&[Wave::Nodes(0), Wave::Percent(1), Wave::Nodes(99)]), [1, 19]);
        let all: Vec<String> = waves(&nodes, &[Wave::Nodes(3), Wave::Percent(50)]).concat();
        assert_eq!(all, nodes.into_iter().collect::<Vec<_>>());
    }
}
