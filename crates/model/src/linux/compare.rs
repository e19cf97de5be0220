//! Comparing two values of a kind field by field: nothing to do, an update, or a re-creation with its reason.
//!
//! One rule everywhere: what the new value does not say is left as it is.

use kilter_scheduler::{FieldError, Transition};
use serde::Serialize;

/// Collects what the fields say about how one value becomes another.
#[derive(Default)]
pub(crate) struct Compared {
    changed: bool,
    reason: Option<String>,
}

impl Compared {
    /// A field that can be changed.
    pub(crate) fn field<T: PartialEq>(&mut self, old: &T, new: &T) {
        self.changed |= old != new;
    }

    /// A field that can be changed, and that may be left out.
    pub(crate) fn optional<T: PartialEq>(&mut self, old: &Option<T>, new: &Option<T>) {
        self.changed |= new.is_some() && old != new;
    }

    /// A field that is fixed when the item is made.
    pub(crate) fn fixed<T: PartialEq + Serialize>(&mut self, name: &str, old: &T, new: &T) {
        if old != new && self.reason.is_none() {
            self.reason = Some(format!("{name} {} → {}", show(old), show(new)));
        }
    }

    /// A field that is fixed when the item is made, and that may be left out.
    pub(crate) fn fixed_optional<T: PartialEq + Serialize>(
        &mut self,
        name: &str,
        old: &Option<T>,
        new: &Option<T>,
    ) {
        if new.is_some() {
            self.fixed(name, old, new);
        }
    }

    /// What has to be done.
    pub(crate) fn transition(self) -> Transition {
        match self {
            Self { reason: Some(reason), .. } => Transition::Recreate { reason },
            Self { changed: true, .. } => Transition::InPlace,
            Self { .. } => Transition::Same,
        }
    }
}

fn show(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(serde_json::Value::Null) | Err(_) => "none".to_owned(),
        Ok(other) => other.to_string(),
    }
}

/// One thing wrong with one field.
pub(crate) fn error(path: impl Into<String>, message: impl Into<String>) -> FieldError {
    FieldError { path: path.into(), message: message.into() }
}

/// What is wrong with a list in which an entry stands twice.
pub(crate) fn twice<T: PartialEq>(path: &str, list: &[T], errors: &mut Vec<FieldError>) {
    for (at, one) in list.iter().enumerate() {
        if let Some(first) = list[..at].iter().position(|other| other == one) {
            errors.push(error(format!("{path}[{at}]"), format!("is the same as `{path}[{first}]`")));
        }
    }
}
