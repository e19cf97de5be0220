//! Dependency safety: what an operation may not do to what stands on its item.

use std::collections::{BTreeMap, BTreeSet};

use kilter_scheduler::{Act, Key, Origin};

use super::{World, properties};
use crate::attrs::Attrs;
use crate::kinds;
use crate::needs::{Dependency, Need, Presence};

impl World {
    /// What is wrong with performing this operation now: nothing may be made before what it needs, and nothing may
    /// go while something that needs it to exist is there. Members of one circle are excused among themselves.
    ///
    /// **Assumes** that [`World::begin`] was told what is declared, else circles are not seen when they are made.
    pub fn violations(&self, act: &Act) -> Vec<String> {
        let before = self.presence();
        let mut after = before.clone();
        let mut found = Vec::new();
        let key = match act {
            Act::Create { key, value } => {
                let value = Attrs::of(value);
                after.insert(key.clone(), Origin::Declared);
                after.extend(properties(key, value).into_iter().map(|key| (key, Origin::Declared)));
                self.check_needs(key, value, &after, true, &mut found);
                key
            }
            Act::Update { key, old, new, .. } => {
                let (old, new) = (Attrs::of(old), Attrs::of(new));
                for property in properties(key, old) {
                    after.remove(&property);
                }
                after.extend(properties(key, new).into_iter().map(|key| (key, Origin::Declared)));
                self.check_needs(key, new, &after, false, &mut found);
                key
            }
            Act::Delete { key, value, .. } => {
                after.remove(key);
                for property in properties(key, Attrs::of(value)) {
                    after.remove(&property);
                }
                let ours = self.told.iter().filter(|(_, told)| told.origin == Origin::Declared);
                for (derived, _) in ours.filter(|(derived, _)| self.derives(key, derived)) {
                    found.push(format!("`{key}` is deleted while its derived item `{derived}` is there"));
                }
                key
            }
            Act::Retrieve { .. } | Act::RetrieveAll { .. } => return found,
        };
        self.check_dependents(key, &before, &after, &mut found);
        found
    }

    /// Items that exist without something that they need to exist, with what they need.
    pub fn unmet(&self) -> Vec<(Key, Need)> {
        let present = self.presence();
        let mut unmet = Vec::new();
        for (key, told) in &self.told {
            if told.origin == Origin::Observed || !self.things.contains_key(key) {
                continue;
            }
            for dependency in dependencies(key, &told.value) {
                if !dependency.to_create && !dependency.need.is_met(&present) {
                    unmet.push((key.clone(), dependency.need));
                }
            }
        }
        unmet
    }

    fn check_needs(
        &self,
        key: &Key,
        value: &Attrs,
        after: &Presence,
        creation: bool,
        found: &mut Vec<String>,
    ) {
        let comes_back = self.going_back && self.ghosts.contains_key(key);
        for dependency in dependencies(key, value) {
            let matters = (creation && !comes_back) || !dependency.to_create;
            if matters && !dependency.need.is_met(after) && !self.in_circle_with(key, &dependency.need) {
                found.push(format!("`{key}` is made or changed without {:?}", dependency.need));
            }
        }
        if creation && let Some(base) = kinds::base_of(key) {
            let known = [self.declared.get(&base), self.told.get(&base).map(|told| &told.value)];
            let is_derived = known.into_iter().flatten().any(|value| derives(&base, value, key));
            if is_derived && !after.contains_key(&base) {
                found.push(format!("`{key}` is made before its base"));
            }
        }
    }

    fn check_dependents(&self, key: &Key, before: &Presence, after: &Presence, found: &mut Vec<String>) {
        for (other, told) in self.told.iter().filter(|(other, _)| *other != key) {
            if told.origin == Origin::Observed {
                continue;
            }
            for dependency in dependencies(other, &told.value) {
                let lost = dependency.need.is_met(before) && !dependency.need.is_met(after);
                if lost && !dependency.to_create && !self.are_in_one_circle(key, other) {
                    found.push(format!("`{key}` goes while `{other}` needs {:?}", dependency.need));
                }
            }
        }
    }

    fn derives(&self, base: &Key, derived: &Key) -> bool {
        self.told.get(base).is_some_and(|told| derives(base, &told.value, derived))
    }

    /// Whether something that would meet the need stands in one circle with the item.
    fn in_circle_with(&self, key: &Key, need: &Need) -> bool {
        let edges = self.edges();
        edges.keys().filter(|other| need.wants(other)).any(|other| reaches(&edges, other, key))
    }

    fn are_in_one_circle(&self, a: &Key, b: &Key) -> bool {
        let edges = self.edges();
        reaches(&edges, a, b) && reaches(&edges, b, a)
    }

    /// Who may need whom, over everything that is known: told, real, declared, or deleted in this transaction.
    fn edges(&self) -> BTreeMap<Key, BTreeSet<Key>> {
        let mut values: Vec<(&Key, &Attrs)> =
            self.told.iter().map(|(key, told)| (key, &told.value)).collect();
        values.extend(self.things.iter().map(|(key, thing)| (key, &thing.value)));
        values.extend(&self.declared);
        values.extend(&self.ghosts);
        let mut nodes: BTreeMap<Key, BTreeSet<Key>> = BTreeMap::new();
        for (key, value) in &values {
            nodes.entry((*key).clone()).or_default();
            for property in properties(key, value) {
                nodes.entry(property).or_default().insert((*key).clone());
            }
        }
        let keys: Vec<Key> = nodes.keys().cloned().collect();
        for (key, value) in values {
            let needs = dependencies(key, value);
            let wanted = keys.iter().filter(|other| needs.iter().any(|needs| needs.need.wants(other)));
            let edges = nodes.entry(key.clone()).or_default();
            edges.extend(wanted.cloned());
            edges.extend(kinds::base_of(key));
        }
        nodes
    }
}

fn dependencies(key: &Key, value: &Attrs) -> Vec<Dependency> {
    kinds::kind_of(key).map(|kind| kind.dependencies(value)).unwrap_or_default()
}

fn derives(base: &Key, value: &Attrs, derived: &Key) -> bool {
    kinds::kind_of(base).is_some_and(|kind| kind.derived(base, value).iter().any(|(key, _)| key == derived))
}

fn reaches(edges: &BTreeMap<Key, BTreeSet<Key>>, from: &Key, to: &Key) -> bool {
    let mut seen: BTreeSet<&Key> = BTreeSet::new();
    let mut open = vec![from];
    while let Some(key) = open.pop() {
        if key == to {
            return true;
        }
        if seen.insert(key) {
            open.extend(edges.get(key).into_iter().flatten());
        }
    }
    false
}
