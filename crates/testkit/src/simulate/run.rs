//! Carrying out a history on a scheduler and the fake world, with every property checked on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use kilter_scheduler::{
    Change, Key, OnFailure, Outcome, Record, Request, Resync, Retry, Scheduler, Stage, Timestamp, Txn,
};

use super::Command;
use super::check::{agrees, history_does_not_matter, is_unsettled, same, same_items};
use crate::attrs::Attrs;
use crate::dice::Dice;
use crate::kinds::{KINDS, LATE_KINDS};
use crate::world::{Fault, Mishap, World};

/// A property that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which property, and how.
    pub what: String,
    /// After which command.
    pub after: usize,
}

/// Is told after every transaction, and may find that something does not hold.
pub type Observer = Box<dyn FnMut(&Scheduler, &Record) -> Result<(), String>>;

/// The scheduler, the world and what is declared.
pub(super) struct Run {
    pub(super) scheduler: Scheduler,
    pub(super) world: World,
    pub(super) declared: BTreeMap<Key, Attrs>,
    /// What was declared before the transaction.
    pub(super) was_declared: BTreeMap<Key, Attrs>,
    pub(super) late: bool,
    /// Items that were changed behind the agent's back since they were read.
    pub(super) drifted: BTreeSet<Key>,
    staged: Vec<(Key, Option<Attrs>)>,
    pub(super) now: Timestamp,
    pub(super) order: Option<Dice>,
    pub(super) observer: Option<Observer>,
}

/// Runs a history and its end: faults stop, time passes, everything is re-read, and all must be as declared.
pub fn run(commands: &[Command]) -> Result<(), Broken> {
    run_observed(commands, None)
}

/// Runs a history and its end under the eyes of somebody else.
pub fn run_observed(commands: &[Command], observer: Option<Observer>) -> Result<(), Broken> {
    let at = std::cell::Cell::new(0);
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::new();
        run.observer = observer;
        for (number, command) in commands.iter().enumerate() {
            at.set(number);
            run.command(command)?;
        }
        at.set(commands.len());
        run.converge()?;
        history_does_not_matter(&run, commands)
    }));
    match result {
        Ok(result) => result.map_err(|what| Broken { what, after: at.get() }),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(Broken { what: format!("panic: {}", text.unwrap_or_default()), after: at.get() })
        }
    }
}

impl Run {
    pub(super) fn new() -> Self {
        let mut run = Self {
            scheduler: Scheduler::default(),
            world: World::default(),
            declared: BTreeMap::new(),
            was_declared: BTreeMap::new(),
            late: false,
            drifted: BTreeSet::new(),
            staged: Vec::new(),
            now: Timestamp(1_000_000_000),
            order: None,
            observer: None,
        };
        run.world.register(&mut run.scheduler, KINDS).expect("the test kinds do not overlap");
        run
    }

    fn command(&mut self, command: &Command) -> Result<(), String> {
        match command {
            Command::Put(key, attrs) => self.staged.push((key.clone(), Some(attrs.clone()))),
            Command::Remove(key) => self.staged.push((key.clone(), None)),
            Command::Commit { revert, retry, order } => {
                // What was handed out cannot know what a read tells meanwhile about an item that vanished.
                self.order = order.filter(|_| self.drifted.is_empty()).map(Dice::new);
                self.commit(*revert, *retry)?;
                self.order = None;
            }
            Command::Plan => self.plan()?,
            // Nobody takes the place of what the agent believes to be its own: only a mark could tell them apart.
            Command::Observe(key, _) if self.is_believed_ours(key) => {}
            Command::Observe(key, attrs) => {
                let seen = self.world.observe(key, attrs.clone());
                self.notify(vec![seen])?;
            }
            Command::Unobserve(key) => {
                let seen = self.world.unobserve(key);
                self.notify(vec![seen])?;
            }
            Command::Fail { action, key, effect, times, lasting } => {
                let failure = kilter_scheduler::Failure { message: "planned".into(), retriable: !lasting };
                let mishap = Mishap::Fail { failure, effect: *effect };
                self.world.plan_fault(Fault { action: *action, key: key.clone(), mishap, times: *times });
            }
            Command::Accept { action, key } => {
                let mishap = Mishap::Accept { within: Duration::from_secs(5) };
                self.world.plan_fault(Fault { action: *action, key: key.clone(), mishap, times: 1 });
            }
            Command::Confirm(key) => {
                if let Ok(seen) = self.world.confirm(key) {
                    self.notify(vec![seen])?;
                }
            }
            Command::Advance(seconds) => self.advance(*seconds)?,
            Command::Resync(scope) => self.resync(scope)?,
            Command::Refresh(key) => {
                self.drifted.retain(|other| other != key);
                self.apply(Txn::resync(Resync::Refresh(vec![key.clone()])))?;
            }
            Command::Lose(key) => {
                if self.is_ours(key) && self.world.lose(key).is_ok() {
                    self.drift(key);
                }
            }
            Command::Alter(key, v) => {
                if self.is_ours(key)
                    && self.world.alter(key, &[("v", v.as_str())].into_iter().collect()).is_ok()
                {
                    self.drift(key);
                }
            }
            Command::Restart => self.restart()?,
            Command::Register => {
                if !self.late {
                    self.late = true;
                    // What exists of the late kinds has not been read yet.
                    let unread = self
                        .world
                        .things()
                        .map(|(key, _)| key)
                        .filter(|key| key.as_str().starts_with("late/"));
                    self.drifted.extend(unread.cloned().collect::<Vec<_>>());
                    self.world
                        .register(&mut self.scheduler, LATE_KINDS)
                        .expect("the test kinds do not overlap");
                    self.fire_due()?;
                }
            }
        }
        Ok(())
    }

    fn is_believed_ours(&self, key: &Key) -> bool {
        let ours = |item: kilter_scheduler::Item| {
            item.actual.is_some() && item.origin == kilter_scheduler::Origin::Declared
        };
        self.scheduler.item(key.as_str()).is_some_and(ours)
    }

    fn is_ours(&self, key: &Key) -> bool {
        self.world.get(key).is_some_and(|thing| thing.origin == kilter_scheduler::Origin::Declared)
    }

    fn drift(&mut self, key: &Key) {
        let under = format!("{key}/");
        let derived: Vec<Key> =
            self.world.told_keys().filter(|other| other.as_str().starts_with(&under)).cloned().collect();
        self.drifted.extend(derived);
        self.drifted.insert(key.clone());
        self.drifted.extend(crate::kinds::base_of(key).filter(|base| base.as_str().starts_with("w/")));
    }

    fn take_staged(&mut self) -> (Vec<Change>, BTreeMap<Key, Attrs>) {
        let mut declared = self.declared.clone();
        let mut changes = Vec::new();
        for (key, value) in self.staged.drain(..) {
            match value {
                Some(attrs) => {
                    changes.push(Change::put(key.clone(), attrs.to_value()));
                    declared.insert(key, attrs);
                }
                None => {
                    declared.remove(&key);
                    changes.push(Change::remove(key));
                }
            }
        }
        (changes, declared)
    }

    fn commit(&mut self, revert: bool, retry: bool) -> Result<(), String> {
        let (changes, declared) = self.take_staged();
        let before = std::mem::replace(&mut self.declared, declared);
        let on_failure = if revert { OnFailure::Revert } else { OnFailure::Continue };
        let mut txn = Txn::new(Request::Changes { changes, on_failure });
        txn.retry = retry.then_some(Retry { count: Some(2), ..Retry::default() });
        let (items, world) = (self.scheduler.items(), self.world.dump());
        let broken = items.iter().any(is_unsettled) || !self.drifted.is_empty() || !self.world.is_settled();
        self.was_declared.clone_from(&before);
        let record = self.drive(txn)?;
        match &record.outcome {
            Outcome::Reverted(_) | Outcome::RevertFailed { .. } => {
                self.declared = before;
                let clean =
                    matches!(record.outcome, Outcome::Reverted(_)) && !broken && self.world.is_settled();
                if clean {
                    same("a reverted transaction left a trace in the world", &world, &self.world.dump())?;
                    same_items(
                        "a reverted transaction left a trace in the graph",
                        &items,
                        &self.scheduler.items(),
                    )?;
                }
            }
            Outcome::Applied | Outcome::AppliedWithPending | Outcome::Incomplete(_) => {}
        }
        agrees(self)
    }

    fn plan(&mut self) -> Result<(), String> {
        let (changes, _) = self.take_staged();
        let before = self.scheduler.items();
        self.scheduler.begin(Txn::changes(changes), self.now);
        self.scheduler.abandon();
        self.scheduler.check_invariants();
        same_items("a plan left a trace", &before, &self.scheduler.items())
    }

    fn notify(&mut self, seen: Vec<kilter_scheduler::Observation>) -> Result<(), String> {
        let told: Vec<Key> = seen.iter().map(|seen| seen.key.clone()).collect();
        let memories: Vec<_> = told.iter().map(|key| self.world.memory(key)).collect();
        for key in &told {
            self.world.tell(key);
        }
        // The world is told before the transaction, so that it can answer; what the agent ignored it does not know.
        let record = self.drive_with(Txn::notification(seen), |run, record| {
            for (key, memory) in told.iter().zip(memories) {
                if record.ignored.contains(key) {
                    run.world.untell(memory);
                }
            }
        })?;
        let ignored = record.ignored.clone();
        for key in told {
            if ignored.contains(&key) {
                if self.world.told(&key) != self.world.readable(&key).as_ref() {
                    self.drifted.insert(key);
                }
            } else {
                self.drifted.remove(&key);
            }
        }
        agrees(self)
    }

    fn advance(&mut self, seconds: u64) -> Result<(), String> {
        let until = self.now.after(Duration::from_secs(seconds));
        while let Some(deadline) = self.scheduler.deadline().filter(|deadline| *deadline <= until) {
            self.now = self.now.max(deadline);
            self.fire_due()?;
        }
        self.now = until;
        Ok(())
    }

    fn fire_due(&mut self) -> Result<(), String> {
        while let Some(txn) = self.scheduler.due(self.now) {
            self.apply(txn)?;
        }
        Ok(())
    }

    fn resync(&mut self, scope: &str) -> Result<(), String> {
        let txn = match scope {
            "downstream" => Txn::resync(Resync::Downstream),
            _ => {
                let (_, declared) = self.take_staged();
                self.declared = declared;
                let changes = self.all_declared();
                Txn::resync(if scope == "full" { Resync::Full(changes) } else { Resync::Upstream(changes) })
            }
        };
        if scope != "upstream" {
            self.drifted.clear();
        }
        self.apply(txn)
    }

    fn all_declared(&self) -> Vec<Change> {
        self.declared.iter().map(|(key, attrs)| Change::put(key.clone(), attrs.to_value())).collect()
    }

    fn restart(&mut self) -> Result<(), String> {
        self.scheduler = Scheduler::default();
        self.world.forget_agent();
        self.world.register(&mut self.scheduler, KINDS).expect("the test kinds do not overlap");
        if self.late {
            self.world.register(&mut self.scheduler, LATE_KINDS).expect("the test kinds do not overlap");
        }
        self.resync("full")
    }

    pub(super) fn apply(&mut self, txn: Txn) -> Result<(), String> {
        self.drive(txn)?;
        agrees(self)
    }

    /// Faults stop; everything comes to rest.
    fn converge(&mut self) -> Result<(), String> {
        self.order = None;
        self.staged.clear();
        self.world.clear_faults();
        self.advance(600)?;
        self.resync("downstream")?;
        self.advance(600)?;
        self.resync("downstream")?;
        for item in self.scheduler.items() {
            let refused = item.state == kilter_scheduler::State::Invalid;
            if is_unsettled(&item) && !refused {
                return Err(format!("liveness: {} is {} although nothing fails", item.key, item.state));
            }
        }
        self.scheduler.begin(Txn::resync(Resync::Downstream), self.now);
        while self.scheduler.stage() == Stage::Refreshing {
            if let Some(operation) = self.scheduler.next() {
                let answer = self.world.perform(&operation).ok_or("nothing hangs in a history")?;
                self.scheduler.answer(operation.id, answer, self.now);
            }
        }
        let steps = self.scheduler.plan().map_or(0, |plan| plan.steps.len());
        self.scheduler.abandon();
        if steps > 0 {
            return Err("resync is not idempotent: a second one plans something".to_owned());
        }
        Ok(())
    }
}
