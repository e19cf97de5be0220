//! Exporting: items become a document again, always the same text for the same items.
//!
//! What a link derives stands inside the link: addresses, the binding to a bridge or VRF, borrowing. An export reads
//! back as the items it was made of, and exports as the same text.

use std::collections::BTreeMap;

use kilter_scheduler::{Key, ValueRef};
use serde_json::{Map, Value};

use crate::declare::DocumentKind;
use crate::kinds::KINDS;
use crate::linux::link::{AdminState, LinkFields, LinkKind};
use crate::linux::{BridgePort, Existing, Link, LinkAddress, Name, NetnsName, Port, Unnumbered, keys};
use crate::remote::{self, RemoteItem};
use crate::yaml;

/// The document of these items: base items, and what is derived from them.
///
/// Items that have no place in a document (what is foreign, what is derived from nothing that is listed) are left
/// out.
pub fn export<'a>(items: impl IntoIterator<Item = (&'a Key, &'a ValueRef)>) -> String {
    let items: BTreeMap<&Key, &ValueRef> = items.into_iter().collect();
    let mut bases: BTreeMap<(usize, &Key), ValueRef> = BTreeMap::new();
    for (key, value) in &items {
        // What is only configured here is made by somebody else.
        let is_theirs = value
            .downcast::<Link>()
            .is_some_and(|link| items.contains_key(&keys::existing(&link.netns, &link.name)));
        if let Some(rank) = rank(value).filter(|_| !is_theirs) {
            bases.insert((rank, key), joined(value, &items));
        }
    }
    let documents = bases.values().filter_map(document);
    documents.collect::<Vec<_>>().join("---\n")
}

/// One item as a document that is shown, without its secrets; `None` if it has none.
pub fn document(value: &ValueRef) -> Option<String> {
    if let Some(item) = RemoteItem::from_value(value) {
        return Some(yaml::document(&item.to_shown(), remote::first_fields()));
    }
    let (kind, json) = encode(value)?;
    Some(yaml::document(&json, kind.shape().fields()))
}

/// One item as the JSON of a document, secrets included; `None` if it has none.
pub fn to_json(value: &ValueRef) -> Option<Value> {
    let json = match RemoteItem::from_value(value) {
        Some(item) => item.to_json(),
        None => encode(value)?.1,
    };
    Some(Value::Object(json))
}

/// Why JSON is not the item of a document.
#[derive(Debug, thiserror::Error)]
pub enum ReadBackError {
    /// It does not say what kind it is of, or of one that does not exist.
    #[error("there is no kind `{word}`")]
    Kind {
        /// What it says.
        word: String,
    },
    /// It has not the shape of its kind.
    #[error("this is no item of kind `{word}`")]
    Shape {
        /// The kind.
        word: String,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
}

/// The item out of what [`to_json`] gave.
pub fn read_back(json: &Value) -> Result<(Key, ValueRef), ReadBackError> {
    if let Some(item) = RemoteItem::of(json) {
        return Ok((item.key(), ValueRef::new(item)));
    }
    let word = json.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(kind) = KINDS.iter().find(|kind| kind.word == word) else {
        return Err(ReadBackError::Kind { word });
    };
    let mut json = json.clone();
    if let Value::Object(fields) = &mut json {
        fields.shift_remove("kind");
    }
    match kind.decode(json) {
        Ok(typed) => Ok((typed.key, typed.value)),
        Err(source) => Err(ReadBackError::Shape { word, source }),
    }
}

fn encode(value: &ValueRef) -> Option<(&'static DocumentKind, Map<String, Value>)> {
    let (kind, json) = KINDS.iter().find_map(|kind| Some((kind, kind.encode(value)?)))?;
    let Value::Object(mut json) = json else { return None };
    json.insert("kind".to_owned(), Value::from(kind.word));
    Some((kind, json))
}

/// The place of the value's kind in the list of kinds; remote kinds come last.
fn rank(value: &ValueRef) -> Option<usize> {
    if RemoteItem::from_value(value).is_some() {
        return Some(KINDS.len());
    }
    KINDS.iter().position(|kind| kind.encode(value).is_some())
}

/// The value with what is derived from it, where only the derived items are known.
fn joined(value: &ValueRef, items: &BTreeMap<&Key, &ValueRef>) -> ValueRef {
    if let Some(link) = value.downcast::<Link>() {
        let mut link = link.clone();
        join(&link.netns, &link.name, &mut link.fields, items);
        if let LinkKind::Bridge(bridge) = &mut link.kind {
            join_ports(&link.netns, &link.name, &mut bridge.ports, items);
        }
        link.normalise();
        return ValueRef::new(link);
    }
    if let Some(existing) = value.downcast::<Existing>() {
        let mut existing = existing.clone();
        let Existing { netns, name, fields } = &mut existing;
        join(netns, name, fields, items);
        if items.contains_key(&keys::up(netns, name)) && fields.state.is_none() {
            fields.state = Some(AdminState::Up);
        }
        return ValueRef::new(existing);
    }
    value.clone()
}

fn join(netns: &NetnsName, name: &Name, fields: &mut LinkFields, items: &BTreeMap<&Key, &ValueRef>) {
    let prefix = Key::from(keys::addresses(netns, name));
    let below =
        items.range::<Key, _>(&prefix..).take_while(|(key, _)| key.as_str().starts_with(prefix.as_str()));
    for address in below.filter_map(|(_, value)| value.downcast::<LinkAddress>()) {
        if !fields.addresses.iter().any(|known| known.address == address.address.address) {
            fields.addresses.push(address.address.clone());
        }
    }
    let find = |key: Key| items.get(&key).copied();
    if let Some(unnumbered) = find(keys::unnumbered(netns, name)).and_then(ValueRef::downcast::<Unnumbered>) {
        fields.unnumbered.get_or_insert_with(|| unnumbered.lender.clone());
    }
    let port = find(keys::port(netns, name)).and_then(ValueRef::downcast::<Port>);
    let Some(port) = port.filter(|_| fields.master.is_none() && fields.vrf.is_none()) else { return };
    let master = find(keys::link(netns, &port.master)).and_then(ValueRef::downcast::<Link>);
    match master.map(|master| &master.kind) {
        Some(LinkKind::Vrf(_)) => fields.vrf = Some(port.master.clone()),
        Some(LinkKind::Bridge(_)) if !port.options.is_empty() => {}
        Some(LinkKind::Bridge(bridge)) if bridge.ports.iter().any(|known| known.link == *name) => {}
        Some(LinkKind::Bond(bond)) if bond.ports.contains(name) => {}
        _ => fields.master = Some(port.master.clone()),
    }
}

/// Ports with options stand in their bridge: a link has no place for them.
fn join_ports(
    netns: &NetnsName,
    bridge: &Name,
    ports: &mut Vec<BridgePort>,
    items: &BTreeMap<&Key, &ValueRef>,
) {
    let prefix = Key::from(format!("linux/port/{netns}/"));
    let below =
        items.range::<Key, _>(&prefix..).take_while(|(key, _)| key.as_str().starts_with(prefix.as_str()));
    for port in below.filter_map(|(_, value)| value.downcast::<Port>()) {
        let is_listed = ports.iter().any(|known| known.link == port.link);
        if port.master == *bridge && !port.options.is_empty() && !is_listed {
            ports.push(BridgePort { link: port.link.clone(), options: port.options.clone() });
        }
    }
}
