//! Checks a tree against the shape of its kind: everything that is wrong, at the place where it stands.
//!
//! What is right is kept as JSON, what is wrong is left out of it, so that one bad field does not hide what is wrong
//! between two others.

use serde_json::{Map, Number, Value};

use super::formats;
use super::hint;
use super::place::Spot;
use super::tree::{Content, Entry, Node};
use crate::shape::{Field, Shape, Word};

/// One thing that is wrong, before it is known in which file.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) spot: Spot,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// Collects what is wrong with one item.
#[derive(Default)]
pub(crate) struct Check {
    pub(crate) found: Vec<Found>,
    /// The paths of what was left out because it is wrong.
    pub(crate) wrong: Vec<String>,
}

impl Check {
    pub(crate) fn report(&mut self, spot: Spot, message: impl Into<String>, hint: Option<String>) {
        self.found.push(Found { spot, message: message.into(), hint });
    }

    fn refuse(
        &mut self,
        node: &Node,
        path: &str,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Option<Value> {
        self.report(node.spot, message, hint);
        self.wrong.push(path.to_owned());
        None
    }

    /// Whether what was found already is the reason for what is wrong between fields: a field of that path is wrong
    /// itself, or one that the message names; or a field is missing, and some are not understood.
    pub(crate) fn explains(&self, path: &str, message: &str) -> bool {
        let first = |path: &str| path.split(['.', '[']).next().unwrap_or_default().to_owned();
        let is_named = |wrong: &String| message.contains(&format!("`{}`", first(wrong)));
        let is_inside = |wrong: &String| !path.is_empty() && wrong.starts_with(path);
        (path.is_empty() && !self.found.is_empty())
            || self.wrong.iter().any(|wrong| is_named(wrong) || is_inside(wrong))
    }

    /// The value as JSON, without what is wrong; `None` if the value itself is.
    pub(crate) fn value(&mut self, node: &Node, shape: &Shape, path: &str) -> Option<Value> {
        match (shape, &node.content) {
            (_, Content::Null) => {
                let hint = format!("leave the line out, or give it {shape}");
                self.refuse(node, path, format!("`{path}` has no value"), Some(hint))
            }
            (Shape::Bool, Content::Bool(value)) => Some(Value::Bool(*value)),
            (Shape::Number { min, max }, Content::Int(number)) => {
                let fits = (min..=max).contains(&number);
                let exact = i64::try_from(*number)
                    .map(Number::from)
                    .or_else(|_| u64::try_from(*number).map(Number::from));
                match exact {
                    Ok(exact) if fits => Some(Value::Number(exact)),
                    _ => self.refuse(node, path, format!("`{path}` must be {shape}, not {number}"), None),
                }
            }
            (Shape::Choice(words), Content::Text(text)) => self.choice(node, words, shape, path, text),
            (Shape::Text { format, max }, Content::Text(text)) => {
                self.text(node, format.as_deref(), *max, path, text)
            }
            (Shape::List { of, unique }, Content::List(list)) => Some(self.list(list, of, *unique, path)),
            (Shape::Fields(fields), Content::Map(entries)) => {
                Some(self.fields(node, entries, fields, path, path))
            }
            (Shape::Either(shapes), _) => match shapes.iter().find(|shape| suits(shape, &node.content)) {
                Some(shape) => self.value(node, shape, path),
                None => self.mismatch(node, shape, path),
            },
            _ => self.mismatch(node, shape, path),
        }
    }

    fn mismatch(&mut self, node: &Node, shape: &Shape, path: &str) -> Option<Value> {
        let hint = match (shape, &node.content) {
            (Shape::List { .. }, Content::Text(text)) => Some(format!("write `[{text}]`")),
            (
                Shape::Text { .. } | Shape::Choice(_),
                Content::Int(_) | Content::Float(_) | Content::Bool(_),
            ) => Some("put it in quotes".to_owned()),
            (Shape::Bool, Content::Text(text)) => match text.to_lowercase().as_str() {
                "yes" | "on" | "true" => Some("did you mean `true`?".to_owned()),
                "no" | "off" | "false" => Some("did you mean `false`?".to_owned()),
                _ => None,
            },
            (Shape::Number { .. }, Content::Text(text)) if text.parse::<i128>().is_ok() => {
                Some("write it without quotes".to_owned())
            }
            _ => None,
        };
        let message = format!("`{path}` must be {shape}, not {}", describe(&node.content));
        self.refuse(node, path, message, hint)
    }

    fn choice(
        &mut self,
        node: &Node,
        words: &[Word],
        shape: &Shape,
        path: &str,
        text: &str,
    ) -> Option<Value> {
        if words.iter().any(|word| word.word == text) {
            return Some(Value::from(text));
        }
        let meant = hint::closest(text, words.iter().map(|word| word.word.as_str()));
        let hint = meant.map(|word| format!("did you mean `{word}`?"));
        self.refuse(node, path, format!("`{path}` must be {shape}, not `{text}`"), hint)
    }

    fn text(
        &mut self,
        node: &Node,
        format: Option<&str>,
        max: Option<usize>,
        path: &str,
        text: &str,
    ) -> Option<Value> {
        let checked = format.map_or(Ok(()), |format| formats::check(format, text));
        let checked = checked.and_then(|()| match max {
            Some(max) if text.len() > max => {
                let what = format!("a text of at most {max} bytes, and this one has {}", text.len());
                Err(formats::Refused { what, hint: None })
            }
            Some(_) if text.is_empty() => Err(formats::Refused { what: "a text".to_owned(), hint: None }),
            _ => Ok(()),
        });
        match checked {
            Ok(()) => Some(Value::from(text)),
            Err(formats::Refused { what, hint }) => {
                let written =
                    if text.is_empty() { "nothing".to_owned() } else { format!("`{}`", shortened(text)) };
                self.refuse(node, path, format!("`{path}` must be {what}, not {written}"), hint)
            }
        }
    }

    fn list(&mut self, list: &[Node], of: &Shape, unique: bool, path: &str) -> Value {
        let mut values: Vec<Value> = Vec::new();
        for (at, node) in list.iter().enumerate() {
            let path = format!("{path}[{at}]");
            let Some(value) = self.value(node, of, &path) else { continue };
            if unique && values.contains(&value) {
                self.refuse(node, &path, format!("`{path}` is in the list already"), None);
                continue;
            }
            values.push(value);
        }
        Value::Array(values)
    }

    /// Checks a map. `noun` is what people call the thing that has the fields.
    pub(crate) fn fields(
        &mut self,
        node: &Node,
        entries: &[Entry],
        fields: &[Field],
        path: &str,
        noun: &str,
    ) -> Value {
        let noun = if noun.is_empty() { path } else { noun };
        let mut map = Map::new();
        let mut seen: Vec<&Entry> = Vec::new();
        let mut meant: Vec<&str> = Vec::new();
        for entry in entries {
            if let Some(first) = seen.iter().find(|first| first.name == entry.name) {
                let message = format!("`{}` is given twice, first in line {}", entry.name, first.spot.line);
                self.report(entry.spot, message, None);
                continue;
            }
            seen.push(entry);
            let Some(field) = fields.iter().find(|field| field.name == entry.name) else {
                meant.extend(self.unknown_field(entry, fields, noun));
                continue;
            };
            let path = if path.is_empty() { field.name.clone() } else { format!("{path}.{}", field.name) };
            if let Some(value) = self.value(&entry.node, &field.shape, &path) {
                map.insert(field.name.clone(), value);
            }
        }
        for field in fields.iter().filter(|field| field.required) {
            let is_there = entries.iter().any(|entry| entry.name == field.name);
            if !is_there && !meant.contains(&field.name.as_str()) {
                let hint = format!("`{}` is {}", field.name, field.shape);
                let spot = node.get("kind").map_or(node.spot, |kind| kind.spot);
                self.report(spot, format!("{} needs `{}`", article(noun), field.name), Some(hint));
            }
        }
        Value::Object(map)
    }

    /// Reports a field that the kind does not have; the answer is the one that was probably meant.
    fn unknown_field<'a>(&mut self, entry: &Entry, fields: &'a [Field], noun: &str) -> Option<&'a str> {
        let names = || fields.iter().map(|field| field.name.as_str());
        let meant = hint::closest(&entry.name.replace('_', "-"), names());
        let hint = match meant {
            Some(name) => format!("did you mean `{name}`?"),
            None if entry.name == "name" => "it has none: it is known by what it says".to_owned(),
            None => format!("the fields are {}", hint::list(names())),
        };
        self.report(entry.spot, format!("{} has no field `{}`", article(noun), entry.name), Some(hint));
        meant
    }
}

/// Whether a value of that sort is what the shape is about.
fn suits(shape: &Shape, content: &Content) -> bool {
    matches!(
        (shape, content),
        (Shape::Bool, Content::Bool(_))
            | (Shape::Number { .. }, Content::Int(_))
            | (Shape::Choice(_) | Shape::Text { .. }, Content::Text(_))
            | (Shape::List { .. }, Content::List(_))
            | (Shape::Fields(_), Content::Map(_))
    )
}

/// What was written, for people.
pub(crate) fn describe(content: &Content) -> String {
    match content {
        Content::Null => "nothing".to_owned(),
        Content::Bool(value) => format!("`{value}`"),
        Content::Int(number) => number.to_string(),
        Content::Float(number) => number.to_string(),
        Content::Text(text) => format!("the text `{}`", shortened(text)),
        Content::List(_) => "a list".to_owned(),
        Content::Map(_) => "a map of fields".to_owned(),
    }
}

fn shortened(text: &str) -> String {
    let line: String =
        text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(60).collect();
    if text.chars().count() > 60 { format!("{line}…") } else { line }
}

/// The noun with its article; a path keeps its quotes.
fn article(noun: &str) -> String {
    if noun.contains(['[', '.']) || noun.is_empty() {
        return format!("`{noun}`");
    }
    let an = noun.starts_with(['a', 'e', 'i', 'o', 'u']) && !noun.starts_with("un");
    match noun {
        "peer" => "the peer".to_owned(),
        _ if an || noun == "fdb" || noun == "nftables" => format!("an `{noun}`"),
        _ => format!("a `{noun}`"),
    }
}
