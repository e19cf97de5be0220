//! Groups: one vertex for each distinct "any of these prefixes" question, with the keys that answer it.
//!
//! A group costs what its matching keys cost, whatever the size of the graph: a new key looks up its own prefixes of
//! the lengths in use, a new group asks the key index.

use rustc_hash::FxHashMap;

use super::Graph;
use super::node::{Flags, Group, Id, Node};
use crate::dependency::Predicate;
use crate::key::Key;
use crate::registry::KindId;

#[derive(Default)]
pub(crate) struct GroupTable {
    by_name: FxHashMap<String, Id>,
    by_prefix: FxHashMap<String, Vec<Id>>,
    /// How many groups use a prefix of each length.
    lengths: std::collections::BTreeMap<usize, usize>,
}

fn name(prefixes: &[String], matching: Option<&Predicate>) -> String {
    let mut name = prefixes.join("\u{1}");
    if let Some(predicate) = matching {
        name.push('\u{2}');
        name.push_str(&predicate.name);
    }
    name
}

impl Graph {
    /// The group of a question, made if there is none.
    pub(crate) fn intern_group(&mut self, prefixes: &[String], matching: Option<&Predicate>) -> Id {
        let name = name(prefixes, matching);
        if let Some(id) = self.groups.by_name.get(&name) {
            return *id;
        }
        let mut node = Node::new(Key::new(&name), KindId::NONE);
        node.flags.set(Flags::GROUP, true);
        node.rare().group = Some(Group {
            prefixes: prefixes.to_vec(),
            matching: matching.cloned(),
            members: Vec::new(),
            goal: 0,
            present: 0,
            leaving: 0,
        });
        let id = self.allocate(node);
        self.groups.by_name.insert(name, id);
        for prefix in prefixes {
            self.groups.by_prefix.entry(prefix.clone()).or_default().push(id);
            *self.groups.lengths.entry(prefix.len()).or_default() += 1;
            for member in self.under(prefix) {
                self.join(id, member);
            }
        }
        let any = self.group_mut(id).goal > 0;
        self[id].flags.set(Flags::GOAL, any);
        id
    }

    /// Adds a new key to the groups whose question it answers.
    pub(super) fn join_groups(&mut self, id: Id) {
        if self.groups.lengths.is_empty() {
            return;
        }
        let key = self[id].key.clone();
        let mut found: Vec<Id> = Vec::new();
        for length in self.groups.lengths.keys() {
            let Some(prefix) = key.as_str().get(..*length) else { continue };
            if let Some(groups) = self.groups.by_prefix.get(prefix) {
                found.extend(groups);
            }
        }
        for group in found {
            self.join(group, id);
        }
    }

    fn join(&mut self, group: Id, member: Id) {
        if self[member].member_of().iter().any(|(known, _)| *known == group) {
            return;
        }
        let key = self[member].key.clone();
        let (goal, present) = (self.is_goal(member), self[member].exists());
        let leaving = self[member].has(Flags::LEAVING);
        let counts = self.group_mut(group);
        if counts.matching.as_ref().is_some_and(|predicate| !predicate.test(&key)) {
            return;
        }
        let at = u32::try_from(counts.members.len()).expect("bounded by the number of vertices");
        counts.members.push(member);
        counts.goal += u32::from(goal);
        counts.present += u32::from(present);
        counts.leaving += u32::from(leaving);
        self[member].rare().member_of.push((group, at));
    }

    pub(super) fn leave_groups(&mut self, id: Id) {
        while let Some((group, at)) = self[id].rare.as_mut().and_then(|rare| rare.member_of.pop()) {
            self.group_mut(group).members.swap_remove(at as usize);
            self.renumber(group, at);
        }
    }

    /// Tells the member that moved to this position where it stands.
    fn renumber(&mut self, group: Id, at: u32) {
        let Some(moved) = self.group_mut(group).members.get(at as usize).copied() else { return };
        for (known, position) in &mut self[moved].rare().member_of {
            if *known == group {
                *position = at;
            }
        }
    }

    /// Drops the groups that nobody asks for.
    pub(crate) fn drop_idle_groups(&mut self) {
        while let Some(id) = self.idle_groups.pop() {
            if self[id].has(Flags::GROUP) && self[id].dependents.is_empty() {
                self.drop_group(id);
            }
        }
    }

    fn drop_group(&mut self, id: Id) {
        let Some(group) = self[id].rare.as_mut().and_then(|rare| rare.group.take()) else { return };
        self.groups.by_name.remove(&name(&group.prefixes, group.matching.as_ref()));
        for prefix in &group.prefixes {
            if let Some(users) = self.groups.by_prefix.get_mut(prefix) {
                users.retain(|user| *user != id);
                if users.is_empty() {
                    self.groups.by_prefix.remove(prefix);
                }
            }
            if let Some(count) = self.groups.lengths.get_mut(&prefix.len()) {
                *count -= 1;
                if *count == 0 {
                    self.groups.lengths.remove(&prefix.len());
                }
            }
        }
        for member in group.members {
            self[member].rare().member_of.retain(|(known, _)| *known != id);
        }
        self.release(id);
    }

    pub(crate) fn group_mut(&mut self, id: Id) -> &mut Group {
        self[id].rare().group.as_mut().expect("the vertex is a group")
    }

    /// Changes the counts of every group the vertex belongs to.
    pub(crate) fn count_in_groups(&mut self, id: Id, change: impl Fn(&mut Group)) {
        for at in 0..self[id].member_of().len() {
            let (group, _) = self[id].member_of()[at];
            change(self.group_mut(group));
        }
    }
}
