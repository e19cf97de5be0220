//! `macvlan`: a link with a hardware address of its own on top of another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::LinkRef;

/// Who may talk to whom on one lower link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MacvlanMode {
    /// Nobody.
    Private,
    /// Everybody, by way of the switch outside.
    Vepa,
    /// Everybody, directly.
    #[default]
    Bridge,
    /// There is only one, and it has the lower link to itself.
    Passthru,
}

/// What only a macvlan has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Macvlan {
    /// The link below.
    pub link: LinkRef,
    /// Who may talk to whom; `bridge` if left out.
    #[serde(default, skip_serializing_if = "is_bridge")]
    pub mode: MacvlanMode,
}

pub(super) fn is_bridge(mode: &MacvlanMode) -> bool {
    *mode == MacvlanMode::Bridge
}
