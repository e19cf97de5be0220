//! The items of the benchmark: interfaces that derive two addresses each, routes that need an interface, and steps that
//! need other steps.

use kilter_scheduler::{Change, Derived, Key, Kind, Needs, Scheduler, ValueRef, describe};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Interface {
    mtu: u32,
    addresses: [u32; 2],
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Address {
    address: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Route {
    destination: u32,
    interface: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Step {
    needs: Vec<String>,
}

struct InterfaceKind;

impl Kind for InterfaceKind {
    type Value = Interface;
    const NAME: &'static str = "bench.interface";
    const KEYS: &'static [&'static str] = &["interface/*"];

    fn derive(&self, key: &Key, value: &Interface, derived: &mut Derived) {
        for address in value.addresses {
            derived.item(format_args!("{key}/address/{address}"), Address { address });
        }
    }
}

struct AddressKind;

impl Kind for AddressKind {
    type Value = Address;
    const NAME: &'static str = "bench.address";
    const KEYS: &'static [&'static str] = &["interface/*/address/*"];
}

struct RouteKind;

impl Kind for RouteKind {
    type Value = Route;
    const NAME: &'static str = "bench.route";
    const KEYS: &'static [&'static str] = &["route/*"];

    fn needs(&self, _key: &Key, value: &Route, needs: &mut Needs) {
        needs.on(format_args!("interface/if{:07}", value.interface));
    }
}

struct StepKind;

impl Kind for StepKind {
    type Value = Step;
    const NAME: &'static str = "bench.step";
    const KEYS: &'static [&'static str] = &["step/*"];

    fn needs(&self, _key: &Key, value: &Step, needs: &mut Needs) {
        for key in &value.needs {
            needs.on(key);
        }
    }
}

pub(crate) fn register(scheduler: &mut Scheduler) -> anyhow::Result<()> {
    for descriptor in
        [describe(InterfaceKind)?, describe(AddressKind)?, describe(RouteKind)?, describe(StepKind)?]
    {
        scheduler.register(descriptor)?;
    }
    Ok(())
}

fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

pub(crate) fn interface(at: usize) -> Change {
    let value = Interface { mtu: 1500, addresses: [number(at), number(at) ^ 0x4000_0000] };
    Change::put(format!("interface/if{at:07}"), ValueRef::new(value))
}

pub(crate) fn route(at: usize, interface: usize) -> Change {
    let value = Route { destination: number(at), interface: number(interface) };
    Change::put(format!("route/to{at:07}"), ValueRef::new(value))
}

pub(crate) fn step(name: &str, needs: &[String]) -> Change {
    Change::put(format!("step/{name}"), ValueRef::new(Step { needs: needs.to_vec() }))
}

/// N base values: N/2 interfaces and N/2 routes, each over its own interface.
pub(crate) fn declared(n: usize) -> Vec<Change> {
    let half = n / 2;
    (0..half).map(interface).chain((0..half).map(|at| route(at, at))).collect()
}

/// Everything that exists once all of it is applied, derived items included.
pub(crate) fn everything(n: usize) -> impl Iterator<Item = (Key, ValueRef)> {
    declared(n).into_iter().flat_map(|change| {
        let mut items: Vec<(Key, ValueRef)> = Vec::new();
        if let Some(interface) = change.value.as_ref().and_then(|value| value.downcast::<Interface>()) {
            for address in interface.addresses {
                items.push((
                    format!("{}/address/{address}", change.key).into(),
                    ValueRef::new(Address { address }),
                ));
            }
        }
        items.extend(change.value.map(|value| (change.key, value)));
        items
    })
}

/// N layers of two steps, each of which needs both steps of the layer before; the first needs the root.
pub(crate) fn layers(n: usize) -> Vec<Change> {
    let name = |layer: usize, side: usize| format!("step/l{layer:07}-{side}");
    let mut changes = Vec::with_capacity(2 * n);
    for layer in 0..n {
        let needs = match layer {
            0 => vec!["step/root".to_owned()],
            _ => vec![name(layer - 1, 0), name(layer - 1, 1)],
        };
        for side in 0..2 {
            changes.push(Change::put(name(layer, side), ValueRef::new(Step { needs: needs.clone() })));
        }
    }
    changes
}

/// A chain of N steps, each of which needs the one before; the first needs the root.
pub(crate) fn chain(n: usize) -> Vec<Change> {
    let name = |at: usize| if at == 0 { "step/root".to_owned() } else { format!("step/c{at:07}") };
    (1..=n).map(|at| Change::put(name(at), ValueRef::new(Step { needs: vec![name(at - 1)] }))).collect()
}
