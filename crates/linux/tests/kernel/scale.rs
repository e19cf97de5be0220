//! Many things at once, beside many that are not ours.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kilter_scheduler::{Outcome, Txn};

use crate::harness::{House, items, removal, sh, steps, wait_for};

/// The kernel has one lock for all links of the machine: two tests of this size would only measure each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ports(count: usize) -> String {
    let mut text = "{kind: bridge, name: br0, addr-gen-mode: none}\n".to_owned();
    for at in 0..count {
        let (high, low) = (at / 256, at % 256);
        let _ = write!(
            text,
            "---\n{{kind: veth, name: p{at}, peer: q{at}, master: br0, addr-gen-mode: none}}\n\
             ---\n{{kind: veth, name: q{at}, peer: p{at}, addr-gen-mode: none, addresses: [10.{high}.{low}.1/24]}}\n"
        );
    }
    text
}

#[test]
fn five_hundred_namespaces_with_four_links_come_and_leave_nothing() {
    let _alone = alone();
    let mut house = House::new();
    let before = house.dump();
    let mut text = String::new();
    for at in 0..500 {
        let _ = writeln!(text, "---\n{{kind: netns, name: n{at}}}");
        for link in 0..4 {
            let _ = writeln!(text, "---\n{{kind: bridge, name: b{link}, netns: n{at}, state: down}}");
        }
    }
    let mut changes = items(&text);
    // The last of all fails, and everything goes back.
    changes.extend(items("{kind: dummy, name: zzz, netns: n499}"));
    let record = house.run(Txn::all_or_nothing(changes));
    assert!(matches!(record.outcome, Outcome::Reverted(_)), "{:?}", record.outcome);
    assert_eq!(house.dump(), before);

    let record = house.run(Txn::all_or_nothing(items(&text)));
    assert_eq!(record.outcome, Outcome::Applied);
    assert_eq!(std::fs::read_dir(&house.folder).unwrap().count(), 500);
    assert_eq!(house.sh_in("n499", "ip -o link").lines().count(), 5);
    let mut fresh = House::over(&house.folder);
    let writes = fresh.writes(|fresh| {
        let record = fresh.resync(&text);
        assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
    });
    assert_eq!(writes, 0, "an agent that is started again finds all of it");
    std::mem::forget(fresh);
    let record = house.run(Txn::all_or_nothing(removal(&items(&text))));
    assert_eq!(record.outcome, Outcome::Applied);
    assert_eq!(house.dump(), before);
}

#[test]
fn a_thousand_ports_unchanged_are_not_written_and_one_address_is_one_write() {
    let _alone = alone();
    let mut house = House::new();
    house.run(Txn::all_or_nothing(items(&ports(1000))));
    wait_for("all carriers are there", || house.sh("ip -o link").matches("state UP").count() == 2001);
    let mut monitor = Monitor::start();
    let again = items(&ports(1000));
    let (same, fresh_writes) = (house.writes(|house| drop(house.run(Txn::all_or_nothing(again)))), {
        let mut fresh = House::over(&house.folder);
        let writes = fresh.writes(|fresh| {
            let record = fresh.resync(&ports(1000));
            assert_eq!(record.outcome, Outcome::Applied);
            assert_eq!(record.steps().iter().filter(|step| step.action.name() == "create").count(), 0);
        });
        std::mem::forget(fresh);
        writes
    });
    assert_eq!((same, fresh_writes), (0, 0));
    assert_eq!(monitor.said(), Vec::<String>::new(), "not one event");
    let more =
        "{kind: veth, name: q7, peer: p7, addr-gen-mode: none, addresses: [10.0.7.1/24, 10.200.0.1/24]}";
    let record = house.writes(|house| {
        let record = house.run(Txn::all_or_nothing(items(more)));
        assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
    });
    assert_eq!(record, 1);
    let record = house.run(Txn::all_or_nothing(removal(&items(&ports(1000)))));
    assert_eq!(record.outcome, Outcome::Applied);
    assert_eq!(house.sh("ip -o link").lines().count(), 1);
}

#[test]
fn a_hundred_thousand_foreign_routes_are_neither_touched_nor_kept() {
    let _alone = alone();
    let mut house = House::new();
    let batch = house.folder.with_extension("batch");
    let mut lines = String::from("link add far type veth peer name near\nlink set far up\n");
    for at in 0..100_000_u32 {
        let _ =
            writeln!(lines, "route add 172.{}.{}.{}/32 dev far", 16 + at / 65536, at / 256 % 256, at % 256);
    }
    std::fs::write(&batch, lines).unwrap();
    house.sh(&format!("ip -batch {}", batch.display()));
    std::fs::remove_file(&batch).unwrap();
    let before = house.sh("ip -N route show dev far");
    let measured = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "scale::measures_its_memory_when_it_is_told_to"])
        .env("KILTER_MEASURE", &house.folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&measured.stdout).into_owned();
    assert_eq!(measured.status.code(), Some(77), "{said}");
    let record = house.resync("{kind: tap, name: t0, addresses: [10.0.0.1/24]}");
    assert_eq!(record.outcome, Outcome::Applied);
    assert!(house.sh("ip -N route show dev far") == before, "not one of them was touched");
    assert_eq!(before.lines().count(), 100_000);
}

/// Runs in a process of its own, beside the routes of others: what other tests do is not its memory.
#[test]
fn measures_its_memory_when_it_is_told_to() {
    let Ok(folder) = std::env::var("KILTER_MEASURE") else { return };
    let mut house = House::over(folder.as_ref());
    let before = memory();
    let text = "{kind: tap, name: t0, addresses: [10.0.0.1/24]}\n---\n{kind: route, destination: 10.9.0.0/24, via: 10.0.0.9}";
    let writes = house.writes(|house| {
        let record = house.resync(text);
        assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
    });
    // The link, up, an address, a route.
    assert_eq!(writes, 4, "nothing else is written");
    let grown = memory().saturating_sub(before);
    assert!(grown < 8 * 1024, "memory does not grow with what is foreign: {grown} KiB");
    std::mem::forget(house);
    std::process::exit(77);
}

/// Listens to what happens to links and addresses, with `ip monitor`.
pub(crate) struct Monitor {
    child: std::process::Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Monitor {
    /// Listens when it returns.
    pub(crate) fn start() -> Self {
        use std::io::BufRead as _;
        let mut child = std::process::Command::new("ip")
            .args(["-o", "monitor", "link", "address"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = std::io::BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).for_each(|line| sender.send(line).unwrap_or_default());
        });
        let mut monitor = Self { child, lines };
        let mut heard = false;
        wait_for("the monitor listens", || {
            sh("ip addr add 127.9.9.9/32 dev lo");
            sh("ip addr del 127.9.9.9/32 dev lo");
            heard |= monitor.lines.try_iter().any(|line| line.contains("127.9.9.9"));
            heard
        });
        monitor.said();
        monitor
    }

    /// Everything that was heard until now, markers apart.
    pub(crate) fn said(&mut self) -> Vec<String> {
        sh("ip addr add 127.9.9.8/32 dev lo");
        sh("ip addr del 127.9.9.8/32 dev lo");
        let mut said = Vec::new();
        wait_for("the marker is heard", || {
            said.extend(self.lines.try_iter());
            said.iter().any(|line: &String| line.contains("Deleted") && line.contains("127.9.9.8"))
        });
        said.retain(|line| !line.contains("127.9.9."));
        said
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The memory of this process, in KiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
