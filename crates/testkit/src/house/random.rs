//! Random event sequences with random failures and panics, and what must hold in all of them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kilter_events::builtin::{ExternalChange, InputChange};
use kilter_events::{
    Direction, Event, EventRecord, Method, Provenance, Query, Scope, Severity, Step, UpdateMode, to_json,
};
use kilter_scheduler::{Action, Failure, Key, Outcome, State};
use serde_json::Value as Json;

use super::House;
use super::event::{Deed, Planned};
use super::handler::{Call, Mishap};
use crate::attrs::Attrs;
use crate::dice::Dice;
use crate::scenario::Failed;
use crate::world::{Effect, Fault, Mishap as WorldMishap};

const HANDLERS: [&str; 3] = ["one", "two", "three"];
const KINDS: [&str; 3] = ["a", "b", "c"];
const SOURCES: [&str; 3] = ["file", "api", "flow"];

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Happening {
    /// An event is pushed; somebody may wait for it.
    Push(Planned, bool),
    /// An input changes or goes.
    Input(&'static str, Key, Option<Attrs>),
    /// An external source declares an item or takes it back.
    External(&'static str, Key, Option<Attrs>),
    /// A handler will go wrong.
    Break(&'static str, Call, Mishap),
    /// An operation will fail.
    Fail(Action, Key, u32),
    /// Everything is said anew.
    Resync,
    /// The loop does what is ready.
    Run,
    /// Time passes.
    Advance(u64),
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown =
            |attrs: &Option<Attrs>| attrs.as_ref().map_or_else(|| "gone".to_owned(), Attrs::to_string);
        match self {
            Self::Push(event, waits) => {
                write!(f, "{} {} {:?}", if *waits { "call" } else { "push" }, event.name, event.method)?;
                event.deeds.iter().try_for_each(|(handler, deeds)| {
                    let deeds: Vec<String> = deeds.iter().map(Deed::to_string).collect();
                    write!(f, " {handler}=\"{}\"", deeds.join("; "))
                })
            }
            Self::Input(handler, key, attrs) => write!(f, "change {handler} {key} {}", shown(attrs)),
            Self::External(source, key, attrs) => write!(f, "external {source} {key} {}", shown(attrs)),
            Self::Break(handler, call, mishap) => write!(f, "break {handler} {call:?} {mishap:?}"),
            Self::Fail(action, key, times) => write!(f, "fail {} {key} times={times}", action.name()),
            Self::Resync => f.write_str("resync"),
            Self::Run => f.write_str("run"),
            Self::Advance(seconds) => write!(f, "advance {seconds}s"),
        }
    }
}

/// What happens under this seed.
pub fn history(seed: u64) -> Vec<Happening> {
    let mut dice = Dice::new(seed);
    let length = 5 + dice.below(30);
    let mut list = vec![Happening::Resync, Happening::Run];
    if dice.one_in(4) {
        list.clear();
    }
    for number in 0..length {
        list.push(happening(&mut dice, number));
    }
    list
}

fn happening(dice: &mut Dice, number: usize) -> Happening {
    match dice.below(20) {
        0..7 => Happening::Push(event(dice, &format!("E{number}"), 0), dice.one_in(2)),
        7..9 => {
            let attrs = (!dice.one_in(3)).then(|| attrs(dice));
            // Inputs and events want different items, so that no handler contradicts itself.
            Happening::Input(pick(dice, &HANDLERS), Key::new(format!("d/{}", 1 + dice.below(3))), attrs)
        }
        9 => Happening::External(pick(dice, &SOURCES), key(dice), (!dice.one_in(3)).then(|| attrs(dice))),
        10..13 => {
            let call = pick(
                dice,
                &[Call::Update, Call::Update, Call::Update, Call::Resync, Call::Revert, Call::Handles],
            );
            let mishap = match dice.below(20) {
                0..9 => Mishap::Error(Severity::Plain, "plain".to_owned()),
                9..14 => Mishap::Error(Severity::Abort, "abort".to_owned()),
                14..19 => Mishap::Panic("panic".to_owned()),
                _ => Mishap::Error(Severity::Fatal, "fatal".to_owned()),
            };
            let mishap = if call == Call::Handles { Mishap::Panic("panic".to_owned()) } else { mishap };
            Happening::Break(pick(dice, &HANDLERS), call, mishap)
        }
        13..15 => {
            let action = pick(dice, &[Action::Create, Action::Update, Action::Delete]);
            Happening::Fail(action, key(dice), 1 + u32::from(dice.one_in(3)))
        }
        15 => Happening::Resync,
        16..18 => Happening::Run,
        _ => Happening::Advance(1 + dice.number() % 12),
    }
}

fn pick<T: Copy>(dice: &mut Dice, things: &[T]) -> T {
    *dice.pick(things).expect("there is something to pick")
}

fn key(dice: &mut Dice) -> Key {
    Key::new(format!("{}/{}", pick(dice, &KINDS), 1 + dice.below(2)))
}

fn attrs(dice: &mut Dice) -> Attrs {
    let mut attrs = Attrs::default();
    attrs.push("v", (1 + dice.below(3)).to_string());
    if dice.one_in(3) {
        attrs.push("item", pick(dice, &["x", "y"]));
    }
    if dice.one_in(4) {
        attrs.push("on", key(dice).to_string());
    }
    attrs
}

fn event(dice: &mut Dice, name: &str, depth: usize) -> Planned {
    let method = match dice.below(12) {
        0 => Method::Resync(pick(dice, &[Scope::Full, Scope::Upstream, Scope::Downstream])),
        _ => Method::Update {
            mode: pick(
                dice,
                &[UpdateMode::BestEffort, UpdateMode::BestEffortIgnoringErrors, UpdateMode::RevertOnFailure],
            ),
            direction: if dice.one_in(3) { Direction::Reverse } else { Direction::Forward },
        },
    };
    let mut deeds: BTreeMap<String, Vec<Deed>> = BTreeMap::new();
    if let Method::Update { .. } = method {
        for (at, handler) in HANDLERS.iter().enumerate().filter(|_| !dice.one_in(3)).collect::<Vec<_>>() {
            let mut list = Vec::new();
            for _ in 0..1 + dice.below(2) {
                // Each handler has its own kind, so that what it wants is its own.
                let key = Key::new(format!("{}/{}", KINDS[at], 1 + dice.below(2)));
                list.push(match dice.below(6) {
                    0 => Deed::Remove(key),
                    1 => Deed::Get(key),
                    2 if depth < 2 => {
                        Deed::Follow(Box::new(event(dice, &format!("{name}{depth}{at}"), depth + 1)))
                    }
                    3 => Deed::Ask("something".to_owned()),
                    _ => Deed::Put(key, attrs(dice)),
                });
            }
            deeds.insert((*handler).to_owned(), list);
        }
    }
    Planned { name: name.to_owned(), method, deeds }
}

/// Carries a history out and checks every property.
pub fn run(list: &[Happening]) -> Result<(), Failed> {
    let mut house = lived(list)?;
    let mut seen = Seen::default();
    house.check_replay()?;
    house.push_shutdown()?.map_err(|error| format!("a shutdown was refused: {error}"))?;
    go_on(&mut house, &mut seen)?;
    house.take_answers();
    house.check_answered()
}

/// A house in which all of it has happened, and everything has come to rest.
pub fn lived(list: &[Happening]) -> Result<House, Failed> {
    let mut house = House::new();
    house.settings.insert("verification".to_owned(), Json::Bool(list.len().is_multiple_of(2)));
    house.settings.insert("healing-attempts".to_owned(), Json::from(4));
    let mut seen = Seen::default();
    for happening in list {
        happen(&mut house, &mut seen, happening)?;
        house.take_answers();
        house.check_idle()?;
    }
    converge(&mut house, &mut seen)?;
    Ok(house)
}

fn happen(house: &mut House, seen: &mut Seen, happening: &Happening) -> Result<(), Failed> {
    // A full queue is no matter here: the producer is told.
    match happening {
        Happening::Push(event, waits) => {
            let _ = house.push(event.event(), waits.then_some(event.name.as_str()))?;
        }
        Happening::Input(handler, key, attrs) => {
            let old = house.set_input(handler, key, attrs.as_ref());
            let (resource, name) = ((*handler).to_owned(), key.to_string());
            let change = InputChange { resource, name, old, new: attrs.as_ref().map(to_json) };
            let _ = house.push(Event::new(change), None)?;
        }
        Happening::External(source, key, attrs) => {
            let changes = BTreeMap::from([(key.clone(), attrs.as_ref().map(Attrs::to_value))]);
            let _ = house.push(Event::new(ExternalChange { source: (*source).to_owned(), changes }), None)?;
        }
        Happening::Break(handler, call, mishap) => {
            house.handler(handler)?.mind().mishaps.plan(*call, mishap, 1)
        }
        Happening::Fail(action, key, times) => {
            let (failure, effect) = (Failure::retriable("planned"), Effect::Before);
            let mishap = WorldMishap::Fail { failure, effect };
            house.world().plan_fault(Fault { action: *action, key: key.clone(), mishap, times: *times });
        }
        Happening::Resync => {
            let _ = house.push_resync(false)?;
        }
        Happening::Run => go_on(house, seen)?,
        Happening::Advance(seconds) => advance(house, seen, Duration::from_secs(*seconds))?,
    }
    Ok(())
}

/// What was there before the event under way.
#[derive(Default)]
struct Seen {
    handlers: Vec<String>,
    world: String,
    /// Who declares each item.
    provenance: Vec<Provenance>,
    /// Whether something had failed before, so that the world may move.
    unsettled: bool,
}

/// Lets the loop do everything that is ready, and looks at every event.
fn go_on(house: &mut House, seen: &mut Seen) -> Result<(), Failed> {
    for _ in 0..10_000 {
        match house.step()? {
            Step::Opened(_) => {
                let items = house.events()?.scheduler().items();
                seen.unsettled = items.iter().any(|item| {
                    matches!(item.state, State::Failed | State::Retrying) || !item.held_by.is_empty()
                });
                seen.handlers = house.handlers.iter().map(|handler| handler.mind().text()).collect();
                seen.world = house.world().dump();
                seen.provenance = provenance(house)?;
            }
            Step::Closed(record) => no_trace(house, seen, &record)?,
            Step::Perform(effect) => {
                let _ = house.producer()?.push_ended(effect.ended(Ok(Json::Null)));
            }
            Step::Wait(_) | Step::Stopped => return Ok(()),
            Step::Commit(_) | Step::Plan(_) | Step::Fatal(_) => {}
        }
    }
    Err("the loop does not come to rest".into())
}

/// Who declares each of the items that events are about.
fn provenance(house: &mut House) -> Result<Vec<Provenance>, Failed> {
    let keys = KINDS.iter().flat_map(|kind| (1..=2).map(move |number| format!("{kind}/{number}")));
    keys.map(|key| Ok(house.events()?.provenance(&key))).collect()
}

/// An event that was reverted left no trace, in handlers nor in the world.
fn no_trace(house: &mut House, seen: &Seen, record: &EventRecord) -> Result<(), Failed> {
    let went_back = record.handlers.iter().all(|one| !one.revert || one.error.is_none());
    let clean =
        !record.failures.iter().any(|failure| failure.panicked || failure.severity == Severity::Fatal);
    let txn_back = record.txn.as_ref().is_none_or(|txn| matches!(txn.outcome, Outcome::Reverted(_)));
    let reverts = record.method.mode() == Some(UpdateMode::RevertOnFailure);
    if !reverts || record.failures.is_empty() || !went_back || !clean || !txn_back {
        return Ok(());
    }
    let handlers: Vec<String> = house.handlers.iter().map(|handler| handler.mind().text()).collect();
    if handlers != seen.handlers {
        let (before, after) = (&seen.handlers, &handlers);
        return Err(format!("a reverted event left a trace in handlers: {before:?} → {after:?}").into());
    }
    if provenance(house)? != seen.provenance {
        return Err("a reverted event left a trace in what handlers are known to declare".into());
    }
    let world = house.world().dump();
    if world != seen.world && !seen.unsettled {
        let before = &seen.world;
        return Err(format!("a reverted event left a trace in the world:\n{before}→\n{world}").into());
    }
    Ok(())
}

fn advance(house: &mut House, seen: &mut Seen, span: Duration) -> Result<(), Failed> {
    let target = house.clock().now().after(span);
    loop {
        go_on(house, seen)?;
        let now = house.clock().now();
        let Step::Wait(Some(deadline)) = house.events()?.next(now) else { break };
        if deadline > target {
            break;
        }
        house.clock().advance_to(deadline);
    }
    house.clock().advance_to(target);
    Ok(())
}

/// Faults stop; once everything is said anew, verification plans nothing.
fn converge(house: &mut House, seen: &mut Seen) -> Result<(), Failed> {
    house.world().clear_faults();
    house.events()?;
    house.handlers.iter().for_each(|handler| handler.mind().mishaps.clear());
    let _ = house.push_resync(false)?;
    advance(house, seen, Duration::from_secs(600))?;
    if house.events()?.fatal().is_some() {
        return Ok(());
    }
    let _ = house.push_resync(false)?;
    go_on(house, seen)?;
    let live = house.events()?.health().is_live();
    let last = house.events()?.history().query(Query::Last(1));
    let record = last.first().ok_or("nothing was remembered")?;
    if let Some(difference) = record.differences.first() {
        return Err(format!("verification after convergence: {difference}").into());
    }
    if let (Some(cause), true) = (record.cause(), live) {
        return Err(format!("after convergence event #{} fails: {cause}", record.seq).into());
    }
    Ok(())
}
