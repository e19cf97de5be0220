//! The plan: the steps of a transaction in order, before any is done, as a value.

use std::fmt;

use serde::Serialize;

use crate::key::Key;
use crate::record::Step;

/// The steps of a transaction in order, before any is done.
///
/// A plan can be printed, hashed, stored, and later be carried out exactly, or be refused with the keys for which it is
/// not what would happen any more.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<Step>,
}

/// The identity of a plan: equal plans have equal hashes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlanHash([u8; 32]);

impl fmt::Display for PlanHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PlanHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A stored plan is not what would happen any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plan is out of date: {} changed meanwhile", list(.changed))]
pub struct Stale {
    /// The items for which something else would happen.
    pub changed: Vec<Key>,
}

fn list(keys: &[Key]) -> String {
    keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}

impl Plan {
    /// Whether nothing would be done.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The identity of the plan: a digest over every step with its values.
    pub fn hash(&self) -> PlanHash {
        let mut hasher = blake3::Hasher::new();
        for step in &self.steps {
            let text = serde_json::to_vec(step).unwrap_or_default();
            hasher.update(&text.len().to_le_bytes());
            hasher.update(&text);
        }
        PlanHash(*hasher.finalize().as_bytes())
    }

    /// The identity of what happens to each item; by key.
    ///
    /// Together with [`Self::hash`] it tells, without the plan itself, for which items another plan is another one.
    pub fn digests(&self) -> std::collections::BTreeMap<Key, PlanHash> {
        let mut hashers: std::collections::BTreeMap<&Key, blake3::Hasher> = [].into();
        for step in &self.steps {
            let text = serde_json::to_vec(step).unwrap_or_default();
            let hasher = hashers.entry(&step.key).or_default();
            hasher.update(&text.len().to_le_bytes());
            hasher.update(&text);
        }
        let digest = |hasher: blake3::Hasher| PlanHash(*hasher.finalize().as_bytes());
        hashers.into_iter().map(|(key, hasher)| (key.clone(), digest(hasher))).collect()
    }

    /// The items for which the other plan does something else or in another order; by key, each once.
    pub(crate) fn difference(&self, other: &Self) -> Vec<Key> {
        use std::collections::BTreeMap;
        let mut by_key: BTreeMap<&Key, (Vec<&Step>, Vec<&Step>)> = BTreeMap::new();
        for step in &self.steps {
            by_key.entry(&step.key).or_default().0.push(step);
        }
        for step in &other.steps {
            by_key.entry(&step.key).or_default().1.push(step);
        }
        let mut changed: Vec<Key> =
            by_key.into_iter().filter(|(_, (a, b))| a != b).map(|(key, _)| key.clone()).collect();
        if changed.is_empty() && self.steps != other.steps {
            let moved = self.steps.iter().zip(&other.steps).filter(|(a, b)| a.key != b.key);
            changed = moved.flat_map(|(a, b)| [a.key.clone(), b.key.clone()]).collect();
            changed.sort();
            changed.dedup();
        }
        changed
    }
}
