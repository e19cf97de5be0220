//! `tap` and `tun`: links whose other end is a program; tap carries frames, tun carries packets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
