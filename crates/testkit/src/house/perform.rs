//! Performing what the loop asks for, on the fake world.

use std::sync::Arc;

use kilter_scheduler::{Change, Plan, Record, Request, Resync, Scheduler, Stage, Timestamp, Txn};

use crate::attrs::Attrs;
use crate::world::World;

/// Performs a transaction; the error says what was unsafe.
pub fn perform(
    scheduler: &mut Scheduler,
    world: &mut World,
    txn: Txn,
    now: Timestamp,
) -> Result<Arc<Record>, String> {
    tell_declared(scheduler, world, &txn);
    let mut memories = Vec::new();
    if let Request::Notification(seen) = &txn.request {
        for observation in seen {
            memories.push((observation.key.clone(), world.memory(&observation.key)));
            world.tell(&observation.key);
        }
    }
    scheduler.begin(txn, now);
    loop {
        match scheduler.stage() {
            Stage::Planned => scheduler.execute(),
            Stage::Refreshing | Stage::Walking => answer_next(scheduler, world, now)?,
            Stage::Ended | Stage::Idle => break,
        }
    }
    let record = scheduler.finish(now);
    for (key, memory) in memories {
        if record.ignored.contains(&key) {
            world.untell(memory);
        }
    }
    Ok(record)
}

/// Plans a transaction and drops it.
pub fn plan(
    scheduler: &mut Scheduler,
    world: &mut World,
    txn: Txn,
    now: Timestamp,
) -> Result<Option<Plan>, String> {
    tell_declared(scheduler, world, &txn);
    scheduler.begin(txn, now);
    while scheduler.stage() == Stage::Refreshing {
        answer_next(scheduler, world, now)?;
    }
    let plan = scheduler.plan().cloned();
    scheduler.abandon();
    Ok(plan)
}

fn answer_next(scheduler: &mut Scheduler, world: &mut World, now: Timestamp) -> Result<(), String> {
    let stage = scheduler.stage();
    let Some(operation) = scheduler.next() else {
        let moved = scheduler.stage() != stage;
        return if moved { Ok(()) } else { Err("the walk has not ended and offers no operation".to_owned()) };
    };
    let violations = world.violations(&operation.act);
    if !violations.is_empty() {
        return Err(format!("unsafe operation: {}", violations.join("; ")));
    }
    let answer = world.perform(&operation).ok_or("an operation hangs")?;
    scheduler.answer(operation.id, answer, now);
    Ok(())
}

fn tell_declared(scheduler: &Scheduler, world: &mut World, txn: &Txn) {
    let declared = scheduler.declared();
    let before = declared.iter().map(|(key, value)| (key, Attrs::of(value)));
    let asked = asked(txn).iter().filter_map(|change| Some((&change.key, Attrs::of(change.value.as_ref()?))));
    world.begin(before.chain(asked));
}

/// What a transaction asks of items.
pub(crate) fn asked(txn: &Txn) -> &[Change] {
    match &txn.request {
        Request::Changes { changes, .. }
        | Request::Resync(Resync::Full(changes) | Resync::Upstream(changes)) => changes,
        Request::Resync(Resync::Downstream | Resync::Refresh(_))
        | Request::Notification(_)
        | Request::Retry(_)
        | Request::LateKind
        | Request::Overdue(_) => &[],
    }
}
