//! The shapes of what the published designs answer where it is no message of ours, as JSON Schemas.

use kilter_api::openapi::{number, numbers, object, reference};
use serde_json::{Value, json};

/// What there is to choose, or the values.
pub(super) fn dump() -> Value {
    let texts = || json!({ "type": "array", "items": { "type": "string" } });
    let index = object(&[("Descriptors", texts()), ("KeyPrefixes", texts()), ("Views", texts())]);
    let text = || json!({ "type": "string" });
    let one = object(&[("key", text()), ("state", reference("State")), ("value", json!(true))]);
    json!({ "anyOf": [index, { "type": "array", "items": one }] })
}

/// How it ended, and the graph if that is asked for.
pub(super) fn resync() -> Value {
    json!({ "anyOf": [object(&[("ended", reference("Ended")), ("graph", reference("Graph"))]), reference("Ended")] })
}

/// How often each word occurs.
pub(super) fn counts() -> Value {
    object(&[("TotalCount", number()), ("PerValueCount", numbers())])
}

/// Counters.
pub(super) fn stats() -> Value {
    let txns = object(&[
        ("TotalProcessed", number()),
        ("OperationCount", numbers()),
        ("ValueStateCount", numbers()),
        ("ErrorCount", number()),
        ("Methods", methods()),
    ]);
    object(&[
        ("vertices", number()),
        ("transactions", numbers()),
        ("events", numbers()),
        ("retries", number()),
        ("TxnStats", txns),
        ("AllDescriptors", methods()),
        ("Descriptors", json!({ "type": "object", "additionalProperties": methods() })),
    ])
}

/// How often each thing was done, and how many seconds that took.
fn methods() -> Value {
    let seconds = || json!({ "type": "number", "minimum": 0 });
    let method = object(&[
        ("name", json!({ "type": "string" })),
        ("count", number()),
        ("total", seconds()),
        ("avg", seconds()),
        ("min", seconds()),
        ("max", seconds()),
    ]);
    json!({ "type": "array", "items": method })
}
