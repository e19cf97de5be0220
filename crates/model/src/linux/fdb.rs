//! `fdb`: where frames for a hardware address go: an entry in the table of a bridge port, or of a VXLAN.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::{Mac, Name, NetnsName};

/// Whose table the entry is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FdbTable {
    /// That of the link itself.
    #[default]
    Own,
    /// That of the bridge that the link is a port of.
    Bridge,
}

/// How long an entry of a bridge lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FdbState {
    /// Forever; frames for it are the bridge's own.
    #[default]
    Permanent,
    /// Forever; frames for it leave by the link.
    Static,
}

/// An entry of a forwarding table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Fdb {
    /// The namespace; the agent's own if left out.
    #[serde(default, skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The link.
    #[schemars(schema_with = "crate::linux::shape::link_name")]
    pub link: Name,
    /// The hardware address; all zeros is everything that has no entry.
    pub mac: Mac,
    /// Whose table the entry is in; the link's own if left out.
    #[serde(default, skip_serializing_if = "is_own")]
    pub table: FdbTable,
    /// The VLAN that the entry is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub vlan: Option<u16>,
    /// The remote end of the tunnel; VXLAN only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::ip")]
    pub remote: Option<IpAddr>,
    /// The UDP port of the remote end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u16>,
    /// The network identifier to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_777_215))]
    pub vni: Option<u32>,
    /// How long the entry lives; `permanent` if left out.
    #[serde(default, skip_serializing_if = "is_permanent")]
    pub state: FdbState,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_own(table: &FdbTable) -> bool {
    *table == FdbTable::Own
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_permanent(state: &FdbState) -> bool {
    *state == FdbState::Permanent
}

impl Fdb {
    /// Whether there may be several entries for the address, told apart by their remote end.
    pub fn is_flood(&self) -> bool {
        self.mac.is_zero() || self.mac.is_multicast()
    }
}
