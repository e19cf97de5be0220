//! `kilter apply --to`: declares documents to nodes of a cluster, through its store.
//!
//! Decided here: what is equal already is not written, and a change that is too large for one commit of the store is made
//! in several, puts before deletes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kilter_cli::arguments::Form;
use kilter_cli::commands::apply::ToNodes;
use kilter_cli::{CommandError, Exit, Output, read};
use kilter_model::export::to_json;
use kilter_pubsub::MAX_VALUE;
use serde::Serialize;

use super::lead::{Change, Terms, lead};
use super::nodes::Nodes;
use super::{Cluster, LOOK, wait_for};
use crate::cluster::door::{Changes, Read};
use crate::cluster::joint::is_declared;
use crate::cluster::layout::Recipients;
use crate::ending::refused;
use crate::northbound::confirm::probe as probe_of;

/// How many changes one commit has; etcd takes 128, and each is compared too.
const TOGETHER: usize = 60;

/// A document that no node would get.
#[derive(Debug, thiserror::Error)]
#[error("`{key}` has {size} bytes, hint: at most {MAX_VALUE} are delivered")]
struct TooLarge {
    key: String,
    size: usize,
}

fn is_delivered(key: &str, text: &str) -> Result<(), TooLarge> {
    let size = text.len();
    if size > MAX_VALUE { Err(TooLarge { key: key.to_owned(), size }) } else { Ok(()) }
}

/// What was declared.
#[derive(Serialize)]
struct Declared {
    to: String,
    revision: u64,
    commits: usize,
    puts: usize,
    deletes: usize,
}

/// Declares documents to nodes.
pub fn apply(asked: &ToNodes<'_>, output: &mut Output) -> Result<Exit, CommandError> {
    let to: Recipients = asked.to.parse().map_err(|error| refused("nothing was declared", error))?;
    let documents = read::documents(asked.files)?;
    wait_for(async {
        let cluster = Cluster::open(asked.settings)?;
        let topic = to.to_string();
        let place = cluster.layout.topic(&topic);
        let mut wanted = BTreeMap::new();
        for declared in &documents {
            if let Some(json) = to_json(&declared.value) {
                let (key, text) = (declared.key.to_string(), json.to_string());
                is_delivered(&key, &text).map_err(|error| refused("nothing was declared", error))?;
                wanted.insert(format!("{place}{key}"), text);
            }
        }
        let told = |error| refused("the documents could not be declared", error);
        let (mut revision, known) = cluster.shelf.range(&place).await.map_err(told)?;
        let (puts, deletes) = differences(&place, &wanted, &known, asked.prune);
        if let (Some(together), false) = (&asked.together, puts.is_empty() && deletes.is_empty()) {
            let terms = Terms {
                waves: together.waves,
                soak: together.soak,
                within: together.within,
                probes: together
                    .probes
                    .iter()
                    .filter_map(|probe| probe.what.as_ref())
                    .map(probe_of)
                    .collect(),
                without_away: together.without_away,
                form: asked.output,
            };
            let changes = change(&puts, &deletes, &known);
            return lead(&cluster, Change { topic, changes }, &terms, output).await;
        }
        let commits = commits(&puts, &deletes, &known);
        let done = Declared {
            to: topic.clone(),
            revision: 0,
            commits: commits.len(),
            puts: puts.len(),
            deletes: deletes.len(),
        };
        for changes in commits {
            revision = cluster.shelf.commit(changes).await.map_err(told)?;
        }
        show(&Declared { revision, ..done }, asked.output, output)?;
        match asked.wait {
            Some(within) => reach(&cluster, &topic, revision, within, output).await,
            None => Ok(Exit::Applied),
        }
    })
}

/// What has to be put and deleted.
fn differences(
    place: &str,
    wanted: &BTreeMap<String, String>,
    known: &[Read],
    prune: bool,
) -> (BTreeMap<String, String>, Vec<String>) {
    let same = |key: &str, value: &str| known.iter().any(|read| read.key == key && read.value == value);
    let puts = wanted.iter().filter(|(key, value)| !same(key, value));
    let puts = puts.map(|(key, value)| (key.clone(), value.clone())).collect();
    let is_item = |key: &str| is_declared(key.strip_prefix(place).unwrap_or(key));
    let deletes = known.iter().filter(|read| prune && is_item(&read.key) && !wanted.contains_key(&read.key));
    (puts, deletes.map(|read| read.key.clone()).collect())
}

/// The commits that make a change, each only if what it changes is as it was read.
fn commits(puts: &BTreeMap<String, String>, deletes: &[String], known: &[Read]) -> Vec<Changes> {
    let steps = puts.iter().map(|(key, value)| (key, Some(value)));
    let steps: Vec<_> = steps.chain(deletes.iter().map(|key| (key, None))).collect();
    steps.chunks(TOGETHER).map(|steps| commit(steps, known)).collect()
}

/// All of a change in one commit.
fn change(puts: &BTreeMap<String, String>, deletes: &[String], known: &[Read]) -> Changes {
    let steps = puts.iter().map(|(key, value)| (key, Some(value)));
    commit(&steps.chain(deletes.iter().map(|key| (key, None))).collect::<Vec<_>>(), known)
}

fn commit(steps: &[(&String, Option<&String>)], known: &[Read]) -> Changes {
    let modified: BTreeMap<&str, u64> = known.iter().map(|read| (read.key.as_str(), read.modified)).collect();
    let mut changes = Changes::default();
    for (key, value) in steps {
        changes.expected.insert((*key).clone(), modified.get(key.as_str()).copied());
        match value {
            Some(value) => drop(changes.puts.insert((*key).clone(), (*value).clone())),
            None => changes.deletes.push((*key).clone()),
        }
    }
    changes
}

fn show(done: &Declared, form: Form, output: &mut Output) -> Result<(), CommandError> {
    let Declared { to, revision, puts, deletes, commits } = done;
    let text = || match commits {
        0 => format!("declared to {to}: nothing is different, the store is at revision {revision}\n"),
        1 => format!("declared to {to}: {puts} put, {deletes} deleted, in revision {revision}\n"),
        _ => format!(
            "declared to {to}: {puts} put, {deletes} deleted, in {commits} commits up to revision {revision}\n"
        ),
    };
    Ok(output.show(form, done, text)?)
}

/// Waits until every node that follows a topic has it up to a revision, and has nothing to do about it. Where nobody does,
/// somebody may yet come.
async fn reach(
    cluster: &Cluster,
    topic: &str,
    revision: u64,
    within: Duration,
    output: &mut Output,
) -> Result<Exit, CommandError> {
    let deadline = Instant::now() + within;
    loop {
        let nodes = Nodes::read(cluster).await?;
        let late: Vec<&str> = nodes.behind(topic, revision).collect();
        let (there, away) = nodes.split(topic);
        if late.is_empty() && !there.is_empty() {
            return Ok(if nodes.has_troubles(topic) { Exit::Incomplete } else { Exit::Applied });
        }
        if Instant::now() > deadline {
            let away: Vec<String> = away.into_iter().collect();
            output.print(&match (late.is_empty(), away.is_empty()) {
                (false, _) => format!("not there yet: {}\n", late.join(", ")),
                (true, false) => format!("not there yet: {}, away\n", away.join(", ")),
                (true, true) => format!(
                    "not there yet: nobody follows `{topic}`, hint: `kilter nodes` lists who follows what\n"
                ),
            })?;
            return Ok(Exit::Pending);
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: &str, value: &str, modified: u64) -> Read {
        Read { key: key.to_owned(), value: value.to_owned(), modified }
    }

    #[test]
    fn only_what_differs_is_written_and_only_as_it_was_read() {
        let known = [read("a", "1", 3), read("b", "2", 4), read("cluster/membership", "{}", 5)];
        let wanted = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("c".to_owned(), "3".to_owned())]);
        let (puts, deletes) = differences("", &wanted, &known, false);
        assert_eq!((puts.len(), deletes.len()), (1, 0));
        let (puts, deletes) = differences("", &wanted, &known, true);
        assert_eq!(deletes, ["b"]);
        let commits = commits(&puts, &deletes, &known);
        assert_eq!(commits.len(), 1);
        assert_eq!(commits[0].expected, BTreeMap::from([("b".to_owned(), Some(4)), ("c".to_owned(), None)]));
    }

    #[test]
    fn what_no_node_would_get_is_named() {
        assert!(is_delivered("a", &"x".repeat(MAX_VALUE)).is_ok());
        let error = is_delivered("a", &"x".repeat(MAX_VALUE + 1)).unwrap_err();
        assert_eq!(error.to_string(), "`a` has 1048577 bytes, hint: at most 1048576 are delivered");
    }

    #[test]
    fn what_is_too_large_for_one_commit_is_made_in_several() {
        let wanted: BTreeMap<String, String> = (0..150).map(|n| (format!("{n:03}"), String::new())).collect();
        let (puts, deletes) = differences("", &wanted, &[], false);
        assert_eq!(commits(&puts, &deletes, &[]).len(), 3);
    }
}
