//! Writes JSON as YAML, always the same way: fields in the order of their shape, one entry per line.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::shape::{Field, Shape};

/// One document out of one item, with these fields first.
pub(crate) fn document(item: &Map<String, Value>, fields: &[Field]) -> String {
    let mut text = String::new();
    map(&mut text, item, fields, 0);
    text
}

/// The fields in the order of the shape; what the shape does not know comes last, by name.
fn ordered<'a>(
    item: &'a Map<String, Value>,
    fields: &'a [Field],
) -> Vec<(&'a str, &'a Value, Option<&'a Shape>)> {
    let known = fields.iter().filter_map(|field| {
        item.get(&field.name).map(|value| (field.name.as_str(), value, Some(&field.shape)))
    });
    let is_known = |name: &str| fields.iter().any(|field| field.name == name);
    let mut rest: Vec<_> = item.iter().filter(|(name, _)| !is_known(name)).collect();
    rest.sort_by_key(|(name, _)| *name);
    known.chain(rest.into_iter().map(|(name, value)| (name.as_str(), value, None))).collect()
}

fn map(text: &mut String, item: &Map<String, Value>, fields: &[Field], indent: usize) {
    for (at, (name, value, shape)) in ordered(item, fields).into_iter().enumerate() {
        if at > 0 {
            pad(text, indent);
        }
        text.push_str(name);
        text.push(':');
        node(text, value, shape, indent);
    }
}

/// What follows a field name.
fn node(text: &mut String, value: &Value, shape: Option<&Shape>, indent: usize) {
    if let Some(item) = filled(value) {
        text.push('\n');
        pad(text, indent + 2);
        map(text, item, shape.map_or(&[], Shape::fields), indent + 2);
        return;
    }
    let Some(list) = value.as_array().filter(|list| !list.is_empty()) else {
        return leaf(text, value, indent);
    };
    text.push('\n');
    let of = shape.and_then(|shape| if let Shape::List { of, .. } = shape { Some(&**of) } else { None });
    for value in list {
        pad(text, indent + 2);
        text.push('-');
        match filled(value) {
            Some(item) => {
                text.push(' ');
                map(text, item, of.map_or(&[], Shape::fields), indent + 4);
            }
            None => leaf(text, value, indent + 2),
        }
    }
}

/// The value as a map that has fields.
fn filled(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object().filter(|item| !item.is_empty())
}

fn leaf(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(content) if is_block(content) => {
            text.push_str(" |\n");
            for line in content.lines() {
                if !line.is_empty() {
                    pad(text, indent + 2);
                }
                text.push_str(line);
                text.push('\n');
            }
        }
        Value::String(content) if is_plain(content) => {
            let _ = writeln!(text, " {content}");
        }
        Value::String(content) => {
            let _ = writeln!(text, " {}", quoted(content));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            let _ = writeln!(text, " {value}");
        }
    }
}

fn pad(text: &mut String, indent: usize) {
    text.extend(std::iter::repeat_n(' ', indent));
}

/// Whether a text of several lines reads the same as a block.
fn is_block(text: &str) -> bool {
    let is_printable = |letter: char| letter == '\n' || matches!(letter, ' '..='~');
    text.len() > 1
        && text.ends_with('\n')
        && !text.ends_with("\n\n")
        && !text.starts_with([' ', '\n'])
        && text.chars().all(is_printable)
        && text.lines().all(|line| !line.ends_with(' '))
}

/// Whether a text is surely a text without quotes.
fn is_plain(text: &str) -> bool {
    let starts = text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '/');
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || "._/-+".contains(letter);
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"];
    let is_address = text.parse::<std::net::Ipv4Addr>().is_ok() || text.parse::<ipnet::Ipv4Net>().is_ok();
    is_address || starts && text.chars().all(is_safe) && !reserved.contains(&text.to_lowercase().as_str())
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            ' '..='~' => quoted.push(letter),
            _ if letter.is_alphanumeric() => quoted.push(letter),
            _ => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(letter));
            }
        }
    }
    quoted.push('"');
    quoted
}
