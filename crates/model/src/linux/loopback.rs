//! `loopback`: the link `lo` that every namespace comes with; it is configured, never made or removed.

use kilter_scheduler::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::error;
use super::link::{Link, LinkKind};
use crate::declare::DeclareLink;

/// What only this kind of link has: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loopback {}

impl DeclareLink for Loopback {
    const WORD: &'static str = "loopback";
    const ABOUT: &'static str =
        "The link `lo` that every namespace comes with; configured, never made or removed.";

    fn into_kind(self) -> LinkKind {
        LinkKind::Loopback(self)
    }
}

pub(super) fn check(link: &Link, errors: &mut Vec<FieldError>) {
    if link.name != "lo" {
        errors.push(error("name", "the loopback link is called `lo`"));
    }
    if link.fields.master.is_some() {
        errors.push(error("master", "the loopback link cannot be a port"));
    }
}
