//! What is asserted without being asked.

use kilter_scheduler::{Action, Change, Key, Reads, Record, Resync, Stage, State, Step, Txn, Undeclared};

use super::{Failed, Scenario};
use crate::attrs::Attrs;
use crate::kinds;
use crate::render;
use crate::world::Doubt;

/// Planned is executed, unless something failed; in a random order, the same operations are.
pub(super) fn record(record: &Record, disturbed: bool, any_order: bool) -> Result<(), Failed> {
    let failed = disturbed || !record.failures.is_empty();
    let Some(planned) = record.planned.as_deref().filter(|_| !failed) else { return Ok(()) };
    let sorted = |steps: &[Step]| {
        let mut steps: Vec<(Key, Action)> =
            steps.iter().map(|step| (step.key.clone(), step.action)).collect();
        steps.sort();
        steps
    };
    let kept = if any_order { sorted(planned) == sorted(record.steps()) } else { planned == record.steps() };
    if kept {
        return Ok(());
    }
    let (planned, executed) = (render::steps(planned), render::steps(record.steps()));
    Err(format!("planned and executed differ\nplanned:\n{planned}executed:\n{executed}").into())
}

/// A reverted transaction left no trace.
pub(super) fn no_trace(
    scenario: &Scenario,
    record: &Record,
    graph_before: &str,
    world_before: &str,
) -> Result<(), Failed> {
    let asked = |key: &Key| {
        let base = kinds::base_of(key).unwrap_or_else(|| key.clone());
        record.arguments.iter().any(|argument| argument.key == base || argument.key == *key)
    };
    if !record.failures.iter().all(|failure| asked(&failure.key)) {
        return Ok(());
    }
    let graph = render::graph(&scenario.scheduler.items());
    if graph != graph_before {
        return Err(
            format!("a reverted transaction left a trace\nbefore:\n{graph_before}after:\n{graph}").into()
        );
    }
    let world = scenario.world.dump();
    if world != world_before {
        return Err(format!(
            "a reverted transaction left a trace in the world\nbefore:\n{world_before}after:\n{world}"
        )
        .into());
    }
    Ok(())
}

/// Everything that holds between transactions.
pub(super) fn between(scenario: &mut Scenario) -> Result<(), Failed> {
    if scenario.drive.is_some() {
        return Ok(());
    }
    scenario.scheduler.check_invariants();
    read_back(scenario)?;
    agreement(scenario)?;
    needs_are_met(scenario)?;
    applying_again_plans_nothing(scenario)
}

/// After a failure, the item was read if its kind can be read.
fn read_back(scenario: &Scenario) -> Result<(), Failed> {
    for (key, doubt) in scenario.world.doubts() {
        let reads = kinds::kind_of(key).map(|kind| kind.reads());
        if doubt == Doubt::Unread && reads != Some(Reads::Never) {
            return Err(format!("`{key}` failed and was not read back").into());
        }
    }
    Ok(())
}

/// What the scheduler believes is what it was told.
fn agreement(scenario: &Scenario) -> Result<(), Failed> {
    let world = &scenario.world;
    let items = scenario.scheduler.items();
    for item in &items {
        let Some(kind) = item.kind.as_ref().and_then(|_| kinds::kind_of(&item.key)) else { continue };
        // What a foreign item derives is there with it; nobody tells about it.
        let foreign_part = item.base.is_some() && item.origin == kilter_scheduler::Origin::Observed;
        if world.doubt(&item.key).is_some() || foreign_part {
            continue;
        }
        let key = &item.key;
        match (item.actual.as_ref().map(Attrs::of), world.told(key)) {
            (None, None) => {}
            (Some(believed), Some(told)) if kind.same(believed, told) => {}
            (Some(believed), Some(told)) => {
                return Err(format!("`{key}` is `{told}`, and the scheduler believes `{believed}`").into());
            }
            (Some(_), None) => return Err(format!("the scheduler believes that `{key}` exists").into()),
            (None, Some(_)) => {
                return Err(format!("the scheduler believes that `{key}` does not exist").into());
            }
        }
    }
    for key in world.told_keys().filter(|key| world.doubt(key).is_none()) {
        if !items.iter().any(|item| item.key == *key) {
            return Err(format!("the scheduler has forgotten `{key}`, which exists").into());
        }
    }
    Ok(())
}

/// Nothing is actual without what it needs, unless a failure or a late confirmation explains it.
fn needs_are_met(scenario: &Scenario) -> Result<(), Failed> {
    for (key, need) in scenario.world.unmet() {
        let status = scenario.scheduler.status(key.as_str());
        let explained = matches!(
            status.state,
            State::Failed | State::Retrying | State::Applying | State::Removing | State::Obtained
        );
        if !explained && status.held_by.is_empty() && scenario.world.doubt(&key).is_none() {
            return Err(format!("`{key}` exists without {need:?} and is {}", status.state).into());
        }
    }
    Ok(())
}

/// Declaring the same again plans nothing, except that what is refused is refused again; planning changes nothing.
fn applying_again_plans_nothing(scenario: &mut Scenario) -> Result<(), Failed> {
    let items = scenario.scheduler.items();
    let unsettled = items.iter().any(|item| {
        let unsettled = matches!(
            item.state,
            State::Failed | State::Retrying | State::Missing | State::Applying | State::Removing
        );
        unsettled || !item.held_by.is_empty()
    });
    if unsettled || scenario.cancelled {
        return Ok(());
    }
    let declared = || -> Vec<Change> {
        scenario.declared.iter().map(|(key, value)| Change::put(key.clone(), value.to_value())).collect()
    };
    let mut txns = vec![("changes", Txn::changes(declared()))];
    let upstream = Txn::resync(Resync::Upstream(declared()));
    txns.push(("an upstream resync that keeps", upstream.clone().with_undeclared(Undeclared::Keep)));
    if !items.iter().any(|item| item.state == State::Discovered) {
        txns.push(("an upstream resync", upstream));
    }
    for (what, txn) in txns {
        let before = render::graph(&scenario.scheduler.items());
        scenario.scheduler.begin(txn, scenario.clock.now());
        assert_eq!(scenario.scheduler.stage(), Stage::Planned, "nothing has to be read to plan {what}");
        let plan = scenario.scheduler.plan().ok_or("a planned transaction has a plan")?;
        let steps = plan.steps.iter().filter(|step| step.action != Action::Refuse);
        let steps: String = steps.map(|step| render::step(step) + "\n").collect();
        scenario.scheduler.abandon();
        if !steps.is_empty() {
            return Err(format!("declaring the same again, as {what}, plans something\n{steps}").into());
        }
        let after = render::graph(&scenario.scheduler.items());
        if before != after {
            return Err(format!("an abandoned plan left a trace\nbefore:\n{before}after:\n{after}").into());
        }
    }
    Ok(())
}
