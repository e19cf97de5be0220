//! What the state directory held when it was opened.

use std::collections::{BTreeMap, BTreeSet};

use kilter_scheduler::{Key, Seq};
use kilter_store::embedded::View;
use kilter_store::{Range, StoreError};
use serde_json::Value as Json;

use super::{Codec, EVENTS, TRANSACTIONS, layout};
use crate::confirm::Pending;
use crate::ledger::Mark;

/// What a source declared.
#[derive(Clone, Debug, Default)]
pub struct KeptSource {
    /// Its name.
    pub name: String,
    /// Its place among the sources that the settings do not name.
    pub place: Option<u64>,
    /// What it declared, by key.
    pub items: BTreeMap<Key, Mark>,
}

/// What the state directory held when it was opened.
#[derive(Debug, Default)]
pub struct Kept {
    /// The sources, in their places; those without one first.
    pub sources: Vec<KeptSource>,
    /// What cannot be read, each with the reason: it is not declared, and stays where it is.
    pub unreadable: Vec<(String, String)>,
    /// The items that an unfinished change may have made.
    pub intent: BTreeSet<Key>,
    /// The change that waits for its confirmation.
    pub confirmation: Option<Pending>,
    /// The last transaction that is remembered.
    pub last_txn: Seq,
    /// The last event that is remembered.
    pub last_event: Option<u64>,
}

pub(super) fn read(view: &View, codec: Codec) -> Result<Kept, StoreError> {
    let mut kept = Kept::default();
    let mut sources: BTreeMap<String, KeptSource> = BTreeMap::new();
    for item in view.range(&Range::of(layout::DECLARED))?.items {
        let read = layout::parse_declared(&item.key).ok_or_else(|| "there is no source in it".to_owned());
        let read = read.and_then(|(source, key)| {
            let plain = serde_json::from_slice(&item.value).map_err(|error| error.to_string())?;
            Ok((source.to_owned(), layout::mark(&key, plain, codec)?, key))
        });
        match read {
            Ok((source, mark, key)) => {
                sources.entry(source).or_default().items.insert(key, mark);
            }
            Err(reason) => kept.unreadable.push((item.key, reason)),
        }
    }
    for item in view.range(&Range::of(layout::SOURCE))?.items {
        let name = item.key.trim_start_matches(layout::SOURCE).to_owned();
        let json: Option<Json> = serde_json::from_slice(&item.value).ok();
        sources.entry(name).or_default().place = json.and_then(|json| json.get("place")?.as_u64());
    }
    kept.sources = sources.into_iter().map(|(name, source)| KeptSource { name, ..source }).collect();
    kept.sources.sort_by_key(|source| source.place);
    if let Some(item) = view.get(layout::INTENT)? {
        let json: Json = serde_json::from_slice(&item.value).unwrap_or_default();
        let keys = json.get("keys").cloned().unwrap_or_default();
        kept.intent = serde_json::from_value(keys).unwrap_or_default();
    }
    if let Some(item) = view.get(layout::CONFIRMATION)? {
        match serde_json::from_slice(&item.value).map_err(|error| error.to_string()) {
            Ok(json) => match Pending::read(json, codec) {
                Ok(pending) => kept.confirmation = Some(pending),
                Err(reason) => kept.unreadable.push((layout::CONFIRMATION.to_owned(), reason)),
            },
            Err(reason) => kept.unreadable.push((layout::CONFIRMATION.to_owned(), reason)),
        }
    }
    let last = |name: &str| view.history(name).map(|history| history.last());
    // What changed declarations is remembered by its number also when the history is lost.
    let declared = view.get(layout::LAST)?;
    let declared = declared.and_then(|item| std::str::from_utf8(&item.value).ok()?.parse().ok());
    kept.last_txn = last(TRANSACTIONS)?.unwrap_or(0).max(declared.unwrap_or(0));
    kept.last_event = last(EVENTS)?.map(|seq| seq.saturating_sub(1));
    Ok(kept)
}
