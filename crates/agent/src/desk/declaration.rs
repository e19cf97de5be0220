//! What is asked of the agent, as values.

use std::time::Duration;

use kilter_events::{DeclaredChange, Extent, Said};
use kilter_model::document::{Declared, Place};
use kilter_scheduler::{Key, OnFailure, Retry, ValueRef};

use crate::confirm::Probe;

/// An item as a source declares it.
#[derive(Clone, Debug)]
pub struct Put {
    /// The key.
    pub key: Key,
    /// The value.
    pub value: ValueRef,
    /// Where it is declared, if it comes out of a document.
    pub place: Option<Place>,
}

impl From<Declared> for Put {
    fn from(declared: Declared) -> Self {
        Self { key: declared.key, value: declared.value, place: Some(declared.place) }
    }
}

/// What a source declares: everything, or what changes.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// The name of the source.
    pub source: String,
    /// What it declares.
    pub puts: Vec<Put>,
    /// What it takes back.
    pub removes: Vec<Key>,
    /// Whether it speaks about everything it declares, or leaves.
    pub extent: Extent,
}

impl Declaration {
    /// A source adds and changes items, and takes nothing back.
    pub fn patch(source: impl Into<String>, puts: Vec<Put>) -> Self {
        Self { source: source.into(), puts, removes: Vec::new(), extent: Extent::Patch }
    }

    /// A source declares exactly these items.
    pub fn everything(source: impl Into<String>, puts: Vec<Put>) -> Self {
        Self { extent: Extent::Everything, ..Self::patch(source, puts) }
    }

    /// A source declares nothing any more.
    pub fn leave(source: impl Into<String>) -> Self {
        Self { extent: Extent::Leave, ..Self::patch(source, Vec::new()) }
    }

    fn said(&self) -> Said {
        let puts = self.puts.iter().map(|put| (put.key.clone(), Some(put.value.clone())));
        let removes = self.removes.iter().map(|key| (key.clone(), None));
        let changes = removes.chain(puts).collect();
        Said { source: self.source.clone(), changes, extent: self.extent }
    }
}

impl From<Declaration> for Vec<Declaration> {
    fn from(declaration: Declaration) -> Self {
        vec![declaration]
    }
}

/// The event that tells the loop what sources declare, all in one transaction.
pub(crate) fn event(declarations: &[Declaration], options: &Options) -> DeclaredChange {
    let who = [options.who.as_str(), options.description.as_str()];
    let who: Vec<&str> = who.into_iter().filter(|text| !text.is_empty()).collect();
    DeclaredChange {
        said: declarations.iter().map(Declaration::said).collect(),
        on_failure: options.on_failure,
        retry: options.retry,
        description: who.join(": "),
    }
}

/// How a declaration is applied.
#[derive(Clone, Debug)]
pub struct Options {
    /// What a failure leads to.
    pub on_failure: OnFailure,
    /// Whether and when failed items are tried again; `None` leaves it to the settings.
    pub retry: Option<Retry>,
    /// The plan that was shown: anything else is refused.
    pub expected: Option<Expected>,
    /// The change reverts by itself unless it is confirmed.
    pub confirm: Option<Confirm>,
    /// Why it is asked; for people.
    pub description: String,
    /// Who asks; for people.
    pub who: String,
}

impl Default for Options {
    /// All or nothing, whatever the plan is.
    fn default() -> Self {
        Self {
            on_failure: OnFailure::Revert,
            retry: None,
            expected: None,
            confirm: None,
            description: String::new(),
            who: String::new(),
        }
    }
}

/// The identity of a plan that was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The hash of the plan, as it is printed.
    pub hash: String,
    /// The hash of what happens to each item, to tell what changed; may be left out.
    pub digests: Vec<(Key, String)>,
}

/// How long a change waits for its confirmation, and what decides sooner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// After this span it reverts.
    pub within: Duration,
    /// It stays if all of them pass, and reverts if one does not.
    pub probes: Vec<Probe>,
    /// The joint change of a cluster that it belongs to.
    pub joint: Option<String>,
}
