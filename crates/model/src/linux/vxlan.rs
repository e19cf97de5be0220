//! `vxlan`: the end of a tunnel, or of many, that carries frames in UDP.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::LinkRef;

/// What only a VXLAN has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Vxlan {
    /// The network identifier; left out only when `external`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_777_215))]
    pub vni: Option<u32>,
    /// The link that carries the tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkRef>,
    /// The address of this end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::ip")]
    pub local: Option<IpAddr>,
    /// Where frames for unknown stations go: a host, or a multicast group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::ip")]
    pub remote: Option<IpAddr>,
    /// The UDP port; 4789 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u16>,
    /// The time to live of outer packets; 0 takes that of the packet inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 255))]
    pub ttl: Option<u8>,
    /// The type of service of outer packets; 1 takes that of the packet inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 255))]
    pub tos: Option<u8>,
    /// For how long a learnt station is remembered, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_295_u32))]
    pub ageing: Option<u32>,
    /// Learns where stations are from what comes in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<bool>,
    /// Answers ARP from the neighbours that are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<bool>,
    /// Computes UDP checksums of outer IPv4 packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_checksum: Option<bool>,
    /// Takes identifier and remote end from routes and programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<bool>,
    /// Carries the group of a policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_policy: Option<bool>,
}

impl Vxlan {
    /// The UDP port if none is said: the assigned one, not the kernel's older default.
    pub const PORT: u16 = 4789;

    /// The UDP port.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(Self::PORT)
    }
}
