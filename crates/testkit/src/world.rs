//! The fake world: what exists, what goes wrong, and what the agent has been told.
//!
//! **Guarantees**: an operation whose old value or facts are not what the agent was last told, a deletion of a
//! foreign item, and a read that the kind does not offer are panics that say so. Dependency safety is a question
//! the driver asks before each operation: [`World::violations`].
//!
//! An index that only grows stands for the facts of real systems (an interface index): an item that is made again
//! has another one.

mod fault;
mod perform;
mod safety;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use kilter_scheduler::{
    Act, Action, Facts, Key, KindId, Listing, Observation, Operation, Origin, Reads, RegisterError, Scheduler,
};

pub use fault::{Effect, Fault, Mishap};

use crate::attrs::Attrs;
use crate::kinds::{self, TestKind};
use crate::needs::Presence;

/// What a kind was listed as.
type Listed = Vec<(Key, Thing)>;

/// The facts of a test item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index(pub u64);

/// Something that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thing {
    /// What it is.
    pub value: Attrs,
    /// Its facts.
    pub index: u64,
    /// Whose it is.
    pub origin: Origin,
}

/// What the agent was last told about an item that exists.
#[derive(Clone, Debug)]
struct Told {
    value: Attrs,
    /// The facts; `None` if the agent learnt of the item without them.
    index: Option<u64>,
    origin: Origin,
}

/// What the agent knew about an item at one moment.
#[derive(Clone, Debug)]
pub struct Memory {
    key: Key,
    told: Option<Told>,
    doubt: Option<Doubt>,
}

/// Why the agent cannot know how an item stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Its last operation failed and it has not been read since.
    Unread,
    /// Its last operation failed, and so did reading it back.
    ReadFailed,
    /// Its last operation was accepted and is not confirmed.
    Accepted,
}

/// One operation that the world was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// What was asked.
    pub action: Action,
    /// Of which item.
    pub key: Key,
    /// Whether it was answered with success.
    pub ok: bool,
}

/// The fake world.
#[derive(Debug, Default)]
pub struct World {
    things: BTreeMap<Key, Thing>,
    told: BTreeMap<Key, Told>,
    /// Items about which the agent knows that it does not know.
    doubts: BTreeMap<Key, Doubt>,
    /// What is declared, base and derived: only to tell which items stand in a circle.
    declared: BTreeMap<Key, Attrs>,
    /// What was deleted in this transaction, for the same reason.
    ghosts: BTreeMap<Key, Attrs>,
    /// The transaction is on its way back: what it deleted may come again whatever a creation needs.
    going_back: bool,
    bound: HashMap<KindId, TestKind>,
    faults: Vec<Fault>,
    accepted: BTreeMap<Key, Act>,
    hung: Vec<Operation>,
    log: Vec<Logged>,
    last_index: u64,
    /// The last listing of each kind.
    listings: HashMap<&'static str, (Listing, Listed)>,
    last_listing: u64,
    /// How whole kinds were answered for.
    readings: Vec<(&'static str, &'static str)>,
}

impl World {
    /// Registers kinds with a scheduler and remembers their numbers.
    pub fn register(&mut self, scheduler: &mut Scheduler, kinds: &[TestKind]) -> Result<(), RegisterError> {
        for kind in kinds {
            let id = scheduler.register(kind.descriptor())?;
            self.bound.insert(id, *kind);
        }
        Ok(())
    }

    /// A fresh agent takes over: nobody has been told anything, and the numbers of the kinds are void.
    pub fn forget_agent(&mut self) {
        self.told.clear();
        self.doubts.clear();
        self.bound.clear();
        self.hung.clear();
    }

    /// Says what is declared at the start of a transaction (before and after it, taken together).
    pub fn begin<'a>(&mut self, declared: impl IntoIterator<Item = (&'a Key, &'a Attrs)>) {
        self.ghosts.clear();
        self.going_back = false;
        self.declared.clear();
        for (key, value) in declared {
            if let Some(kind) = kinds::kind_of(key) {
                self.declared.extend(kind.derived(key, value));
            }
            self.declared.insert(key.clone(), value.clone());
        }
    }

    /// Says whether the transaction is on its way back.
    pub fn go_back(&mut self, going_back: bool) {
        self.going_back = going_back;
    }

    /// How a whole kind was answered for since this was asked last.
    pub fn take_readings(&mut self, kind: &str) -> Vec<&'static str> {
        let (taken, left) = self.readings.drain(..).partition(|(of, _)| *of == kind);
        self.readings = left;
        let taken: Vec<(&str, &'static str)> = taken;
        taken.into_iter().map(|(_, how)| how).collect()
    }

    /// What exists under this key.
    pub fn get(&self, key: &Key) -> Option<&Thing> {
        self.things.get(key)
    }

    /// Everything that exists, by key.
    pub fn things(&self) -> impl Iterator<Item = (&Key, &Thing)> {
        self.things.iter()
    }

    /// What reading the item tells: for a kind whose items are read with it, only those that exist.
    pub fn readable(&self, key: &Key) -> Option<Attrs> {
        let thing = self.things.get(key)?;
        let kind = kinds::kind_of(key)?;
        let mut value = thing.value.clone();
        if self.items_are_read_with(key) {
            value = kind.own(&value);
            let prefix = format!("{key}/item/");
            for (item, thing) in self.things.range(Key::new(&prefix)..) {
                let Some(name) = item.as_str().strip_prefix(&prefix) else { break };
                for (attr, text) in kinds::item_attrs(name, &thing.value).iter() {
                    value.push(attr, text);
                }
            }
        }
        Some(value)
    }

    fn items_are_read_with(&self, base: &Key) -> bool {
        let item = Key::new(format!("{base}/item/x"));
        kinds::kind_of(&item).is_some_and(|kind| kind.reads() == Reads::WithBase)
    }

    /// Every operation so far.
    pub fn log(&self) -> &[Logged] {
        &self.log
    }

    /// Whether nothing is under way: no operation hangs and none waits for its confirmation.
    pub fn is_settled(&self) -> bool {
        self.accepted.is_empty() && self.hung.is_empty()
    }

    /// The items on which operations hang, each once.
    pub(crate) fn hung_keys(&self) -> Vec<String> {
        let mut keys: Vec<String> =
            self.hung.iter().filter_map(|operation| operation.act.key()).map(ToString::to_string).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// Why the agent cannot know how this item stands.
    pub fn doubt(&self, key: &Key) -> Option<Doubt> {
        self.doubts.get(key).copied()
    }

    /// Every item of which the agent cannot know how it stands.
    pub fn doubts(&self) -> impl Iterator<Item = (&Key, Doubt)> {
        self.doubts.iter().map(|(key, doubt)| (key, *doubt))
    }

    /// What the agent was last told about the item, if it was told that it exists.
    pub fn told(&self, key: &Key) -> Option<&Attrs> {
        self.told.get(key).map(|told| &told.value)
    }

    /// Every item of which the agent was told that it exists.
    pub fn told_keys(&self) -> impl Iterator<Item = &Key> {
        self.told.keys()
    }

    /// Everything that exists as text, one line per item; indexes are left out, and so is what an item of ours says
    /// about its derived items, which have lines of their own.
    pub fn dump(&self) -> String {
        let mut text = String::new();
        for (key, thing) in &self.things {
            let (value, mark) = match (thing.origin, kinds::kind_of(key)) {
                (Origin::Observed, _) => (thing.value.clone(), "  (foreign)"),
                (Origin::Declared, Some(kind)) => (kind.own(&thing.value), ""),
                (Origin::Declared, None) => (thing.value.clone(), ""),
            };
            let line = format!("{key:<30}{value}{mark}");
            writeln!(text, "{}", line.trim_end()).expect("writing to a string cannot fail");
        }
        text
    }

    /// A foreign item appears or changes; what a watcher would report. An item of ours stays as it is.
    pub fn observe(&mut self, key: &Key, value: Attrs) -> Observation {
        match self.things.get_mut(key) {
            Some(thing) if thing.origin == Origin::Observed => thing.value = value.clone(),
            Some(_) => {}
            None => {
                self.put(key, value.clone(), Origin::Observed);
            }
        }
        let facts = self.things.get(key).map(|thing| Facts::new(Index(thing.index)));
        Observation { key: key.clone(), value: Some(value.to_value()), facts, origin: Origin::Observed }
    }

    /// A foreign item goes away; what a watcher would report.
    pub fn unobserve(&mut self, key: &Key) -> Observation {
        if self.things.get(key).is_some_and(|thing| thing.origin == Origin::Observed) {
            self.things.remove(key);
        }
        Observation { key: key.clone(), value: None, facts: None, origin: Origin::Observed }
    }

    /// The agent has been told how this item is now.
    pub fn tell(&mut self, key: &Key) {
        self.doubts.remove(key);
        match (self.readable(key), self.things.get(key)) {
            (Some(value), Some(thing)) => {
                let told = Told { value, index: Some(thing.index), origin: thing.origin };
                self.told.insert(key.clone(), told);
            }
            _ => {
                self.told.remove(key);
            }
        }
        if self.items_are_read_with(key) {
            self.tell_items(key);
        }
    }

    /// What the agent knows about an item, to be given back to [`World::untell`].
    pub fn memory(&self, key: &Key) -> Memory {
        Memory { key: key.clone(), told: self.told.get(key).cloned(), doubt: self.doubt(key) }
    }

    /// The agent did not listen: it knows what it knew before.
    pub fn untell(&mut self, memory: Memory) {
        match memory.told {
            Some(told) => self.told.insert(memory.key.clone(), told),
            None => self.told.remove(&memory.key),
        };
        match memory.doubt {
            Some(doubt) => self.doubts.insert(memory.key, doubt),
            None => self.doubts.remove(&memory.key),
        };
    }

    /// The agent has read the base: it knows which items exist, and nothing new of their facts.
    fn tell_items(&mut self, base: &Key) {
        let is_item = |key: &Key| kinds::base_of(key).as_ref() == Some(base);
        let known: Vec<Key> = self.told.keys().filter(|key| is_item(key)).cloned().collect();
        for key in known {
            if !self.things.contains_key(&key) {
                self.told.remove(&key);
            }
        }
        for (key, thing) in self.things.iter().filter(|(key, _)| is_item(key)) {
            // An agent that does not remember having made a part takes it for whose its base is.
            let known = self.told.get(key);
            let base_is = self.things.get(base).map_or(thing.origin, |base| base.origin);
            let origin = known.map_or(base_is, |told| told.origin);
            let index = known.and_then(|told| told.index);
            let told = Told { value: thing.value.clone(), index, origin };
            self.told.insert(key.clone(), told);
        }
        self.doubts.retain(|key, _| !is_item(key));
    }

    /// The item vanishes behind the agent's back, with its derived items.
    pub fn lose(&mut self, key: &Key) -> Result<(), String> {
        self.things.remove(key).ok_or_else(|| format!("`{key}` does not exist"))?;
        self.things.retain(|other, _| kinds::base_of(other).as_ref() != Some(key));
        Ok(())
    }

    /// The item changes behind the agent's back.
    pub fn alter(&mut self, key: &Key, attrs: &Attrs) -> Result<(), String> {
        let thing = self.things.get_mut(key).ok_or_else(|| format!("`{key}` does not exist"))?;
        for (name, text) in attrs.iter() {
            thing.value.set(name, text);
        }
        Ok(())
    }

    /// The item appears behind the agent's back.
    pub fn plant(&mut self, key: &Key, value: Attrs, origin: Origin) {
        self.put(key, value, origin);
    }

    fn put(&mut self, key: &Key, value: Attrs, origin: Origin) -> u64 {
        self.last_index += 1;
        let index = self.last_index;
        self.things.insert(key.clone(), Thing { value, index, origin });
        index
    }

    /// Which items exist, as far as the agent can know: what it was told and what there is, with their properties.
    pub(crate) fn presence(&self) -> Presence {
        let mut present: Presence =
            self.things.iter().map(|(key, thing)| (key.clone(), thing.origin)).collect();
        present.extend(self.told.iter().map(|(key, told)| (key.clone(), told.origin)));
        let values = self.things.iter().map(|(key, thing)| match self.told.get(key) {
            Some(told) => (key, &told.value, thing.origin),
            None => (key, &thing.value, thing.origin),
        });
        for (key, value, origin) in values {
            for property in properties(key, value) {
                present.entry(property).or_insert(origin);
            }
        }
        present
    }
}

/// The properties of an item: what it derives and no kind owns.
fn properties(key: &Key, value: &Attrs) -> Vec<Key> {
    let derived = kinds::kind_of(key).map(|kind| kind.derived(key, value)).unwrap_or_default();
    derived.into_iter().map(|(key, _)| key).filter(|key| kinds::kind_of(key).is_none()).collect()
}
