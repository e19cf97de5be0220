//! The guarantees, as far as somebody who sees everything can check them after every step.

use std::collections::BTreeMap;

use kilter_pubsub::{ItemKey, LogId, Mark, Publisher, SessionId, Stamp, Topic, ViewChange};

use super::store::Items;
use super::world::World;

/// A consumer with a good memory.
#[derive(Default)]
pub(crate) struct Witness {
    last: BTreeMap<ItemKey, Stamp>,
    pub(crate) view: BTreeMap<ItemKey, (Stamp, Vec<u8>)>,
    pub(crate) batches: u64,
    pub(crate) removed: u64,
    /// Items with values of the same stamp that were shown twice in a row.
    pub(crate) repeated: u64,
}

impl Witness {
    /// Sees a batch of changes. G2: nothing is ever older than what was seen before.
    pub(crate) fn see(&mut self, topic: &Topic, changes: &[ViewChange]) -> Result<(), String> {
        self.batches += 1;
        for change in changes {
            let last = self.last.insert(change.item.clone(), change.stamp);
            if last.is_some_and(|last| last > change.stamp) {
                return Err(format!(
                    "G2: {} of {topic} went from {last:?} to {:?}",
                    change.item, change.stamp
                ));
            }
            match &change.value {
                Some(value) => {
                    let before = self.view.insert(change.item.clone(), (change.stamp, value.to_vec()));
                    self.repeated += u64::from(before == Some((change.stamp, value.to_vec())));
                }
                None => {
                    self.view.remove(&change.item);
                    self.removed += 1;
                }
            }
        }
        Ok(())
    }
}

impl World {
    /// What a subscriber holds of a topic.
    pub(crate) fn held(&self, subscriber: usize, topic: &Topic) -> Items {
        let core = self.subscribers[subscriber].core.as_ref();
        let items = core
            .map(|core| core.items(topic).map(|(item, rev, value)| (item.clone(), (rev, value.to_vec()))));
        items.map(Iterator::collect).unwrap_or_default()
    }

    /// Checks everything about one subscriber, and the memory of everybody.
    pub(crate) fn check(&mut self, index: usize) {
        if self.broken.is_some() {
            return;
        }
        if let Err(what) = self.examine(index).and_then(|()| self.examine_memory()) {
            self.fail(format!("s{index}: {what}"));
        }
    }

    fn examine(&self, index: usize) -> Result<(), String> {
        let Some(core) = &self.subscribers[index].core else { return Ok(()) };
        // G1, G3, G7, G9: at every position, a replica is exactly what the store held there: nothing is half applied,
        // applied twice, left out, or deleted because somebody did not answer.
        for status in core.topics() {
            let held = self.held(index, &status.topic);
            let Some(applied) = status.applied else {
                if !held.is_empty() {
                    return Err(format!("{} shows items before it was complete", status.topic));
                }
                continue;
            };
            let is_true = self.store.lives.iter().rev().any(|life| {
                held == life.at(&status.topic, applied) && (life.rev >= applied || self.store.lives.len() > 1)
            });
            let excused = self.excuse_values || self.distributors.iter().any(|one| one.lost_commits_ever());
            if !is_true && !excused {
                let should = self.store.life().at(&status.topic, applied);
                return Err(format!("G3: {} at {applied} is {held:?}, not {should:?}", status.topic));
            }
        }
        // What the consumer was told adds up to what is shown.
        let shown = core.view().iter().map(|(item, shown)| (item, shown.value.as_ref()));
        let told =
            self.subscribers[index].witness.view.iter().map(|(item, (_, value))| (item, value.as_slice()));
        if !shown.eq(told) {
            return Err("G9: what was told does not add up to what is shown".to_owned());
        }
        // G6: what waits behind gaps is bounded.
        let (_, ahead) = core.remembered();
        let bound = self.settings.ahead_slices * core.followed().count().max(1);
        if ahead > bound {
            return Err(format!("G6: {ahead} slices wait behind gaps"));
        }
        Ok(())
    }

    /// G5: whoever has heard where topics stand has what there is of them, or knows that something is missing.
    pub(crate) fn check_marks(&mut self, index: usize, log: LogId, marks: &[Mark]) {
        let Some(core) = self.subscribers[index].core.as_ref().filter(|core| core.log_id() == Some(log))
        else {
            return;
        };
        let topics = core.topics();
        let unnoticed = marks.iter().find(|mark| {
            let status = topics.iter().find(|status| status.topic == mark.topic);
            status.is_some_and(|status| status.is_live && status.applied < Some(mark.last))
        });
        if let Some(mark) = unnoticed {
            let what = format!("G5: s{index} does not notice that {} is at {}", mark.topic, mark.last);
            self.fail(what);
        }
    }

    /// G4: whoever never lost more than the log holds got each topic whole once, when it began to follow it.
    pub(crate) fn check_whole(&mut self) {
        for index in 0..self.subscribers.len() {
            let process = &self.subscribers[index];
            let Some(core) = &process.core else { continue };
            let (counts, follows) = (core.counts(), process.follows);
            if counts.deltas > 0 || counts.snapshots > follows {
                self.fail(format!("G4: s{index} began to follow {follows} times: {counts:?}"));
            }
        }
    }

    /// G6 of distributors: the log and the windows are bounded.
    fn examine_memory(&self) -> Result<(), String> {
        for process in &self.distributors {
            let Some(core) = &process.core else { continue };
            let publisher: &Publisher = core.published();
            let (slices, bytes) = publisher.log_size();
            if slices > self.settings.log_slices || bytes > self.settings.log_bytes {
                return Err(format!("G6: a log of {slices} slices and {bytes} bytes"));
            }
            if publisher.served() > self.settings.snapshots {
                return Err(format!("F32: {} are served at a time", publisher.served()));
            }
            for subscriber in &self.subscribers {
                let queued = subscriber.connection_name().map_or(0, |name| publisher.queued(SessionId(name)));
                if queued > self.settings.window + (512 << 10) {
                    return Err(format!("G6: {queued} bytes wait for one subscriber"));
                }
            }
        }
        Ok(())
    }

    /// G1: whether every subscriber holds exactly what the store holds, and shows it.
    pub(crate) fn is_settled(&self) -> bool {
        self.subscribers.iter().enumerate().all(|(index, process)| {
            let Some(core) = &process.core else { return true };
            let topics = core.topics();
            let life = self.store.life();
            let exact = topics.iter().all(|status| {
                status.is_live
                    && status.applied.is_some()
                    && self.held(index, &status.topic) == life.now(&status.topic)
            });
            let mut should: BTreeMap<ItemKey, Vec<u8>> = BTreeMap::new();
            for status in &topics {
                should.extend(life.now(&status.topic).into_iter().map(|(item, (_, value))| (item, value)));
            }
            let shown = core.view().iter().map(|(item, shown)| (item.clone(), shown.value.to_vec()));
            exact && shown.collect::<BTreeMap<_, _>>() == should
        })
    }

    /// Says what is not settled.
    pub(crate) fn unsettled(&self) -> String {
        let mut text = String::new();
        for (index, process) in self.subscribers.iter().enumerate() {
            let Some(core) = &process.core else { continue };
            for status in core.topics() {
                let (held, should) = (self.held(index, &status.topic), self.store.life().now(&status.topic));
                if held != should || !status.is_live {
                    text += &format!(
                        "s{index} {}: live {}, at {:?} of {}; {held:?} should be {should:?}\n",
                        status.topic,
                        status.is_live,
                        status.applied,
                        self.store.rev()
                    );
                }
            }
        }
        text
    }
}
