//! `rule`: which routing table a packet is looked up in. A rule is known by its family and priority.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::{Name, NetnsName, Table};

/// The family of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// What a rule does with a packet that it selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleAction {
    /// Looks it up in the table.
    #[default]
    Lookup,
    /// Drops it.
    Blackhole,
    /// Drops it and says that the host is unreachable.
    Unreachable,
    /// Drops it and says that it is prohibited.
    Prohibit,
    /// Goes on at the rule of priority `goto`.
    Goto,
    /// Does nothing.
    Nop,
}

/// A range of numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortRange {
    /// The first port.
    #[schemars(range(min = 1, max = 65535))]
    pub from: u16,
    /// The last port.
    #[schemars(range(min = 1, max = 65535))]
    pub to: u16,
}

/// A range of users, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserRange {
    /// The first user.
    #[schemars(range(min = 0, max = 4_294_967_294_u32))]
    pub from: u32,
    /// The last user.
    #[schemars(range(min = 0, max = 4_294_967_294_u32))]
    pub to: u32,
}

/// A policy rule. A packet is selected if it passes every test that the rule names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Rule {
    /// The namespace; the agent's own if left out.
    #[serde(default, skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The family; taken from `from` and `to` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// The priority: lower goes first. One rule of a family has it.
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub priority: u32,
    /// The network that the packet comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::network")]
    pub from: Option<IpNet>,
    /// The network that the packet goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::network")]
    pub to: Option<IpNet>,
    /// The mark of the packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_295_u32))]
    pub mark: Option<u32>,
    /// Which bits of the mark count; all of them if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_295_u32))]
    pub mark_mask: Option<u32>,
    /// The link that the packet came in by; it need not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::link_name")]
    pub incoming: Option<Name>,
    /// The link that the packet's socket is bound to; it need not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::link_name")]
    pub outgoing: Option<Name>,
    /// The type of service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 255))]
    pub tos: Option<u8>,
    /// The protocol above IP, by number: 6 is TCP, 17 is UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 255))]
    pub ip_protocol: Option<u8>,
    /// The source ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_ports: Option<PortRange>,
    /// The destination ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_ports: Option<PortRange>,
    /// The users whose packets are meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<UserRange>,
    /// Looks the packet up in the table of the VRF that its link belongs to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub l3mdev: bool,
    /// Selects the packets that do not pass.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not: bool,
    /// What is done with the packet; `lookup` if left out.
    #[serde(default, skip_serializing_if = "is_lookup")]
    pub action: RuleAction,
    /// The table to look in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Table>,
    /// The priority of the rule to go on at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub goto: Option<u32>,
    /// Takes no route whose prefix is this long or shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    pub suppress_prefix_length: Option<u8>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_lookup(action: &RuleAction) -> bool {
    *action == RuleAction::Lookup
}
