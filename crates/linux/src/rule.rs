//! Policy rules. A rule is never changed: it is removed and made again.

use ipnet::IpNet;
use kilter_model::declare::Declare as _;
use kilter_model::linux::rule::{Family, PortRange, Rule, RuleAction, RuleKind, UserRange};
use kilter_model::linux::{Name, NetnsName, Table};
use kilter_scheduler::{Kind as _, Transition};
use rustix::io::Errno;

use crate::ip;
use crate::netlink::message::{u16_at, u32_at};
use crate::netlink::rtnl::family;
use crate::netlink::{Attributes, KernelError, Message, Received, Refusal, Requests, flag, rtnl};
use crate::order::{Order, Site};

const DST: u16 = 1;
const SRC: u16 = 2;
const IIFNAME: u16 = 3;
const GOTO: u16 = 4;
const PRIORITY: u16 = 6;
const FWMARK: u16 = 10;
const SUPPRESS_PREFIXLEN: u16 = 14;
const TABLE: u16 = 15;
const FWMASK: u16 = 16;
const OIFNAME: u16 = 17;
const L3MDEV: u16 = 19;
const UID_RANGE: u16 = 20;
const PROTOCOL: u16 = 21;
const IP_PROTO: u16 = 22;
const SPORT_RANGE: u16 = 23;
const DPORT_RANGE: u16 = 24;

const INVERT: u32 = 2;

/// Adds a rule, unless somebody else made the same one: the kernel would have it twice.
pub(crate) fn create(site: &mut Site<'_>, rule: &Rule) -> Result<Order, KernelError> {
    let (key, protocol) = (rule.key(), site.shared.protocol());
    let is_theirs = |(found, by): &(Rule, u8)| {
        *by != protocol && found.key() == key && RuleKind.transition(&key, found, rule) == Transition::Same
    };
    if site.rules()?.iter().any(is_theirs) {
        return Ok(Order::nothing());
    }
    let message = message(rtnl::NEWRULE, flag::CREATE | flag::EXCL, rule, protocol);
    Ok(Order::new("add rule", vec![message]))
}

/// Every rule of the namespace, each with its protocol.
pub(crate) fn read_all(requests: &mut Requests, netns: &NetnsName) -> Result<Vec<(Rule, u8)>, Refusal> {
    let mut rules = Vec::new();
    for family in [family::INET, family::INET6] {
        let request = request_all(family);
        let read = requests.dump(&request, Vec::new, |rules, received| rules.extend(decode(received, netns)));
        match read {
            // A kernel without the family has no rules of it.
            Err(refusal) if refusal.is_unsupported() => {}
            read => rules.extend(read?),
        }
    }
    Ok(rules)
}

/// Removes a rule; the kernel leaves one that has another protocol.
pub(crate) fn delete(site: &Site<'_>, rule: &Rule) -> Order {
    let message = message(rtnl::DELRULE, 0, rule, site.shared.protocol());
    Order::new("remove rule", vec![message]).tolerating(&[Errno::NOENT])
}

/// Puts a rule in the place of another: the new one is there before the old one leaves, unless they are alike.
pub(crate) fn update(site: &Site<'_>, old: &Rule, new: &Rule) -> Order {
    let protocol = site.shared.protocol();
    let messages = vec![
        message(rtnl::NEWRULE, flag::CREATE | flag::EXCL, new, protocol),
        message(rtnl::DELRULE, 0, old, protocol),
    ];
    Order::new("change rule", messages).tolerating(&[Errno::NOENT])
}

fn message(kind: u16, flags: u16, rule: &Rule, protocol: u8) -> Message {
    let family = if rule.family() == Family::Ipv4 { family::INET } else { family::INET6 };
    let table = rule.table.unwrap_or(Table(0));
    let length = |net: Option<IpNet>| net.map_or(0, |net| net.prefix_len());
    let mut header = [0; 12];
    header[..4].copy_from_slice(&[family, length(rule.to), length(rule.from), rule.tos.unwrap_or(0)]);
    header[4] = u8::try_from(table.0).unwrap_or(0);
    header[7] = action_number(rule.action);
    header[8..].copy_from_slice(&(if rule.not { INVERT } else { 0 }).to_ne_bytes());
    let mut message = Message::new(kind, flags).body(&header);
    message.u32(PRIORITY, rule.priority);
    for (kind, net) in [(DST, rule.to), (SRC, rule.from)] {
        if let Some(net) = net.filter(|net| net.prefix_len() > 0) {
            message.bytes(kind, &ip::bytes(net.trunc().addr()));
        }
    }
    for (kind, name) in [(IIFNAME, &rule.incoming), (OIFNAME, &rule.outgoing)] {
        if let Some(name) = name {
            message.text(kind, name);
        }
    }
    let numbers = [
        (FWMARK, rule.mark),
        // Of the mark 0 no bit counts unless it is said.
        (FWMASK, rule.mark_mask.or(rule.mark.filter(|mark| *mark == 0).map(|_| u32::MAX))),
        (GOTO, rule.goto),
        (SUPPRESS_PREFIXLEN, rule.suppress_prefix_length.map(u32::from)),
        (TABLE, rule.table.map(|table| table.0)),
    ];
    for (kind, number) in numbers {
        if let Some(number) = number {
            message.u32(kind, number);
        }
    }
    if rule.l3mdev {
        message.u8(L3MDEV, 1);
    }
    if let Some(UserRange { from, to }) = rule.users {
        message.bytes(UID_RANGE, &[from.to_ne_bytes(), to.to_ne_bytes()].concat());
    }
    if let Some(protocol) = rule.ip_protocol {
        message.u8(IP_PROTO, protocol);
    }
    for (kind, range) in [(SPORT_RANGE, rule.source_ports), (DPORT_RANGE, rule.destination_ports)] {
        if let Some(PortRange { from, to }) = range {
            message.bytes(kind, &[from.to_ne_bytes(), to.to_ne_bytes()].concat());
        }
    }
    message.u8(PROTOCOL, protocol);
    message
}

fn action_number(action: RuleAction) -> u8 {
    match action {
        RuleAction::Lookup => 1,
        RuleAction::Goto => 2,
        RuleAction::Nop => 3,
        RuleAction::Blackhole => 6,
        RuleAction::Unreachable => 7,
        RuleAction::Prohibit => 8,
    }
}

const ACTIONS: &[RuleAction] = &[
    RuleAction::Lookup,
    RuleAction::Goto,
    RuleAction::Nop,
    RuleAction::Blackhole,
    RuleAction::Unreachable,
    RuleAction::Prohibit,
];

/// Reads the message of a rule, and its protocol.
pub(crate) fn decode(received: &Received<'_>, netns: &NetnsName) -> Option<(Rule, u8)> {
    if !matches!(received.kind, rtnl::NEWRULE | rtnl::DELRULE) {
        return None;
    }
    let header = received.payload.get(..12)?;
    let family = match header[0] {
        family::INET => Family::Ipv4,
        family::INET6 => Family::Ipv6,
        _ => return None,
    };
    let action = ACTIONS.iter().copied().find(|action| action_number(*action) == header[7])?;
    let mut rule = Rule {
        netns: netns.clone(),
        family: Some(family),
        priority: 0,
        from: None,
        to: None,
        mark: None,
        mark_mask: None,
        incoming: None,
        outgoing: None,
        tos: Some(header[3]).filter(|tos| *tos != 0),
        ip_protocol: None,
        source_ports: None,
        destination_ports: None,
        users: None,
        l3mdev: false,
        not: u32_at(header, 8)? & INVERT != 0,
        action,
        table: Some(Table(u32::from(header[4]))),
        goto: None,
        suppress_prefix_length: None,
    };
    let mut protocol = 0;
    for attribute in Attributes::after(received.payload, 12) {
        let ports =
            || Some(PortRange { from: u16_at(attribute.payload, 0)?, to: u16_at(attribute.payload, 2)? });
        match attribute.kind {
            DST => rule.to = ip::network(header[0], ip::read(attribute.payload), header[1]),
            SRC => rule.from = ip::network(header[0], ip::read(attribute.payload), header[2]),
            PRIORITY => rule.priority = attribute.as_u32()?,
            IIFNAME => rule.incoming = Some(Name::from(attribute.as_text())),
            OIFNAME => rule.outgoing = Some(Name::from(attribute.as_text())),
            FWMARK => rule.mark = attribute.as_u32(),
            FWMASK => rule.mark_mask = attribute.as_u32(),
            GOTO => rule.goto = attribute.as_u32(),
            SUPPRESS_PREFIXLEN => {
                let length = attribute.as_u32().and_then(|length| u8::try_from(length).ok());
                rule.suppress_prefix_length = length.filter(|length| *length <= 128);
            }
            TABLE => rule.table = attribute.as_u32().map(Table),
            L3MDEV => rule.l3mdev = attribute.as_u8() == Some(1),
            UID_RANGE => {
                let (from, to) = (u32_at(attribute.payload, 0)?, u32_at(attribute.payload, 4)?);
                rule.users = Some(UserRange { from, to });
            }
            PROTOCOL => protocol = attribute.as_u8().unwrap_or(0),
            IP_PROTO => rule.ip_protocol = attribute.as_u8().filter(|protocol| *protocol != 0),
            SPORT_RANGE => rule.source_ports = ports(),
            DPORT_RANGE => rule.destination_ports = ports(),
            _ => {}
        }
    }
    rule.table = rule.table.filter(|table| table.0 != 0 && rule.action == RuleAction::Lookup && !rule.l3mdev);
    // The mark 0 is told by its mask alone.
    if rule.mark.is_none() && rule.mark_mask.is_some_and(|mask| mask != 0) {
        rule.mark = Some(0);
    }
    rule.normalise();
    Some((rule, protocol))
}

/// Asks for every rule of a family.
pub(crate) fn request_all(family: u8) -> Message {
    Message::new(rtnl::GETRULE, 0).body(&[family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
}
