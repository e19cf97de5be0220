//! What must hold after every transaction.

use std::collections::{BTreeMap, BTreeSet};

use kilter_scheduler::{Change, Item, Key, Origin, Record, State};

use super::Command;
use super::run::Run;
use crate::attrs::Attrs;
use crate::kinds::kind_of;
use crate::model::{Given, available};

/// What the scheduler believes agrees with the world, and what exists agrees with the reference model.
pub(super) fn agrees(run: &Run) -> Result<(), String> {
    let items: BTreeMap<Key, Item> =
        run.scheduler.items().into_iter().map(|item| (item.key.clone(), item)).collect();
    belief_is_true(run, &items)?;
    let given = given(run, &items);
    let expected = available(&given);
    let keys: BTreeSet<&Key> = items.keys().chain(&expected).collect();
    for key in keys {
        let item = items.get(key);
        let state = item.map_or(State::Nonexistent, |item| item.state);
        let exists = item.is_some_and(|item| item.actual.is_some());
        let open = matches!(state, State::Failed | State::Retrying | State::Applying | State::Removing)
            || item.is_some_and(|item| !item.held_by.is_empty() || item.error.is_some())
            || (state == State::Missing
                && run.scheduler.item(key.as_str()).is_some_and(|item| item.unmet.is_empty()));
        if !open && exists != expected.contains(key) {
            return Err(format!(
                "the model: {key} should {}exist and is {state}",
                if expected.contains(key) { "" } else { "not " }
            ));
        }
        if let Some(item) = item {
            right_state(run, item, &given, &expected)?;
        }
    }
    Ok(())
}

/// What the scheduler takes for real is what it was told.
fn belief_is_true(run: &Run, items: &BTreeMap<Key, Item>) -> Result<(), String> {
    for (key, item) in items {
        let Some(kind) = kind_of(key) else { continue };
        if item.base.is_some() && item.origin == Origin::Observed {
            continue; // What a foreign item derives is there with it; nobody tells about it.
        }
        let late = key.as_str().starts_with("late/") && !run.late;
        if run.drifted.contains(key) || run.world.doubt(key).is_some() || late {
            continue;
        }
        let believed = item.actual.as_ref().map(|value| kind.own(Attrs::of(value)));
        let real = run.world.get(key).map(|thing| kind.own(&thing.value));
        if believed != real {
            return Err(format!("belief: {key} is taken for {believed:?} and is {real:?}"));
        }
    }
    for (key, thing) in run.world.things() {
        let known = items.get(key).is_some_and(|item| item.actual.is_some());
        let late = key.as_str().starts_with("late/") && !run.late;
        let excused = run.drifted.contains(key) || run.world.doubt(key).is_some() || late;
        if thing.origin == Origin::Declared && !known && !excused {
            return Err(format!("belief: {key} exists and is not known"));
        }
    }
    Ok(())
}

fn given(run: &Run, items: &BTreeMap<Key, Item>) -> Given {
    let mut given = Given { declared: run.declared.clone(), late: run.late, ..Given::default() };
    for (key, item) in items {
        if let Some(value) = &item.actual {
            given.actual.insert(key.clone(), Attrs::of(value).clone());
        }
        let exists = item.actual.is_some();
        if item.origin == Origin::Observed && exists {
            given.observed.insert(key.clone());
            given.standing.insert(key.clone());
        }
        if item.state == State::Invalid && item.origin == Origin::Observed {
            given.refused.insert(key.clone());
        }
        if item.state == State::Discovered && item.declared.is_none() {
            given.standing.insert(key.clone());
        }
        let failed = matches!(item.state, State::Failed | State::Retrying);
        if item.state == State::Removing || (!exists && (failed || item.state == State::Applying)) {
            given.impossible.insert(key.clone());
        }
        let reached = item.actual.as_ref().map(Attrs::of) == run.declared.get(key);
        if failed
            || item.state == State::Applying
            || item.state == State::Removing
            || !item.held_by.is_empty()
            || !reached
        {
            given.unfinished.insert(key.clone());
        }
    }
    given
}

fn right_state(run: &Run, item: &Item, given: &Given, expected: &BTreeSet<Key>) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("state: {} is {}: {why}", item.key, item.state));
    let declared = run.declared.get(&item.key);
    let invalid = declared.is_some_and(|attrs| attrs.get("invalid").is_some());
    let derived = item.base.is_some();
    match item.state {
        State::Pending if expected.contains(&item.key) && !given.observed.contains(&item.key) => {
            wrong("nothing is missing")
        }
        State::Pending if !derived && declared.is_none() => wrong("nobody declares it"),
        State::Pending if item.unmet.is_empty() && !derived => wrong("it does not say what it waits for"),
        State::Configured if !derived && declared.is_none() && item.held_by.is_empty() => {
            wrong("nobody declares it")
        }
        State::Configured if !derived && item.held_by.is_empty() && !invalid => {
            let kind = kind_of(&item.key);
            let actual = item.actual.as_ref().map(|value| Attrs::of(value).clone());
            let same = match (kind, &actual, declared) {
                (Some(kind), Some(actual), Some(declared)) => kind.same(actual, declared),
                _ => false,
            };
            if same || run.drifted.contains(&item.key) { Ok(()) } else { wrong("it is not as declared") }
        }
        // A declaration that would have to delete what was not made here is refused too.
        State::Invalid if !invalid && !given.observed.contains(&item.key) => wrong("its value is fine"),
        State::Obtained if !given.observed.contains(&item.key) => wrong("it is ours"),
        State::Unimplemented if run.late => wrong("its kind is registered"),
        State::Removed | State::Nonexistent => wrong("it should not be seen between transactions"),
        State::Missing
        | State::Unimplemented
        | State::Configured
        | State::Obtained
        | State::Discovered
        | State::Pending
        | State::Invalid
        | State::Failed
        | State::Retrying
        | State::Applying
        | State::Removing => Ok(()),
    }
}

/// The same declarations, made at once on a fresh scheduler over a world with the same foreign items, lead to the same
/// items. Left out when the history decides: values that were refused over applied ones, and what is needed only for a
/// creation.
pub(super) fn history_does_not_matter(run: &Run, commands: &[Command]) -> Result<(), String> {
    let decides =
        |attrs: &Attrs| attrs.iter().any(|(name, _)| matches!(name, "invalid" | "on-create" | "any-create"));
    let history_decides = commands.iter().any(|command| {
        matches!(command, Command::Observe(key, _) if !key.as_str().starts_with("host/"))
            || matches!(command, Command::Put(_, attrs) if decides(attrs))
    });
    if history_decides {
        return Ok(());
    }
    let mut fresh = Run::new();
    if run.late {
        fresh
            .world
            .register(&mut fresh.scheduler, crate::kinds::LATE_KINDS)
            .expect("the test kinds do not overlap");
        fresh.late = true;
    }
    for (key, thing) in run.world.things().filter(|(_, thing)| thing.origin == Origin::Observed) {
        let seen = fresh.world.observe(key, thing.value.clone());
        fresh.world.tell(key);
        fresh.apply(kilter_scheduler::Txn::notification(vec![seen]))?;
    }
    fresh.declared.clone_from(&run.declared);
    let changes =
        run.declared.iter().map(|(key, attrs)| Change::put(key.clone(), attrs.to_value())).collect();
    fresh.apply(kilter_scheduler::Txn::changes(changes))?;
    same_items(
        "history independence: a fresh start leads elsewhere",
        &run.scheduler.items(),
        &fresh.scheduler.items(),
    )
}

/// Tells what a transaction did, for whoever looks into a failing seed.
#[expect(clippy::print_stderr, reason = "asked for by SIMULATE_TRACE")]
pub(super) fn trace(record: &Record) {
    eprintln!("txn #{} {:?} → {:?}", record.seq, record.txn_type, record.outcome);
    for step in record.steps() {
        let error = step.error.as_deref().map(|error| format!(" ✗ {error}")).unwrap_or_default();
        eprintln!(
            "  {:<8} {:<24} {} → {}{error}",
            step.action.name(),
            step.key,
            step.before.state,
            step.after.state
        );
    }
}

/// Whether the item has not reached its goal for a reason other than a dependency.
pub(super) fn is_unsettled(item: &Item) -> bool {
    matches!(
        item.state,
        State::Failed | State::Retrying | State::Applying | State::Removing | State::Missing | State::Invalid
    ) || !item.held_by.is_empty()
}

pub(super) fn same(what: &str, before: &str, after: &str) -> Result<(), String> {
    if before == after { Ok(()) } else { Err(format!("{what}\nbefore:\n{before}after:\n{after}")) }
}

pub(super) fn same_items(what: &str, before: &[Item], after: &[Item]) -> Result<(), String> {
    let text = |items: &[Item]| {
        items
            .iter()
            .map(|item| {
                format!(
                    "{} {} {:?} {:?} {:?}\n",
                    item.key, item.state, item.declared, item.actual, item.unmet
                )
            })
            .collect::<String>()
    };
    same(what, &text(before), &text(after))
}
