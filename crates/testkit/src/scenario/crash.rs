//! Crashes: the agent of a script is stopped at an operation, started anew, and must reach the same world.
//!
//! Decided here: what is compared. A run that was not interrupted is taken to the end of the same command; then, in both
//! runs, faults stop, time passes and everything declared is told again until all is at rest. Two things are left out of
//! the comparison, since nobody can tell them to a fresh agent: what is left of a kind that cannot be read, and the value
//! that a foreign item had before the agent changed it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::time::Duration;

use goldenscript::{Block, Context, Runner};
use kilter_scheduler::{Action, Key, Origin, Reads, Undeclared};

use super::command::Command;
use super::{Failed, Scenario, check};
use crate::attrs::Attrs;
use crate::kinds;
use crate::world::World;

/// Longer than any retry or confirmation of a script takes.
const REST: Duration = Duration::from_secs(3600);

/// Where the agent is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Before this operation of the script, counted from 0: it does not happen.
    Before(usize),
    /// After this operation: it happens, and the agent does not learn of it.
    After(usize),
}

/// Counts operations and stops the agent at the right one.
#[derive(Debug, Default)]
pub(super) struct Watch {
    at: Option<Crash>,
    operations: usize,
    happened: bool,
}

impl Watch {
    /// Lets an operation happen, unless the agent is stopped first; the error says that it was stopped.
    pub(super) fn around<T>(&mut self, operation: impl FnOnce() -> T) -> Result<T, Failed> {
        let number = self.operations;
        self.operations += 1;
        if self.at == Some(Crash::Before(number)) {
            self.happened = true;
            return Err("the agent was stopped".into());
        }
        let result = operation();
        if self.at == Some(Crash::After(number)) {
            self.happened = true;
            return Err("the agent was stopped".into());
        }
        Ok(result)
    }
}

/// What a fresh agent is told is declared.
type Told<'a> = &'a dyn Fn(&BTreeMap<Key, Attrs>) -> BTreeMap<Key, Attrs>;

/// Stops the script before and after each of its operations, and after each of its commands; how many times it was
/// stopped.
///
/// **Guarantees** that each time, the world reached by a fresh agent that was told everything declared is the one that an
/// agent reaches which was not stopped; the error names the first crash for which it is not.
pub fn survives_every_crash(script: &str) -> Result<usize, Failed> {
    try_every_crash(script, &Clone::clone)
}

fn try_every_crash(script: &str, told: Told<'_>) -> Result<usize, Failed> {
    let whole = Interrupted::run(script, None, usize::MAX)?;
    let operations =
        (0..whole.scenario.crash.operations).flat_map(|at| [Crash::Before(at), Crash::After(at)]);
    let crashes = operations.map(Some).zip(std::iter::repeat(usize::MAX));
    let pauses = (1..=whole.commands).map(|commands| (None, commands));
    let mut rests: BTreeMap<usize, Rest> = BTreeMap::new();
    let mut stops = 0;
    for (crash, limit) in crashes.chain(pauses) {
        let stopped = Interrupted::run(script, crash, limit)?;
        assert_eq!(stopped.scenario.crash.happened, crash.is_some(), "a script does the same every time");
        let commands = stopped.commands;
        let rest = match rests.entry(commands) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(Rest::after(script, commands)?),
        };
        let ended = end_anew(stopped.scenario, rest, told);
        ended.map_err(|error| format!("stopped in command {commands}, {crash:?}: {error}"))?;
        stops += 1;
    }
    Ok(stops)
}

/// What an agent reaches that was not stopped.
struct Rest {
    declared: BTreeMap<Key, Attrs>,
    world: World,
}

impl Rest {
    fn after(script: &str, commands: usize) -> Result<Self, Failed> {
        let mut calm = Interrupted::run(script, None, commands)?.scenario;
        calm.come_to_rest()?;
        Ok(Self { declared: calm.declared, world: calm.world })
    }
}

/// Starts a fresh agent and compares what it reaches.
fn end_anew(mut anew: Scenario, rest: &Rest, told: Told<'_>) -> Result<(), Failed> {
    anew.restart_after_crash(told(&rest.declared))?;
    anew.come_to_rest()?;
    check::between(&mut anew)?;
    let is_changed = |key: &Key| {
        let updated =
            |world: &World| world.log().iter().any(|op| op.action == Action::Update && op.key == *key);
        updated(&rest.world) || updated(&anew.world)
    };
    let (without, with) = (comparable(&rest.world, is_changed), comparable(&anew.world, is_changed));
    if without == with {
        return Ok(());
    }
    Err(format!("the fresh agent ends up elsewhere\nwithout:\n{without}with:\n{with}").into())
}

/// What exists and can be compared, one line per item.
fn comparable(world: &World, is_changed: impl Fn(&Key) -> bool) -> String {
    let mut text = String::new();
    for (key, thing) in world.things() {
        if kinds::kind_of(key).is_some_and(|kind| kind.reads() == Reads::Never) {
            continue;
        }
        let hidden = thing.origin == Origin::Observed && is_changed(key);
        let value = if hidden { "changed".to_owned() } else { thing.value.to_string() };
        writeln!(text, "{key} {:?} {value}", thing.origin).expect("writing to a string cannot fail");
    }
    text
}

impl Scenario {
    /// A fresh agent finds the world as it was left, and is told what is declared. Faults go on.
    fn restart_after_crash(&mut self, declared: BTreeMap<Key, Attrs>) -> Result<(), Failed> {
        self.crash = Watch::default();
        self.drive = None;
        self.asked = None;
        self.staged.clear();
        self.declared = declared;
        self.restart("full").map(drop)
    }

    /// Faults stop, what hangs happens, time passes, and everything declared is told again.
    fn come_to_rest(&mut self) -> Result<(), Failed> {
        self.world.clear_faults();
        self.staged.clear();
        while self.drive.is_some() {
            let hung = self.world.hung_keys();
            self.release(&hung)?;
        }
        for _ in 0..2 {
            self.advance(REST)?;
            self.resync("full", None, Undeclared::Remove)?;
        }
        self.advance(REST).map(drop)
    }
}

/// A script that is not run to its end.
struct Interrupted {
    scenario: Scenario,
    /// How many commands were begun.
    commands: usize,
    /// How many are begun at most.
    limit: usize,
}

impl Interrupted {
    fn run(script: &str, crash: Option<Crash>, limit: usize) -> Result<Self, Failed> {
        let mut interrupted = Self { scenario: Scenario::new(), commands: 0, limit };
        interrupted.scenario.crash.at = crash;
        goldenscript::generate(&mut interrupted, script)?;
        Ok(interrupted)
    }
}

impl Runner for Interrupted {
    type Command = Command;

    fn run(&mut self, command: &Command, context: &Context) -> Result<String, Failed> {
        let over = |fail: bool| if fail { Err("the script is over".into()) } else { Ok(String::new()) };
        if self.scenario.crash.happened || self.commands == self.limit {
            return over(context.fail);
        }
        self.commands += 1;
        match self.scenario.run(command, context) {
            Err(_) if self.scenario.crash.happened => over(context.fail),
            result => result,
        }
    }

    fn end_block(&mut self, block: &Block) -> Result<String, Failed> {
        let over = self.scenario.crash.happened || self.commands == self.limit;
        if over { Ok(String::new()) } else { self.scenario.end_block(block) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "put a/one v=1\nput a/two on=a/one\ncommit\n---\n\nremove a/one\ncommit\n---\n";

    #[test]
    fn every_operation_is_stopped_twice_and_every_command_once() {
        // Two are created, and both are deleted again, by five commands.
        assert_eq!(survives_every_crash(SCRIPT).unwrap(), 2 * 4 + 5);
    }

    #[test]
    fn agent_that_is_told_less_is_found_out() {
        let error = try_every_crash(SCRIPT, &|_| BTreeMap::new()).unwrap_err().to_string();
        assert!(
            error.starts_with("stopped in command 3, Some(Before(0)): the fresh agent ends up elsewhere"),
            "{error}"
        );
    }

    #[test]
    fn agent_that_is_told_something_else_is_found_out() {
        let told = |declared: &BTreeMap<Key, Attrs>| {
            declared.keys().map(|key| (key.clone(), Attrs::parse("v=2").unwrap())).collect()
        };
        assert!(try_every_crash(SCRIPT, &told).is_err());
    }
}
