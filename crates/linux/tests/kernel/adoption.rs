//! What others made stays theirs: adopted without a write if it is as declared, changed in place if it is not, left when
//! its declaration goes.

use kilter_scheduler::{Outcome, Resync, State, Txn};

use crate::harness::{House, items, removal, steps};

/// Something that others made: how, what declares it as it is, where it is seen.
struct Theirs {
    made: &'static [&'static str],
    text: &'static str,
    seen: (&'static str, &'static str),
}

const THEIRS: &[Theirs] = &[
    Theirs {
        made: &["ip route add 10.9.0.0/24 via 10.0.0.9 proto 99"],
        text: "{kind: route, destination: 10.9.0.0/24, via: 10.0.0.9}",
        seen: ("ip -N route show 10.9.0.0/24", "proto 99"),
    },
    Theirs {
        made: &["ip route add blackhole 10.8.0.0/24 table 100 proto 99"],
        text: "{kind: route, destination: 10.8.0.0/24, type: blackhole, table: 100}",
        seen: ("ip -N route show table 100", "proto 99"),
    },
    Theirs {
        made: &["ip rule add priority 100 from 10.0.0.0/8 table 100 protocol 99"],
        text: "{kind: rule, priority: 100, from: 10.0.0.0/8, table: 100}",
        seen: ("ip -N -d rule show priority 100", "proto 99"),
    },
    Theirs {
        made: &["ip neigh add 10.0.0.8 lladdr 02:00:00:00:00:08 dev eth1 nud permanent protocol 99"],
        text: "{kind: neighbour, link: eth1, address: 10.0.0.8, mac: '02:00:00:00:00:08'}",
        seen: ("ip -N neigh show dev eth1", "proto 99"),
    },
    Theirs {
        made: &["ip addr add 10.3.0.1/24 dev eth1"],
        text: "{kind: existing, name: eth1, addresses: [10.3.0.1/24]}",
        seen: ("ip -N -4 -o addr show dev eth1", "10.3.0.1/24"),
    },
];

fn house(theirs: &Theirs) -> House {
    let house = House::new();
    for line in [
        "ip link add eth1 type veth peer name eth2",
        "ip link set eth1 up",
        "ip link set eth2 up",
        "ip addr add 10.0.0.1/24 dev eth1",
    ] {
        house.sh(line);
    }
    theirs.made.iter().for_each(|line| drop(house.sh(line)));
    house
}

/// Shown without numbers that settle.
fn shown(house: &House, theirs: &Theirs) -> String {
    house.sh(theirs.seen.0)
}

#[test]
fn what_is_as_declared_is_adopted_by_a_resync_without_a_write_and_released() {
    for theirs in THEIRS {
        let mut house = house(theirs);
        let before = shown(&house, theirs);
        assert!(before.contains(theirs.seen.1), "{before}");
        let writes = house.writes(|house| {
            let record = house.resync(theirs.text);
            assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
        });
        assert_eq!(writes, 0, "{}", theirs.text);
        let key = items(theirs.text).last().unwrap().key.clone();
        house.assert_state(key.as_str(), State::Configured);
        house.commit(removal(&items(theirs.text)));
        assert_eq!(shown(&house, theirs), before, "{}", theirs.text);
    }
}

#[test]
fn what_is_as_declared_is_adopted_by_a_plain_apply_and_released() {
    for theirs in THEIRS {
        let mut house = house(theirs);
        let before = shown(&house, theirs);
        let text = theirs.text;
        // What they stand on is known; of routes, rules and neighbours of others nothing is.
        house.run(Txn::resync(Resync::Downstream));
        let record = house.run(Txn::all_or_nothing(items(text)));
        assert_eq!(record.outcome, Outcome::Applied, "{text}\n{}", steps(&record));
        assert_eq!(shown(&house, theirs), before, "{text}");
        house.run(Txn::all_or_nothing(removal(&items(text))));
        assert_eq!(shown(&house, theirs), before, "{text}");
    }
}

#[test]
fn what_is_changed_in_place_stays_theirs_and_goes_back_with_its_transaction() {
    let changed = [
        ("{kind: route, destination: 10.9.0.0/24, via: 10.0.0.7}", 0, "via 10.0.0.7"),
        (
            "{kind: neighbour, link: eth1, address: 10.0.0.8, mac: '02:00:00:00:00:99'}",
            3,
            "02:00:00:00:00:99",
        ),
        (
            "{kind: existing, name: eth1, addresses: [{address: 10.3.0.1/24, valid-for: 3600}]}",
            4,
            "valid_lft 3",
        ),
    ];
    for (text, at, sign) in changed {
        let theirs = &THEIRS[at];
        let mut house = house(theirs);
        let before = shown(&house, theirs);
        house.resync(theirs.text);
        let record = house.run(Txn::all_or_nothing(items(&format!("{text}{BROKEN}"))));
        assert!(matches!(record.outcome, Outcome::Reverted(_)), "{text}: {}", steps(&record));
        assert_eq!(shown(&house, theirs), before, "{text}");
        house.apply(text);
        let now = shown(&house, theirs);
        assert!(now.contains(sign) && now.contains(theirs.seen.1), "{text}: {now}");
        house.commit(removal(&items(text)));
        let left = shown(&house, theirs);
        assert!(left.contains(sign) && left.contains(theirs.seen.1), "it is let go as it is: {left}");
    }
}

/// An item that no kernel makes: with it a transaction goes back.
const BROKEN: &str = "\n---\n{kind: nftables, name: broken, text: 'chain c { nonsense }'}";

#[test]
fn a_neighbour_of_others_that_nobody_knew_of_is_not_overruled() {
    let theirs = &THEIRS[3];
    let mut house = House::new();
    for line in ["ip link add eth1 type veth peer name eth2", "ip link set eth1 up", "ip link set eth2 up"] {
        house.sh(line);
    }
    house.run(Txn::resync(Resync::Downstream));
    theirs.made.iter().for_each(|line| drop(house.sh(line)));
    let before = shown(&house, theirs);
    let text = "{kind: neighbour, link: eth1, address: 10.0.0.8, mac: '02:00:00:00:00:99'}";
    let record = house.run(Txn::all_or_nothing(items(text)));
    let Outcome::Reverted(cause) = &record.outcome else { panic!("{}", steps(&record)) };
    let expected = "`neighbour 10.0.0.8` exists and was not made by Kilter: it is not as declared, and would have to be changed";
    assert_eq!(&*cause.error, expected);
    assert_eq!(shown(&house, theirs), before);
}

#[test]
fn a_namespace_of_others_is_adopted_and_left() {
    let mut house = House::new();
    std::fs::create_dir_all(&house.folder).unwrap();
    let path = house.folder.join("blue");
    house.sh(&format!("touch {}", path.display()));
    house.sh(&format!("unshare --net={} true", path.display()));
    let text = "{kind: netns, name: blue}";
    assert_eq!(house.writes(|house| drop(house.resync(text))), 0);
    house.assert_state("linux/netns/blue", State::Configured);
    house.commit(removal(&items(text)));
    assert!(house.sh_in("blue", "ip link").contains("lo"));
}

#[test]
fn a_rule_of_others_with_our_priority_is_not_taken_for_ours() {
    let mut house = House::new();
    house.sh("ip rule add priority 100 from 10.7.0.0/16 table 100");
    let text = "{kind: rule, priority: 100, from: 10.8.0.0/16, table: 100}";
    house.apply(text);
    house.sh("ip rule add priority 100 from 10.9.0.0/16 table 100");
    assert_eq!(house.writes(|house| drop(house.resync(text))), 0);
    let mut fresh = House::over(&house.folder);
    assert_eq!(fresh.writes(|fresh| drop(fresh.resync(text))), 0);
    fresh.assert_state("linux/rule/host/ipv4/100", State::Configured);
    fresh.run(Txn::all_or_nothing(removal(&items(text))));
    let left = fresh.sh("ip rule show priority 100");
    assert!(left.contains("10.7.0.0") && left.contains("10.9.0.0") && !left.contains("10.8.0.0"), "{left}");
}

#[test]
fn lifetimes_that_count_down_are_not_drift() {
    let mut house = House::new();
    let text = "{kind: tap, name: t0, addr-gen-mode: none, addresses: \
                [{address: 10.0.0.1/24, valid-for: 3600, preferred-for: 1800}]}";
    house.apply(text);
    crate::harness::wait_for("time goes by", || {
        house.sh("ip addr show dev t0").contains("valid_lft 359") // seconds that count down from 3600
    });
    assert_eq!(house.writes(|house| drop(house.resync(text))), 0);
    assert_eq!(house.writes(|house| drop(house.run(Txn::resync(Resync::Downstream)))), 0);
    let items: Vec<_> = house.scheduler.items();
    let actual = items.iter().filter_map(|item| Some((&item.key, item.actual.as_ref()?)));
    let exported = kilter_model::export::export(actual);
    assert!(exported.contains("valid-for: 3600") && exported.contains("preferred-for: 1800"), "{exported}");
    let longer = text.replace("valid-for: 3600", "valid-for: 7200");
    assert_eq!(house.writes(|house| drop(house.resync(&longer))), 1);
    assert!(house.sh("ip addr show dev t0").contains("valid_lft 7"));
    let forever = "{kind: tap, name: t0, addr-gen-mode: none, addresses: [10.0.0.1/24]}";
    assert_eq!(house.writes(|house| drop(house.apply(forever))), 1);
    assert!(house.sh("ip addr show dev t0").contains("valid_lft forever"));
}

#[test]
fn a_route_waits_for_a_way_to_its_gateway_also_on_a_link_that_it_names() {
    let mut house = House::new();
    let route = "{kind: route, destination: 10.9.0.0/24, via: 10.0.0.9, link: t0}";
    let record = house.run(Txn::all_or_nothing(items(&format!(
        "{{kind: tap, name: t0, addr-gen-mode: none, addresses: [{{address: 10.0.0.1/24, no-prefix-route: true}}]}}\n---\n{route}"
    ))));
    assert_eq!(record.outcome, Outcome::AppliedWithPending, "{}", steps(&record));
    house.assert_state("linux/route/host/main/10.9.0.0/24/0", State::Pending);
    house.apply("{kind: route, destination: 10.0.0.0/24, link: t0}");
    house.assert_state("linux/route/host/main/10.9.0.0/24/0", State::Configured);
}

#[test]
fn a_tunnel_moves_to_another_link_in_place_and_back() {
    let mut house = House::new();
    house.apply("{kind: tap, name: a}\n---\n{kind: tap, name: b}");
    let on = |link: &str| {
        format!("{{kind: vxlan, name: vx, vni: 7, local: 10.0.0.1, {link} addr-gen-mode: none}}")
    };
    house.apply(&on("link: a,"));
    let is_on = |house: &House, link: &str| {
        let shown = house.sh("ip -d link show dev vx");
        assert!(shown.contains(&format!(" dev {link} ")), "{shown}");
    };
    is_on(&house, "a");
    assert_eq!(house.writes(|house| drop(house.apply(&on("link: b,")))), 1);
    is_on(&house, "b");
    let broken = format!("{}{BROKEN}", on("link: a,"));
    let record = house.run(Txn::all_or_nothing(items(&broken)));
    assert!(matches!(record.outcome, Outcome::Reverted(_)), "{}", steps(&record));
    is_on(&house, "b");
    // The kernel does not take a tunnel off its link: it is made again.
    house.apply(&on(""));
    assert!(!house.sh("ip -d link show dev vx").contains(" dev b "));
}

#[test]
fn an_option_that_the_kernel_lacks_is_not_told_as_a_kind_that_it_lacks() {
    let mut house = House::new();
    let text = "{kind: bridge, name: br0, vlan-filtering: true}";
    let record = house.run(Txn::all_or_nothing(items(text)));
    let expected = "failed to add link `link/host/br0`: this kernel has no VLAN filtering of bridges \
                    (CONFIG_BRIDGE_VLAN_FILTERING)";
    match &record.outcome {
        // A kernel that has it shows that it has.
        Outcome::Applied => assert!(house.sh("ip -d link show dev br0").contains("vlan_filtering 1")),
        Outcome::Reverted(cause) => assert_eq!(&*cause.error, expected),
        other @ (Outcome::AppliedWithPending | Outcome::Incomplete(_) | Outcome::RevertFailed { .. }) => {
            panic!("{other:?}")
        }
    }
}
