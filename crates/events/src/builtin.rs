//! The loop's own events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kilter_scheduler::{Key, Observation, Origin, ValueRef};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::declare::{AskedResync, DeclaredChange};
use crate::effect::EffectEnded;
use crate::event::{
    Direction, EventKind, EventKinds, Method, ReadValue, Scope, UpdateMode, from_json, to_json, whole,
};
use crate::inputs::Inputs;

pub(crate) fn add_kinds(kinds: EventKinds) -> EventKinds {
    kinds
        .with::<DatabaseResync>()
        .with::<InputChange>()
        .with::<ExternalChange>()
        .with::<ExternalResync>()
        .with::<HealingResync>()
        .with::<VerificationResync>()
        .with::<Observed>()
        .with::<Drifted>()
        .with::<EventsLost>()
        .with::<EffectEnded>()
        .with::<Shutdown>()
        .with::<DeclaredChange>()
        .with::<AskedResync>()
}

/// Items of one external source, by key.
pub type ExternalItems = BTreeMap<Key, ValueRef>;

/// All inputs, and what external sources declare: the first event that passes the startup gate.
#[derive(Clone, Debug, Default)]
pub struct DatabaseResync {
    /// Whether it comes out of the local copy, because the database is away.
    pub local: bool,
    /// Every input.
    pub inputs: Inputs,
    /// What these external sources declare; sources that are not named keep what they declared before.
    pub external: BTreeMap<String, ExternalItems>,
    /// Items that an earlier agent may have made and that nobody declared in the end: they are removed. Other items of
    /// ours that nobody declares are left alone, unless the settings prune.
    pub leftovers: Arc<BTreeSet<Key>>,
}

impl EventKind for DatabaseResync {
    const KIND: &'static str = "database-resync";

    fn name(&self) -> String {
        let place = if self.local { "Local" } else { "Remote" };
        format!("Database Resync ({place})")
    }

    fn details(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.inputs.resources().map(|(resource, count)| format!("* {count}x {resource}")).collect();
        for (source, items) in &self.external {
            lines.push(format!("* external {source}: {} items", items.len()));
        }
        if lines.is_empty() {
            lines.push("* empty".to_owned());
        }
        lines
    }

    fn method(&self) -> Method {
        Method::Resync(Scope::Full)
    }

    fn encode(&self) -> Json {
        let leftovers = &self.leftovers;
        let external = self.external.iter().map(|(source, items)| (source.clone(), whole(said(items))));
        let external: serde_json::Map<_, _> = external.collect();
        json!({"local": self.local, "inputs": self.inputs, "external": external, "leftovers": leftovers})
    }

    fn decode(body: Json, values: &dyn ReadValue) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Plain {
            local: bool,
            inputs: Inputs,
            external: BTreeMap<String, BTreeMap<Key, Json>>,
            #[serde(default)]
            leftovers: Arc<BTreeSet<Key>>,
        }
        let plain: Plain = from_json(body)?;
        let external =
            plain.external.into_iter().map(|(source, items)| Ok((source, read_items(&items, values)?)));
        let external = external.collect::<Result<_, String>>()?;
        Ok(Self { local: plain.local, inputs: plain.inputs, external, leftovers: plain.leftovers })
    }
}

fn said(items: &ExternalItems) -> impl Iterator<Item = (&Key, Option<&ValueRef>)> {
    items.iter().map(|(key, value)| (key, Some(value)))
}

fn read_items(items: &BTreeMap<Key, Json>, values: &dyn ReadValue) -> Result<ExternalItems, String> {
    items.iter().map(|(key, json)| Ok((key.clone(), values.read_value(key, json)?))).collect()
}

/// One input changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputChange {
    /// The resource.
    pub resource: String,
    /// The name of the input.
    pub name: String,
    /// What it was; `None` if it is new.
    pub old: Option<Json>,
    /// What it is; `None` if it is gone.
    pub new: Option<Json>,
}

impl EventKind for InputChange {
    const KIND: &'static str = "input-change";

    fn name(&self) -> String {
        "Input Change".to_owned()
    }

    fn details(&self) -> Vec<String> {
        let shown = |input: &Option<Json>| input.as_ref().map_or_else(|| "none".to_owned(), Json::to_string);
        vec![
            format!("* {}: {}", self.resource, self.name),
            format!("* old: {}", shown(&self.old)),
            format!("* new: {}", shown(&self.new)),
        ]
    }

    fn method(&self) -> Method {
        let direction = if self.new.is_none() { Direction::Reverse } else { Direction::Forward };
        Method::Update { mode: UpdateMode::BestEffort, direction }
    }

    fn encode(&self) -> Json {
        to_json(self)
    }

    fn decode(body: Json, _values: &dyn ReadValue) -> Result<Self, String> {
        from_json(body)
    }
}

/// An external source declares some items anew or takes them back.
#[derive(Clone, Debug)]
pub struct ExternalChange {
    /// The source.
    pub source: String,
    /// What it declares; `None` takes back.
    pub changes: BTreeMap<Key, Option<ValueRef>>,
}

impl EventKind for ExternalChange {
    const KIND: &'static str = "external-change";

    fn name(&self) -> String {
        format!("External Change [{}]", self.source)
    }

    fn details(&self) -> Vec<String> {
        let changes = self.changes.iter();
        changes
            .map(|(key, value)| match value {
                Some(value) => format!("* put {key} {}", value.to_json()),
                None => format!("* remove {key}"),
            })
            .collect()
    }

    fn method(&self) -> Method {
        Method::update(UpdateMode::BestEffort)
    }

    fn encode(&self) -> Json {
        let changes = self.changes.iter().map(|(key, value)| (key, value.as_ref()));
        json!({"source": self.source, "changes": whole(changes)})
    }

    fn decode(body: Json, values: &dyn ReadValue) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Plain {
            source: String,
            changes: BTreeMap<Key, Option<Json>>,
        }
        let plain: Plain = from_json(body)?;
        let changes = plain.changes.into_iter().map(|(key, json)| {
            let value = json.map(|json| values.read_value(&key, &json)).transpose()?;
            Ok((key, value))
        });
        Ok(Self { source: plain.source, changes: changes.collect::<Result<_, String>>()? })
    }
}

/// An external source says everything it declares.
#[derive(Clone, Debug)]
pub struct ExternalResync {
    /// The source.
    pub source: String,
    /// Everything it declares.
    pub items: ExternalItems,
}

impl EventKind for ExternalResync {
    const KIND: &'static str = "external-resync";

    fn name(&self) -> String {
        format!("External Resync [{}]", self.source)
    }

    fn details(&self) -> Vec<String> {
        self.items.keys().map(|key| format!("* {key}")).collect()
    }

    fn method(&self) -> Method {
        Method::Resync(Scope::Upstream)
    }

    fn encode(&self) -> Json {
        json!({"source": self.source, "items": whole(said(&self.items))})
    }

    fn decode(body: Json, values: &dyn ReadValue) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Plain {
            source: String,
            items: BTreeMap<Key, Json>,
        }
        let plain: Plain = from_json(body)?;
        Ok(Self { source: plain.source, items: read_items(&plain.items, values)? })
    }
}

/// A resync that the loop starts by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HealingResync {
    /// An event failed in a way that leaves the state uncertain.
    AfterError {
        /// What went wrong.
        error: Arc<str>,
        /// Which attempt it is; the first is 1.
        attempt: u32,
    },
    /// It was time for it.
    Periodic,
}

impl EventKind for HealingResync {
    const KIND: &'static str = "healing-resync";

    fn name(&self) -> String {
        match self {
            Self::AfterError { attempt: 1, .. } => "Healing Resync (After Error)".to_owned(),
            Self::AfterError { attempt, .. } => format!("Healing Resync (After Error, Attempt {attempt})"),
            Self::Periodic => "Healing Resync (Periodic)".to_owned(),
        }
    }

    fn details(&self) -> Vec<String> {
        match self {
            Self::AfterError { error, .. } => vec![format!("* error: {error}")],
            Self::Periodic => Vec::new(),
        }
    }

    fn method(&self) -> Method {
        match self {
            Self::AfterError { .. } => Method::Resync(Scope::Full),
            Self::Periodic => Method::Resync(Scope::Downstream),
        }
    }

    fn encode(&self) -> Json {
        to_json(self)
    }

    fn decode(body: Json, _values: &dyn ReadValue) -> Result<Self, String> {
        from_json(body)
    }
}

/// A resync that must plan nothing; it is planned and never carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationResync;

impl EventKind for VerificationResync {
    const KIND: &'static str = "verification-resync";

    fn name(&self) -> String {
        "Verification Resync".to_owned()
    }

    fn method(&self) -> Method {
        Method::Resync(Scope::Upstream)
    }

    fn encode(&self) -> Json {
        Json::Null
    }

    fn decode(_body: Json, _values: &dyn ReadValue) -> Result<Self, String> {
        Ok(Self)
    }
}

/// Items that nobody declared were seen, or are gone, or confirm an operation.
///
/// What is written down has no facts: they are for actuators, and a replay has none.
#[derive(Clone, Debug)]
pub struct Observed(pub Vec<Observation>);

#[derive(Serialize, Deserialize)]
struct PlainObservation {
    key: Key,
    value: Option<Json>,
    origin: Origin,
}

impl EventKind for Observed {
    const KIND: &'static str = "observed";

    fn name(&self) -> String {
        "Observed".to_owned()
    }

    fn details(&self) -> Vec<String> {
        let seen = self.0.iter();
        seen.map(|seen| match &seen.value {
            Some(value) => format!("* {} {}", seen.key, value.to_json()),
            None => format!("* {} is gone", seen.key),
        })
        .collect()
    }

    fn method(&self) -> Method {
        Method::Notification
    }

    fn encode(&self) -> Json {
        let plain = self.0.iter().map(|seen| PlainObservation {
            key: seen.key.clone(),
            value: seen.value.as_ref().map(ValueRef::to_whole_json),
            origin: seen.origin,
        });
        to_json(&plain.collect::<Vec<_>>())
    }

    fn decode(body: Json, values: &dyn ReadValue) -> Result<Self, String> {
        let plain: Vec<PlainObservation> = from_json(body)?;
        let seen = plain.into_iter().map(|PlainObservation { key, value, origin }| {
            let value = value.map(|json| values.read_value(&key, &json)).transpose()?;
            Ok(Observation { key, value, facts: None, origin })
        });
        Ok(Self(seen.collect::<Result<_, String>>()?))
    }
}

/// Declared items are not as they should be: each is read by its key, and so healed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drifted(pub Vec<Key>);

impl EventKind for Drifted {
    const KIND: &'static str = "drifted";

    fn name(&self) -> String {
        "Drifted".to_owned()
    }

    fn details(&self) -> Vec<String> {
        self.0.iter().map(|key| format!("* {key}")).collect()
    }

    fn method(&self) -> Method {
        Method::Resync(Scope::Refresh)
    }

    fn encode(&self) -> Json {
        to_json(self)
    }

    fn decode(body: Json, _values: &dyn ReadValue) -> Result<Self, String> {
        from_json(body)
    }
}

/// Whoever watches the world has lost sight of it: everything is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsLost;

impl EventKind for EventsLost {
    const KIND: &'static str = "events-lost";

    fn name(&self) -> String {
        "Events Lost".to_owned()
    }

    fn method(&self) -> Method {
        Method::Resync(Scope::Downstream)
    }

    fn encode(&self) -> Json {
        Json::Null
    }

    fn decode(_body: Json, _values: &dyn ReadValue) -> Result<Self, String> {
        Ok(Self)
    }
}

/// The last event: handlers clean up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shutdown;

impl EventKind for Shutdown {
    const KIND: &'static str = "shutdown";

    fn name(&self) -> String {
        "Shutdown".to_owned()
    }

    fn method(&self) -> Method {
        Method::update(UpdateMode::BestEffort)
    }

    fn encode(&self) -> Json {
        Json::Null
    }

    fn decode(_body: Json, _values: &dyn ReadValue) -> Result<Self, String> {
        Ok(Self)
    }
}
