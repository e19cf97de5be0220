//! The northbound's benchmark: one case, printed as one JSON line.
//!
//! `bench-northbound --case a --n 5000`; `cargo xtask bench northbound` runs the cases one process each. The agent acts on
//! the fake world, so that what is measured is the way there: a) the picture of a graph of n vertices; b) reading one
//! item, c) planning one, d) applying one, each n times; e) what n/10 watchers cost the loop; f) a watcher that does not
//! read while n changes go by, ten thousand a second: `--n 600000` is a minute; g) as d, of an agent that keeps a state
//! directory and audit records.

#![expect(clippy::print_stdout, reason = "the result is the output")]

mod meter;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use kilter_agent::SteadyClock;
use kilter_agent::desk::{Changing, Declaration, Desk, Options, Put};
use kilter_agent::drift::Attention;
use kilter_agent::drive::{Agent, Stop};
use kilter_agent::keep::{Codec, Keep, Settings as KeepSettings};
use kilter_agent::northbound::audit::Audit;
use kilter_agent::northbound::door::{AccessSettings, Role, TokenRule};
use kilter_agent::northbound::{self, Listeners, Settings};
use kilter_api::render::looks::Drawing;
use kilter_api::render::svg::svg;
use kilter_api::v1::{Edge, EdgeType, Graph, State, Vertex};
use kilter_events::builtin::DatabaseResync;
use kilter_events::{Event, EventLoop, Parts};
use kilter_scheduler::{Key, Scheduler};
use kilter_southbound::{Clock as _, Driver};
use kilter_testkit::attrs::Attrs;
use kilter_testkit::hand::Hand;
use meter::Meter;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TOKEN: &str = "bench";

/// How many connections ask at once.
const CLIENTS: usize = 8;

/// An agent on a thread of its own, served on another.
struct Lab {
    desk: Desk,
    stop: Stop,
    address: SocketAddr,
    /// The thread that drives the loop.
    thread: i32,
    /// What is kept, if anything is; it goes with the lab.
    _folder: Option<tempfile::TempDir>,
}

impl Lab {
    fn start() -> anyhow::Result<Self> {
        Self::start_in(None)
    }

    /// An agent that keeps a state directory and audit records.
    fn start_keeping() -> anyhow::Result<Self> {
        Self::start_in(Some(tempfile::tempdir()?))
    }

    fn start_in(folder: Option<tempfile::TempDir>) -> anyhow::Result<Self> {
        let place = folder.as_ref().map(|folder| folder.path().to_owned());
        let audit = place.as_ref().map(|place| Audit::open(&place.join("audit.log"))).transpose()?;
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime can be made");
            runtime.block_on(async move {
                let agent = agent(place.as_deref()).expect("the parts fit together");
                let thread = rustix::thread::gettid().as_raw_nonzero().get();
                let _ = sender.send((agent.desk(), agent.stop(), thread));
                agent.run(&mut ()).await;
            });
        });
        let (desk, stop, thread) = receiver.recv().context("the agent did not start")?;
        let token = blake3::hash(TOKEN.as_bytes()).to_string();
        let tokens = vec![TokenRule { name: "bench".to_owned(), role: Role::Operator, blake3: token }];
        let access = AccessSettings { tokens, ..AccessSettings::default() };
        let address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let settings = Settings { address, access, ..Settings::default() };
        let listeners = Listeners::of(&settings, Vec::new())?;
        let address = *listeners.addresses().first().context("nothing is listened to")?;
        let door = northbound::door(&settings)?;
        let serving = northbound::serve(listeners, door, audit.map(Arc::new), settings.limits, desk.clone())?;
        northbound::on_own_thread(serving)?;
        Ok(Self { desk, stop, address, thread, _folder: folder })
    }

    /// How long the thread that drives the loop has been on a processor.
    fn busy(&self) -> anyhow::Result<Duration> {
        let text = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", self.thread))?;
        let nanos = text.split_whitespace().next().context("the kernel counts no time")?;
        Ok(Duration::from_nanos(nanos.parse()?))
    }

    /// Applies one item through the desk, without the northbound.
    async fn apply(&self, key: &str, text: &str) -> anyhow::Result<()> {
        self.apply_all([key.to_owned()], text).await.map(drop)
    }

    /// Applies items through the desk, without the northbound; the number of the transaction.
    async fn apply_all(&self, keys: impl IntoIterator<Item = String>, text: &str) -> anyhow::Result<u64> {
        let changing = self.begin(keys, text).await?;
        Ok(changing.ended().await?.record.map_or(0, |record| record.seq))
    }

    /// Begins to apply items.
    async fn begin(&self, keys: impl IntoIterator<Item = String>, text: &str) -> anyhow::Result<Changing> {
        let value = Attrs::parse(text).map_err(|error| anyhow::anyhow!("{error:?}"))?.to_value();
        let puts = keys.into_iter().map(|key| Put { key: Key::new(key), value: value.clone(), place: None });
        let declaration = Declaration::patch("bench", puts.collect());
        Ok(self.desk.apply(declaration, Options::default()).await)
    }
}

/// How the values of the fake world are kept.
const CODEC: Codec = Codec {
    write: |value| value.to_json(),
    read: |_, json| {
        let attrs: Attrs = serde_json::from_value(json.clone()).map_err(|error| error.to_string())?;
        Ok(attrs.to_value())
    },
};

fn agent(place: Option<&Path>) -> anyhow::Result<Agent> {
    let clock = SteadyClock::start();
    let mut scheduler = Scheduler::default();
    let actuators = Hand::default().serve(&mut scheduler).map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let stopwatch = Box::new(|| Duration::ZERO);
    let parts = Parts { scheduler, handlers: Vec::new(), sources: Vec::new(), stopwatch };
    let events = EventLoop::new(kilter_events::Settings::default(), parts, clock.now())?;
    let driver = Driver::new(actuators, kilter_southbound::Settings::default());
    let attention = Attention::blind(events.producer());
    let mut agent = Agent::of(events, driver, clock, attention);
    if let Some(place) = place {
        let (keep, found) = Keep::open(place, &KeepSettings::default(), CODEC)?;
        agent = agent.keeping(keep);
        agent.begin(found, Vec::new())?;
        return Ok(agent);
    }
    agent.producer().push(Event::new(DatabaseResync::default()))?;
    Ok(agent)
}

/// A connection that asks again and again.
struct Client {
    stream: TcpStream,
    rest: Vec<u8>,
}

impl Client {
    async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, rest: Vec::new() })
    }

    /// Asks, and waits for a good answer.
    async fn ask(&mut self, method: &str, path: &str, body: &str) -> anyhow::Result<()> {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await?;
        loop {
            if let Some(end) = self.rest.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.rest[..end]).to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.context("an answer without a length")?.parse()?;
                if self.rest.len() >= end + 4 + length {
                    ensure!(head.starts_with("http/1.1 200"), "{}", String::from_utf8_lossy(&self.rest));
                    self.rest.drain(..end + 4 + length);
                    return Ok(());
                }
            }
            ensure!(self.stream.read_buf(&mut self.rest).await? > 0, "the connection has ended");
        }
    }
}

/// Asks n times over several connections: how long each took.
async fn load(
    lab: &Lab,
    n: usize,
    ask: impl Fn(usize) -> (&'static str, String, String),
) -> anyhow::Result<serde_json::Value> {
    let began = Instant::now();
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let asked: Vec<_> = (client..n).step_by(CLIENTS).map(&ask).collect();
        let address = lab.address;
        clients.push(tokio::spawn(async move {
            let mut client = Client::connect(address).await?;
            let mut took = Vec::with_capacity(asked.len());
            for (method, path, body) in asked {
                let began = Instant::now();
                client.ask(method, &path, &body).await?;
                took.push(began.elapsed());
            }
            anyhow::Ok(took)
        }));
    }
    let mut took = Vec::new();
    for client in clients {
        took.extend(client.await??);
    }
    let whole = began.elapsed();
    took.sort_unstable();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
    Ok(serde_json::json!({
        "clients": CLIENTS,
        "requests_per_second": n as f64 / whole.as_secs_f64(),
        "p50_us": at(0.5),
        "p99_us": at(0.99),
    }))
}

/// A graph like a network: links, two addresses derived from each, and a route on each.
fn graph(n: usize) -> Graph {
    let (mut vertices, mut edges) = (Vec::new(), Vec::new());
    for number in 0..n / 4 {
        let link = format!("linux/link/host/eth{number}");
        let vertex = |key: &str, kind: &str, base: &str| Vertex {
            key: key.to_owned(),
            kind: kind.to_owned(),
            state: State::Configured.into(),
            base: base.to_owned(),
            value: "{\"mtu\":1500,\"up\":true}".to_owned(),
        };
        vertices.push(vertex(&link, "linux.link", ""));
        for host in [1, 2] {
            let key = format!("linux/address/host/eth{number}/10.{}.{}.{host}", number / 256, number % 256);
            vertices.push(vertex(&key, "linux.address", &link));
            edges.push(Edge { from: key, to: link.clone(), edge_type: EdgeType::Derived.into(), met: true });
        }
        let key = format!("linux/route/host/10.{}.{}.0", number / 256, number % 256);
        vertices.push(vertex(&key, "linux.route", ""));
        edges.push(Edge { from: key, to: link, edge_type: EdgeType::Needs.into(), met: true });
    }
    Graph { after_txn: 1, vertices, edges }
}

fn draw(n: usize) -> serde_json::Value {
    let graph = graph(n);
    let mut bytes = 0;
    let meter = Meter::over(|| bytes = svg(&graph, &Drawing::default()).len());
    serde_json::json!({ "cpu_ms": meter.cpu_ms(), "wall_ms": meter.wall_ms(), "bytes": bytes })
}

/// How long n transactions take that wait for their turn together, and how long the loop's thread is busy with them; both
/// in microseconds for each of them.
///
/// **Why** together: a loop that sleeps between two of them is busy with waking up, which has nothing to do with watchers.
async fn turns(lab: &Lab, n: usize) -> anyhow::Result<(f64, f64)> {
    let (began, busy) = (Instant::now(), lab.busy()?);
    for _ in 0..n / AT_ONCE {
        let mut changing = Vec::with_capacity(AT_ONCE);
        for number in 0..AT_ONCE {
            let value = format!("v={}", began.elapsed().as_nanos());
            changing.push(lab.begin([format!("a/{number}")], &value).await?);
        }
        for change in changing {
            change.ended().await?;
        }
    }
    let each = |span: Duration| span.as_secs_f64() * 1e6 / n as f64;
    Ok((each(began.elapsed()), each(lab.busy()?.saturating_sub(busy))))
}

/// Begins to watch, and waits for the snapshot.
async fn watcher(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let request =
        format!("GET /api/v1/watch HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut seen = Vec::new();
    while !seen.windows(15).any(|part| part == b"\"snapshot\":true") {
        ensure!(stream.read_buf(&mut seen).await? > 0, "the watch has ended");
    }
    Ok(stream)
}

/// Reads what watchers are told until they end.
async fn read_all(streams: Vec<std::net::TcpStream>, read: Arc<AtomicU64>) {
    let mut reading = tokio::task::JoinSet::new();
    for stream in streams {
        let Ok(mut stream) = TcpStream::from_std(stream) else { continue };
        let read = Arc::clone(&read);
        reading.spawn(async move {
            let mut part = vec![0; 1 << 14];
            while let Ok(count @ 1..) = stream.read(&mut part).await {
                read.fetch_add(count as u64, Ordering::Relaxed);
            }
        });
    }
    while reading.join_next().await.is_some() {}
}

/// What watchers cost the loop: an agent that is watched beside one that is not, in turns, so that whatever else the machine
/// does meets both; the middle one of many turns counts.
async fn watchers(watched: &Lab, n: usize) -> anyhow::Result<serde_json::Value> {
    let alone = Lab::start()?;
    let mut streams = Vec::new();
    for _ in 0..n / 10 {
        streams.push(watcher(watched.address).await?.into_std()?);
    }
    // On a thread of their own, as they would be on another machine.
    let read = Arc::new(AtomicU64::new(0));
    std::thread::spawn({
        let read = Arc::clone(&read);
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(read_all(streams, read))
        }
    });
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (lab, costs) in [&alone, watched].into_iter().zip(&mut costs) {
            costs.push(turns(lab, ROUNDS).await?);
            silence(&read).await;
        }
    }
    alone.stop.stop("measured");
    let middle = |costs: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| {
        let mut costs: Vec<f64> = costs.iter().map(of).collect();
        costs.sort_by(f64::total_cmp);
        costs[costs.len() / 2]
    };
    let [wall, busy]: [[f64; 2]; 2] = [|cost: &(f64, f64)| cost.0, |cost: &(f64, f64)| cost.1]
        .map(|of| costs.each_ref().map(|costs| middle(costs, of)));
    Ok(serde_json::json!({
        "watchers": n / 10,
        "alone_us_per_transaction": wall[0],
        "watched_us_per_transaction": wall[1],
        "alone_busy_us_per_transaction": busy[0],
        "watched_busy_us_per_transaction": busy[1],
        "slower_percent": (busy[1] / busy[0] - 1.0) * 100.0,
    }))
}

/// How often an agent that is watched and one that is not take turns, and how many transactions a turn has.
const TURNS: usize = 15;
const ROUNDS: usize = 2000;

/// Waits until nobody reads anything any more.
async fn silence(read: &AtomicU64) {
    let mut before = u64::MAX;
    while before != read.load(Ordering::Relaxed) {
        before = read.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// How many changes happen in a second while a watcher does not read.
const CHANGES_PER_SECOND: usize = 10_000;

/// How many of them one transaction makes, and how many transactions wait for their turn together.
const AT_ONCE: usize = 100;

/// A watcher that does not read while n changes go by: it must hear of the last change of every item.
async fn stopped(lab: &Lab, n: usize) -> anyhow::Result<serde_json::Value> {
    let items = AT_ONCE * 10;
    let mut stream = watcher(lab.address).await?;
    let began = Instant::now();
    let mut last = 0;
    for round in 0..n / AT_ONCE {
        let first = round * AT_ONCE % items;
        let keys = (first..first + AT_ONCE).map(|item| format!("a/{item}"));
        last = lab.apply_all(keys, &format!("v={round}")).await?;
        let due = Duration::from_secs_f64(((round + 1) * AT_ONCE) as f64 / CHANGES_PER_SECOND as f64);
        tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
    }
    let changes = began.elapsed();
    // The last ten transactions changed every item once.
    let oldest = last + 1 - (items / AT_ONCE) as u64;
    let began = Instant::now();
    let (mut part, mut unread, mut bytes) = (vec![0; 1 << 20], Vec::new(), 0);
    let mut told = HashMap::new();
    let missing = loop {
        let missing = items - told.values().filter(|txn| **txn >= oldest).count();
        if missing == 0 {
            break missing;
        }
        let count = tokio::time::timeout(Duration::from_secs(30), stream.read(&mut part)).await;
        let Ok(count) = count else { break missing };
        let count = count?;
        ensure!(count > 0, "the watch has ended");
        bytes += count;
        unread.extend_from_slice(&part[..count]);
        let whole = unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = unread.drain(..whole).collect();
        hear(&String::from_utf8_lossy(&lines), &mut told);
    };
    Ok(serde_json::json!({
        "seconds": changes.as_secs_f64(),
        "changes_per_second": n as f64 / changes.as_secs_f64(),
        "items": items,
        "missing": missing,
        "caught_up_ms": began.elapsed().as_secs_f64() * 1e3,
        "bytes": bytes,
    }))
}

/// Notes which transaction changed each item last, as a watcher is told.
fn hear(lines: &str, told: &mut HashMap<String, u64>) {
    let messages = lines.lines().filter_map(|line| line.strip_prefix("data: "));
    for message in messages.filter_map(|text| serde_json::from_str::<serde_json::Value>(text).ok()) {
        for status in message["statuses"].as_array().into_iter().flatten() {
            if let (Some(key), Some(txn)) = (status["key"].as_str(), status["changed_by"].as_u64()) {
                told.insert(key.to_owned(), txn);
            }
        }
    }
}

async fn measure(case: &str, n: usize) -> anyhow::Result<serde_json::Value> {
    if case == "a" {
        return Ok(draw(n));
    }
    let lab = if case == "g" { Lab::start_keeping()? } else { Lab::start()? };
    lab.apply("a/1", "v=0").await?;
    let items =
        |name: &str| format!("{{\"items\":[{{\"kind\":\"netns\",\"value\":{{\"name\":\"{name}\"}}}}]}}");
    let measured = match case {
        "b" => load(&lab, n, |_| ("GET", "/api/v1/items/a/1".to_owned(), String::new())).await?,
        "c" => load(&lab, n, |_| ("POST", "/api/v1/plan".to_owned(), items("left"))).await?,
        "d" | "g" => {
            load(&lab, n, |at| ("POST", "/api/v1/apply".to_owned(), items(&format!("n{}", at % 1000))))
                .await?
        }
        "e" => watchers(&lab, n).await?,
        "f" => stopped(&lab, n).await?,
        _ => bail!("unknown case `{case}`, hint: one of `a` to `g`"),
    };
    lab.stop.stop("measured");
    Ok(measured)
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [_, case, _, n] = arguments.as_slice() else { bail!("usage: bench-northbound --case a --n 5000") };
    let n: usize = n.parse().context("`--n` takes a number")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(measure(case, n))?;
    let mut line = serde_json::json!({ "bench": "northbound", "case": case, "n": n });
    if let (Some(line), Some(measured)) = (line.as_object_mut(), measured.as_object()) {
        line.extend(measured.clone());
        line.insert("peak_rss_kb".to_owned(), meter::peak_rss_kb()?.into());
    }
    println!("{line}");
    Ok(())
}
