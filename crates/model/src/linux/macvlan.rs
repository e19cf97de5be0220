//! `macvlan`: a link with a hardware address of its own on top of another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::Compared;
use super::link::LinkKind;
use super::names::LinkRef;
use crate::declare::DeclareLink;

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

impl DeclareLink for Macvlan {
    const WORD: &'static str = "macvlan";
    const ABOUT: &'static str = "A link with a hardware address of its own on top of another link.";

    fn into_kind(self) -> LinkKind {
        LinkKind::Macvlan(self)
    }
}

impl Macvlan {
    /// The mode can be changed, except to and from `passthru`.
    pub(super) fn compare(&self, new: &Self, compared: &mut Compared<'_>) {
        compared.fixed("link", &self.link, &new.link);
        if [self.mode, new.mode].contains(&MacvlanMode::Passthru) {
            compared.fixed("mode", &self.mode, &new.mode);
        }
        compared.field(&self.mode, &new.mode);
    }
}
