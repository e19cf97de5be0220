//! What others do is noticed, and healed item by item.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use kilter_linux::drift::{self, Healing, Settings};
use kilter_linux::{Noticed, Watch};
use kilter_scheduler::{State, Timestamp};
use kilter_southbound::{Clock as _, SystemClock};

use crate::harness::{House, Sleeper, steps};

/// A house that watches and heals.
pub(crate) struct Guarded {
    pub(crate) house: House,
    watch: Watch,
    pub(crate) healing: Healing,
    /// How often events were lost.
    overruns: usize,
    /// The address that says that everything before it was heard.
    marker: Option<kilter_scheduler::Key>,
    markers: u32,
}

impl Guarded {
    pub(crate) fn new(text: &str) -> Self {
        let mut house = House::new();
        let (linux, runtime) = (house.linux.clone(), house.runtime.clone());
        let watch = runtime.block_on(linux.watch()).unwrap();
        house.apply(text);
        let mut guarded = Self::over(house, watch);
        guarded.settle();
        guarded
    }

    fn over(house: House, watch: Watch) -> Self {
        Self { house, watch, healing: Healing::default(), overruns: 0, marker: None, markers: 0 }
    }

    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// Heeds what was noticed, if anything is within the time; says whether the address of a marker was among it.
    fn heed(&mut self, within: Duration) -> bool {
        let runtime = self.house.runtime.clone();
        let noticed = runtime.block_on(async { tokio::time::timeout(within, self.watch.next()).await });
        let noticed = noticed.ok().flatten();
        let mut marked = false;
        for noticed in noticed.iter().flatten() {
            match noticed {
                Noticed::Item(seen) => marked |= self.marker.as_ref().is_some_and(|key| seen.key == *key),
                Noticed::Overrun { .. } => self.overruns += 1,
            }
        }
        let now = self.now();
        let sorted = drift::sort(&self.house.scheduler, noticed.unwrap_or_default());
        for txn in sorted.transactions(&mut self.healing, now) {
            let record = self.house.run(txn);
            println!("{}", steps(&record));
        }
        let due = self.healing.due(self.now());
        if !due.is_empty() {
            let due = drift::with_what_stands_on(&self.house.scheduler, due);
            self.house.run(kilter_scheduler::Txn::resync(kilter_scheduler::Resync::Refresh(due)));
        }
        marked
    }

    /// Heeds everything that has happened in the host until now, and what follows from it.
    ///
    /// The events of a namespace come in their order: what came before a marker has been heard with it. What healing
    /// itself does is heard with the second one.
    pub(crate) fn settle(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(120);
        for _ in 0..2 {
            self.markers += 1;
            let address = format!("127.1.{}.{}/32", self.markers / 256, self.markers % 256);
            self.marker = Some(format!("linux/address/host/lo/{address}").into());
            crate::harness::sh(&format!("ip addr add {address} dev lo"));
            while !self.heed(Duration::from_millis(50)) {
                assert!(Instant::now() < deadline, "waited too long for the marker {address}");
            }
            self.marker = Some(format!("linux/address/host/lo/{address}").into());
            crate::harness::sh(&format!("ip addr del {address} dev lo"));
            while !self.heed(Duration::from_millis(50)) {
                assert!(Instant::now() < deadline, "waited too long for the marker {address} to go");
            }
        }
    }

    pub(crate) fn heed_until(&mut self, what: &str, mut condition: impl FnMut(&House) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !condition(&self.house) {
            assert!(Instant::now() < deadline, "waited too long for: {what}");
            self.heed(Duration::from_millis(50));
        }
    }
}

#[test]
fn kernel_parameters_that_somebody_changes_are_given_their_value_again() {
    let parameters = |rp_filter: u32, forwarding: u32| {
        format!(
            "{{kind: sysctl, name: net.ipv4.conf.all.rp_filter, value: {rp_filter}}}\n---\n\
             {{kind: sysctl, name: net.ipv6.conf.all.forwarding, value: {forwarding}}}\n---\n\
             {{kind: sysctl, name: net.ipv4.conf.all.arp_ignore, value: 1}}"
        )
    };
    // Of some the kernel tells; the others are looked at.
    for (interval, names) in [
        (Duration::from_secs(3600), &["net.ipv4.conf.all.rp_filter", "net.ipv6.conf.all.forwarding"][..]),
        (Duration::from_millis(50), &["net.ipv4.conf.all.arp_ignore"][..]),
    ] {
        let mut house = House::new();
        let (linux, runtime) = (house.linux.clone(), house.runtime.clone());
        let watch = runtime.block_on(linux.watch_every(interval)).unwrap();
        house.apply(&parameters(1, 1));
        // One that is as declared before anybody writes it counts, too.
        house.resync(&parameters(1, 1));
        let mut guarded = Guarded::over(house, watch);
        guarded.settle();
        for name in names {
            guarded.house.sh(&format!("sysctl -qw {name}=0"));
            guarded.heed_until(name, |house| house.sh(&format!("sysctl -n {name}")) == "1\n");
        }
        assert_eq!(guarded.healing.contested(), []);
    }
}

const GROUND: &str = "
{kind: bridge, name: br0, addresses: [10.0.0.1/16], addr-gen-mode: none}
---
{kind: veth, name: a, peer: b, master: br0, addr-gen-mode: none}
---
{kind: veth, name: b, peer: a, addr-gen-mode: none}
";

fn routes(count: usize) -> String {
    let mut text = String::new();
    for at in 0..count {
        let _ = writeln!(
            text,
            "---\n{{kind: route, destination: 10.{}.{}.0/24, via: 10.0.0.9}}",
            1 + at / 256,
            at % 256
        );
    }
    text
}

#[test]
fn our_own_doing_is_not_drift() {
    let mut guarded = Guarded::new(&format!("{GROUND}{}", routes(50)));
    guarded.house.apply("{kind: bridge, name: br0, addresses: [10.0.0.1/16, 10.99.0.1/24], mtu: 1400}");
    let before = guarded.house.counts();
    guarded.settle();
    let after = guarded.house.counts();
    assert_eq!((after.writes, after.dumps), (before.writes, before.dumps));
}

#[test]
fn one_of_ten_thousand_routes_comes_back_by_one_write_and_no_dump() {
    let mut guarded = Guarded::new(&format!("{GROUND}{}", routes(10_000)));
    let before = guarded.house.counts();
    guarded.house.sh("ip route del 10.7.7.0/24");
    guarded.heed_until("the route is back", |house| !house.sh("ip route show 10.7.7.0/24").is_empty());
    let after = guarded.house.counts();
    assert_eq!((after.writes - before.writes, after.dumps - before.dumps), (1, 0));
    guarded.house.assert_state("linux/route/host/main/10.7.7.0/24/0", State::Configured);
}

#[test]
fn an_address_a_flag_and_a_field_come_back_each_by_one_write() {
    let mut guarded = Guarded::new(GROUND);
    for (harm, sign) in [
        ("ip addr del 10.0.0.1/16 dev br0", "ip addr show dev br0 | 10.0.0.1/16"),
        ("ip link set dev b down", "ip link show dev b | ,UP"),
        ("ip link set dev a nomaster", "ip link show dev a | master br0"),
        ("ip route replace 10.3.0.0/24 via 10.0.0.8 proto 75", "ip route show 10.3.0.0/24 | via 10.0.0.9"),
    ] {
        if harm.contains("10.3.0.0") {
            guarded.house.apply("{kind: route, destination: 10.3.0.0/24, via: 10.0.0.9}");
            guarded.settle();
        }
        let (look, sign) = sign.split_once(" | ").unwrap();
        let before = guarded.house.counts().writes;
        guarded.house.sh(harm);
        guarded.heed_until(harm, |house| house.sh(look).contains(sign));
        guarded.settle();
        assert_eq!(guarded.house.counts().writes - before, 1, "{harm}");
    }
}

#[test]
fn what_is_configured_on_a_link_of_others_and_how_a_bridge_treats_a_port_come_back_each_by_one_write() {
    let mut house = House::new();
    house.sh("ip link add eth1 type veth peer name eth2");
    // Of a link that is down the kernel does not tell everything.
    house.sh("ip link set eth1 up");
    let watch = house.runtime.clone().block_on(house.linux.clone().watch()).unwrap();
    house.run(kilter_scheduler::Txn::resync(kilter_scheduler::Resync::Downstream));
    house.apply(
        "{kind: existing, name: eth1, mtu: 1400, alias: ours, addr-gen-mode: none}\n---\n\
         {kind: bridge, name: br0, addr-gen-mode: none, ports: [{link: t0, hairpin: true, cost: 9}]}\n---\n\
         {kind: tap, name: t0, addr-gen-mode: none}",
    );
    let mut guarded = Guarded::over(house, watch);
    guarded.settle();
    for (harm, look, sign) in [
        ("ip link set dev eth1 mtu 1300", "ip link show dev eth1", "mtu 1400"),
        ("ip link set dev eth1 alias theirs", "ip link show dev eth1", "alias ours"),
        ("bridge link set dev t0 hairpin off", "ip -d link show dev t0", "hairpin on"),
        ("ip link set dev t0 type bridge_slave cost 7", "ip -d link show dev t0", "cost 9"),
    ] {
        let before = guarded.house.counts().writes;
        guarded.house.sh(harm);
        guarded.heed_until(harm, |house| house.sh(look).contains(sign));
        guarded.settle();
        assert_eq!(guarded.house.counts().writes - before, 1, "{harm}");
        guarded.healing = Healing::default();
    }
}

#[test]
fn a_link_that_is_deleted_comes_back_with_everything_on_it() {
    let mut guarded = Guarded::new(&format!("{GROUND}{}", routes(5)));
    guarded.house.sh("ip link del br0");
    guarded.heed_until("everything is back", |house| {
        house.sh("ip route").matches("via 10.0.0.9").count() == 5
            && house.sh("ip link show dev a").contains("master br0")
    });
    guarded.house.assert_state("linux/link/host/br0", State::Configured);
}

#[test]
fn a_renamed_link_is_followed_by_its_index() {
    let mut guarded = Guarded::new(GROUND);
    let index = |house: &House| house.sh("ip -o link show dev b").split(':').next().unwrap().to_owned();
    let before = index(&guarded.house);
    guarded.house.sh("ip link set dev b name elsewhere");
    guarded.heed_until("it has its name again", |house| {
        crate::harness::try_sh("ip link show dev b").1
            && house.state("linux/link/host/b") == State::Configured
    });
    assert_eq!(index(&guarded.house), before, "it is the same link");
    assert!(!guarded.house.sh("ip -o link").contains("elsewhere"));
}

#[test]
fn a_link_that_was_moved_is_brought_back() {
    let mut guarded = Guarded::new(&format!("{{kind: netns, name: blue}}\n---{GROUND}"));
    let path = guarded.house.folder.join("blue");
    // `ip` knows namespaces by their names in its own folder; a process in the namespace does as well.
    let sleeper = Sleeper::start(&["nsenter", &format!("--net={}", path.display()), "sleep", "1000"]);
    crate::harness::wait_for("the process is in the namespace", || {
        use std::os::unix::fs::MetadataExt as _;
        let inode = |path: &std::path::Path| std::fs::metadata(path).ok().map(|file| file.ino());
        inode(std::path::Path::new(&format!("/proc/{}/ns/net", sleeper.id()))) == inode(&path)
    });
    guarded.house.sh(&format!("ip link set dev b netns {}", sleeper.id()));
    guarded.heed_until("it is back", |house| house.sh("ip -o link").contains(" b@a"));
    drop(sleeper);
    guarded.settle();
    guarded.house.assert_state("linux/link/host/b", State::Configured);
}

#[test]
fn a_namespace_that_disappears_takes_its_items_to_pending_and_comes_back() {
    let text =
        "{kind: netns, name: blue}\n---\n{kind: bridge, name: br7, netns: blue, addresses: [10.7.0.1/24]}";
    let mut guarded = Guarded::new(text);
    let path = guarded.house.folder.join("blue");
    guarded.house.sh(&format!("umount -l {}", path.display()));
    guarded.house.sh(&format!("rm {}", path.display()));
    guarded.heed_until("the namespace and its items are back", |house| {
        house.state("linux/address/blue/br7/10.7.0.1/24") == State::Configured
            && path.exists()
            && house.sh_in("blue", "ip addr").contains("10.7.0.1/24")
    });
}

#[test]
fn a_namespace_that_is_deleted_the_moment_it_is_made_comes_back() {
    let mut guarded = Guarded::new(GROUND);
    for round in 0..10 {
        let name = format!("brief{round}");
        let path = guarded.house.folder.join(&name);
        guarded.house.apply(&format!(
            "{{kind: netns, name: {name}}}\n---\n{{kind: bridge, name: br7, netns: {name}}}"
        ));
        // Without giving the watch a moment in which to see it.
        rustix::mount::unmount(&path, rustix::mount::UnmountFlags::DETACH).unwrap();
        std::fs::remove_file(&path).unwrap();
        guarded.heed_until("the namespace and its bridge are back", |house| {
            path.exists() && house.sh_in(&name, "ip link").contains("br7")
        });
    }
}

#[test]
fn a_namespace_of_somebody_else_that_disappears_leaves_its_items_pending() {
    let mut guarded = Guarded::new(GROUND);
    let sleeper = Sleeper::start(&["unshare", "-n", "sleep", "1000"]);
    let pid = sleeper.id();
    crate::harness::wait_for("the process has a namespace of its own", || {
        std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()
            != std::fs::read_link("/proc/thread-self/ns/net").ok()
    });
    guarded.house.apply(&format!(
        "{{kind: netns, name: theirs, pid: {pid}}}\n---\n{{kind: bridge, name: br7, netns: theirs}}"
    ));
    guarded.settle();
    drop(sleeper);
    guarded.heed_until("the bridge waits for its namespace", |house| {
        house.state("linux/link/theirs/br7") == State::Pending
    });
}

#[test]
fn a_link_that_somebody_makes_lets_what_waits_for_it_come_up() {
    let mut guarded = Guarded::new(GROUND);
    guarded.house.apply("{kind: macvlan, name: m0, link: eth7}");
    guarded.house.assert_state("linux/link/host/m0", State::Pending);
    guarded.house.sh("ip link add eth7 type veth peer name eth8");
    guarded
        .heed_until("the macvlan is there", |house| house.state("linux/link/host/m0") == State::Configured);
    guarded.house.assert_state("linux/link/host/eth7", State::Obtained);
    guarded.house.sh("ip link del eth7");
    guarded
        .heed_until("the macvlan waits again", |house| house.state("linux/link/host/m0") == State::Pending);
}

#[test]
fn an_overrun_leads_to_a_refresh() {
    let mut guarded = Guarded::new(&format!("{GROUND}{}", routes(20)));
    // Far more events than any buffer of this size holds, while nobody reads them.
    let batch = std::env::temp_dir().join(format!("kilter-overrun-{}", std::process::id()));
    let mut lines = String::new();
    for at in 0..60_000 {
        let _ =
            writeln!(lines, "route add blackhole 172.{}.{}.{}/32", 16 + at / 65536, at / 256 % 256, at % 256);
    }
    lines.push_str("route del 10.1.3.0/24\n");
    std::fs::write(&batch, lines).unwrap();
    guarded.house.sh(&format!("ip -batch {}", batch.display()));
    std::fs::remove_file(&batch).unwrap();
    guarded.heed_until("the route is back", |house| !house.sh("ip route show 10.1.3.0/24").is_empty());
    assert!(guarded.overruns > 0, "events were lost");
}

#[test]
fn what_is_paused_is_left_alone_also_when_a_namespace_comes_or_events_are_lost() {
    let mut guarded = Guarded::new(&format!("{GROUND}{}", routes(3)));
    guarded.healing.pause("linux/route/");
    guarded.house.sh("ip route del 10.1.1.0/24");
    let path = guarded.house.folder.join("theirs");
    std::fs::create_dir_all(&guarded.house.folder).unwrap();
    guarded.house.sh(&format!("touch {}", path.display()));
    guarded.house.sh(&format!("unshare --net={} true", path.display()));
    guarded
        .heed_until("the namespace is known", |house| house.state("linux/link/theirs/lo") == State::Obtained);
    let lost = vec![kilter_linux::Noticed::Overrun { netns: "host".into() }];
    let txns =
        drift::sort(&guarded.house.scheduler, lost).transactions(&mut guarded.healing, SystemClock.now());
    assert!(!txns.is_empty(), "other things are read again");
    txns.into_iter().for_each(|txn| drop(guarded.house.run(txn)));
    assert!(guarded.house.sh("ip route show 10.1.1.0/24").is_empty(), "it is left alone");
    // A namespace that comes has nothing to do with what is in others.
    let before = guarded.house.counts();
    let other = vec![kilter_linux::Noticed::Overrun { netns: "theirs".into() }];
    for txn in
        drift::sort(&guarded.house.scheduler, other).transactions(&mut guarded.healing, SystemClock.now())
    {
        let record = guarded.house.run(txn);
        assert!(steps(&record).lines().all(|line| line.contains("/theirs")), "{}", steps(&record));
    }
    assert_eq!(guarded.house.counts().writes, before.writes);
    guarded.healing.resume("linux/route/");
    let lost = vec![kilter_linux::Noticed::Overrun { netns: "host".into() }];
    let txns =
        drift::sort(&guarded.house.scheduler, lost).transactions(&mut guarded.healing, SystemClock.now());
    txns.into_iter().for_each(|txn| drop(guarded.house.run(txn)));
    assert!(!guarded.house.sh("ip route show 10.1.1.0/24").is_empty());
}

#[test]
fn what_stood_on_a_link_comes_back_with_it_also_if_it_is_healed_later() {
    let mut guarded = Guarded::new(&format!("{GROUND}{}", routes(3)));
    let back = |house: &House| house.sh("ip route").matches("via 10.0.0.9").count() == 3;
    for round in 0..3 {
        guarded.house.sh("ip link del br0");
        guarded.heed_until("everything is back", back);
        println!("round {round}");
    }
}

#[test]
fn a_link_of_others_that_is_declared_does_not_drift_by_its_own_events() {
    let mut house = House::new();
    house.sh("ip link add br0 type bridge forward_delay 700");
    let watch = house.runtime.clone().block_on(house.linux.clone().watch()).unwrap();
    house.resync("{kind: bridge, name: br0, forward-delay: 7, stp: false, alias: ours}");
    let mut guarded = Guarded::over(house, watch);
    guarded.settle();
    for round in 0..8 {
        guarded.house.sh(&format!("ip link set br0 group {round}"));
        guarded.settle();
    }
    assert_eq!(guarded.healing.contested(), []);
    guarded.house.sh("ip link set br0 type bridge forward_delay 900");
    guarded.heed_until("it is as declared", |house| {
        house.sh("ip -d link show br0").contains("forward_delay 700")
    });
    assert_eq!(guarded.healing.contested(), []);
}

#[test]
fn a_rule_of_others_with_our_priority_is_not_drift() {
    let mut guarded = Guarded::new("{kind: rule, priority: 100, from: 10.8.0.0/16, table: 100}");
    let before = guarded.house.counts().writes;
    for round in 0..8 {
        guarded.house.sh(&format!("ip rule add priority 100 from 10.{round}.0.0/24 table 100"));
        guarded.settle();
        guarded.house.sh(&format!("ip rule del priority 100 from 10.{round}.0.0/24 table 100"));
        guarded.settle();
    }
    assert_eq!((guarded.healing.contested(), guarded.house.counts().writes), (vec![], before));
    guarded.house.sh("ip rule del priority 100 from 10.8.0.0/16 table 100");
    guarded.heed_until("ours is back", |house| house.sh("ip rule").contains("10.8.0.0/16"));
}

#[test]
fn a_fight_ends_and_says_so() {
    let mut guarded = Guarded::new(&format!("{GROUND}{}", routes(3)));
    guarded.healing = Healing::new(Settings { backoff: Duration::from_millis(1), ..Settings::default() });
    let key = "linux/route/host/main/10.1.1.0/24/0";
    let deadline = Instant::now() + Duration::from_secs(120);
    while guarded.healing.contested().is_empty() {
        assert!(Instant::now() < deadline, "the fight goes on");
        crate::harness::try_sh("ip route del 10.1.1.0/24");
        guarded.heed(Duration::from_millis(50));
    }
    assert_eq!(guarded.healing.contested().iter().map(|key| key.as_str()).collect::<Vec<_>>(), [key]);
    guarded.settle();
    assert!(guarded.house.sh("ip route show 10.1.1.0/24").is_empty(), "it is left alone");
    guarded.healing.forgive(&kilter_scheduler::Key::new(key));
    guarded.house.run(kilter_scheduler::Txn::resync(kilter_scheduler::Resync::Refresh(vec![key.into()])));
    assert!(!guarded.house.sh("ip route show 10.1.1.0/24").is_empty());
}
