//! Confirmed changes: one that nobody confirms in time goes back by itself, also across a restart of the agent.
//!
//! Decided here: what is remembered of a change that waits. One change waits at a time, known by its transaction. Time
//! is the wall clock where it is kept and a steady one while the agent runs.

use std::time::Duration;

use kilter_scheduler::{Key, Seq, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::keep::Codec;
use crate::keep::layout::{mark_json, read_mark};
use crate::ledger::Undo;

/// A change that waits for its confirmation.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// Its transaction, which is its name, too.
    pub id: Seq,
    /// When it goes back.
    pub deadline: Timestamp,
    /// Who asked for it, and why; for people.
    pub description: String,
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
    description: String,
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
        json!({ "id": self.id, "deadline": self.deadline, "description": self.description, "undo": undo })
    }

    pub(crate) fn read(json: Json, codec: Codec) -> Result<Self, String> {
        let plain: PlainPending = serde_json::from_value(json).map_err(|error| error.to_string())?;
        let undo = plain.undo.into_iter().map(|PlainUndo { source, existed, items }| {
            let items = items.into_iter().map(|(key, mark)| {
                let mark = mark.map(|mark| read_mark(&key, mark, codec)).transpose()?;
                Ok((key, mark))
            });
            Ok(Undo { source, existed, items: items.collect::<Result<_, String>>()? })
        });
        let undo = undo.collect::<Result<_, String>>()?;
        Ok(Self { id: plain.id, deadline: plain.deadline, description: plain.description, undo })
    }
}
