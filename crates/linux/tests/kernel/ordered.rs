//! The order on the wire: a link is made, bound and addressed before it is switched on.

use crate::harness::{House, removal};
use crate::scale::Monitor;

const BRIDGE: &str = "{kind: bridge, name: br0, mac: '02:00:00:00:00:01', addr-gen-mode: none}";

/// Where the first event is told that has all of these words.
fn place(told: &[String], words: &[&str]) -> usize {
    let is_it = |line: &String| words.iter().all(|word| line.contains(word));
    told.iter().position(is_it).unwrap_or_else(|| panic!("{words:?} is not told: {told:#?}"))
}

/// Ports that are made in different ways, and the requests that each takes.
const PORTS: &[(&str, u64)] = &[
    // Over the device file; how its address is made; bound; addressed; up.
    ("{kind: tap, name: p0, master: br0, addr-gen-mode: none, addresses: [10.0.0.1/24]}", 5),
    // What every link has goes with the first request, or with the one that says how its address is made.
    (
        "{kind: tap, name: p0, master: br0, mtu: 1400, alias: mine, addr-gen-mode: none, addresses: [10.0.0.1/24]}",
        5,
    ),
    // The other end comes with the first request, has none for how its address is made, and is switched on.
    (
        "{kind: veth, name: p0, peer: q0, master: br0, addr-gen-mode: none, addresses: [10.0.0.1/24]}\n---\n\
         {kind: veth, name: q0, peer: p0}",
        6,
    ),
    (
        "{kind: vxlan, name: p0, vni: 7, master: br0, mtu: 1300, addr-gen-mode: none, addresses: [10.0.0.1/24]}",
        5,
    ),
    ("{kind: ifb, name: p0, master: br0, addresses: [10.0.0.1/24, 10.0.1.1/24]}", 5),
];

#[test]
fn a_port_is_made_bound_addressed_and_then_switched_on() {
    for (text, requests) in PORTS {
        let mut house = House::new();
        house.apply(BRIDGE);
        let mut monitor = Monitor::start();
        let writes = house.writes(|house| drop(house.apply(text)));
        let told: Vec<String> = monitor.said().into_iter().filter(|line| line.contains(" p0")).collect();
        let made = place(&told, &["p0"]);
        let bound = place(&told, &["p0", "master br0"]);
        let addressed = place(&told, &["p0", "inet 10.0.0.1/24"]);
        let up = place(&told, &["p0", ",UP"]);
        assert!(made < bound && bound < up && addressed < up, "{text}: {told:#?}");
        assert!(told[made..up].iter().all(|line| !line.contains(",UP")), "{text}: {told:#?}");
        assert_eq!(writes, *requests, "{text}: {told:#?}");
        house.commit(removal(&crate::harness::items(text)));
    }
}

#[test]
fn a_port_that_a_bridge_lists_comes_up_after_it_is_bound() {
    let mut house = House::new();
    let mut monitor = Monitor::start();
    house.apply(
        "{kind: bridge, name: br0, mac: '02:00:00:00:00:01', addr-gen-mode: none, \
         ports: [{link: p0, isolated: true}], addresses: [10.0.0.1/24]}\n---\n\
         {kind: tap, name: p0, addr-gen-mode: none, addresses: [10.0.1.1/24]}",
    );
    let told = monitor.said();
    let bound = place(&told, &[" p0", "master br0"]);
    assert!(bound < place(&told, &[" p0", ",UP"]), "{told:#?}");
    assert!(place(&told, &[" br0", "inet 10.0.0.1/24"]) < place(&told, &[" br0:", ",UP"]), "{told:#?}");
}
