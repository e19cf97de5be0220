//! Items, kinds and sources as lists.

use super::table::{Cell, table};
use super::{one_line, short_moment, style_of};
use crate::v1::{Confirmation, Health, Item, Kind, Recording, RecordingStage, SourceSummary};

/// Items as a table.
pub fn list(items: &[Item], width: Option<usize>) -> String {
    if items.is_empty() {
        return "no items\n".to_owned();
    }
    let rows = items.iter().map(|item| -> Vec<Cell> {
        let by = match (item.declared_by.first(), item.base.is_empty()) {
            (_, false) => format!("derived from {}", item.base),
            (Some(by), true) => match &by.place {
                Some(place) => format!("{} ({place})", by.source),
                None => by.source.clone(),
            },
            (None, true) if item.observed => "observed".to_owned(),
            (None, true) => String::new(),
        };
        let kind = if item.kind.is_empty() { "-" } else { &item.kind };
        let state = Cell::painted(style_of(item.state()), item.state().name());
        vec![one_line(&item.key).into(), kind.into(), state, one_line(&by).into()]
    });
    table(&["ITEM", "KIND", "STATE", "SOURCE"], rows.collect(), width)
}

/// Kinds as a table.
pub fn kinds(kinds: &[Kind], width: Option<usize>) -> String {
    let rows =
        kinds.iter().map(|kind| -> Vec<Cell> { vec![kind.word.as_str().into(), kind.about.as_str().into()] });
    table(&["KIND", "WHAT IT IS"], rows.collect(), width)
}

/// Sources as a table, in the order in which they are heard.
pub fn sources(sources: &[SourceSummary], width: Option<usize>) -> String {
    if sources.is_empty() {
        return "no sources\n".to_owned();
    }
    let rows = sources.iter().map(|source| -> Vec<Cell> {
        vec![
            one_line(&source.name).into(),
            source.items.to_string().into(),
            source.unheard.to_string().into(),
            one_line(&source.directory).into(),
        ]
    });
    table(&["SOURCE", "ITEMS", "UNHEARD", "DIRECTORY"], rows.collect(), width)
}

/// What waits for a confirmation.
pub fn confirmation(confirmation: Option<&Confirmation>) -> String {
    let Some(Confirmation { id, txn, deadline, .. }) = confirmation else {
        return "nothing waits for a confirmation\n".to_owned();
    };
    let deadline = short_moment(deadline.as_ref());
    format!("txn #{txn} is taken back at {deadline} UTC unless it is confirmed: kilter confirm {id}\n")
}

/// How a recording stands.
pub fn recording(recording: Option<&Recording>) -> String {
    let Some(recording) = recording else { return "nothing is recorded\n".to_owned() };
    let (file, bytes, most) = (one_line(&recording.file), recording.bytes, recording.most);
    match recording.stage() {
        RecordingStage::Unspecified | RecordingStage::Going => {
            let start = short_moment(recording.start.as_ref());
            format!("recorded since {start} UTC: {file}, {bytes} of at most {most} bytes\n")
        }
        RecordingStage::Ended => format!("recorded: {file}, {bytes} bytes, hint: kilter replay {file}\n"),
        RecordingStage::Full => {
            format!("recorded: {file}, {bytes} bytes; it was as long as it may be and has ended\n")
        }
        RecordingStage::Failed => format!("the recording {file} could not be written and has ended\n"),
    }
}

/// How the agent is.
pub fn health(health: &Health) -> String {
    let ready = if health.ready { "ready" } else { "starting" };
    let start = short_moment(health.start.as_ref());
    let mut text = format!(
        "agent {}, {ready} since {start} UTC, txn #{}, {} vertices\n",
        health.version, health.txn, health.vertices
    );
    for paused in &health.paused {
        text.push_str(&format!("paused: {}\n", one_line(paused)));
    }
    for trouble in &health.troubles {
        text.push_str(&format!("trouble: {}\n", one_line(trouble)));
    }
    if health.confirmation.is_some() {
        text.push_str(&confirmation(health.confirmation.as_ref()));
    }
    text
}
