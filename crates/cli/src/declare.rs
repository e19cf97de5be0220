//! Documents as they travel to the agent.

use std::path::PathBuf;

use kilter_api::v1::{Declaration, DeclaredItem, Place};
use kilter_model::document::Declared;
use kilter_model::export;

use crate::error::CommandError;
use crate::read;

/// What the files declare, under the name of a source.
pub(crate) fn declaration(
    files: &[PathBuf],
    source: &str,
    everything: bool,
) -> Result<Declaration, CommandError> {
    let items = read::documents(files)?.iter().map(item).collect();
    Ok(Declaration { source: source.to_owned(), items, removed: Vec::new(), everything })
}

/// An item of a document, with its place.
pub fn item(declared: &Declared) -> DeclaredItem {
    let value = export::to_json(&declared.value).unwrap_or_else(|| declared.value.to_json());
    let place = &declared.place;
    DeclaredItem {
        key: declared.key.to_string(),
        kind: declared.kind.to_string(),
        value: value.to_string(),
        place: Some(Place { file: place.file.to_string(), line: place.line, column: place.column }),
    }
}
