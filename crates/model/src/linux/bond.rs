//! `bond`: several links as one. Its ports are derived items: the bond does not wait for them.

use kilter_scheduler::FieldError;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::{Compared, error, twice};
use super::link::LinkKind;
use super::names::Name;
use crate::declare::DeclareLink;

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
    #[schemars(schema_with = "crate::linux::texts::ips", length(max = 16))]
    pub arp_targets: Vec<IpAddr>,
    /// How many links must work for the bond to be up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub min_links: Option<u32>,
    /// The preferred link of an `active-backup` bond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::link_name")]
    pub primary: Option<Name>,
    /// How often LACP messages are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacp_rate: Option<LacpRate>,
    /// What the hash of a packet is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_policy: Option<HashPolicy>,
    /// The ports: links in the same namespace. Each is an item of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::linux::texts::link_names")]
    pub ports: Vec<Name>,
}

fn is_balance_rr(mode: &BondMode) -> bool {
    *mode == BondMode::BalanceRr
}

impl DeclareLink for Bond {
    const WORD: &'static str = "bond";
    const ABOUT: &'static str = "Several links as one; its ports are links in the same namespace.";

    fn into_kind(self) -> LinkKind {
        LinkKind::Bond(self)
    }
}

impl Bond {
    pub(super) fn check(&self, name: &Name, errors: &mut Vec<FieldError>) {
        twice("ports", &self.ports, errors);
        for (at, _) in self.ports.iter().enumerate().filter(|(_, link)| *link == name) {
            errors.push(error(format!("ports[{at}]"), "names the bond itself"));
        }
        let watches = |time: Option<u32>| time.is_some_and(|time| time > 0);
        if watches(self.miimon) && watches(self.arp_interval) {
            errors.push(error(
                "arp-interval",
                "a bond is watched by `miimon` or by `arp-interval`, not by both",
            ));
        }
        if watches(self.arp_interval) && self.arp_targets.is_empty() {
            errors.push(error("arp-interval", "needs `arp-targets` to ask"));
        }
        let uses_mii = matches!(self.mode, BondMode::Lacp | BondMode::BalanceTlb | BondMode::BalanceAlb);
        if watches(self.arp_interval) && uses_mii {
            errors.push(error("arp-interval", "does not work in this mode; use `miimon`"));
        }
        for (at, _) in self.arp_targets.iter().enumerate().filter(|(_, target)| target.is_ipv6()) {
            errors.push(error(format!("arp-targets[{at}]"), "must be an IPv4 address"));
        }
        for (path, delay) in [("up-delay", self.up_delay), ("down-delay", self.down_delay)] {
            if watches(delay) && !watches(self.miimon) {
                errors.push(error(path, "needs `miimon`"));
            }
        }
        if self.lacp_rate.is_some() && self.mode != BondMode::Lacp {
            errors.push(error("lacp-rate", "is for mode `802.3ad` only"));
        }
        let has_primary =
            matches!(self.mode, BondMode::ActiveBackup | BondMode::BalanceTlb | BondMode::BalanceAlb);
        if self.primary.is_some() && !has_primary {
            errors
                .push(error("primary", "is for modes `active-backup`, `balance-tlb` and `balance-alb` only"));
        }
    }

    /// The kernel changes the mode of an empty bond only; everything else while it runs.
    pub(super) fn compare(&self, new: &Self, compared: &mut Compared<'_>) {
        compared.fixed("mode", &self.mode, &new.mode);
        compared.optional("miimon", &self.miimon, &new.miimon);
        compared.optional("up-delay", &self.up_delay, &new.up_delay);
        compared.optional("down-delay", &self.down_delay, &new.down_delay);
        compared.optional("arp-interval", &self.arp_interval, &new.arp_interval);
        compared.field(&self.arp_targets, &new.arp_targets);
        compared.optional("min-links", &self.min_links, &new.min_links);
        compared.optional("primary", &self.primary, &new.primary);
        compared.optional("lacp-rate", &self.lacp_rate, &new.lacp_rate);
        compared.optional("hash-policy", &self.hash_policy, &new.hash_policy);
    }
}
