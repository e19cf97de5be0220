//! `vxlan`: the end of a tunnel, or of many, that carries frames in UDP.

use kilter_scheduler::FieldError;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::{Compared, error};
use super::link::LinkKind;
use super::names::LinkRef;
use crate::declare::DeclareLink;

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
    #[schemars(schema_with = "crate::linux::texts::ip")]
    pub local: Option<IpAddr>,
    /// Where frames for unknown stations go: a host, or a multicast group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::ip")]
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

impl DeclareLink for Vxlan {
    const WORD: &'static str = "vxlan";
    const ABOUT: &'static str = "The end of a tunnel that carries frames in UDP.";

    fn into_kind(self) -> LinkKind {
        LinkKind::Vxlan(self)
    }
}

impl Vxlan {
    pub(super) fn check(&self, errors: &mut Vec<FieldError>) {
        let is_external = self.external == Some(true);
        match (is_external, self.vni) {
            (false, None) => errors.push(error("", "a `vxlan` needs `vni`, unless it is `external`")),
            (true, Some(_)) => {
                errors.push(error("vni", "an `external` VXLAN takes it from routes, not from here"))
            }
            _ => {}
        }
        let ends = self.local.zip(self.remote);
        if ends.is_some_and(|(local, remote)| local.is_ipv4() != remote.is_ipv4()) {
            errors.push(error("remote", "must be of the same family as `local`"));
        }
        if self.remote.is_some_and(|remote| remote.is_multicast()) && self.link.is_none() {
            errors.push(error("remote", "is a multicast group, which needs `link`"));
        }
        if self.local.is_some_and(|local| local.is_multicast()) {
            errors.push(error("local", "must be the address of one host"));
        }
    }

    /// Whether its ends have IPv4 addresses: that of one is that of the other, and of a tunnel that has none.
    fn is_ipv4(&self) -> bool {
        self.local.or(self.remote).is_none_or(|end| end.is_ipv4())
    }

    /// What the kernel refuses to change is fixed: identifier, port, sort of addresses, most flags.
    pub(super) fn compare(&self, new: &Self, compared: &mut Compared<'_>) {
        compared.fixed_optional("vni", &self.vni, &new.vni);
        compared.fixed("port", &self.port(), &new.port());
        compared.fixed_optional("proxy", &self.proxy, &new.proxy);
        compared.fixed_optional("udp-checksum", &self.udp_checksum, &new.udp_checksum);
        compared.fixed_optional("external", &self.external, &new.external);
        compared.fixed_optional("group-policy", &self.group_policy, &new.group_policy);
        let (is_ipv4, has_end) = (self.is_ipv4(), new.local.or(new.remote).is_some());
        for (name, old, new) in [("local", self.local, new.local), ("remote", self.remote, new.remote)] {
            match new {
                Some(after) if after.is_ipv4() != is_ipv4 => compared.fixed(name, &old, &new),
                None if !is_ipv4 && !has_end => compared.fixed_optional(name, &old, &new),
                _ => compared.optional(name, &old, &new),
            }
        }
        compared.kept("link", &self.link, &new.link);
        compared.optional("ttl", &self.ttl, &new.ttl);
        compared.optional("tos", &self.tos, &new.tos);
        compared.optional("ageing", &self.ageing, &new.ageing);
        compared.optional("learning", &self.learning, &new.learning);
    }
}
