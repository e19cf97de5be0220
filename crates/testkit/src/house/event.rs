//! The one kind of event that scripts define: it says itself what each handler does.

use std::collections::BTreeMap;
use std::fmt;

use kilter_events::{Direction, Event, EventKind, Method, ReadValue, Scope, UpdateMode, from_json, to_json};
use kilter_scheduler::{Key, ValueRef};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::attrs::Attrs;

/// What a handler does about an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// Wants an item, and drafts it.
    Put(Key, Attrs),
    /// Wants an item no more, and drafts its removal.
    Remove(Key),
    /// Wants an item and forgets to draft it: a planted inconsistency.
    Keep(Key, Attrs),
    /// Loses an input without a word: a planted inconsistency of its own state.
    Forget(Key),
    /// Looks at an item through the draft.
    Get(Key),
    /// Asks for a follow-up.
    Follow(Box<Planned>),
    /// Asks for I/O.
    Ask(String),
    /// Only describes.
    Say(String),
}

impl Deed {
    /// Reads `put KEY name=text…`, `remove KEY`, `keep KEY name=text…`, `forget KEY`, `get KEY`, `follow EVENT`,
    /// `ask NAME`, `say WORDS`.
    pub fn parse(text: &str, events: &BTreeMap<String, Planned>) -> Result<Self, String> {
        let (verb, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let (key, attrs) = rest.split_once(' ').unwrap_or((rest, ""));
        Ok(match verb {
            "put" => Self::Put(Key::new(key), Attrs::parse(attrs)?),
            "remove" => Self::Remove(Key::new(key)),
            "keep" => Self::Keep(Key::new(key), Attrs::parse(attrs)?),
            "forget" => Self::Forget(Key::new(key)),
            "get" => Self::Get(Key::new(key)),
            "follow" => {
                let event = events.get(rest).ok_or_else(|| format!("no event is defined as `{rest}`"))?;
                Self::Follow(Box::new(event.clone()))
            }
            "ask" => Self::Ask(rest.to_owned()),
            "say" => Self::Say(rest.to_owned()),
            _ => {
                return Err(format!(
                    "`{verb}` is not one of put, remove, keep, forget, get, follow, ask, say"
                ));
            }
        })
    }
}

/// An event of a script: its name, its method, and what each handler does about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Its name.
    pub name: String,
    /// What it asks for.
    pub method: Method,
    /// What handlers do, by name.
    pub deeds: BTreeMap<String, Vec<Deed>>,
}

impl Planned {
    /// Reads an event out of its words: `mode=…`, `direction=reverse`, and `HANDLER="deed; deed"`.
    pub fn parse(
        name: &str,
        words: &[(String, String)],
        events: &BTreeMap<String, Self>,
    ) -> Result<Self, String> {
        let (mut method, mut direction) = (Method::update(UpdateMode::BestEffort), Direction::Forward);
        let mut deeds = BTreeMap::new();
        for (word, text) in words {
            match word.as_str() {
                "mode" => method = parse_method(text)?,
                "direction" if text == "reverse" => direction = Direction::Reverse,
                handler => {
                    let list = text.split(';').map(|deed| Deed::parse(deed, events));
                    deeds.insert(handler.to_owned(), list.collect::<Result<_, _>>()?);
                }
            }
        }
        if let Method::Update { mode, .. } = method {
            method = Method::Update { mode, direction };
        }
        Ok(Self { name: name.to_owned(), method, deeds })
    }

    /// The event, to be pushed.
    pub fn event(&self) -> Event {
        Event::new(self.clone())
    }
}

fn parse_method(text: &str) -> Result<Method, String> {
    Ok(match text {
        "best-effort" => Method::update(UpdateMode::BestEffort),
        "ignore" => Method::update(UpdateMode::BestEffortIgnoringErrors),
        "revert" => Method::update(UpdateMode::RevertOnFailure),
        "full" => Method::Resync(Scope::Full),
        "upstream" => Method::Resync(Scope::Upstream),
        "downstream" => Method::Resync(Scope::Downstream),
        _ => {
            let known = "best-effort, ignore, revert, full, upstream, downstream";
            return Err(format!("`{text}` is not one of {known}"));
        }
    })
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(key, attrs) => write!(f, "put {key} {attrs}"),
            Self::Remove(key) => write!(f, "remove {key}"),
            Self::Keep(key, attrs) => write!(f, "keep {key} {attrs}"),
            Self::Forget(key) => write!(f, "forget {key}"),
            Self::Get(key) => write!(f, "get {key}"),
            Self::Follow(event) => write!(f, "follow {}", event.name),
            Self::Ask(name) => write!(f, "ask {name}"),
            Self::Say(words) => write!(f, "say {words}"),
        }
    }
}

impl EventKind for Planned {
    const KIND: &'static str = "planned";

    fn name(&self) -> String {
        self.name.clone()
    }

    fn method(&self) -> Method {
        self.method
    }

    fn encode(&self) -> Json {
        to_json(self)
    }

    fn decode(body: Json, _values: &dyn ReadValue) -> Result<Self, String> {
        from_json(body)
    }
}

/// Reads the values of test kinds.
pub fn read_value(_key: &Key, json: &Json) -> Result<ValueRef, String> {
    from_json::<Attrs>(json.clone()).map(|attrs| attrs.to_value())
}
