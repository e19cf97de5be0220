//! The scheduler's benchmark: one case of one size, printed as one JSON line.
//!
//! `bench-scheduler --case a --n 10000 [--no-history] [--no-plan]`; `cargo xtask bench scheduler` runs the cases one
//! process each. Actuators answer at once, so only the scheduler is measured; what a resync finds is listed before the
//! clock starts.

#![expect(clippy::print_stdout, reason = "the result is the output")]

mod kinds;
mod meter;

use std::time::Duration;

use anyhow::{Context as _, bail};
use kilter_scheduler::{
    Act, Answer, Change, Failure, KindId, Limits, Resync, Retrieved, Retry, Scheduler, Settings, Stage,
    Timestamp, Txn,
};
use meter::Meter;

struct Arguments {
    case: char,
    n: usize,
    history: bool,
    plan: bool,
}

fn arguments() -> anyhow::Result<Arguments> {
    let mut found = Arguments { case: 'a', n: 10_000, history: true, plan: true };
    let mut list = std::env::args().skip(1);
    while let Some(argument) = list.next() {
        match argument.as_str() {
            "--case" => {
                found.case =
                    list.next().and_then(|text| text.chars().next()).context("--case needs a letter")?
            }
            "--n" => {
                found.n = list.next().context("--n needs a number")?.parse().context("--n needs a number")?
            }
            "--no-history" => found.history = false,
            "--no-plan" => found.plan = false,
            other => bail!("unknown argument `{other}`; known are --case, --n, --no-history, --no-plan"),
        }
    }
    Ok(found)
}

/// A scheduler with a world that always says yes, and the operations it has carried out.
struct Lab {
    scheduler: Scheduler,
    now: Timestamp,
    ops: usize,
    /// What a resync finds, by kind.
    actual: Vec<(KindId, Vec<Retrieved>)>,
    /// The next create of this key fails.
    fails: Option<String>,
}

impl Lab {
    fn new(arguments: &Arguments) -> anyhow::Result<Self> {
        let history = if arguments.history { Limits::default() } else { Limits::nothing() };
        let mut scheduler = Scheduler::new(Settings { plan: arguments.plan, history });
        kinds::register(&mut scheduler)?;
        Ok(Self { scheduler, now: Timestamp(1), ops: 0, actual: Vec::new(), fails: None })
    }

    fn apply(&mut self, txn: Txn) {
        self.now = self.now.after(Duration::from_millis(1));
        let now = self.now;
        self.scheduler.begin(txn, now);
        loop {
            match self.scheduler.stage() {
                Stage::Planned => self.scheduler.execute(),
                Stage::Refreshing | Stage::Walking => {
                    for operation in self.scheduler.ready() {
                        self.ops += 1;
                        let answer = match operation.act {
                            Act::RetrieveAll { .. } => Answer::Listed(self.listed(operation.kind)),
                            Act::Retrieve { .. } => Answer::Absent,
                            Act::Create { ref key, .. } if self.fails.as_deref() == Some(key.as_str()) => {
                                self.fails = None;
                                Answer::Failed(Failure::retriable("planned"))
                            }
                            Act::Create { .. } | Act::Update { .. } | Act::Delete { .. } => Answer::done(),
                        };
                        self.scheduler.answer(operation.id, answer, now);
                    }
                }
                Stage::Ended | Stage::Idle => break,
            }
        }
        self.scheduler.finish(now);
    }

    fn listed(&mut self, kind: KindId) -> Vec<Retrieved> {
        let at = self.actual.iter().position(|(other, _)| *other == kind);
        at.map(|at| self.actual.swap_remove(at).1).unwrap_or_default()
    }

    /// Lists what exists, as fresh values, so that a comparison has to look at them.
    fn list_actual(&mut self, n: usize) {
        let mut actual: Vec<(KindId, Vec<Retrieved>)> =
            self.scheduler.registry().kinds().map(|kind| (kind, Vec::new())).collect();
        for (key, value) in kinds::everything(n) {
            let owner = self.scheduler.registry().owner(key.as_str());
            if let Some((_, list)) = actual.iter_mut().find(|(kind, _)| Some(*kind) == owner) {
                list.push(Retrieved {
                    key,
                    value,
                    facts: None,
                    origin: Some(kilter_scheduler::Origin::Declared),
                });
            }
        }
        self.actual = actual;
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = arguments()?;
    let mut lab = Lab::new(&arguments)?;
    let (meter, rounds) = run(&arguments, &mut lab)?;
    let rounds_f = f64::from(rounds);
    println!(
        "{}",
        serde_json::json!({
            "bench": "scheduler",
            "case": arguments.case.to_string(),
            "n": arguments.n,
            "vertices": lab.scheduler.vertex_count(),
            "cpu_ms": meter.cpu_ms() / rounds_f,
            "wall_ms": meter.wall_ms() / rounds_f,
            "peak_rss_kb": meter::peak_rss_kb()?,
            "ops": lab.ops,
            "rounds": rounds,
            "history": arguments.history,
            "plan": arguments.plan,
        })
    );
    Ok(())
}

/// Runs a case; the meter covers what the case is about and not its set-up.
fn run(arguments: &Arguments, lab: &mut Lab) -> anyhow::Result<(Meter, u32)> {
    let n = arguments.n;
    let put_all = |lab: &mut Lab| lab.apply(Txn::changes(kinds::declared(n)));
    let mut rounds = 1;
    let meter = match arguments.case {
        'a' => {
            let changes = kinds::declared(n);
            Meter::over(|| lab.apply(Txn::changes(changes)))
        }
        'b' => {
            let changes = kinds::declared(n);
            Meter::over(|| changes.into_iter().for_each(|change| lab.apply(Txn::changes(vec![change]))))
        }
        'c' => {
            put_all(lab);
            lab.list_actual(n);
            let changes = kinds::declared(n);
            lab.ops = 0;
            Meter::over(|| lab.apply(Txn::resync(Resync::Full(changes))))
        }
        'd' => {
            lab.apply(Txn::changes((0..n).map(|at| kinds::route(at, 0)).collect()));
            lab.ops = 0;
            Meter::over(|| lab.apply(Txn::changes(vec![kinds::interface(0)])))
        }
        'e' => {
            put_all(lab);
            lab.list_actual(n);
            lab.ops = 0;
            Meter::over(|| lab.apply(Txn::resync(Resync::Downstream)))
        }
        'f' => {
            put_all(lab);
            // One round before the clock starts: the first record pushes the large one of the set-up out of the history.
            fail_and_retry(lab, n);
            lab.ops = 0;
            rounds = 1000;
            Meter::over(|| (0..rounds).for_each(|_| fail_and_retry(lab, n)))
        }
        'g' => {
            let layers = kinds::layers(n);
            let root = kinds::step("root", &[]);
            Meter::over(|| {
                lab.apply(Txn::changes(layers));
                lab.apply(Txn::changes(vec![root]));
            })
        }
        'h' => {
            lab.apply(Txn::changes(kinds::chain(n)));
            lab.ops = 0;
            Meter::over(|| lab.apply(Txn::changes(vec![kinds::step("root", &[])])))
        }
        other => bail!("unknown case `{other}`; known are a to h"),
    };
    Ok((meter, rounds))
}

/// One create fails, its retry succeeds, and the item leaves again.
fn fail_and_retry(lab: &mut Lab, n: usize) {
    let change = kinds::interface(n + 1);
    let key = change.key.clone();
    lab.fails = Some(key.to_string());
    lab.apply(Txn::changes(vec![change]).with_retry(Retry::default()));
    lab.now = lab.now.after(Duration::from_secs(2));
    if let Some(retry) = lab.scheduler.due(lab.now) {
        lab.apply(retry);
    }
    lab.apply(Txn::changes(vec![Change::remove(key)]));
}
