//! Kinds that this kernel cannot make: what is sent is what the kernel's headers say, and what is written reads back.

use kilter_model::linux::bond::{Bond, BondMode, HashPolicy, LacpRate};
use kilter_model::linux::vlan::{Vlan, VlanProtocol};
use kilter_model::linux::{Dummy, LinkKind, LinkRef, Table, Vrf};

use super::attribute as attr;
use super::read::{Seen, SeenKind, decode};
use super::write::{driver, header, kind_data};
use crate::netlink::message::{Messages, flag};
use crate::netlink::{Attributes, Message, rtnl};

fn message(kind: &LinkKind, primary: Option<u32>) -> Message {
    let mut message = Message::new(rtnl::NEWLINK, flag::CREATE | flag::EXCL).body(&header(7, 0, 0));
    message.text(attr::IFNAME, "x");
    message.u32(attr::LINK, 3);
    message.nest(attr::LINKINFO, |info| {
        info.text(attr::INFO_KIND, driver(kind));
        info.nest(attr::INFO_DATA, |data| kind_data(data, kind, None, Some(3), primary));
    });
    message
}

fn seen(kind: &LinkKind, primary: Option<u32>) -> Seen {
    let wire = message(kind, primary).wire();
    let received = Messages(&wire).next().unwrap();
    decode(&received).unwrap()
}

/// The attributes of the kind's own data, as sent.
fn sent(kind: &LinkKind) -> Vec<(u16, Vec<u8>)> {
    let wire = message(kind, None).wire();
    let received = Messages(&wire).next().unwrap();
    let info = Attributes::after(received.payload, 16).get(attr::LINKINFO).unwrap();
    let data = info.nested().get(attr::INFO_DATA).unwrap();
    data.nested().map(|attribute| (attribute.kind, attribute.payload.to_vec())).collect()
}

#[test]
fn vlan() {
    let vlan = Vlan {
        link: LinkRef::here("low"),
        id: 7,
        protocol: VlanProtocol::Dot1ad,
        reorder_header: Some(true),
        gvrp: Some(false),
        mvrp: Some(true),
        loose_binding: Some(false),
    };
    let kind = LinkKind::Vlan(vlan.clone());
    let flags = [9_u32.to_ne_bytes(), 15_u32.to_ne_bytes()].concat();
    assert_eq!(sent(&kind), [(1, vec![7, 0]), (5, vec![0x88, 0xa8]), (2, flags)]);
    let seen = seen(&kind, None);
    assert_eq!((seen.driver(), seen.lower), ("vlan", Some(3)));
    assert_eq!(seen.link_kind(Some(LinkRef::here("low")), None), kind);
}

#[test]
fn vrf_and_dummy() {
    let kind = LinkKind::Vrf(Vrf { table: Table(1000) });
    assert_eq!(sent(&kind), [(1, 1000_u32.to_ne_bytes().to_vec())]);
    assert_eq!(seen(&kind, None).kind, SeenKind::Vrf(Table(1000)));
    let kind = LinkKind::Dummy(Dummy {});
    assert_eq!(sent(&kind), []);
    assert_eq!(seen(&kind, None).kind, SeenKind::Dummy);
}

#[test]
fn bond() {
    let bond = Bond {
        mode: BondMode::Lacp,
        miimon: Some(100),
        up_delay: Some(200),
        down_delay: Some(300),
        arp_interval: None,
        arp_targets: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
        min_links: Some(1),
        primary: None,
        lacp_rate: Some(LacpRate::Fast),
        hash_policy: Some(HashPolicy::Layer34),
        ports: Vec::new(),
    };
    let kind = LinkKind::Bond(bond.clone());
    let sent = sent(&kind);
    assert_eq!(sent[0], (1, vec![4]));
    assert!(sent.contains(&(3, 100_u32.to_ne_bytes().to_vec())));
    assert!(sent.contains(&(21, vec![1])) && sent.contains(&(14, vec![1])));
    assert_eq!(seen(&kind, Some(9)).kind, SeenKind::Bond(bond, Some(9)));
}

#[test]
fn a_change_says_only_what_differs() {
    let (old, new) =
        (Bond { miimon: Some(100), ..Bond::default() }, Bond { miimon: Some(50), ..Bond::default() });
    let mut data = Message::new(0, 0);
    kind_data(&mut data, &LinkKind::Bond(new), Some(&LinkKind::Bond(old)), None, None);
    let wire = data.wire();
    let received = Messages(&wire).next().unwrap();
    let said: Vec<u16> = Attributes(received.payload).map(|attribute| attribute.kind).collect();
    assert_eq!(said, [3]);
}
