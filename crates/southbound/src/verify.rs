//! Verifying: does the world look as the scheduler believes after a transaction?
//!
//! Decided here: which items are read back, and what counts as a difference. Nothing is repaired here: a difference
//! is drift, or a defect of an actuator.

use std::collections::BTreeMap;

use kilter_scheduler::{
    Act, Answer, Failure, Key, Reads, Record, Retrieved, Scheduler, State, Transition, ValueRef,
};

use crate::dispatch::Work;
use crate::driver::Driver;

/// What was found when a transaction was verified.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verification {
    /// The items that were read, by key.
    pub read: Vec<Key>,
    /// Where the world is not as the scheduler believes, by key.
    pub differences: Vec<Difference>,
    /// The items that could not be read, by key.
    pub unreadable: Vec<(Key, Failure)>,
}

impl Verification {
    /// Whether everything was read and found as it should be.
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty() && self.unreadable.is_empty()
    }
}

/// One item that is not as the scheduler believes.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The item.
    pub key: Key,
    /// In what way.
    pub kind: Discrepancy,
}

/// In what way an item is not as the scheduler believes.
#[derive(Clone, Debug, PartialEq)]
pub enum Discrepancy {
    /// It should exist.
    ExpectedToExist {
        /// What it should be.
        expected: ValueRef,
    },
    /// It should not exist.
    ExpectedNotToExist {
        /// What it is.
        found: ValueRef,
    },
    /// It exists and something would have to be done to make it what it should be.
    NotEquivalent {
        /// What it should be.
        expected: ValueRef,
        /// What it is.
        found: ValueRef,
    },
}

impl Driver {
    /// Reads back every item that the transaction touched.
    ///
    /// Left out are items that nobody can read by their key, and those whose operation waits for confirmation.
    /// An item that is read with its base is verified by reading the base.
    ///
    /// **Assumes** that the transaction was the last one, so that what the scheduler believes is what it left.
    pub async fn verify(&self, scheduler: &Scheduler, record: &Record) -> Verification {
        let mut dispatch = self.dispatch();
        dispatch.hand_out(reads(scheduler, record).into_iter());
        let mut verification = Verification::default();
        while dispatch.is_busy() {
            for (belief, answer) in dispatch.settled().await {
                verification.note(scheduler, belief, answer);
            }
        }
        verification.sort();
        verification
    }
}

/// What the scheduler believes about an item: its value if it exists.
struct Belief {
    key: Key,
    value: Option<ValueRef>,
}

/// The reads that verify the transaction.
fn reads<'a>(scheduler: &'a Scheduler, record: &Record) -> Vec<Work<'a, Belief>> {
    // What each touched item was last, or was to be: what should be gone is looked for as that.
    let mut touched: BTreeMap<Key, Option<&ValueRef>> = BTreeMap::new();
    for step in record.steps() {
        let Some(key) = readable(scheduler, &step.key) else { continue };
        let is_itself = key == step.key;
        let last = touched.entry(key).or_default();
        if is_itself {
            *last = step.after.value.as_ref().or(step.before.value.as_ref());
        }
    }
    let mut work = Vec::new();
    for (key, last) in touched {
        let item = scheduler.item(key.as_str());
        let Some(kind) = scheduler.registry().owner(key.as_str()) else { continue };
        if item.as_ref().is_some_and(|item| matches!(item.state, State::Applying | State::Removing)) {
            continue;
        }
        let value = item.and_then(|item| item.actual);
        work.push(Work {
            kind: scheduler.registry().name(kind),
            act: Act::Retrieve {
                key: key.clone(),
                expected: value.as_ref().or(last).cloned(),
                facts: scheduler.facts(key.as_str()),
            },
            needs: scheduler.dependency_facts(key.as_str()),
            tag: Belief { key, value },
        });
    }
    work
}

/// The item that is read to verify this one: itself, its base, or none.
fn readable(scheduler: &Scheduler, key: &Key) -> Option<Key> {
    let reads = |key: &Key| {
        let kind = scheduler.registry().owner(key.as_str())?;
        Some(scheduler.registry().descriptor(kind).reads())
    };
    match reads(key)? {
        Reads::Itself => Some(key.clone()),
        Reads::WithBase => {
            let base = scheduler.item(key.as_str())?.base?;
            (reads(&base)? == Reads::Itself).then_some(base)
        }
        Reads::Never => None,
    }
}

impl Verification {
    fn note(&mut self, scheduler: &Scheduler, belief: Belief, answer: Answer) {
        let Belief { key, value } = belief;
        let found = match answer {
            Answer::Found(Retrieved { value, .. }) => Some(value),
            Answer::Failed(failure) => return self.unreadable.push((key, failure)),
            Answer::Absent
            | Answer::Done { .. }
            | Answer::Accepted { .. }
            | Answer::Listed(_)
            | Answer::ListedAs(..)
            | Answer::AsListed
            | Answer::NotAsListed => None,
        };
        let kind = match (value, found) {
            (None, None) => None,
            (Some(expected), None) => Some(Discrepancy::ExpectedToExist { expected }),
            (None, Some(found)) => Some(Discrepancy::ExpectedNotToExist { found }),
            (Some(expected), Some(found)) => (!is_same(scheduler, &key, &found, &expected))
                .then_some(Discrepancy::NotEquivalent { expected, found }),
        };
        self.read.push(key.clone());
        self.differences.extend(kind.map(|kind| Difference { key, kind }));
    }

    fn sort(&mut self) {
        self.read.sort_unstable();
        self.differences.sort_by(|a, b| a.key.cmp(&b.key));
        self.unreadable.sort_by(|(a, _), (b, _)| a.cmp(b));
    }
}

/// Whether nothing has to be done to make `found` what is expected.
fn is_same(scheduler: &Scheduler, key: &Key, found: &ValueRef, expected: &ValueRef) -> bool {
    let registry = scheduler.registry();
    let transition =
        registry.owner(key.as_str()).map(|kind| registry.descriptor(kind).transition(key, found, expected));
    transition == Some(Transition::Same)
}
