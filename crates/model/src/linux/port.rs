//! `port`: a link belongs to a bridge, a bond or a VRF. Derived from whichever of the two declares it, so that
//! neither waits for the other, and under the key of the link, so that it cannot belong to two.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::{Name, NetnsName};

/// A link that belongs to a bridge, a bond or a VRF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Port {
    /// The namespace of both links.
    #[serde(skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The link.
    pub link: Name,
    /// The bridge, bond or VRF.
    pub master: Name,
    /// How the bridge treats the port.
    #[serde(flatten)]
    pub options: PortOptions,
}

/// How a bridge treats a port. What is left out is left as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PortOptions {
    /// The cost of the port in the spanning tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub cost: Option<u32>,
    /// The priority of the port in the spanning tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 63))]
    pub priority: Option<u16>,
    /// Sends frames back through the port they came in by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hairpin: Option<bool>,
    /// Refuses spanning-tree messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bpdu_guard: Option<bool>,
    /// Never lets the port become the root port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_block: Option<bool>,
    /// Forgets a multicast group as soon as its member leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast_leave: Option<bool>,
    /// Learns hardware addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<bool>,
    /// Sends frames for unknown stations through the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flood: Option<bool>,
    /// Sends frames for unknown multicast groups through the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multicast_flood: Option<bool>,
    /// Sends broadcast frames through the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broadcast_flood: Option<bool>,
    /// Keeps isolated ports from reaching each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolated: Option<bool>,
    /// Answers ARP and neighbour discovery on behalf of the stations behind the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour_suppression: Option<bool>,
}

impl PortOptions {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
