//! `neighbour`: which hardware address belongs to an IP address on a link, or which address a link answers for.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::{Mac, Name, NetnsName};

/// How far a neighbour is trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NeighbourState {
    /// Forever.
    #[default]
    Permanent,
    /// Forever, and it is never probed.
    Noarp,
}

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Neighbour {
    /// The namespace; the agent's own if left out.
    #[serde(default, skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The link.
    #[schemars(schema_with = "crate::linux::shape::link_name")]
    pub link: Name,
    /// The address of the neighbour.
    #[schemars(schema_with = "crate::linux::shape::ip")]
    pub address: IpAddr,
    /// Its hardware address; left out only when `proxy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
    /// How far it is trusted; `permanent` if left out.
    #[serde(default, skip_serializing_if = "is_permanent")]
    pub state: NeighbourState,
    /// It is a router; IPv6 only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub router: bool,
    /// The link answers for the address, instead of knowing its hardware address.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proxy: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_permanent(state: &NeighbourState) -> bool {
    *state == NeighbourState::Permanent
}
