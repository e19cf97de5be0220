//! `vrf`: a routing domain of its own; links are bound to it with their field `vrf`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::link::LinkKind;
use super::names::Table;
use crate::declare::DeclareLink;

/// What only a VRF has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Vrf {
    /// The routing table of the domain.
    pub table: Table,
}

impl DeclareLink for Vrf {
    const WORD: &'static str = "vrf";
    const ABOUT: &'static str = "A routing domain of its own; links are bound to it with their field `vrf`.";

    fn into_kind(self) -> LinkKind {
        LinkKind::Vrf(self)
    }
}
