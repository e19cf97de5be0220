//! An export of everything there is declares exactly that.

use std::collections::BTreeSet;

use kilter_model::export::export;
use kilter_scheduler::{Action, Key, Outcome, Record, Resync, Txn};

use crate::harness::{House, items, knows_users_of, steps};

/// One of each kind that this kernel can make, with each of its options.
const EVERYTHING: &str = "
{kind: netns, name: blue}
---
{kind: loopback, name: lo, netns: blue, alias: inside, addresses: [192.0.2.1/32, '2001:db8::1/128']}
---
{kind: bridge, name: br0, mac: '02:00:00:00:00:01', stp: true, priority: 100, forward-delay: 4, hello-time: 1, max-age: 10, \
ageing-time: 60, multicast-snooping: false, group-forward-mask: 8, addr-gen-mode: none, addresses: [10.0.0.1/24], \
ports: [{link: t0, cost: 9, priority: 7, hairpin: true, bpdu-guard: true, root-block: true, fast-leave: true, \
learning: false, flood: false, multicast-flood: false, broadcast-flood: false, isolated: true, \
neighbour-suppression: true}]}
---
{kind: tap, name: t0, owner: 123456, owner-group: 123457, multi-queue: true, vnet-header: true, packet-info: true, \
addr-gen-mode: none}
---
{kind: tun, name: n0, owner: 123456, state: down, addr-gen-mode: random}
---
{kind: veth, name: a, peer: {name: up, netns: blue}, mtu: 1400, mac: '02:00:00:00:00:0a', alias: to blue, \
alt-names: [a-long-name, another-name], group: 7, addr-gen-mode: none, tx-queue-len: 77, master: br0}
---
{kind: veth, name: up, netns: blue, peer: {name: a, netns: host}, mac: '02:00:00:00:00:0b', addr-gen-mode: none, \
addresses: [10.0.0.2/24, {address: 10.5.0.1/24, broadcast: 10.5.0.255, no-prefix-route: true}, \
{address: 10.6.0.1/32, peer: 10.6.0.9/32, scope: link}, 'fd00::2/64', \
{address: 'fd05::1/64', no-prefix-route: true}]}
---
{kind: vxlan, name: vx, vni: 7, link: br0, local: 10.0.0.1, remote: 10.0.0.9, port: 4790, ttl: 9, tos: 16, ageing: 60, \
learning: false, proxy: true, udp-checksum: false, group-policy: true, addr-gen-mode: none}
---
{kind: vxlan, name: vx6, vni: 8, local: 'fd00::1', remote: 'fd00::9', addr-gen-mode: none}
---
{kind: vxlan, name: vxe, external: true, port: 4791, addr-gen-mode: none}
---
{kind: veth, name: c, peer: d, addr-gen-mode: none}
---
{kind: veth, name: d, peer: c, addr-gen-mode: none}
---
{kind: macvlan, name: m0, link: c, mode: private, addr-gen-mode: none}
---
{kind: macvlan, name: m1, netns: blue, link: {name: c, netns: host}, mode: vepa, addr-gen-mode: none}
---
{kind: macvtap, name: m2, link: d, mode: bridge, addr-gen-mode: none}
---
{kind: macvtap, name: m3, link: vx, mode: passthru, addr-gen-mode: none}
---
{kind: ifb, name: i0, unnumbered: br0, addr-gen-mode: none}
---
{kind: route, destination: 10.1.0.0/16, via: 10.0.0.9, link: br0, mtu: 1300, source: 10.0.0.1, metric: 7}
---
{kind: route, destination: 10.2.0.0/16, via: 10.3.0.9, link: br0, onlink: true, table: 1000}
---
{kind: route, destination: 10.3.0.0/16, link: br0, scope: host}
---
{kind: route, destination: 10.4.0.0/16, nexthops: [{via: 10.0.0.9, link: br0, weight: 3}, {via: 10.0.0.8, link: br0}]}
---
{kind: route, destination: 10.7.0.0/16, type: blackhole}
---
{kind: route, destination: 10.8.0.0/16, type: unreachable}
---
{kind: route, destination: 10.9.0.0/16, type: prohibit}
---
{kind: route, netns: blue, destination: '::/0', via: 'fd00::9', link: up, mtu: 1300}
---
{kind: route, netns: blue, destination: 'fd09::/32', nexthops: [{via: 'fd00::9', link: up}, {via: 'fd00::8', link: up}]}
---
{kind: route, netns: blue, destination: 'fd10::/32', type: unreachable, table: 100}
---
{kind: rule, priority: 100, from: 10.0.0.0/8, to: 10.9.0.0/16, mark: 7, mark-mask: 255, incoming: br0, outgoing: t0, tos: 16, \
ip-protocol: 6, source-ports: {from: 80, to: 90}, destination-ports: {from: 443, to: 443}, users: {from: 7, to: 9}, \
not: true, table: 1000, suppress-prefix-length: 8}
---
{kind: rule, priority: 101, mark: 0, mark-mask: 15, table: 1000}
---
{kind: rule, priority: 105, from: 192.0.2.0/24, action: prohibit}
---
{kind: rule, priority: 102, family: ipv6, l3mdev: true}
---
{kind: rule, priority: 103, family: ipv6, action: goto, goto: 200}
---
{kind: rule, priority: 104, netns: blue, from: 'fd00::/8', action: unreachable}
---
{kind: neighbour, link: br0, address: 10.0.0.5, mac: '02:00:00:00:00:05'}
---
{kind: neighbour, netns: blue, link: up, address: 'fd00::5', mac: '02:00:00:00:00:05', state: noarp, router: true}
---
{kind: neighbour, link: br0, address: 10.0.0.6, proxy: true}
---
{kind: fdb, link: vx, mac: '02:00:00:00:00:07', remote: 10.0.0.7, port: 4799, vni: 9}
---
{kind: fdb, link: vx, mac: '00:00:00:00:00:00', remote: 10.0.0.7}
---
{kind: fdb, link: a, mac: '02:00:00:00:00:77', table: bridge, state: static}
---
{kind: sysctl, name: net.ipv4.ip_forward, value: 1}
---
{kind: sysctl, netns: blue, name: net.ipv4.conf.all.rp_filter, value: 2}
---
{kind: nftables, name: guard, family: ip, text: 'chain c { type filter hook input priority 0; }'}
---
kind: nftables
name: walls
netns: blue
chains:
- {name: input, type: filter, hook: input, priority: 0, policy: accept, rules: ['tcp dport 80 drop']}
---
{kind: qdisc, link: t0, discipline: tbf, handle: '1:', rate: 125000, burst: 5000, limit: 20000}
---
{kind: qdisc, link: a, discipline: htb, handle: '1:', default-class: 16}
---
{kind: qdisc, link: a, discipline: clsact}
---
{kind: existing, name: eth1, mtu: 1400, alias: theirs, alt-names: [mine], group: 9, tx-queue-len: 78, addr-gen-mode: none, \
state: up, addresses: [10.20.0.1/24]}
";

/// What there is, as a document.
fn exported(house: &mut House) -> String {
    house.run(Txn::resync(Resync::Downstream));
    let items = house.scheduler.items();
    export(items.iter().filter_map(|item| Some((&item.key, item.actual.as_ref()?))))
}

/// Whoever declares an export finds everything as it is, and exports the same.
fn assert_stands(house: &mut House, text: &str) {
    let writes = house.writes(|house| assert_nothing(&house.resync(text), text));
    assert_eq!(writes, 0, "{text}");
    assert_eq!(exported(house), text);
}

fn assert_nothing(record: &Record, text: &str) {
    let is_change = |action| matches!(action, Action::Create | Action::Update | Action::Delete);
    let changes = record.steps().iter().filter(|step| is_change(step.action)).count();
    assert_eq!((&record.outcome, changes), (&Outcome::Applied, 0), "{}\n{text}", steps(record));
}

#[test]
fn an_export_of_every_kind_with_every_option_plans_nothing_and_exports_the_same() {
    let mut house = House::new();
    house.sh("ip link add eth1 type veth peer name eth2");
    house.run(Txn::resync(Resync::Downstream));
    let everything = if knows_users_of(EVERYTHING) {
        EVERYTHING.to_owned()
    } else {
        let text =
            EVERYTHING.replace("owner: 123456, owner-group: 123457, ", "").replace("owner: 123456, ", "");
        text.replace("users: {from: 7, to: 9}, ", "")
    };
    let record = house.apply(&everything);
    assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
    let first = exported(&mut house);
    let keys = |text: &str| items(text).into_iter().map(|change| change.key).collect::<BTreeSet<Key>>();
    assert!(keys(&first).is_superset(&keys(&everything)), "{first}");
    assert_stands(&mut house, &first);
    let mut fresh = House::over(&house.folder);
    assert_stands(&mut fresh, &first);
    std::mem::forget(fresh); // its folder is the house's
}
