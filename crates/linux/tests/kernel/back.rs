//! The way back leads to where a change came from: also from fields that a declaration had left open.

use kilter_linux::Settings;
use kilter_scheduler::{Outcome, Resync, Txn};

use crate::faults::Faults;
use crate::harness::{House, assert_same, items, removal, steps};

/// What is there, what is declared on it, and what the declaration becomes.
struct Change {
    ground: &'static [&'static str],
    earlier: &'static str,
    later: &'static str,
}

/// One change in place of fields that were left open, for each kind that this kernel can make.
const OPEN: &[Change] = &[
    Change {
        ground: &[],
        earlier: "{kind: bridge, name: br0, mac: '02:00:00:00:00:01', addr-gen-mode: none}",
        later: "{kind: bridge, name: br0, mac: '02:00:00:00:00:01', addr-gen-mode: none, mtu: 1400, alias: mine, \
                alt-names: [second], group: 7, tx-queue-len: 77, stp: true, priority: 4096, forward-delay: 4, \
                hello-time: 1, max-age: 10, ageing-time: 100, multicast-snooping: false, group-forward-mask: 8}",
    },
    Change {
        ground: &[],
        earlier: "{kind: tap, name: t0, state: down}",
        later: "{kind: tap, name: t0, state: down, mac: '02:00:00:00:00:07', addr-gen-mode: none, mtu: 1300}",
    },
    Change {
        ground: &[],
        earlier: "{kind: vxlan, name: vx, vni: 7, local: 10.0.0.1, addr-gen-mode: none}",
        later: "{kind: vxlan, name: vx, vni: 7, local: 10.0.0.1, addr-gen-mode: none, ttl: 9, ageing: 77, \
                learning: false, mtu: 1300}",
    },
    Change {
        ground: &[],
        earlier: "{kind: bridge, name: br0, mac: '02:00:00:00:00:01', ports: [t0], addr-gen-mode: none}\n---\n\
                  {kind: tap, name: t0, addr-gen-mode: none}",
        later: "{kind: bridge, name: br0, mac: '02:00:00:00:00:01', addr-gen-mode: none, ports: [{link: t0, \
                cost: 9, priority: 7, hairpin: true, bpdu-guard: true, root-block: true, fast-leave: true, \
                learning: false, flood: false, multicast-flood: false, broadcast-flood: false, isolated: true, \
                neighbour-suppression: true}]}\n---\n{kind: tap, name: t0, addr-gen-mode: none}",
    },
    Change {
        ground: &[
            "ip link add eth1 type veth peer name eth2",
            "ip link property add dev eth1 altname theirs",
        ],
        earlier: "{kind: existing, name: eth1}",
        later: "{kind: existing, name: eth1, mtu: 1400, alias: mine, alt-names: [second], group: 7, \
                tx-queue-len: 77, addr-gen-mode: none, state: up}",
    },
    Change {
        ground: &["ip link add eth1 type veth peer name eth2", "ip link set eth1 up alias before"],
        earlier: "{kind: existing, name: eth1}",
        later: "{kind: existing, name: eth1, state: down, alias: mine}",
    },
    Change {
        ground: &["ip link set lo alias before"],
        earlier: "{kind: loopback, name: lo}",
        later: "{kind: loopback, name: lo, mtu: 1500, alias: mine, alt-names: [second]}",
    },
    Change {
        ground: &[
            "ip link add br0 type bridge forward_delay 700",
            "ip link property add dev br0 altname theirs",
        ],
        earlier: "{kind: bridge, name: br0, state: down}",
        later: "{kind: bridge, name: br0, state: down, mtu: 1400, forward-delay: 9, alt-names: [second]}",
    },
];

impl Change {
    fn lay(&self, house: &mut House) {
        self.ground.iter().for_each(|line| drop(house.sh(line)));
        house.run(Txn::resync(Resync::Downstream));
        house.commit(items(self.earlier));
    }
}

#[test]
fn fields_that_were_left_open_get_back_what_they_were_whichever_operation_fails() {
    for change in OPEN {
        let mut at = 0;
        loop {
            let (mut house, fuse) = Faults::fused();
            change.lay(&mut house);
            let before = house.dump();
            fuse.light(at);
            // The failure of the last one comes after all that is to be taken back.
            let more = "{kind: rule, priority: 100, table: 100}";
            let record = house.run(Txn::all_or_nothing(items(&format!("{}\n---\n{more}", change.later))));
            match &record.outcome {
                Outcome::Applied => break,
                Outcome::Reverted(_) => {}
                other @ (Outcome::AppliedWithPending
                | Outcome::Incomplete(_)
                | Outcome::RevertFailed { .. }) => {
                    panic!("{}, {at}: {other:?}\n{}", change.later, steps(&record))
                }
            }
            println!("{at}: {}", steps(&record));
            assert_same(&house.dump(), &before);
            at += 1;
        }
        assert!(at >= 2, "{} takes {at} operations", change.later);
    }
}

#[test]
fn fields_that_are_not_declared_any_more_get_back_what_they_were() {
    for change in OPEN {
        let mut house = House::new();
        change.lay(&mut house);
        let before = house.dump();
        house.commit(items(change.later));
        assert_ne!(house.dump(), before, "{}", change.later);
        // The reading of everything in between changes nothing about what is known.
        assert_eq!(house.writes(|house| drop(house.run(Txn::resync(Resync::Downstream)))), 0);
        house.commit(items(change.earlier));
        assert_same(&house.dump(), &before);
        assert_eq!(house.writes(|house| drop(house.run(Txn::resync(Resync::Downstream)))), 0);
        assert_same(&house.dump(), &before);
    }
}

/// The settings of an agent that remembers what fields were, beside its namespaces.
fn lasting(folder: &std::path::Path) -> Settings {
    let former_fields = Some(folder.join("former-fields"));
    Settings { netns_dir: folder.join("netns"), former_fields, ..Settings::default() }
}

#[test]
fn fields_that_are_not_declared_any_more_get_back_what_they_were_before_an_earlier_run() {
    let folder = std::env::temp_dir().join(format!("kilter-lasting-{}", std::process::id()));
    for change in OPEN {
        // Which second names of a link of others are ours is known to the run that gave them.
        let later = match change.ground {
            [] => change.later.to_owned(),
            [..] => change.later.replace(", alt-names: [second]", ""),
        };
        // Taken back by the resync of the start, or by a transaction after it.
        for at_once in [true, false] {
            kilter_linux::sandbox::enter_fresh_namespace().unwrap();
            let mut house = House::set(lasting(&folder));
            change.lay(&mut house);
            let before = house.dump();
            house.commit(items(&later));
            let mut fresh = House::set(lasting(&folder));
            if !at_once {
                assert_eq!(fresh.writes(|fresh| drop(fresh.resync(&later))), 0, "{later}");
            }
            fresh.resync(change.earlier);
            assert_same(&fresh.dump(), &before);
            // And nothing is to be given back any more.
            let mut last = House::set(lasting(&folder));
            assert_eq!(last.writes(|last| drop(last.resync(change.earlier))), 0, "{later}");
            assert_same(&last.dump(), &before);
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_was_known_of_a_link_that_went_meanwhile_is_forgotten() {
    let folder = std::env::temp_dir().join(format!("kilter-forgets-{}", std::process::id()));
    kilter_linux::sandbox::enter_fresh_namespace().unwrap();
    let mut house = House::set(lasting(&folder));
    house.sh("ip link add eth1 type veth peer name eth2");
    house.run(Txn::resync(Resync::Downstream));
    house.apply("{kind: existing, name: eth1, mtu: 1400}");
    house.sh("ip link delete eth1");
    let mut fresh = House::set(lasting(&folder));
    fresh.sh("ip link add eth1 type veth peer name eth2");
    fresh.resync("{kind: existing, name: eth1}");
    assert!(fresh.sh("ip link show dev eth1").contains("mtu 1500"));
    let written = std::fs::read_to_string(folder.join("former-fields")).unwrap();
    assert_eq!(written.lines().count(), 1, "{written}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_link_of_others_gets_back_what_it_was_when_its_configuration_is_removed() {
    for change in OPEN.iter().filter(|change| change.earlier.contains("existing")) {
        let mut house = House::new();
        change.ground.iter().for_each(|line| drop(house.sh(line)));
        house.run(Txn::resync(Resync::Downstream));
        let before = house.dump();
        house.commit(items(change.later));
        assert_ne!(house.dump(), before, "{}", change.later);
        house.commit(removal(&items(change.later)));
        assert_same(&house.dump(), &before);
    }
}

#[test]
fn a_link_of_others_that_is_as_declared_is_not_written() {
    let mut house = House::new();
    house.sh("ip link add eth1 mtu 1400 type veth peer name eth2");
    house.sh("ip link property add dev eth1 altname theirs");
    house.run(Txn::resync(Resync::Downstream));
    let text = "{kind: existing, name: eth1, mtu: 1400, alt-names: [theirs]}";
    assert_eq!(house.writes(|house| drop(house.apply(text))), 0);
    assert_eq!(house.writes(|house| drop(house.resync("{kind: existing, name: eth1}"))), 0);
    assert!(house.sh("ip link show dev eth1").contains("altname theirs"));
}
