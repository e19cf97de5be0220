//! Events: what enters the loop, as values that can be written down and read again.
//!
//! Decided here: what every event has, and how kinds of events that live in other crates are written and read. Not
//! decided here: what an event means; that is the business of handlers. Read [`crate::builtin`] for the loop's own.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kilter_scheduler::{Key, ValueRef};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// What an event asks for. An update without its options cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Handlers react with an incremental change.
    Update {
        /// What a failure leads to.
        mode: UpdateMode,
        /// The order in which handlers see the event.
        direction: Direction,
    },
    /// Everything is recomputed or re-read.
    Resync(Scope),
    /// The scheduler is told what was observed; handlers are not asked.
    Notification,
}

impl Method {
    /// An update whose handlers are called in registration order.
    pub fn update(mode: UpdateMode) -> Self {
        Self::Update { mode, direction: Direction::Forward }
    }

    /// What a failure leads to, if the event is an update.
    pub fn mode(self) -> Option<UpdateMode> {
        match self {
            Self::Update { mode, .. } => Some(mode),
            Self::Resync(_) | Self::Notification => None,
        }
    }
}

/// What the failure of an update leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateMode {
    /// What succeeded is kept; healing follows.
    BestEffort,
    /// What succeeded is kept, and that is all.
    BestEffortIgnoringErrors,
    /// All or nothing: handlers and world go back.
    RevertOnFailure,
}

/// The order in which handlers see an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Registration order.
    Forward,
    /// The opposite, for events that undo: each handler sees what it depends on as it was before.
    Reverse,
}

/// What a resync recomputes and re-reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Handlers say anew what is declared, and the actual state is re-read.
    Full,
    /// Handlers say anew what is declared; the remembered actual state is trusted.
    Upstream,
    /// The actual state is re-read; handlers are not asked.
    Downstream,
    /// Like downstream, for the items that a [`Drifted`](crate::builtin::Drifted) names.
    Refresh,
}

/// Reads values of kinds from JSON; whoever knows the kinds implements it.
pub trait ReadValue {
    /// The value of this item.
    fn read_value(&self, key: &Key, json: &Json) -> Result<ValueRef, String>;
}

impl<F: Fn(&Key, &Json) -> Result<ValueRef, String>> ReadValue for F {
    fn read_value(&self, key: &Key, json: &Json) -> Result<ValueRef, String> {
        self(key, json)
    }
}

/// Values as they are written down, by key.
pub(crate) fn whole<'a>(items: impl IntoIterator<Item = (&'a Key, Option<&'a ValueRef>)>) -> Json {
    let written = |(key, value): (&Key, Option<&ValueRef>)| {
        (key.to_string(), value.map_or(Json::Null, ValueRef::to_whole_json))
    };
    Json::Object(items.into_iter().map(written).collect())
}

/// A kind of event.
///
/// **Assumes** that every method is a pure function: an event that is read again is the same event.
pub trait EventKind: fmt::Debug + Send + Sync + Sized + 'static {
    /// What the kind is called where events are written down; unique among the kinds.
    const KIND: &'static str;

    /// A short name for people.
    fn name(&self) -> String;

    /// The lines of the description after the first one, which is the name.
    fn details(&self) -> Vec<String> {
        Vec::new()
    }

    /// What the event asks for.
    fn method(&self) -> Method;

    /// The event as JSON. For a plain data type, [`to_json`] does it.
    fn encode(&self) -> Json;

    /// The event out of its JSON. For a plain data type, [`from_json`] does it.
    fn decode(body: Json, values: &dyn ReadValue) -> Result<Self, String>;
}

/// Plain data as JSON; what cannot be JSON becomes `null`, and reading it again says so.
pub fn to_json<T: Serialize>(plain: &T) -> Json {
    serde_json::to_value(plain).unwrap_or(Json::Null)
}

/// Plain data out of its JSON.
pub fn from_json<T: DeserializeOwned>(json: Json) -> Result<T, String> {
    serde_json::from_value(json).map_err(|error| error.to_string())
}

trait Body: fmt::Debug + Send + Sync {
    fn encode(&self) -> Json;
    fn as_any(&self) -> &dyn Any;
}

impl<T: EventKind> Body for T {
    fn encode(&self) -> Json {
        EventKind::encode(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Something that happened and enters the loop. Cloning is cheap: the content is shared.
#[derive(Clone, Debug)]
pub struct Event(Arc<Content<dyn Body>>);

#[derive(Debug)]
struct Content<B: ?Sized> {
    kind: &'static str,
    name: Arc<str>,
    description: Arc<str>,
    method: Method,
    body: B,
}

impl Event {
    /// An event of a kind.
    pub fn new<K: EventKind>(body: K) -> Self {
        let name: Arc<str> = body.name().into();
        let details = body.details();
        let description = if details.is_empty() {
            Arc::clone(&name)
        } else {
            let lines: Vec<&str> =
                std::iter::once(&*name).chain(details.iter().map(String::as_str)).collect();
            lines.join("\n").into()
        };
        Self(Arc::new(Content { kind: K::KIND, name, description, method: body.method(), body }))
    }

    /// What its kind is called.
    pub fn kind(&self) -> &'static str {
        self.0.kind
    }

    /// The short name.
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// The description; its first line is the name.
    pub fn description(&self) -> &Arc<str> {
        &self.0.description
    }

    /// What it asks for.
    pub fn method(&self) -> Method {
        self.0.method
    }

    /// Its content, if it is of this kind.
    pub fn body<K: EventKind>(&self) -> Option<&K> {
        self.0.body.as_any().downcast_ref()
    }

    /// Whether it is of this kind.
    pub fn is<K: EventKind>(&self) -> bool {
        self.body::<K>().is_some()
    }

    /// Whether it is this very event, and not only one that says the same.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The event as it is written down.
    pub fn written(&self) -> Written {
        Written { kind: self.kind().to_owned(), body: self.0.body.encode() }
    }
}

/// An event as it is written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// What its kind is called.
    pub kind: String,
    /// Its content.
    pub body: Json,
}

/// Why an event could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Nobody said how events of this kind are read.
    #[error("no kind of event is called `{kind}`")]
    UnknownKind {
        /// The kind.
        kind: String,
    },
    /// The content does not fit the kind.
    #[error("the content is not one of an event of kind `{kind}`: {reason}")]
    BadContent {
        /// The kind.
        kind: String,
        /// What does not fit.
        reason: String,
    },
}

type Decode = fn(Json, &dyn ReadValue) -> Result<Event, String>;

/// The kinds of events that can be read.
#[derive(Clone, Debug)]
pub struct EventKinds(BTreeMap<&'static str, Decode>);

impl Default for EventKinds {
    /// The loop's own kinds.
    fn default() -> Self {
        crate::builtin::add_kinds(Self(BTreeMap::new()))
    }
}

impl EventKinds {
    /// Adds a kind; one of the same name is replaced.
    #[must_use]
    pub fn with<K: EventKind>(mut self) -> Self {
        self.0.insert(K::KIND, |body, values| K::decode(body, values).map(Event::new));
        self
    }

    /// Reads an event.
    pub fn read(&self, written: Written, values: &dyn ReadValue) -> Result<Event, DecodeError> {
        let Written { kind, body } = written;
        match self.0.get(kind.as_str()) {
            None => Err(DecodeError::UnknownKind { kind }),
            Some(decode) => decode(body, values).map_err(|reason| DecodeError::BadContent { kind, reason }),
        }
    }
}
