//! A remote kind: described by data, made real over a line.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jsonschema::Validator;
use kilter_model::document::{self, Source};
use kilter_model::export;
use kilter_model::remote::{RemoteItem, prefix};
use kilter_scheduler::{
    Answer, Derived, Descriptor, Failure, FieldError, Key, KeyPattern, Needs, Reads, Transition, ValueRef,
};
use kilter_southbound::{Actuator, Batch, BoxFuture};
use serde_json::Value;

use super::line::Line;
use super::rules::{DerivedRule, NeedRule};

/// What a process says about a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Its name.
    pub kind: Arc<str>,
    /// What it is, in one sentence.
    pub about: String,
    /// The JSON Schema of an item; `None` if anything may be declared.
    pub schema: Option<Value>,
    /// What an item needs.
    pub needs: Vec<NeedRule>,
    /// What an item derives.
    pub derived: Vec<DerivedRule>,
    /// Fields that cannot be changed in place.
    pub recreate_on: Vec<String>,
    /// Whether items cannot be read back.
    pub unreadable: bool,
    /// Whether the process wants to check items before they are declared.
    pub checks: bool,
}

/// A kind that a process makes real, or did.
pub struct RemoteKind {
    /// What it is.
    pub description: Description,
    validator: Option<Validator>,
    keys: KeyPattern,
    line: Mutex<Arc<Line>>,
    /// Whether its items come out of a recording, which holds no secrets.
    is_replayed: bool,
}

/// Why a kind cannot be described so.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    /// The name is none, or one of ours.
    #[error(
        "`{kind}` is no name of a remote kind, hint: lower-case words joined by dots, such as `shop.shelf`"
    )]
    Name {
        /// The name.
        kind: String,
    },
    /// The schema is none.
    #[error("the schema of kind `{kind}` is none: {reason}")]
    Schema {
        /// The kind.
        kind: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl RemoteKind {
    /// A kind that is made real over this line.
    pub fn new(description: Description, line: Arc<Line>) -> Result<Self, DescribeError> {
        let kind = description.kind.to_string();
        let keys = KeyPattern::parse(&format!("{}*", prefix(&kind))).ok();
        let keys = keys.filter(|_| kilter_model::remote::is_remote(&kind));
        let Some(keys) = keys else { return Err(DescribeError::Name { kind }) };
        let validator = description.schema.as_ref().map(jsonschema::validator_for).transpose();
        let validator =
            validator.map_err(|error| DescribeError::Schema { kind, reason: error.to_string() })?;
        Ok(Self { description, validator, keys, line: Mutex::new(line), is_replayed: false })
    }

    /// A kind out of a recording, that nobody makes real.
    pub fn replayed(description: Description) -> Result<Self, DescribeError> {
        let (line, _) = Line::open("replay", Duration::ZERO);
        Ok(Self { is_replayed: true, ..Self::new(description, line)? })
    }

    /// The line to the process.
    pub fn line(&self) -> Arc<Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another process makes the kind real from now on, or the same one again.
    pub fn set_line(&self, line: Arc<Line>) {
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }

    fn violations(&self, item: &Value) -> Vec<FieldError> {
        let Some(validator) = &self.validator else { return Vec::new() };
        // What stands for a secret in a recording has not its form.
        let errors = validator.iter_errors(item);
        let errors =
            errors.filter(|error| !(self.is_replayed && is_secret(item, error.instance_path().as_str())));
        let wrong = errors.map(|error| {
            let path = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
            // The words of an error hold what is wrong, and that may be a secret.
            let message =
                if is_of_secret(item, &error) { error.masked().to_string() } else { error.to_string() };
            FieldError { path, message }
        });
        wrong.collect()
    }

    fn derived_items(&self, item: &Value) -> impl Iterator<Item = Value> {
        self.description.derived.iter().flat_map(|rule| rule.apply(item)).collect::<Vec<_>>().into_iter()
    }
}

/// Whether a secret, or the map that says so, stands under this path.
fn is_secret(item: &Value, path: &str) -> bool {
    let says_so = |path: &str| {
        let map = item.pointer(path).and_then(Value::as_object);
        !path.is_empty() && map.is_some_and(|map| map.len() == 1 && map.contains_key("secret"))
    };
    says_so(path) || path.strip_suffix("/secret").is_some_and(says_so)
}

/// Whether an error is about a secret, or about something with one in it.
fn is_of_secret(item: &Value, error: &jsonschema::ValidationError<'_>) -> bool {
    let path = error.instance_path().as_str();
    let Some(whole) = RemoteItem::of(item) else { return true };
    let shown = Value::Object(whole.to_shown());
    shown.pointer(path) != item.pointer(path)
}

/// The item of a value with its kind and name, as rules and schemas see it.
fn item_of(value: &ValueRef) -> Option<Value> {
    RemoteItem::from_value(value).map(|item| Value::Object(item.to_json()))
}

/// What the scheduler must know about a remote kind.
pub struct RemoteDescriptor(pub Arc<RemoteKind>);

impl Descriptor for RemoteDescriptor {
    fn kind(&self) -> &str {
        &self.0.description.kind
    }

    fn keys(&self) -> Vec<KeyPattern> {
        vec![self.0.keys.clone()]
    }

    fn validate(&self, _key: &Key, value: &ValueRef) -> Vec<FieldError> {
        let Some(item) = item_of(value) else {
            let message = format!("the value is not one of kind `{}`", self.kind());
            return vec![FieldError { path: String::new(), message }];
        };
        let mut wrong = self.0.violations(&item);
        if RemoteItem::from_value(value).is_some_and(RemoteItem::is_shown) {
            let message = "a secret stands here as it is shown, hint: say what it is";
            wrong.push(FieldError { path: String::new(), message: message.to_owned() });
        }
        for derived in self.0.derived_items(&item) {
            if let Err(problems) = document::read(&[Source::new("derived", derived.to_string())]) {
                let told = problems.0.into_iter().map(|problem| FieldError {
                    path: String::new(),
                    message: format!("an item that it derives is wrong: {}", problem.message),
                });
                wrong.extend(told);
            }
        }
        wrong
    }

    fn needs(&self, _key: &Key, value: &ValueRef, needs: &mut Needs) {
        if let Some(item) = item_of(value) {
            self.0.description.needs.iter().for_each(|rule| rule.apply(&item, needs));
        }
    }

    fn derive(&self, _key: &Key, value: &ValueRef, derived: &mut Derived) {
        let Some(item) = item_of(value) else { return };
        for json in self.0.derived_items(&item) {
            // One that cannot be read makes the value invalid.
            if let Ok((key, value)) = export::read_back(&json) {
                derived.item_ref(key, value);
            }
        }
    }

    fn transition(&self, _key: &Key, old: &ValueRef, new: &ValueRef) -> Transition {
        if old == new {
            return Transition::Same;
        }
        let (Some(old), Some(new)) = (RemoteItem::from_value(old), RemoteItem::from_value(new)) else {
            return Transition::Recreate { reason: "the value has another type".to_owned() };
        };
        let differs = |field: &&String| old.fields.get(*field) != new.fields.get(*field);
        match self.0.description.recreate_on.iter().find(differs) {
            Some(field) => {
                let shown = |item: &RemoteItem| {
                    item.shown().get(field).map_or("nothing".to_owned(), Value::to_string)
                };
                Transition::Recreate { reason: format!("{field} {} → {}", shown(old), shown(new)) }
            }
            None => Transition::InPlace,
        }
    }

    fn reads(&self) -> Reads {
        if self.0.description.unreadable { Reads::Never } else { Reads::Itself }
    }
}

/// Makes a remote kind real.
pub struct RemoteActuator(pub Arc<RemoteKind>);

impl Actuator for RemoteActuator {
    fn perform(&self, mut batch: Batch) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let line = self.0.line();
            let deadline = batch.deadline();
            let assignments = batch.take_all();
            match line.trouble() {
                None => line.perform(assignments, deadline).await,
                Some(trouble) => {
                    let failed = Answer::Failed(Failure::retriable(trouble));
                    assignments.into_iter().for_each(|assignment| assignment.answer(failed.clone()));
                }
            }
        })
    }
}
