//! `dummy`: a link that drops everything, to carry addresses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::link::LinkKind;
use crate::declare::DeclareLink;

/// What only this kind of link has: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dummy {}

impl DeclareLink for Dummy {
    const WORD: &'static str = "dummy";
    const ABOUT: &'static str = "A link that drops everything; it carries addresses.";

    fn into_kind(self) -> LinkKind {
        LinkKind::Dummy(self)
    }
}
