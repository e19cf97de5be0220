//! A node tries a joint change: it is carried out, probed, and kept only if everybody keeps it.
//!
//! Decided here: what a node does about a joint change that names it. Carrying out, waiting and going back are those of
//! any change that waits for a confirmation, so they outlive the process, and a node that is cut off goes back by itself.
//!
//! Numbered steps: 1. the node says that it tries the change, only if it still is as it was read; 2. the change is carried
//! out, all or nothing, and waits; 3. probes are tried every second: three rounds in a row that pass are told, three that
//! do not take the change back at once; as long as the node can tell how it fares it has more time; 4. when the change is
//! gone, it is kept if the store declares by now what was tried, and taken back otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kilter_model::export::read_back;
use kilter_scheduler::{Key, OnFailure, Outcome, Seq, State, ValueRef};
use kilter_store::{Expected, Revision, Store};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::SOURCE;
use super::ballot::Ballot;
use super::merged::Merged;
use crate::cluster::Settings;
use crate::cluster::joint::{Joint, Stage};
use crate::cluster::layout::Layout;
use crate::confirm::Probe;
use crate::desk::{Confirm, Declaration, Desk, Options, Put, View};
use crate::probes::{ENOUGH, ROUND, failing};

/// A joint change as it was read: with the commit that put it.
pub(super) type Read = (Arc<Joint>, u64);

/// What is known of a joint change.
#[derive(Clone)]
enum Known {
    /// Nothing yet: the node has just begun.
    Nothing,
    /// It is there.
    There(Read),
    /// It is gone, and this is declared.
    Gone(Arc<BTreeMap<Key, ValueRef>>),
}

/// The joint changes of a node: one is tried at a time.
pub(super) struct Trials {
    desk: Desk,
    /// Without a store nobody would learn how the node fares, so nothing is tried.
    store: Option<Arc<dyn Store>>,
    layout: Layout,
    node: String,
    /// How long what the node says stands without it, and how often it says so.
    lease: (Duration, Duration),
    runs_commands: bool,
    running: Option<(String, watch::Sender<Known>, JoinHandle<BTreeSet<Key>>)>,
    /// Changes that this node has tried.
    over: BTreeSet<String>,
}

impl Trials {
    pub(super) fn new(settings: &Settings, store: Option<Arc<dyn Store>>, desk: Desk) -> Self {
        Self {
            desk,
            store,
            layout: Layout::new(&settings.prefix),
            node: settings.node_name(),
            lease: (settings.pubsub.lease, settings.pubsub.lease_renewal),
            runs_commands: settings.probe_commands,
            running: None,
            over: BTreeSet::new(),
        }
    }

    /// Whether a change is tried: then nothing else is declared.
    pub(super) fn is_trying(&self) -> bool {
        self.running.is_some()
    }

    /// Goes on with a change that an earlier run tried.
    pub(super) async fn resume(&mut self) {
        let waiting = self.desk.inquire(tried).await.ok().flatten();
        if let (Some(tried), Some(store)) = (waiting, self.store.clone()) {
            self.begin(tried.id, store, Known::Nothing, Some(tried.txn));
        }
    }

    /// Looks at the joint changes that there are by now.
    pub(super) fn look(&mut self, merged: &Merged) {
        let joints = merged.joints();
        self.over.retain(|id| joints.contains_key(id));
        let names = |(joint, _): &&Read| joint.nodes.contains(&self.node);
        if let Some((id, known, _)) = &self.running {
            let found = joints.get(id).filter(names);
            known.send_replace(match found {
                Some(read) => Known::There(read.clone()),
                None => Known::Gone(Arc::new(merged.items().clone())),
            });
            return;
        }
        let Some(store) = self.store.clone() else { return };
        let next = joints.iter().find(|(id, read)| names(read) && !self.over.contains(*id));
        if let Some((id, read)) = next {
            self.begin(id.clone(), store, Known::There(read.clone()), None);
        }
    }

    fn begin(&mut self, id: String, store: Arc<dyn Store>, known: Known, txn: Option<Seq>) {
        let (tells, told) = watch::channel(known);
        let trial = Trial {
            desk: self.desk.clone(),
            ballot: Ballot::new(store, format!("{}{}", self.layout.votes(&id), self.node), self.lease),
            layout: self.layout.clone(),
            id: id.clone(),
            told,
            runs_commands: self.runs_commands,
            txn,
        };
        self.running = Some((id, tells, tokio::spawn(trial.run())));
    }

    /// Waits until the change that is tried is over; the answer is what it was about.
    ///
    /// **Guarantees** that nothing is lost when it is dropped.
    pub(super) async fn ended(&mut self) -> BTreeSet<Key> {
        let Some((id, _, task)) = &mut self.running else { return std::future::pending().await };
        let keys = task.await.unwrap_or_default();
        self.over.insert(id.clone());
        self.running = None;
        keys
    }
}

/// A joint change that waits for its confirmation.
struct Tried {
    id: String,
    txn: Seq,
    /// What it declares by item; nothing for one that it removes.
    items: BTreeMap<Key, Option<ValueRef>>,
}

fn tried(view: &View<'_>) -> Option<Tried> {
    let pending = view.ledger.confirmation.as_ref()?;
    let id = pending.joint.clone()?;
    let own = view.ledger.sources().find(|(name, _)| *name == SOURCE).map(|(_, items)| items);
    let value = |key: &Key| own.and_then(|own| own.get(key)).map(|mark| mark.value.clone());
    let keys = pending.undo.iter().flat_map(|undo| undo.items.keys());
    Some(Tried { id, txn: pending.id, items: keys.map(|key| (key.clone(), value(key))).collect() })
}

/// One joint change on this node.
struct Trial {
    desk: Desk,
    ballot: Ballot,
    layout: Layout,
    id: String,
    told: watch::Receiver<Known>,
    runs_commands: bool,
    /// The change that waits here; nothing if there was nothing to do.
    txn: Option<Seq>,
}

impl Trial {
    /// Tries the change to its end; the answer is what it was about.
    async fn run(mut self) -> BTreeSet<Key> {
        let mut keys = BTreeSet::new();
        if self.txn.is_some() {
            let waiting = self.desk.inquire(tried).await.ok().flatten();
            keys.extend(waiting.into_iter().flat_map(|tried| tried.items.into_keys()));
        } else {
            let Some(joint) = self.announce().await else { return keys }; // 1
            keys.extend(joint.puts.keys().chain(&joint.deletes).map(|key| Key::new(key.as_str())));
            if let Err(reason) = self.carry_out(&joint).await {
                self.ballot.say(Stage::Failed, reason).await;
                self.until_gone().await;
                return keys;
            }
        } // 2
        let items = match self.probe(&keys).await {
            Ok(items) => items,
            Err(reason) => {
                self.ballot.say(Stage::Failed, reason).await;
                self.until_gone().await
            }
        }; // 3
        keys.extend(self.settle(&items).await); // 4
        keys
    }

    /// Says that this node tries the change as it was read; nothing if it is gone before.
    async fn announce(&mut self) -> Option<Arc<Joint>> {
        loop {
            let known = self.told.borrow_and_update().clone();
            let Known::There((joint, rev)) = known else { return None };
            let key = self.layout.joint(&joint.topic, &self.id);
            if self.ballot.announce(key, Expected::Modified(Revision(rev))).await.is_ok() {
                return Some(joint);
            }
            // Either it has changed, of which news comes, or the store is away.
            let _ = tokio::time::timeout(ROUND, self.told.changed()).await;
        }
    }

    async fn carry_out(&mut self, joint: &Joint) -> Result<(), String> {
        if !self.runs_commands && joint.probes.iter().any(|probe| matches!(probe, Probe::Command(_))) {
            return Err("it runs no commands as probes, hint: `probe-commands` in its settings".to_owned());
        }
        let mut puts = Vec::new();
        for json in joint.puts.values() {
            let (key, value) = read_back(json).map_err(|error| kilter_events::chain(&error))?;
            puts.push(Put { key, value, place: None });
        }
        let removes = joint.deletes.iter().map(|key| Key::new(key.as_str())).collect();
        let declaration = Declaration { removes, ..Declaration::patch(SOURCE, puts) };
        let confirm = Confirm { within: joint.patience(), probes: Vec::new(), joint: Some(self.id.clone()) };
        let options = Options {
            on_failure: OnFailure::Revert,
            confirm: Some(confirm),
            description: format!("joint change {}", self.id),
            ..Options::default()
        };
        let applied = self.desk.feed_with(declaration, options).await.ended().await;
        let applied = applied.map_err(|error| error.to_string())?;
        if let Some(Outcome::Reverted(cause) | Outcome::RevertFailed { cause, .. }) =
            applied.record.as_ref().map(|record| &record.outcome)
        {
            return Err(format!("{}: {}", cause.key, cause.error));
        }
        self.txn = applied.confirmation.map(|pending| pending.id);
        Ok(())
    }

    /// Tries probes until the change is gone, and answers what is declared then; or why it went back here.
    async fn probe(&mut self, keys: &BTreeSet<Key>) -> Result<Arc<BTreeMap<Key, ValueRef>>, String> {
        let (mut good, mut bad) = (0, 0);
        loop {
            let known = self.told.borrow_and_update().clone();
            let next = Instant::now() + ROUND;
            match known {
                Known::Gone(items) => return Ok(items),
                Known::There((joint, _)) => {
                    self.still_waits().await?;
                    match self.look(keys, &joint.probes).await {
                        Look::Good => {
                            (good, bad) = (good + 1, 0);
                            if good >= ENOUGH {
                                self.ballot.say(Stage::Passed, String::new()).await;
                            }
                        }
                        Look::Waits(reason) => {
                            (good, bad) = (0, 0);
                            self.ballot.say(Stage::Trying, reason).await;
                        }
                        Look::Bad(reason) => {
                            (good, bad) = (0, bad + 1);
                            if bad >= ENOUGH {
                                take_back(&self.desk, self.txn).await;
                                return Err(reason);
                            }
                        }
                    }
                    self.renew(joint.patience()).await;
                }
                Known::Nothing => {}
            }
            tokio::select! {
                changed = self.told.changed() => changed.map_err(|_| "the node ends".to_owned())?,
                () = sleep_until(next) => {}
            }
        }
    }

    /// Whether the change waits here; if not, somebody or the time has decided.
    async fn still_waits(&self) -> Result<(), String> {
        let waiting = self.desk.confirmation().await.map_err(|gone| gone.to_string())?;
        match (self.txn, waiting.map(|pending| pending.id)) {
            (Some(txn), waiting) if waiting != Some(txn) => {
                Err("it did not wait any longer on this node".to_owned())
            }
            _ => Ok(()),
        }
    }

    async fn look(&self, keys: &BTreeSet<Key>, probes: &[Probe]) -> Look {
        let keys: Vec<Key> = keys.iter().cloned().collect();
        let states = self.desk.inquire(move |view| {
            keys.iter()
                .map(|key| (key.clone(), view.scheduler.status(key.as_str()).state))
                .collect::<Vec<_>>()
        });
        for (key, state) in states.await.unwrap_or_default() {
            match state {
                State::Configured
                | State::Obtained
                | State::Discovered
                | State::Nonexistent
                | State::Removed => {}
                State::Pending | State::Applying | State::Removing => {
                    return Look::Waits(format!("{key} is {state}"));
                }
                State::Failed | State::Retrying | State::Invalid | State::Missing | State::Unimplemented => {
                    return Look::Bad(format!("{key} is {state}"));
                }
            }
        }
        match failing(probes).await {
            None => Look::Good,
            Some(probe) => Look::Bad(format!("{probe} does not pass")),
        }
    }

    /// Keeps the change if what was tried is what the store declares, and takes it back otherwise.
    async fn settle(&mut self, items: &BTreeMap<Key, ValueRef>) -> BTreeSet<Key> {
        let waiting = self.desk.inquire(tried).await.ok().flatten().filter(|tried| tried.id == self.id);
        let Some(tried) = waiting else { return BTreeSet::new() };
        let is_kept = tried.items.iter().all(|(key, value)| items.get(key) == value.as_ref());
        if is_kept && self.desk.confirm(Some(tried.txn)).await.is_ok() {
            self.ballot.say(Stage::Kept, String::new()).await;
        } else {
            let ended = self.desk.cancel(Some(tried.txn)).await.ended().await;
            let reason = ended.err().map(|error| error.to_string()).unwrap_or_default();
            self.ballot.say(Stage::Back, reason).await;
        }
        tried.items.into_keys().collect()
    }

    /// Waits until the change is gone; the answer is what is declared then.
    async fn until_gone(&mut self) -> Arc<BTreeMap<Key, ValueRef>> {
        loop {
            if let Known::Gone(items) = &*self.told.borrow_and_update() {
                return Arc::clone(items);
            }
            let changed = tokio::time::timeout(self.ballot.renewal(), self.told.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                return Arc::default();
            }
            self.ballot.renew().await;
        }
    }

    /// As long as the node can tell how it fares, the change has more time here.
    async fn renew(&mut self, patience: Duration) {
        if let (true, Some(txn)) = (self.ballot.renew().await, self.txn) {
            // If it does not wait any more, the next round notices.
            let _ = self.desk.extend(Some(txn), patience).await;
        }
    }
}

/// Takes back what a joint change did here. Where there was nothing to do, whatever waits is somebody else's.
async fn take_back(desk: &Desk, txn: Option<Seq>) {
    if let Some(txn) = txn {
        // How it goes is seen by whoever asks what waits.
        let _ = desk.cancel(Some(txn)).await.ended().await;
    }
}

/// What a look at a change gave.
enum Look {
    Good,
    Waits(String),
    Bad(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::{self, Order};

    #[tokio::test]
    async fn a_joint_change_takes_back_its_own_change_and_no_other() {
        let (desk, mut reception) = desk::open();
        take_back(&desk, None).await;
        assert!(reception.orders.try_recv().is_err(), "nothing of it waits here");
        let going = tokio::spawn(async move { take_back(&desk, Some(7)).await });
        let order = reception.orders.recv().await;
        assert!(matches!(order, Some(Order::Cancel(Some(7), _))));
        drop(order);
        going.await.unwrap();
    }
}
