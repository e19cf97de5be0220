//! What sources declare through the loop: a patch of what they said, everything anew, or their leave.

use std::collections::BTreeMap;

use kilter_scheduler::{Key, OnFailure, Retry, ValueRef};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::event::{EventKind, Method, ReadValue, Scope, UpdateMode, from_json, to_json};

/// How much of what a source declares it speaks about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// What it does not name stays as it was.
    #[default]
    Patch,
    /// What it does not name, it declares no longer.
    Everything,
    /// It declares nothing any more, and loses its place among the sources.
    Leave,
}

/// A source declares items, or takes them back.
///
/// **Guarantees**: if the event is refused or reverted, the source declares what it declared before.
#[derive(Clone, Debug)]
pub struct DeclaredChange {
    /// The source. One that has not spoken yet takes its place after all others.
    pub source: String,
    /// What it declares; `None` takes back.
    pub changes: BTreeMap<Key, Option<ValueRef>>,
    /// How much it speaks about.
    pub extent: Extent,
    /// What a failure leads to.
    pub on_failure: OnFailure,
    /// Whether and when failed items are tried again; `None` leaves it to the settings of the loop.
    pub retry: Option<Retry>,
    /// Who asks, and why; for people.
    pub description: String,
}

impl EventKind for DeclaredChange {
    const KIND: &'static str = "declared-change";

    fn name(&self) -> String {
        format!("Declared Change [{}]", self.source)
    }

    fn details(&self) -> Vec<String> {
        let described = self.description.lines().map(|line| format!("* {line}"));
        let extent = match self.extent {
            Extent::Patch => None,
            Extent::Everything => Some("* everything it declares".to_owned()),
            Extent::Leave => Some("* leaves".to_owned()),
        };
        let changes = self.changes.iter().map(|(key, value)| match value {
            Some(_) => format!("* put {key}"),
            None => format!("* remove {key}"),
        });
        described.chain(extent).chain(changes).collect()
    }

    fn method(&self) -> Method {
        Method::update(match self.on_failure {
            OnFailure::Revert => UpdateMode::RevertOnFailure,
            OnFailure::Continue => UpdateMode::BestEffort,
        })
    }

    fn encode(&self) -> Json {
        json!({
            "source": self.source,
            "changes": self.changes,
            "extent": self.extent,
            "on_failure": self.on_failure,
            "retry": self.retry,
            "description": self.description,
        })
    }

    fn decode(body: Json, values: &dyn ReadValue) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Plain {
            source: String,
            changes: BTreeMap<Key, Option<Json>>,
            extent: Extent,
            on_failure: OnFailure,
            retry: Option<Retry>,
            description: String,
        }
        let Plain { source, changes, extent, on_failure, retry, description } = from_json(body)?;
        let changes = changes.into_iter().map(|(key, json)| {
            let value = json.map(|json| values.read_value(&key, &json)).transpose()?;
            Ok((key, value))
        });
        let changes = changes.collect::<Result<_, String>>()?;
        Ok(Self { source, changes, extent, on_failure, retry, description })
    }
}

/// Somebody asks for a resync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedResync {
    /// What is recomputed and re-read.
    pub scope: Scope,
    /// Whether items of ours that nobody declares are removed, by a full or upstream resync.
    pub prune: bool,
    /// Who asks, and why; for people.
    pub description: String,
}

impl EventKind for AskedResync {
    const KIND: &'static str = "asked-resync";

    fn name(&self) -> String {
        "Asked Resync".to_owned()
    }

    fn details(&self) -> Vec<String> {
        self.description.lines().map(|line| format!("* {line}")).collect()
    }

    fn method(&self) -> Method {
        Method::Resync(self.scope)
    }

    fn encode(&self) -> Json {
        to_json(self)
    }

    fn decode(body: Json, _values: &dyn ReadValue) -> Result<Self, String> {
        from_json(body)
    }
}
