//! The event loop's benchmark: one case of one size, printed as one JSON line.
//!
//! `bench-events --case a --n 100000 [--no-history]`; `cargo xtask bench events` runs the cases one process each. What
//! the scheduler costs by itself is measured in the same process with the same transactions and taken off, so that
//! the overhead is the loop's own: queue, handlers, draft, merge, record, history.

#![expect(clippy::print_stdout, reason = "the result is the output")]

mod meter;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use kilter_events::builtin::DatabaseResync;
use kilter_events::{
    Draft, Event, EventKind, EventLoop, Handler, HandlerError, Inputs, Method, Parts, Producer, ReadValue,
    Settings, Step, UpdateMode, from_json, to_json,
};
use kilter_scheduler::{
    Act, Answer, Change, Key, Kind, Record, Retry, Scheduler, Stage, Timestamp, Txn, ValueRef, describe,
};
use meter::Meter;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// The allocator of the `kilter` binary: the loop frees records that left the cache long ago, and that is where
/// allocators differ.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many handlers an event passes.
const HANDLERS: usize = 8;

/// How often loop and scheduler take turns.
const ROUNDS: u64 = 10;

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Counter {
    count: u64,
}

struct CounterKind;

impl Kind for CounterKind {
    type Value = Counter;
    const NAME: &'static str = "bench.counter";
    const KEYS: &'static [&'static str] = &["counter/*"];
}

/// Something is counted.
#[derive(Debug, Serialize, Deserialize)]
struct Counted {
    count: u64,
}

impl EventKind for Counted {
    const KIND: &'static str = "counted";

    fn name(&self) -> String {
        "Counted".to_owned()
    }

    fn method(&self) -> Method {
        Method::update(UpdateMode::BestEffort)
    }

    fn encode(&self) -> Json {
        to_json(self)
    }

    fn decode(body: Json, _values: &dyn ReadValue) -> Result<Self, String> {
        from_json(body)
    }
}

/// Drafts its own counter, or nothing.
struct Counting {
    name: String,
    key: Key,
    drafts: bool,
    value: ValueRef,
}

impl Handler for Counting {
    fn name(&self) -> &str {
        &self.name
    }

    fn handles(&self, _event: &Event) -> bool {
        true
    }

    fn resync(
        &mut self,
        _event: &Event,
        _inputs: &Inputs,
        _count: u64,
        draft: &mut Draft<'_>,
    ) -> Result<(), HandlerError> {
        if self.drafts {
            draft.put_ref(self.key.clone(), self.value.clone());
        }
        Ok(())
    }

    fn update(&mut self, event: &Event, draft: &mut Draft<'_>) -> Result<String, HandlerError> {
        if let Some(counted) = event.body::<Counted>().filter(|_| self.drafts) {
            self.value = ValueRef::new(Counter { count: counted.count });
            draft.put_ref(self.key.clone(), self.value.clone());
        }
        Ok(String::new())
    }

    fn revert(&mut self, _event: &Event) -> Result<(), HandlerError> {
        Ok(())
    }
}

fn counter(at: usize) -> Key {
    Key::new(format!("counter/c{at}"))
}

fn scheduler() -> anyhow::Result<Scheduler> {
    let mut scheduler = Scheduler::default();
    scheduler.register(describe(CounterKind)?)?;
    Ok(scheduler)
}

/// Performs a transaction in a world that says yes at once.
fn perform(scheduler: &mut Scheduler, txn: Txn, now: Timestamp) -> Arc<Record> {
    scheduler.begin(txn, now);
    loop {
        match scheduler.stage() {
            Stage::Planned => scheduler.execute(),
            Stage::Refreshing | Stage::Walking => {
                for operation in scheduler.ready() {
                    let answer = match operation.act {
                        Act::RetrieveAll { .. } => Answer::Listed(Vec::new()),
                        Act::Retrieve { .. } => Answer::Absent,
                        Act::Create { .. } | Act::Update { .. } | Act::Delete { .. } => Answer::done(),
                    };
                    scheduler.answer(operation.id, answer, now);
                }
            }
            Stage::Ended | Stage::Idle => return scheduler.finish(now),
        }
    }
}

struct Lab {
    events: EventLoop,
    producer: Producer,
    now: Timestamp,
}

impl Lab {
    fn new(drafts: bool, history: bool) -> anyhow::Result<Self> {
        let handlers = (0..HANDLERS).map(|at| {
            let value = ValueRef::new(Counter { count: 0 });
            Box::new(Counting { name: format!("handler{at}"), key: counter(at), drafts, value })
                as Box<dyn Handler>
        });
        let started = Instant::now();
        let parts = Parts {
            scheduler: scheduler()?,
            handlers: handlers.collect(),
            sources: vec!["file".to_owned()],
            stopwatch: Box::new(move || started.elapsed()),
        };
        let settings = Settings { history, ..Settings::default() };
        let now = Timestamp(1);
        let events = EventLoop::new(settings, parts, now)?;
        let producer = events.producer();
        let mut lab = Self { events, producer, now };
        lab.pass(Event::new(DatabaseResync::default()))?;
        Ok(lab)
    }

    /// One event from the queue to the history.
    fn pass(&mut self, event: Event) -> anyhow::Result<()> {
        self.producer.push(event)?;
        self.now = self.now.after(Duration::from_millis(1));
        loop {
            match self.events.next(self.now) {
                Step::Commit(txn) => {
                    let record = perform(self.events.scheduler_mut(), txn, self.now);
                    self.events.committed(Some(record), self.now);
                }
                Step::Wait(_) => return Ok(()),
                Step::Opened(_) | Step::Closed(_) => {}
                step @ (Step::Plan(_) | Step::Perform(_) | Step::Fatal(_) | Step::Stopped) => {
                    bail!("the loop asks for {step:?}")
                }
            }
        }
    }
}

/// The same transactions without the loop.
struct Alone {
    scheduler: Scheduler,
    keys: Vec<Key>,
    now: Timestamp,
}

impl Alone {
    fn new() -> anyhow::Result<Self> {
        let keys = (0..HANDLERS).map(counter).collect();
        Ok(Self { scheduler: scheduler()?, keys, now: Timestamp(1) })
    }

    fn pass(&mut self, count: u64) {
        self.now = self.now.after(Duration::from_millis(1));
        let put = |key: &Key| Change::put(key.clone(), ValueRef::new(Counter { count }));
        let txn = Txn::changes(self.keys.iter().map(put).collect());
        perform(&mut self.scheduler, txn.with_retry(Retry::default()).described("Counted"), self.now);
    }
}

/// What the loop and the scheduler alone cost, in ms of CPU, round by round.
#[derive(Default)]
struct Costs {
    events: Vec<f64>,
    alone: Vec<f64>,
    wall_ms: f64,
}

impl Costs {
    /// The loop's own share of a round in the middle: rounds take turns, so a disturbance from outside hits few of
    /// them.
    fn overhead_ms(&self) -> f64 {
        let mut shares: Vec<f64> =
            self.events.iter().zip(&self.alone).map(|(events, alone)| events - alone).collect();
        shares.sort_by(f64::total_cmp);
        shares[shares.len() / 2]
    }
}

fn measure(lab: &mut Lab, mut alone: Option<Alone>, n: u64) -> anyhow::Result<Costs> {
    let mut costs = Costs::default();
    for round in 0..ROUNDS {
        let counts = || round * n / ROUNDS + 1..=(round + 1) * n / ROUNDS;
        let mut passed = Ok(());
        let meter = Meter::over(|| {
            passed = counts().try_for_each(|count| lab.pass(Event::new(Counted { count })));
        });
        passed?;
        costs.events.push(meter.cpu_ms());
        costs.wall_ms += meter.wall_ms();
        let alone = alone.as_mut();
        costs.alone.push(
            alone.map_or(0.0, |alone| Meter::over(|| counts().for_each(|count| alone.pass(count))).cpu_ms()),
        );
    }
    Ok(costs)
}

fn main() -> anyhow::Result<()> {
    let (mut case, mut n, mut history) = ('a', 100_000_u64, true);
    let mut list = std::env::args().skip(1);
    while let Some(argument) = list.next() {
        let mut value = || list.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--case" => case = value()?.chars().next().context("--case needs a letter")?,
            "--n" => n = value()?.parse().context("--n needs a number")?,
            "--no-history" => history = false,
            other => bail!("unknown argument `{other}`; known are --case, --n, --no-history"),
        }
    }
    let drafts = match case {
        'a' => false,
        'b' => true,
        other => bail!("unknown case `{other}`; known are a and b"),
    };
    let mut lab = Lab::new(drafts, history)?;
    let alone = if drafts { Some(Alone::new()?) } else { None };
    let costs = measure(&mut lab, alone, n)?;
    let (cpu_ms, scheduler_ms) = (costs.events.iter().sum::<f64>(), costs.alone.iter().sum::<f64>());
    let history_of = lab.events.history();
    println!(
        "{}",
        serde_json::json!({
            "bench": "events",
            "case": case.to_string(),
            "n": n,
            "handlers": HANDLERS,
            "cpu_ms": cpu_ms,
            "wall_ms": costs.wall_ms,
            "scheduler_ms": scheduler_ms,
            "events_per_cpu_second": n as f64 * 1e3 / cpu_ms,
            "overhead_us_per_event": costs.overhead_ms() * 1e3 * ROUNDS as f64 / n as f64,
            "peak_rss_kb": meter::peak_rss_kb()?,
            "history": history,
            "history_events": history_of.len(),
            "history_bytes": history_of.bytes(),
        })
    );
    Ok(())
}
