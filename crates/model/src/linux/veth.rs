//! `veth`: one end of a pair. The two ends are two items that need each other, each in any namespace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::link::LinkKind;
use super::names::LinkRef;
use crate::declare::DeclareLink;

/// What only one end of a pair has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Veth {
    /// The other end. With nothing but `name` and `netns` it is a reference to a document of its own; with any other
    /// field of a link, it declares the other end here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<LinkRef>,
}

impl DeclareLink for Veth {
    const WORD: &'static str = "veth";
    const ABOUT: &'static str = "One end of a pair of links; what goes in at one end comes out at the other.";

    fn into_kind(self) -> LinkKind {
        LinkKind::Veth(self)
    }
}
