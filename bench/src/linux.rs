//! The benchmark of the Linux southbound: one tool doing one work of one size, a JSON line per step.
//!
//! `bench-linux --work ports|routes --n 1000 --tool kilter|ip-batch|raw [--no-ipv6]`; `cargo xtask bench linux` runs the
//! tools one process each, in a network namespace of their own. CPU time and peak memory are those of the whole
//! process, and for `ip -batch` those of the program it starts.
//!
//! Steps: `create`; `unchanged`, the same once more: a full resync, which reads the tables of every kind and compares them
//! with what is declared, against the dump that this needs at least; `one-more`; `delete`. What changes nothing is measured
//! several times, and the middle one is told. Three more of `kilter` alone: `dump`, the bare dump between one such resync
//! and the next, whose tables are then as far from the processor as for the resync itself; `unchanged-first`, the first such
//! resync after the creation, which has to decode every row; `unchanged-trusted`, an upstream resync as a running agent
//! does it, which trusts what it was told by the kernel it watches and reads nothing.

#![expect(clippy::print_stdout, reason = "the result is the output")]

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use kilter_linux::raw::{Raw, peak_of_children};
use kilter_linux::{Linux, Settings, sandbox};
use kilter_model::document::{Declared, Source, read};
use kilter_scheduler::{Change, Limits, Outcome, Resync, Scheduler, Txn};
use kilter_southbound::{Actuators, Cancel, Driver, SystemClock};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// How often what changes nothing is measured.
const TIMES: usize = 25;

#[derive(Clone, Copy, PartialEq)]
enum Work {
    Ports,
    Routes,
}

struct Arguments {
    work: Work,
    n: u32,
    tool: String,
    ipv6: bool,
}

fn arguments() -> anyhow::Result<Arguments> {
    let mut found = Arguments { work: Work::Routes, n: 1000, tool: "kilter".to_owned(), ipv6: true };
    let mut list = std::env::args().skip(1);
    while let Some(argument) = list.next() {
        let mut value = || list.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--work" => {
                found.work = match value()?.as_str() {
                    "ports" => Work::Ports,
                    "routes" => Work::Routes,
                    other => bail!("unknown work `{other}`; known are ports and routes"),
                }
            }
            "--n" => found.n = value()?.parse().context("--n needs a number")?,
            "--tool" => found.tool = value()?,
            "--no-ipv6" => found.ipv6 = false,
            other => bail!("unknown argument `{other}`; known are --work, --n, --tool, --no-ipv6"),
        }
    }
    Ok(found)
}

/// What a step cost.
struct Cost {
    cpu: Duration,
    wall: Duration,
    writes: u64,
}

fn report(arguments: &Arguments, step: &str, cost: &Cost) -> anyhow::Result<()> {
    let peak = if arguments.tool == "ip-batch" { peak_of_children()? } else { peak()? };
    println!(
        "{}",
        serde_json::json!({
            "bench": "linux",
            "work": if arguments.work == Work::Ports { "ports" } else { "routes" },
            "n": arguments.n,
            "step": step,
            "tool": arguments.tool,
            "ipv6": arguments.ipv6,
            "cpu_ms": cost.cpu.as_secs_f64() * 1e3,
            "wall_ms": cost.wall.as_secs_f64() * 1e3,
            "writes": cost.writes,
            "peak_rss_kb": peak,
        })
    );
    Ok(())
}

/// The most memory that this process had, in KiB.
fn peak() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).context("VmHWM")?;
    Ok(line.split_whitespace().nth(1).context("VmHWM")?.parse()?)
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Measures work of this process that says how much it wrote.
fn measured(work: impl FnOnce() -> anyhow::Result<u64>) -> anyhow::Result<Cost> {
    let (cpu, wall) = (cpu_time(), Instant::now());
    let writes = work()?;
    Ok(Cost { cpu: cpu_time().saturating_sub(cpu), wall: wall.elapsed(), writes })
}

/// Of several measurements of the same, the middle one by CPU time.
fn middling(mut work: impl FnMut() -> anyhow::Result<Cost>) -> anyhow::Result<Cost> {
    (0..TIMES).map(|_| work()).collect::<anyhow::Result<Vec<Cost>>>().map(middle)
}

fn middle(mut costs: Vec<Cost>) -> Cost {
    costs.sort_by_key(|cost| cost.cpu);
    let at = costs.len() / 2;
    costs.swap_remove(at)
}

fn main() -> anyhow::Result<()> {
    let arguments = arguments()?;
    sandbox::enter_fresh_namespace().context("enter a network namespace; root is needed")?;
    if !arguments.ipv6 {
        for scope in ["all", "default"] {
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1")?;
        }
    }
    if arguments.ipv6 && arguments.work == Work::Ports {
        // Ports with link-local addresses flood each other for seconds, and whoever happens to run pays for it.
        std::fs::write("/proc/sys/net/ipv6/conf/default/addr_gen_mode", "1")?;
    }
    if arguments.work == Work::Routes && arguments.tool != "kilter" {
        ip(&[
            "link add ground type veth peer name far",
            "addr add 10.255.0.1/24 dev ground",
            "link set ground up",
            "link set far up",
        ])?;
    }
    match arguments.tool.as_str() {
        "kilter" => kilter(&arguments),
        "ip-batch" => ip_batch(&arguments),
        "raw" => raw(&arguments),
        other => bail!("unknown tool `{other}`; known are kilter, ip-batch, raw"),
    }
}

fn ip(lines: &[&str]) -> anyhow::Result<()> {
    for line in lines {
        let status = Command::new("ip").args(line.split(' ')).status().context("run ip")?;
        anyhow::ensure!(status.success(), "ip {line}");
    }
    Ok(())
}

/// The items of the work, from one number to another.
fn declared(work: Work, from: u32, to: u32) -> anyhow::Result<Vec<Change>> {
    let mut text = String::new();
    match work {
        Work::Ports => {
            if from == 0 {
                text.push_str("---\n{kind: bridge, name: br0}\n");
            }
            for at in from..to {
                let (high, low) = (at / 256, at % 256);
                write!(
                    text,
                    "---\n{{kind: veth, name: p{at}, peer: q{at}, master: br0}}\n---\n\
                     {{kind: veth, name: q{at}, peer: p{at}, addresses: [10.{high}.{low}.1/24]}}\n"
                )?;
            }
        }
        Work::Routes => {
            for at in from..to {
                let [_, a, b, c] = at.to_be_bytes();
                let a = 11 + a;
                writeln!(text, "---\n{{kind: route, destination: {a}.{b}.{c}.1/32, via: 10.255.0.9}}")?;
            }
        }
    }
    changes(&text)
}

fn changes(text: &str) -> anyhow::Result<Vec<Change>> {
    let declared = read(&[Source::new("bench", text)]).map_err(|problems| anyhow::anyhow!("{problems}"))?;
    Ok(declared.iter().map(Declared::change).collect())
}

fn kilter(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { work, n, .. } = *arguments;
    let linux = Linux::new(Settings {
        netns_dir: std::env::temp_dir().join("kilter-bench-none"),
        ..Settings::default()
    })?;
    let mut actuators = Actuators::new();
    linux.add_to(&mut actuators)?;
    let driver = Driver::new(actuators, kilter_southbound::Settings::default());
    let settings =
        kilter_scheduler::Settings { history: Limits::nothing(), ..kilter_scheduler::Settings::default() };
    let mut scheduler = Scheduler::new(settings);
    for descriptor in kilter_model::kinds::descriptors()? {
        scheduler.register(descriptor)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut apply = |txn: Txn| -> anyhow::Result<u64> {
        let before = linux.counts().writes;
        let (cancel, mut nobody) = (Cancel::new(), ());
        let ending = runtime.block_on(driver.run(&mut scheduler, txn, &SystemClock, &mut nobody, &cancel));
        let record = ending.record().context("nobody stops it")?;
        anyhow::ensure!(record.outcome == Outcome::Applied, "{:?}", record.outcome);
        Ok(linux.counts().writes - before)
    };
    let ground = if work == Work::Routes {
        changes(
            "{kind: veth, name: ground, peer: far, addresses: [10.255.0.1/24]}\n---\n{kind: veth, name: far, peer: ground}",
        )?
    } else {
        Vec::new()
    };
    apply(Txn::changes(ground.clone()))?;
    let all = declared(work, 0, n)?;
    let create = all.clone();
    report(arguments, "create", &measured(|| apply(Txn::changes(create)))?)?;
    let same = || -> Vec<Change> { ground.iter().cloned().chain(all.clone()).collect() };
    let resync = Resync::Full(same());
    report(arguments, "unchanged-first", &measured(|| apply(Txn::resync(resync)))?)?;
    let mut bare = Raw::open()?;
    let (mut resyncs, mut dumps) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let resync = Resync::Full(same());
        resyncs.push(measured(|| apply(Txn::resync(resync)))?);
        dumps.push(measured(|| Ok(bare.dump(work == Work::Routes)?))?);
    }
    report(arguments, "unchanged", &middle(resyncs))?;
    report(arguments, "dump", &middle(dumps))?;
    let trusted = middling(|| {
        let resync = Resync::Upstream(same());
        measured(|| apply(Txn::resync(resync)))
    });
    report(arguments, "unchanged-trusted", &trusted?)?;
    let more = declared(work, n, n + 1)?;
    let one = more.clone();
    report(arguments, "one-more", &measured(|| apply(Txn::changes(one)))?)?;
    let gone: Vec<Change> =
        all.iter().chain(&more).map(|change| Change::remove(change.key.clone())).collect();
    report(arguments, "delete", &measured(|| apply(Txn::changes(gone)))?)
}

fn raw(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { work, n, .. } = *arguments;
    let routes = work == Work::Routes;
    let mut raw = Raw::open()?;
    report(
        arguments,
        "create",
        &measured(|| Ok(if routes { raw.routes(0, n, true)? } else { raw.make_ports(0, n)? }))?,
    )?;
    report(arguments, "unchanged", &middling(|| measured(|| Ok(raw.dump(routes)?)))?)?;
    report(
        arguments,
        "one-more",
        &measured(|| Ok(if routes { raw.routes(n, n + 1, true)? } else { raw.make_ports(n, n + 1)? }))?,
    )?;
    report(
        arguments,
        "delete",
        &measured(|| Ok(if routes { raw.routes(0, n + 1, false)? } else { raw.remove_ports(n + 1)? }))?,
    )
}

fn ip_batch(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { work, n, .. } = *arguments;
    report(arguments, "create", &batch(&lines(work, 0, n, true)?)?)?;
    let show = match work {
        Work::Ports => "link show\naddr show\n",
        Work::Routes => "route show\n",
    };
    report(arguments, "unchanged", &Cost { writes: 0, ..middling(|| batch(show))? })?;
    report(arguments, "one-more", &batch(&lines(work, n, n + 1, true)?)?)?;
    report(arguments, "delete", &batch(&lines(work, 0, n + 1, false)?)?)
}

fn lines(work: Work, from: u32, to: u32, add: bool) -> anyhow::Result<String> {
    let mut text = String::new();
    match (work, add) {
        (Work::Ports, true) => {
            if from == 0 {
                text.push_str("link add br0 type bridge\n");
            }
            for at in from..to {
                writeln!(text, "link add p{at} type veth peer name q{at}")?;
            }
            for at in from..to {
                writeln!(text, "link set p{at} master br0")?;
            }
            for at in from..to {
                writeln!(text, "addr add 10.{}.{}.1/24 dev q{at}", at / 256, at % 256)?;
            }
            for at in from..to {
                writeln!(text, "link set p{at} up\nlink set q{at} up")?;
            }
            if from == 0 {
                text.push_str("link set br0 up\n");
            }
        }
        (Work::Ports, false) => {
            // One by one this takes minutes; the quickest that `ip` can do is a group.
            for at in from..to {
                writeln!(text, "link set p{at} group 77")?;
            }
            text.push_str("link set br0 group 77\nlink del group 77\n");
        }
        (Work::Routes, _) => {
            let verb = if add { "add" } else { "del" };
            for at in from..to {
                let [_, a, b, c] = at.to_be_bytes();
                writeln!(text, "route {verb} {}.{b}.{c}.1/32 via 10.255.0.9", 11 + a)?;
            }
        }
    }
    Ok(text)
}

/// Runs `ip -batch` over these lines.
fn batch(text: &str) -> anyhow::Result<Cost> {
    let file = std::env::temp_dir().join(format!("kilter-bench-{}", std::process::id()));
    std::fs::write(&file, text)?;
    let wall = Instant::now();
    let mut child =
        Command::new("ip").arg("-batch").arg(&file).stdout(Stdio::null()).spawn().context("run ip")?;
    let pid = Pid::from_child(&child);
    // Left unreaped for a moment, so that its clock can still be read.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let wall = wall.elapsed();
    let clock = std::fs::read_to_string(format!("/proc/{}/schedstat", child.id()))?;
    let nanos: u64 = clock.split_whitespace().next().context("schedstat")?.parse()?;
    let status = child.wait()?;
    std::fs::remove_file(&file)?;
    anyhow::ensure!(status.success(), "ip -batch");
    Ok(Cost { cpu: Duration::from_nanos(nanos), wall, writes: text.lines().count() as u64 })
}
