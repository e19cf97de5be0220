//! Confirmed changes: one that nobody confirms in time goes back by itself, also across a restart of the agent.
//!
//! Decided here: what is remembered of a change that waits. One change waits at a time, known by its transaction. Time
//! is the wall clock where it is kept and a steady one while the agent runs.

use std::fmt;
use std::time::Duration;

use kilter_scheduler::{Key, Seq, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::keep::Codec;
use crate::keep::layout::{mark_json, read_mark};
use crate::ledger::Undo;

/// What is tried to find out whether a change is good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// The address answers a ping.
    Ping(String),
    /// The host and port can be dialled.
    Tcp(String),
    /// The line of shell ends with 0.
    Command(String),
}

impl fmt::Display for Probe {
    /// As it is typed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ping(address) => write!(f, "ping:{address}"),
            Self::Tcp(place) => write!(f, "tcp:{place}"),
            Self::Command(command) => write!(f, "cmd:{command}"),
        }
    }
}

/// A change that waits for its confirmation.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// Its transaction, which is its name, too.
    pub id: Seq,
    /// When it goes back.
    pub deadline: Timestamp,
    /// How long it was given: an agent that comes back under another clock waits no longer than that.
    pub within: Duration,
    /// Who asked for it, and why; for people.
    pub description: String,
    /// What decides sooner: tried until it waits no longer, also by an agent that comes back.
    pub probes: Vec<Probe>,
    /// The joint change of a cluster that it belongs to: then the cluster decides.
    pub joint: Option<String>,
    /// What goes back, for each source that spoke.
    pub(crate) undo: Vec<Undo>,
}

/// What can be done about a change that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Say {
    /// It stays.
    Confirm,
    /// It waits this long from now on.
    Extend(Duration),
}

/// Why a change cannot be confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfirmError {
    /// Nothing waits.
    #[error("no change waits for a confirmation")]
    Nothing,
    /// Another one waits.
    #[error("change #{asked} does not wait for a confirmation, #{waiting} does")]
    Another {
        /// The one that was asked for.
        asked: Seq,
        /// The one that waits.
        waiting: Seq,
    },
    /// It is on its way back.
    #[error("change #{id} is going back already")]
    GoesBack {
        /// The change.
        id: Seq,
    },
    /// It could not be kept.
    #[error("{text}")]
    NotKept {
        /// Why.
        text: String,
    },
    /// The agent has ended.
    #[error("the agent has ended")]
    Gone,
}

#[derive(Serialize, Deserialize)]
struct PlainUndo {
    source: String,
    existed: bool,
    items: Vec<(Key, Option<Json>)>,
}

#[derive(Deserialize)]
struct PlainPending {
    id: Seq,
    deadline: Timestamp,
    #[serde(default)]
    within: Option<Duration>,
    description: String,
    #[serde(default)]
    probes: Vec<Probe>,
    #[serde(default)]
    joint: Option<String>,
    undo: Vec<PlainUndo>,
}

impl Pending {
    pub(crate) fn to_json(&self, codec: Codec) -> Json {
        let undo = self.undo.iter().map(|undo| PlainUndo {
            source: undo.source.clone(),
            existed: undo.existed,
            items: undo
                .items
                .iter()
                .map(|(key, mark)| (key.clone(), mark.as_ref().map(|mark| mark_json(mark, codec))))
                .collect(),
        });
        let undo: Vec<PlainUndo> = undo.collect();
        let Self { id, deadline, within, description, probes, joint, .. } = self;
        json!({
            "id": id,
            "deadline": deadline,
            "within": within,
            "description": description,
            "probes": probes,
            "joint": joint,
            "undo": undo,
        })
    }

    pub(crate) fn read(json: Json, codec: Codec) -> Result<Self, String> {
        let PlainPending { id, deadline, within, description, probes, joint, undo } =
            serde_json::from_value(json).map_err(|error| error.to_string())?;
        let undo = undo.into_iter().map(|PlainUndo { source, existed, items }| {
            let items = items.into_iter().map(|(key, mark)| {
                let mark = mark.map(|mark| read_mark(&key, mark, codec)).transpose()?;
                Ok((key, mark))
            });
            Ok(Undo { source, existed, items: items.collect::<Result<_, String>>()? })
        });
        let undo = undo.collect::<Result<_, String>>()?;
        let within = within.unwrap_or(Duration::MAX);
        Ok(Self { id, deadline, within, description, probes, joint, undo })
    }
}
