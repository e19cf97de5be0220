//! The REST interface described: OpenAPI 3.1, out of a list of operations and the protobuf files.
//!
//! Decided here: how a message becomes a JSON Schema (its fields, its comments, the spelling of
//! [`crate::fields`]), and what every operation may answer. Not decided here: which operations there are; the agent
//! lists them where it serves them, so that what is described is what is there.
//!
//! **Why** out of the protobuf files: they say already what each field is, and no description can differ from them.

use std::collections::BTreeMap;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use serde_json::{Map, Value, json};

use crate::fields::{FLAT, MOMENTS, SPANS, STRICT, TEXTS, WORDS};
use crate::v1::FILES;

/// What a parameter may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Any text.
    Text,
    /// A whole number from 0.
    Number,
    /// A moment, in seconds since 1970.
    Seconds,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Texts, given again and again.
    Texts,
}

/// A parameter of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// What it may be.
    pub form: Form,
    /// Whether it must be there.
    pub is_needed: bool,
}

/// What is answered when it went well.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// A message.
    Message(&'static str),
    /// JSON of this shape, as a JSON Schema.
    Json(fn() -> Value),
    /// Text of this media type.
    Text(&'static str),
    /// JSON of this shape, or text for people.
    JsonOrText(fn() -> Value),
    /// A drawing, or what it is drawn from.
    Drawing,
    /// A message, or its progress as server-sent events.
    Progress(&'static str),
}

/// One operation of the REST interface.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The method, in small letters.
    pub method: &'static str,
    /// The path, with `{name}` for what varies.
    pub path: &'static str,
    /// What it is, in one sentence.
    pub about: &'static str,
    /// What may vary in the path.
    pub in_path: Vec<Parameter>,
    /// What may stand after `?`.
    pub query: Vec<Parameter>,
    /// What may stand in the header.
    pub header: Vec<Parameter>,
    /// The message of the body.
    pub body: Option<&'static str>,
    /// What is answered when it went well.
    pub answer: Answer,
    /// Further status codes that it may answer.
    pub also: Vec<u16>,
    /// The role that it needs, as a word.
    pub role: &'static str,
}

/// The status codes that every operation may answer.
const ALWAYS: &[u16] = &[400, 401, 403, 405, 408, 413, 414, 429, 431, 503];

/// What a status code says.
fn reason(code: u16) -> &'static str {
    match code {
        304 => "It is as it was when it was read.",
        400 => "What was asked cannot be understood, or a declared value is wrong.",
        401 => "Nobody knows who asks.",
        403 => "Whoever asks may not.",
        404 => "There is no such thing.",
        405 => "Not with this method.",
        408 => "What was asked took too long to arrive.",
        409 => "Something is in the way: another plan, a confirmation that is pending.",
        412 => "It is not as it was when it was read.",
        413 => "What was asked is too large.",
        414 => "The address is too long.",
        415 => "What was asked is no JSON.",
        429 => "Too much is asked in too short a time.",
        431 => "The header is too long.",
        503 => "The agent is starting, stopping, or has too much to do.",
        _ => "Something of the agent's own went wrong.",
    }
}

/// The whole description.
pub fn document(version: &str, operations: &[Operation]) -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in operations {
        paths.entry(operation.path).or_default().insert(operation.method.to_owned(), described(operation));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Kilter",
            "version": version,
            "description": "Keeps a machine in the state its owner declared. Errors are `application/problem+json`.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "certificate": { "type": "mutualTLS" },
            },
        },
        "security": [{ "token": [] }, { "certificate": [] }, {}],
    })
}

fn described(operation: &Operation) -> Value {
    let place = |place: &'static str| {
        move |parameter: &Parameter| {
            json!({
                "name": parameter.name,
                "in": place,
                "description": parameter.about,
                "required": parameter.is_needed || place == "path",
                "schema": form(parameter.form),
            })
        }
    };
    let mut parameters: Vec<Value> = operation.in_path.iter().map(place("path")).collect();
    parameters.extend(operation.query.iter().map(place("query")));
    parameters.extend(operation.header.iter().map(place("header")));
    let mut responses = Map::new();
    responses.insert("200".to_owned(), answered(operation.answer));
    let body = if operation.body.is_some() { &[415][..] } else { &[] };
    for code in ALWAYS.iter().chain(&operation.also).chain(body) {
        let mut answer = json!({ "description": reason(*code) });
        if *code != 304 {
            let schema = json!({ "$ref": "#/components/schemas/ProblemDocument" });
            answer["content"] = json!({ "application/problem+json": { "schema": schema } });
        }
        responses.insert(code.to_string(), answer);
    }
    let mut described = json!({
        "operationId": format!("{} {}", operation.method, operation.path),
        "summary": operation.about,
        "description": format!("Needs the role `{}`.", operation.role),
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(message) = operation.body {
        described["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": reference(message) } },
        });
    }
    described
}

fn answered(answer: Answer) -> Value {
    let content = match answer {
        Answer::Message(message) => json!({ "application/json": { "schema": reference(message) } }),
        Answer::Json(shape) => json!({ "application/json": { "schema": shape() } }),
        Answer::Text(media) => json!({ media: { "schema": { "type": "string" } } }),
        Answer::JsonOrText(shape) => json!({
            "application/json": { "schema": shape() },
            "text/plain": { "schema": { "type": "string" } },
        }),
        Answer::Drawing => json!({
            "image/svg+xml": { "schema": { "type": "string" } },
            "text/vnd.graphviz": { "schema": { "type": "string" } },
        }),
        Answer::Progress(message) => json!({
            "application/json": { "schema": reference(message) },
            "text/event-stream": { "schema": { "type": "string" } },
        }),
    };
    json!({ "description": "It went well.", "content": content })
}

fn form(form: Form) -> Value {
    match form {
        Form::Text => json!({ "type": "string" }),
        Form::Number => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        Form::Seconds => json!({ "type": "number", "minimum": 0 }),
        Form::Flag => json!({ "type": "boolean" }),
        Form::OneOf(words) => json!({ "type": "string", "enum": words }),
        Form::Texts => json!({ "type": "array", "items": { "type": "string" } }),
    }
}

/// The schema of a message, by its name.
pub fn reference(message: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{message}") })
}

/// The schema of a list of messages.
pub fn list(message: &str) -> Value {
    json!({ "type": "array", "items": reference(message) })
}

/// The schema of one message, or of a list of them.
pub fn one_or_list(message: &str) -> Value {
    json!({ "anyOf": [reference(message), list(message)] })
}

/// The schema of an object that has these fields, all of them.
pub fn object(fields: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    json!({ "type": "object", "properties": properties, "required": names })
}

/// The schema of a number from 0.
pub fn number() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

/// The schema of numbers from 0 by words.
pub fn numbers() -> Value {
    json!({ "type": "object", "additionalProperties": number() })
}

/// The JSON Schema of every message and enumeration.
///
/// # Panics
/// If the compiled protobuf files in this program cannot be read, which the build has done before.
pub fn schemas() -> Map<String, Value> {
    let files = FileDescriptorSet::decode(FILES).expect("the build wrote these files");
    let mut schemas = Map::new();
    for file in files.file.iter().filter(|file| file.package() == "kilter.v1") {
        let comments = comments(file);
        for (at, message) in file.message_type.iter().enumerate() {
            let about = |path: &[i32]| {
                let place = [&[4, i32::try_from(at).unwrap_or_default()], path].concat();
                comments.get(&place).cloned().unwrap_or_default()
            };
            schemas.insert(message.name().to_owned(), of_message(message, about));
        }
        for enumeration in &file.enum_type {
            schemas.insert(enumeration.name().to_owned(), of_enumeration(enumeration));
        }
    }
    schemas.insert("ProblemDocument".to_owned(), problem_document(schemas.get("Problem")));
    schemas
}

/// A problem as REST tells it: the fields of RFC 9457, then our own.
fn problem_document(problem: Option<&Value>) -> Value {
    let mut document = problem.cloned().unwrap_or_else(|| json!({ "properties": {} }));
    for (name, about, kind) in [
        ("type", "`about:blank`: the status says which problem it is.", "string"),
        ("title", "The status in words.", "string"),
        ("status", "The status.", "integer"),
        ("detail", "What was tried and why it failed, on one line.", "string"),
    ] {
        document["properties"][name] = json!({ "type": kind, "description": about });
    }
    document["required"] = json!(["type", "title", "status", "detail", "reason", "message"]);
    document
}

/// The comments of a file, by the path of what they stand above.
fn comments(file: &prost_types::FileDescriptorProto) -> BTreeMap<Vec<i32>, String> {
    let places = file.source_code_info.iter().flat_map(|source| &source.location);
    let told = places.filter(|place| place.leading_comments.is_some());
    told.map(|place| {
        let text = place.leading_comments().lines().map(str::trim).collect::<Vec<_>>().join(" ");
        (place.path.clone(), text.trim().to_owned())
    })
    .collect()
}

fn of_message(message: &DescriptorProto, about: impl Fn(&[i32]) -> String) -> Value {
    let mut properties = Map::new();
    for (at, field) in message.field.iter().enumerate() {
        let path = format!("{}.{}", message.name(), field.name());
        let mut schema = of_field(&path, field);
        schema["description"] = about(&[2, i32::try_from(at).unwrap_or_default()]).into();
        let place = match alternative(message, field) {
            None => &mut properties,
            Some(name) => {
                let among = properties.entry(name).or_insert_with(|| json!({ "type": ["object", "null"] }));
                let among = &mut among["properties"];
                if among.is_null() {
                    *among = json!({});
                }
                among.as_object_mut().expect("it was made an object above")
            }
        };
        place.insert(field.name().to_owned(), schema);
    }
    let mut schema = json!({ "type": "object", "description": about(&[]), "properties": properties });
    if STRICT.contains(&message.name()) {
        schema["additionalProperties"] = false.into();
    }
    schema
}

/// The name under which a field stands as one of several alternatives; `None` if it stands among the others.
fn alternative<'a>(message: &'a DescriptorProto, field: &FieldDescriptorProto) -> Option<&'a str> {
    let at = field.oneof_index.filter(|_| !field.proto3_optional())?;
    let name = message.oneof_decl.get(usize::try_from(at).ok()?)?.name();
    let path = format!("{}.{name}", message.name());
    (!FLAT.contains(&path.as_str())).then_some(name)
}

fn of_field(path: &str, field: &FieldDescriptorProto) -> Value {
    let is_one_of = |list: &[&str]| list.iter().any(|end| ends_with(path, end));
    if is_one_of(TEXTS) {
        return json!({});
    }
    if is_one_of(MOMENTS) {
        return json!({ "type": ["string", "null"], "format": "date-time" });
    }
    if is_one_of(SPANS) {
        return json!({ "type": ["string", "number", "null"], "examples": ["2m", 120] });
    }
    let words = WORDS.iter().any(|(end, _)| ends_with(path, end));
    let name = field.type_name().rsplit('.').next().unwrap_or_default();
    let single = match field.r#type() {
        Type::Bool => json!({ "type": "boolean" }),
        Type::String => json!({ "type": "string" }),
        Type::Uint32 => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        Type::Enum if words => reference(name),
        Type::Message => reference(name),
        Type::Double | Type::Float => json!({ "type": "number" }),
        Type::Bytes => {
            json!({ "type": "array", "items": { "type": "integer", "minimum": 0, "maximum": 255 } })
        }
        Type::Uint64 | Type::Fixed32 | Type::Fixed64 => json!({ "type": "integer", "minimum": 0 }),
        // An enumeration without words is written as its number.
        Type::Enum
        | Type::Group
        | Type::Int32
        | Type::Int64
        | Type::Sint32
        | Type::Sint64
        | Type::Sfixed32
        | Type::Sfixed64 => json!({ "type": "integer" }),
    };
    if field.label() == Label::Repeated {
        return json!({ "type": "array", "items": single });
    }
    let may_be_absent =
        field.proto3_optional() || field.r#type() == Type::Message || field.oneof_index.is_some();
    if may_be_absent { json!({ "anyOf": [single, { "type": "null" }] }) } else { single }
}

/// Whether a path ends with whole words.
fn ends_with(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// An enumeration: its words, without the prefix that protobuf asks for.
fn of_enumeration(enumeration: &EnumDescriptorProto) -> Value {
    let first = enumeration.value.first().map(|value| value.name().to_owned()).unwrap_or_default();
    let prefix = first.strip_suffix("UNSPECIFIED").unwrap_or_default();
    let words: Vec<&str> =
        enumeration.value.iter().map(|value| value.name().trim_start_matches(prefix)).collect();
    json!({ "type": "string", "enum": words })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_says_what_the_file_says() {
        let schemas = schemas();
        let item = &schemas["Item"];
        assert_eq!(item["description"], "One item.");
        assert_eq!(item["properties"]["state"]["$ref"], "#/components/schemas/State");
        assert_eq!(
            item["properties"]["declared"]["description"],
            "What shall be, as JSON; empty if nothing shall be."
        );
        assert_eq!(item["properties"]["declared"].get("type"), None, "a value is whatever its kind says");
        assert!(schemas["State"]["enum"].as_array().unwrap().contains(&"CONFIGURED".into()));
        assert_eq!(schemas["PlanBody"]["additionalProperties"], false);
    }

    #[test]
    fn what_is_written_is_what_is_described() {
        let item = crate::v1::Item { declared_by: vec![Default::default()], ..Default::default() };
        for (message, written) in [
            ("Item", serde_json::to_value(&item).unwrap()),
            ("Health", serde_json::to_value(crate::v1::Health::default()).unwrap()),
            ("Plan", serde_json::to_value(crate::v1::Plan::default()).unwrap()),
            ("Transaction", serde_json::to_value(crate::v1::Transaction::default()).unwrap()),
        ] {
            let described = schemas()[message]["properties"].clone();
            let names = |value: &Value| {
                let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
                names.sort();
                names
            };
            assert_eq!(names(&written), names(&described), "{message}");
        }
    }
}
