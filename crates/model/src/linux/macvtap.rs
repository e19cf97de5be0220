//! `macvtap`: a macvlan whose other end is a program.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::Compared;
use super::link::LinkKind;
use super::macvlan::{MacvlanMode, is_bridge};
use super::names::LinkRef;
use crate::declare::DeclareLink;

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

impl DeclareLink for Macvtap {
    const WORD: &'static str = "macvtap";
    const ABOUT: &'static str = "A macvlan whose other end is a program.";

    fn into_kind(self) -> LinkKind {
        LinkKind::Macvtap(self)
    }
}

impl Macvtap {
    /// The mode can be changed, except to and from `passthru`.
    pub(super) fn compare(&self, new: &Self, compared: &mut Compared<'_>) {
        compared.fixed("link", &self.link, &new.link);
        if [self.mode, new.mode].contains(&MacvlanMode::Passthru) {
            compared.fixed("mode", &self.mode, &new.mode);
        }
        compared.field(&self.mode, &new.mode);
    }
}
