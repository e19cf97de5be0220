//! `macvtap`: a macvlan whose other end is a program.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::macvlan::{MacvlanMode, is_bridge};
use super::names::LinkRef;

/// What only a macvtap has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Macvtap {
    /// The link below.
    pub link: LinkRef,
    /// Who may talk to whom; `bridge` if left out.
    #[serde(default, skip_serializing_if = "is_bridge")]
    pub mode: MacvlanMode,
}
