//! `neighbour`: which hardware address belongs to an IP address on a link, or which address a link answers for.

use kilter_scheduler::{FieldError, Key, Kind, Needs, Transition};
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::{Compared, error};
use super::names::{Mac, Name, NetnsName};
use crate::declare::Declare;

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
    #[schemars(schema_with = "crate::linux::texts::link_name")]
    pub link: Name,
    /// The address of the neighbour.
    #[schemars(schema_with = "crate::linux::texts::ip")]
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

impl Declare for Neighbour {
    const WORD: &'static str = "neighbour";
    const ABOUT: &'static str =
        "The hardware address of a host on a link, or an address that a link answers for.";

    fn key(&self) -> Key {
        let proxy = if self.proxy { "/proxy" } else { "" };
        Key::from(format!("linux/neighbour/{}/{}/{}{proxy}", self.netns, self.link, self.address))
    }

    fn check(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        match (self.proxy, self.mac) {
            (true, Some(_)) => errors.push(error("mac", "a `proxy` answers with the address of the link")),
            (false, None) => errors.push(error("", "a `neighbour` needs `mac`, unless it is a `proxy`")),
            _ => {}
        }
        if self.proxy && self.state != NeighbourState::Permanent {
            errors.push(error("state", "a `proxy` has none"));
        }
        if self.router && self.address.is_ipv4() {
            errors.push(error("router", "is for IPv6 only"));
        }
        if self.address.is_multicast() || self.address.is_unspecified() {
            errors.push(error("address", "must be the address of one host"));
        }
        errors
    }
}

/// Describes `linux.neighbour`.
pub struct NeighbourKind;

impl Kind for NeighbourKind {
    type Value = Neighbour;
    const NAME: &'static str = "linux.neighbour";
    const KEYS: &'static [&'static str] = &["linux/neighbour/*/*/*", "linux/neighbour/*/*/*/proxy"];

    fn validate(&self, _key: &Key, neighbour: &Neighbour) -> Vec<FieldError> {
        neighbour.check()
    }

    /// The link up: the kernel forgets the neighbours of a link that goes down.
    fn needs(&self, _key: &Key, neighbour: &Neighbour, needs: &mut Needs) {
        needs.on(format_args!("linux/up/{}/{}", neighbour.netns, neighbour.link));
    }

    fn transition(&self, _key: &Key, old: &Neighbour, new: &Neighbour) -> Transition {
        let mut compared = Compared::default();
        compared.field(&old.mac, &new.mac);
        compared.field(&old.state, &new.state);
        compared.field(&old.router, &new.router);
        compared.transition()
    }

    fn reads_after(&self) -> &[&str] {
        &["linux.link"]
    }

    /// Those of others are read only if they are declared.
    fn correlates(&self) -> bool {
        true
    }
}
