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
fn every_option_of_a_bond_is_sent_alone_and_reads_back() {
    let word = |number: u32| number.to_ne_bytes().to_vec();
    let with = |change: fn(&mut Bond)| {
        let mut bond = Bond::default();
        change(&mut bond);
        bond
    };
    let targets = [[8, 0, 0, 0, 10, 0, 0, 1], [8, 0, 1, 0, 10, 0, 0, 2]].concat();
    let cases = [
        (with(|bond| bond.miimon = Some(100)), (3, word(100))),
        (with(|bond| bond.up_delay = Some(200)), (4, word(200))),
        (with(|bond| bond.down_delay = Some(300)), (5, word(300))),
        (with(|bond| bond.arp_interval = Some(400)), (7, word(400))),
        (
            with(|bond| bond.arp_targets = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap()).to_vec()),
            (8, targets),
        ),
        (with(|bond| bond.hash_policy = Some(HashPolicy::VlanSrcMac)), (14, vec![5])),
        (with(|bond| bond.min_links = Some(2)), (18, word(2))),
        (with(|bond| bond.lacp_rate = Some(LacpRate::Slow)), (21, vec![0])),
    ];
    for (bond, expected) in cases {
        let kind = LinkKind::Bond(bond.clone());
        // The mode is always said.
        assert_eq!(sent(&kind), [(1, vec![0]), expected]);
        assert_eq!(seen(&kind, None).kind, SeenKind::Bond(bond.clone(), None));
        // Changed in place, it is all that is said.
        assert_eq!(changed(&LinkKind::Bond(Bond::default()), &kind).len(), 1, "{bond:?}");
        assert_eq!(changed(&kind, &kind), []);
    }
    for (mode, number) in [
        (BondMode::BalanceRr, 0),
        (BondMode::ActiveBackup, 1),
        (BondMode::BalanceXor, 2),
        (BondMode::Broadcast, 3),
        (BondMode::Lacp, 4),
        (BondMode::BalanceTlb, 5),
        (BondMode::BalanceAlb, 6),
    ] {
        let bond = Bond { mode, ..Bond::default() };
        assert_eq!(sent(&LinkKind::Bond(bond.clone())), [(1, vec![number])]);
        assert_eq!(seen(&LinkKind::Bond(bond.clone()), None).kind, SeenKind::Bond(bond, None));
    }
}

#[test]
fn every_flag_of_a_vlan_is_sent_alone_with_its_bit() {
    let plain = Vlan {
        link: LinkRef::here("low"),
        id: 7,
        protocol: VlanProtocol::Dot1q,
        reorder_header: None,
        gvrp: None,
        mvrp: None,
        loose_binding: None,
    };
    for on in [true, false] {
        let cases = [
            (Vlan { reorder_header: Some(on), ..plain.clone() }, 1_u32),
            (Vlan { gvrp: Some(on), ..plain.clone() }, 2),
            (Vlan { loose_binding: Some(on), ..plain.clone() }, 4),
            (Vlan { mvrp: Some(on), ..plain.clone() }, 8),
        ];
        for (vlan, bit) in cases {
            let value = if on { bit } else { 0 };
            let flags = [value.to_ne_bytes(), bit.to_ne_bytes()].concat();
            let said = changed(&LinkKind::Vlan(plain.clone()), &LinkKind::Vlan(vlan));
            assert_eq!(said, [(2, flags)]);
        }
    }
}

/// The attributes of the kind's own data, as a change sends them.
fn changed(old: &LinkKind, new: &LinkKind) -> Vec<(u16, Vec<u8>)> {
    let mut data = Message::new(0, 0);
    kind_data(&mut data, new, Some(old), None, None);
    let wire = data.wire();
    let received = Messages(&wire).next().unwrap();
    Attributes(received.payload).map(|attribute| (attribute.kind, attribute.payload.to_vec())).collect()
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
