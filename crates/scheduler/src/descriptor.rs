//! Descriptors: what the scheduler must know about a kind. Pure; how a kind is made real is an actuator's business.

use std::fmt::{self, Write as _};
use std::marker::PhantomData;
use std::ops::Range;

use crate::dependency::Needs;
use crate::key::{Key, KeyPattern, PatternError};
use crate::state::FieldError;
use crate::value::{Value, ValueRef};

/// How one value becomes another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Nothing has to be done.
    Same,
    /// An update does it.
    InPlace,
    /// The item must be deleted and created again.
    Recreate {
        /// What forces it, for people: `rx-ring 256 → 512`.
        reason: String,
    },
}

/// How the actual state of a kind's items is learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Its actuator reads the items themselves.
    Itself,
    /// Derived items that are part of their base: reading the base tells.
    WithBase,
    /// Nobody can tell; the scheduler trusts its memory.
    Never,
}

/// Collects what one value derives.
#[derive(Default, Debug)]
pub struct Derived {
    text: String,
    list: Vec<(Range<usize>, ValueRef)>,
}

impl Derived {
    /// Derives an item.
    pub fn item(&mut self, key: impl fmt::Display, value: impl Value) {
        self.item_ref(key, ValueRef::new(value));
    }

    /// Derives an item whose value is shared already.
    pub fn item_ref(&mut self, key: impl fmt::Display, value: ValueRef) {
        let start = self.text.len();
        write!(self.text, "{key}").expect("writing to a string cannot fail");
        self.list.push((start..self.text.len(), value));
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.list.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &ValueRef)> {
        self.list.iter().map(|(range, value)| (&self.text[range.clone()], value))
    }
}

/// What the scheduler must know about a kind.
///
/// **Assumes** that every method is a pure function of its arguments: it is called again whenever the scheduler
/// likes. Most kinds implement [`Kind`] and wrap it with [`describe`], which adds the types.
pub trait Descriptor: Send + Sync {
    /// The name of the kind, for example `linux.interface`.
    fn kind(&self) -> &str;

    /// The keys that belong to the kind. The key spaces of two kinds must not overlap.
    fn keys(&self) -> Vec<KeyPattern>;

    /// Checks a declared value; an empty list accepts it.
    fn validate(&self, key: &Key, value: &ValueRef) -> Vec<FieldError>;

    /// What the value needs.
    fn needs(&self, key: &Key, value: &ValueRef, needs: &mut Needs);

    /// What the value derives.
    fn derive(&self, key: &Key, value: &ValueRef, derived: &mut Derived);

    /// How `old` becomes `new`.
    fn transition(&self, key: &Key, old: &ValueRef, new: &ValueRef) -> Transition;

    /// What is declared when somebody lays `overlay` over `value`. Unless the kind knows better, the overlay replaces.
    fn merge(&self, _key: &Key, _value: &ValueRef, overlay: &ValueRef) -> ValueRef {
        overlay.clone()
    }

    /// Whether the items of this kind are properties: derived items that nobody makes, and that are there as long as what
    /// they need is. They are part of the graph and cost no operation.
    fn is_property(&self) -> bool {
        false
    }

    /// How the actual state is learnt.
    fn reads(&self) -> Reads {
        Reads::Itself
    }

    /// Kinds that must be read before this one.
    fn reads_after(&self) -> &[&str] {
        &[]
    }

    /// Whether reading the whole kind needs to be told what should be there: systems that cannot name things
    /// correlate by content.
    fn correlates(&self) -> bool {
        false
    }
}

/// A kind with a typed value: the comfortable way to write a [`Descriptor`].
pub trait Kind: Send + Sync + 'static {
    /// The type of the kind's values.
    type Value: Value + PartialEq;

    /// The name of the kind, for example `linux.interface`.
    const NAME: &'static str;

    /// The patterns of the keys that belong to the kind.
    const KEYS: &'static [&'static str];

    /// Checks a declared value; an empty list accepts it.
    fn validate(&self, _key: &Key, _value: &Self::Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// What the value needs.
    fn needs(&self, _key: &Key, _value: &Self::Value, _needs: &mut Needs) {}

    /// What the value derives.
    fn derive(&self, _key: &Key, _value: &Self::Value, _derived: &mut Derived) {}

    /// How `old` becomes `new`; asked only when they differ.
    fn transition(&self, _key: &Key, _old: &Self::Value, _new: &Self::Value) -> Transition {
        Transition::InPlace
    }

    /// What is declared when somebody lays `overlay` over `value`; `None`: the overlay replaces. For values that can be
    /// read back from what they show, [`crate::merge_fields`] does it field by field.
    fn merge(&self, _key: &Key, _value: &Self::Value, _overlay: &Self::Value) -> Option<Self::Value> {
        None
    }

    /// Whether the items of this kind are properties: derived items that nobody makes, and that are there as long as what
    /// they need is. They are part of the graph and cost no operation.
    fn is_property(&self) -> bool {
        false
    }

    /// How the actual state is learnt.
    fn reads(&self) -> Reads {
        Reads::Itself
    }

    /// Kinds that must be read before this one.
    fn reads_after(&self) -> &[&str] {
        &[]
    }

    /// Whether reading the whole kind needs to be told what should be there: systems that cannot name things
    /// correlate by content.
    fn correlates(&self) -> bool {
        false
    }
}

/// Turns a typed kind into a descriptor; fails on a malformed key pattern.
pub fn describe<K: Kind>(kind: K) -> Result<Box<dyn Descriptor>, PatternError> {
    let keys = K::KEYS.iter().map(|text| KeyPattern::parse(text)).collect::<Result<_, _>>()?;
    Ok(Box::new(Typed { kind, keys, value: PhantomData }))
}

struct Typed<K: Kind> {
    kind: K,
    keys: Vec<KeyPattern>,
    value: PhantomData<fn(K::Value)>,
}

impl<K: Kind> Descriptor for Typed<K> {
    fn kind(&self) -> &str {
        K::NAME
    }

    fn keys(&self) -> Vec<KeyPattern> {
        self.keys.clone()
    }

    fn validate(&self, key: &Key, value: &ValueRef) -> Vec<FieldError> {
        match value.downcast() {
            Some(value) => self.kind.validate(key, value),
            None => vec![FieldError {
                path: String::new(),
                message: format!("the value is not one of kind `{}`", K::NAME),
            }],
        }
    }

    fn needs(&self, key: &Key, value: &ValueRef, needs: &mut Needs) {
        if let Some(value) = value.downcast() {
            self.kind.needs(key, value, needs);
        }
    }

    fn derive(&self, key: &Key, value: &ValueRef, derived: &mut Derived) {
        if let Some(value) = value.downcast() {
            self.kind.derive(key, value, derived);
        }
    }

    fn transition(&self, key: &Key, old: &ValueRef, new: &ValueRef) -> Transition {
        if old == new {
            return Transition::Same;
        }
        match (old.downcast(), new.downcast()) {
            (Some(old), Some(new)) => self.kind.transition(key, old, new),
            _ => Transition::Recreate { reason: "the value has another type".to_owned() },
        }
    }

    fn merge(&self, key: &Key, value: &ValueRef, overlay: &ValueRef) -> ValueRef {
        let merged = match (value.downcast(), overlay.downcast()) {
            (Some(value), Some(overlay)) => self.kind.merge(key, value, overlay),
            _ => None,
        };
        merged.map_or_else(|| overlay.clone(), ValueRef::new)
    }

    fn is_property(&self) -> bool {
        self.kind.is_property()
    }

    fn reads(&self) -> Reads {
        self.kind.reads()
    }

    fn reads_after(&self) -> &[&str] {
        self.kind.reads_after()
    }

    fn correlates(&self) -> bool {
        self.kind.correlates()
    }
}
