//! The registry: which kind owns a key. Overlapping key spaces are a registration error.

use rustc_hash::FxHashMap;

use crate::descriptor::Descriptor;
use crate::key::KeyPattern;

/// The number of a registered kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(u16);

impl KindId {
    /// Marks a vertex whose key no kind owns.
    pub(crate) const NONE: Self = Self(u16::MAX);

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) fn get(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

/// Why a kind could not be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// A kind of that name is registered.
    #[error("kind `{kind}` is registered already")]
    KindExists {
        /// The name.
        kind: String,
    },
    /// Some keys would belong to two kinds.
    #[error("keys `{pattern}` of kind `{kind}` overlap with keys `{other_pattern}` of kind `{other}`")]
    KeysOverlap {
        /// The kind being registered.
        kind: String,
        /// Its pattern.
        pattern: String,
        /// The kind that is registered.
        other: String,
        /// Its pattern.
        other_pattern: String,
    },
    /// The kinds that must be read before this one form a circle.
    #[error("kind `{kind}` would have to be read before itself")]
    ReadOrderCycle {
        /// The kind being registered.
        kind: String,
    },
    /// A kind without keys owns nothing.
    #[error("kind `{kind}` has no key pattern")]
    NoKeys {
        /// The name.
        kind: String,
    },
    /// The registry is full.
    #[error("kind `{kind}` is one too many")]
    TooMany {
        /// The name.
        kind: String,
    },
}

/// All registered kinds.
#[derive(Default)]
pub struct Registry {
    kinds: Vec<Registered>,
    /// Patterns by how they begin: by two literal segments, else by one, else (a star comes first) by nothing.
    by_beginning: FxHashMap<String, Vec<(KeyPattern, KindId)>>,
}

struct Registered {
    descriptor: Box<dyn Descriptor>,
    keys: Vec<KeyPattern>,
}

/// A text up to its first slash and up to its second one, or to its end; the second only if there is a first slash.
fn beginnings(text: &str) -> [Option<&str>; 2] {
    let Some(first) = text.find('/') else { return [Some(text), None] };
    let second = text[first + 1..].find('/').map_or(text.len(), |at| first + 1 + at);
    [Some(&text[..first]), Some(&text[..second])]
}

impl Registry {
    /// Adds a kind.
    pub fn register(&mut self, descriptor: Box<dyn Descriptor>) -> Result<KindId, RegisterError> {
        let kind = descriptor.kind().to_owned();
        let keys = descriptor.keys();
        if keys.is_empty() {
            return Err(RegisterError::NoKeys { kind });
        }
        if self.find(&kind).is_some() {
            return Err(RegisterError::KindExists { kind });
        }
        for pattern in &keys {
            for other in &self.kinds {
                if let Some(other_pattern) = other.keys.iter().find(|other| other.overlaps(pattern)) {
                    return Err(RegisterError::KeysOverlap {
                        kind,
                        pattern: pattern.to_string(),
                        other: other.descriptor.kind().to_owned(),
                        other_pattern: other_pattern.to_string(),
                    });
                }
            }
        }
        let id = match u16::try_from(self.kinds.len()) {
            Ok(id) if KindId(id) != KindId::NONE => KindId(id),
            _ => return Err(RegisterError::TooMany { kind }),
        };
        self.kinds.push(Registered { descriptor, keys: keys.clone() });
        if self.try_read_order().is_none() {
            self.kinds.pop();
            return Err(RegisterError::ReadOrderCycle { kind });
        }
        for pattern in keys {
            let text = pattern.to_string();
            let literal = text.split('*').next().unwrap_or_default();
            let [one, two] = beginnings(literal);
            // What stands before a star counts up to the slash, and a pattern of one segment has no second.
            let whole = literal.len() == text.len();
            let beginning = match (one, two) {
                (_, Some(two)) if whole || literal.len() > two.len() => two,
                (Some(one), _) if whole || literal.len() > one.len() => one,
                _ => "",
            };
            self.by_beginning.entry(beginning.to_owned()).or_default().push((pattern, id));
        }
        Ok(id)
    }

    /// The kind that owns the key.
    pub fn owner(&self, key: &str) -> Option<KindId> {
        let find = |beginning: &str| {
            let patterns = self.by_beginning.get(beginning)?;
            patterns.iter().find(|(pattern, _)| pattern.matches(key)).map(|(_, id)| *id)
        };
        let [one, two] = beginnings(key);
        two.and_then(find).or_else(|| one.and_then(find)).or_else(|| find(""))
    }

    /// The kind of that name.
    pub fn find(&self, kind: &str) -> Option<KindId> {
        let at = self.kinds.iter().position(|registered| registered.descriptor.kind() == kind)?;
        u16::try_from(at).ok().map(KindId)
    }

    /// The descriptor of a kind.
    pub fn descriptor(&self, kind: KindId) -> &dyn Descriptor {
        &*self.kinds[kind.0 as usize].descriptor
    }

    /// The name of a kind.
    pub fn name(&self, kind: KindId) -> &str {
        self.descriptor(kind).kind()
    }

    /// Every kind, in registration order.
    pub fn kinds(&self) -> impl Iterator<Item = KindId> + '_ {
        (0..self.kinds.len()).filter_map(|at| u16::try_from(at).ok().map(KindId))
    }

    /// The kinds grouped by when they may be read: a kind stands after those it must be read after.
    pub fn read_order(&self) -> Vec<Vec<KindId>> {
        self.try_read_order().expect("registration refuses a circle")
    }

    fn try_read_order(&self) -> Option<Vec<Vec<KindId>>> {
        let mut waiting: Vec<KindId> = self.kinds().collect();
        let mut rounds: Vec<Vec<KindId>> = Vec::new();
        while !waiting.is_empty() {
            let (mut round, rest): (Vec<_>, Vec<_>) = waiting.iter().partition(|kind| {
                let after = self.descriptor(**kind).reads_after();
                !waiting.iter().any(|other| after.contains(&self.name(*other)))
            });
            if round.is_empty() {
                return None;
            }
            round.sort_by(|a, b| self.name(*a).cmp(self.name(*b)));
            rounds.push(round);
            waiting = rest;
        }
        Some(rounds)
    }
}
