//! The JSON Schema of a document, for editors: one item of any kind, or a list of them.

use serde_json::{Map, Value, json};

use crate::kinds::KINDS;

/// The schema of one document.
///
/// Each kind is a definition of its own, picked by the word after `kind:`, so that an editor offers the fields of
/// that kind and no others.
pub fn schema() -> Value {
    let definitions: Map<String, Value> =
        KINDS.iter().map(|kind| (kind.word.to_owned(), kind.schema())).collect();
    let words: Vec<&str> = KINDS.iter().map(|kind| kind.word).collect();
    let rules: Vec<Value> = words
        .iter()
        .map(|word| {
            json!({
                "if": { "properties": { "kind": { "const": word } }, "required": ["kind"] },
                "then": { "$ref": format!("#/$defs/{word}") },
            })
        })
        .collect();
    let item = json!({
        "type": "object",
        "properties": { "kind": { "enum": words, "description": "What is declared." } },
        "required": ["kind"],
        "allOf": rules,
    });
    let mut definitions = definitions;
    definitions.insert("item".to_owned(), item);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Kilter document",
        "description": "One item, or a list of items.",
        "if": { "type": "array" },
        "then": { "items": { "$ref": "#/$defs/item" } },
        "else": { "$ref": "#/$defs/item" },
        "$defs": definitions,
    })
}
