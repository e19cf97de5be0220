//! Dependency cycles: items that need each other count as one.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Core, Walk};
use crate::graph::node::{EdgeBits, Flags, Id};

/// One vertex of the part of the graph that is tried out.
struct Tried {
    id: Id,
    dead: bool,
    /// For a group: how many members are still alive.
    alive: u32,
    /// Who falls if this one does.
    above: Vec<u32>,
}

/// The vertices below and including `start` that can join the goal set together.
///
/// Everything below `start` that is not in the goal set is assumed to join, then whatever lacks something is taken out
/// until nothing lacks anything: the greatest set. What was taken out is `hopeless` for the rest of the cascade, so
/// that each vertex is tried once.
pub(crate) fn satisfiable(walk: &Walk, core: &Core, start: Id, hopeless: &mut FxHashSet<Id>) -> Vec<Id> {
    if hopeless.contains(&start) {
        return Vec::new();
    }
    let mut tried: Vec<Tried> = Vec::new();
    let mut place: FxHashMap<Id, u32> = FxHashMap::default();
    let mut fallen: Vec<u32> = Vec::new();
    add(&mut tried, &mut place, start);
    let mut at = 0;
    while at < tried.len() {
        explore(walk, core, at, &mut tried, &mut place, &mut fallen, hopeless);
        at += 1;
    }
    while let Some(at) = fallen.pop() {
        for above in std::mem::take(&mut tried[at as usize].above) {
            let other = &mut tried[above as usize];
            if other.dead {
                continue;
            }
            if core.graph[other.id].has(Flags::GROUP) {
                other.alive -= 1;
                if other.alive > 0 {
                    continue;
                }
            }
            other.dead = true;
            fallen.push(above);
        }
    }
    let mut joined = Vec::new();
    for entry in &tried {
        if core.graph[entry.id].has(Flags::GROUP) {
            continue;
        }
        if entry.dead {
            hopeless.insert(entry.id);
        } else if !core.graph.is_goal(entry.id) {
            joined.push(entry.id);
        }
    }
    debug_assert!(joined.iter().all(|id| core.graph[*id].is_wanted()), "only wanted items are tried");
    joined
}

fn add(tried: &mut Vec<Tried>, place: &mut FxHashMap<Id, u32>, id: Id) -> u32 {
    *place.entry(id).or_insert_with(|| {
        tried.push(Tried { id, dead: false, alive: 0, above: Vec::new() });
        u32::try_from(tried.len() - 1).expect("bounded by the number of vertices")
    })
}

/// Looks at what one tried vertex lacks, and tries that too.
fn explore(
    walk: &Walk,
    core: &Core,
    at: usize,
    tried: &mut Vec<Tried>,
    place: &mut FxHashMap<Id, u32>,
    fallen: &mut Vec<u32>,
    hopeless: &FxHashSet<Id>,
) {
    let id = tried[at].id;
    let number = u32::try_from(at).expect("bounded by the number of vertices");
    let possible = |other: Id| core.graph[other].is_wanted() && !hopeless.contains(&other);
    if let Some(group) = core.graph[id].group() {
        let members: Vec<Id> = group.members.iter().copied().filter(|member| possible(*member)).collect();
        for member in members {
            let below = add(tried, place, member);
            tried[below as usize].above.push(number);
            tried[at].alive += 1;
        }
        if tried[at].alive == 0 {
            tried[at].dead = true;
            fallen.push(number);
        }
        return;
    }
    for edge in &core.graph[id].needs {
        let waived = edge.bits.has(EdgeBits::CREATE) && walk.keeps(core, id);
        if !edge.bits.has(EdgeBits::DECLARED) || waived || core.graph.is_met(*edge) {
            continue;
        }
        let hope = !edge.bits.has(EdgeBits::ABSENT)
            && (core.graph[edge.target].has(Flags::GROUP) || possible(edge.target));
        if !hope {
            tried[at].dead = true;
            fallen.push(number);
            return;
        }
        let below = add(tried, place, edge.target);
        tried[below as usize].above.push(number);
    }
}
