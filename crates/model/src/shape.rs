//! Shapes: what a value of a kind may look like, read once out of the kind's JSON Schema.
//!
//! The schema is the one source: editors get it as it is, the document is checked against its shape with places, the
//! reference pages and the order of fields in an export come from it.

use std::fmt;

use serde_json::{Map, Value};

/// What a value may look like.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Yes or no.
    Bool,
    /// A whole number.
    Number { min: i128, max: i128 },
    /// One of these words.
    Choice(Vec<Word>),
    /// A text; `format` names the rule for it.
    Text { format: Option<String>, max: Option<usize> },
    /// A list.
    List { of: Box<Shape>, unique: bool },
    /// A map with these fields.
    Fields(Vec<Field>),
    /// One of these, told apart by what the value is.
    Either(Vec<Shape>),
}

/// A word that may be chosen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Word {
    pub(crate) word: String,
    pub(crate) about: String,
}

/// A field of a map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) required: bool,
    pub(crate) shape: Shape,
}

impl Shape {
    /// The shape that a schema describes.
    ///
    /// **Assumes** a schema of our own: everything inline, only the forms that our kinds use.
    pub(crate) fn of(schema: &Value) -> Self {
        let text = |name: &str| schema.get(name).and_then(Value::as_str);
        if let Some(options) = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array) {
            return Self::either(options);
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            let word = |word: &Value| Word { word: plain(word), about: String::new() };
            return Self::Choice(words.iter().map(word).collect());
        }
        if let Some(word) = schema.get("const") {
            return Self::Choice(vec![Word {
                word: plain(word),
                about: text("description").unwrap_or_default().to_owned(),
            }]);
        }
        match type_of(schema) {
            "boolean" => Self::Bool,
            "integer" => {
                let bound = |name: &str| schema.get(name).and_then(Value::as_number).and_then(number);
                Self::Number {
                    min: bound("minimum").unwrap_or(i64::MIN.into()),
                    max: bound("maximum").unwrap_or(u64::MAX.into()),
                }
            }
            "array" => Self::List {
                of: Box::new(Self::of(schema.get("items").unwrap_or(&Value::Null))),
                unique: schema.get("uniqueItems") == Some(&Value::Bool(true)),
            },
            "object" => Self::Fields(fields(schema)),
            _ => Self::Text {
                format: text("format").map(str::to_owned),
                max: schema
                    .get("maxLength")
                    .and_then(Value::as_u64)
                    .and_then(|max| usize::try_from(max).ok()),
            },
        }
    }

    fn either(options: &[Value]) -> Self {
        let mut shapes: Vec<Self> = Vec::new();
        for option in options.iter().filter(|option| type_of(option) != "null") {
            match (Self::of(option), shapes.last_mut()) {
                (Self::Choice(more), Some(Self::Choice(words))) => words.extend(more),
                (shape, _) => shapes.push(shape),
            }
        }
        if shapes.len() == 1 { shapes.remove(0) } else { Self::Either(shapes) }
    }

    /// The fields, if it is a map or may be one.
    pub(crate) fn fields(&self) -> &[Field] {
        match self {
            Self::Fields(fields) => fields,
            Self::Either(shapes) => {
                shapes.iter().map(Self::fields).find(|fields| !fields.is_empty()).unwrap_or(&[])
            }
            Self::Bool | Self::Number { .. } | Self::Choice(_) | Self::Text { .. } | Self::List { .. } => &[],
        }
    }
}

impl fmt::Display for Shape {
    /// What is allowed, in words: `a number from 68 to 65536`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("`true` or `false`"),
            Self::Number { min, max } if *min <= i64::MIN.into() && *max >= i64::MAX.into() => {
                f.write_str("a number")
            }
            Self::Number { min, max } => write!(f, "a number from {min} to {max}"),
            Self::Choice(words) => {
                for (at, word) in words.iter().enumerate() {
                    let between = match at {
                        0 => "",
                        _ if at + 1 == words.len() => " or ",
                        _ => ", ",
                    };
                    write!(f, "{between}`{}`", word.word)?;
                }
                Ok(())
            }
            Self::Text { format, .. } => {
                f.write_str(format.as_deref().map_or("a text", super::document::formats::noun))
            }
            Self::List { of, .. } => write!(f, "a list, each of it {of}"),
            Self::Fields(_) => f.write_str("a map of fields"),
            Self::Either(shapes) => {
                for (at, shape) in shapes.iter().enumerate() {
                    write!(f, "{}{shape}", if at == 0 { "" } else { " or " })?;
                }
                Ok(())
            }
        }
    }
}

fn fields(schema: &Value) -> Vec<Field> {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let field = |(name, schema): (String, Value)| Field {
        required: required.iter().any(|one| one.as_str() == Some(&name)),
        about: about(&schema),
        shape: Shape::of(&schema),
        name,
    };
    properties.into_iter().map(field).collect()
}

fn about(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn type_of(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(name)) => name,
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or("null")
        }
        _ => "string",
    }
}

fn number(number: &serde_json::Number) -> Option<i128> {
    let small = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    #[expect(clippy::cast_possible_truncation, reason = "bounds in a schema are whole numbers")]
    small.or_else(|| number.as_f64().map(|number| number as i128))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Makes a schema say what the document does: no `null` for what may be left out, nothing but the known fields.
pub(crate) fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(map) => tidy_map(map),
        Value::Array(list) => list.iter_mut().for_each(tidy),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn tidy_map(map: &mut Map<String, Value>) {
    if let Some(Value::Array(names)) = map.get_mut("type") {
        names.retain(|name| name != "null");
        if let [one] = names.as_slice() {
            let one = one.clone();
            map.insert("type".to_owned(), one);
        }
    }
    for name in ["anyOf", "oneOf"] {
        let Some(Value::Array(options)) = map.get_mut(name) else { continue };
        options.retain(|option| option.get("type") != Some(&Value::from("null")));
        if let [Value::Object(one)] = options.as_slice() {
            let one = one.clone();
            map.shift_remove(name);
            map.extend(one.into_iter().filter(|(name, _)| name != "description"));
        }
    }
    if map.get("type") == Some(&Value::from("object")) {
        map.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    // Formats of integers say nothing that the bounds do not; defaults are told in words.
    if map.get("type") == Some(&Value::from("integer")) {
        map.shift_remove("format");
    }
    for name in ["title", "default"] {
        if map.get(name).is_some_and(|value| !value.is_object() || name == "default")
            && !map.contains_key("$schema")
        {
            map.shift_remove(name);
        }
    }
    map.values_mut().for_each(tidy);
}
