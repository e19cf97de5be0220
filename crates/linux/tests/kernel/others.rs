//! What others do to a table of ours, to a lender, and what an earlier run did to parameters.

use kilter_linux::{Linux, Settings};
use kilter_scheduler::State;
use kilter_southbound::Actuators;

use crate::drift::Guarded;
use crate::harness::House;

const GUARD: &str = "{kind: nftables, name: guard, text: 'chain c { type filter hook input priority 0; }'}";
const KEY: &str = "linux/nftables/host/inet/guard";

#[test]
fn what_others_put_into_a_table_of_ours_is_noticed_and_replaced_by_one_write() {
    let mut guarded = Guarded::new(GUARD);
    for harm in [
        "nft add rule inet guard c tcp dport 7 drop",
        "nft add chain inet guard theirs",
        "nft add set inet guard s { type ipv4_addr ; elements = { 10.0.0.1 } ; }",
        "nft delete table inet guard",
    ] {
        let before = guarded.house.counts();
        guarded.house.sh(harm);
        guarded.heed_until(harm, |house| house.counts().writes > before.writes);
        guarded.settle();
        assert_eq!(guarded.house.counts().writes - before.writes, 1, "{harm}");
        let listed = guarded.house.sh("nft list table inet guard");
        assert!(listed.contains("hook input") && !listed.contains("theirs"), "{harm}: {listed}");
        assert!(!listed.contains("dport 7") && !listed.contains("10.0.0.1"), "{harm}: {listed}");
        guarded.house.assert_state(KEY, State::Configured);
        guarded.healing = Default::default();
    }
}

#[test]
fn a_table_that_cannot_be_replaced_stays_as_it_was() {
    let mut house = House::new();
    house.apply(GUARD);
    let before = house.sh("nft list ruleset");
    let broken = "{kind: nftables, name: guard, text: 'chain d { } chain c { nonsense }'}";
    let record = house.run(kilter_scheduler::Txn::changes(crate::harness::items(broken)));
    assert!(matches!(record.outcome, kilter_scheduler::Outcome::Incomplete(_)), "{:?}", record.outcome);
    assert_eq!(house.sh("nft list ruleset"), before);
    house.apply(GUARD);
    assert_eq!(house.sh("nft list ruleset"), before);
}

#[test]
fn our_own_tables_and_those_of_others_are_not_drift() {
    let mut guarded = Guarded::new(GUARD);
    guarded.house.apply(
        "{kind: nftables, name: guard, text: 'chain c { type filter hook input priority 0; tcp dport 9 drop; }'}",
    );
    guarded.house.sh("nft add table inet theirs");
    guarded.house.sh("nft add chain inet theirs c");
    let before = guarded.house.counts();
    guarded.settle();
    let after = guarded.house.counts();
    assert_eq!((after.writes, after.dumps, after.reads), (before.writes, before.dumps, before.reads));
}

const LENDER: &str = "
{kind: tap, name: borrower, unnumbered: lender, addr-gen-mode: none}
---
{kind: tap, name: lender, addresses: [10.0.0.1/24, 10.0.1.1/24], addr-gen-mode: none}
";

#[test]
fn a_borrower_does_not_keep_what_its_lender_gave_up() {
    let mut guarded = Guarded::new(LENDER);
    assert!(guarded.house.sh("ip addr show dev borrower").contains("10.0.0.1/32"));
    guarded.house.apply("{kind: tap, name: lender, addresses: [10.0.1.1/24], addr-gen-mode: none}");
    guarded.heed_until("the other address is borrowed", |house| {
        let shown = house.sh("ip addr show dev borrower");
        shown.contains("10.0.1.1/32") && !shown.contains("10.0.0.1")
    });
    guarded.house.assert_state("linux/unnumbered/host/borrower", State::Configured);
}

/// An agent that remembers in a file which parameters it changed.
fn remembering(folder: &std::path::Path) -> House {
    let settings = Settings {
        netns_dir: folder.to_owned(),
        parameters: Some(folder.with_extension("parameters")),
        ..Settings::default()
    };
    let linux = Linux::new(settings).unwrap();
    let mut actuators = Actuators::new();
    linux.add_to(&mut actuators).unwrap();
    House::with(folder, linux, actuators)
}

#[test]
fn a_later_run_gives_parameters_back_that_an_earlier_one_changed() {
    let house = House::new();
    let folder = house.folder.clone();
    let shown = |house: &House| house.sh("sysctl -n net.ipv4.ip_forward");
    assert_eq!(shown(&house), "0\n");
    let text = "{kind: sysctl, name: net.ipv4.ip_forward, value: 1}";
    let key = "linux/sysctl/host/net.ipv4.ip_forward";
    let mut first = remembering(&folder);
    first.apply(text);
    assert_eq!(shown(&first), "1\n");

    let mut second = remembering(&folder);
    assert_eq!(second.writes(|house| drop(house.resync(text))), 0, "it is as declared");
    second.assert_state(key, State::Configured);

    let mut third = remembering(&folder);
    third.resync("");
    assert_eq!(shown(&third), "0\n", "nobody declares it any more");

    let mut fourth = remembering(&folder);
    third.sh("sysctl -w net.ipv4.ip_forward=1");
    fourth.resync("");
    assert_eq!(shown(&fourth), "1\n", "what was given back is not ours any more");
    let _ = std::fs::remove_file(folder.with_extension("parameters"));
}

#[test]
fn parameters_of_a_namespace_that_is_gone_are_not_those_of_the_next_one_with_its_number() {
    use std::os::unix::fs::MetadataExt as _;
    let house = House::new();
    let path = house.folder.join("blue");
    let name = "net.ipv4.ip_forward";
    let text =
        format!("{{kind: netns, name: blue}}\n---\n{{kind: sysctl, netns: blue, name: {name}, value: 1}}");
    let mut first = remembering(&house.folder);
    first.apply(&text);
    let number = std::fs::metadata(&path).unwrap().ino();
    // The agent dies, and so does the namespace. Another one gets the number sooner or later.
    first.folder.push("nothing");
    drop(first);
    house.sh(&format!("umount -l {}", path.display()));
    for _ in 0..1000 {
        house.sh(&format!("unshare --net={} true", path.display()));
        if std::fs::metadata(&path).unwrap().ino() == number {
            break;
        }
        house.sh(&format!("umount -l {}", path.display()));
    }
    if std::fs::metadata(&path).unwrap().ino() != number {
        println!("the kernel did not give the number again; any other namespace shows the same");
        house.sh(&format!("unshare --net={} true", path.display()));
    }
    house.sh_in("blue", &format!("sysctl -w {name}=1"));
    let mut next = remembering(&house.folder);
    next.resync("{kind: netns, name: blue}");
    assert_eq!(next.sh_in("blue", &format!("sysctl -n {name}")), "1\n", "nobody changed it here");
    let _ = std::fs::remove_file(house.folder.with_extension("parameters"));
}

#[test]
fn parameters_of_another_start_of_the_machine_are_not_ours() {
    let house = House::new();
    let file = house.folder.with_extension("parameters");
    let text = "{kind: sysctl, name: net.ipv4.ip_forward, value: 1}";
    remembering(&house.folder).apply(text);
    let written = std::fs::read_to_string(&file).unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    std::fs::write(&file, written.replace(boot.trim(), "another")).unwrap();
    remembering(&house.folder).resync("");
    assert_eq!(house.sh("sysctl -n net.ipv4.ip_forward"), "1\n");
    let _ = std::fs::remove_file(file);
}

const BEYOND: &str = "{kind: route, destination: 10.9.0.0/24, via: 10.0.0.9}";
const BEYOND_KEY: &str = "linux/route/host/main/10.9.0.0/24/0";

/// A route waits as long as the link below the way to its gateway is down, and never fails.
fn follows_its_link(guarded: &mut Guarded) {
    let state = |house: &House| house.state(BEYOND_KEY);
    guarded.settle();
    guarded.house.assert_state(BEYOND_KEY, State::Pending);
    for _ in 0..2 {
        guarded.house.sh("ip link set near up");
        guarded.heed_until("the route is there", |house| state(house) != State::Pending);
        guarded.house.assert_state(BEYOND_KEY, State::Configured);
        assert!(guarded.house.sh("ip route").contains("10.9.0.0/24"));
        guarded.house.sh("ip link set near down");
        guarded.heed_until("the route waits", |house| state(house) != State::Configured);
        guarded.house.assert_state(BEYOND_KEY, State::Pending);
        assert!(!guarded.house.sh("ip route").contains("10.9.0.0/24"));
    }
    // The same is read, not only heard.
    let record = guarded.house.run(kilter_scheduler::Txn::resync(kilter_scheduler::Resync::Downstream));
    assert_eq!(record.outcome, kilter_scheduler::Outcome::Applied);
    guarded.house.assert_state(BEYOND_KEY, State::Pending);
    guarded.house.sh("ip link set near up");
    guarded.house.run(kilter_scheduler::Txn::resync(kilter_scheduler::Resync::Downstream));
    guarded.house.assert_state(BEYOND_KEY, State::Configured);
}

#[test]
fn an_address_of_others_is_a_way_to_a_gateway_only_while_its_link_is_up() {
    let mut guarded = Guarded::new("");
    guarded.house.sh("ip link add near type veth peer name far");
    guarded.house.sh("ip link set far up");
    guarded.house.sh("ip addr add 10.0.0.1/24 dev near");
    guarded.settle();
    guarded.house.apply(BEYOND);
    follows_its_link(&mut guarded);
}

#[test]
fn our_address_on_a_link_whose_state_is_not_ours_is_a_way_to_a_gateway_only_while_it_is_up() {
    let mut guarded = Guarded::new("");
    guarded.house.sh("ip link add near type veth peer name far");
    guarded.house.sh("ip link set far up");
    guarded.settle();
    guarded.house.apply(&format!("{{kind: existing, name: near, addresses: [10.0.0.1/24]}}\n---\n{BEYOND}"));
    guarded.house.assert_state("linux/address/host/near/10.0.0.1/24", State::Configured);
    follows_its_link(&mut guarded);
}
