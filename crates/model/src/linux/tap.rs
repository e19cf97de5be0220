//! `tap` and `tun`: links whose other end is a program; tap carries frames, tun carries packets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::Compared;
use super::link::LinkKind;
use crate::declare::DeclareLink;

/// What only a tap or a tun has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Tap {
    /// The user who may open it, by number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_294_u32))]
    pub owner: Option<u32>,
    /// The group whose members may open it, by number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_294_u32))]
    pub owner_group: Option<u32>,
    /// May be opened several times, one queue each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multi_queue: Option<bool>,
    /// Puts a virtio header before each packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnet_header: Option<bool>,
    /// Puts four bytes of packet information before each packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_info: Option<bool>,
}

impl DeclareLink for Tap {
    const WORD: &'static str = "tap";
    const ABOUT: &'static str = "A link whose other end is a program that reads and writes frames.";

    fn into_kind(self) -> LinkKind {
        LinkKind::Tap(self)
    }
}

impl Tap {
    /// Owners can be changed; what a program sees cannot.
    pub(super) fn compare(&self, new: &Self, compared: &mut Compared<'_>) {
        compared.fixed_optional("multi-queue", &self.multi_queue, &new.multi_queue);
        compared.fixed_optional("vnet-header", &self.vnet_header, &new.vnet_header);
        compared.fixed_optional("packet-info", &self.packet_info, &new.packet_info);
        compared.kept("owner", &self.owner, &new.owner);
        compared.kept("owner-group", &self.owner_group, &new.owner_group);
    }
}

/// A tap that carries packets instead of frames.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Tun(Tap);

impl DeclareLink for Tun {
    const WORD: &'static str = "tun";
    const ABOUT: &'static str = "A link whose other end is a program that reads and writes packets.";

    fn into_kind(self) -> LinkKind {
        LinkKind::Tun(self.0)
    }
}
