//! The control flows of the scheduler with kernel objects, each three ways: applied; taken back when an operation fails;
//! wiped by hand and brought back by a resync.

use std::collections::BTreeMap;
use std::sync::Arc;

use kilter_scheduler::{Outcome, Resync, Txn};

use crate::faults::{Faults, Fuse};
use crate::harness::{House, assert_same, items, removal, steps, unnumbered_links};

/// A flow of the scheduler with kernel objects: what is there, what is declared on it, how it is wiped by hand, what must
/// be seen in the end, and how many writes bring it back.
struct Flow {
    name: &'static str,
    ground: &'static [&'static str],
    earlier: &'static str,
    later: &'static str,
    wipe: &'static [&'static str],
    seen: &'static [(&'static str, &'static str)],
    writes: u64,
}

const FLOWS: &[Flow] = &[
    Flow {
        name: "a macvlan on a link that is not ours",
        ground: &["ip link add eth1 type veth peer name eth2"],
        earlier: "{kind: macvlan, name: other, link: eth1, addr-gen-mode: none}",
        later: "{kind: macvlan, name: my-afp, link: eth1, addr-gen-mode: none}",
        wipe: &["ip link del my-afp"],
        seen: &[("ip link show dev my-afp", "my-afp@eth1")],
        writes: 3,
    },
    Flow {
        name: "a bridge and its ports",
        ground: &[],
        earlier: "{kind: bridge, name: bd1, ports: [tap1, tap2], addr-gen-mode: none}",
        later: "{kind: tap, name: tap1, addr-gen-mode: none}\n---\n{kind: tap, name: tap2, addr-gen-mode: none}",
        wipe: &["ip link set dev tap1 nomaster", "ip link set dev tap2 nomaster"],
        seen: &[("ip link show dev tap1", "master bd1"), ("ip link show dev tap2", "master bd1")],
        writes: 2,
    },
    Flow {
        name: "a link that is made again with its route",
        ground: &[],
        earlier: "{kind: tap, name: my-tap, addresses: [10.0.0.1/24], addr-gen-mode: none}\n---\n\
                  {kind: route, destination: 10.9.0.0/24, via: 10.0.0.9}",
        later: "{kind: tap, name: my-tap, multi-queue: true, addresses: [10.0.0.1/24], addr-gen-mode: none}",
        wipe: &["ip route del 10.9.0.0/24"],
        seen: &[("ip route", "10.9.0.0/24 via 10.0.0.9"), ("ip -d link show dev my-tap", "multi_queue")],
        writes: 1,
    },
    Flow {
        name: "a create that failed once is created",
        ground: &[],
        earlier: "{kind: bridge, name: bd1, addr-gen-mode: none}",
        later: "{kind: tap, name: my-tap, addresses: [10.0.0.1/24], addr-gen-mode: none}",
        wipe: &["ip addr del 10.0.0.1/24 dev my-tap"],
        seen: &[("ip addr show dev my-tap", "10.0.0.1/24")],
        writes: 1,
    },
    Flow {
        name: "a link and a route that go back together",
        ground: &[],
        earlier: "{kind: bridge, name: bd1, addresses: [10.1.0.1/24], addr-gen-mode: none}",
        later: "{kind: tap, name: my-tap, addresses: [10.0.0.1/24], addr-gen-mode: none}\n---\n\
                {kind: route, destination: 10.9.0.0/24, via: 10.0.0.9}",
        wipe: &["ip route del 10.9.0.0/24"],
        seen: &[("ip route", "10.9.0.0/24 via 10.0.0.9")],
        writes: 1,
    },
    Flow {
        name: "a link that borrows an address",
        ground: &[],
        earlier: "{kind: tap, name: my-tap, unnumbered: lender, addr-gen-mode: none}",
        later: "{kind: tap, name: lender, addresses: [10.0.0.1/24, 10.0.1.1/24], addr-gen-mode: none}",
        wipe: &["ip addr del 10.0.0.1/32 dev my-tap"],
        seen: &[("ip addr show dev my-tap", "10.0.0.1/32")],
        writes: 1,
    },
    Flow {
        name: "a route that waits for its link",
        ground: &[],
        earlier: "{kind: route, destination: 10.9.0.0/24, via: 10.0.0.9}",
        later: "{kind: tap, name: my-tap, addresses: [10.0.0.1/24], addr-gen-mode: none}",
        wipe: &["ip route del 10.9.0.0/24"],
        seen: &[("ip route", "10.9.0.0/24 via 10.0.0.9")],
        writes: 1,
    },
];

impl Flow {
    fn house(&self) -> (House, Arc<Fuse>) {
        let (mut house, fuse) = Faults::fused();
        self.ground.iter().for_each(|line| drop(house.sh(line)));
        house.run(Txn::resync(Resync::Downstream));
        house.apply(self.earlier);
        (house, fuse)
    }

    fn assert_seen(&self, house: &House, when: &str) {
        for (command, word) in self.seen {
            let shown = house.sh(command);
            assert!(
                shown.contains(word),
                "{}, {when}: `{command}` does not show `{word}`: {shown}",
                self.name
            );
        }
    }
}

#[test]
fn every_flow_goes_back_whichever_operation_fails() {
    for flow in FLOWS {
        let (mut house, fuse) = flow.house();
        let before = fuse.changes();
        house.apply(flow.later);
        let count = fuse.changes() - before;
        let mut went_back = 0;
        for at in 0..count {
            let (mut house, fuse) = flow.house();
            let before = house.dump();
            fuse.light(at);
            let record = house.run(Txn::all_or_nothing(items(flow.later)));
            // What was declared earlier and only comes up in the end takes nothing back.
            let reverted = matches!(record.outcome, Outcome::Reverted(_));
            let went_on = matches!(record.outcome, Outcome::Incomplete(_));
            assert!(reverted || went_on, "{}, {at}: {:?}\n{}", flow.name, record.outcome, steps(&record));
            if reverted {
                assert_same(&unnumbered_links(&house.dump()), &unnumbered_links(&before));
            }
            went_back += u64::from(reverted);
        }
        assert!(went_back > 0, "{}: {count} operations", flow.name);
    }
}

#[test]
fn every_flow_is_brought_back_by_a_resync_with_the_writes_it_needs() {
    let mut measured = Vec::new();
    for flow in FLOWS {
        let (mut house, _) = flow.house();
        house.apply(flow.later);
        flow.assert_seen(&house, "applied");
        // What is declared twice is declared as it was said last.
        let said = items(flow.earlier).into_iter().chain(items(flow.later));
        let all: BTreeMap<_, _> = said.map(|change| (change.key.clone(), change)).collect();
        let resync = || {
            let changes = all.values().cloned().collect();
            Txn::resync(Resync::Full(changes))
        };
        flow.wipe.iter().for_each(|line| drop(house.sh(line)));
        let writes = house.writes(|house| drop(house.run(resync())));
        flow.assert_seen(&house, "after the resync");
        measured.push((flow.name, writes, house.writes(|house| drop(house.run(resync())))));
        let gone = removal(&all.values().cloned().collect::<Vec<_>>());
        house.commit(gone);
    }
    // A second resync finds everything as it shall be.
    let expected: Vec<_> = FLOWS.iter().map(|flow| (flow.name, flow.writes, 0)).collect();
    assert_eq!(measured, expected);
}
