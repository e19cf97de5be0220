//! `nftables`: one table, owned whole and replaced at once; its content is nft text, or chains and sets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::{Name, NetnsName};

/// The family of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NftFamily {
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
    /// Both.
    #[default]
    Inet,
    /// ARP.
    Arp,
    /// Frames on a bridge.
    Bridge,
    /// Packets on a link, before anything else.
    Netdev,
}

impl NftFamily {
    /// The word that nft uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Ip6 => "ip6",
            Self::Inet => "inet",
            Self::Arp => "arp",
            Self::Bridge => "bridge",
            Self::Netdev => "netdev",
        }
    }
}

/// What a base chain is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChainType {
    /// Lets packets pass or not.
    Filter,
    /// Translates addresses.
    Nat,
    /// Changes what routing looks at.
    Route,
}

/// Where a base chain is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChainHook {
    /// Before routing.
    Prerouting,
    /// To this host.
    Input,
    /// Through this host.
    Forward,
    /// From this host.
    Output,
    /// After routing.
    Postrouting,
    /// On a link, incoming.
    Ingress,
    /// On a link, outgoing.
    Egress,
}

/// What happens to a packet that no rule decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChainPolicy {
    /// It passes.
    Accept,
    /// It is dropped.
    Drop,
}

/// A chain of rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct NftChain {
    /// The name.
    #[schemars(schema_with = "crate::linux::shape::nft_name")]
    pub name: Name,
    /// What the chain is for; only with `hook`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub chain_type: Option<ChainType>,
    /// Where the chain is attached; without it, other chains jump to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<ChainHook>,
    /// When the chain is run among those of its hook; 0 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -2_147_483_648, max = 2_147_483_647))]
    pub priority: Option<i32>,
    /// The link of an `ingress` or `egress` hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::link_name")]
    pub link: Option<Name>,
    /// What happens to a packet that no rule decides about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<ChainPolicy>,
    /// The rules, in nft's language, one per entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::linux::shape::one_lines")]
    pub rules: Vec<String>,
}

/// A set of elements that rules look up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct NftSet {
    /// The name.
    #[schemars(schema_with = "crate::linux::shape::nft_name")]
    pub name: Name,
    /// The type of the elements, in nft's language: `ipv4_addr . inet_service`.
    #[serde(rename = "type")]
    #[schemars(schema_with = "crate::linux::shape::one_line")]
    pub element_type: String,
    /// Flags, in nft's language: `interval`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::linux::shape::one_lines")]
    pub flags: Vec<String>,
    /// The elements, in nft's language.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::linux::shape::one_lines")]
    pub elements: Vec<String>,
}

/// An nftables table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Nftables {
    /// The name of the table.
    #[schemars(schema_with = "crate::linux::shape::nft_name")]
    pub name: Name,
    /// The namespace; the agent's own if left out.
    #[serde(default, skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The family; `inet` if left out.
    #[serde(default, skip_serializing_if = "is_inet")]
    pub family: NftFamily,
    /// What stands between the braces of `table FAMILY NAME { … }`, in nft's language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The sets, instead of `text`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<NftSet>,
    /// The chains, instead of `text`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<NftChain>,
    /// What the table read back says about itself: the digest that its maker left. Never declared.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub digest: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_inet(family: &NftFamily) -> bool {
    *family == NftFamily::Inet
}
