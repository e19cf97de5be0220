//! Items of remote kinds: their descriptor and actuator live in another process, and only it knows their fields.
//!
//! Decided here: how such an item looks in a document, what its key is, and that a secret in it is never shown. Not decided
//! here: what its fields mean; the agent asks the process that registered the kind.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock};

use kilter_scheduler::{Key, ValueRef};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value};

use crate::shape::{Field, Shape};

/// What the names of our own kinds begin with.
const OURS: &[&str] = &["linux", "kilter"];

/// As long as the name of an item may be.
const LONGEST_NAME: usize = 255;

/// A field that holds a map with this one field holds a secret.
const SECRET: &str = "secret";

/// What is shown in place of a secret.
const HIDDEN: &str = "(hidden)";

/// The field of a recording that tells secrets apart, and is shown to nobody.
const SEALS: &str = "~secrets";

/// What secrets are told apart by: nobody who does not have the key, which is never written, learns one from it.
static SEAL: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// An item of a remote kind.
///
/// **Guarantees** that whatever shows it as a value, in JSON or for debugging, shows no secret. [`Self::to_json`] and
/// [`Self::told`] are for those who have to know.
#[derive(Clone, PartialEq)]
pub struct RemoteItem {
    /// The kind, for example `shop.shelf`.
    pub kind: Arc<str>,
    /// The name, which makes the key together with the kind.
    pub name: String,
    /// Everything else, secrets included.
    pub fields: Map<String, Value>,
}

impl Serialize for RemoteItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (shown, seals) = (self.shown(), self.seals());
        let mut map = serializer.serialize_map(Some(1 + shown.len() + usize::from(!seals.is_empty())))?;
        map.serialize_entry("name", &self.name)?;
        for (field, value) in &*shown {
            map.serialize_entry(field, value)?;
        }
        if !seals.is_empty() {
            map.serialize_entry(SEALS, &seals)?;
        }
        map.end()
    }
}

impl fmt::Debug for RemoteItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteItem")
            .field("kind", &self.kind)
            .field("name", &self.name)
            .field("fields", &self.shown())
            .finish()
    }
}

impl RemoteItem {
    /// The key: `shop/shelf/NAME`.
    pub fn key(&self) -> Key {
        Key::from(format!("{}{}", prefix(&self.kind), self.name))
    }

    /// The item with its kind, as it stands in a document, secrets included.
    pub fn to_json(&self) -> Map<String, Value> {
        self.with_kind(&self.fields)
    }

    /// The item with its kind, as it stands in a document that is shown.
    pub fn to_shown(&self) -> Map<String, Value> {
        self.with_kind(&self.shown())
    }

    fn with_kind(&self, fields: &Map<String, Value>) -> Map<String, Value> {
        let said = [("kind", &*self.kind), ("name", &self.name)];
        let said = said.into_iter().map(|(field, text)| (field.to_owned(), Value::from(text)));
        said.chain(fields.clone()).collect()
    }

    /// The item as its process is told of it: without the kind, secrets included.
    pub fn told(&self) -> Map<String, Value> {
        let name = ("name".to_owned(), Value::from(self.name.as_str()));
        std::iter::once(name).chain(self.fields.clone()).collect()
    }

    /// The fields, with [`HIDDEN`] in place of every secret.
    pub fn shown(&self) -> Cow<'_, Map<String, Value>> {
        if !self.secrets().any(|_| true) {
            return Cow::Borrowed(&self.fields);
        }
        let mut fields = self.fields.clone();
        replace_secrets(&mut fields, |secret| *secret = Value::from(HIDDEN));
        Cow::Owned(fields)
    }

    /// What each secret is told apart by; nothing for what is shown in place of one.
    fn seals(&self) -> Vec<Option<String>> {
        let seal = |secret: &Value| format!("{:016x}", SEAL.hash_one(secret.to_string()));
        self.secrets().map(|secret| (secret != HIDDEN).then(|| seal(secret))).collect()
    }

    /// The item of this kind out of a recording: secrets that were the same are the same, and none is known.
    pub fn recorded(kind: &str, json: &Value) -> Option<Self> {
        let mut whole = json.as_object()?.clone();
        let seals = whole.remove(SEALS).unwrap_or_default();
        whole.insert("kind".to_owned(), kind.into());
        let mut item = Self::of(&whole.into())?;
        let mut seals = seals.as_array().into_iter().flatten();
        replace_secrets(&mut item.fields, |secret| {
            if let Some(seal) = seals.next().and_then(Value::as_str) {
                *secret = Value::from(format!("(hidden {seal})"));
            }
        });
        Some(item)
    }

    /// Whether a secret of it is what is shown in place of one: nobody means that.
    pub fn is_shown(&self) -> bool {
        self.secrets().any(|secret| secret == HIDDEN)
    }

    /// What somebody says about it, with [`HIDDEN`] in place of every secret that they say.
    pub fn hide<'a>(&self, said: &'a str) -> Cow<'a, str> {
        let mut texts = Vec::new();
        let mut rest: Vec<&Value> = self.secrets().collect();
        while let Some(value) = rest.pop() {
            match value {
                Value::String(text) => {
                    // As it is, and as it stands within quotes.
                    let quoted = value.to_string();
                    let inside = quoted.get(1..quoted.len() - 1).unwrap_or_default();
                    texts.extend([text.clone(), inside.to_owned()]);
                }
                Value::Number(number) => texts.push(number.to_string()),
                Value::Object(map) => rest.extend(map.values()),
                Value::Array(list) => rest.extend(list),
                Value::Null | Value::Bool(_) => {}
            }
        }
        texts.retain(|text| !text.is_empty());
        // A longer one may hold a shorter one.
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        texts.iter().fold(Cow::Borrowed(said), |said, text| {
            if said.contains(text.as_str()) { Cow::Owned(said.replace(text, HIDDEN)) } else { said }
        })
    }

    /// Its secrets.
    fn secrets(&self) -> impl Iterator<Item = &Value> {
        let mut rest: Vec<&Value> = self.fields.values().collect();
        std::iter::from_fn(move || {
            loop {
                match rest.pop()? {
                    Value::Object(map) if is_secret(map) => return map.get(SECRET),
                    Value::Object(map) => rest.extend(map.values()),
                    Value::Array(list) => rest.extend(list),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
                }
            }
        })
    }

    /// The item out of what [`Self::to_json`] gave; `None` if it is of one of our own kinds, or has no good name.
    pub fn of(json: &Value) -> Option<Self> {
        let all = json.as_object()?;
        let kind = all.get("kind")?.as_str().filter(|kind| is_remote(kind))?.into();
        let name = all.get("name")?.as_str().filter(|name| is_name(name))?.to_owned();
        let others = all.iter().filter(|(field, _)| !["kind", "name"].contains(&field.as_str()));
        let fields = others.map(|(field, value)| (field.clone(), value.clone())).collect();
        Some(Self { kind, name, fields })
    }

    /// The value as such an item, if it is one.
    pub fn from_value(value: &ValueRef) -> Option<&Self> {
        value.downcast()
    }
}

/// Does something to every secret, in the order in which [`RemoteItem::secrets`] gives them.
fn replace_secrets(fields: &mut Map<String, Value>, mut replace: impl FnMut(&mut Value)) {
    let mut rest: Vec<&mut Value> = fields.values_mut().collect();
    while let Some(value) = rest.pop() {
        match value {
            Value::Object(map) if is_secret(map) => map.values_mut().for_each(&mut replace),
            Value::Object(map) => rest.extend(map.values_mut()),
            Value::Array(list) => rest.extend(list),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// Whether a map says that it holds a secret.
pub fn is_secret(map: &Map<String, Value>) -> bool {
    map.len() == 1 && map.contains_key(SECRET)
}

/// Whether a word after `kind:` names a remote kind: lower-case words joined by dots, the first of them not one of ours.
pub fn is_remote(word: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|letter: char| letter.is_ascii_lowercase())
            && word
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
    };
    word.contains('.')
        && word.split('.').all(is_word)
        && !OURS.contains(&word.split('.').next().unwrap_or_default())
}

/// What the keys of a remote kind begin with.
pub fn prefix(kind: &str) -> String {
    format!("{}/", kind.replace('.', "/"))
}

/// Whether an item may have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let is_good = |letter: char| !letter.is_control() && !letter.is_whitespace() && letter != '/';
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(is_good)
}

/// The fields that every such item has, which come first in a document.
pub(crate) fn first_fields() -> &'static [Field] {
    static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
        let field = |name: &str| Field {
            name: name.to_owned(),
            about: String::new(),
            required: true,
            shape: Shape::Text { format: None, max: None },
        };
        vec![field("kind"), field("name")]
    });
    &FIELDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_kind_has_a_dot_and_is_none_of_ours() {
        for word in ["shop.shelf", "example.org.thing-2"] {
            assert!(is_remote(word), "{word}");
        }
        for word in
            ["route", "linux.route", "Shop.shelf", "shop.", ".shelf", "shop..shelf", "shop/shelf", "kilter.x"]
        {
            assert!(!is_remote(word), "{word}");
        }
    }

    #[test]
    fn a_recording_tells_secrets_apart_without_holding_one() {
        let item = |one: &str, other: &str| {
            let json = serde_json::json!({ "kind": "shop.door", "name": "front", "code": { "secret": one },
                "more": [{ "pin": { "secret": other } }] });
            RemoteItem::of(&json).unwrap()
        };
        let recorded = |item: RemoteItem| {
            let json = ValueRef::new(item).to_whole_json();
            assert!(!json.to_string().contains("hunter"), "{json}");
            RemoteItem::recorded("shop.door", &json).unwrap()
        };
        let first = recorded(item("hunter2", "hunter3"));
        assert_eq!(first, recorded(item("hunter2", "hunter3")));
        let second = recorded(item("hunter2", "hunter4"));
        assert!(
            first.fields["code"] == second.fields["code"] && first.fields["more"] != second.fields["more"]
        );
        assert!(!first.is_shown() && recorded(item("hunter2", HIDDEN)).is_shown());
        assert_eq!(
            ValueRef::new(first).to_json(),
            ValueRef::new(item("a", "b")).to_json(),
            "shown as before"
        );
    }

    #[test]
    fn what_is_said_about_an_item_says_none_of_its_secrets() {
        let json = serde_json::json!({ "kind": "shop.door", "name": "front", "code": { "secret": 4711 },
            "keys": [{ "secret": "long" }, { "secret": { "of": ["longer \"one\"", ""] } }] });
        let door = RemoteItem::of(&json).unwrap();
        let said = door.hide("4711 does not fit, nor do a long and a longer \"one\": \"longer \\\"one\\\"\"");
        assert_eq!(said, "(hidden) does not fit, nor do a (hidden) and a (hidden): \"(hidden)\"");
        assert!(matches!(door.hide("front is shut"), Cow::Borrowed("front is shut")));
    }

    #[test]
    fn a_secret_is_shown_nowhere_and_told_to_those_who_must_know() {
        let accounts = serde_json::json!([{ "user": "a", "password": { "secret": "hunter2" } }]);
        let json = serde_json::json!({ "kind": "shop.door", "name": "front", "code": { "secret": 4711 },
            "accounts": accounts, "secret": "is a field like any other" });
        let item = RemoteItem::of(&json).unwrap();
        let value = ValueRef::new(item.clone());
        let shown =
            [value.to_json().to_string(), format!("{value:?}"), Value::from(item.to_shown()).to_string()];
        for shown in shown {
            assert!(!shown.contains("hunter2") && !shown.contains("4711"), "{shown}");
            assert_eq!(shown.matches(HIDDEN).count(), 2, "{shown}");
            assert!(shown.contains("like any other"), "{shown}");
        }
        assert_eq!(Value::from(item.to_json()), json);
        assert_eq!(item.told()["accounts"], accounts);
        assert!(!item.is_shown() && RemoteItem::of(&Value::from(item.to_shown())).unwrap().is_shown());
        let other = RemoteItem { fields: Map::new(), ..item.clone() };
        assert_ne!(ValueRef::new(other), value);
    }

    #[test]
    fn an_item_reads_back_as_itself() {
        let json =
            serde_json::json!({ "kind": "shop.shelf", "name": "top", "boards": [1, { "wide": true }] });
        let item = RemoteItem::of(&json).unwrap();
        assert_eq!((item.key().as_str(), Value::Object(item.to_json())), ("shop/shelf/top", json));
        for wrong in [
            serde_json::json!({ "kind": "netns", "name": "a" }),
            serde_json::json!({ "kind": "shop.shelf" }),
            serde_json::json!({ "kind": "shop.shelf", "name": "a/b" }),
        ] {
            assert_eq!(RemoteItem::of(&wrong), None);
        }
    }
}
