//! Carrying out one transaction of a history.

use std::sync::Arc;

use kilter_scheduler::{Executed, Operation, Outcome, Record, Stage, Txn};

use super::check::trace;
use super::run::Run;

impl Run {
    pub(super) fn drive(&mut self, txn: Txn) -> Result<Arc<Record>, String> {
        self.drive_with(txn, |_, _| {})
    }

    /// Carries out one transaction; answers come in plan order, or in the order that the dice decide.
    pub(super) fn drive_with(
        &mut self,
        txn: Txn,
        ended: impl FnOnce(&mut Self, &Record),
    ) -> Result<Arc<Record>, String> {
        let mut open: Vec<Operation> = Vec::new();
        for (key, attrs) in &self.declared {
            // A refused value leaves what was applied in force.
            let refused = attrs.get("invalid").is_some();
            let applied = if refused { self.world.told(key) } else { None };
            self.was_declared.insert(key.clone(), applied.unwrap_or(attrs).clone());
        }
        self.world.begin(self.was_declared.iter());
        self.was_declared.clone_from(&self.declared);
        self.scheduler.begin(txn, self.now);
        let mut surprised = false;
        let mut answers = 0_u32;
        loop {
            match self.scheduler.stage() {
                Stage::Planned => self.scheduler.execute(),
                Stage::Ended | Stage::Idle => break,
                Stage::Refreshing | Stage::Walking => {
                    match &mut self.order {
                        None => open.extend(self.scheduler.next()),
                        Some(_) => open.extend(self.scheduler.ready()),
                    }
                    let at = match &mut self.order {
                        Some(dice) if !open.is_empty() => dice.below(open.len()),
                        _ => 0,
                    };
                    if open.is_empty() {
                        if self.scheduler.stage() == Stage::Walking
                            || self.scheduler.stage() == Stage::Refreshing
                        {
                            return Err("the walk waits for nothing".to_owned());
                        }
                        continue;
                    }
                    answers += 1;
                    if answers > 10_000 {
                        return Err("the walk does not end".to_owned());
                    }
                    let operation = open.swap_remove(at);
                    self.world.go_back(self.scheduler.is_reverting());
                    let violations = self.world.violations(&operation.act);
                    if let Some(first) = violations.first().filter(|_| self.has_no_excuse()) {
                        return Err(format!("dependency safety: {first}"));
                    }
                    let answer = self.world.perform(&operation).ok_or("nothing hangs in a history")?;
                    surprised |= matches!(
                        answer,
                        kilter_scheduler::Answer::Failed(_) | kilter_scheduler::Answer::Accepted { .. }
                    );
                    self.scheduler.answer(operation.id, answer, self.now);
                }
            }
        }
        let record = self.scheduler.finish(self.now);
        if std::env::var_os("SIMULATE_TRACE").is_some() {
            trace(&record);
        }
        ended(self, &record);
        self.scheduler.check_invariants();
        if let Some(observer) = &mut self.observer {
            observer(&self.scheduler, &record)?;
        }
        if !surprised
            && record.executed != Executed::AsPlanned
            && !matches!(record.outcome, Outcome::Reverted(_))
        {
            let overdue = record.txn_type == kilter_scheduler::TxnType::Overdue;
            if !overdue {
                return Err(format!("executed is not what was planned in #{}", record.seq));
            }
        }
        Ok(record)
    }

    /// Whether the world is in a state in which an unmet dependency is a mistake of the scheduler: nothing was changed
    /// behind its back, and no operation is unconfirmed.
    fn has_no_excuse(&self) -> bool {
        self.drifted.is_empty() && self.world.is_settled() && self.world.doubts().next().is_none()
    }
}
