//! What links and ports were before we changed them in place, so that what is not declared any more gets it back.
//!
//! What a link was made with is not what it was before: only a change of something that the declaration had left open is
//! remembered, and on links of others every change. With a file it outlives the agent: it is written before anything is
//! changed, and counts until the machine is started again.

mod file;

use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use kilter_model::linux::{Link, LinkKind, Reading};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::mark;
use crate::netlink::{KernelError, Refusal};
use crate::space::{Space, locked};

/// The one field that is a list.
pub(crate) const ALT_NAMES: &str = "alt-names";

/// What is configured there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Side {
    /// A link that is declared as what it is.
    Link,
    /// A link that is only configured.
    Existing,
    /// How its bridge treats it.
    Port,
    /// Whether it is up.
    Up,
}

/// A link in a namespace, neither of which is ever mistaken for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Place {
    netns: u64,
    index: u32,
    side: Side,
}

impl Place {
    pub(crate) fn new(space: &Space, index: u32, side: Side) -> Self {
        Self::at(space.cookie, index, side)
    }

    /// By the number that a namespace has among all that there were.
    pub(crate) fn at(netns: u64, index: u32, side: Side) -> Self {
        Self { netns, index, side }
    }
}

/// The fields whose value is worth remembering before it is changed: of what was declared, those that were left open; of
/// links of others, all of them. `given` are the optional fields that get another value.
///
/// A link of ours that is not as declared is not as it was before, and what gets an old value back is not changed.
pub(crate) fn open_before(
    old: (&impl Serialize, Option<&Reading>),
    new: Option<&Reading>,
    mut given: Vec<&'static str>,
) -> Vec<&'static str> {
    match old {
        _ if new.is_some() => given.clear(),
        (_, Some(reading)) if reading.ours => given.clear(),
        (_, Some(_)) => {}
        (old, None) if !given.is_empty() => {
            let said = json(old);
            given.retain(|field| !said.contains_key(*field));
        }
        (_, None) => {}
    }
    given
}

/// How many places are remembered of namespaces that this run has not seen.
const UNSEEN: usize = 10_000;

/// What was before, by place and field.
#[derive(Debug, Default)]
pub(crate) struct Formers {
    known: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    known: file::Known,
    lines: file::Lines,
    /// The namespaces that this run has seen and of which something is known.
    seen: HashSet<u64>,
}

impl Remembered {
    /// Writes what is known of a place. What cannot be written is with the next that can.
    fn write(&mut self, places: &[Place]) -> Result<(), Refusal> {
        self.lines.write(&self.known, places)
    }

    fn forget(&mut self, is_gone: impl Fn(&Place) -> bool) {
        let gone: Vec<Place> = self.known.keys().filter(|place| is_gone(place)).copied().collect();
        if !gone.is_empty() {
            gone.iter().for_each(|place| drop(self.known.remove(place)));
            let _ = self.write(&gone);
        }
    }
}

/// What an operation gives back, to be forgotten once it is done.
#[derive(Debug)]
pub(crate) struct GivenBack {
    place: Place,
    fields: Vec<String>,
}

impl GivenBack {
    /// One field.
    pub(crate) fn of(place: Place, field: &str) -> Self {
        Self { place, fields: vec![field.to_owned()] }
    }

    /// And this field.
    #[must_use]
    pub(crate) fn with(mut self, field: &str) -> Self {
        self.fields.push(field.to_owned());
        self
    }
}

impl Formers {
    /// Remembers in a file, if one is given; one that is not there, or that was written before the machine was started,
    /// says nothing.
    pub(crate) fn open(file: Option<PathBuf>) -> Result<Self, Refusal> {
        let (lines, known) = file::Lines::open(file)?;
        Ok(Self { known: Mutex::new(Remembered { known, lines, seen: HashSet::new() }) })
    }

    /// Remembers fields as they are, unless it is known what they were before.
    ///
    /// **Assumes** that it is called before they are changed: whoever dies in between has changed nothing.
    pub(crate) fn remember(
        &self,
        place: Place,
        fields: &[&str],
        is: &impl Serialize,
    ) -> Result<(), KernelError> {
        let is = json(is);
        let mut remembered = locked(&self.known);
        let known = remembered.known.entry(place).or_default();
        let before = known.clone();
        for field in fields {
            let value = || is.get(*field).cloned().unwrap_or(Json::Null);
            known.entry((*field).to_owned()).or_insert_with(value);
        }
        if known.len() == before.len() {
            return Ok(());
        }
        remembered.write(&[place]).map_err(|refusal| {
            remembered.known.insert(place, before);
            KernelError::refused("remember fields of link", format!("{}", place.index), refusal)
        })
    }

    /// What a field was.
    pub(crate) fn field(&self, place: Place, field: &str) -> Option<Json> {
        locked(&self.known).known.get(&place)?.get(field).cloned()
    }

    /// Fills in what fields were that `new` does not say.
    pub(crate) fn fill<T: Clone + Serialize + DeserializeOwned>(
        &self,
        place: Place,
        new: &T,
    ) -> Result<(T, GivenBack), KernelError> {
        if !locked(&self.known).known.contains_key(&place) {
            return Ok((new.clone(), GivenBack { place, fields: Vec::new() }));
        }
        let mut filled = json(new);
        let mut fields = Vec::new();
        for (field, before) in locked(&self.known).known.get(&place).into_iter().flatten() {
            if field == ALT_NAMES {
                // Names that were there before they were declared stay.
                let said = filled.remove(field).into_iter().chain([before.clone()]);
                let names: BTreeSet<String> =
                    said.flat_map(serde_json::from_value::<Vec<String>>).flatten().collect();
                filled.insert(field.clone(), names.into_iter().collect());
            } else if !filled.contains_key(field) {
                fields.push(field.clone());
                if let Some(before) = writable(field, before) {
                    filled.insert(field.clone(), before);
                }
            }
        }
        let filled = serde_json::from_value(Json::Object(filled)).map_err(|error| KernelError::Foreign {
            subject: "link".to_owned(),
            reason: format!("what it was before cannot be read: {error}"),
        })?;
        Ok((filled, GivenBack { place, fields }))
    }

    /// The same for a link. One of others that is let go says nothing of what only its kind has: that is filled in, too.
    pub(crate) fn fill_link(
        &self,
        place: Place,
        old: &Link,
        new: &Link,
    ) -> Result<(Link, GivenBack), KernelError> {
        let whole = match (&new.kind, &old.kind) {
            (LinkKind::Foreign { .. }, LinkKind::Foreign { .. }) => None,
            (LinkKind::Foreign { .. }, kind) => Some(self.without(place, kind)),
            _ => None,
        };
        let new = match whole {
            Some(kind) => Link { kind: kind.unwrap_or_else(|| new.kind.clone()), ..new.clone() },
            None => new.clone(),
        };
        let (mut filled, given_back) = self.fill(place, &new)?;
        if let (LinkKind::Vxlan(old), LinkKind::Vxlan(new)) = (&old.kind, &mut filled.kind) {
            // The kernel has no word for a tunnel without an end but the address of nobody.
            let is_given_back = |field: &str| given_back.fields.iter().any(|given| given == field);
            for (field, old, new) in
                [("local", old.local, &mut new.local), ("remote", old.remote, &mut new.remote)]
            {
                *new = new.or(old.filter(|_| is_given_back(field)).map(nobody));
            }
        }
        Ok((filled, given_back))
    }

    /// A kind of link without the fields of which is known what they were.
    fn without(&self, place: Place, kind: &LinkKind) -> Option<LinkKind> {
        let mut said = json(kind);
        for field in locked(&self.known).known.get(&place)?.keys() {
            said.remove(field);
        }
        serde_json::from_value(Json::Object(said)).ok()
    }

    /// Forgets what was given back.
    pub(crate) fn settle(&self, given_back: &GivenBack) {
        let mut remembered = locked(&self.known);
        if let Some(fields) = remembered.known.get_mut(&given_back.place) {
            let before = fields.len();
            given_back.fields.iter().for_each(|field| drop(fields.remove(field)));
            let changed = fields.len() != before;
            if fields.is_empty() {
                remembered.known.remove(&given_back.place);
            }
            if changed {
                // Remembered once too often, it is given back once more: nobody is told to fail because of it.
                let _ = remembered.write(&[given_back.place]);
            }
        }
    }

    /// Forgets all of a place.
    pub(crate) fn forget(&self, place: Place) {
        locked(&self.known).forget(|other| *other == place);
    }

    /// Forgets what is not there in a namespace, of which all links were read.
    pub(crate) fn keep_links(&self, netns: u64, links: impl Iterator<Item = u32>) {
        let mut remembered = locked(&self.known);
        if remembered.known.keys().any(|place| place.netns == netns) {
            let links: HashSet<u32> = links.collect();
            remembered.forget(|place| place.netns == netns && !links.contains(&place.index));
        }
    }

    /// Forgets the namespaces that were there and are not any more. Those of an earlier run may still have to be said where
    /// to find; but no number of them is kept for that.
    pub(crate) fn keep_namespaces(&self, there: impl Iterator<Item = u64>) {
        let mut remembered = locked(&self.known);
        if remembered.known.is_empty() {
            return;
        }
        let there: HashSet<u64> = there.collect();
        let many = remembered.known.len() > UNSEEN;
        let seen = std::mem::take(&mut remembered.seen);
        remembered.forget(|place| !there.contains(&place.netns) && (many || seen.contains(&place.netns)));
        remembered.seen = there;
    }

    /// What reading says besides the fields.
    pub(crate) fn reading(&self, place: Place) -> Reading {
        let remembered = locked(&self.known);
        let changed = remembered.known.get(&place).map(|fields| fields.keys().cloned().collect());
        Reading { ours: mark::is_ours(place.index), changed: changed.unwrap_or_else(nothing) }
    }
}

/// The address of nobody in the family of another.
fn nobody(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn nothing() -> Arc<[String]> {
    static NOTHING: std::sync::LazyLock<Arc<[String]>> = std::sync::LazyLock::new(|| Arc::new([]));
    Arc::clone(&NOTHING)
}

fn json(value: &impl Serialize) -> Map<String, Json> {
    match serde_json::to_value(value) {
        Ok(Json::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// What is written to bring a field back to what it was.
fn writable(field: &str, before: &Json) -> Option<Json> {
    match (field, before) {
        // The kernel has no word for a link without a description but an empty one.
        ("alias", Json::Null) => Some(Json::from("")),
        (_, Json::Null) => None,
        _ => Some(before.clone()),
    }
}
