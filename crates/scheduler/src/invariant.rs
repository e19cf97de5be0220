//! Invariants: what must hold between transactions. A broken one is our mistake, never the user's.

use crate::graph::node::{EdgeBits, Flags, Id, NO};
use crate::scheduler::{Scheduler, Stage};

impl Scheduler {
    /// Asserts that the bookkeeping agrees with itself. Costs a pass over the graph; meant for tests.
    pub fn check_invariants(&self) {
        assert_eq!(self.stage(), Stage::Idle, "invariants hold between transactions");
        for id in self.core.graph.ids() {
            self.check_edges(id);
            self.check_goal(id);
            self.check_shape(id);
        }
    }

    fn check_edges(&self, id: Id) {
        let graph = &self.core.graph;
        let node = &graph[id];
        let (mut unmet, mut unmet_create) = (0, 0);
        for (at, edge) in node.needs.iter().enumerate() {
            let back = graph[edge.target].dependents[edge.slot as usize];
            assert!(back.source == id && back.edge as usize == at, "{:?}: an edge has no way back", node.key);
            let declared = edge.bits.has(EdgeBits::DECLARED);
            let actual = edge.bits.has(EdgeBits::ACTUAL);
            assert!(declared || actual, "{:?}: an edge that no value has", node.key);
            assert!(!actual || node.exists(), "{:?}: an edge of a value that is not there", node.key);
            if declared && !graph.is_met(*edge) {
                *(if edge.bits.has(EdgeBits::CREATE) { &mut unmet_create } else { &mut unmet }) += 1;
            }
        }
        assert_eq!(
            (node.unmet, node.unmet_create),
            (unmet, unmet_create),
            "{:?}: unmet dependencies",
            node.key
        );
        for (at, dependent) in node.dependents.iter().enumerate() {
            let edge = graph[dependent.source].needs[dependent.edge as usize];
            assert!(edge.target == id && edge.slot as usize == at, "{:?}: a way back leads astray", node.key);
        }
        assert!(!node.has(Flags::LEAVING), "{:?}: nobody leaves between transactions", node.key);
        for (group, at) in node.member_of() {
            let counts = graph[*group].group().expect("a membership leads to a group");
            assert_eq!(counts.members[*at as usize], id, "{:?}: its place in a group", node.key);
            assert_eq!(counts.leaving, 0, "{:?}: nobody leaves between transactions", node.key);
            let members = || counts.members.iter().map(|member| &graph[*member]);
            assert_eq!(counts.goal as usize, members().filter(|member| member.has(Flags::GOAL)).count());
            assert_eq!(counts.present as usize, members().filter(|member| member.exists()).count());
        }
    }

    fn check_goal(&self, id: Id) {
        let node = &self.core.graph[id];
        let keeps = node.exists() && !self.core.must_recreate(id);
        let met = node.unmet == 0 && (node.unmet_create == 0 || keeps);
        let belongs = node.stands_alone() || (node.is_wanted() && met);
        assert_eq!(
            node.has(Flags::GOAL),
            belongs,
            "{:?}: whether it shall exist ({})",
            node.key,
            node.state()
        );
        let settled = node.failure().is_none()
            && node.awaited().is_none()
            && !node.has(Flags::HELD)
            && !node.has(Flags::STUCK)
            && !node.has(Flags::MISSING);
        if settled && !node.is_observed() && node.kind.get().is_some() {
            assert_eq!(belongs, node.exists(), "{:?}: exists as it shall ({})", node.key, node.state());
        }
    }

    fn check_shape(&self, id: Id) {
        let graph = &self.core.graph;
        let node = &graph[id];
        assert_eq!(node.visit, NO, "{:?}: a visit was not ended", node.key);
        assert!(!node.is_blank(), "{:?}: a blank vertex was not dropped", node.key);
        if node.base != NO {
            let place = graph[node.base].derived.get(node.place as usize);
            assert_eq!(place, Some(&id), "{:?}: its place with its base", node.key);
            assert_eq!(graph[node.base].base, NO, "{:?}: a derived item derives nothing", node.key);
        }
        for child in &node.derived {
            assert_eq!(graph[*child].base, id, "{:?}: derives what is not its own", node.key);
        }
    }
}
