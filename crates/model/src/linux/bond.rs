//! `bond`: several links as one. Its ports are derived items: the bond does not wait for them.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::Name;

/// How the links of a bond share the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BondMode {
    /// Packet by packet in turn.
    #[default]
    BalanceRr,
    /// One works, the others wait.
    ActiveBackup,
    /// By a hash of the packet.
    BalanceXor,
    /// Everything on all links.
    Broadcast,
    /// Link aggregation with LACP.
    #[serde(rename = "802.3ad")]
    Lacp,
    /// By load, outgoing.
    BalanceTlb,
    /// By load, both ways.
    BalanceAlb,
}

/// How often LACP messages are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LacpRate {
    /// Every 30 seconds.
    Slow,
    /// Every second.
    Fast,
}

/// What the hash of a packet is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HashPolicy {
    /// Hardware addresses.
    Layer2,
    /// IP addresses and ports.
    #[serde(rename = "layer3+4")]
    Layer34,
    /// Hardware and IP addresses.
    #[serde(rename = "layer2+3")]
    Layer23,
    /// The inner hardware and IP addresses.
    #[serde(rename = "encap2+3")]
    Encap23,
    /// The inner IP addresses and ports.
    #[serde(rename = "encap3+4")]
    Encap34,
    /// VLAN and source hardware address.
    #[serde(rename = "vlan+srcmac")]
    VlanSrcMac,
}

/// What only a bond has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Bond {
    /// How the links share the work; `balance-rr` if left out.
    #[serde(default, skip_serializing_if = "is_balance_rr")]
    pub mode: BondMode,
    /// How often the links are watched, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub miimon: Option<u32>,
    /// How long a link must be up before it is used, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub up_delay: Option<u32>,
    /// How long a link must be down before it is given up, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub down_delay: Option<u32>,
    /// How often the `arp-targets` are asked, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub arp_interval: Option<u32>,
    /// The hosts that tell by their answers whether a link works.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::linux::shape::ips", length(max = 16))]
    pub arp_targets: Vec<IpAddr>,
    /// How many links must work for the bond to be up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub min_links: Option<u32>,
    /// The preferred link of an `active-backup` bond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::link_name")]
    pub primary: Option<Name>,
    /// How often LACP messages are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacp_rate: Option<LacpRate>,
    /// What the hash of a packet is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_policy: Option<HashPolicy>,
    /// The ports: links in the same namespace. Each is an item of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::linux::shape::link_names")]
    pub ports: Vec<Name>,
}

fn is_balance_rr(mode: &BondMode) -> bool {
    *mode == BondMode::BalanceRr
}
