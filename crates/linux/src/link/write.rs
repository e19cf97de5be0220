//! Links on the wire: what is sent to make and to change one.

use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use kilter_model::linux::{
    AddrGenMode, Link, LinkFields, LinkKind, LinkRef, Macvlan, MacvlanMode, Macvtap, NetnsName,
};
use kilter_scheduler::{Facts, Key};

use super::attribute as attr;
use crate::netlink::{KernelError, Message, flag, rtnl};
use crate::order::{LinkFacts, Order, Site, is_unknown_kind, known_index};
use crate::space::Space;
use crate::{bond, bridge, macvlan, vlan, vxlan};

/// What stands before the attributes of a link.
pub(crate) fn header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&change.to_ne_bytes());
    header
}

/// What the kernel calls a kind of link.
pub(crate) fn driver(kind: &LinkKind) -> &str {
    match kind {
        LinkKind::Veth(_) => "veth",
        LinkKind::Bridge(_) => "bridge",
        LinkKind::Vxlan(_) => "vxlan",
        LinkKind::Tap(_) | LinkKind::Tun(_) => "tun",
        LinkKind::Macvlan(_) => "macvlan",
        LinkKind::Macvtap(_) => "macvtap",
        LinkKind::Ifb(_) => "ifb",
        LinkKind::Dummy(_) => "dummy",
        LinkKind::Vlan(_) => "vlan",
        LinkKind::Vrf(_) => "vrf",
        LinkKind::Bond(_) => "bond",
        LinkKind::Loopback(_) => "",
        LinkKind::Foreign { driver } => driver,
    }
}

/// What the kernel lacks if it cannot make a kind of link.
fn feature(kind: &LinkKind) -> Option<&'static str> {
    Some(match kind {
        LinkKind::Veth(_) => "veth links (CONFIG_VETH)",
        LinkKind::Bridge(_) => "bridges (CONFIG_BRIDGE)",
        LinkKind::Vxlan(_) => "vxlan links (CONFIG_VXLAN)",
        LinkKind::Tap(_) | LinkKind::Tun(_) => "tun and tap links (CONFIG_TUN)",
        LinkKind::Macvlan(_) => "macvlan links (CONFIG_MACVLAN)",
        LinkKind::Macvtap(_) => "macvtap links (CONFIG_MACVTAP)",
        LinkKind::Ifb(_) => "ifb links (CONFIG_IFB)",
        LinkKind::Dummy(_) => "dummy links (CONFIG_DUMMY)",
        LinkKind::Vlan(_) => "vlan links (CONFIG_VLAN_8021Q)",
        LinkKind::Vrf(_) => "vrf links (CONFIG_NET_VRF)",
        LinkKind::Bond(_) => "bonds (CONFIG_BONDING)",
        LinkKind::Loopback(_) | LinkKind::Foreign { .. } => return None,
    })
}

/// What the kernel may lack of a kind that it has, if it is asked for.
pub(crate) fn option(kind: &LinkKind) -> Option<&'static str> {
    let LinkKind::Bridge(bridge) = kind else { return None };
    bridge.vlan_filtering.map(|_| "VLAN filtering of bridges (CONFIG_BRIDGE_VLAN_FILTERING)")
}

/// The link below, if the kind has one.
pub(crate) fn lower(kind: &LinkKind) -> Option<&LinkRef> {
    match kind {
        LinkKind::Vxlan(vxlan) => vxlan.link.as_ref(),
        LinkKind::Macvlan(macvlan) => Some(&macvlan.link),
        LinkKind::Macvtap(macvtap) => Some(&macvtap.link),
        LinkKind::Vlan(vlan) => Some(&vlan.link),
        LinkKind::Veth(_)
        | LinkKind::Bridge(_)
        | LinkKind::Tap(_)
        | LinkKind::Tun(_)
        | LinkKind::Ifb(_)
        | LinkKind::Dummy(_)
        | LinkKind::Vrf(_)
        | LinkKind::Bond(_)
        | LinkKind::Loopback(_)
        | LinkKind::Foreign { .. } => None,
    }
}

/// Where the link below is.
pub(crate) struct Lower {
    pub(crate) index: u32,
    /// Its namespace, if it is not that of the link.
    space: Option<Arc<Space>>,
}

pub(crate) fn find_lower(
    site: &mut Site<'_>,
    lower: &LinkRef,
    needs: &[(Key, Facts)],
) -> Result<Lower, KernelError> {
    let netns = lower.netns(&site.netns).clone();
    if netns == site.netns {
        return Ok(Lower { index: site.index(&lower.name, needs)?, space: None });
    }
    let space = site.shared.spaces.get(netns.as_str())?;
    let index = match known_index(netns.as_str(), &lower.name, needs) {
        Some(index) => index,
        None => site.shared.ask_index(&space, &lower.name)?,
    };
    Ok(Lower { index, space: Some(space) })
}

/// Makes a link over netlink.
pub(crate) fn create(site: &mut Site<'_>, link: &Link, needs: &[(Key, Facts)]) -> Result<Order, KernelError> {
    let index = site.shared.indexes.next();
    let below = lower(&link.kind).map(|lower| find_lower(site, lower, needs)).transpose()?;
    let primary = if let LinkKind::Bond(bond) = &link.kind { bond.primary.as_ref() } else { None };
    let primary = primary.and_then(|port| site.index(port, needs).ok());
    let peer = if let LinkKind::Veth(veth) = &link.kind { veth.peer.as_ref() } else { None };
    let peer = peer.map(|peer| find_peer(site, peer)).transpose()?;
    let mut first = Message::new(rtnl::NEWLINK, flag::CREATE | flag::EXCL).body(&header(index, 0, 0));
    first.text(attr::IFNAME, &link.name);
    born_fields(&mut first, &link.fields);
    if let Some(below) = below.as_ref().filter(|_| !matches!(link.kind, LinkKind::Vxlan(_))) {
        first.u32(attr::LINK, below.index);
    }
    let elsewhere = below.as_ref().and_then(|below| below.space.clone());
    if elsewhere.is_some() {
        first.u32(attr::NET_NS_FD, descriptor(&site.space));
    }
    first.nest(attr::LINKINFO, |info| {
        info.text(attr::INFO_KIND, driver(&link.kind));
        info.nest(attr::INFO_DATA, |data| {
            if let Some(peer) = &peer {
                peer.write(data);
            }
            kind_data(data, &link.kind, None, below.as_ref().map(|below| below.index), primary);
        });
    });
    let mut messages = vec![first];
    messages.extend(late_fields(index, &link.fields, None, again(&link.kind, &link.fields, index)));
    let mut order =
        Order::new("add link", messages).teaching(LinkFacts { index }).of_feature(feature(&link.kind));
    order = order.of_option(option(&link.kind));
    if let Some(peer) = peer {
        site.shared.promise_peer(peer.netns.as_str(), &peer.name, peer.index);
        order.keep = peer.space;
    }
    if let Some(space) = elsewhere {
        // The request goes to where the link below is; what follows goes to where the link will be.
        let first = order.messages.remove(0);
        let made = space.requests().change_one(&first);
        if let Err(refusal) = made {
            return Err(match feature(&link.kind).filter(|_| is_unknown_kind(&refusal)) {
                Some(feature) => KernelError::Unimplemented {
                    operation: "add link",
                    subject: link.name.to_string(),
                    feature: feature.to_owned(),
                },
                None => KernelError::refused("add link", &link.name, refusal),
            });
        }
    }
    Ok(order)
}

/// What the kernel does not heed while it makes a link: one that has the link below to itself begins with its address.
fn again(kind: &LinkKind, fields: &LinkFields, index: u32) -> Option<Message> {
    let is_alone =
        if let LinkKind::Macvlan(Macvlan { mode, .. }) | LinkKind::Macvtap(Macvtap { mode, .. }) = kind {
            *mode == MacvlanMode::Passthru
        } else {
            false
        };
    let mac = fields.mac.filter(|_| is_alone)?;
    let mut message = Message::new(rtnl::NEWLINK, 0).body(&header(index, 0, 0));
    born_fields(&mut message, &LinkFields { mac: Some(mac), ..LinkFields::default() });
    Some(message)
}

/// The other end of a pair, which is made together with the first.
struct Peer {
    netns: NetnsName,
    name: String,
    index: u32,
    /// Its namespace, if it is not that of the first end.
    space: Option<Arc<Space>>,
}

fn find_peer(site: &Site<'_>, peer: &LinkRef) -> Result<Peer, KernelError> {
    let netns = peer.netns(&site.netns).clone();
    let elsewhere = netns != site.netns;
    let space = elsewhere.then(|| site.shared.spaces.get(netns.as_str())).transpose()?;
    Ok(Peer { netns, name: peer.name.to_string(), index: site.shared.indexes.next(), space })
}

impl Peer {
    fn write(&self, data: &mut Message) {
        data.nest_after(attr::VETH_INFO_PEER, &header(self.index, 0, 0), |peer| {
            peer.text(attr::IFNAME, &self.name);
            if let Some(space) = &self.space {
                peer.u32(attr::NET_NS_FD, descriptor(space));
            }
        });
    }
}

fn descriptor(space: &Space) -> u32 {
    u32::try_from(space.handle().as_raw_fd()).unwrap_or(0)
}

/// Writes what only this kind of link has: everything that is said, or what differs from what is.
pub(crate) fn kind_data(
    data: &mut Message,
    kind: &LinkKind,
    old: Option<&LinkKind>,
    lower: Option<u32>,
    primary: Option<u32>,
) {
    match (kind, old) {
        (LinkKind::Bridge(new), Some(LinkKind::Bridge(old))) => bridge::write(data, new, Some(old)),
        (LinkKind::Bridge(new), _) => bridge::write(data, new, None),
        (LinkKind::Vxlan(new), Some(LinkKind::Vxlan(old))) => vxlan::write(data, new, Some(old), lower),
        (LinkKind::Vxlan(new), _) => vxlan::write(data, new, None, lower),
        (LinkKind::Vlan(new), Some(LinkKind::Vlan(old))) => vlan::write(data, new, Some(old)),
        (LinkKind::Vlan(new), _) => vlan::write(data, new, None),
        (LinkKind::Bond(new), Some(LinkKind::Bond(old))) => bond::write(data, new, Some(old), primary),
        (LinkKind::Bond(new), _) => bond::write(data, new, None, primary),
        (LinkKind::Macvlan(new), Some(LinkKind::Macvlan(old))) if old.mode == new.mode => {}
        (LinkKind::Macvlan(new), _) => macvlan::write(data, new.mode),
        (LinkKind::Macvtap(new), Some(LinkKind::Macvtap(old))) if old.mode == new.mode => {}
        (LinkKind::Macvtap(new), _) => macvlan::write(data, new.mode),
        (LinkKind::Vrf(new), None) => data.u32(1, new.table.0),
        (
            LinkKind::Vrf(_)
            | LinkKind::Veth(_)
            | LinkKind::Tap(_)
            | LinkKind::Tun(_)
            | LinkKind::Ifb(_)
            | LinkKind::Dummy(_)
            | LinkKind::Loopback(_)
            | LinkKind::Foreign { .. },
            _,
        ) => {}
    }
}

/// Fields that the kernel takes while it makes a link.
fn born_fields(message: &mut Message, fields: &LinkFields) {
    if let Some(mac) = fields.mac {
        message.bytes(attr::ADDRESS, &mac.0);
    }
    if let Some(mtu) = fields.mtu {
        message.u32(attr::MTU, mtu);
    }
    if let Some(length) = fields.tx_queue_len {
        message.u32(attr::TXQLEN, length);
    }
    if let Some(group) = fields.group {
        message.u32(attr::GROUP, group);
    }
}

/// The kernel's word for a kind, and what writes what only that kind has.
pub(crate) type KindData<'a> = (&'a str, &'a dyn Fn(&mut Message));

/// Changes a link that exists: what is said and differs from what is, in as few requests as the kernel allows.
pub(crate) fn change(
    index: u32,
    new: &LinkFields,
    old: Option<&LinkFields>,
    kind: Option<KindData<'_>>,
) -> Vec<Message> {
    let none = LinkFields::default();
    let before = old.unwrap_or(&none);
    let differing = LinkFields {
        mac: new.mac.filter(|_| new.mac != before.mac),
        mtu: new.mtu.filter(|_| new.mtu != before.mtu),
        tx_queue_len: new.tx_queue_len.filter(|_| new.tx_queue_len != before.tx_queue_len),
        group: new.group.filter(|_| new.group != before.group),
        ..LinkFields::default()
    };
    let mut early = Message::new(rtnl::NEWLINK, 0).body(&header(index, 0, 0));
    let empty = early.len();
    born_fields(&mut early, &differing);
    let mut messages = Vec::new();
    if let Some((driver, data)) = kind {
        if driver == "vxlan" && differing.mtu.is_some() {
            // A tunnel does not take a size together with anything of its own.
            messages.push(std::mem::replace(
                &mut early,
                Message::new(rtnl::NEWLINK, 0).body(&header(index, 0, 0)),
            ));
        }
        early.nest(attr::LINKINFO, |info| {
            info.text(attr::INFO_KIND, driver);
            info.nest(attr::INFO_DATA, data);
        });
    }
    let early = (early.len() > empty).then_some(early);
    messages.extend(late_fields(index, new, old, early));
    messages
}

/// Fields that the kernel takes only once the link is there, added to `request` if there is one.
fn late_fields(
    index: u32,
    new: &LinkFields,
    old: Option<&LinkFields>,
    request: Option<Message>,
) -> Vec<Message> {
    let none = LinkFields::default();
    let old = old.unwrap_or(&none);
    let mut request = request.unwrap_or_else(|| Message::new(rtnl::NEWLINK, 0).body(&header(index, 0, 0)));
    if let Some(alias) = new.alias.as_ref().filter(|_| new.alias != old.alias) {
        request.bytes(attr::IFALIAS, alias.as_bytes());
    }
    if let Some(mode) = new.addr_gen_mode.filter(|_| new.addr_gen_mode != old.addr_gen_mode) {
        request.nest(attr::AF_SPEC, |families| {
            families.nest(attr::INET6, |inet6| inet6.u8(attr::INET6_ADDR_GEN_MODE, number(mode)));
        });
    }
    let mut messages = Vec::new();
    if request.len() > crate::netlink::message::HEADER + 16 {
        messages.push(request);
    }
    let names = |kind: u16, flags: u16, names: Vec<&String>| {
        (!names.is_empty()).then(|| {
            let mut message = Message::new(kind, flags).body(&header(index, 0, 0));
            message.nest(attr::PROP_LIST, |list| {
                names.iter().for_each(|name| list.text(attr::ALT_IFNAME, name));
            });
            message
        })
    };
    // Names that others gave to a link of theirs stay.
    let is_theirs = old.reading.as_ref().is_some_and(|read| !read.ours);
    let gone = old.alt_names.iter().filter(|name| !is_theirs && !new.alt_names.contains(name)).collect();
    let added = new.alt_names.iter().filter(|name| !old.alt_names.contains(name)).collect();
    messages.extend(names(rtnl::DELLINKPROP, 0, gone));
    messages.extend(names(rtnl::NEWLINKPROP, flag::CREATE | flag::EXCL | flag::APPEND, added));
    messages
}

pub(crate) fn number(mode: AddrGenMode) -> u8 {
    match mode {
        AddrGenMode::Eui64 => 0,
        AddrGenMode::None => 1,
        AddrGenMode::StablePrivacy => 2,
        AddrGenMode::Random => 3,
    }
}

/// Switches a link on or off.
pub(crate) fn switch(index: u32, up: bool) -> Message {
    let flags = if up { attr::IFF_UP } else { 0 };
    Message::new(rtnl::NEWLINK, 0).body(&header(index, flags, attr::IFF_UP))
}

/// Binds a link to a bridge, bond or VRF; nought looses it.
pub(crate) fn bind(index: u32, master: u32) -> Message {
    let mut message = Message::new(rtnl::NEWLINK, 0).body(&header(index, 0, 0));
    message.u32(attr::MASTER, master);
    message
}

/// Gives a link its name, and its namespace if it is in another one.
pub(crate) fn back(index: u32, name: &str, into: Option<&Arc<Space>>) -> Message {
    let mut message = Message::new(rtnl::NEWLINK, 0).body(&header(index, 0, 0));
    if let Some(space) = into {
        message.u32(attr::NET_NS_FD, descriptor(space));
    }
    message.text(attr::IFNAME, name);
    message
}

/// The index of the link that a message is about.
pub(crate) fn index_of(message: &Message) -> Option<u32> {
    message.u32_in_body(4)
}
