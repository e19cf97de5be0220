//! The draft: a transaction while handlers still add to it, and what they declared before.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;
use kilter_scheduler::{Key, Value, ValueRef};
use rustc_hash::FxBuildHasher;
use serde_json::Value as Json;

use crate::event::Event;
use crate::queue::PushError;

/// The place of a handler in registration order.
pub(crate) type HandlerAt = usize;

/// What one handler wants of one item.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The value; `None` removes.
    pub(crate) value: Option<ValueRef>,
    /// Who drafted it last.
    pub(crate) handler: HandlerAt,
}

/// What handlers want of items in this turn, in the order in which they first said so.
pub(crate) type Staged = IndexMap<Key, Wanted, FxBuildHasher>;

/// What handlers have declared, before anything external was laid over it.
#[derive(Debug, Default)]
pub(crate) struct Internal(HashMap<Key, (ValueRef, HandlerAt), FxBuildHasher>);

impl Internal {
    pub(crate) fn get(&self, key: &str) -> Option<&ValueRef> {
        self.0.get(key).map(|(value, _)| value)
    }

    pub(crate) fn handler(&self, key: &str) -> Option<HandlerAt> {
        self.0.get(key).map(|(_, handler)| *handler)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.0.keys()
    }

    /// Takes over what a turn declared.
    pub(crate) fn patch(&mut self, staged: &Staged) {
        for (key, wanted) in staged {
            match &wanted.value {
                Some(value) => {
                    let entry = (value.clone(), wanted.handler);
                    match self.0.get_mut(key.as_str()) {
                        Some(known) => *known = entry,
                        None => {
                            self.0.insert(key.clone(), entry);
                        }
                    }
                }
                None => {
                    self.0.remove(key.as_str());
                }
            }
        }
    }

    /// Forgets what a resync did not declare anew.
    pub(crate) fn replace(&mut self, staged: &Staged) {
        self.0.clear();
        self.patch(staged);
    }
}

/// What handlers ask for besides items; it happens when the turn has gone well.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) follow_ups: Vec<Event>,
    pub(crate) effects: Vec<(HandlerAt, String, Json)>,
}

/// What a handler adds to: one transaction for the event, and what shall follow from it.
///
/// A follow-up is an event like any other, but nobody can wait for it: there is no way to push a blocking event from
/// here, so a handler cannot wait for itself.
///
/// ```compile_fail
/// # use kilter_events::{Draft, Event, builtin::Shutdown};
/// fn deadlock(draft: &mut Draft<'_>) {
///     let waiter = draft.push_blocking(Event::new(Shutdown));
/// }
/// ```
#[derive(Debug)]
pub struct Draft<'a> {
    pub(crate) handler: HandlerAt,
    pub(crate) staged: &'a mut Staged,
    pub(crate) internal: &'a Internal,
    pub(crate) asked: &'a mut Asked,
    /// How many follow-ups there may still be.
    pub(crate) room: usize,
    pub(crate) bound: usize,
    pub(crate) is_resync: bool,
}

impl Draft<'_> {
    /// Declares an item. The last writer wins.
    pub fn put(&mut self, key: impl Into<Key>, value: impl Value) {
        self.put_ref(key, ValueRef::new(value));
    }

    /// Declares an item whose value is shared already.
    pub fn put_ref(&mut self, key: impl Into<Key>, value: ValueRef) {
        self.staged.insert(key.into(), Wanted { value: Some(value), handler: self.handler });
    }

    /// Removes an item. In a resync, where everything is said anew, it takes back what was put in this turn.
    pub fn remove(&mut self, key: impl Into<Key>) {
        let key = key.into();
        if self.is_resync {
            self.staged.shift_remove(&key);
        } else {
            self.staged.insert(key, Wanted { value: None, handler: self.handler });
        }
    }

    /// What is declared under the key as of now: the staged value, else the last committed one. External
    /// declarations are not in it.
    pub fn get(&self, key: &str) -> Option<ValueRef> {
        match self.staged.get(key) {
            Some(wanted) => wanted.value.clone(),
            None if self.is_resync => None,
            None => self.internal.get(key).cloned(),
        }
    }

    /// Asks for an event that is taken before all others, once this one has gone well.
    pub fn follow_up(&mut self, event: Event) -> Result<(), PushError> {
        if self.room == 0 {
            return Err(PushError::Full { bound: self.bound });
        }
        self.room -= 1;
        self.asked.follow_ups.push(event);
        Ok(())
    }

    /// Asks for I/O, once this event has gone well. Its result comes back as an
    /// [`EffectEnded`](crate::EffectEnded) event.
    pub fn ask(&mut self, name: impl Into<String>, argument: Json) {
        self.asked.effects.push((self.handler, name.into(), argument));
    }
}

/// Who declares an item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The handler that drafted it.
    pub handler: Option<Arc<str>>,
    /// The external sources that declare it, in order.
    pub sources: Vec<Arc<str>>,
}
