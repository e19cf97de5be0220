//! What lies under which key of the store.
//!
//! | key | value |
//! |---|---|
//! | `declared/SOURCE:KEY` | what a source declares: value, place, transaction |
//! | `source/SOURCE` | the place of a source among those that the settings do not name |
//! | `intent` | the items that an unfinished change makes |
//! | `confirmation` | the change that waits for its confirmation, and what was declared before it |
//! | `last` | the last transaction that changed what is declared |

use kilter_model::document::Place;
use kilter_scheduler::{Key, Seq};
use kilter_store::Commit;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::Codec;
use crate::ledger::{Delta, Mark};

pub(super) const INTENT: &str = "intent";
pub(super) const CONFIRMATION: &str = "confirmation";
pub(super) const LAST: &str = "last";
pub(super) const DECLARED: &str = "declared/";
pub(super) const SOURCE: &str = "source/";

pub(super) fn declared_key(source: &str, key: &Key) -> String {
    format!("{DECLARED}{source}:{key}")
}

/// The source and the item behind a key below [`DECLARED`].
pub(super) fn parse_declared(key: &str) -> Option<(&str, Key)> {
    let (source, key) = key.strip_prefix(DECLARED)?.split_once(':')?;
    Some((source, Key::new(key)))
}

pub(super) fn add_delta(mut commit: Commit, delta: &Delta, codec: Codec) -> Commit {
    for (key, mark) in &delta.puts {
        commit = commit.put(declared_key(&delta.source, key), mark_json(mark, codec).to_string());
    }
    for key in &delta.removes {
        commit = commit.delete(declared_key(&delta.source, key));
    }
    let place = format!("{SOURCE}{}", delta.source);
    match (delta.place, delta.leaves) {
        (_, true) => commit.delete(place),
        (Some(at), false) => commit.put(place, json!({ "place": at }).to_string()),
        (None, false) => commit,
    }
}

#[derive(Serialize, Deserialize)]
struct PlainPlace {
    file: String,
    line: u32,
    column: u32,
}

/// A mark as it lies in the store.
#[derive(Deserialize)]
pub(super) struct PlainMark {
    value: Json,
    place: Option<PlainPlace>,
    txn: Option<Seq>,
}

pub(crate) fn mark_json(mark: &Mark, codec: Codec) -> Json {
    let place = mark.place.as_ref().map(|place| PlainPlace {
        file: place.file.to_string(),
        line: place.line,
        column: place.column,
    });
    json!({ "value": (codec.write)(&mark.value), "place": place, "txn": mark.txn })
}

pub(crate) fn read_mark(key: &Key, json: Json, codec: Codec) -> Result<Mark, String> {
    mark(key, serde_json::from_value(json).map_err(|error| error.to_string())?, codec)
}

pub(super) fn mark(key: &Key, plain: PlainMark, codec: Codec) -> Result<Mark, String> {
    let place = plain.place.map(|place| Place {
        file: place.file.as_str().into(),
        line: place.line,
        column: place.column,
    });
    Ok(Mark { value: (codec.read)(key, &plain.value)?, place, txn: plain.txn })
}
