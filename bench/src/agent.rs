//! The benchmark of the agent: the program itself, in a sandbox of its own, a JSON line per step.
//!
//! `bench-agent --program PATH --n 10000`; `cargo xtask bench agent` runs it. Steps: `start`, until the service manager
//! would be told that it is ready; `idle`, memory and CPU of an agent that has nothing to do; `apply`, one item over the
//! socket and back; `list`, every item over the socket; `heal`, one route that somebody removes. First
//! with nothing declared, then with N routes declared and present. CPU time is that of the agent and all its threads.

#![expect(clippy::print_stdout, reason = "the result is the output")]

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use kilter_api::Client;
use kilter_api::v1::plan_request::What;
use kilter_api::v1::progress::What as Told;
use kilter_api::v1::{ApplyRequest, Declaration, DeclaredItem, ListItemsRequest, Outcome, PlanRequest};
use kilter_linux::sandbox;
use kilter_model::document::{Source, read};
use kilter_model::export;
use serde_json::json;
use tokio::runtime::Runtime;

/// How often an agent is started, an item applied, a route removed.
const STARTS: usize = 7;
const APPLIES: u32 = 300;
const HEALS: u32 = 50;

/// How long an idle agent is looked at.
const IDLE: Duration = Duration::from_secs(12);

/// What every route needs, and what makes room for the address of its gateway.
const GROUND: &str = "{kind: veth, name: ground, peer: far, addresses: [10.255.0.1/24]}\n---\n\
                      {kind: veth, name: far, peer: ground}\n";

struct Arguments {
    program: PathBuf,
    n: u32,
}

fn arguments() -> anyhow::Result<Arguments> {
    let mut found = Arguments { program: PathBuf::from("target/release/kilter"), n: 10_000 };
    let mut list = std::env::args().skip(1);
    while let Some(argument) = list.next() {
        let mut value = || list.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--program" => found.program = PathBuf::from(value()?),
            "--n" => found.n = value()?.parse().context("--n needs a number")?,
            other => bail!("unknown argument `{other}`; known are --program and --n"),
        }
    }
    Ok(found)
}

fn main() -> anyhow::Result<()> {
    let Arguments { program, n } = arguments()?;
    let program = program.canonicalize().with_context(|| format!("find {}", program.display()))?;
    sandbox::enter().context("enter a sandbox")?;
    let bench = Bench {
        program,
        folder: PathBuf::from("/run/bench"),
        runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
    };
    bench.starts("start", 0, true)?;
    let agent = bench.start()?.0;
    agent.idle("idle", 0)?;
    bench.declare("ground", GROUND)?;
    bench.applies(&agent, 0)?;
    let wall = Instant::now();
    bench.declare("routes", &routes(n)?)?;
    println!("{}", json!({"bench": "agent", "step": "declare", "n": n, "wall_ms": millis(wall.elapsed())}));
    agent.idle("idle", n)?;
    bench.applies(&agent, n)?;
    bench.heals(&agent, n)?;
    agent.end()?;
    bench.starts("start", n, false)?;
    let agent = bench.start()?.0;
    agent.idle("idle-after-start", n)?;
    agent.end()?;
    bench.declare_by_directory(n)?;
    bench.starts("start-directory", n, false)
}

/// The routes of the work.
fn routes(n: u32) -> anyhow::Result<String> {
    let mut text = String::new();
    for at in 0..n {
        writeln!(text, "---\n{{kind: route, destination: {}/32, via: 10.255.0.9}}", destination(at))?;
    }
    Ok(text)
}

fn destination(at: u32) -> String {
    let [_, a, b, c] = at.to_be_bytes();
    format!("{}.{b}.{c}.1", 11 + a)
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// The value below which so many per cent lie.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

struct Bench {
    program: PathBuf,
    folder: PathBuf,
    runtime: Runtime,
}

impl Bench {
    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// Starts the agent and waits until it says that it is ready.
    fn start(&self) -> anyhow::Result<(Agent, Duration)> {
        std::fs::create_dir_all(&self.folder)?;
        let settings = self.folder.join("settings");
        if !settings.exists() {
            std::fs::write(&settings, format!("state-directory = \"{}/state\"\n", self.folder.display()))?;
        }
        let notified = self.folder.join("notify");
        let _ = std::fs::remove_file(&notified);
        let manager = UnixDatagram::bind(&notified)?;
        manager.set_read_timeout(Some(Duration::from_secs(120)))?;
        let began = Instant::now();
        let child = Command::new(&self.program)
            .args(["agent", "--settings"])
            .arg(&settings)
            .arg("--socket")
            .arg(self.socket())
            .env("NOTIFY_SOCKET", &notified)
            .stdout(Stdio::null())
            .spawn()
            .context("start the agent")?;
        let mut buffer = [0; 256];
        let length = manager.recv(&mut buffer).context("wait until the agent is ready")?;
        let took = began.elapsed();
        ensure!(
            buffer[..length].starts_with(b"READY=1"),
            "the agent says something else than that it is ready"
        );
        Ok((Agent { child }, took))
    }

    /// How long it takes until the agent is ready, with what is kept, or with nothing.
    fn starts(&self, step: &str, n: u32, afresh: bool) -> anyhow::Result<()> {
        let mut took = Vec::new();
        let mut cpu = Vec::new();
        for _ in 0..STARTS {
            if afresh {
                let _ = std::fs::remove_dir_all(self.folder.join("state"));
            }
            let (agent, span) = self.start()?;
            took.push(millis(span));
            cpu.push(millis(agent.cpu()?));
            agent.end()?;
        }
        took.sort_by(f64::total_cmp);
        cpu.sort_by(f64::total_cmp);
        let (p50, max) = (percentile(&took, 50), percentile(&took, 100));
        let line = json!({
            "bench": "agent", "step": step, "n": n, "count": STARTS,
            "p50_ms": p50, "max_ms": max, "cpu_ms": percentile(&cpu, 50),
        });
        println!("{line}");
        Ok(())
    }

    async fn client(&self) -> anyhow::Result<Client> {
        Ok(kilter_api::client::connect(&self.socket()).await?)
    }

    /// Declares a document under a name.
    fn declare(&self, source: &str, text: &str) -> anyhow::Result<()> {
        let declaration = declaration(source, text)?;
        self.runtime.block_on(async { apply(&mut self.client().await?, declaration).await })
    }

    /// How long one item takes, from the request to the answer: a route that comes and goes.
    fn applies(&self, agent: &Agent, n: u32) -> anyhow::Result<()> {
        let route = "{kind: route, destination: 198.51.100.1/32, via: 10.255.0.9}\n";
        let comes = declaration("one", route)?;
        let goes = Declaration { items: Vec::new(), everything: true, ..comes.clone() };
        let mut took = Vec::new();
        let before = agent.cpu()?;
        self.runtime.block_on(async {
            let mut client = self.client().await?;
            for at in 0..APPLIES {
                let declaration = if at % 2 == 0 { comes.clone() } else { goes.clone() };
                let began = Instant::now();
                apply(&mut client, declaration).await?;
                took.push(millis(began.elapsed()));
            }
            anyhow::Ok(())
        })?;
        let cpu = millis(agent.cpu()?.saturating_sub(before)) / f64::from(APPLIES);
        took.sort_by(f64::total_cmp);
        let line = json!({
            "bench": "agent", "step": "apply", "n": n, "count": APPLIES,
            "p50_ms": percentile(&took, 50), "p99_ms": percentile(&took, 99), "cpu_ms": cpu,
        });
        println!("{line}");
        self.list(n)
    }

    /// How long a list of everything takes.
    fn list(&self, n: u32) -> anyhow::Result<()> {
        let began = Instant::now();
        let items = self.runtime.block_on(async {
            let mut client = self.client().await?;
            let reply = client.list_items(ListItemsRequest::default()).await?;
            anyhow::Ok(reply.into_inner().items.len())
        })?;
        let wall = millis(began.elapsed());
        println!("{}", json!({"bench": "agent", "step": "list", "n": n, "items": items, "wall_ms": wall}));
        Ok(())
    }

    /// What it costs to put back a route that somebody removes, and how long it takes.
    fn heals(&self, agent: &Agent, n: u32) -> anyhow::Result<()> {
        let monitor = Monitor::start()?;
        let before = agent.cpu()?;
        let mut took = Vec::new();
        for at in 0..HEALS.min(n) {
            let route = destination(at * (n / HEALS.min(n)));
            ip(&["route", "del", &route])?;
            let gone = monitor.wait_for(&format!("Deleted {route} "))?;
            let back = monitor.wait_for(&format!("{route} "))?;
            took.push(millis(back.duration_since(gone)));
        }
        let cpu = millis(agent.cpu()?.saturating_sub(before)) / took.len() as f64;
        took.sort_by(f64::total_cmp);
        let line = json!({
            "bench": "agent", "step": "heal", "n": n, "count": took.len(),
            "p50_ms": percentile(&took, 50), "p99_ms": percentile(&took, 99), "cpu_ms": cpu,
        });
        println!("{line}");
        Ok(())
    }

    /// The same items once more, by a directory and without anything kept.
    fn declare_by_directory(&self, n: u32) -> anyhow::Result<()> {
        let (state, site) = (self.folder.join("state"), self.folder.join("site"));
        std::fs::remove_dir_all(&state)?;
        std::fs::create_dir_all(&site)?;
        std::fs::write(site.join("site.yaml"), format!("{GROUND}{}", routes(n)?))?;
        let directory = format!("[[directory]]\nname = \"site\"\npath = \"{}\"\n", site.display());
        let settings = format!("state-directory = \"{}\"\n{directory}", state.display());
        std::fs::write(self.folder.join("settings"), settings)?;
        self.start()?.0.end()
    }
}

fn declaration(source: &str, text: &str) -> anyhow::Result<Declaration> {
    let declared = read(&[Source::new("bench", text)]).map_err(|problems| anyhow::anyhow!("{problems}"))?;
    let item = |one: &kilter_model::document::Declared| DeclaredItem {
        key: one.key.to_string(),
        kind: one.kind.to_string(),
        value: export::to_json(&one.value).unwrap_or_default().to_string(),
        place: None,
    };
    let items = declared.iter().map(item).collect();
    Ok(Declaration { source: source.to_owned(), items, removed: Vec::new(), everything: true })
}

async fn apply(client: &mut Client, declaration: Declaration) -> anyhow::Result<()> {
    let request = PlanRequest { what: Some(What::Declaration(declaration)), ..PlanRequest::default() };
    let request = ApplyRequest { request: Some(request), ..ApplyRequest::default() };
    let mut told = client.apply(request).await?.into_inner();
    while let Some(progress) = told.message().await? {
        if let Some(Told::Ended(ended)) = progress.what {
            let outcome = ended.transaction.as_ref().map(|transaction| transaction.outcome());
            ensure!(matches!(outcome, None | Some(Outcome::Applied)), "{outcome:?}");
            return Ok(());
        }
    }
    bail!("the agent stopped telling")
}

/// A running agent.
struct Agent {
    child: Child,
}

impl Agent {
    /// The CPU time of every thread so far.
    fn cpu(&self) -> anyhow::Result<Duration> {
        let mut nanos = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let clock = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let spent: u64 = clock.split_whitespace().next().context("schedstat")?.parse()?;
            nanos += spent;
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// What the agent costs when there is nothing to do.
    fn idle(&self, step: &str, n: u32) -> anyhow::Result<()> {
        let before = self.cpu()?;
        std::thread::sleep(IDLE);
        let cpu = millis(self.cpu()?.saturating_sub(before)) * 60.0 / IDLE.as_secs_f64();
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let number = |name: &str| -> anyhow::Result<u64> {
            let line = status.lines().find(|line| line.starts_with(name)).context("a line of the status")?;
            Ok(line.split_whitespace().nth(1).context("a number")?.parse()?)
        };
        let (rss, peak) = (number("VmRSS:")?, number("VmHWM:")?);
        let line = json!({
            "bench": "agent", "step": step, "n": n,
            "rss_kb": rss, "peak_rss_kb": peak, "cpu_ms_per_minute": cpu,
        });
        println!("{line}");
        Ok(())
    }

    fn end(mut self) -> anyhow::Result<()> {
        let status = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status()?;
        ensure!(status.success(), "tell the agent to end");
        ensure!(self.child.wait()?.success(), "the agent ends well");
        Ok(())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Ended already, as a rule.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the kernel tells about routes.
struct Monitor {
    child: Child,
    lines: Receiver<String>,
}

impl Monitor {
    /// Starts to listen; ends when something was heard.
    fn start() -> anyhow::Result<Self> {
        let mut listener = Command::new("ip");
        listener.args(["-4", "monitor", "route"]).stdout(Stdio::piped());
        let mut child = listener.spawn().context("run ip")?;
        let told = BufReader::new(child.stdout.take().context("the output of ip")?);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            told.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)).unwrap_or_default();
        });
        let monitor = Self { child, lines };
        loop {
            ip(&["route", "add", "blackhole", "203.0.113.1"])?;
            ip(&["route", "del", "blackhole", "203.0.113.1"])?;
            match monitor.lines.recv_timeout(Duration::from_millis(100)) {
                Ok(_) => return Ok(monitor),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("ip does not monitor"),
            }
        }
    }

    /// Waits for a line that begins so, and says when it came.
    fn wait_for(&self, start: &str) -> anyhow::Result<Instant> {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(60)).context("wait for a route")?;
            if line.starts_with(start) {
                return Ok(Instant::now());
            }
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("ip").args(arguments).status().context("run ip")?;
    ensure!(status.success(), "ip {}", arguments.join(" "));
    Ok(())
}
