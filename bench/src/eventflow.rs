//! The benchmark of EventFlow: the program against a real API server, a JSON line per step.
//!
//! `bench-eventflow --program PATH --flows 1000 --namespaces 100 --seconds 60`; `cargo xtask bench eventflow` runs it.
//! Steps: `set-up`, from flows that nobody keeps until all of them are ready; `rest`, a time in which nothing changes;
//! `restart`, until another run of the program has read everything; `teardown`, until all flows are gone. Requests are
//! those that the program counts; CPU time and memory are the program's own. This process acts as Knative.

#![expect(clippy::print_stdout, reason = "the result is the output")]

#[path = "../../crates/eventflow/tests/cluster/knative.rs"]
mod knative;
#[path = "../../crates/eventflow/tests/cluster/server.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "it is that of the tests, which use all of it")]
mod server;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use futures::StreamExt as _;
use kilter_eventflow::client::{Server, collection};
use kilter_eventflow::names;
use kilter_eventflow::object::{Object, Resource};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::server::{Cluster, JSON};

/// How long a step may take.
const PATIENCE: Duration = Duration::from_secs(900);

/// How many objects are made or removed at the same time.
const AT_ONCE: usize = 16;

const INTEGRATION: &str = "integration";

struct Arguments {
    program: PathBuf,
    flows: usize,
    namespaces: usize,
    rest: Duration,
}

fn arguments() -> anyhow::Result<Arguments> {
    let program = PathBuf::from("target/release/kilter");
    let mut found = Arguments { program, flows: 1000, namespaces: 100, rest: Duration::from_secs(60) };
    let mut list = std::env::args().skip(1);
    while let Some(argument) = list.next() {
        let value = list.next().with_context(|| format!("{argument} needs a value"))?;
        let number = || value.parse::<usize>().with_context(|| format!("{argument} needs a number"));
        match argument.as_str() {
            "--program" => found.program = PathBuf::from(&value),
            "--flows" => found.flows = number()?,
            "--namespaces" => found.namespaces = number()?,
            "--seconds" => found.rest = Duration::from_secs(number()? as u64),
            other => {
                bail!("unknown argument `{other}`; known are --program, --flows, --namespaces and --seconds")
            }
        }
    }
    ensure!(found.flows > 0 && found.namespaces > 0, "there must be a flow and a namespace");
    Ok(found)
}

/// The program while it keeps the flows of the cluster.
struct Program {
    child: Child,
    address: SocketAddr,
}

impl Drop for Program {
    fn drop(&mut self) {
        // Ended already, as a rule.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn start(program: &Path, kubeconfig: &Path) -> anyhow::Result<Self> {
        let free = std::net::TcpListener::bind("127.0.0.1:0").context("find a free port")?;
        let address = free.local_addr().context("find a free port")?;
        drop(free);
        let child = Command::new(program)
            .args(["eventflow", "run", "--integration", INTEGRATION, "--listen", &address.to_string()])
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        Ok(Self { child, address })
    }

    /// What it answers at a path; `None` if it does not answer well.
    async fn ask(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(answer)
    }

    /// A number that it counts, by label.
    async fn counted(&self, name: &str) -> anyhow::Result<BTreeMap<String, u64>> {
        let text = self.ask("/metrics").await.context("ask for the numbers")?;
        let line = |line: &str| {
            let (label, number) = line.strip_prefix(name)?.rsplit_once(' ')?;
            Some((label.split('"').nth(1)?.to_owned(), number.parse().ok()?))
        };
        Ok(text.lines().filter_map(line).collect())
    }

    async fn requests(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        self.counted("kilter_eventflow_requests_total").await
    }

    /// CPU time in milliseconds, and memory in KiB: at present and at most.
    fn usage(&self) -> anyhow::Result<(u64, u64, u64)> {
        let folder = PathBuf::from(format!("/proc/{}", self.child.id()));
        let stat = std::fs::read_to_string(folder.join("stat")).context("read its CPU time")?;
        let fields: Vec<&str> =
            stat.rsplit_once(')').context("a name in stat")?.1.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|it| it.parse::<u64>().ok()).context("ticks in stat");
        let status = std::fs::read_to_string(folder.join("status")).context("read its memory")?;
        let kb = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
                .context("memory in status")
        };
        // A tick is a hundredth of a second.
        Ok(((ticks(11)? + ticks(12)?) * 10, kb("VmRSS:")?, kb("VmHWM:")?))
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> anyhow::Result<bool>) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    while !holds().await? {
        ensure!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(begun.elapsed())
}

/// Sends many requests, several at a time.
async fn all(server: &Server, calls: Vec<(&'static str, String, Option<Json>)>) -> anyhow::Result<()> {
    let sent = futures::stream::iter(calls).map(|(method, path, body)| async move {
        let answer = server.call(method, &path, JSON, body.as_ref()).await;
        answer.map(drop).with_context(|| format!("{method} {path}"))
    });
    let ended: Vec<anyhow::Result<()>> = sent.buffer_unordered(AT_ONCE).collect().await;
    ended.into_iter().collect()
}

fn namespace(number: usize) -> String {
    format!("shop-{number}")
}

/// Namespaces, one source, and flows from it in equal shares.
async fn declare(server: &Server, arguments: &Arguments) -> anyhow::Result<()> {
    let named =
        |name: String| ("POST", "/api/v1/namespaces".to_owned(), Some(json!({"metadata": {"name": name}})));
    let spaces = (0..arguments.namespaces).map(namespace).chain([INTEGRATION.to_owned()]);
    all(server, spaces.map(named).collect()).await?;
    let body = |resource: Resource, meta: Json| {
        let body = json!({"apiVersion": resource.api_version(), "kind": resource.kind(), "metadata": meta});
        ("POST", collection(resource, INTEGRATION), Some(body))
    };
    let channel = json!({"name": "crm-channel", "labels": {names::APPLICATION_LABEL: "crm"}});
    let source = body(Resource::Source, json!({"name": "crm"}));
    all(server, vec![source, body(Resource::Channel, channel)]).await?;
    let place = format!("{}/crm", collection(Resource::Source, INTEGRATION));
    let found = server.call("GET", &place, JSON, None).await.context("read the source")?;
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    knative::set_status(server, &Object::new(Resource::Source, found), ready).await;
    let flow = |number: usize| {
        let resource = Resource::EventFlow;
        let body = json!({
            "apiVersion": resource.api_version(),
            "kind": resource.kind(),
            "metadata": {"name": format!("flow-{number}")},
            "spec": {"source": "crm"},
        });
        ("POST", collection(resource, &namespace(number % arguments.namespaces)), Some(body))
    };
    all(server, (0..arguments.flows).map(flow).collect()).await
}

/// A file with which a program finds the cluster.
fn kubeconfig(folder: &Path, cluster: &Cluster) -> anyhow::Result<PathBuf> {
    let address = format!("https://127.0.0.1:{}", cluster.port);
    let file = folder.join("kubeconfig");
    let text = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": address, "insecure-skip-tls-verify": true}}],
        "users": [{"name": "bench", "user": {"token": server::TOKEN}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    });
    std::fs::write(&file, text.to_string()).context("write a kubeconfig")?;
    Ok(file)
}

/// What a step cost, as a line.
fn line(
    step: &str,
    arguments: &Arguments,
    before: &Program,
    took: Duration,
    counts: (u64, u64),
    cpu: u64,
) -> anyhow::Result<()> {
    let (_, rss, peak) = before.usage()?;
    let (writes, reads) = counts;
    let per_flow = writes as f64 / arguments.flows as f64;
    println!(
        "{}",
        json!({
            "step": step, "flows": arguments.flows, "namespaces": arguments.namespaces,
            "wall_ms": took.as_millis() as u64, "cpu_ms": cpu, "rss_kb": rss, "peak_kb": peak,
            "writes": writes, "writes_per_flow": (per_flow * 100.0).round() / 100.0, "reads": reads,
        })
    );
    Ok(())
}

/// Writes and reads since an earlier count.
fn since(now: &BTreeMap<String, u64>, then: &BTreeMap<String, u64>) -> (u64, u64) {
    let more = |verb: &String| now.get(verb).copied().unwrap_or(0) - then.get(verb).copied().unwrap_or(0);
    let is_read = |verb: &&String| ["read", "list", "watch", "lease"].contains(&verb.as_str());
    let reads = now.keys().filter(is_read).map(more).sum();
    (now.keys().filter(|verb| !is_read(verb)).map(more).sum(), reads)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments = arguments()?;
    let cluster = Cluster::open().await;
    let _knative = knative::act(cluster.again());
    let server = cluster.again();
    let place = tempfile::tempdir().context("make a folder")?;
    let kubeconfig = kubeconfig(place.path(), &cluster)?;
    declare(&server, &arguments).await?;

    let program = Program::start(&arguments.program, &kubeconfig)?;
    let ready = async || {
        let flows = program.counted("kilter_eventflow_flows").await.unwrap_or_default();
        Ok(flows.get("True").copied() == Some(arguments.flows as u64))
    };
    let took = until("every flow is ready", ready).await?;
    let (mut requests, mut cpu) = (program.requests().await?, program.usage()?.0);
    line("set-up", &arguments, &program, took, since(&requests, &BTreeMap::new()), cpu)?;

    tokio::time::sleep(arguments.rest).await;
    let (after, used) = (program.requests().await?, program.usage()?.0);
    line("rest", &arguments, &program, arguments.rest, since(&after, &requests), used - cpu)?;
    drop(program);

    let program = Program::start(&arguments.program, &kubeconfig)?;
    let took = until("everything is read", async || Ok(program.ask("/healthz").await.is_some())).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    (requests, cpu) = (program.requests().await?, program.usage()?.0);
    line("restart", &arguments, &program, took, since(&requests, &BTreeMap::new()), cpu)?;

    let flows = cluster.items(Resource::EventFlow).await;
    let place = |flow: &Object| {
        format!("{}/{}", collection(Resource::EventFlow, &flow.id().namespace), flow.id().name)
    };
    let begun = Instant::now();
    all(&server, flows.iter().map(|flow| ("DELETE", place(flow), None)).collect()).await?;
    until("every flow is gone", async || Ok(cluster.items(Resource::EventFlow).await.is_empty())).await?;
    let (after, used) = (program.requests().await?, program.usage()?.0);
    line("teardown", &arguments, &program, begun.elapsed(), since(&after, &requests), used - cpu)?;
    let left =
        cluster.items(Resource::Broker).await.len() + cluster.items(Resource::Subscription).await.len();
    ensure!(left == 0, "{left} objects are left");
    Ok(())
}
