//! Every kind: made, read back, changed by the requests it needs, found again by a fresh agent, removed.

use kilter_scheduler::{Change, Outcome, Txn};

use crate::harness::{House, assert_same, items, knows_users_of, removal, steps};

/// Makes the items beside some ground, changes one of them, and removes them again.
///
/// At each step the world is read back; a fresh agent finds everything as declared and writes nothing; what a change
/// costs is counted; in the end nothing is left.
fn round_trip(ground: &str, first: &str, changed: &str, writes: u64) {
    if !knows_users_of(first) {
        return;
    }
    let mut house = House::new();
    house.apply(ground);
    let before = house.dump();
    let record = house.apply(first);
    assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
    assert_found(&house, &format!("{ground}\n---\n{first}"));

    let spent = house.writes(|house| {
        let record = house.run(Txn::all_or_nothing(items(changed)));
        assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
    });
    assert_eq!(spent, writes, "requests for the change of\n{first}\nto\n{changed}\n{}", house.dump());
    assert_found(&house, &format!("{ground}\n---\n{changed}"));

    let mut gone: Vec<Change> = removal(&items(first));
    gone.extend(removal(&items(changed)));
    house.commit(gone);
    assert_same(&house.dump(), &before);
}

/// A fresh agent that reads everything finds it as declared.
fn assert_found(house: &House, declared: &str) {
    let mut fresh = House::over(&house.folder);
    let writes = fresh.writes(|fresh| {
        let record = fresh.resync(declared);
        assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
    });
    assert_eq!(writes, 0, "a fresh agent writes for\n{declared}\n{}", house.dump());
    // Its folder is the house's: it must not be cleared with it.
    std::mem::forget(fresh);
}

/// A bridge and a pair, all up.
const GROUND: &str = "
{kind: bridge, name: br0}
---
{kind: veth, name: a, peer: b, addresses: [10.0.0.1/24, 'fd00::1/64']}
---
{kind: veth, name: b, peer: a}
";

#[test]
fn bridge() {
    round_trip(
        "{kind: loopback, name: lo}",
        "{kind: bridge, name: br1, stp: false, forward-delay: 4, ageing-time: 60, priority: 100, mtu: 1400}",
        "{kind: bridge, name: br1, stp: false, forward-delay: 4, ageing-time: 90, priority: 100, mtu: 1400}",
        1,
    );
}

#[test]
fn veth_with_everything_a_link_has() {
    let pair = |mtu: u32, alias: &str| {
        format!(
            "{{kind: veth, name: x, peer: y, mtu: {mtu}, mac: '02:00:00:00:00:07', alias: {alias}, \
             alt-names: [a-long-name-for-x], group: 7, addr-gen-mode: none, tx-queue-len: 500}}\n---\n\
             {{kind: veth, name: y, peer: x, state: down}}"
        )
    };
    round_trip(GROUND, &pair(1400, "uplink"), &pair(1300, "downlink"), 1);
}

#[test]
fn vxlan() {
    round_trip(
        GROUND,
        "{kind: vxlan, name: vx, vni: 7, local: 10.0.0.1, link: a, ttl: 9, learning: false}",
        "{kind: vxlan, name: vx, vni: 7, local: 10.0.0.1, link: a, ttl: 9, learning: true}",
        1,
    );
}

#[test]
fn external_vxlan_over_ipv6() {
    round_trip(
        GROUND,
        "{kind: vxlan, name: vx, external: true, port: 4790, local: 'fd00::1', mtu: 1300}",
        "{kind: vxlan, name: vx, external: true, port: 4790, local: 'fd00::1', mtu: 1200}",
        1,
    );
}

#[test]
fn tap_and_tun() {
    for kind in ["tap", "tun"] {
        let link = |mtu| format!("{{kind: {kind}, name: t0, owner: 7, multi-queue: true, mtu: {mtu}}}");
        round_trip(GROUND, &link(1400), &link(1300), 1);
        let owned =
            |owner| format!("{{kind: {kind}, name: t0, owner: {owner}, owner-group: 5, multi-queue: true}}");
        round_trip(GROUND, &owned(7), &owned(8), 1);
    }
}

#[test]
fn macvlan_and_macvtap() {
    for kind in ["macvlan", "macvtap"] {
        let link = |mode| format!("{{kind: {kind}, name: m0, link: a, mode: {mode}}}");
        round_trip(GROUND, &link("private"), &link("vepa"), 1);
    }
}

#[test]
fn a_link_on_one_of_another_namespace() {
    let ground = format!("{{kind: netns, name: blue}}\n---\n{GROUND}");
    let link =
        |mtu| format!("{{kind: macvlan, name: m0, netns: blue, link: {{name: a, netns: host}}, mtu: {mtu}}}");
    round_trip(&ground, &link(1400), &link(1300), 1);
}

#[test]
fn ifb() {
    round_trip(GROUND, "{kind: ifb, name: i0, mtu: 1400}", "{kind: ifb, name: i0, mtu: 1300}", 1);
}

#[test]
fn loopback() {
    round_trip(
        "{kind: netns, name: blue}",
        "{kind: loopback, name: lo, netns: blue, addresses: [192.0.2.1/32]}",
        "{kind: loopback, name: lo, netns: blue, addresses: [192.0.2.1/32, 192.0.2.2/32]}",
        1,
    );
}

#[test]
fn addresses() {
    let link = |more: &str| format!("{{kind: tap, name: t0, addresses: [{more}]}}");
    round_trip(
        GROUND,
        &link("10.5.0.1/24, {address: 10.6.0.1/24, no-prefix-route: true, scope: link}, 'fd00:5::1/64'"),
        &link(
            "10.5.0.1/24, {address: 10.6.0.1/24, no-prefix-route: true, scope: link}, 'fd00:5::1/64', \
             {address: 10.7.0.1/24, broadcast: 10.7.0.255}",
        ),
        1,
    );
}

#[test]
fn ports_with_options() {
    let bridge = |hairpin| {
        format!("{{kind: bridge, name: br0, ports: [{{link: b, hairpin: {hairpin}, learning: false}}]}}")
    };
    let mut house = House::new();
    house.apply(GROUND);
    house.apply(&bridge(false));
    let spent = house.writes(|house| {
        house.run(Txn::all_or_nothing(items(&bridge(true))));
    });
    assert_eq!(spent, 1);
    assert!(house.sh("bridge -d link show dev b").contains("hairpin on"));
    assert_found(
        &house,
        &format!("{}\n---\n{}", GROUND.replacen("{kind: bridge, name: br0}\n---", "", 1), bridge(true)),
    );
    house.apply("{kind: bridge, name: br0}");
    assert!(!house.sh("ip link show dev b").contains("master"));
}

#[test]
fn unnumbered() {
    let link = |lender: &str| format!("{{kind: tap, name: t0, unnumbered: {lender}}}");
    let mut house = House::new();
    house.apply(GROUND);
    house.apply(&link("a"));
    let shown = house.sh("ip addr show dev t0");
    assert!(shown.contains("10.0.0.1/32") && shown.contains("fd00::1/128"), "{shown}");
    assert_found(&house, &format!("{GROUND}\n---\n{}", link("a")));
    house.apply("{kind: tap, name: t0}");
    assert!(!house.sh("ip addr show dev t0").contains("10.0.0.1"));
}

#[test]
fn routes() {
    let route = |rest: &str| format!("{{kind: route, {rest}}}");
    for (first, changed) in [
        ("destination: 10.9.0.0/16, via: 10.0.0.9", "destination: 10.9.0.0/16, via: 10.0.0.8"),
        ("destination: 10.9.0.0/16, link: a", "destination: 10.9.0.0/16, link: a, mtu: 1400"),
        (
            "destination: 10.9.0.0/16, via: 10.0.0.9, metric: 7",
            "destination: 10.9.0.0/16, via: 10.0.0.9, metric: 7, source: 10.0.0.1",
        ),
        (
            "destination: 10.9.0.0/16, via: 10.1.0.9, link: a, onlink: true",
            "destination: 10.9.0.0/16, via: 10.1.0.8, link: a, onlink: true",
        ),
        (
            "destination: 10.9.0.0/16, type: blackhole, table: 100",
            "destination: 10.9.0.0/16, type: unreachable, table: 100",
        ),
        (
            "destination: 0.0.0.0/0, type: prohibit, metric: 9",
            "destination: 0.0.0.0/0, type: blackhole, metric: 9",
        ),
        (
            "destination: 10.9.0.0/16, nexthops: [{via: 10.0.0.9}, {via: 10.0.0.8, weight: 3}]",
            "destination: 10.9.0.0/16, nexthops: [{via: 10.0.0.9}, {via: 10.0.0.8, weight: 4}]",
        ),
        ("destination: 'fd09::/32', via: 'fd00::9'", "destination: 'fd09::/32', via: 'fd00::8'"),
        (
            "destination: 'fd09::/32', link: a, table: 1000",
            "destination: 'fd09::/32', link: a, table: 1000, mtu: 1400",
        ),
        ("destination: 'fd09::/32', type: blackhole", "destination: 'fd09::/32', type: prohibit"),
        (
            "destination: 'fd09::/32', nexthops: [{via: 'fd00::9', link: a}, {via: 'fd00::8', link: a}]",
            "destination: 'fd09::/32', nexthops: [{via: 'fd00::9', link: a}, {via: 'fd00::7', link: a}]",
        ),
    ] {
        round_trip(GROUND, &route(first), &route(changed), 1);
    }
}

#[test]
fn rules() {
    let rule = |rest: &str| format!("{{kind: rule, priority: 100, {rest}}}");
    for (first, changed) in [
        ("from: 10.0.0.0/8, table: 100", "from: 10.0.0.0/8, table: 101"),
        (
            "family: ipv6, mark: 7, mark-mask: 255, table: 1000",
            "family: ipv6, mark: 8, mark-mask: 255, table: 1000",
        ),
        (
            "family: ipv4, incoming: a, outgoing: b, tos: 16, table: main",
            "family: ipv4, incoming: a, outgoing: b, tos: 8, table: main",
        ),
        (
            "to: 'fd00::/16', ip-protocol: 6, destination-ports: {from: 80, to: 90}, action: blackhole",
            "to: 'fd00::/16', ip-protocol: 17, destination-ports: {from: 80, to: 90}, action: blackhole",
        ),
        (
            "family: ipv4, users: {from: 7, to: 9}, not: true, action: unreachable",
            "family: ipv4, users: {from: 7, to: 9}, action: unreachable",
        ),
        ("family: ipv4, l3mdev: true", "family: ipv4, l3mdev: true, suppress-prefix-length: 0"),
        ("from: 10.0.0.0/8, action: goto, goto: 32766", "from: 10.0.0.0/8, action: goto, goto: 32767"),
    ] {
        round_trip(GROUND, &rule(first), &rule(changed), 2);
    }
}

#[test]
fn neighbours() {
    let one = |rest: &str| format!("{{kind: neighbour, link: a, {rest}}}");
    for (first, changed) in [
        ("address: 10.0.0.9, mac: '02:00:00:00:00:09'", "address: 10.0.0.9, mac: '02:00:00:00:00:08'"),
        (
            "address: 'fd00::9', mac: '02:00:00:00:00:09'",
            "address: 'fd00::9', mac: '02:00:00:00:00:09', router: true",
        ),
        (
            "address: 10.0.0.9, mac: '02:00:00:00:00:09'",
            "address: 10.0.0.9, mac: '02:00:00:00:00:09', state: noarp",
        ),
    ] {
        round_trip(GROUND, &one(first), &one(changed), 1);
    }
    for address in ["10.7.0.9", "'fd00::9'"] {
        let proxy = one(&format!("address: {address}, proxy: true"));
        round_trip(GROUND, &proxy, &proxy, 0);
    }
}

#[test]
fn forwarding_entries() {
    let ground = format!("{GROUND}\n---\n{{kind: vxlan, name: vx, vni: 7, local: 10.0.0.1}}");
    let one = |rest: &str| format!("{{kind: fdb, {rest}}}");
    round_trip(
        &ground,
        &one("link: vx, mac: '02:00:00:00:00:09', remote: 10.0.0.9"),
        &one("link: vx, mac: '02:00:00:00:00:09', remote: 10.0.0.8"),
        1,
    );
    let two = "{kind: fdb, link: vx, mac: '00:00:00:00:00:00', remote: 10.0.0.9}\n---\n\
               {kind: fdb, link: vx, mac: '00:00:00:00:00:00', remote: 10.0.0.8}";
    round_trip(&ground, two, two, 0);
    let ground = GROUND.replacen("peer: a}", "peer: a, master: br0}", 1);
    let entry = one("link: b, mac: '02:00:00:00:00:09', table: bridge, state: static");
    round_trip(&ground, &entry, &entry, 0);
}

#[test]
fn sysctls_get_their_earlier_value_back() {
    let mut house = House::new();
    let before = house.sh("sysctl -n net.ipv4.ip_forward");
    let one = |value: u32| format!("{{kind: sysctl, name: net.ipv4.ip_forward, value: {value}}}");
    assert_eq!(house.writes(|house| drop(house.apply(&one(1)))), 1);
    assert_eq!(house.sh("sysctl -n net.ipv4.ip_forward"), "1\n");
    assert_eq!(house.writes(|house| drop(house.apply(&one(1)))), 0);
    assert_found(&house, &one(1));
    house.commit(removal(&items(&one(1))));
    assert_eq!(house.sh("sysctl -n net.ipv4.ip_forward"), before);
}

#[test]
fn nftables_is_replaced_whole_and_never_taken_from_others() {
    let table = |port: u32| {
        format!(
            "kind: nftables\nname: guard\nchains:\n- {{name: input, type: filter, hook: input, priority: 0, \
             policy: accept, rules: ['tcp dport {port} drop']}}\n"
        )
    };
    round_trip(GROUND, &table(80), &table(81), 1);

    let mut house = House::new();
    house.apply(&table(80));
    house.sh("nft add rule inet guard input tcp dport 7 drop");
    let record = house.resync(&table(80));
    assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
    assert!(!house.sh("nft list ruleset").contains("dport 7 "), "what others put in is gone");

    house.sh("nft add table inet theirs");
    let theirs = table(80).replace("guard", "theirs");
    let record = house.run(Txn::all_or_nothing(items(&theirs)));
    let cause = record.outcome.cause().map(|cause| cause.error.to_string()).unwrap_or_default();
    assert_eq!(cause, "`table inet theirs` exists and was not made by Kilter: it would have to be replaced");
}

#[test]
fn nftables_says_what_nft_says() {
    let mut house = House::new();
    let text = "{kind: nftables, name: broken, text: 'chain c { nonsense }'}";
    let record = house.run(Txn::all_or_nothing(items(text)));
    let cause = record.outcome.cause().map(|cause| cause.error.to_string()).unwrap_or_default();
    assert!(
        cause.starts_with("failed to write nftables table `broken`: ") && cause.contains("syntax error"),
        "{cause}"
    );
}

#[test]
fn qdiscs() {
    let one = |rest: &str| format!("{{kind: qdisc, link: a, {rest}}}");
    for (first, changed) in [
        ("discipline: pfifo, handle: '1:', limit: 10", "discipline: pfifo, handle: '1:', limit: 20"),
        ("discipline: bfifo, limit: 5000", "discipline: bfifo, limit: 6000"),
        (
            "discipline: tbf, rate: 125000, burst: 5000, limit: 20000",
            "discipline: tbf, rate: 250000, burst: 5000, limit: 20000",
        ),
    ] {
        round_trip(GROUND, &one(first), &one(changed), 1);
    }
    let htb = one("discipline: htb, handle: '1:', default-class: 10");
    round_trip(GROUND, &htb, &htb, 0);
    let clsact = one("discipline: clsact");
    round_trip(GROUND, &clsact, &clsact, 0);
}

#[test]
fn what_this_kernel_cannot_make_is_refused_by_name() {
    for (text, expected) in [
        (
            "{kind: dummy, name: x}",
            "failed to add link `link/host/x`: this kernel has no dummy links (CONFIG_DUMMY)",
        ),
        (
            "{kind: vlan, name: x, link: a, id: 7}",
            "failed to add link `link/host/x`: this kernel has no vlan links (CONFIG_VLAN_8021Q)",
        ),
        (
            "{kind: vrf, name: x, table: 100}",
            "failed to add link `link/host/x`: this kernel has no vrf links (CONFIG_NET_VRF)",
        ),
        (
            "{kind: bond, name: x}",
            "failed to add link `link/host/x`: this kernel has no bonds (CONFIG_BONDING)",
        ),
        (
            "{kind: qdisc, link: a, discipline: netem, delay: 100}",
            "failed to add qdisc `qdisc/host/a/root`: this kernel has no netem (CONFIG_NET_SCH_NETEM)",
        ),
    ] {
        let mut house = House::new();
        house.apply(GROUND);
        let record = house.run(Txn::all_or_nothing(items(text)));
        let cause = record.outcome.cause().map(|cause| cause.error.to_string()).unwrap_or_default();
        assert_eq!(cause, expected);
    }
}

#[test]
fn a_namespace_of_a_path_or_a_process_is_opened_and_let_go() {
    let mut house = House::new();
    house.apply("{kind: netns, name: blue}");
    let path = house.folder.join("blue");
    let text = format!(
        "{{kind: netns, name: other, path: {}}}\n---\n{{kind: bridge, name: br7, netns: other}}",
        path.display()
    );
    house.apply(&text);
    assert!(house.sh_in("blue", "ip link").contains("br7"));
    house.commit(removal(&items(&text)));
    assert!(!house.sh_in("blue", "ip link").contains("br7"));

    let sleeper = crate::harness::Sleeper::start(&["unshare", "-n", "sleep", "1000"]);
    let pid = sleeper.id();
    crate::harness::wait_for("the process has a namespace of its own", || {
        std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()
            != std::fs::read_link("/proc/thread-self/ns/net").ok()
    });
    let text = format!(
        "{{kind: netns, name: process, pid: {pid}}}\n---\n{{kind: bridge, name: br7, netns: process}}"
    );
    house.apply(&text);
    let shown = house.sh(&format!("nsenter --net=/proc/{pid}/ns/net ip link"));
    assert!(shown.contains("br7"), "{shown}");
    house.commit(removal(&items(&text)));
    drop(sleeper);
}
