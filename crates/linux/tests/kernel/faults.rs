//! Every operation of a plan fails once, and the process is killed before every one of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kilter_linux::{Linux, Settings, sandbox};
use kilter_scheduler::{Act, Answer, Change, Failure, Outcome, Resync, Txn};
use kilter_southbound::{Actuator, Actuators, Batch, BoxFuture};

use crate::harness::{House, assert_same, items, steps, unnumbered_links};

/// Performs one operation after the other; at one of them something happens instead.
pub(crate) struct Faults {
    linux: Linux,
    fuse: Arc<Fuse>,
    fatal: bool,
}

/// Says at which change something happens.
pub(crate) struct Fuse {
    /// The number of the change at which it happens.
    at: AtomicUsize,
    changes: AtomicUsize,
}

impl Fuse {
    /// It happens at the change of this number from here on.
    pub(crate) fn light(&self, number: usize) {
        self.at.store(self.changes.load(Ordering::Relaxed) + number, Ordering::Relaxed);
    }

    /// Nothing happens from here on.
    pub(crate) fn put_out(&self) {
        self.at.store(usize::MAX, Ordering::Relaxed);
    }

    /// How many changes there have been.
    pub(crate) fn changes(&self) -> usize {
        self.changes.load(Ordering::Relaxed)
    }

    fn is_there(&self) -> bool {
        self.changes.fetch_add(1, Ordering::Relaxed) == self.at.load(Ordering::Relaxed)
    }
}

impl Faults {
    /// A house whose change of this number fails, once.
    pub(crate) fn house(at: usize) -> House {
        let (house, fuse) = Self::fused();
        fuse.light(at);
        house
    }

    /// A house in which one change fails when the fuse is lit.
    pub(crate) fn fused() -> (House, Arc<Fuse>) {
        static HOUSES: AtomicUsize = AtomicUsize::new(0);
        sandbox::enter_fresh_namespace().unwrap();
        let number = HOUSES.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("kilter-faults-{}-{number}", std::process::id()));
        Self::over(&folder, usize::MAX, false)
    }

    fn over(folder: &std::path::Path, at: usize, fatal: bool) -> (House, Arc<Fuse>) {
        let parameters = fatal.then(|| parameters(folder));
        let linux =
            Linux::new(Settings { netns_dir: folder.to_owned(), parameters, ..Settings::default() }).unwrap();
        let fuse = Arc::new(Fuse { at: AtomicUsize::new(at), changes: AtomicUsize::new(0) });
        let faults: Arc<dyn Actuator> =
            Arc::new(Self { linux: linux.clone(), fuse: Arc::clone(&fuse), fatal });
        let mut actuators = Actuators::new();
        for kind in kilter_linux::KINDS {
            actuators.add(*kind, Arc::clone(&faults)).unwrap();
        }
        (House::with(folder, linux, actuators), fuse)
    }
}

impl Actuator for Faults {
    fn perform(&self, mut batch: Batch) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            for assignment in batch.by_ref() {
                let is_read = matches!(assignment.act, Act::Retrieve { .. } | Act::RetrieveAll { .. });
                if !is_read && self.fuse.is_there() {
                    if self.fatal {
                        std::process::abort();
                    }
                    assignment.answer(Answer::Failed(Failure::retriable("planned")));
                    continue;
                }
                self.linux.attend(vec![assignment]).await;
            }
        })
    }
}

/// A plan of fifty operations and some: every kind of thing that this kernel can make. The bridge has a hardware address
/// of its own: otherwise it takes that of its first port, and the kernel drops its neighbours then.
const PLAN: &str = "
{kind: netns, name: blue}
---
{kind: netns, name: green}
---
{kind: bridge, name: br0, mac: '02:00:00:00:00:01', addresses: [10.0.0.1/24, 'fd00::1/64']}
---
{kind: veth, name: a, peer: {name: up, netns: blue}, master: br0, alias: to-blue}
---
{kind: veth, name: up, netns: blue, peer: {name: a, netns: host}, addresses: [10.0.0.2/24, 'fd00::2/64']}
---
{kind: veth, name: b, peer: {name: up, netns: green}, master: br0, mtu: 1400}
---
{kind: veth, name: up, netns: green, peer: {name: b, netns: host}, addresses: [10.0.0.3/24]}
---
{kind: vxlan, name: vx, vni: 7, local: 10.0.0.1, addresses: [10.7.0.1/24]}
---
{kind: tap, name: t0, alt-names: [a-second-name], unnumbered: br0}
---
{kind: macvlan, name: m0, link: t0}
---
{kind: ifb, name: i0, state: down}
---
{kind: loopback, name: lo, netns: green, addresses: [192.0.2.1/32]}
---
{kind: route, destination: 10.1.0.0/16, via: 10.0.0.2, link: br0}
---
{kind: route, destination: 10.2.0.0/16, via: 10.0.0.3, link: br0, metric: 7, table: 100}
---
{kind: route, netns: blue, destination: 0.0.0.0/0, via: 10.0.0.1, link: up}
---
{kind: route, netns: blue, destination: '::/0', via: 'fd00::1', link: up}
---
{kind: route, netns: green, destination: 10.9.0.0/16, type: blackhole}
---
{kind: route, netns: green, destination: 10.10.0.0/16, type: unreachable}
---
{kind: route, netns: green, destination: 10.11.0.0/16, via: 10.0.0.1, link: up, mtu: 1300}
---
{kind: route, destination: 10.12.0.0/16, nexthops: [{via: 10.0.0.2, link: br0}, {via: 10.0.0.3, link: br0}]}
---
{kind: route, destination: 'fd12::/32', via: 'fd00::2', link: br0}
---
{kind: neighbour, link: br0, address: 'fd00::9', mac: '02:00:00:00:00:09'}
---
{kind: rule, priority: 100, from: 10.0.0.0/8, table: 100}
---
{kind: rule, netns: blue, family: ipv6, priority: 101, mark: 7, table: main}
---
{kind: neighbour, link: br0, address: 10.0.0.9, mac: '02:00:00:00:00:09'}
---
{kind: neighbour, netns: blue, link: up, address: 10.0.0.8, mac: '02:00:00:00:00:08'}
---
{kind: fdb, link: vx, mac: '02:00:00:00:00:07', remote: 10.0.0.3}
---
{kind: sysctl, name: net.ipv4.ip_forward, value: 1}
---
{kind: sysctl, netns: blue, name: net.ipv4.conf.all.rp_filter, value: 2}
---
{kind: nftables, name: guard, text: 'chain c { type filter hook input priority 0; }'}
---
{kind: qdisc, link: t0, discipline: pfifo, handle: '1:', limit: 7}
";

#[test]
fn each_operation_may_fail_and_everything_is_as_before() {
    let mut at = 0;
    loop {
        let mut house = Faults::house(at);
        house.sh("ip link add foreign type veth peer name other");
        house.sh("ip route add blackhole 172.16.0.0/12");
        let before = house.dump();
        let record = house.run(Txn::all_or_nothing(items(PLAN)));
        match &record.outcome {
            Outcome::Applied => break,
            Outcome::Reverted(cause) => assert_eq!(&*cause.error, "planned"),
            other @ (Outcome::AppliedWithPending | Outcome::Incomplete(_) | Outcome::RevertFailed { .. }) => {
                panic!("operation {at}: {other:?}\n{}", steps(&record))
            }
        }
        assert_same(&house.dump(), &before);
        at += 1;
    }
    assert!(at >= 50, "the plan has {at} operations");
}

/// What becomes of the plan: fields, addresses, gateways and values change, in place and by being made again.
const CHANGE: &str = "
{kind: bridge, name: br0, mac: '02:00:00:00:00:01', mtu: 1390, forward-delay: 4, \
addresses: [10.0.0.1/24, 'fd00::1/64', 10.44.0.1/24]}
---
{kind: veth, name: a, peer: {name: up, netns: blue}, master: br0, alias: renamed, tx-queue-len: 77}
---
{kind: tap, name: t0, alt-names: [a-third-name], unnumbered: br0}
---
{kind: route, destination: 10.1.0.0/16, via: 10.0.0.3, link: br0}
---
{kind: route, netns: green, destination: 10.9.0.0/16, type: prohibit}
---
{kind: neighbour, link: br0, address: 10.0.0.9, mac: '02:00:00:00:00:19'}
---
{kind: rule, priority: 100, from: 10.0.0.0/9, table: 100}
---
{kind: sysctl, netns: blue, name: net.ipv4.conf.all.rp_filter, value: 1}
---
{kind: nftables, name: guard, text: 'chain c { type filter hook output priority 0; }'}
---
{kind: qdisc, link: t0, discipline: pfifo, handle: '1:', limit: 9}
---
{kind: fdb, link: vx, mac: '02:00:00:00:00:07', remote: 10.0.0.2}
---
{kind: existing, name: foreign, mtu: 1400, alias: ours, alt-names: [one-more], state: up}
";

/// What goes.
const GOING: &[&str] = &[
    "linux/link/host/m0",
    "linux/link/host/i0",
    "linux/route/host/main/10.12.0.0/16/0",
    "linux/neighbour/host/br0/fd00::9",
    "linux/rule/blue/ipv6/101",
    "linux/sysctl/host/net.ipv4.ip_forward",
];

#[test]
fn each_operation_of_a_change_may_fail_and_everything_is_as_before() {
    let mut at = 0;
    loop {
        let (mut house, fuse) = Faults::fused();
        house.sh("ip link add foreign type veth peer name other");
        house.sh("ip route add blackhole 172.16.0.0/12");
        house.run(Txn::resync(Resync::Downstream));
        let record = house.run(Txn::all_or_nothing(items(PLAN)));
        assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
        let before = house.dump();
        let mut changes = items(CHANGE);
        changes.extend(GOING.iter().map(|key| Change::remove(*key)));
        fuse.light(at);
        let record = house.run(Txn::all_or_nothing(changes));
        match &record.outcome {
            Outcome::Applied => break,
            Outcome::Reverted(cause) => assert_eq!(&*cause.error, "planned"),
            other @ (Outcome::AppliedWithPending | Outcome::Incomplete(_) | Outcome::RevertFailed { .. }) => {
                panic!("operation {at}: {other:?}\n{}", steps(&record))
            }
        }
        println!("operation {at}:\n{}", steps(&record));
        assert_same(&unnumbered_links(&house.dump()), &unnumbered_links(&before));
        at += 1;
    }
    assert!(at >= 18, "the change has {at} operations");
}

/// Runs in a process of its own: applies the plan, and dies before the change of this number.
#[test]
fn dies_when_it_is_told_to() {
    let Ok(at) = std::env::var("KILTER_DIE_AT") else { return };
    let folder = std::env::var("KILTER_FOLDER").unwrap();
    let (mut house, _) = Faults::over(folder.as_ref(), at.parse().unwrap(), true);
    house.run(Txn::all_or_nothing(items(PLAN)));
    // It came through: there is no such change.
    std::mem::forget(house);
    std::process::exit(77);
}

#[test]
fn a_killed_process_leaves_nothing_that_the_next_one_does_not_clear() {
    let mut at = 0;
    // At each boundary the next one goes on, and in another house it takes everything back.
    while [true, false].into_iter().all(|goes_on| is_cleared(at, goes_on)) {
        at += 1;
    }
    assert!(at >= 50, "the plan has {at} operations");
}

/// Where a process that may die remembers kernel parameters.
fn parameters(folder: &std::path::Path) -> std::path::PathBuf {
    folder.with_extension("parameters")
}

/// Kills a process before this change, and looks whether the next one clears it; `false` if there is no such change.
fn is_cleared(at: usize, goes_on: bool) -> bool {
    let house = House::new();
    std::fs::create_dir_all(&house.folder).unwrap();
    house.sh("ip link add foreign type veth peer name other");
    house.sh("ip route add blackhole 172.16.0.0/12");
    let before = house.dump();
    let died = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::dies_when_it_is_told_to"])
        .env("KILTER_DIE_AT", at.to_string())
        .env("KILTER_FOLDER", &house.folder)
        .output()
        .unwrap();
    if died.status.code() == Some(77) {
        std::fs::remove_file(parameters(&house.folder)).unwrap();
        return false;
    }
    let (mut house, _) = Faults::over(&house.folder, usize::MAX, true);
    if goes_on {
        let record = house.resync(PLAN);
        assert_eq!(record.outcome, Outcome::Applied, "{at}: {}", steps(&record));
        house.verify(&record);
    }
    let record = house.resync("[]");
    assert_eq!(record.outcome, Outcome::Applied, "{at}: {}", steps(&record));
    assert_same(&house.dump(), &before);
    // What it says in the end is for nobody; without a change of a parameter nobody has written it.
    std::fs::remove_file(parameters(&house.folder)).ok();
    true
}
