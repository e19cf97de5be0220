//! The mirror: what the cluster is known to be, out of what watches tell and what our own writes were answered.
//!
//! Decided here: which of two versions of an object is believed. There is one store for reading and for waking, so
//! nobody decides on something that nobody was woken for. Not decided here: what a change means; see
//! [`crate::translate`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::object::{Id, Object, Resource};

/// How many objects that are gone are remembered: a late answer is seconds late, not thousands of deletions.
const REMEMBERED: usize = 4096;

/// Objects that are gone for good, by uid: a late answer or watch event must not bring them back.
#[derive(Debug, Default)]
struct Gone {
    uids: BTreeSet<String>,
    order: VecDeque<String>,
}

impl Gone {
    fn note(&mut self, uid: &str) {
        if !self.uids.insert(uid.to_owned()) {
            return;
        }
        self.order.push_back(uid.to_owned());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }
}

/// What the cluster is known to be.
#[derive(Debug, Default)]
pub struct Mirror {
    objects: BTreeMap<Id, Object>,
    gone: Gone,
    /// Resources whose lists have been read.
    complete: BTreeSet<Resource>,
    /// What has changed, each with what it was before.
    changed: BTreeMap<Id, Option<Object>>,
}

impl Mirror {
    /// One object.
    pub fn get(&self, id: &Id) -> Option<&Object> {
        self.objects.get(id)
    }

    /// Every object of a resource, by namespace and name.
    pub fn of(&self, resource: Resource) -> impl Iterator<Item = &Object> {
        self.within(resource, "").take_while(move |object| object.id().resource == resource)
    }

    /// Every object of a resource in a namespace, by name.
    pub fn inside<'a>(&'a self, resource: Resource, namespace: &'a str) -> impl Iterator<Item = &'a Object> {
        self.within(resource, namespace)
            .take_while(move |object| object.id().resource == resource && object.id().namespace == namespace)
    }

    fn within(&self, resource: Resource, namespace: &str) -> impl Iterator<Item = &Object> {
        self.objects.range(Id::new(resource, namespace, "")..).map(|(_, object)| object)
    }

    /// An object was seen, by a watch or in the answer to a write. What is older than what is known is ignored.
    pub fn see(&mut self, object: Object) {
        let id = object.id();
        if self.gone.uids.contains(object.uid()) {
            return;
        }
        if let Some(known) = self.objects.get(id)
            && is_older(&object, known)
        {
            return;
        }
        let id = id.clone();
        let before = self.objects.insert(id.clone(), object);
        self.changed.entry(id).or_insert(before);
    }

    /// An object is gone. If another one has its name by now, that one stays.
    pub fn lose(&mut self, id: &Id, uid: &str) {
        self.gone.note(uid);
        if self.objects.get(id).is_some_and(|known| known.uid() == uid) {
            let before = self.objects.remove(id);
            self.changed.entry(id.clone()).or_insert(before);
        }
    }

    /// A list was read: what is known of the resource and not on it, and is not newer than it, is gone.
    pub fn replace(&mut self, resource: Resource, list: Vec<Object>, version: &str) {
        let listed: BTreeSet<&Id> = list.iter().map(Object::id).collect();
        let as_of = number(version);
        let missing: Vec<(Id, String)> = self
            .of(resource)
            .filter(|known| !listed.contains(known.id()))
            .filter(|known| as_of.is_none_or(|as_of| number(known.version()).is_none_or(|at| at <= as_of)))
            .map(|known| (known.id().clone(), known.uid().to_owned()))
            .collect();
        for (id, uid) in missing {
            self.lose(&id, &uid);
        }
        list.into_iter().for_each(|object| self.see(object));
        self.complete.insert(resource);
    }

    /// Whether the list of a resource has been read.
    pub fn is_complete(&self, resource: Resource) -> bool {
        self.complete.contains(&resource)
    }

    /// What has changed since this was last asked, each with what it was then.
    pub fn take_changed(&mut self) -> BTreeMap<Id, Option<Object>> {
        std::mem::take(&mut self.changed)
    }

    /// Whether anything has changed.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }
}

/// Whether an object tells nothing that is not known. Versions of one object grow as numbers.
fn is_older(object: &Object, known: &Object) -> bool {
    match (number(object.version()), number(known.version())) {
        (Some(version), Some(at)) => version <= at,
        _ => false,
    }
}

fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}

/// The mirror, shared by watches, actuators and the controller.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Mirror>>);

impl Shared {
    /// The mirror; nothing waits while it is held.
    pub fn lock(&self) -> MutexGuard<'_, Mirror> {
        // Every change of the mirror leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn broker(uid: &str, version: &str) -> Object {
        let meta = json!({"namespace": "shop", "name": "default", "uid": uid, "resourceVersion": version});
        Object::new(Resource::Broker, json!({"metadata": meta}))
    }

    fn version(mirror: &Mirror) -> Option<String> {
        let known = mirror.get(&Id::new(Resource::Broker, "shop", "default"))?;
        Some(known.version().to_owned())
    }

    #[test]
    fn a_late_watch_event_does_not_undo_what_our_write_was_answered() {
        let mut mirror = Mirror::default();
        mirror.see(broker("a", "12"));
        mirror.take_changed();
        mirror.see(broker("a", "9"));
        mirror.see(broker("a", "12"));
        assert_eq!(version(&mirror).as_deref(), Some("12"));
        assert!(!mirror.has_changed());
    }

    #[test]
    fn what_is_gone_does_not_come_back_and_a_successor_stays() {
        let mut mirror = Mirror::default();
        let id = Id::new(Resource::Broker, "shop", "default");
        mirror.see(broker("a", "1"));
        mirror.lose(&id, "a");
        mirror.see(broker("a", "2"));
        assert_eq!(version(&mirror), None);
        mirror.see(broker("b", "3"));
        mirror.lose(&id, "a");
        assert_eq!(version(&mirror).as_deref(), Some("3"));
    }

    #[test]
    fn only_the_latest_that_are_gone_are_remembered() {
        let mut gone = Gone::default();
        (0..=REMEMBERED).for_each(|number| gone.note(&number.to_string()));
        assert_eq!((gone.uids.len(), gone.order.len()), (REMEMBERED, REMEMBERED));
        assert!(!gone.uids.contains("0") && gone.uids.contains(&REMEMBERED.to_string()));
    }

    #[test]
    fn a_list_takes_away_what_is_not_on_it_unless_it_is_newer() {
        let mut mirror = Mirror::default();
        mirror.see(broker("a", "5"));
        mirror.replace(Resource::Broker, Vec::new(), "4");
        assert_eq!(version(&mirror).as_deref(), Some("5"));
        mirror.replace(Resource::Broker, Vec::new(), "6");
        assert_eq!(version(&mirror), None);
        assert!(mirror.is_complete(Resource::Broker));
    }
}
