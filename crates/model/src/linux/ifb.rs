//! `ifb`: an intermediate functional block, where incoming traffic is queued.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::link::LinkKind;
use crate::declare::DeclareLink;

/// What only this kind of link has: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ifb {}

impl DeclareLink for Ifb {
    const WORD: &'static str = "ifb";
    const ABOUT: &'static str = "An intermediate functional block: a place to queue what comes in.";

    fn into_kind(self) -> LinkKind {
        LinkKind::Ifb(self)
    }
}
