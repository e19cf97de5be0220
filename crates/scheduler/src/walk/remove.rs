//! Staging a removal: the declaration goes, with what it derives.

use super::put::restage_needs;
use super::{Core, Walk};
use crate::graph::node::{EdgeBits, Flags, Id, NO};

impl Walk {
    /// Removes the declaration of a base item; also asks what was only discovered to go.
    pub(crate) fn stage_remove(&mut self, core: &mut Core, id: Id, rank: u32) {
        let node = &core.graph[id];
        let foreign = node.is_observed() && node.declared.is_none();
        if node.has(Flags::DERIVED) && node.refused().is_none() {
            return;
        }
        if foreign || (node.declared.is_none() && !node.exists() && node.refused().is_none()) {
            return;
        }
        let at = self.stage(core, id, rank);
        self.visits[at as usize].own = true;
        let derived = core.graph[id].has(Flags::DERIVED);
        self.forgive(core, id);
        let node = &mut core.graph[id];
        node.revision = self.seq;
        let taken = node.rare.as_mut().and_then(|rare| rare.refused.take()).and_then(|refused| refused.taken);
        if let Some(taken) = taken {
            let contenders = &mut core.graph[taken].rare().contenders;
            contenders.retain(|other| *other != id);
            self.leavings.push(taken);
        }
        if derived {
            return;
        }
        self.undeclare(core, id);
        for child in core.graph[id].derived.clone() {
            self.withdraw(core, child, rank);
            self.doom_leftover(core, child, rank);
        }
        self.promote(core, id, rank);
    }

    /// Takes back what a base derived.
    pub(crate) fn withdraw(&mut self, core: &mut Core, id: Id, rank: u32) {
        if !core.graph[id].has(Flags::DERIVED) {
            return;
        }
        self.stage(core, id, rank);
        self.forgive(core, id);
        let base = core.graph[id].base;
        let node = &mut core.graph[id];
        node.flags.set(Flags::DERIVED, false);
        node.flags.set(Flags::WAS_DERIVED, true);
        if let Some(at) = core.graph.edge_to(id, base, EdgeBits::BASE) {
            core.graph.set_declared_edge(id, at, false);
        }
        // A declaration that was refused because the base derived the key is still wanted.
        let direct = core.graph[id]
            .rare
            .as_mut()
            .and_then(|rare| rare.refused.take_if(|refused| refused.taken == Some(id)));
        if core.graph[id].rare.as_ref().is_some_and(|rare| rare.refused.is_some()) {
            core.graph[id].rare().refused = None;
        }
        self.undeclare(core, id);
        if let Some(refused) = direct {
            core.graph[id].rare().refused = Some(refused);
        }
        if !core.graph[id].exists() {
            core.graph.unlink_base(id);
            self.leavings.push(base);
        }
        self.promote(core, id, rank);
    }

    /// A part that was found with its base and that the base does not derive has to go.
    pub(crate) fn doom_leftover(&mut self, core: &mut Core, id: Id, rank: u32) {
        let node = &core.graph[id];
        let open = !node.has(Flags::DOOMED) || core.graph.is_unfinished(id);
        if open && node.exists() && node.declared.is_none() && !node.is_observed() && node.awaited().is_none()
        {
            self.stage(core, id, rank);
            self.forgive(core, id);
            core.graph[id].flags.set(Flags::DOOMED, true);
        }
    }

    fn undeclare(&mut self, core: &mut Core, id: Id) {
        let node = &mut core.graph[id];
        node.declared = None;
        node.flags.set(Flags::MISSING, false);
        let doomed = node.exists() && !node.has(Flags::OBSERVED);
        node.flags.set(Flags::DOOMED, doomed);
        if let Some(visit) = self.visits.get_mut(node.visit as usize) {
            visit.how = super::How::Unknown;
        }
        restage_needs(core, id, EdgeBits::DECLARED);
        self.leavings.push(id);
    }

    /// Lets those try again whose value was refused because this key was taken.
    fn promote(&mut self, core: &mut Core, id: Id, rank: u32) {
        let Some(rare) = core.graph[id].rare.as_mut() else { return };
        for contender in std::mem::take(&mut rare.contenders) {
            let waits = core.graph[contender].refused().is_some_and(|refused| refused.taken == Some(id));
            if waits && (contender != id || core.graph[id].base == NO || !core.graph[id].has(Flags::DERIVED))
            {
                self.contenders.push((contender, rank));
            }
        }
    }

    /// Declares again what had been refused because a key was taken that is free now.
    pub(crate) fn stage_contenders(&mut self, core: &mut Core) {
        while let Some((contender, rank)) = self.contenders.pop() {
            if core.graph[contender].refused().is_some_and(|refused| refused.taken.is_some()) {
                self.stage_again(core, contender, rank);
            }
        }
    }
}
