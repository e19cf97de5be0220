//! What is applied carries packets.

use kilter_model::export::export;
use kilter_scheduler::{Action, Origin, Outcome, Resync, State, Txn};

use crate::harness::{House, assert_same, items, removal, steps, wait_for};

pub(crate) const TWO_HOSTS_AND_A_ROUTER: &str = "
kind: netns
name: left
---
kind: netns
name: right
---
kind: netns
name: router
---
kind: veth
name: uplink
netns: left
peer: {name: to-left, netns: router}
addresses: [10.1.0.2/24, 'fd00:1::2/64']
---
kind: veth
name: to-left
netns: router
peer: {name: uplink, netns: left}
addresses: [10.1.0.1/24, 'fd00:1::1/64']
---
kind: veth
name: uplink
netns: right
peer: {name: to-right, netns: router}
addresses: [10.2.0.2/24, 'fd00:2::2/64']
---
kind: veth
name: to-right
netns: router
peer: {name: uplink, netns: right}
addresses: [10.2.0.1/24, 'fd00:2::1/64']
---
kind: sysctl
name: net.ipv4.ip_forward
netns: router
value: 1
---
kind: sysctl
name: net.ipv6.conf.all.forwarding
netns: router
value: 1
---
kind: route
netns: left
destination: 0.0.0.0/0
via: 10.1.0.1
---
kind: route
netns: left
destination: ::/0
via: fd00:1::1
---
kind: route
netns: right
destination: 0.0.0.0/0
via: 10.2.0.1
---
kind: route
netns: right
destination: ::/0
via: fd00:2::1
";

#[test]
fn two_hosts_ping_each_other_through_a_router() {
    let mut house = House::new();
    let before = house.dump();
    let record = house.apply(TWO_HOSTS_AND_A_ROUTER);
    assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
    let pings = |target: &str| {
        crate::harness::try_sh(&format!(
            "nsenter --net={} ping -c 1 -W 1 {target}",
            house.folder.join("left").display()
        ))
        .1
    };
    wait_for("an answer over IPv4", || pings("10.2.0.2"));
    wait_for("an answer over IPv6", || pings("fd00:2::2"));

    // Read by a fresh agent, it is all as declared: nothing is written.
    let mut again = House::over(&house.folder);
    let writes = again.writes(|again| {
        let record = again.resync(TWO_HOSTS_AND_A_ROUTER);
        assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
    });
    assert_eq!(writes, 0, "{}", again.dump());

    house.commit(removal(&items(TWO_HOSTS_AND_A_ROUTER)));
    assert_same(&house.dump(), &before);
}

#[test]
fn what_cannot_be_made_takes_the_whole_network_back() {
    let mut house = House::new();
    let before = house.dump();
    let mut changes = items(TWO_HOSTS_AND_A_ROUTER);
    changes.extend(items("{kind: dummy, name: nothing, netns: left}"));
    let record = house.run(Txn::all_or_nothing(changes));
    let cause = record.outcome.cause().map(|cause| cause.error.to_string()).unwrap_or_default();
    assert_eq!(
        cause,
        "failed to add link `link/left/nothing`: this kernel has no dummy links (CONFIG_DUMMY)"
    );
    assert!(matches!(record.outcome, Outcome::Reverted(_)), "{:?}", record.outcome);
    house.assert_state("linux/link/left/uplink", State::Nonexistent);
    assert_same(&house.dump(), &before);
}

#[test]
fn an_export_of_what_is_there_plans_nothing() {
    let mut house = House::new();
    house.apply(TWO_HOSTS_AND_A_ROUTER);

    // A fresh agent, which has been told nothing, reads what is there.
    let mut fresh = House::over(&house.folder);
    let read = |fresh: &mut House| {
        fresh.run(Txn::resync(Resync::Downstream));
        let items = fresh.scheduler.items();
        let ours = items.iter().filter(|item| item.origin == Origin::Declared);
        export(ours.filter_map(|item| Some((&item.key, item.actual.as_ref()?))))
    };
    let exported = read(&mut fresh);
    assert!(exported.contains("fd00:2::1") && exported.contains("0.0.0.0/0"), "{exported}");

    let writes = fresh.writes(|fresh| {
        let record = fresh.resync(&exported);
        assert_eq!(record.outcome, Outcome::Applied, "{}\n{exported}", steps(&record));
        let planned = record
            .steps()
            .iter()
            .filter(|step| matches!(step.action, Action::Create | Action::Update | Action::Delete));
        assert_eq!(planned.count(), 0, "{}\n{exported}", steps(&record));
    });
    assert_eq!(writes, 0, "{exported}");
    assert_eq!(read(&mut fresh), exported);
    house.commit(removal(&items(TWO_HOSTS_AND_A_ROUTER)));
}
