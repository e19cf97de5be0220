//! Driving one transaction through the scheduler and the world.

use kilter_scheduler::{
    Answer, Key, Operation, Outcome, Plan, Record, Request, RetryOrder, Stage, Timestamp, Txn,
};

use super::{Failed, Scenario, check};
use crate::dice::Dice;
use crate::render;
use crate::world::Memory;

/// More operations than any script needs: a walk that goes on and on is reported instead of endured.
const ENOUGH: usize = 10_000;

/// A transaction under way.
pub(super) struct Drive {
    /// Random order: the dice, and the operations that were handed out and are not answered.
    any_order: Option<(Dice, Vec<Operation>)>,
    /// Operations that hang.
    hanging: Vec<Key>,
    /// Whether an operation failed, was accepted late, or the transaction was cancelled: the plan is not to be kept.
    disturbed: bool,
    graph_before: String,
    world_before: String,
    retries_before: Vec<(Timestamp, RetryOrder)>,
    /// What the agent knew of the items of a notification.
    memories: Vec<(Key, Memory)>,
    performed: usize,
}

impl Scenario {
    /// Runs a transaction to its end, or until all that is left of it hangs.
    pub(super) fn run_txn(&mut self, txn: Txn, seed: Option<u64>) -> Result<String, Failed> {
        let drive = self.prepare(&txn, seed)?;
        self.scheduler.begin(txn, self.clock.now());
        self.drive = Some(drive);
        self.go_on()
    }

    /// Runs a transaction only if it does what the plan says.
    pub(super) fn run_as_planned(&mut self, txn: Txn, plan: &Plan) -> Result<String, Failed> {
        let drive = self.prepare(&txn, None)?;
        if let Err(stale) = self.scheduler.begin_planned(plan, txn, self.clock.now()) {
            self.asked = None;
            return Ok(format!("refused: {stale}\n"));
        }
        self.drive = Some(drive);
        self.go_on()
    }

    fn prepare(&mut self, txn: &Txn, seed: Option<u64>) -> Result<Drive, Failed> {
        if self.drive.is_some() {
            return Err("a transaction is under way".into());
        }
        let mut drive = Drive {
            any_order: seed.map(|seed| (Dice::new(seed), Vec::new())),
            hanging: Vec::new(),
            disturbed: false,
            graph_before: render::graph(&self.scheduler.items()),
            world_before: self.world.dump(),
            retries_before: self.scheduler.retries(),
            memories: Vec::new(),
            performed: 0,
        };
        if let Request::Notification(seen) = &txn.request {
            for observation in seen {
                let key = &observation.key;
                drive.memories.push((key.clone(), self.world.memory(key)));
                self.world.tell(key);
            }
        }
        self.cancelled = false;
        self.tell_world_what_is_declared(txn);
        Ok(drive)
    }

    fn tell_world_what_is_declared(&mut self, txn: &Txn) {
        let asked = crate::house::perform::asked(txn);
        let asked = asked
            .iter()
            .filter_map(|change| Some((&change.key, crate::attrs::Attrs::of(change.value.as_ref()?))));
        self.world.begin(self.declared.iter().chain(asked));
    }

    /// Carries the transaction under way on; shows it if it ends, or what it waits for.
    pub(super) fn go_on(&mut self) -> Result<String, Failed> {
        let Some(mut drive) = self.drive.take() else { return Err("no transaction is under way".into()) };
        loop {
            match self.scheduler.stage() {
                Stage::Idle => return Err("the transaction was lost".into()),
                Stage::Planned => self.scheduler.execute(),
                Stage::Ended => break,
                stage @ (Stage::Refreshing | Stage::Walking) => {
                    let Some(operation) = drive.next(self) else {
                        if self.scheduler.stage() != stage {
                            continue;
                        }
                        if drive.hanging.is_empty() {
                            return Err("the walk has not ended and offers no operation".into());
                        }
                        let waits: Vec<&str> = drive.hanging.iter().map(Key::as_str).collect();
                        let text = format!("under way, waits for {}\n", waits.join(", "));
                        self.drive = Some(drive);
                        return Ok(text);
                    };
                    self.perform(&mut drive, &operation)?;
                }
            }
        }
        let record = self.scheduler.finish(self.clock.now());
        for (key, memory) in drive.memories {
            if record.ignored.contains(&key) {
                self.world.untell(memory);
            }
        }
        let mut text = render::record(&record);
        check::record(&record, drive.disturbed, drive.any_order.is_some())?;
        // What is confirmed later has not gone back yet.
        if matches!(record.outcome, Outcome::Reverted(_)) && self.world.is_settled() {
            check::no_trace(self, &record, &drive.graph_before, &drive.world_before)?;
        }
        text.push_str(&self.new_retries(&drive.retries_before));
        self.note_declared(&record);
        Ok(text)
    }

    fn perform(&mut self, drive: &mut Drive, operation: &Operation) -> Result<(), Failed> {
        drive.performed += 1;
        if drive.performed > ENOUGH {
            return Err("the walk does not end".into());
        }
        self.world.go_back(self.scheduler.is_reverting());
        let violations = self.world.violations(&operation.act);
        if !violations.is_empty() {
            return Err(format!("unsafe operation: {}", violations.join("; ")).into());
        }
        let world = &mut self.world;
        match self.crash.around(|| world.perform(operation))? {
            Some(answer) => {
                drive.disturbed |= matches!(answer, Answer::Failed(_) | Answer::Accepted { .. });
                self.scheduler.answer(operation.id, answer, self.clock.now());
            }
            None => {
                drive.disturbed = true;
                drive.hanging.extend(operation.act.key().cloned());
            }
        }
        Ok(())
    }

    /// Answers what hangs on these items.
    pub(super) fn release(&mut self, keys: &[String]) -> Result<String, Failed> {
        for key in keys {
            let key = Key::new(key);
            let world = &mut self.world;
            let answers = self.crash.around(|| world.release(&key))?;
            if answers.is_empty() {
                return Err(format!("nothing hangs on `{key}`").into());
            }
            for (id, answer) in answers {
                self.scheduler.answer(id, answer, self.clock.now());
            }
            if let Some(drive) = &mut self.drive {
                drive.hanging.retain(|hanging| *hanging != key);
            }
        }
        self.go_on()
    }

    /// Cancels the transaction under way.
    pub(super) fn cancel(&mut self, reason: &str) -> Result<String, Failed> {
        let Some(drive) = &mut self.drive else { return Err("no transaction is under way".into()) };
        drive.disturbed = true;
        self.cancelled = true;
        self.scheduler.cancel(reason);
        self.go_on()
    }

    fn new_retries(&self, before: &[(Timestamp, RetryOrder)]) -> String {
        let new: Vec<_> =
            self.scheduler.retries().into_iter().filter(|retry| !before.contains(retry)).collect();
        let mut text = String::new();
        for (at, order) in &new {
            text.push_str(&format!("retry in {:?}", at.since(self.clock.now())));
            if new.len() > 1 {
                let keys: Vec<&str> = order.items.iter().map(|(key, _)| key.as_str()).collect();
                text.push_str(&format!(" of {}", keys.join(", ")));
            }
            text.push('\n');
        }
        text
    }

    /// What the transaction asked for is declared, unless it was taken back.
    fn note_declared(&mut self, record: &Record) {
        let asked = std::mem::take(&mut self.asked);
        if matches!(record.outcome, Outcome::Reverted(_) | Outcome::RevertFailed { .. }) {
            return;
        }
        if let Some(asked) = asked {
            self.declared = asked;
        }
    }
}

impl Drive {
    /// The operation to perform next.
    fn next(&mut self, scenario: &mut Scenario) -> Option<Operation> {
        match &mut self.any_order {
            None => scenario.scheduler.next(),
            Some((dice, open)) => {
                open.extend(scenario.scheduler.ready());
                if open.is_empty() { None } else { Some(open.swap_remove(dice.below(open.len()))) }
            }
        }
    }
}
