//! `rule`: which routing table a packet is looked up in. A rule is known by its family and priority.

use ipnet::IpNet;
use kilter_scheduler::{FieldError, Key, Kind, Needs, Transition};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::{Compared, error};
use super::keys;
use super::names::{Name, NetnsName, Table};
use crate::declare::Declare;

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
    #[schemars(schema_with = "crate::linux::texts::network")]
    pub from: Option<IpNet>,
    /// The network that the packet goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::network")]
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
    #[schemars(schema_with = "crate::linux::texts::link_name")]
    pub incoming: Option<Name>,
    /// The link that the packet's socket is bound to; it need not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::link_name")]
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

impl Rule {
    /// The family: what is said, or that of the networks.
    pub fn family(&self) -> Family {
        let of = |network: IpNet| if network.addr().is_ipv4() { Family::Ipv4 } else { Family::Ipv6 };
        self.family.or(self.from.map(of)).or(self.to.map(of)).unwrap_or(Family::Ipv4)
    }
}

impl Family {
    /// The word in a key.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
        }
    }
}

impl Declare for Rule {
    const WORD: &'static str = "rule";
    const ABOUT: &'static str = "A policy rule: which routing table a packet is looked up in.";

    fn key(&self) -> Key {
        Key::from(format!("linux/rule/{}/{}/{}", self.netns, self.family().word(), self.priority))
    }

    /// The family is left out where it is clear, and so is what selects every packet.
    fn normalise(&mut self) {
        let family = self.family();
        self.family = None;
        let is_everything = |network: IpNet| {
            network.prefix_len() == 0 && network.addr().is_ipv4() == (family == Family::Ipv4)
        };
        self.from = self.from.filter(|network| !is_everything(*network));
        self.to = self.to.filter(|network| !is_everything(*network));
        self.tos = self.tos.filter(|tos| *tos != 0);
        match (self.mark, self.mark_mask) {
            (Some(0), Some(0)) => (self.mark, self.mark_mask) = (None, None),
            (Some(_), Some(u32::MAX)) => self.mark_mask = None,
            _ => {}
        }
        if self.family() != family {
            self.family = Some(family);
        }
    }

    fn check(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let family = self.family();
        for (path, network) in [("from", self.from), ("to", self.to)] {
            if network.is_some_and(|network| network.addr().is_ipv4() != (family == Family::Ipv4)) {
                errors.push(error(path, format!("must be a network of family `{}`", family.word())));
            }
        }
        let looks_up = self.action == RuleAction::Lookup;
        match (looks_up, self.l3mdev, self.table) {
            (true, false, None) => {
                errors.push(error("", "a `rule` needs `table`, `l3mdev` or another `action`"))
            }
            (true, true, Some(_)) => {
                errors.push(error("table", "`l3mdev` takes the table of the VRF instead"))
            }
            (false, _, Some(_)) => errors.push(error("table", "is for action `lookup` only")),
            _ => {}
        }
        match (self.action == RuleAction::Goto, self.goto) {
            (true, None) => errors.push(error("", "action `goto` needs `goto`")),
            (false, Some(_)) => errors.push(error("goto", "is for action `goto` only")),
            (true, Some(goto)) if goto <= self.priority => {
                errors.push(error("goto", format!("must be above `priority`, {}", self.priority)));
            }
            _ => {}
        }
        if self.mark_mask.is_some() && self.mark.is_none() {
            errors.push(error("mark-mask", "needs `mark`"));
        }
        if self.suppress_prefix_length.is_some() && !looks_up {
            errors.push(error("suppress-prefix-length", "is for action `lookup` only"));
        }
        if family == Family::Ipv4 && self.suppress_prefix_length.is_some_and(|length| length > 32) {
            errors.push(error("suppress-prefix-length", "must be 0 to 32 in a rule for IPv4"));
        }
        for (path, range) in
            [("source-ports", self.source_ports), ("destination-ports", self.destination_ports)]
        {
            if range.is_some_and(|range| range.from > range.to) {
                errors.push(error(path, "must not end before it begins"));
            }
        }
        if self.users.is_some_and(|range| range.from > range.to) {
            errors.push(error("users", "must not end before it begins"));
        }
        errors
    }
}

/// Describes `linux.rule`.
pub struct RuleKind;

impl Kind for RuleKind {
    type Value = Rule;
    const NAME: &'static str = "linux.rule";
    const KEYS: &'static [&'static str] = &["linux/rule/*/*/*"];

    fn validate(&self, _key: &Key, rule: &Rule) -> Vec<FieldError> {
        rule.check()
    }

    /// The namespace only: a rule may name links and tables that are not there yet.
    fn needs(&self, _key: &Key, rule: &Rule, needs: &mut Needs) {
        keys::need_netns(&rule.netns, needs);
    }

    /// The kernel cannot change a rule.
    fn transition(&self, _key: &Key, old: &Rule, new: &Rule) -> Transition {
        let mut compared = Compared::default();
        compared.fixed("from", &old.from, &new.from);
        compared.fixed("to", &old.to, &new.to);
        compared.fixed("table", &old.table, &new.table);
        compared.fixed("action", &old.action, &new.action);
        compared.fixed("mark", &old.mark, &new.mark);
        let transition = compared.transition();
        if transition == Transition::Same && old != new {
            return Transition::Recreate { reason: "a rule cannot be changed".to_owned() };
        }
        transition
    }

    fn reads_after(&self) -> &[&str] {
        &["linux.netns"]
    }

    /// Those of others are read only if they are declared.
    fn correlates(&self) -> bool {
        true
    }
}
