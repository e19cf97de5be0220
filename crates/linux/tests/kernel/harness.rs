//! A house for a test: scheduler, driver and southbound in a fresh namespace, and the tools to look at it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kilter_linux::{Counts, Linux, Settings, sandbox};
use kilter_model::document::{Declared, Source, read};
use kilter_model::kinds::descriptors;
use kilter_scheduler::{Change, Outcome, Record, Resync, Scheduler, State, Txn};
use kilter_southbound::{Actuators, Cancel, Driver, Settings as DriverSettings, SystemClock};

static HOUSES: AtomicU32 = AtomicU32::new(0);

/// Scheduler, driver and southbound over a host of its own.
pub(crate) struct House {
    pub(crate) scheduler: Scheduler,
    pub(crate) driver: Driver,
    pub(crate) linux: Linux,
    pub(crate) runtime: Arc<tokio::runtime::Runtime>,
    pub(crate) folder: PathBuf,
}

/// The items of a document.
pub(crate) fn items(text: &str) -> Vec<Change> {
    let declared = read(&[Source::new("test.yaml", text)]).unwrap_or_else(|problems| panic!("{problems}"));
    declared.iter().map(Declared::change).collect()
}

/// The same items, to be removed.
pub(crate) fn removal(changes: &[Change]) -> Vec<Change> {
    changes.iter().map(|change| Change::remove(change.key.clone())).collect()
}

impl House {
    /// A house in a fresh network namespace, which becomes that of the calling thread.
    pub(crate) fn new() -> Self {
        sandbox::enter_fresh_namespace().expect("root, or a user namespace of our own");
        let number = HOUSES.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("kilter-netns-{}-{number}", std::process::id()));
        Self::over(&folder)
    }

    /// A house in the namespace of the calling thread: an agent that is started again.
    pub(crate) fn over(folder: &Path) -> Self {
        Self::set(Settings { netns_dir: folder.to_owned(), ..Settings::default() })
    }

    /// The same with settings of its own.
    pub(crate) fn set(settings: Settings) -> Self {
        let folder = settings.netns_dir.clone();
        let linux = Linux::new(settings).unwrap();
        let mut actuators = Actuators::new();
        linux.add_to(&mut actuators).unwrap();
        Self::with(&folder, linux, actuators)
    }

    pub(crate) fn with(folder: &Path, linux: Linux, actuators: Actuators) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut scheduler = Scheduler::default();
        for descriptor in descriptors().unwrap() {
            scheduler.register(descriptor).unwrap();
        }
        // A busy machine may take long for hundreds of namespaces; how long is not what these tests are about.
        let patient = Duration::from_secs(300);
        let settings =
            DriverSettings { op_deadline: patient, retrieve_deadline: patient, ..Default::default() };
        let driver = Driver::new(actuators, settings);
        Self { scheduler, driver, linux, runtime: Arc::new(runtime), folder: folder.to_owned() }
    }

    pub(crate) fn run(&mut self, txn: Txn) -> Arc<Record> {
        let (cancel, mut nobody) = (Cancel::new(), ());
        let ending = self.driver.run(&mut self.scheduler, txn, &SystemClock, &mut nobody, &cancel);
        self.runtime.block_on(ending).record().expect("nobody stops it")
    }

    /// Performs a transaction that must succeed, and looks whether the world is as believed.
    pub(crate) fn commit(&mut self, changes: Vec<Change>) -> Arc<Record> {
        let record = self.run(Txn::all_or_nothing(changes));
        assert!(
            matches!(record.outcome, Outcome::Applied | Outcome::AppliedWithPending),
            "{:?}\n{}",
            record.outcome,
            steps(&record)
        );
        self.verify(&record);
        record
    }

    /// Looks whether the world is as the scheduler believes after a transaction.
    pub(crate) fn verify(&self, record: &Record) {
        let verification = self.runtime.block_on(self.driver.verify(&self.scheduler, record));
        // A loopback and a link of others are there whatever anybody says.
        let differs = |key: &str| !key.ends_with("/lo") && !key.starts_with("linux/existing/");
        let clean = verification.differences.iter().all(|difference| !differs(difference.key.as_str()));
        assert!(clean && verification.unreadable.is_empty(), "{verification:#?}\n{}", steps(record));
    }

    pub(crate) fn apply(&mut self, text: &str) -> Arc<Record> {
        self.commit(items(text))
    }

    /// Reads everything and declares these items and nothing else.
    pub(crate) fn resync(&mut self, text: &str) -> Arc<Record> {
        self.run(Txn::resync(Resync::Full(items(text))))
    }

    pub(crate) fn state(&self, key: &str) -> State {
        self.scheduler.status(key).state
    }

    pub(crate) fn assert_state(&self, key: &str, state: State) {
        assert_eq!(self.state(key), state, "{key}: {:?}", self.scheduler.status(key));
    }

    pub(crate) fn counts(&self) -> Counts {
        self.linux.counts()
    }

    /// What a piece of work writes.
    pub(crate) fn writes(&mut self, work: impl FnOnce(&mut Self)) -> u64 {
        let before = self.counts().writes;
        work(self);
        self.counts().writes - before
    }

    /// Runs `ip`, or whatever is named first, in the host of the house.
    pub(crate) fn sh(&self, line: &str) -> String {
        sh(line)
    }

    /// Runs a command in one of the namespaces of the house.
    pub(crate) fn sh_in(&self, netns: &str, line: &str) -> String {
        let path = self.folder.join(netns);
        sh(&format!("nsenter --net={} {line}", path.display()))
    }

    /// Everything there is, as text.
    pub(crate) fn dump(&self) -> String {
        let mut text = dump_with(sh);
        let mut names: Vec<String> = std::fs::read_dir(&self.folder)
            .map(|entries| entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
            .unwrap_or_default();
        names.sort();
        for name in names {
            text.push_str(&format!("== {name}\n"));
            text.push_str(&dump_with(|line| self.sh_in(&name, line)));
        }
        text
    }
}

impl Drop for House {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let _ = Command::new("umount").arg("-l").arg(entry.path()).output();
            let _ = std::fs::remove_file(entry.path());
        }
        let _ = std::fs::remove_dir(&self.folder);
    }
}

fn dump_with(run: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    for line in [
        "ip -d link",
        "ip addr",
        "ip route show table all",
        "ip -6 route show table all",
        "ip rule",
        "ip -6 rule",
        "ip neigh show nud permanent",
        "ip neigh show proxy",
        "ip -6 neigh show proxy",
        "nft list ruleset",
        "sysctl -e net.ipv4.ip_forward net.ipv4.conf.all.rp_filter net.ipv4.conf.all.arp_ignore",
    ] {
        text.push_str(&calm(&run(line)));
    }
    // The kernel has entries of its own, for addresses that it makes up.
    let declared = |line: &&str| line.contains("02:00:00:00:00:");
    text.extend(run("bridge fdb").lines().filter(declared).map(settled));
    // What a link gets for a queue by itself comes and goes with its being up.
    let by_itself = |line: &&str| line.contains("noqueue") || line.contains("qdisc pfifo_fast");
    text.extend(run("tc qdisc").lines().filter(|line| !by_itself(line)).map(settled));
    text
}

/// What the kernel does by itself after a link is up: link-local addresses, the routes to groups, and those to addresses
/// whose search for duplicates is over.
fn is_weather(line: &str) -> bool {
    ["fe80:", "ff00::/8", "multicast ff", "127.0.0.", "table local proto kernel"]
        .iter()
        .any(|word| line.contains(word))
        || line.trim_start().starts_with("valid_lft")
}

/// Text without what comes by itself, and without what settles after a while.
pub(crate) fn calm(text: &str) -> String {
    text.lines().filter(|line| !is_weather(line)).map(settled).collect()
}

/// A line without what settles after a while: carriers, and the search for duplicate addresses.
fn settled(line: &str) -> String {
    let mut words: Vec<&str> = line.split_whitespace().filter(|word| *word != "tentative").collect();
    if let Some(at) = words.iter().position(|word| *word == "state") {
        words.drain(at..words.len().min(at + 2));
    }
    // Clocks of a bridge, the sizes that it takes over from its ports, and what a link gets for a queue by itself.
    let is_passing = |word: &&str| word.ends_with("_timer") || ["tso_max_size", "expires"].contains(word);
    while let Some(at) = words.iter().position(is_passing) {
        words.drain(at..words.len().min(at + 2));
    }
    words.retain(|word| !["qdisc", "noqueue", "noop", "pfifo_fast", "linkdown"].contains(word));
    let flags = |word: &str| {
        let up = word.trim_matches(['<', '>']).split(',').any(|flag| flag == "UP");
        if word.starts_with('<') { if up { "<UP>" } else { "<>" }.to_owned() } else { word.to_owned() }
    };
    let mut line = words.into_iter().map(flags).collect::<Vec<_>>().join(" ");
    line.push('\n');
    line
}

/// A process that does nothing until it is dropped.
pub(crate) struct Sleeper(std::process::Child);

impl Sleeper {
    pub(crate) fn start(words: &[&str]) -> Self {
        Self(Command::new(words[0]).args(&words[1..]).spawn().unwrap())
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command and gives its output; a failure is one of the test.
pub(crate) fn sh(line: &str) -> String {
    let (output, success) = try_sh(line);
    assert!(success, "`{line}`: {output}");
    output
}

pub(crate) fn try_sh(line: &str) -> (String, bool) {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        text.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    (text, output.status.success())
}

/// The steps of a transaction, one per line.
pub(crate) fn steps(record: &Record) -> String {
    let line = |step: &kilter_scheduler::Step| {
        format!("{:<8} {:<40} → {}\n", step.action.name(), step.key, step.after.state)
    };
    record.steps().iter().map(line).collect()
}

/// Whether this text can be applied: in a user namespace in which there is only root, nothing can be another user's.
pub(crate) fn knows_users_of(text: &str) -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    let count: u64 = map.split_whitespace().last().unwrap().parse().unwrap();
    let knows = count > 1 || !["owner", "users:"].iter().any(|word| text.contains(word));
    if !knows {
        println!("there are no users here for `{text}`");
    }
    knows
}

/// Waits for a condition.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(180);
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(5)); // until the deadline
    }
}

/// A dump without the numbers of links and the addresses they make up: a link that is made again has others.
pub(crate) fn unnumbered_links(dump: &str) -> String {
    let without = |line: &str| match line.split_once(": ") {
        Some((number, rest)) if number.parse::<u32>().is_ok() => rest.to_owned(),
        _ => line.to_owned(),
    };
    let mut lines: Vec<String> =
        dump.lines().map(without).filter(|line| !line.contains("link/ether")).collect();
    lines.sort();
    lines.join("\n")
}

/// Two dumps are the same; says which lines are not.
pub(crate) fn assert_same(now: &str, before: &str) {
    let only = |one: &str, other: &str| -> Vec<String> {
        let mut others: Vec<&str> = other.lines().collect();
        let is_more = |line: &&str| match others.iter().position(|other| other == line) {
            Some(at) => {
                others.swap_remove(at);
                false
            }
            None => true,
        };
        one.lines().filter(is_more).map(str::to_owned).collect()
    };
    // The kernel lists some tables in the order in which things came.
    let (more, less) = (only(now, before), only(before, now));
    assert!(more.is_empty() && less.is_empty(), "only now: {more:#?}\nonly before: {less:#?}");
}
