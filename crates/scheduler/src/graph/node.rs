//! One vertex: an item, a key that others wait for, or a group of keys that a dependency asks for.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::dependency::Predicate;
use crate::key::Key;
use crate::record::Action;
use crate::registry::KindId;
use crate::state::{FieldError, Seq, State, Timestamp};
use crate::txn::Labels;
use crate::value::{Facts, ValueRef};

/// The number of a vertex. Numbers are used again after a vertex is dropped.
pub(crate) type Id = u32;

/// No vertex.
pub(crate) const NO: u32 = u32::MAX;

/// What is known about a vertex, bit by bit.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flags(u16);

impl Flags {
    pub(crate) const NONE: Self = Self(0);
    /// It belongs to the set that shall exist, or exists without having been asked for: dependents may count on it.
    pub(crate) const GOAL: Self = Self(1);
    /// It exists and was not made here.
    pub(crate) const OBSERVED: Self = Self(1 << 1);
    /// This run made it or took it over.
    pub(crate) const APPLIED: Self = Self(1 << 2);
    /// A refresh did not find it although it had been made here.
    pub(crate) const MISSING: Self = Self(1 << 3);
    /// It stands for "any of these keys".
    pub(crate) const GROUP: Self = Self(1 << 4);
    /// Its base has not reached the value that derives it.
    pub(crate) const STUCK: Self = Self(1 << 5);
    /// Its removal was asked for.
    pub(crate) const DOOMED: Self = Self(1 << 6);
    /// Something that stands on it could not be removed, so its own change waits.
    pub(crate) const HELD: Self = Self(1 << 7);
    /// It is derived by the declared (or, for an observed base, actual) value of its base.
    pub(crate) const DERIVED: Self = Self(1 << 8);
    /// It was derived when it was made; kept so that leftovers still know their base.
    pub(crate) const WAS_DERIVED: Self = Self(1 << 9);
    /// It is about to go down in the walk under way, and counted so in its groups.
    pub(crate) const LEAVING: Self = Self(1 << 10);

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn set(&mut self, other: Self, on: bool) {
        if on {
            self.0 |= other.0;
        } else {
            self.0 &= !other.0;
        }
    }
}

/// A dependency of one vertex on another.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) target: Id,
    /// Where the target keeps the way back.
    pub(crate) slot: u32,
    pub(crate) bits: EdgeBits,
}

/// What a dependency means, bit by bit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct EdgeBits(u8);

impl EdgeBits {
    /// The declared value has it.
    pub(crate) const DECLARED: Self = Self(1);
    /// The actual value has it.
    pub(crate) const ACTUAL: Self = Self(1 << 1);
    /// It matters only for the creation.
    pub(crate) const CREATE: Self = Self(1 << 2);
    /// It asks for absence.
    pub(crate) const ABSENT: Self = Self(1 << 3);
    /// It leads from a derived item to its base.
    pub(crate) const BASE: Self = Self(1 << 4);

    const SHAPE: u8 = Self::CREATE.0 | Self::ABSENT.0 | Self::BASE.0;

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn set(&mut self, other: Self, on: bool) {
        if on {
            self.0 |= other.0;
        } else {
            self.0 &= !other.0;
        }
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const PLAIN: Self = Self(0);

    /// What kind of dependency it is, whichever value has it.
    pub(crate) fn shape(self) -> u8 {
        self.0 & Self::SHAPE
    }

    /// Whether the target's existence is needed as long as the source exists.
    pub(crate) fn is_to_exist(self) -> bool {
        self.0 & (Self::CREATE.0 | Self::ABSENT.0) == 0
    }
}

/// The way back of an edge.
#[derive(Clone, Copy)]
pub(crate) struct Dependent {
    pub(crate) source: Id,
    /// Which of the source's edges.
    pub(crate) edge: u32,
}

/// One vertex.
pub(crate) struct Node {
    pub(crate) key: Key,
    pub(crate) kind: KindId,
    pub(crate) flags: Flags,
    /// Which retry options apply; an index into the graph's table.
    pub(crate) retry: u16,
    pub(crate) last: Option<Action>,
    /// The base of a derived item.
    pub(crate) base: Id,
    /// Its place among what the base derives.
    pub(crate) place: u32,
    /// How many dependencies of the declared value are not met, to exist and to create.
    pub(crate) unmet: u32,
    pub(crate) unmet_create: u32,
    /// The visit of the transaction under way.
    pub(crate) visit: u32,
    /// The last derivation that named the vertex, and the last refresh that found it.
    pub(crate) epoch: u32,
    pub(crate) seen: u32,
    /// What shall be; for a refused value, what was applied before.
    pub(crate) declared: Option<ValueRef>,
    /// What is.
    pub(crate) actual: Option<ValueRef>,
    pub(crate) facts: Option<Facts>,
    pub(crate) needs: SmallVec<[Edge; 1]>,
    pub(crate) dependents: Vec<Dependent>,
    /// Derived items, of the declared and of the actual value.
    pub(crate) derived: Vec<Id>,
    /// The transaction that last declared it.
    pub(crate) revision: Seq,
    /// The transaction that last changed it.
    pub(crate) changed_by: Seq,
    pub(crate) rare: Option<Box<Rare>>,
}

/// What few vertices have.
#[derive(Default)]
pub(crate) struct Rare {
    pub(crate) failure: Option<Failed>,
    pub(crate) refused: Option<Refused>,
    pub(crate) awaited: Option<Awaited>,
    pub(crate) labels: Option<Arc<Labels>>,
    /// Groups that the key belongs to, each with the position among its members.
    pub(crate) member_of: Vec<(Id, u32)>,
    pub(crate) group: Option<Group>,
    /// Vertices whose value was refused because this key was taken.
    pub(crate) contenders: Vec<Id>,
}

/// The last operation failed.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) action: Action,
    pub(crate) error: Arc<str>,
    /// The transaction in which it failed.
    pub(crate) seq: Seq,
    /// The attempt that a planned retry will be.
    pub(crate) next_attempt: Option<u32>,
    /// How many retries were made so far.
    pub(crate) attempts: u32,
}

/// The declared value was refused.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) value: ValueRef,
    pub(crate) fields: Vec<FieldError>,
    /// The taken key, if that is the reason.
    pub(crate) taken: Option<Id>,
}

/// An operation was accepted and waits for an observation.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    pub(crate) action: Action,
    pub(crate) value: Option<ValueRef>,
    pub(crate) deadline: Timestamp,
}

/// "Any of these keys."
#[derive(Clone)]
pub(crate) struct Group {
    pub(crate) prefixes: Vec<String>,
    pub(crate) matching: Option<Predicate>,
    pub(crate) members: Vec<Id>,
    /// How many members shall exist.
    pub(crate) goal: u32,
    /// How many members exist.
    pub(crate) present: u32,
    /// How many members are about to leave in the transaction under way.
    pub(crate) leaving: u32,
}

impl Node {
    pub(crate) fn new(key: Key, kind: KindId) -> Self {
        Self {
            key,
            kind,
            flags: Flags::default(),
            retry: 0,
            last: None,
            base: NO,
            place: 0,
            unmet: 0,
            unmet_create: 0,
            visit: NO,
            epoch: 0,
            seen: 0,
            declared: None,
            actual: None,
            facts: None,
            needs: SmallVec::new(),
            dependents: Vec::new(),
            derived: Vec::new(),
            revision: 0,
            changed_by: 0,
            rare: None,
        }
    }

    pub(crate) fn has(&self, flag: Flags) -> bool {
        self.flags.has(flag)
    }

    pub(crate) fn exists(&self) -> bool {
        self.actual.is_some()
    }

    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    pub(crate) fn failure(&self) -> Option<&Failed> {
        self.rare.as_ref()?.failure.as_ref()
    }

    pub(crate) fn refused(&self) -> Option<&Refused> {
        self.rare.as_ref()?.refused.as_ref()
    }

    pub(crate) fn awaited(&self) -> Option<&Awaited> {
        self.rare.as_ref()?.awaited.as_ref()
    }

    pub(crate) fn group(&self) -> Option<&Group> {
        self.rare.as_ref()?.group.as_ref()
    }

    pub(crate) fn member_of(&self) -> &[(Id, u32)] {
        self.rare.as_ref().map_or(&[], |rare| &rare.member_of)
    }

    pub(crate) fn is_derived(&self) -> bool {
        self.flags.has(Flags::DERIVED) || self.flags.has(Flags::WAS_DERIVED)
    }

    /// A derived item whose key no kind owns: it needs no operation.
    pub(crate) fn is_property(&self) -> bool {
        self.kind.get().is_none() && self.is_derived()
    }

    pub(crate) fn is_observed(&self) -> bool {
        self.exists() && self.flags.has(Flags::OBSERVED)
    }

    /// Whether the vertex shall exist if only its dependencies are met.
    pub(crate) fn is_wanted(&self) -> bool {
        self.declared.is_some()
            && (self.kind.get().is_some() || self.flags.has(Flags::DERIVED))
            && !self.flags.has(Flags::STUCK)
            && self.rare.as_ref().is_none_or(|rare| rare.lets_stand(self.exists()))
    }

    /// Whether the vertex exists and nobody asked for it to go.
    pub(crate) fn stands_alone(&self) -> bool {
        self.exists()
            && (self.flags.has(Flags::OBSERVED)
                || (self.declared.is_none() && !self.flags.has(Flags::DOOMED)))
    }

    /// Whether nothing is known about the key any more.
    pub(crate) fn is_blank(&self) -> bool {
        self.declared.is_none()
            && self.actual.is_none()
            && self.dependents.is_empty()
            && self.derived.is_empty()
            && !self.flags.has(Flags::DERIVED)
            && self.rare.as_ref().is_none_or(|rare| {
                rare.refused.is_none()
                    && rare.failure.is_none()
                    && rare.awaited.is_none()
                    && rare.contenders.is_empty()
            })
    }

    /// Where the item stands, computed from what is known.
    pub(crate) fn state(&self) -> State {
        if let Some(awaited) = self.awaited() {
            return if awaited.action == Action::Delete { State::Removing } else { State::Applying };
        }
        // A declaration that is refused because a base derives the key says nothing about the derived item.
        if self.refused().is_some_and(|refused| !self.flags.has(Flags::DERIVED) || refused.taken.is_none()) {
            return State::Invalid;
        }
        if let Some(failure) = self.failure() {
            return if failure.next_attempt.is_some() { State::Retrying } else { State::Failed };
        }
        match (self.declared.is_some(), self.exists()) {
            (false, false) => State::Nonexistent,
            (false, true) if self.flags.has(Flags::OBSERVED) => State::Obtained,
            (false, true) if self.flags.has(Flags::APPLIED) || self.flags.has(Flags::DOOMED) => {
                State::Configured
            }
            (false, true) => State::Discovered,
            (true, _) if self.kind.get().is_none() && !self.is_derived() => State::Unimplemented,
            // It exists, but not as declared: what was not made here is not removed for lack of a dependency.
            (true, true) if self.flags.has(Flags::OBSERVED) && self.unmet > 0 => State::Pending,
            (true, true) if self.flags.has(Flags::APPLIED) => State::Configured,
            (true, true) if self.flags.has(Flags::OBSERVED) => State::Obtained,
            (true, true) => State::Discovered,
            (true, false) if self.flags.has(Flags::MISSING) && self.unmet + self.unmet_create == 0 => {
                State::Missing
            }
            (true, false) => State::Pending,
        }
    }
}

impl Rare {
    /// Whether nothing here speaks against the item: a failed, refused or unconfirmed item is not created again, and
    /// one that is on its way out does not count.
    fn lets_stand(&self, exists: bool) -> bool {
        match &self.awaited {
            Some(awaited) => exists && awaited.action != Action::Delete,
            None => exists || (self.failure.is_none() && self.refused.is_none()),
        }
    }
}
