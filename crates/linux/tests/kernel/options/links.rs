//! The options of links, and of ports.

use super::Cost::{Again, Requests};
use super::{Group, costing, fixed, needed, open, try_all, try_all_in};

/// Two ends with addresses.
const PAIR: &str = "
{kind: veth, name: a, peer: b, addr-gen-mode: none, addresses: [10.0.0.1/24, 'fd00::1/64']}
---
{kind: veth, name: b, peer: a, addr-gen-mode: none}";

#[test]
fn bridge() {
    try_all(&Group {
        ground: "",
        item: "{kind: bridge, name: br1, mac: '02:00:00:00:00:01', addr-gen-mode: none@}",
        show: "ip -d link show dev br1",
        options: &[
            open(["stp: true", "stp: false"], ["stp_state 1", "stp_state 0"]),
            open(["priority: 100", "priority: 200"], [" priority 100 ", " priority 200 "]),
            open(["forward-delay: 4", "forward-delay: 5"], ["forward_delay 400", "forward_delay 500"]),
            open(["hello-time: 1", "hello-time: 3"], ["hello_time 100", "hello_time 300"]),
            open(["max-age: 10", "max-age: 12"], ["max_age 1000", "max_age 1200"]),
            open(["ageing-time: 60", "ageing-time: 0"], ["ageing_time 6000", "ageing_time 0"]),
            open(
                ["multicast-snooping: false", "multicast-snooping: true"],
                ["mcast_snooping 0", "mcast_snooping 1"],
            ),
            open(
                ["group-forward-mask: 8", "group-forward-mask: 16"],
                ["group_fwd_mask 0x8", "group_fwd_mask 0x10"],
            ),
        ],
    });
}

#[test]
fn port() {
    try_all(&Group {
        ground: "{kind: tap, name: t0, addr-gen-mode: none}",
        item: "{kind: bridge, name: br1, mac: '02:00:00:00:00:01', addr-gen-mode: none, ports: [{link: t0@}]}",
        show: "ip -d link show dev t0",
        options: &[
            open(["cost: 9", "cost: 12"], [" cost 9 ", " cost 12 "]),
            open(["priority: 7", "priority: 8"], [" priority 7 ", " priority 8 "]),
            open(["hairpin: true", "hairpin: false"], ["hairpin on", "hairpin off"]),
            open(["bpdu-guard: true", "bpdu-guard: false"], ["guard on", "guard off"]),
            open(["root-block: true", "root-block: false"], ["root_block on", "root_block off"]),
            open(["fast-leave: true", "fast-leave: false"], ["fastleave on", "fastleave off"]),
            open(["learning: false", "learning: true"], [" learning off", " learning on"]),
            open(["flood: false", "flood: true"], [" flood off", " flood on"]),
            open(["multicast-flood: false", "multicast-flood: true"], ["mcast_flood off", "mcast_flood on"]),
            open(["broadcast-flood: false", "broadcast-flood: true"], ["bcast_flood off", "bcast_flood on"]),
            open(["isolated: true", "isolated: false"], ["isolated on", "isolated off"]),
            open(
                ["neighbour-suppression: true", "neighbour-suppression: false"],
                ["neigh_suppress on", "neigh_suppress off"],
            ),
        ],
    });
}

#[test]
fn vxlan() {
    try_all(&Group {
        ground: PAIR,
        item: "{kind: vxlan, name: vx, vni: 7, addr-gen-mode: none@}",
        show: "ip -d link show dev vx",
        options: &[
            open(["local: 10.0.0.1", "local: 10.0.0.2"], ["local 10.0.0.1", "local 10.0.0.2"]),
            open(["remote: 10.0.0.9", "remote: 10.0.0.8"], ["remote 10.0.0.9", "remote 10.0.0.8"]),
            fixed(["port: 4790", "port: 4791"], ["dstport 4790", "dstport 4791"]),
            open(["ttl: 9", "ttl: 12"], ["ttl 9 ", "ttl 12 "]),
            open(["tos: 16", "tos: 32"], ["tos 0x10", "tos 0x20"]),
            open(["ageing: 60", "ageing: 90"], ["ageing 60 ", "ageing 90 "]),
            open(["learning: false", "learning: true"], ["nolearning", "!nolearning"]),
            fixed(["proxy: true", "proxy: false"], [" proxy", "! proxy"]),
            fixed(["udp-checksum: false", "udp-checksum: true"], ["noudpcsum", " udpcsum"]),
            fixed(["group-policy: true", "group-policy: false"], [" gbp", "! gbp"]),
            costing(Requests(1), Some([Again; 2]), ["link: a", "link: b"], ["dev a ", "dev b "]),
        ],
    });
    try_all(&Group {
        ground: PAIR,
        item: "{kind: vxlan, name: vx, addr-gen-mode: none@}",
        show: "ip -d link show dev vx",
        options: &[
            costing(Again, None, ["vni: 7", "vni: 8"], ["vxlan id 7 ", "vxlan id 8 "]),
            costing(Again, None, ["external: true", "vni: 7"], ["external", "!external"]),
            costing(
                Again,
                None,
                ["vni: 7, local: 10.0.0.1", "vni: 7, local: 'fd00::1'"],
                ["local 10.0.0.1", "local fd00::1"],
            ),
            needed(
                ["vni: 7, link: a, remote: 'ff02::7'", "vni: 7, link: a, remote: 'ff02::8'"],
                ["group ff02::7", "group ff02::8"],
            ),
        ],
    });
}

#[test]
fn vxlan_over_ipv6() {
    try_all(&Group {
        ground: PAIR,
        item: "{kind: vxlan, name: vx, vni: 7, addr-gen-mode: none@}",
        show: "ip -d link show dev vx",
        options: &[
            costing(
                Requests(1),
                Some([Again; 2]),
                ["local: 'fd00::1'", "local: 'fd00::2'"],
                ["local fd00::1", "local fd00::2"],
            ),
            costing(
                Requests(1),
                Some([Again; 2]),
                ["remote: 'fd00::9'", "remote: 'fd00::8'"],
                ["remote fd00::9", "remote fd00::8"],
            ),
        ],
    });
    try_all(&Group {
        ground: PAIR,
        item: "{kind: vxlan, name: vx, vni: 7, local: 'fd00::1', addr-gen-mode: none@}",
        show: "ip -d link show dev vx",
        options: &[open(["remote: 'fd00::9'", "remote: 'fd00::8'"], ["remote fd00::9", "remote fd00::8"])],
    });
}

#[test]
fn tap_and_tun() {
    for item in [
        "{kind: tap, name: t0, mac: '02:00:00:00:00:01', addr-gen-mode: none@}",
        "{kind: tun, name: t0, addr-gen-mode: none@}",
    ] {
        try_all(&Group {
            ground: "",
            item,
            show: "ip -d link show dev t0",
            options: &[
                costing(
                    Requests(1),
                    Some([Again; 2]),
                    ["owner: 123456", "owner: 123457"],
                    ["user 123456", "user 123457"],
                ),
                costing(
                    Requests(1),
                    Some([Again; 2]),
                    ["owner-group: 123456", "owner-group: 123457"],
                    ["group 123456", "group 123457"],
                ),
                fixed(["multi-queue: true", "multi-queue: false"], ["multi_queue", "!multi_queue"]),
                fixed(["vnet-header: true", "vnet-header: false"], ["vnet_hdr on", "vnet_hdr off"]),
                fixed(["packet-info: true", "packet-info: false"], [" pi on", " pi off"]),
            ],
        });
    }
}

#[test]
fn macvlan_and_macvtap() {
    for (kind, other) in [("macvlan", "mode bridge"), ("macvtap", "mode bridge")] {
        let item =
            format!("{{kind: {kind}, name: m0, mac: '02:00:00:00:00:02', addr-gen-mode: none, link: a@}}");
        try_all(&Group {
            ground: PAIR,
            item: &item,
            show: "ip -d link show dev m0",
            options: &[
                open(["mode: private", "mode: vepa"], ["mode private", "mode vepa"]),
                open(["mode: vepa", "mode: bridge"], ["mode vepa", other]),
                fixed(["mode: passthru", "mode: private"], ["mode passthru", "mode private"]),
            ],
        });
        let item = format!("{{kind: {kind}, name: m0, mac: '02:00:00:00:00:02', addr-gen-mode: none@}}");
        try_all(&Group {
            ground: PAIR,
            item: &item,
            show: "ip -d link show dev m0",
            options: &[costing(Again, None, ["link: a", "link: b"], ["m0@a", "m0@b"])],
        });
    }
}

const MACS: [[&str; 2]; 2] =
    [["mac: '02:00:00:00:00:07'", "mac: '02:00:00:00:00:08'"], ["02:00:00:00:00:07", "02:00:00:00:00:08"]];

/// What every link has.
const FIELDS: &[super::Choice] = &[
    open(["state: down", "state: up"], ["!,UP", ",UP"]),
    open(["mtu: 1400", "mtu: 1300"], ["mtu 1400", "mtu 1300"]),
    open(["alias: one", "alias: other"], ["alias one", "alias other"]),
    costing(
        Requests(2),
        Some([Requests(1); 2]),
        ["alt-names: [first-name]", "alt-names: [second-name]"],
        ["altname first-name", "altname second-name"],
    ),
    costing(
        Requests(1),
        Some([Requests(1); 2]),
        ["alt-names: [first-name, second-name]", "alt-names: [second-name]"],
        ["altname first-name", "!first-name"],
    ),
    open(["group: 7", "group: 8"], ["group 7 ", "group 8 "]),
    open(["tx-queue-len: 77", "tx-queue-len: 78"], ["qlen 77", "qlen 78"]),
    open(["addr-gen-mode: none", "addr-gen-mode: random"], ["addrgenmode none", "addrgenmode random"]),
    open(["addr-gen-mode: none", "addr-gen-mode: eui64"], ["addrgenmode none", "addrgenmode eui64"]),
    open(["addresses: [10.5.0.1/24]", "addresses: [10.5.0.1/24, 10.6.0.1/24]"], ["!10.6.0.1", "!nothing"]),
];

#[test]
fn every_link() {
    for item in [
        "{kind: bridge, name: x@}",
        "{kind: tap, name: x@}",
        "{kind: vxlan, name: x, vni: 7@}",
        "{kind: macvlan, name: x, link: a@}",
        "{kind: ifb, name: x@}",
        "{kind: veth, name: x, peer: y@}\n---\n{kind: veth, name: y, peer: x}",
    ] {
        let mac = if item.contains("ifb") { fixed(MACS[0], MACS[1]) } else { open(MACS[0], MACS[1]) };
        for options in [FIELDS, &[mac]] {
            try_all(&Group { ground: PAIR, item, show: "ip -d link show dev x", options });
        }
    }
}

#[test]
fn a_stable_link_local_address() {
    let group = Group {
        ground: "",
        item: "{kind: tap, name: x@}",
        show: "ip -d link show dev x",
        options: &[open(
            ["addr-gen-mode: none", "addr-gen-mode: stable-privacy"],
            ["addrgenmode none", "addrgenmode stable_secret"],
        )],
    };
    try_all_in(&group, |house| {
        // The kernel cannot be asked for it before it has one.
        house.sh("sysctl -qw net.ipv6.conf.default.stable_secret=fd00::1");
    });
}

#[test]
fn master_and_unnumbered() {
    try_all(&Group {
        ground: "{kind: bridge, name: br0, mac: '02:00:00:00:00:01', addr-gen-mode: none}\n---\n\
                 {kind: bridge, name: br1, mac: '02:00:00:00:00:02', addr-gen-mode: none}\n---\n\
                 {kind: tap, name: l0, addr-gen-mode: none, addresses: [10.7.0.1/24]}\n---\n\
                 {kind: tap, name: l1, addr-gen-mode: none, addresses: [10.8.0.1/24]}",
        item: "{kind: tap, name: x, mac: '02:00:00:00:00:03', addr-gen-mode: none@}",
        show: "ip addr show dev x",
        options: &[
            open(["master: br0", "master: br1"], ["master br0", "master br1"]),
            costing(
                Requests(2),
                Some([Requests(1); 2]),
                ["unnumbered: l0", "unnumbered: l1"],
                ["10.7.0.1/32", "10.8.0.1/32"],
            ),
        ],
    });
}
