//! Links on the wire: what is read of one.

use kilter_model::linux::{
    AddrGenMode, AdminState, Dummy, Ifb, LinkFields, LinkKind, LinkRef, Loopback, Mac, Macvlan, Macvtap,
    Name, PortOptions, Table, Tap, Veth, Vrf,
};

use super::attribute as attr;
use crate::mark;
use crate::netlink::message::u32_at;
use crate::netlink::{Attributes, Message, Received, Refusal, Requests, rtnl};
use crate::{bond, bridge, macvlan, port, tap, vlan, vxlan};

/// A link as the kernel tells of it. Other links are known by their index; what they are called is looked up later.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) index: u32,
    pub(crate) name: Name,
    pub(crate) up: bool,
    pub(crate) loopback: bool,
    pub(crate) mtu: Option<u32>,
    pub(crate) mac: Option<Mac>,
    pub(crate) alias: Option<String>,
    pub(crate) alt_names: Vec<String>,
    pub(crate) group: Option<u32>,
    pub(crate) tx_queue_len: Option<u32>,
    pub(crate) addr_gen_mode: Option<AddrGenMode>,
    pub(crate) master: Option<u32>,
    /// The index of the link below, or of the other end.
    pub(crate) lower: Option<u32>,
    /// The number of the namespace of the link below, if it is another one.
    pub(crate) lower_netns: Option<i32>,
    pub(crate) kind: SeenKind,
    /// How its bridge treats it.
    pub(crate) port: Option<PortOptions>,
}

/// What kind of link it is, as far as its own message tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum SeenKind {
    /// Hardware, or something that has no driver of its own.
    #[default]
    Plain,
    Veth,
    Bridge(kilter_model::linux::Bridge),
    Vxlan(kilter_model::linux::Vxlan),
    Tap(Tap),
    Tun(Tap),
    Macvlan(kilter_model::linux::MacvlanMode),
    Macvtap(kilter_model::linux::MacvlanMode),
    Ifb,
    Dummy,
    /// With a link below that is not filled in.
    Vlan(kilter_model::linux::Vlan),
    Vrf(Table),
    /// With the index of the preferred port.
    Bond(kilter_model::linux::Bond, Option<u32>),
    /// A driver that we do not know.
    Other(Name),
}

/// Reads the message of a link.
pub(crate) fn decode(received: &Received<'_>) -> Option<Seen> {
    if !matches!(received.kind, rtnl::NEWLINK | rtnl::DELLINK) {
        return None;
    }
    let flags = u32_at(received.payload, 8)?;
    let mut seen = Seen {
        index: u32_at(received.payload, 4)?,
        up: flags & attr::IFF_UP != 0,
        loopback: flags & attr::IFF_LOOPBACK != 0,
        ..Seen::default()
    };
    for attribute in Attributes::after(received.payload, 16) {
        match attribute.kind {
            attr::IFNAME => seen.name = Name::from(attribute.as_text()),
            attr::MTU => seen.mtu = attribute.as_u32(),
            attr::ADDRESS => seen.mac = attribute.payload.try_into().ok().map(Mac),
            attr::LINK => seen.lower = attribute.as_u32().filter(|index| *index != 0),
            attr::LINK_NETNSID => seen.lower_netns = attribute.as_u32().map(u32::cast_signed),
            attr::MASTER => seen.master = attribute.as_u32().filter(|index| *index != 0),
            attr::TXQLEN => seen.tx_queue_len = attribute.as_u32(),
            attr::GROUP => seen.group = attribute.as_u32(),
            attr::IFALIAS => seen.alias = Some(attribute.as_text()).filter(|alias| !alias.is_empty()),
            attr::PROP_LIST => {
                let names = attribute.nested().filter(|name| name.kind == attr::ALT_IFNAME);
                seen.alt_names = names.map(|name| name.as_text()).collect();
            }
            attr::AF_SPEC => {
                let inet6 = attribute.nested().get(attr::INET6);
                let mode = inet6.and_then(|inet6| inet6.nested().get(attr::INET6_ADDR_GEN_MODE));
                seen.addr_gen_mode = mode.and_then(|mode| mode_of(mode.as_u8()?));
            }
            attr::LINKINFO => decode_info(&mut seen, attribute.nested()),
            _ => {}
        }
    }
    Some(seen)
}

fn decode_info(seen: &mut Seen, info: Attributes<'_>) {
    let data = info.get(attr::INFO_DATA).map(|data| data.nested()).unwrap_or_default();
    let slave = info.get(attr::INFO_SLAVE_KIND).map(|kind| kind.as_text());
    if slave.as_deref() == Some("bridge") {
        seen.port = info.get(attr::INFO_SLAVE_DATA).map(|data| port::read(data.nested()));
    }
    let Some(driver) = info.get(attr::INFO_KIND).map(|kind| kind.as_text()) else { return };
    seen.kind = match driver.as_str() {
        "veth" => SeenKind::Veth,
        "bridge" => SeenKind::Bridge(bridge::read(data)),
        "vxlan" => {
            let (vxlan, lower) = vxlan::read(data);
            seen.lower = lower;
            SeenKind::Vxlan(vxlan)
        }
        "tun" => tap::read(data),
        "macvlan" => SeenKind::Macvlan(macvlan::read(data)),
        "macvtap" => SeenKind::Macvtap(macvlan::read(data)),
        "ifb" => SeenKind::Ifb,
        "dummy" => SeenKind::Dummy,
        "vlan" => SeenKind::Vlan(vlan::read(data, LinkRef::here(""))),
        "vrf" => SeenKind::Vrf(Table(data.get(1).and_then(|table| table.as_u32()).unwrap_or(0))),
        "bond" => {
            let (bond, primary) = bond::read(data);
            SeenKind::Bond(bond, primary)
        }
        other => SeenKind::Other(Name::from(other)),
    };
}

fn mode_of(number: u8) -> Option<AddrGenMode> {
    [AddrGenMode::Eui64, AddrGenMode::None, AddrGenMode::StablePrivacy, AddrGenMode::Random]
        .into_iter()
        .find(|mode| super::write::number(*mode) == number)
}

impl Seen {
    /// Whether the link is ours.
    pub(crate) fn is_ours(&self) -> bool {
        mark::is_ours(self.index)
    }

    /// What the kernel calls its kind.
    pub(crate) fn driver(&self) -> &str {
        match &self.kind {
            SeenKind::Plain => "",
            SeenKind::Veth => "veth",
            SeenKind::Bridge(_) => "bridge",
            SeenKind::Vxlan(_) => "vxlan",
            SeenKind::Tap(_) | SeenKind::Tun(_) => "tun",
            SeenKind::Macvlan(_) => "macvlan",
            SeenKind::Macvtap(_) => "macvtap",
            SeenKind::Ifb => "ifb",
            SeenKind::Dummy => "dummy",
            SeenKind::Vlan(_) => "vlan",
            SeenKind::Vrf(_) => "vrf",
            SeenKind::Bond(..) => "bond",
            SeenKind::Other(driver) => driver,
        }
    }

    /// What every link has, without what is an item of its own.
    pub(crate) fn fields(&self) -> LinkFields {
        let mut alt_names: Vec<String> =
            self.alt_names.iter().filter(|name| *name != mark::NETNS_MARK).cloned().collect();
        alt_names.sort_unstable();
        LinkFields {
            state: Some(if self.up { AdminState::Up } else { AdminState::Down }),
            mtu: self.mtu,
            // A loopback has none.
            mac: self.mac.filter(|mac| !mac.is_zero()),
            alias: self.alias.clone(),
            alt_names,
            group: self.group,
            addr_gen_mode: self.addr_gen_mode,
            tx_queue_len: self.tx_queue_len,
            ..LinkFields::default()
        }
    }

    /// The kind with the link below, or the other end, filled in.
    pub(crate) fn link_kind(&self, lower: Option<LinkRef>, primary: Option<Name>) -> LinkKind {
        let foreign = |driver: &str| LinkKind::Foreign { driver: Name::new(driver) };
        match (&self.kind, lower) {
            (SeenKind::Plain, _) if self.loopback => LinkKind::Loopback(Loopback {}),
            (SeenKind::Plain, _) => foreign(""),
            (SeenKind::Veth, peer) => LinkKind::Veth(Veth { peer }),
            (SeenKind::Bridge(bridge), _) => LinkKind::Bridge(bridge.clone()),
            (SeenKind::Vxlan(vxlan), link) => {
                LinkKind::Vxlan(kilter_model::linux::Vxlan { link, ..vxlan.clone() })
            }
            (SeenKind::Tap(tap), _) => LinkKind::Tap(tap.clone()),
            (SeenKind::Tun(tap), _) => LinkKind::Tun(tap.clone()),
            (SeenKind::Macvlan(mode), Some(link)) => LinkKind::Macvlan(Macvlan { link, mode: *mode }),
            (SeenKind::Macvtap(mode), Some(link)) => LinkKind::Macvtap(Macvtap { link, mode: *mode }),
            (SeenKind::Vlan(vlan), Some(link)) => {
                LinkKind::Vlan(kilter_model::linux::Vlan { link, ..vlan.clone() })
            }
            (SeenKind::Macvlan(_), None) => foreign("macvlan"),
            (SeenKind::Macvtap(_), None) => foreign("macvtap"),
            (SeenKind::Vlan(_), None) => foreign("vlan"),
            (SeenKind::Ifb, _) => LinkKind::Ifb(Ifb {}),
            (SeenKind::Dummy, _) => LinkKind::Dummy(Dummy {}),
            (SeenKind::Vrf(table), _) => LinkKind::Vrf(Vrf { table: *table }),
            (SeenKind::Bond(bond, _), _) => {
                LinkKind::Bond(kilter_model::linux::Bond { primary, ..bond.clone() })
            }
            (SeenKind::Other(driver), _) => foreign(driver),
        }
    }
}

/// Asks for one link by its name.
pub(crate) fn request(name: &str) -> Message {
    let mut message = Message::new(rtnl::GETLINK, 0).body(&[0; 16]);
    message.text(attr::IFNAME, name);
    message.u32(attr::EXT_MASK, attr::SKIP_STATS);
    message
}

/// Asks for all links.
pub(crate) fn request_all() -> Message {
    let mut message = Message::new(rtnl::GETLINK, 0).body(&[0; 16]);
    message.u32(attr::EXT_MASK, attr::SKIP_STATS);
    message
}

/// The link of this name. A second name of another link is not its name.
pub(crate) fn read_one(requests: &mut Requests, name: &str) -> Result<Option<Seen>, Refusal> {
    let seen = requests.read(&request(name), decode)?;
    Ok(seen.filter(|seen| seen.name == name))
}

/// The link of this index.
pub(crate) fn read_index_of(requests: &mut Requests, index: u32) -> Result<Option<Seen>, Refusal> {
    let mut request = Message::new(rtnl::GETLINK, 0).body(&super::write::header(index, 0, 0));
    request.u32(attr::EXT_MASK, attr::SKIP_STATS);
    requests.read(&request, decode)
}

/// The index of the link of this name.
pub(crate) fn read_index(requests: &mut Requests, name: &str) -> Result<Option<u32>, Refusal> {
    let index = |received: &Received<'_>| u32_at(received.payload, 4);
    requests.read(&request(name), index)
}

/// Every link of the namespace.
pub(crate) fn read_all(requests: &mut Requests) -> Result<Vec<Seen>, Refusal> {
    requests.dump(&request_all(), Vec::new, |links, received| links.extend(decode(received)))
}
