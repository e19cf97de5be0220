//! The runner of scenario scripts.
//!
//! A script is blocks of commands and the output they give (crate `goldenscript`); [`command::Command`] lists the
//! commands. After every block the runner asserts, without being asked:
//!
//! * what was planned was executed, unless something failed;
//! * no operation was unsafe: see [`World::violations`];
//! * the scheduler believes what it was told, and has read back what failed;
//! * nothing is actual without what it needs;
//! * a reverted transaction left no trace;
//! * declaring the same again plans nothing;
//! * the scheduler's own invariants.

pub mod command;
pub mod crash;

mod check;
mod drive;
mod run;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use kilter_scheduler::{
    Change, Jitter, Key, OnFailure, Origin, Plan, Request, Resync, Retry, Scheduler, Settings, Stage, Txn,
    Undeclared,
};

use crate::attrs::Attrs;
use crate::clock::Clock;
use crate::kinds;
use crate::render;
use crate::world::World;
use command::Span;

/// Why a script fails.
pub type Failed = Box<dyn Error>;

/// The cap of a retry that backs off.
const BACKOFF_CAP: Duration = Duration::from_secs(60);

/// A scenario under way.
pub struct Scenario {
    scheduler: Scheduler,
    world: World,
    clock: Clock,
    /// What is declared, as far as the script knows.
    declared: BTreeMap<Key, Attrs>,
    /// What is declared once the transaction under way has ended well.
    asked: Option<BTreeMap<Key, Attrs>>,
    staged: Vec<Change>,
    /// Kept plans, each with the changes it is about.
    plans: BTreeMap<String, (Plan, Vec<Change>)>,
    drive: Option<drive::Drive>,
    /// The last transaction was cancelled: what it did not start is still to be done.
    cancelled: bool,
    late: bool,
    /// Where the agent is stopped, and how many operations there were so far.
    crash: crash::Watch,
}

/// Runs the script at this path and compares its output; with `UPDATE_GOLDENFILES=1`, writes it.
pub fn run(path: impl AsRef<Path>) -> std::io::Result<()> {
    goldenscript::run(&mut Scenario::new(), path)
}

impl Default for Scenario {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario {
    /// An empty world and a scheduler that knows the test kinds.
    pub fn new() -> Self {
        let mut world = World::default();
        let scheduler = fresh_scheduler(&mut world, false);
        Self {
            scheduler,
            world,
            clock: Clock::default(),
            declared: BTreeMap::new(),
            asked: None,
            staged: Vec::new(),
            plans: BTreeMap::new(),
            drive: None,
            cancelled: false,
            late: false,
            crash: crash::Watch::default(),
        }
    }

    fn commit(
        &mut self,
        on_failure: OnFailure,
        retry: Option<Retry>,
        seed: Option<u64>,
    ) -> Result<String, Failed> {
        let changes = std::mem::take(&mut self.staged);
        self.asked = Some(self.declared_after(&changes));
        let mut txn = Txn::new(Request::Changes { changes, on_failure });
        txn.retry = retry;
        self.run_txn(txn, seed)
    }

    fn declared_after(&self, changes: &[Change]) -> BTreeMap<Key, Attrs> {
        let mut declared = self.declared.clone();
        for change in changes {
            match &change.value {
                Some(value) => declared.insert(change.key.clone(), Attrs::of(value).clone()),
                None => declared.remove(&change.key),
            };
        }
        declared
    }

    fn plan(&mut self, name: Option<&str>) -> Result<String, Failed> {
        let changes = self.staged.clone();
        self.scheduler.begin(Txn::changes(changes.clone()), self.clock.now());
        if self.scheduler.stage() != Stage::Planned {
            return Err("the transaction is not planned".into());
        }
        let plan = self.scheduler.plan().ok_or("there is no plan")?.clone();
        self.scheduler.abandon();
        let text = format!("plan\n{}", render::steps(&plan.steps));
        if let Some(name) = name {
            self.staged.clear();
            self.plans.insert(name.to_owned(), (plan, changes));
        }
        Ok(text)
    }

    fn apply_plan(&mut self, name: &str) -> Result<String, Failed> {
        let (plan, changes) =
            self.plans.get(name).cloned().ok_or_else(|| format!("no plan is named `{name}`"))?;
        self.asked = Some(self.declared_after(&changes));
        self.run_as_planned(Txn::changes(changes), &plan)
    }

    fn resync(&mut self, what: &str, retry: Option<Retry>, undeclared: Undeclared) -> Result<String, Failed> {
        let staged = std::mem::take(&mut self.staged);
        let declared = self.declared_after(&staged);
        let all = || declared.iter().map(|(key, value)| Change::put(key.clone(), value.to_value())).collect();
        let resync = match what {
            "full" => Resync::Full(all()),
            "upstream" => Resync::Upstream(all()),
            "downstream" => Resync::Downstream,
            _ => return Err(format!("`{what}` is not one of full, upstream, downstream").into()),
        };
        if what != "downstream" {
            self.asked = Some(declared);
        }
        let mut txn = Txn::resync(resync).with_undeclared(undeclared);
        txn.retry = retry;
        self.run_txn(txn, None)
    }

    fn restart(&mut self, what: &str) -> Result<String, Failed> {
        self.world.forget_agent();
        self.scheduler = fresh_scheduler(&mut self.world, self.late);
        self.drive = None;
        if what == "full" { self.resync("full", None, Undeclared::Remove) } else { self.restart_untold(what) }
    }

    /// The fresh agent has not been told what is declared.
    fn restart_untold(&mut self, what: &str) -> Result<String, Failed> {
        self.declared.clear();
        if what == "none" { Ok(String::new()) } else { self.resync(what, None, Undeclared::Remove) }
    }

    fn advance(&mut self, span: Duration) -> Result<String, Failed> {
        let target = self.clock.now().after(span);
        let mut text = String::new();
        while let Some(deadline) = self.scheduler.deadline().filter(|deadline| *deadline <= target) {
            self.clock.advance_to(deadline);
            text.push_str(&self.run_due()?);
            if self.scheduler.deadline().is_some_and(|deadline| deadline <= self.clock.now()) {
                return Err("a deadline has come and stays".into());
            }
        }
        self.clock.advance_to(target);
        Ok(text)
    }

    /// Runs what is due now.
    fn run_due(&mut self) -> Result<String, Failed> {
        let mut text = String::new();
        while let Some(txn) = self.scheduler.due(self.clock.now()) {
            text.push_str(&self.run_txn(txn, None)?);
        }
        Ok(text)
    }

    fn notify(&mut self, seen: &[(String, String)]) -> Result<String, Failed> {
        let mut observations = Vec::new();
        for (verb, text) in seen {
            let (key, attrs) = text.split_once(' ').unwrap_or((text, ""));
            let key = Key::new(key);
            observations.push(match verb.as_str() {
                "see" => self.world.observe(&key, Attrs::parse(attrs)?),
                "gone" => {
                    let thing = self.world.get(&key);
                    if thing.is_some_and(|thing| thing.origin == Origin::Declared) {
                        return Err(format!("`{key}` is ours and exists; `lose` it").into());
                    }
                    self.world.unobserve(&key)
                }
                "confirm" => self.world.confirm(&key)?,
                _ => return Err(format!("`{verb}` is not one of see, gone, confirm").into()),
            });
        }
        self.run_txn(Txn::notification(observations), None)
    }

    fn history(&self) -> String {
        self.scheduler.history().iter().map(|record| render::header(record) + "\n").collect()
    }

    fn timeline(&self, key: &str) -> String {
        let moments = self.scheduler.history().timeline(key);
        moments.map(|moment| format!("#{}{}\n", moment.seq, render::step(moment.step).trim_end())).collect()
    }
}

fn fresh_scheduler(world: &mut World, late: bool) -> Scheduler {
    let mut scheduler = Scheduler::new(Settings::default());
    world.register(&mut scheduler, kinds::KINDS).expect("the test kinds do not overlap");
    if late {
        world.register(&mut scheduler, kinds::LATE_KINDS).expect("the late kinds do not overlap");
    }
    scheduler
}

fn retry(period: Option<Span>, count: Option<u32>, flags: &[String]) -> Option<Retry> {
    let count = count.unwrap_or(3);
    let backoff = flags.iter().any(|flag| flag == "backoff");
    period.map(|Span(period)| Retry {
        period,
        count: (count > 0).then_some(count),
        backoff_cap: backoff.then_some(BACKOFF_CAP),
        jitter: Jitter::default(),
    })
}
