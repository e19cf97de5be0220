//! A full resync of what is as it was listed: it writes nothing, and finds whatever somebody did in between.

use kilter_scheduler::{Outcome, State};

use crate::harness::{House, assert_same, items, removal, steps};

const SITE: &str = "
{kind: tap, name: t0, addresses: [10.0.0.1/24, '2001:db8::1/64'], mtu: 1400, addr-gen-mode: none}
---
{kind: bridge, name: br0, mac: '02:00:00:00:00:01', addr-gen-mode: none}
---
{kind: tap, name: t1, master: br0, addr-gen-mode: none}
---
{kind: route, destination: 10.8.0.0/24, via: 10.0.0.8}
---
{kind: route, destination: '2001:db8:9::/48', via: '2001:db8::9'}
---
{kind: rule, priority: 100, from: 10.7.0.0/16, table: 77}
---
{kind: neighbour, link: t0, address: 10.0.0.5, mac: '02:00:00:00:00:05'}
---
{kind: fdb, link: t1, mac: '02:00:00:00:00:77', table: bridge}
---
{kind: qdisc, link: t0, parent: root, handle: '1:', discipline: pfifo, limit: 55}
---
{kind: sysctl, name: net.ipv4.ip_forward, value: 1}
---
{kind: nftables, name: guard, text: 'chain c { type filter hook input priority 0; }'}
";

/// A resync that finds nothing to do, the third of them at the latest by what was listed.
fn assert_quiet(house: &mut House, text: &str, after: &str) {
    for _ in 0..3 {
        let writes = house.writes(|house| {
            let record = house.resync(text);
            assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
            assert!(record.steps().is_empty(), "after {after}: {}", steps(&record));
        });
        assert_eq!(writes, 0);
    }
}

#[test]
fn a_resync_finds_every_change_of_others_behind_what_was_listed() {
    let mut house = House::new();
    house.apply(SITE);
    house.resync(SITE);
    assert_quiet(&mut house, SITE, "the start");
    let good = house.dump();
    for harm in [
        "ip route del 10.8.0.0/24",
        "ip -6 route del 2001:db8:9::/48",
        "ip route change 10.8.0.0/24 via 10.0.0.9 proto 75",
        "ip link set t0 mtu 1300",
        "ip link set t0 down",
        "ip link set t1 nomaster",
        "ip addr del 10.0.0.1/24 dev t0",
        "ip rule del priority 100",
        "ip neigh del 10.0.0.5 dev t0",
        "ip neigh change 10.0.0.5 dev t0 lladdr 02:00:00:00:00:06 nud permanent",
        "bridge fdb del 02:00:00:00:00:77 dev t1 master",
        "tc qdisc del dev t0 root",
        "sysctl -qw net.ipv4.ip_forward=0",
        "nft delete table inet guard",
        "nft add rule inet guard c tcp dport 7 drop",
        "ip link set br0 type bridge forward_delay 400",
        "ip link del t0",
    ] {
        house.sh(harm);
        let record = house.resync(SITE);
        assert_eq!(record.outcome, Outcome::Applied, "{harm}: {}", steps(&record));
        // What is not declared is nobody's to put right, and a link that is made again is another one.
        assert_eq!(record.steps().is_empty(), harm.contains("forward_delay"), "{harm}: {}", steps(&record));
        if !harm.contains("link del") && !harm.contains("forward_delay") {
            assert_same(&house.dump(), &good);
        }
        assert_quiet(&mut house, SITE, harm);
    }
}

const GROUND: &str = "{kind: tap, name: t0, addresses: [10.0.0.1/24], addr-gen-mode: none}";
const ROUTE: &str = "---\n{kind: route, destination: 10.8.0.0/24, via: 10.0.0.8}";

#[test]
fn a_table_that_is_again_as_it_was_listed_is_not_taken_for_what_we_made_of_it() {
    let mut house = House::new();
    let both = format!("{GROUND}\n{ROUTE}");
    house.apply(GROUND);
    house.resync(GROUND);
    assert_quiet(&mut house, GROUND, "that");
    // Made by us, taken away behind our back: the table is byte by byte what was listed before.
    house.apply(&both);
    house.sh("ip route del 10.8.0.0/24");
    let record = house.resync(&both);
    assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
    assert!(house.sh("ip route").contains("10.8.0.0/24"), "{}", steps(&record));
    assert_quiet(&mut house, &both, "that");
    // Taken away by us, made with our mark behind our back: the table is again as it was listed.
    let route = items(&both).into_iter().find(|change| change.key.as_str().contains("10.8.0.0")).unwrap();
    house.commit(removal(std::slice::from_ref(&route)));
    house.sh("ip route add 10.8.0.0/24 via 10.0.0.8 proto 75");
    let record = house.resync(GROUND);
    assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
    assert!(!house.sh("ip route").contains("10.8.0.0/24"), "{}", steps(&record));
    house.assert_state(route.key.as_str(), State::Nonexistent);
    assert_quiet(&mut house, GROUND, "that");
}

#[test]
fn a_foreign_link_that_is_declared_later_is_adopted_although_it_was_listed_as_foreign() {
    let mut house = House::new();
    house.sh("ip link add b9 type bridge");
    for _ in 0..3 {
        house.resync("");
    }
    let writes = house.writes(|house| {
        let record = house.resync("{kind: bridge, name: b9, state: down}");
        assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
    });
    assert_eq!(writes, 0);
}
