//! What a test item needs, in a form that the fake world can read back.

use std::collections::BTreeMap;

use kilter_scheduler::{Key, Needs, Origin, Predicate};

/// Which items exist, and whose they are.
pub type Presence = BTreeMap<Key, Origin>;

/// One dependency of a test item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// What is needed.
    pub need: Need,
    /// Whether it is needed only for the creation.
    pub to_create: bool,
}

/// What is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// This item.
    On(Key),
    /// Any item whose key starts and, if given, ends like this.
    AnyOf {
        /// How the key starts.
        prefix: String,
        /// How the key ends.
        ending: Option<String>,
    },
    /// No foreign item of this key.
    Absent(Key),
}

impl Need {
    /// Reads `PREFIX` or `PREFIX~ENDING`.
    pub fn any(text: &str) -> Self {
        match text.split_once('~') {
            Some((prefix, ending)) => {
                Self::AnyOf { prefix: prefix.to_owned(), ending: Some(ending.to_owned()) }
            }
            None => Self::AnyOf { prefix: text.to_owned(), ending: None },
        }
    }

    /// Whether this key is one that the need asks for.
    pub fn wants(&self, key: &Key) -> bool {
        match self {
            Self::On(wanted) => wanted == key,
            Self::AnyOf { prefix, ending } => {
                key.as_str().starts_with(prefix.as_str())
                    && ending.as_ref().is_none_or(|ending| key.as_str().ends_with(ending.as_str()))
            }
            Self::Absent(_) => false,
        }
    }

    /// Whether the need is met by what exists.
    pub fn is_met(&self, present: &Presence) -> bool {
        match self {
            Self::On(key) => present.contains_key(key),
            Self::Absent(key) => present.get(key) != Some(&Origin::Observed),
            Self::AnyOf { prefix, .. } => present
                .range(Key::new(prefix)..)
                .take_while(|(key, _)| key.as_str().starts_with(prefix.as_str()))
                .any(|(key, _)| self.wants(key)),
        }
    }
}

impl Dependency {
    /// Needed as long as the item exists.
    pub fn to_exist(need: Need) -> Self {
        Self { need, to_create: false }
    }

    /// Needed only for the creation.
    pub fn to_create(need: Need) -> Self {
        Self { need, to_create: true }
    }

    /// Tells the scheduler.
    pub fn tell(&self, needs: &mut Needs) {
        let added = match &self.need {
            Need::On(key) => needs.on(key),
            Need::Absent(key) => needs.absent(key),
            Need::AnyOf { prefix, ending } => {
                let matching = ending.clone().map(|ending| {
                    Predicate::new(format!("ending {ending}"), move |key: &Key| {
                        key.as_str().ends_with(ending.as_str())
                    })
                });
                needs.any_of([prefix.as_str()], matching)
            }
        };
        if self.to_create {
            added.to_create();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_needs_one_key_that_starts_and_ends_right() {
        let present: Presence =
            [(Key::new("a/1"), Origin::Declared), (Key::new("ab/2"), Origin::Observed)].into();
        assert!(Need::any("a").is_met(&present));
        assert!(Need::any("a~2").is_met(&present));
        assert!(!Need::any("a/~2").is_met(&present));
        assert!(Need::Absent(Key::new("a/1")).is_met(&present));
        assert!(!Need::Absent(Key::new("ab/2")).is_met(&present));
    }
}
