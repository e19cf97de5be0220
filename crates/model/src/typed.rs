//! Values out of their JSON, whatever they are: declared, derived or observed.
//!
//! Decided here: which type the value of a key has. Not decided here: the form of documents, which have more ways to say
//! the same; see [`crate::document`].

use kilter_scheduler::{Key, Value as Typed, ValueRef};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::linux::{
    Existing, Fdb, Link, LinkAddress, Neighbour, Netns, Nftables, Port, Qdisc, Reach, Route, Rule, Sysctl,
    Unnumbered, Up,
};

/// Why JSON is not the value of a key.
#[derive(Debug, thiserror::Error)]
pub enum ReadValueError {
    /// Keys of this form belong to no kind.
    #[error("no kind owns the key `{key}`")]
    Key {
        /// The key.
        key: Key,
    },
    /// It has not the shape of its kind.
    #[error("this is no value of `{key}`")]
    Shape {
        /// The key.
        key: Key,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
}

/// The value of an item out of what [`ValueRef::to_whole_json`] gave: as it was, without being put into another form.
pub fn read_value(key: &Key, json: &Value) -> Result<ValueRef, ReadValueError> {
    let kind = key.as_str().strip_prefix("linux/").and_then(|rest| rest.split('/').next());
    let read = match kind {
        Some("netns") => typed::<Netns>(json),
        Some("link") => typed::<Link>(json),
        Some("existing") => typed::<Existing>(json),
        Some("up") => typed::<Up>(json),
        Some("port") => typed::<Port>(json),
        Some("address") => typed::<LinkAddress>(json),
        Some("unnumbered") => typed::<Unnumbered>(json),
        Some("reach") => typed::<Reach>(json),
        Some("route") => typed::<Route>(json),
        Some("rule") => typed::<Rule>(json),
        Some("neighbour") => typed::<Neighbour>(json),
        Some("fdb") => typed::<Fdb>(json),
        Some("sysctl") => typed::<Sysctl>(json),
        Some("nftables") => nftables(json),
        Some("qdisc") => typed::<Qdisc>(json),
        _ => return Err(ReadValueError::Key { key: key.clone() }),
    };
    read.map_err(|source| ReadValueError::Shape { key: key.clone(), source })
}

/// A table, with the digest that its maker left: no document may say it, so that reading a document leaves it out.
fn nftables(json: &Value) -> Result<ValueRef, serde_json::Error> {
    let mut table: Nftables = serde_json::from_value(json.clone())?;
    table.digest = json.get("digest").and_then(Value::as_str).map(str::to_owned);
    Ok(ValueRef::new(table))
}

fn typed<T: Typed + DeserializeOwned>(json: &Value) -> Result<ValueRef, serde_json::Error> {
    serde_json::from_value::<T>(json.clone()).map(ValueRef::new)
}
