//! What others do is noticed, and healed item by item.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use kilter_linux::Watch;
use kilter_linux::drift::{self, Healing, Settings};
use kilter_scheduler::{State, Timestamp};
use kilter_southbound::{Clock as _, SystemClock};

use crate::harness::{House, steps};

/// A house that watches and heals.
pub(crate) struct Guarded {
    pub(crate) house: House,
    watch: Watch,
    pub(crate) healing: Healing,
}

impl Guarded {
    pub(crate) fn new(text: &str) -> Self {
        let mut house = House::new();
        let (linux, runtime) = (house.linux.clone(), house.runtime.clone());
        let watch = runtime.block_on(linux.watch()).unwrap();
        house.apply(text);
        let mut guarded = Self { house, watch, healing: Healing::default() };
        guarded.settle();
        guarded
    }

    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// Heeds what was noticed, if anything is within the time.
    fn heed(&mut self, within: Duration) -> bool {
        let runtime = self.house.runtime.clone();
        let noticed = runtime.block_on(async { tokio::time::timeout(within, self.watch.next()).await });
        let noticed = noticed.ok().flatten();
        let anything = noticed.is_some();
        let now = self.now();
        let sorted = drift::sort(&self.house.scheduler, noticed.unwrap_or_default());
        for txn in sorted.transactions(&mut self.healing, now) {
            let record = self.house.run(txn);
            println!("{}", steps(&record));
        }
        let due = self.healing.due(self.now());
        if !due.is_empty() {
            self.house.run(kilter_scheduler::Txn::resync(kilter_scheduler::Resync::Refresh(due)));
        }
        anything
    }

    /// Heeds everything until it is quiet.
    pub(crate) fn settle(&mut self) {
        while self.heed(Duration::from_millis(150)) {}
    }

    pub(crate) fn heed_until(&mut self, what: &str, mut condition: impl FnMut(&House) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !condition(&self.house) {
            assert!(Instant::now() < deadline, "waited too long for: {what}");
            self.heed(Duration::from_millis(50));
        }
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
    let mut sleeper = std::process::Command::new("nsenter")
        .arg(format!("--net={}", path.display()))
        .args(["sleep", "1000"])
        .spawn()
        .unwrap();
    crate::harness::wait_for("the process is in the namespace", || {
        use std::os::unix::fs::MetadataExt as _;
        let inode = |path: &std::path::Path| std::fs::metadata(path).ok().map(|file| file.ino());
        inode(std::path::Path::new(&format!("/proc/{}/ns/net", sleeper.id()))) == inode(&path)
    });
    guarded.house.sh(&format!("ip link set dev b netns {}", sleeper.id()));
    guarded.heed_until("it is back", |house| house.sh("ip -o link").contains(" b@a"));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
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
fn a_namespace_of_somebody_else_that_disappears_leaves_its_items_pending() {
    let mut guarded = Guarded::new(GROUND);
    let mut sleeper = std::process::Command::new("unshare").args(["-n", "sleep", "1000"]).spawn().unwrap();
    let pid = sleeper.id();
    crate::harness::wait_for("the process has a namespace of its own", || {
        std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()
            != std::fs::read_link("/proc/thread-self/ns/net").ok()
    });
    guarded.house.apply(&format!(
        "{{kind: netns, name: theirs, pid: {pid}}}\n---\n{{kind: bridge, name: br7, netns: theirs}}"
    ));
    guarded.settle();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
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
