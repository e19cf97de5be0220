//! The control flows of the scheduler, with kernel objects. Each is also read by a fresh agent, and taken back.

use kilter_scheduler::{Outcome, Retry, State, Timestamp, Txn};

use crate::faults::Faults;
use crate::harness::{House, assert_same, items, removal, steps};

const TAP: &str = "{kind: tap, name: my-tap, addresses: [10.0.0.1/24]}";
const ROUTE: &str = "{kind: route, destination: 10.9.0.0/24, via: 10.0.0.9}";

/// The steps of a transaction as `action key`.
fn acts(record: &kilter_scheduler::Record) -> Vec<String> {
    record.steps().iter().map(|step| format!("{} {}", step.action.name(), step.key)).collect()
}

#[test]
fn a_macvlan_waits_for_a_host_link_that_is_not_ours() {
    let mut house = House::new();
    house.apply("{kind: macvlan, name: my-afp, link: eth1}");
    house.assert_state("linux/link/host/my-afp", State::Pending);
    house.sh("ip link add eth1 type veth peer name eth2");
    house.run(Txn::resync(kilter_scheduler::Resync::Downstream));
    house.assert_state("linux/link/host/my-afp", State::Configured);
    house.assert_state("linux/link/host/eth1", State::Obtained);
    house.sh("ip link del eth1");
    house.run(Txn::resync(kilter_scheduler::Resync::Downstream));
    house.assert_state("linux/link/host/my-afp", State::Pending);
}

#[test]
fn an_existing_link_is_configured_and_given_back() {
    let mut house = House::new();
    let text = "{kind: existing, name: eth1, mtu: 1400, state: up, addresses: [10.0.0.1/24]}";
    house.apply(text);
    house.assert_state("linux/existing/host/eth1", State::Pending);
    house.sh("ip link add eth1 type veth peer name eth2");
    house.run(Txn::resync(kilter_scheduler::Resync::Downstream));
    let shown = house.sh("ip addr show dev eth1");
    assert!(shown.contains("mtu 1400") && shown.contains("10.0.0.1/24") && shown.contains(",UP"), "{shown}");
    house.run(Txn::all_or_nothing(removal(&items(text))));
    let shown = house.sh("ip addr show dev eth1");
    assert!(!shown.contains("10.0.0.1/24"), "what we put on it is gone, the link is not: {shown}");
}

#[test]
fn a_bridge_does_not_wait_for_its_ports() {
    let mut house = House::new();
    house.apply("{kind: bridge, name: bd1, ports: [tap1, tap2]}");
    house.assert_state("linux/link/host/bd1", State::Configured);
    house.assert_state("linux/port/host/tap1", State::Pending);
    house.apply("{kind: tap, name: tap1}");
    house.assert_state("linux/port/host/tap1", State::Configured);
    house.assert_state("linux/port/host/tap2", State::Pending);
    assert!(house.sh("ip link show dev tap1").contains("master bd1"));
    house.commit(removal(&items("{kind: tap, name: tap1}")));
    house.assert_state("linux/port/host/tap1", State::Pending);
    house.assert_state("linux/link/host/bd1", State::Configured);
}

#[test]
fn a_link_that_is_made_again_takes_its_route_down_and_up() {
    let mut house = House::new();
    house.apply(&format!("{TAP}\n---\n{ROUTE}"));
    let record = house.apply("{kind: tap, name: my-tap, multi-queue: true, addresses: [10.0.0.1/24]}");
    let acts = acts(&record);
    let place =
        |act: &str| acts.iter().position(|other| other == act).unwrap_or_else(|| panic!("{act}: {acts:?}"));
    let route = "linux/route/host/main/10.9.0.0/24/0";
    assert!(place(&format!("delete {route}")) < place("delete linux/link/host/my-tap"));
    assert!(place("delete linux/link/host/my-tap") < place("create linux/link/host/my-tap"));
    assert!(place("create linux/link/host/my-tap") < place(&format!("create {route}")));
    assert!(house.sh("ip route").contains("10.9.0.0/24 via 10.0.0.9"));
}

#[test]
fn a_failed_create_is_read_back_and_tried_again() {
    let mut house = Faults::house(0);
    let record = house.run(Txn::changes(items(TAP)).with_retry(Retry::default()));
    assert!(matches!(record.outcome, Outcome::Incomplete(_)), "{:?}", record.outcome);
    house.assert_state("linux/link/host/my-tap", State::Retrying);
    let retry = house.scheduler.due(Timestamp(u64::MAX / 2)).expect("a retry is planned");
    let record = house.run(retry);
    assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
    house.assert_state("linux/link/host/my-tap", State::Configured);
}

#[test]
fn a_true_transaction_leaves_nothing_behind() {
    let mut house = House::new();
    let before = house.dump();
    let text =
        format!("{TAP}\n---\n{ROUTE}\n---\n{{kind: qdisc, link: my-tap, discipline: netem, delay: 7}}");
    let record = house.run(Txn::all_or_nothing(items(&text)));
    let cause = record.outcome.cause().map(|cause| cause.error.to_string()).unwrap_or_default();
    assert_eq!(
        cause,
        "failed to add qdisc `qdisc/host/my-tap/root`: this kernel has no netem (CONFIG_NET_SCH_NETEM)"
    );
    assert!(matches!(record.outcome, Outcome::Reverted(_)), "{:?}", record.outcome);
    assert_same(&house.dump(), &before);
}

#[test]
fn a_link_borrows_any_address_of_another() {
    let mut house = House::new();
    house.apply("{kind: tap, name: my-tap, unnumbered: lender}");
    house.assert_state("linux/link/host/my-tap", State::Configured);
    house.assert_state("linux/unnumbered/host/my-tap", State::Pending);
    house.apply("{kind: tap, name: lender, addresses: [10.0.0.1/24, 10.0.1.1/24]}");
    house.assert_state("linux/unnumbered/host/my-tap", State::Configured);
    house.apply("{kind: tap, name: lender}");
    house.assert_state("linux/unnumbered/host/my-tap", State::Pending);
    assert!(!house.sh("ip addr show dev my-tap").contains("10.0."));
}

#[test]
fn a_route_waits_for_its_link() {
    let mut house = House::new();
    house.apply(ROUTE);
    house.assert_state("linux/route/host/main/10.9.0.0/24/0", State::Pending);
    house.apply(TAP);
    house.assert_state("linux/route/host/main/10.9.0.0/24/0", State::Configured);
    house.commit(removal(&items(TAP)));
    house.assert_state("linux/route/host/main/10.9.0.0/24/0", State::Pending);
}
