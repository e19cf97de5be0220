//! Health: worst-of per component; broken (liveness) apart from not yet in sync (readiness).

use std::collections::BTreeMap;

use serde::Serialize;

/// How a component stands; later is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// All is well.
    Fine,
    /// It works, and somebody should look at it.
    Warning,
    /// It works, and is not yet, or not any more, in sync.
    OutOfSync,
    /// It will not recover by itself.
    Broken,
}

/// A component and why it stands where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// How it stands.
    pub level: Level,
    /// Why, for people.
    pub reason: String,
}

/// The health of the agent: what each component last said about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Health(BTreeMap<String, Standing>);

impl Health {
    /// A component says how it stands. What it said before is replaced, unless it was broken: that stays.
    pub fn report(&mut self, component: &str, level: Level, reason: impl Into<String>) {
        let standing = Standing { level, reason: reason.into() };
        match self.0.get_mut(component) {
            Some(known) if known.level == Level::Broken => {}
            Some(known) => *known = standing,
            None => {
                self.0.insert(component.to_owned(), standing);
            }
        }
    }

    /// How a component stands.
    pub fn of(&self, component: &str) -> Option<&Standing> {
        self.0.get(component)
    }

    /// Every component, by name.
    pub fn components(&self) -> impl Iterator<Item = (&str, &Standing)> {
        self.0.iter().map(|(name, standing)| (name.as_str(), standing))
    }

    /// The worst level of any component.
    pub fn worst(&self) -> Level {
        self.0.values().map(|standing| standing.level).max().unwrap_or(Level::Fine)
    }

    /// Whether nothing is broken. If not, the process should be started again.
    pub fn is_live(&self) -> bool {
        self.worst() < Level::Broken
    }

    /// Whether everything is in sync.
    pub fn is_ready(&self) -> bool {
        self.worst() < Level::OutOfSync
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_counts_and_a_broken_component_stays_broken() {
        let mut health = Health::default();
        assert!(health.is_live() && health.is_ready());
        health.report("loop", Level::OutOfSync, "waits for the startup resync");
        health.report("store", Level::Fine, "");
        assert!(health.is_live() && !health.is_ready());
        health.report("loop", Level::Broken, "healing failed");
        health.report("store", Level::Fine, "");
        health.report("loop", Level::Fine, "");
        assert_eq!(health.worst(), Level::Broken);
        assert!(!health.is_live() && !health.is_ready());
    }
}
