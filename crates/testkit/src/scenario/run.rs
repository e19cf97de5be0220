//! What each command does.

use std::sync::Arc;

use goldenscript::{Block, Context, Runner};
use kilter_scheduler::{Action, Change, Failure, Key, Origin, Resync, Txn, Undeclared};

use super::command::{Command, Failing, HowMuch, Operation, Span, only};
use super::{Failed, Scenario, check, retry};
use crate::attrs::Attrs;
use crate::kinds;
use crate::render;
use crate::world::{Fault, Mishap};

impl Runner for Scenario {
    type Command = Command;

    fn run(&mut self, command: &Command, _context: &Context) -> Result<String, Failed> {
        match command {
            Command::Put(key, pairs) => self.staged.push(Change::put(key.as_str(), attrs(pairs).to_value())),
            Command::Remove(keys) => self.staged.extend(keys.iter().map(|key| Change::remove(key.as_str()))),
            Command::Commit { flags, on_failure: Failing(on_failure), retry: period, count, order, seed } => {
                only(flags, &["plan-only", "backoff"])?;
                only(order.as_slice(), &["any", "plan"])?;
                if flags.iter().any(|flag| flag == "plan-only") {
                    return self.plan(None);
                }
                let any = order.as_ref().is_some_and(|order| order == "any");
                let seed = any.then(|| seed.unwrap_or_default());
                return self.commit(*on_failure, retry(*period, *count, flags), seed);
            }
            Command::Plan { name } => return self.plan(name.as_deref()),
            Command::ApplyPlan(name) => return self.apply_plan(name),
            Command::Observe(key, pairs) => {
                let seen = self.world.observe(&Key::new(key), attrs(pairs));
                return self.run_txn(Txn::notification(vec![seen]), None);
            }
            Command::Unobserve(keys) => return self.notify(&verbs("gone", keys)),
            Command::Notify(seen) => return self.notify(seen),
            Command::Fail {
                action: Operation(action),
                key,
                message,
                lasting,
                effect: HowMuch(effect),
                times,
            } => {
                only(lasting.as_slice(), &["lasting"])?;
                let failure = Failure { message: message.as_str().into(), retriable: lasting.is_none() };
                let mishap = Mishap::Fail { failure, effect: *effect };
                self.plan_fault(*action, key, mishap, times.unwrap_or(1));
            }
            Command::Accept { action: Operation(action), key, within: Span(within) } => {
                self.plan_fault(*action, key, Mishap::Accept { within: *within }, 1);
            }
            Command::Hang(Operation(action), key) => self.plan_fault(*action, key, Mishap::Hang, 1),
            Command::Confirm(keys) => return self.notify(&verbs("confirm", keys)),
            Command::Release(keys) => return self.release(keys),
            Command::Cancel(reason) => return self.cancel(reason),
            Command::Advance(Span(span)) => return self.advance(*span),
            Command::Resync { what, flags, only: one, retry: period, count } => {
                only(flags, &["backoff", "keep"])?;
                let undeclared = match one {
                    Some(key) => Undeclared::RemoveOnly(Arc::new([Key::new(key)].into())),
                    None if flags.iter().any(|flag| flag == "keep") => Undeclared::Keep,
                    None => Undeclared::Remove,
                };
                return self.resync(what, retry(*period, *count, flags), undeclared);
            }
            Command::Refresh(keys) => {
                let keys = keys.iter().map(Key::new).collect();
                return self.run_txn(Txn::resync(Resync::Refresh(keys)), None);
            }
            Command::Restart(what) => return self.restart(what.as_deref().unwrap_or("full")),
            Command::Register(what) => {
                only(std::slice::from_ref(what), &["late"])?;
                self.world.register(&mut self.scheduler, kinds::LATE_KINDS)?;
                self.late = true;
                return self.run_due();
            }
            Command::Lose(keys) => {
                for key in keys {
                    self.world.lose(&Key::new(key))?;
                }
            }
            Command::Alter(key, pairs) => self.world.alter(&Key::new(key), &attrs(pairs))?,
            Command::Plant(key, whose, pairs) => {
                only(whose.as_slice(), &["foreign"])?;
                let origin = if whose.is_some() { Origin::Observed } else { Origin::Declared };
                self.world.plant(&Key::new(key), attrs(pairs), origin);
            }
            Command::Graph => return Ok(render::graph(&self.scheduler.items())),
            Command::Status(key) => return Ok(render::status(&self.scheduler.status(key))),
            Command::Explain(key) => return Ok(self.scheduler.explain(key).to_string()),
            Command::Timeline(key) => return Ok(self.timeline(key)),
            Command::History => return Ok(self.history()),
            Command::World => {
                let text = self.world.dump();
                return Ok(if text.is_empty() { "empty\n".to_owned() } else { text });
            }
            Command::Reads(kind) => {
                let readings = self.world.take_readings(kind);
                return Ok(readings.into_iter().map(|how| format!("{kind} {how}\n")).collect());
            }
        }
        Ok(String::new())
    }

    fn end_block(&mut self, _block: &Block) -> Result<String, Failed> {
        check::between(self)?;
        Ok(String::new())
    }

    fn end_script(&mut self) -> Result<(), Failed> {
        if self.drive.is_some() {
            return Err("the script ends while a transaction is under way".into());
        }
        match self.world.faults().first() {
            Some(fault) => Err(format!("a planned fault has not happened: {fault:?}").into()),
            None => Ok(()),
        }
    }
}

impl Scenario {
    fn plan_fault(&mut self, action: Action, key: &str, mishap: Mishap, times: u32) {
        self.world.plan_fault(Fault { action, key: Key::new(key), mishap, times });
    }
}

fn attrs(pairs: &[(String, String)]) -> Attrs {
    pairs.iter().cloned().collect()
}

fn verbs(verb: &str, keys: &[String]) -> Vec<(String, String)> {
    keys.iter().map(|key| (verb.to_owned(), key.clone())).collect()
}
