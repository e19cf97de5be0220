//! Declaring: from the JSON of one item, checked against its shape, to a typed value under its key.

use std::sync::OnceLock;

use kilter_scheduler::{FieldError, Key, ValueRef};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::linux::link::{Link, LinkFields, LinkKind};
use crate::linux::names::{Name, NetnsName};
use crate::linux::{Existing, keys, link};
use crate::shape::{Shape, tidy};

/// A typed value under its key, with what is wrong between its fields.
#[derive(Debug)]
pub(crate) struct Typed {
    pub(crate) key: Key,
    pub(crate) value: ValueRef,
    pub(crate) errors: Vec<FieldError>,
}

/// A kind that stands for itself in a document and in the scheduler.
pub trait Declare:
    DeserializeOwned + JsonSchema + Serialize + std::fmt::Debug + PartialEq + Send + Sync + 'static
{
    /// The word after `kind:`.
    const WORD: &'static str;
    /// What it is, in one sentence.
    const ABOUT: &'static str;
    /// The key.
    fn key(&self) -> Key;
    /// Puts the value into the one form that equal values share.
    fn normalise(&mut self) {}
    /// What is wrong between fields that are each right.
    fn check(&self) -> Vec<FieldError>;
}

/// A kind of link: what only it has.
pub(crate) trait DeclareLink: DeserializeOwned + JsonSchema {
    /// The word after `kind:`.
    const WORD: &'static str;
    /// What it is, in one sentence.
    const ABOUT: &'static str;
    /// The link.
    fn into_kind(self) -> LinkKind;
}

/// A word that may stand after `kind:`, and what may follow.
pub struct DocumentKind {
    /// The word.
    pub word: &'static str,
    /// What it is, in one sentence.
    pub about: &'static str,
    /// Whether it is a kind of link.
    pub is_link: bool,
    parts: fn(&mut SchemaGenerator) -> Vec<Value>,
    decode: fn(Value) -> Result<Typed, serde_json::Error>,
    encode: fn(&ValueRef) -> Option<Value>,
}

impl DocumentKind {
    /// A kind that stands for itself.
    pub(crate) const fn item<T: Declare>() -> Self {
        Self {
            word: T::WORD,
            about: T::ABOUT,
            is_link: false,
            parts: |generator| vec![T::json_schema(generator).into()],
            decode: |json| {
                let mut value: T = serde_json::from_value(json)?;
                value.normalise();
                Ok(Typed { key: value.key(), errors: value.check(), value: ValueRef::new(value) })
            },
            encode: |value| value.downcast::<T>().map(|_| value.to_json()),
        }
    }

    /// A kind of link.
    pub(crate) const fn link<T: DeclareLink>() -> Self {
        Self {
            word: T::WORD,
            about: T::ABOUT,
            is_link: true,
            parts: |generator| {
                vec![
                    Identity::json_schema(generator).into(),
                    T::json_schema(generator).into(),
                    LinkFields::json_schema(generator).into(),
                ]
            },
            decode: |json| {
                let Identity { name, netns } = Identity::of(&json)?;
                let fields: LinkFields = serde_json::from_value(json.clone())?;
                let kind = serde_json::from_value::<T>(json)?.into_kind();
                let mut link = Link { name, netns, kind, fields };
                link.normalise();
                Ok(Typed {
                    key: keys::link(&link.netns, &link.name),
                    errors: link::check(&link),
                    value: ValueRef::new(link),
                })
            },
            encode: |value| {
                value.downcast::<Link>().filter(|link| link.kind.word() == T::WORD).map(|_| value.to_json())
            },
        }
    }

    /// The value out of JSON that has the right shape.
    pub(crate) fn decode(&self, json: Value) -> Result<Typed, serde_json::Error> {
        (self.decode)(json)
    }

    /// The fields of a value of this kind as JSON; `None` if it is of another kind.
    pub(crate) fn encode(&self, value: &ValueRef) -> Option<Value> {
        (self.encode)(value)
    }

    /// The JSON Schema of one item of the kind, `kind` itself included.
    pub fn schema(&self) -> Value {
        let mut generator =
            SchemaSettings::draft2020_12().with(|all| all.inline_subschemas = true).into_generator();
        let mut properties = Map::new();
        properties
            .insert("kind".to_owned(), serde_json::json!({ "const": self.word, "description": self.about }));
        let mut required = vec![Value::from("kind")];
        for part in (self.parts)(&mut generator) {
            let Value::Object(mut part) = part else { continue };
            if let Some(Value::Object(more)) = part.remove("properties") {
                properties.extend(more);
            }
            if let Some(Value::Array(more)) = part.remove("required") {
                required.extend(more);
            }
        }
        let mut schema = serde_json::json!({
            "type": "object",
            "description": self.about,
            "properties": properties,
            "required": required,
        });
        tidy(&mut schema);
        if self.word == "veth" {
            declare_peer(&mut schema);
        }
        schema
    }

    /// The shape of one item of the kind.
    pub(crate) fn shape(&self) -> &'static Shape {
        static SHAPES: OnceLock<Vec<(&'static str, Shape)>> = OnceLock::new();
        let shapes = SHAPES
            .get_or_init(|| crate::KINDS.iter().map(|kind| (kind.word, Shape::of(&kind.schema()))).collect());
        let found = shapes.iter().find(|(word, _)| *word == self.word);
        &found.expect("every kind is in the list of kinds").1
    }
}

/// The peer of a veth may be declared inside it, with every field of a link.
fn declare_peer(schema: &mut Value) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let is_of_a_link = |name: &str| !matches!(name, "kind" | "peer");
    let fields: Map<String, Value> = properties
        .iter()
        .filter(|(name, _)| is_of_a_link(name))
        .map(|(name, one)| (name.clone(), one.clone()))
        .collect();
    let Some(peer) = properties.get_mut("peer") else { return };
    let about = peer.get("description").cloned().unwrap_or_default();
    let options = peer.get("anyOf").and_then(Value::as_array).cloned().unwrap_or_default();
    let short = options.first().cloned().unwrap_or_default();
    let long = serde_json::json!({
        "type": "object", "properties": fields, "required": ["name"], "additionalProperties": false,
    });
    *peer = serde_json::json!({ "description": about, "anyOf": [short, long] });
}

/// What names a link.
#[derive(serde::Deserialize, JsonSchema)]
struct Identity {
    /// The name of the link in its namespace.
    #[schemars(schema_with = "crate::linux::texts::link_name")]
    name: Name,
    /// The namespace; the agent's own if left out.
    #[serde(default)]
    netns: NetnsName,
}

impl Identity {
    fn of(json: &Value) -> Result<Self, serde_json::Error> {
        let part = |name: &str| json.get(name).cloned().unwrap_or_default();
        let mut own = Map::from_iter([("name".to_owned(), part("name"))]);
        if json.get("netns").is_some() {
            own.insert("netns".to_owned(), part("netns"));
        }
        serde_json::from_value(Value::Object(own))
    }
}

/// The form of a link as it is written down: what names it, its kind with what only that has, and the fields of a link.
impl<'de> serde::Deserialize<'de> for Link {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let json = Value::deserialize(deserializer)?;
        let Identity { name, netns } = Identity::of(&json).map_err(Error::custom)?;
        let fields = serde_json::from_value(json.clone()).map_err(Error::custom)?;
        let kind = serde_json::from_value(json).map_err(Error::custom)?;
        Ok(Self { name, netns, kind, fields })
    }
}

/// The form of an `existing` link in a document: what names it, and the fields of a link.
impl<'de> serde::Deserialize<'de> for Existing {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let json = Value::deserialize(deserializer)?;
        let Identity { name, netns } = Identity::of(&json).map_err(Error::custom)?;
        let fields = serde_json::from_value(json).map_err(Error::custom)?;
        Ok(Self { name, netns, fields })
    }
}

impl JsonSchema for Existing {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Existing".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> schemars::Schema {
        let mut schema = Identity::json_schema(generator);
        let fields = LinkFields::json_schema(generator);
        let more = fields.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.extend(more);
        }
        schema
    }
}
