//! Rules: what the items of a remote kind need and derive, said as data with fields in braces.

use std::fmt;

use kilter_model::remote::is_secret;
use kilter_scheduler::Needs;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// More than any sane rule makes of one item.
const MOST: usize = 10_000;

/// The name of the element that a derived item is made for.
const EACH: &str = "each";

/// Why a rule cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no rule: {reason}")]
pub struct RuleError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// A text with fields in braces.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Text(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Plain(String),
    Field(Vec<String>),
}

impl Text {
    fn parse(text: &str) -> Result<Self, RuleError> {
        let wrong = |reason| RuleError { text: text.to_owned(), reason };
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find(['{', '}']) {
            let (plain, after) = rest.split_at(start);
            let Some(inside) = after.strip_prefix('{') else {
                return Err(wrong("there is a `}` without a `{`"));
            };
            let end = inside.find('}').ok_or_else(|| wrong("there is a `{` without a `}`"))?;
            let (field, after) = inside.split_at(end);
            if field.split('.').any(|step| step.is_empty() || step.contains(['{', ' '])) {
                return Err(wrong("there is no field between `{` and `}`"));
            }
            if !plain.is_empty() {
                parts.push(Part::Plain(plain.to_owned()));
            }
            parts.push(Part::Field(field.split('.').map(str::to_owned).collect()));
            rest = after.trim_start_matches('}');
        }
        if !rest.is_empty() {
            parts.push(Part::Plain(rest.to_owned()));
        }
        if parts.is_empty() { Err(wrong("it is empty")) } else { Ok(Self(parts)) }
    }

    /// The texts that it stands for: one for each element of a list, none if a field is missing.
    fn expand(&self, scope: Scope<'_>) -> Vec<String> {
        let mut texts = vec![String::new()];
        for part in &self.0 {
            match part {
                Part::Plain(plain) => texts.iter_mut().for_each(|text| text.push_str(plain)),
                Part::Field(path) => {
                    let found = scope.find(path).into_iter().filter_map(written);
                    let found: Vec<String> = found.take(MOST / texts.len().max(1)).collect();
                    texts = texts
                        .iter()
                        .flat_map(|text| found.iter().map(move |more| format!("{text}{more}")))
                        .collect();
                }
            }
        }
        texts
    }

    /// The field that it is, if it is nothing else.
    fn field(&self) -> Option<&[String]> {
        if let [Part::Field(path)] = self.0.as_slice() { Some(path) } else { None }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Plain(plain) => f.write_str(plain),
            Part::Field(path) => write!(f, "{{{}}}", path.join(".")),
        })
    }
}

/// A value as it stands within a text.
fn written(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Where fields are looked up.
#[derive(Clone, Copy)]
struct Scope<'a> {
    item: &'a Value,
    each: Option<&'a Value>,
}

impl<'a> Scope<'a> {
    /// What stands under a path; for a list on the way, what stands under each element. Nothing stands under a secret: it is
    /// passed on whole, so that it stays one.
    fn find(self, path: &[String]) -> Vec<&'a Value> {
        let (mut found, path) = match (self.each, path.split_first()) {
            (Some(each), Some((first, rest))) if first == EACH => (vec![each], rest),
            _ => (vec![self.item], path),
        };
        for step in path {
            let below =
                |value: &'a Value| value.get(step).filter(|_| !value.as_object().is_some_and(is_secret));
            found = found.into_iter().flat_map(elements).filter_map(below).collect();
        }
        found.into_iter().flat_map(elements).collect()
    }
}

/// The elements of a list, or the value itself.
fn elements(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        Value::Null => Vec::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => vec![value],
    }
}

/// What is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Needed {
    /// The item with this key.
    On,
    /// Any item whose key begins so.
    AnyOf,
    /// No observed item with this key.
    Absent,
}

/// Something that an item needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeedRule {
    needed: Needed,
    text: Text,
    to_create: bool,
}

impl NeedRule {
    /// Reads a rule.
    pub fn new(needed: Needed, text: &str, to_create: bool) -> Result<Self, RuleError> {
        Ok(Self { needed, text: Text::parse(text)?, to_create })
    }

    /// What was said to make it.
    pub fn said(&self) -> (Needed, String, bool) {
        (self.needed, self.text.to_string(), self.to_create)
    }

    /// Says what an item needs by this rule.
    pub fn apply(&self, item: &Value, needs: &mut Needs) {
        for text in self.text.expand(Scope { item, each: None }) {
            let added = match self.needed {
                Needed::On => needs.on(text),
                Needed::AnyOf => needs.any_of([text], None),
                Needed::Absent => needs.absent(text),
            };
            if self.to_create {
                added.to_create();
            }
        }
    }
}

/// Something that an item derives.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedRule {
    each: Option<Vec<String>>,
    item: Value,
}

impl DerivedRule {
    /// Reads a rule: a field that is a list, or nothing, and the derived item as JSON.
    pub fn new(each: &str, item: &str) -> Result<Self, RuleError> {
        let wrong = |reason| RuleError { text: item.to_owned(), reason };
        let item: Value = serde_json::from_str(item).map_err(|_| wrong("it is not JSON"))?;
        if item.get("kind").and_then(Value::as_str).is_none() {
            return Err(wrong("a derived item needs a `kind`"));
        }
        check(&item)?;
        let each = (!each.is_empty()).then(|| each.split('.').map(str::to_owned).collect());
        Ok(Self { each, item })
    }

    /// What was said to make it.
    pub fn said(&self) -> (String, String) {
        (self.each.as_ref().map(|path| path.join(".")).unwrap_or_default(), self.item.to_string())
    }

    /// What an item derives by this rule, as the JSON of documents.
    pub fn apply(&self, item: &Value) -> Vec<Value> {
        let whole = Scope { item, each: None };
        match &self.each {
            None => fill(&self.item, whole).into_iter().collect(),
            Some(path) => {
                let elements = whole.find(path).into_iter().take(MOST);
                elements.filter_map(|each| fill(&self.item, Scope { item, each: Some(each) })).collect()
            }
        }
    }
}

/// Whether every text of a template can be understood.
fn check(template: &Value) -> Result<(), RuleError> {
    match template {
        Value::String(text) if text.is_empty() => Ok(()),
        Value::String(text) => Text::parse(text).map(|_| ()),
        Value::Array(list) => list.iter().try_for_each(check),
        Value::Object(map) => map.values().try_for_each(check),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// The template with its fields filled in; nothing if a field is missing.
///
/// **Assumes** a template that is not deep: reading JSON refuses one that is.
fn fill(template: &Value, scope: Scope<'_>) -> Option<Value> {
    Some(match template {
        Value::String(text) if !text.is_empty() => {
            let text = Text::parse(text).ok()?;
            match text.field() {
                Some(path) => one_or_all(scope.find(path))?,
                None => Value::String(text.expand(scope).into_iter().next()?),
            }
        }
        Value::Array(list) => list.iter().filter_map(|one| fill(one, scope)).collect(),
        Value::Object(map) => {
            let filled = map.iter().filter_map(|(name, one)| Some((name.clone(), fill(one, scope)?)));
            Value::Object(filled.collect::<Map<_, _>>())
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
    })
}

/// What stands under a path as one value: the list, if there are several.
fn one_or_all(found: Vec<&Value>) -> Option<Value> {
    match found.as_slice() {
        [] => None,
        [one] => Some((*one).clone()),
        several => Some(several.iter().map(|value| (*value).clone()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn expand(text: &str, item: &Value) -> Vec<String> {
        Text::parse(text).unwrap().expand(Scope { item, each: None })
    }

    #[test]
    fn a_list_stands_for_each_of_its_elements_and_a_missing_field_for_nothing() {
        let item =
            json!({ "name": "n", "links": ["a", "b"], "peers": [{ "at": 1 }, { "at": 2 }], "none": null });
        assert_eq!(expand("link/{links}", &item), ["link/a", "link/b"]);
        assert_eq!(expand("{name}:{peers.at}", &item), ["n:1", "n:2"]);
        assert_eq!(expand("{links}-{peers.at}", &item), ["a-1", "a-2", "b-1", "b-2"]);
        assert!(expand("x{none}", &item).is_empty() && expand("x{other.deep}", &item).is_empty());
        assert_eq!(expand("plain", &item), ["plain"]);
    }

    #[test]
    fn what_is_no_rule_is_told() {
        for (text, reason) in [
            ("a{b", "there is a `{` without a `}`"),
            ("a}b", "there is a `}` without a `{`"),
            ("{}", "there is no field between `{` and `}`"),
            ("", "it is empty"),
        ] {
            assert_eq!(Text::parse(text).unwrap_err().reason, reason, "{text}");
        }
        assert_eq!(DerivedRule::new("", "{").unwrap_err().reason, "it is not JSON");
        assert_eq!(DerivedRule::new("", "{}").unwrap_err().reason, "a derived item needs a `kind`");
        assert!(DerivedRule::new("", r#"{"kind": "a.b", "name": "{x"}"#).is_err());
    }

    #[test]
    fn derived_items_keep_the_types_of_their_fields() {
        let rule = DerivedRule::new(
            "routes",
            r#"{"kind": "route", "to": "{each.to}", "metric": "{metric}", "via": "{each.via}", "name": "of {name}"}"#,
        );
        let item = json!({ "name": "n", "metric": 7, "routes": [{ "to": "a" }, { "to": "b", "via": "c" }] });
        let expected = [
            json!({ "kind": "route", "to": "a", "metric": 7, "name": "of n" }),
            json!({ "kind": "route", "to": "b", "metric": 7, "via": "c", "name": "of n" }),
        ];
        assert_eq!(rule.unwrap().apply(&item), expected);
    }
}
