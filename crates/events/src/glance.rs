//! Looking at the loop: what it remembers, who declares what, and what a declaration would lead to.
//!
//! Nothing here changes anything that lasts.

use std::collections::BTreeSet;
use std::sync::Arc;

use kilter_scheduler::{Change, Key, Request, Scheduler, Txn};

use crate::builtin::ExternalItems;
use crate::declare::DeclaredChange;
use crate::draft::{Internal, Provenance};
use crate::event::Event;
use crate::event_loop::EventLoop;
use crate::external::{Before, Conflict, External};
use crate::health::Health;
use crate::history::EventHistory;
use crate::step::Counts;
use crate::turn::{Core, Turn};

/// What can be seen of the loop beside its scheduler, also while a transaction is performed.
#[derive(Clone, Copy)]
pub struct Glance<'a> {
    names: &'a [Arc<str>],
    external: &'a External,
    internal: &'a Internal,
    history: &'a EventHistory,
    health: &'a Health,
    counts: Counts,
    under_way: Option<&'a Event>,
    conflicts: &'a [Conflict],
    started: bool,
}

impl<'a> Glance<'a> {
    /// What happened so far.
    pub fn history(&self) -> &'a EventHistory {
        self.history
    }

    /// How the loop and other components stand.
    pub fn health(&self) -> &'a Health {
        self.health
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The event that is being looked at.
    pub fn under_way(&self) -> Option<&'a Event> {
        self.under_way
    }

    /// Where sources contradict each other about what the event that is being looked at declares.
    pub fn conflicts(&self) -> &'a [Conflict] {
        self.conflicts
    }

    /// Whether the startup resync has begun, so that what is declared is known.
    pub fn has_started(&self) -> bool {
        self.started
    }

    /// Who declares an item.
    pub fn provenance(&self, key: &str) -> Provenance {
        let handler = self.internal.handler(key).map(|at| Arc::clone(&self.names[at]));
        Provenance { handler, sources: self.external.sources(key) }
    }

    /// Every external source in its place, with what it declares.
    pub fn sources(&self) -> impl Iterator<Item = (&'a Arc<str>, &'a ExternalItems)> {
        self.external.iter()
    }
}

/// What a declaration would lead to.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The transaction, to be planned and dropped.
    pub txn: Txn,
    /// Where sources contradict each other.
    pub conflicts: Vec<Conflict>,
}

impl EventLoop {
    /// The scheduler, to perform what a [`Step`](crate::Step) asks for, and beside it what can be seen of the rest.
    pub fn split(&mut self) -> (&mut Scheduler, Glance<'_>) {
        let counts = self.counts();
        let Core { scheduler, names, external, internal, history, health, resyncs, .. } = &mut self.core;
        let (under_way, conflicts) = under_way(self.turn.as_ref());
        let started = *resyncs > 0;
        let glance =
            Glance { names, external, internal, history, health, counts, under_way, conflicts, started };
        (scheduler, glance)
    }

    /// What can be seen of the loop beside its scheduler.
    pub fn glance(&self) -> Glance<'_> {
        let Core { names, external, internal, history, health, resyncs, .. } = &self.core;
        let (under_way, conflicts) = under_way(self.turn.as_ref());
        let (counts, started) = (self.counts(), *resyncs > 0);
        Glance { names, external, internal, history, health, counts, under_way, conflicts, started }
    }

    /// Whether no event is under way and nothing is owed to whoever drives the loop.
    pub fn is_between_turns(&self) -> bool {
        self.turn.is_none() && self.awaited.is_none() && self.outputs.is_empty()
    }

    /// The event that is being looked at.
    pub fn under_way(&self) -> Option<&Event> {
        self.turn.as_ref().map(Turn::event)
    }

    /// Who declares an item.
    pub fn provenance(&self, key: &str) -> Provenance {
        self.glance().provenance(key)
    }

    /// What a declaration would lead to if it came next. Handlers are not asked: what a source declares is not their
    /// business.
    ///
    /// **Assumes** that no event is under way.
    pub fn preview(&mut self, change: &DeclaredChange) -> Preview {
        assert!(self.turn.is_none(), "a declaration is looked at between events");
        let core = &mut self.core;
        let before: Vec<Before> = change.said.iter().map(|said| core.external.declare(said)).collect();
        let (registry, mut conflicts) = (core.scheduler.registry(), Vec::new());
        let keys: BTreeSet<&Key> = before.iter().flat_map(Before::keys).collect();
        let changes = keys.into_iter().map(|key| {
            let internal = core.internal.get(key.as_str()).cloned();
            let value = core.external.merged(registry, key, internal, &mut conflicts);
            Change { key: key.clone(), value, labels: None }
        });
        let changes: Vec<Change> = changes.collect();
        before.into_iter().rev().for_each(|before| core.external.restore(before));
        let txn = Txn::new(Request::Changes { changes, on_failure: change.on_failure });
        Preview { txn, conflicts }
    }
}

fn under_way(turn: Option<&Turn>) -> (Option<&Event>, &[Conflict]) {
    (turn.map(Turn::event), turn.map(Turn::conflicts).unwrap_or_default())
}
