//! What sources declare through the loop: a patch of what they said, everything anew, or their leave.

use std::collections::BTreeMap;

use kilter_scheduler::{Key, OnFailure, Retry, ValueRef};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::event::{EventKind, Method, ReadValue, Scope, UpdateMode, from_json, to_json, whole};

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

/// What one source declares, or takes back.
#[derive(Clone, Debug)]
pub struct Said {
    /// The source. One that has not spoken yet takes its place after all others.
    pub source: String,
    /// What it declares; `None` takes back.
    pub changes: BTreeMap<Key, Option<ValueRef>>,
    /// How much it speaks about.
    pub extent: Extent,
}

/// Sources declare items, or take them back: one source, or several in one transaction.
///
/// **Guarantees**: if the event is refused or reverted, each source declares what it declared before.
///
/// **Assumes** that a source speaks once.
#[derive(Clone, Debug)]
pub struct DeclaredChange {
    /// What each source says, in the order in which they speak.
    pub said: Vec<Said>,
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
        let sources: Vec<&str> = self.said.iter().map(|said| said.source.as_str()).collect();
        format!("Declared Change [{}]", sources.join(", "))
    }

    fn details(&self) -> Vec<String> {
        let described = self.description.lines().map(|line| format!("* {line}"));
        let said = self.said.iter().flat_map(|said| {
            let extent = match said.extent {
                Extent::Patch => None,
                Extent::Everything => Some("* everything it declares".to_owned()),
                Extent::Leave => Some("* leaves".to_owned()),
            };
            let changes = said.changes.iter().map(|(key, value)| match value {
                Some(_) => format!("* put {key}"),
                None => format!("* remove {key}"),
            });
            extent.into_iter().chain(changes)
        });
        described.chain(said).collect()
    }

    fn method(&self) -> Method {
        Method::update(match self.on_failure {
            OnFailure::Revert => UpdateMode::RevertOnFailure,
            OnFailure::Continue => UpdateMode::BestEffort,
        })
    }

    fn encode(&self) -> Json {
        let said = self.said.iter().map(|Said { source, changes, extent }| {
            let changes = whole(changes.iter().map(|(key, value)| (key, value.as_ref())));
            json!({"source": source, "changes": changes, "extent": extent})
        });
        json!({
            "said": said.collect::<Vec<_>>(),
            "on_failure": self.on_failure,
            "retry": self.retry,
            "description": self.description,
        })
    }

    fn decode(body: Json, values: &dyn ReadValue) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct PlainSaid {
            source: String,
            changes: BTreeMap<Key, Option<Json>>,
            extent: Extent,
        }
        #[derive(Deserialize)]
        struct Plain {
            said: Vec<PlainSaid>,
            on_failure: OnFailure,
            retry: Option<Retry>,
            description: String,
        }
        let Plain { said, on_failure, retry, description } = from_json(body)?;
        let said = said.into_iter().map(|PlainSaid { source, changes, extent }| {
            let changes = changes.into_iter().map(|(key, json)| {
                let value = json.map(|json| values.read_value(&key, &json)).transpose()?;
                Ok((key, value))
            });
            Ok(Said { source, changes: changes.collect::<Result<_, String>>()?, extent })
        });
        let said = said.collect::<Result<_, String>>()?;
        Ok(Self { said, on_failure, retry, description })
    }
}

/// Somebody asks for a resync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedResync {
    /// What is recomputed and re-read.
    pub scope: Scope,
    /// Whether items of ours that nobody declares are removed, by a full or upstream resync.
    pub prune: bool,
    /// Whether what fails is tried again, also if it was declared without that.
    #[serde(default)]
    pub retry: bool,
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
