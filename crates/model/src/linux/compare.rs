//! Comparing two values of a kind field by field: nothing to do, an update, or a re-creation with its reason.
//!
//! One rule everywhere: what the new value does not say is left as it is. Of links and ports one more: what is not said
//! any more gets back what it was before, so that the way back from a change leads to where it came from.

use std::sync::Arc;

use kilter_scheduler::{FieldError, Transition};
use serde::{Deserialize, Serialize};

/// That a value of a link or a port was read, and what the reader knows besides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The link is ours.
    pub ours: bool,
    /// The optional fields that were changed here and whose value before that is known.
    pub changed: Arc<[String]>,
}

/// Collects what the fields say about how one value becomes another.
#[derive(Default)]
pub(crate) struct Compared<'a> {
    changed: bool,
    reason: Option<String>,
    /// What is made of an optional field that the new value does not say any more.
    unsaid: Unsaid<'a>,
    /// The optional fields that get a value; gathered if there is a list.
    given: Option<Vec<&'static str>>,
}

/// What is made of an optional field that the new value does not say any more.
#[derive(Clone, Copy, Default)]
enum Unsaid<'a> {
    /// It is left as it is.
    #[default]
    Left,
    /// It gets back what it was, if it was declared, or read and known to have been changed.
    GivenBack(Option<&'a Reading>),
}

impl<'a> Compared<'a> {
    /// For values whose fields get back what they were; `old` says whether the old value was read.
    pub(crate) fn giving_back(old: Option<&'a Reading>) -> Self {
        Self { unsaid: Unsaid::GivenBack(old), ..Self::default() }
    }

    /// For values without a former value: a field that was declared and is not said any more is what it is by itself.
    /// What was read is not what was declared: of it, such a field is left.
    pub(crate) fn after(was_read: bool) -> Self {
        let unsaid = if was_read { Unsaid::Left } else { Unsaid::GivenBack(None) };
        Self { unsaid, ..Self::default() }
    }

    /// Gathers the optional fields that get another value.
    pub(crate) fn gathering() -> Self {
        Self { given: Some(Vec::new()), ..Self::default() }
    }

    /// The optional fields that get another value.
    pub(crate) fn given(self) -> Vec<&'static str> {
        self.given.unwrap_or_default()
    }

    /// A field that can be changed.
    pub(crate) fn field<T: PartialEq>(&mut self, old: &T, new: &T) {
        self.changed |= old != new;
    }

    /// A field that can be changed, and that may be left out.
    pub(crate) fn optional<T: PartialEq>(&mut self, name: &'static str, old: &Option<T>, new: &Option<T>) {
        if new.is_some() && old != new {
            self.changed = true;
            self.given.iter_mut().for_each(|given| given.push(name));
        } else if new.is_none() && old.is_some() {
            self.changed |= match self.unsaid {
                Unsaid::Left => false,
                Unsaid::GivenBack(None) => true,
                Unsaid::GivenBack(Some(read)) => read.changed.iter().any(|changed| changed == name),
            };
        }
    }

    /// A field that can be changed, but neither be added nor taken away.
    pub(crate) fn kept<T: PartialEq + Serialize>(
        &mut self,
        name: &'static str,
        old: &Option<T>,
        new: &Option<T>,
    ) {
        match (old, new) {
            (Some(_), Some(_)) => self.optional(name, old, new),
            (Some(_), None) if !matches!(self.unsaid, Unsaid::GivenBack(None)) => {}
            (None | Some(_), None) | (None, Some(_)) => self.fixed(name, old, new),
        }
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
        // One that was declared and is not said any more gets back what it was, too.
        if new.is_some() || matches!(self.unsaid, Unsaid::GivenBack(None)) {
            self.fixed(name, old, new);
        }
    }

    /// A field that can be said and changed at any time, and that only a new item does not have.
    pub(crate) fn until_fixed<T: PartialEq + Serialize>(
        &mut self,
        name: &'static str,
        old: &Option<T>,
        new: &Option<T>,
    ) {
        match new {
            Some(_) => self.optional(name, old, new),
            None => self.fixed_optional(name, old, new),
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
