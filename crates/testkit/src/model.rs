//! The reference model: what shall exist, by the definition of the contract, slowly and obviously.
//!
//! The available set is the greatest set in which each item is declared (or derived from an available base), valid, and
//! has every dependency met inside the set or by an observed item.

use std::collections::{BTreeMap, BTreeSet};

use kilter_scheduler::{Descriptor as _, Key, Origin, Transition};

use crate::attrs::Attrs;
use crate::kinds::{TestKind, kind_of};
use crate::needs::{Need, Presence};

/// What the model has to be told: everything else follows.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// What is declared, base items only.
    pub declared: BTreeMap<Key, Attrs>,
    /// What exists at the moment, with what it is.
    pub actual: BTreeMap<Key, Attrs>,
    /// What exists and was not made here, or was found and has not been declared yet.
    pub standing: BTreeSet<Key>,
    /// What exists and was not made here.
    pub observed: BTreeSet<Key>,
    /// What cannot be there whatever its dependencies say: it failed and is absent, or waits for its confirmation.
    pub impossible: BTreeSet<Key>,
    /// Bases that have not reached their declared value: what they derive and is not there yet cannot come.
    pub unfinished: BTreeSet<Key>,
    /// What is refused besides values that are invalid: a declaration that would have to delete what is foreign.
    pub refused: BTreeSet<Key>,
    /// Whether the late kinds are registered.
    pub late: bool,
}

/// An item that may exist.
#[derive(Clone, Debug)]
struct Candidate {
    value: Attrs,
    kind: Option<TestKind>,
    base: Option<Key>,
}

/// The keys that shall exist.
pub fn available(given: &Given) -> BTreeSet<Key> {
    let candidates = candidates(given);
    let mut present: Presence = given.standing.iter().map(|key| (key.clone(), origin(given, key))).collect();
    for key in candidates.keys() {
        present.entry(key.clone()).or_insert_with(|| origin(given, key));
    }
    loop {
        let lacking: Vec<Key> = candidates
            .iter()
            .filter(|(key, _)| present.contains_key(*key) && !given.standing.contains(*key))
            .filter(|(key, _)| !is_met(given, &candidates, &present, key))
            .map(|(key, _)| key.clone())
            .collect();
        if lacking.is_empty() {
            return present.into_keys().collect();
        }
        for key in lacking {
            present.remove(&key);
        }
    }
}

fn origin(given: &Given, key: &Key) -> Origin {
    if given.observed.contains(key) { Origin::Observed } else { Origin::Declared }
}

fn candidates(given: &Given) -> BTreeMap<Key, Candidate> {
    let mut candidates = BTreeMap::new();
    let late = |key: &Key| key.as_str().starts_with("late/") && !given.late;
    for (key, declared) in &given.declared {
        let Some(kind) = kind_of(key).filter(|_| !late(key)) else { continue };
        // A refused value leaves in place what was applied before, and is never made.
        let refused = declared.get("invalid").is_some() || given.refused.contains(key);
        let value = if refused { given.actual.get(key) } else { Some(declared) };
        let Some(value) = value.filter(|_| !given.impossible.contains(key)) else { continue };
        for (child, value) in kind.derived(key, value) {
            let kind = kind_of(&child);
            let waits = given.unfinished.contains(key) && !given.actual.contains_key(&child);
            if !waits && !given.impossible.contains(&child) {
                candidates.insert(child, Candidate { value, kind, base: Some(key.clone()) });
            }
        }
        candidates.insert(key.clone(), Candidate { value: value.clone(), kind: Some(kind), base: None });
    }
    candidates
}

fn is_met(given: &Given, candidates: &BTreeMap<Key, Candidate>, present: &Presence, key: &Key) -> bool {
    let Some(candidate) = candidates.get(key) else { return false };
    if let Some(base) = &candidate.base {
        // A foreign item that lacks what its declaration needs is there, but what the declaration derives waits.
        let foreign = given.observed.contains(base) && !given.actual.contains_key(key);
        if !present.contains_key(base) || (foreign && !is_met(given, candidates, present, base)) {
            return false;
        }
    }
    let Some(kind) = candidate.kind else { return true };
    // What exists does not wait for what it needed to be created, unless it must be created again.
    let keeps = given.actual.get(key).is_some_and(|actual| {
        let change = kind.transition(key, &actual.to_value(), &candidate.value.to_value());
        !matches!(change, Transition::Recreate { .. })
    });
    kind.dependencies(&candidate.value).iter().all(|dependency| {
        let itself = matches!(&dependency.need, Need::On(other) if other == key);
        itself || (dependency.to_create && keeps) || dependency.need.is_met(present)
    })
}
