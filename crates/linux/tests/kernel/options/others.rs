//! The options of everything that is no link.

use super::Cost::{Again, Requests};
use super::{Group, costing, fading, fixed, needed, open, try_all};

/// Two ends that are up, with addresses.
const PAIR: &str = "
{kind: veth, name: a, peer: b, mac: '02:00:00:00:00:0a', addr-gen-mode: none, \
addresses: [10.0.0.1/24, 10.0.1.1/24, 'fd00::1/64', 'fd00:1::1/64']}
---
{kind: veth, name: b, peer: a, mac: '02:00:00:00:00:0b', addr-gen-mode: none, addresses: [10.0.2.1/24]}";

#[test]
fn address() {
    try_all(&Group {
        ground: "",
        item: "{kind: tap, name: t0, mac: '02:00:00:00:00:01', addr-gen-mode: none, \
               addresses: [{address: 10.5.0.1/24@}]}",
        show: "ip addr show dev t0",
        options: &[
            fixed(
                ["peer: 10.5.0.9/24", "peer: 10.5.0.8/24"],
                ["10.5.0.1 peer 10.5.0.9/24", "10.5.0.1 peer 10.5.0.8/24"],
            ),
            fixed(["broadcast: 10.5.0.255", "broadcast: 10.5.0.254"], ["brd 10.5.0.255", "brd 10.5.0.254"]),
            fixed(["scope: link", "scope: host"], ["scope link", "scope host"]),
            fixed(["scope: site", "scope: link"], ["scope site", "scope link"]),
            fixed(["no-prefix-route: true", "no-prefix-route: false"], ["noprefixroute", "!noprefixroute"]),
            fading(["valid-for: 1999999", "valid-for: 2999999"], ["valid_lft 199", "valid_lft 299"]),
            fading(
                ["valid-for: 3999999, preferred-for: 1999999", "valid-for: 3999999"],
                ["preferred_lft 199", "preferred_lft 399"],
            ),
        ],
    });
}

#[test]
fn address_of_ipv6() {
    try_all(&Group {
        ground: "",
        item: "{kind: tap, name: t0, mac: '02:00:00:00:00:01', addr-gen-mode: none, \
               addresses: [{address: 'fd00:5::1/64'@}]}",
        show: "ip addr show dev t0",
        options: &[
            fixed(
                ["peer: 'fd00:5::9/64'", "peer: 'fd00:5::8/64'"],
                ["fd00:5::1 peer fd00:5::9/64", "fd00:5::1 peer fd00:5::8/64"],
            ),
            open(["no-prefix-route: true", "no-prefix-route: false"], ["noprefixroute", "!noprefixroute"]),
            fading(["valid-for: 1999999", "valid-for: 2999999"], ["valid_lft 199", "valid_lft 299"]),
            fading(
                ["preferred-for: 1999999", "preferred-for: 2999999"],
                ["preferred_lft 199", "preferred_lft 299"],
            ),
            fading(["preferred-for: 0", "preferred-for: 2999999"], ["deprecated", "!deprecated"]),
        ],
    });
}

#[test]
fn route() {
    try_all(&Group {
        ground: PAIR,
        item: "{kind: route, destination: 10.9.0.0/16, via: 10.0.0.9, link: a@}",
        show: "ip route show 10.9.0.0/16",
        options: &[
            open(["mtu: 1400", "mtu: 1300"], ["mtu 1400", "mtu 1300"]),
            open(["source: 10.0.0.1", "source: 10.0.1.1"], ["src 10.0.0.1", "src 10.0.1.1"]),
            open(["onlink: true", "onlink: false"], ["onlink", "!onlink"]),
        ],
    });
    try_all(&Group {
        ground: PAIR,
        item: "{kind: route, destination: 10.9.0.0/16@}",
        show: "ip route show 10.9.0.0/16",
        options: &[
            needed(["via: 10.0.0.9", "via: 10.0.1.9"], ["via 10.0.0.9", "via 10.0.1.9"]),
            needed(["via: 10.0.0.9", "via: 10.0.2.9"], ["via 10.0.0.9 dev a", "via 10.0.2.9 dev b"]),
            needed(["link: a", "link: b"], ["dev a", "dev b"]),
            needed(["type: blackhole", "type: prohibit"], ["blackhole 10.9.0.0/16", "prohibit 10.9.0.0/16"]),
            needed(["type: unreachable", "via: 10.0.0.9"], ["unreachable 10.9.0.0/16", "via 10.0.0.9"]),
            needed(
                ["via: 10.0.0.9", "nexthops: [{via: 10.0.0.9}, {via: 10.0.1.9}]"],
                ["via 10.0.0.9 dev a", "nexthop via 10.0.1.9"],
            ),
            needed(
                [
                    "nexthops: [{via: 10.0.0.9, weight: 2}, {via: 10.0.1.9}]",
                    "nexthops: [{via: 10.0.0.9, weight: 3}, {via: 10.0.1.9}]",
                ],
                ["weight 2", "weight 3"],
            ),
            needed(
                [
                    "nexthops: [{via: 10.3.0.9, link: a, onlink: true}, {via: 10.0.1.9}]",
                    "nexthops: [{via: 10.0.0.9, link: a}, {via: 10.0.1.9}]",
                ],
                ["onlink", "!onlink"],
            ),
        ],
    });
    try_all(&Group {
        ground: PAIR,
        item: "{kind: route, destination: 10.9.0.0/16, link: a@}",
        show: "ip route show 10.9.0.0/16",
        options: &[
            open(["scope: host", "scope: link"], ["scope host", "scope link"]),
            open(["scope: global", "scope: site"], ["!scope", "scope site"]),
        ],
    });
}

#[test]
fn route_of_ipv6() {
    // An address is no source while the kernel looks for others who have it; on a tun nobody can.
    let sources = "{kind: tun, name: n0, addr-gen-mode: none, addresses: ['fd00:2::1/64', 'fd00:2::2/64']}";
    try_all(&Group {
        ground: &format!("{PAIR}\n---\n{sources}"),
        item: "{kind: route, destination: 'fd09::/32', via: 'fd00::9', link: a@}",
        show: "ip -6 route show fd09::/32",
        options: &[
            open(["mtu: 1400", "mtu: 1300"], ["mtu 1400", "mtu 1300"]),
            open(["source: 'fd00:2::1'", "source: 'fd00:2::2'"], ["src fd00:2::1", "src fd00:2::2"]),
            open(["onlink: true", "onlink: false"], ["onlink", "!onlink"]),
        ],
    });
    try_all(&Group {
        ground: PAIR,
        item: "{kind: route, destination: 'fd09::/32'@}",
        show: "ip -6 route show fd09::/32",
        options: &[
            needed(["via: 'fd00::9'", "via: 'fd00:1::9'"], ["via fd00::9", "via fd00:1::9"]),
            needed(["link: a", "link: b"], ["dev a", "dev b"]),
            needed(["type: blackhole", "type: prohibit"], ["blackhole fd09::/32", "prohibit fd09::/32"]),
            needed(["type: unreachable", "via: 'fd00::9'"], ["unreachable fd09::/32", "via fd00::9"]),
            needed(
                [
                    "nexthops: [{via: 'fd00::9', link: a, weight: 2}, {via: 'fd00:1::9', link: a}]",
                    "nexthops: [{via: 'fd00::9', link: a, weight: 3}, {via: 'fd00:1::9', link: a}]",
                ],
                ["weight 2", "weight 3"],
            ),
        ],
    });
}

#[test]
fn rule() {
    try_all(&Group {
        ground: "",
        item: "{kind: rule, priority: 100, family: ipv4, table: 100@}",
        show: "ip rule show priority 100",
        options: &[
            fixed(["from: 10.0.0.0/8", "from: 10.0.0.0/9"], ["from 10.0.0.0/8", "from 10.0.0.0/9"]),
            fixed(["to: 10.0.0.0/8", "to: 10.0.0.0/9"], ["to 10.0.0.0/8", "to 10.0.0.0/9"]),
            fixed(["mark: 7", "mark: 8"], ["fwmark 0x7", "fwmark 0x8"]),
            fixed(
                ["mark: 7, mark-mask: 15", "mark: 7, mark-mask: 255"],
                ["fwmark 0x7/0xf ", "fwmark 0x7/0xff "],
            ),
            fixed(["mark: 0, mark-mask: 15", "mark: 0, mark-mask: 255"], ["fwmark 0/0xf ", "fwmark 0/0xff "]),
            fixed(["incoming: in0", "incoming: in1"], ["iif in0", "iif in1"]),
            fixed(["outgoing: out0", "outgoing: out1"], ["oif out0", "oif out1"]),
            fixed(["tos: 16", "tos: 8"], ["tos", "tos"]),
            fixed(["ip-protocol: 6", "ip-protocol: 17"], ["ipproto tcp", "ipproto udp"]),
            fixed(
                ["source-ports: {from: 80, to: 90}", "source-ports: {from: 80, to: 80}"],
                ["sport 80-90", "sport 80 "],
            ),
            fixed(
                ["destination-ports: {from: 80, to: 90}", "destination-ports: {from: 80, to: 91}"],
                ["dport 80-90", "dport 80-91"],
            ),
            fixed(
                ["users: {from: 7, to: 9}", "users: {from: 0, to: 4294967294}"],
                ["uidrange 7-9", "uidrange 0-4294967294"],
            ),
            fixed(["not: true", "not: false"], ["not from", "!not"]),
            fixed(
                ["suppress-prefix-length: 0", "suppress-prefix-length: 8"],
                ["suppress_prefixlength 0", "suppress_prefixlength 8"],
            ),
        ],
    });
    for (family, show) in [("ipv4", "ip rule show priority 100"), ("ipv6", "ip -6 rule show priority 100")] {
        let item = format!("{{kind: rule, priority: 100, family: {family}@}}");
        try_all(&Group {
            ground: "",
            item: &item,
            show,
            options: &[
                costing(Again, None, ["table: 100", "table: 1000"], ["lookup 100 ", "lookup 1000 "]),
                costing(Again, None, ["table: main", "table: default"], ["lookup main", "lookup default"]),
                costing(Again, None, ["l3mdev: true", "table: 100"], ["l3mdev-table", "lookup 100"]),
                costing(Again, None, ["action: blackhole", "action: prohibit"], ["blackhole", "prohibit"]),
                costing(Again, None, ["action: unreachable", "action: nop"], ["unreachable", "nop"]),
                costing(
                    Again,
                    None,
                    ["action: goto, goto: 200", "action: goto, goto: 201"],
                    ["goto 200", "goto 201"],
                ),
            ],
        });
    }
}

#[test]
fn neighbour() {
    try_all(&Group {
        ground: PAIR,
        item: "{kind: neighbour, link: a, address: 'fd00::9', mac: '02:00:00:00:00:09'@}",
        show: "ip neigh show nud all to fd00::9 dev a",
        options: &[
            open(["router: true", "router: false"], ["router", "!router"]),
            open(["state: noarp", "state: permanent"], ["NOARP", "PERMANENT"]),
        ],
    });
    try_all(&Group {
        ground: PAIR,
        item: "{kind: neighbour, link: a, address: 10.0.0.9@}",
        show: "ip neigh show nud all to 10.0.0.9 dev a",
        options: &[needed(
            ["mac: '02:00:00:00:00:09'", "mac: '02:00:00:00:00:08'"],
            ["02:00:00:00:00:09", "02:00:00:00:00:08"],
        )],
    });
}

#[test]
fn forwarding_entry() {
    let vxlan = "
{kind: veth, name: a, peer: b, addr-gen-mode: none, addresses: [10.0.0.1/24]}
---
{kind: veth, name: b, peer: a, addr-gen-mode: none}
---
{kind: vxlan, name: vx, vni: 7, local: 10.0.0.1, mac: '02:00:00:00:00:0c', addr-gen-mode: none}";
    try_all(&Group {
        ground: vxlan,
        item: "{kind: fdb, link: vx, mac: '02:00:00:00:00:09', remote: 10.0.0.9@}",
        show: "bridge fdb show dev vx",
        options: &[
            open(["vni: 8", "vni: 9"], ["vni 8", "vni 9"]),
            open(["vni: 8", "vni: 7"], ["vni 8", "!vni"]),
            open(["port: 4790", "port: 4791"], ["port 4790", "port 4791"]),
            open(["port: 4790", "port: 4789"], ["port 4790", "!port"]),
        ],
    });
    try_all(&Group {
        ground: vxlan,
        item: "{kind: fdb, link: vx, mac: '02:00:00:00:00:09'@}",
        show: "bridge fdb show dev vx",
        options: &[needed(["remote: 10.0.0.9", "remote: 10.0.0.8"], ["dst 10.0.0.9", "dst 10.0.0.8"])],
    });
    // One of several for everything that has no entry.
    try_all(&Group {
        ground: vxlan,
        item: "{kind: fdb, link: vx, mac: '00:00:00:00:00:00', remote: 10.0.0.9@}",
        show: "bridge fdb show dev vx",
        options: &[
            fixed(["vni: 8", "vni: 9"], ["vni 8", "vni 9"]),
            fixed(["port: 4790", "port: 4791"], ["port 4790", "port 4791"]),
        ],
    });
    try_all(&Group {
        ground: "{kind: bridge, name: br0, mac: '02:00:00:00:00:01', addr-gen-mode: none, ports: [t0]}\n---\n\
                 {kind: tap, name: t0, mac: '02:00:00:00:00:0d', addr-gen-mode: none}",
        item: "{kind: fdb, link: t0, mac: '02:00:00:00:00:09', table: bridge@}",
        show: "bridge fdb show dev t0",
        options: &[open(
            ["state: static", "state: permanent"],
            ["02:00:00:00:00:09 master br0 static", "02:00:00:00:00:09 master br0 permanent"],
        )],
    });
}

#[test]
fn qdisc() {
    let with = |discipline: &str| format!("{{kind: qdisc, link: t0, discipline: {discipline}@}}");
    let ground = "{kind: tap, name: t0, mac: '02:00:00:00:00:01', addr-gen-mode: none, tx-queue-len: 1000}";
    let show = "tc qdisc show dev t0";
    try_all(&Group {
        ground,
        item: &with("pfifo, handle: '1:'"),
        show,
        options: &[costing(
            Requests(1),
            Some([Requests(1), Again]),
            ["limit: 10", "limit: 20"],
            ["limit 10p", "limit 20p"],
        )],
    });
    try_all(&Group {
        ground,
        item: &with("bfifo, handle: '1:'"),
        show,
        options: &[costing(
            Requests(1),
            Some([Requests(1), Again]),
            ["limit: 5000", "limit: 6000"],
            ["limit 5000b", "limit 6000b"],
        )],
    });
    try_all(&Group {
        ground,
        item: &with("htb, handle: '1:'"),
        show,
        options: &[fixed(["default-class: 16", "default-class: 32"], ["default 0x10", "default 0x20"])],
    });
    try_all(&Group {
        ground,
        item: &with("pfifo, limit: 10"),
        show,
        options: &[costing(Again, None, ["handle: '1:'", "handle: '2:'"], ["pfifo 1:", "pfifo 2:"])],
    });
    try_all(&Group {
        ground,
        item: &with("tbf, handle: '1:'"),
        show,
        options: &[
            needed(
                ["rate: 125000, burst: 5000, limit: 20000", "rate: 250000, burst: 5000, limit: 20000"],
                ["rate 1Mbit", "rate 2Mbit"],
            ),
            needed(
                ["rate: 125000, burst: 5000, limit: 20000", "rate: 125000, burst: 6000, limit: 20000"],
                ["burst 5000b", "burst 6000b"],
            ),
            needed(
                ["rate: 125000, burst: 5000, limit: 20000", "rate: 125000, burst: 5000, limit: 30000"],
                ["lat", "lat"],
            ),
        ],
    });
}

#[test]
fn what_goes_without_saying_may_be_said() {
    for item in [
        "{kind: tap, name: t0, group: 0, addresses: [{address: 10.5.0.1/24, scope: global}]}",
        "{kind: tap, name: t0, addresses: [{address: 10.5.0.1/24, valid-for: 9999999, preferred-for: 9999999}]}",
        "{kind: loopback, name: lo, addresses: [{address: 127.0.7.1/32, scope: host}]}",
        "{kind: route, destination: 10.9.0.0/16, link: a, scope: link, metric: 0, table: main, type: unicast}",
        "{kind: route, destination: 10.9.0.0/16, via: 10.0.0.9, scope: global}",
        "{kind: route, destination: 'fd09::/32', via: 'fd00::9', metric: 1024}",
        "{kind: rule, priority: 100, from: 0.0.0.0/0, to: 0.0.0.0/0, tos: 0, table: 100, action: lookup}",
        "{kind: rule, priority: 100, from: '::/0', table: 100}",
        "{kind: rule, priority: 100, mark: 0, table: 100}",
        "{kind: rule, priority: 100, mark: 0, mark-mask: 0, table: 100}",
        "{kind: rule, priority: 100, mark: 7, mark-mask: 4294967295, table: 100}",
        "{kind: vxlan, name: vx, vni: 7, port: 4789, ttl: 0, tos: 0, external: false, proxy: false, group-policy: false}",
        "{kind: neighbour, link: a, address: 10.0.0.9, mac: '02:00:00:00:00:09', state: permanent}",
    ] {
        let mut house = crate::harness::House::new();
        let all = format!("{PAIR}\n---\n{item}");
        house.apply(&all);
        for _ in 0..2 {
            let writes = house.writes(|house| super::assert_nothing(&house.resync(&all), item));
            assert_eq!(writes, 0, "{item}");
        }
    }
}
