//! `vrf`: a routing domain of its own; links are bound to it with their field `vrf`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::Table;

/// What only a VRF has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Vrf {
    /// The routing table of the domain.
    pub table: Table,
}
