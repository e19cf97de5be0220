//! `vlan`: the frames of one tag on another link.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::Compared;
use super::link::LinkKind;
use super::names::LinkRef;
use crate::declare::DeclareLink;

/// The protocol of a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VlanProtocol {
    /// 802.1Q, the usual one.
    #[default]
    #[serde(rename = "802.1q")]
    Dot1q,
    /// 802.1ad, for the outer of two tags.
    #[serde(rename = "802.1ad")]
    Dot1ad,
}

/// What only a VLAN has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Vlan {
    /// The link below.
    pub link: LinkRef,
    /// The tag.
    #[schemars(range(min = 1, max = 4094))]
    pub id: u16,
    /// The protocol of the tag; `802.1q` if left out.
    #[serde(default, skip_serializing_if = "is_dot1q")]
    pub protocol: VlanProtocol,
    /// Keeps the header in the usual order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder_header: Option<bool>,
    /// Registers the VLAN by GVRP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gvrp: Option<bool>,
    /// Registers the VLAN by MVRP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mvrp: Option<bool>,
    /// Does not follow the state of the link below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loose_binding: Option<bool>,
}

fn is_dot1q(protocol: &VlanProtocol) -> bool {
    *protocol == VlanProtocol::Dot1q
}

impl DeclareLink for Vlan {
    const WORD: &'static str = "vlan";
    const ABOUT: &'static str = "The frames with one tag on another link.";

    fn into_kind(self) -> LinkKind {
        LinkKind::Vlan(self)
    }
}

impl Vlan {
    /// Flags can be changed; what a frame is recognised by cannot.
    pub(super) fn compare(&self, new: &Self, compared: &mut Compared<'_>) {
        compared.fixed("link", &self.link, &new.link);
        compared.fixed("id", &self.id, &new.id);
        compared.fixed("protocol", &self.protocol, &new.protocol);
        compared.optional("reorder-header", &self.reorder_header, &new.reorder_header);
        compared.optional("gvrp", &self.gvrp, &new.gvrp);
        compared.optional("mvrp", &self.mvrp, &new.mvrp);
        compared.optional("loose-binding", &self.loose_binding, &new.loose_binding);
    }
}
