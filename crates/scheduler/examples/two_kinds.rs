//! A world of two kinds: taps, and routes that need a tap. Run it with
//! `cargo run -p kilter-scheduler --example two_kinds`.

#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::collections::BTreeMap;

use kilter_scheduler::{
    Act, Answer, Change, Key, Kind, Needs, Operation, Scheduler, Stage, Step, Timestamp, Transition, Txn,
    ValueRef, describe,
};
use serde::Serialize;

#[derive(Debug, PartialEq, Serialize)]
struct Tap {
    rx_ring: u32,
}

#[derive(Debug, PartialEq, Serialize)]
struct Route {
    via: String,
}

struct TapKind;

impl Kind for TapKind {
    type Value = Tap;
    const NAME: &'static str = "example.tap";
    const KEYS: &'static [&'static str] = &["tap/*"];

    /// The size of a ring cannot be changed while the tap exists.
    fn transition(&self, _key: &Key, old: &Tap, new: &Tap) -> Transition {
        Transition::Recreate { reason: format!("rx-ring {} → {}", old.rx_ring, new.rx_ring) }
    }
}

struct RouteKind;

impl Kind for RouteKind {
    type Value = Route;
    const NAME: &'static str = "example.route";
    const KEYS: &'static [&'static str] = &["route/*"];

    fn needs(&self, _key: &Key, route: &Route, needs: &mut Needs) {
        needs.on(format_args!("tap/{}", route.via));
    }
}

/// What makes things real; here, a map.
#[derive(Default)]
struct World(BTreeMap<Key, ValueRef>);

impl World {
    fn perform(&mut self, operation: Operation) -> Answer {
        match operation.act {
            Act::Create { key, value } | Act::Update { key, new: value, .. } => {
                self.0.insert(key, value);
            }
            Act::Delete { key, .. } => {
                self.0.remove(&key);
            }
            Act::Retrieve { .. } | Act::RetrieveAll { .. } => return Answer::Absent,
        }
        Answer::done()
    }
}

/// Carries out one transaction and prints its plan first.
fn apply(scheduler: &mut Scheduler, world: &mut World, changes: Vec<Change>) {
    let now = Timestamp(0);
    let seq = scheduler.begin(Txn::changes(changes), now);
    println!("txn #{seq}");
    for step in scheduler.plan().map_or(&[] as &[Step], |plan| &plan.steps) {
        println!("  {:<8} {:<16} → {}", step.action.name(), step.key, step.after.state);
    }
    scheduler.execute();
    while scheduler.stage() == Stage::Walking {
        for operation in scheduler.ready() {
            let id = operation.id;
            let answer = world.perform(operation);
            scheduler.answer(id, answer, now);
        }
    }
    scheduler.finish(now);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut scheduler = Scheduler::default();
    scheduler.register(describe(TapKind)?)?;
    scheduler.register(describe(RouteKind)?)?;
    let mut world = World::default();

    let tap = |rx_ring| Change::put("tap/blue", ValueRef::new(Tap { rx_ring }));
    let route = Change::put("route/home", ValueRef::new(Route { via: "blue".to_owned() }));

    apply(&mut scheduler, &mut world, vec![route]);
    println!("{}", scheduler.explain("route/home"));
    apply(&mut scheduler, &mut world, vec![tap(256)]);
    apply(&mut scheduler, &mut world, vec![tap(512)]);
    println!("the world: {:?}", world.0);
    Ok(())
}
