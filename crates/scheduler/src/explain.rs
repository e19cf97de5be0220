//! Explanations: the chain of causes behind an item's state, down to a root.

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::graph::Graph;
use crate::graph::node::{EdgeBits, Flags, Id, NO, Refused};
use crate::key::Key;
use crate::record::Action;
use crate::state::{FieldError, State, Unmet};

/// How many members of an "any of" dependency are looked into.
const MEMBERS: usize = 8;

/// Why an item stands where it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The item asked about first, then what it waits for, each followed by its own causes.
    pub links: Vec<Link>,
}

/// One link of the chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Link {
    /// How far from the item asked about.
    pub depth: usize,
    /// The item.
    pub key: Key,
    /// Where it stands.
    pub state: State,
    /// Why.
    pub why: Why,
}

/// Why an item stands where it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Why {
    /// It is as declared.
    AsDeclared,
    /// It exists without having been asked for.
    Seen,
    /// It was found and is ours, but nobody has declared it yet.
    Found,
    /// It waits for these.
    Waits(Vec<Unmet>),
    /// Nobody declares it, and it has not been seen.
    NotDeclared,
    /// Everything it needs is there; the transaction under way is not done with it yet.
    NotReached,
    /// No kind owns its key.
    NoKind,
    /// An operation failed.
    Failed {
        /// Which.
        action: Action,
        /// Why.
        error: Arc<str>,
        /// The attempt that is planned.
        next_attempt: Option<u32>,
        /// How many retries were made.
        attempts: u32,
    },
    /// Its declared value is refused.
    Refused(Vec<FieldError>),
    /// An operation waits for its confirmation.
    Unconfirmed(Action),
    /// These stand on it and could not be removed.
    HeldBy(Vec<Key>),
    /// Its base does not exist, or has not reached the value that derives it.
    Base(Key),
    /// It was made here and has disappeared.
    Disappeared,
    /// It has been explained above.
    Above,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsDeclared => f.write_str("exists as declared"),
            Self::Seen => f.write_str("exists, nobody declared it"),
            Self::Found => f.write_str("exists and is ours, nobody has declared it yet"),
            Self::Waits(unmet) => write!(f, "needs {}", join(unmet)),
            Self::NotDeclared => f.write_str("nobody declares it and it has not been seen"),
            Self::NotReached => f.write_str("the transaction under way is not done with it yet"),
            Self::NoKind => f.write_str("no kind owns this key"),
            Self::Failed { action, error, next_attempt, attempts } => {
                write!(f, "{} failed: {error}", action.name())?;
                match next_attempt {
                    Some(attempt) => write!(f, " (retry {attempt} is planned)"),
                    None if *attempts > 0 => write!(f, " (after {attempts} retries)"),
                    None => Ok(()),
                }
            }
            Self::Refused(fields) => write!(f, "refused: {}", join(fields)),
            Self::Unconfirmed(action) => write!(f, "the {} has not been confirmed yet", action.name()),
            Self::HeldBy(keys) => write!(f, "held by {}", join(keys)),
            Self::Base(key) => write!(f, "derived from {key}"),
            Self::Disappeared => f.write_str("was made here and has disappeared"),
            Self::Above => f.write_str("see above"),
        }
    }
}

fn join<T: fmt::Display>(list: &[T]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, link) in self.links.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{:indent$}{} {}: {}", "", link.key, link.state, link.why, indent = link.depth * 2)?;
        }
        Ok(())
    }
}

impl Graph {
    pub(crate) fn explain(&self, key: &str) -> Explanation {
        let mut links = Vec::new();
        let Some(id) = self.find(key) else {
            links.push(Link {
                depth: 0,
                key: Key::new(key),
                state: State::Nonexistent,
                why: Why::NotDeclared,
            });
            return Explanation { links };
        };
        let mut told: FxHashSet<Id> = FxHashSet::default();
        let mut open: Vec<(Id, usize)> = vec![(id, 0)];
        while let Some((id, depth)) = open.pop() {
            let state = self.state(id);
            let key = self[id].key.clone();
            if !told.insert(id) {
                links.push(Link { depth, key, state, why: Why::Above });
                continue;
            }
            let (why, mut causes) = self.why(id);
            links.push(Link { depth, key, state, why });
            causes.sort_by(|a, b| self[*b].key.cmp(&self[*a].key));
            open.extend(causes.into_iter().map(|cause| (cause, depth + 1)));
        }
        Explanation { links }
    }

    /// Why a vertex stands where it stands, and the vertices that are the cause.
    fn why(&self, id: Id) -> (Why, Vec<Id>) {
        let node = &self[id];
        if let Some(awaited) = node.awaited() {
            return (Why::Unconfirmed(awaited.action), Vec::new());
        }
        let holders = self.holders_of(id);
        if !holders.is_empty() {
            let causes = holders.iter().filter_map(|key| self.find(key.as_str())).collect();
            return (Why::HeldBy(holders), causes);
        }
        if let Some(failure) = node.failure() {
            let why = Why::Failed {
                action: failure.action,
                error: failure.error.clone(),
                next_attempt: failure.next_attempt,
                attempts: failure.attempts,
            };
            return (why, Vec::new());
        }
        let own = |refused: &&Refused| !node.has(Flags::DERIVED) || refused.taken.is_none();
        if let Some(refused) = node.refused().filter(own) {
            let taken = refused.taken.filter(|taken| *taken != id).into_iter().collect();
            return (Why::Refused(refused.fields.clone()), taken);
        }
        if node.has(Flags::STUCK) || (node.base != NO && !node.exists() && !self.is_goal(node.base)) {
            return (Why::Base(self[node.base].key.clone()), vec![node.base]);
        }
        let unmet = self.unmet_of(id);
        match self.state(id) {
            State::Unimplemented => (Why::NoKind, Vec::new()),
            State::Missing if unmet.is_empty() => (Why::Disappeared, Vec::new()),
            State::Obtained => (Why::Seen, Vec::new()),
            State::Discovered => (Why::Found, Vec::new()),
            _ if !unmet.is_empty() && !node.exists() => (Why::Waits(unmet), self.causes(id)),
            _ if node.exists() => (Why::AsDeclared, Vec::new()),
            State::Pending => (Why::NotReached, Vec::new()),
            State::Nonexistent
            | State::Missing
            | State::Removed
            | State::Configured
            | State::Invalid
            | State::Failed
            | State::Retrying
            | State::Applying
            | State::Removing => (Why::NotDeclared, Vec::new()),
        }
    }

    /// The vertices whose absence (or presence) an item waits for.
    fn causes(&self, id: Id) -> Vec<Id> {
        let mut causes = Vec::new();
        for edge in &self[id].needs {
            if !edge.bits.has(EdgeBits::DECLARED) || edge.bits.has(EdgeBits::BASE) || self.is_met(*edge) {
                continue;
            }
            match self[edge.target].group() {
                None => causes.push(edge.target),
                Some(group) => {
                    let members = group.members.iter().filter(|member| self.is_visible(**member));
                    causes.extend(members.take(MEMBERS));
                }
            }
        }
        causes
    }
}
