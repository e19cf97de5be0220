//! The walk: one transaction on its way through the graph.
//!
//! Numbered steps of a transaction, each the work of one file:
//!
//! 1. *stage* (`put`, `remove`, `observe`, and [`crate::resync`]): write what is asked into the graph;
//! 2. *cascade* (`cascade`, with `cycles` and `holds`): what shall exist now, and what must therefore be done with every
//!    vertex concerned;
//! 3. *order* (`order`, with `knots` and `steps`): which of it must wait for which; taken in a world that always says
//!    yes, this is the plan;
//! 4. *answer* (`answer`, `readback`, `amend`): the same order with real answers; a failure changes what shall exist, and
//!    2 and 3 are repeated for what that concerns;
//! 5. *revert* (`revert`): the way back, by staging the state before.
//!
//! Nothing here recurses over user data: every pass is a loop over a work list.

mod amend;
pub(crate) mod answer;
mod cascade;
mod cycles;
mod holds;
mod knots;
mod observe;
mod order;
pub(crate) mod put;
pub(crate) mod readback;
mod remove;
mod revert;
mod steps;

use smallvec::SmallVec;

use crate::dependency::Needs;
use crate::descriptor::{Derived, Transition};
use crate::graph::Graph;
use crate::graph::node::{Failed, Flags, Id, NO};
use crate::key::Key;
use crate::record::{Action, Argument, Cause, Side, Step, TxnType};
use crate::registry::Registry;
use crate::state::{Seq, State, Timestamp};
use crate::txn::{OnFailure, Retry};
use crate::value::ValueRef;

/// What outlives a walk.
#[derive(Default)]
pub(crate) struct Core {
    pub(crate) graph: Graph,
    pub(crate) registry: Registry,
    pub(crate) needs: Needs,
    pub(crate) derived: Derived,
}

impl Core {
    /// Whether what exists can become what is declared only by being created again.
    pub(crate) fn must_recreate(&self, id: Id) -> bool {
        let node = &self.graph[id];
        match (&node.actual, &node.declared, node.kind.get()) {
            (Some(actual), Some(declared), Some(kind)) if !actual.is_identical(declared) => matches!(
                self.registry.descriptor(kind).transition(&node.key, actual, declared),
                Transition::Recreate { .. }
            ),
            _ => false,
        }
    }
}

/// What is to be done with a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Nothing,
    Create,
    Update,
    /// Takes the declared value over without an operation.
    Adopt,
    Delete,
    /// Deletes and creates again.
    Recreate,
    /// Notes something.
    Note(Action),
}

/// How the actual value becomes the declared one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Unknown,
    Same,
    InPlace,
    Recreate(Box<str>),
}

/// One vertex that the transaction is concerned with.
pub(crate) struct Visit {
    pub(crate) id: Id,
    /// Which of the transaction's changes led here; steps of one change stand together.
    pub(crate) rank: u32,
    /// The operations, if there are any.
    pub(crate) down: u32,
    pub(crate) up: u32,
    pub(crate) choice: Choice,
    pub(crate) how: How,
    /// It goes down and comes up because something it stands on does.
    pub(crate) bounce: bool,
    /// The transaction names it.
    pub(crate) own: bool,
    /// What it is was taken from a listing in this transaction.
    pub(crate) listed: bool,
    /// It stood like this before.
    pub(crate) was: State,
    /// As it was before, and as the last step told it.
    pub(crate) first: Side,
    pub(crate) told: Side,
    pub(crate) flags: Flags,
    pub(crate) existed: bool,
    /// It came into being in this transaction, which is on its way back: what it needed to be created counts again.
    pub(crate) fresh: bool,
    /// It was there before the transaction, which is on its way back: it comes back whatever a creation would need.
    pub(crate) comes_back: bool,
    saved: Saved,
    /// Something was noted at staging, to be shown: observed, forgotten, refused.
    pub(crate) note: Option<Action>,
}

/// A vertex before the transaction changed its declaration; for the way back and for the record.
#[derive(Clone)]
pub(crate) struct Before {
    pub(crate) declared: Option<ValueRef>,
    pub(crate) actual: Option<ValueRef>,
    pub(crate) failure: Option<Failed>,
    pub(crate) refused: Option<crate::graph::node::Refused>,
    pub(crate) flags: Flags,
    pub(crate) revision: Seq,
    pub(crate) retry: u16,
    pub(crate) labels: Option<std::sync::Arc<crate::txn::Labels>>,
}

/// Whether and what a visit remembers of its vertex.
enum Saved {
    Nothing,
    /// The vertex was not there: nothing was known about it.
    Blank,
    Known(Box<Before>),
}

static BLANK: Before = Before {
    declared: None,
    actual: None,
    failure: None,
    refused: None,
    flags: Flags::NONE,
    revision: 0,
    retry: 0,
    labels: None,
};

impl Visit {
    /// The vertex before the transaction changed its declaration, if it did.
    pub(crate) fn before(&self) -> Option<&Before> {
        match &self.saved {
            Saved::Nothing => None,
            Saved::Blank => Some(&BLANK),
            Saved::Known(before) => Some(before),
        }
    }
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpAct {
    Act(Action),
    /// One member of the group has come.
    GroupUp,
    /// Nobody needs the group's leaving members any more.
    GroupDown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpState {
    Waiting,
    Issued,
    Done,
    Dead,
}

pub(crate) struct Op {
    pub(crate) id: Id,
    pub(crate) act: OpAct,
    pub(crate) state: OpState,
    pub(crate) waits: u32,
    pub(crate) next: SmallVec<[Link; 2]>,
}

/// An order between two operations.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    pub(crate) to: u32,
    /// Only nicer, not needed.
    pub(crate) soft: bool,
}

/// Work lists that outlive a transaction, so that a small one allocates little.
#[derive(Default)]
pub(crate) struct WorkLists {
    visits: Vec<Visit>,
    ops: Vec<Op>,
    stack: Vec<u32>,
    queue: Vec<(Id, u32)>,
    seen: Vec<(Id, u32)>,
    revised: Vec<u32>,
    stirred: Vec<Id>,
    leavings: Vec<Id>,
}

/// One transaction on its way.
pub(crate) struct Walk {
    pub(crate) seq: Seq,
    pub(crate) start: Timestamp,
    pub(crate) now: Timestamp,
    pub(crate) txn_type: TxnType,
    pub(crate) description: String,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) ignored: Vec<Key>,
    pub(crate) on_failure: OnFailure,
    pub(crate) retry: Option<Retry>,
    pub(crate) visits: Vec<Visit>,
    pub(crate) ops: Vec<Op>,
    /// Operations that may run, the next one last.
    pub(crate) stack: Vec<u32>,
    /// How many operations are under way.
    pub(crate) issued: usize,
    /// Vertices whose dependencies changed, each with the change that led there.
    pub(crate) queue: Vec<(Id, u32)>,
    /// What was in the queue while the goal set grew; looked at again for what leaves it.
    pub(crate) seen: Vec<(Id, u32)>,
    /// Visits that start to go down; what stands on them follows.
    pub(crate) downs: Vec<u32>,
    /// Visits to decide again after an answer.
    pub(crate) again: Vec<u32>,
    pub(crate) touched: Vec<Id>,
    /// How many visits have been decided.
    pub(crate) decided: u32,
    /// Items that the transaction names and that were declared like this already.
    pub(crate) unchanged: Vec<Id>,
    /// Whether one of them, or what it derives, was waiting when that was found.
    pub(crate) unchanged_waits: bool,
    /// Vertices whose dependencies changed and that go on waiting.
    pub(crate) stirred: Vec<Id>,
    /// Vertices that may have become blank.
    pub(crate) leavings: Vec<Id>,
    pub(crate) planned: Option<Vec<Step>>,
    /// Which planned step an operation became.
    pub(crate) planned_at: Vec<u32>,
    /// The operations that ended, in order, as long as everything goes as planned.
    pub(crate) as_planned: Vec<u32>,
    /// The steps carried out, once something has not gone as planned.
    pub(crate) steps: Option<Vec<Step>>,
    pub(crate) failures: Vec<Cause>,
    pub(crate) revert_failures: Vec<Cause>,
    /// Why the way back is taken.
    pub(crate) revert_cause: Option<Cause>,
    pub(crate) reverting: bool,
    /// Why nothing further is started.
    pub(crate) cancelled: Option<std::sync::Arc<str>>,
    /// Nothing is left to do.
    pub(crate) done: bool,
    /// How many operations are done or dead.
    pub(crate) ended: usize,
    /// Visits decided since the last look, and how many of them were asked whom they let go on.
    pub(crate) revised: Vec<u32>,
    pub(crate) resumed: usize,
    /// Confirmations that did not come in time.
    pub(crate) late: Vec<(Id, Action)>,
    /// Operations that became free while others were taken out.
    pub(crate) freed: Vec<u32>,
    pub(crate) released: Vec<u32>,
    /// Items whose change waits for something that stands on them and could not be removed.
    pub(crate) held: Vec<Id>,
    /// Confirmations that are awaited.
    pub(crate) deadlines: Vec<(Timestamp, Key)>,
    pub(crate) is_retry: bool,
    /// The retry's base items.
    pub(crate) attempt: u32,
    /// Items whose refused value may be declared again, since the key it asked for is free.
    pub(crate) contenders: Vec<(Id, u32)>,
    /// Foreign items that are released at the end of the way back.
    pub(crate) give_back: Vec<(Id, Option<ValueRef>)>,
    /// Operations that wait to be read back, by operation.
    pub(crate) readbacks: Vec<readback::Readback>,
}

impl Walk {
    /// A transaction that has not begun to move, in the work lists of one that has ended.
    pub(crate) fn new(
        seq: Seq,
        now: Timestamp,
        txn_type: TxnType,
        description: String,
        spare: WorkLists,
    ) -> Self {
        let WorkLists { visits, ops, stack, queue, seen, revised, stirred, leavings } = spare;
        Self {
            seq,
            start: now,
            now,
            txn_type,
            description,
            arguments: Vec::new(),
            ignored: Vec::new(),
            on_failure: OnFailure::Continue,
            retry: None,
            visits,
            ops,
            stack,
            seen,
            issued: 0,
            queue,
            downs: Vec::new(),
            again: Vec::new(),
            touched: Vec::new(),
            decided: 0,
            unchanged: Vec::new(),
            unchanged_waits: false,
            stirred,
            leavings,
            planned: None,
            planned_at: Vec::new(),
            as_planned: Vec::new(),
            steps: None,
            failures: Vec::new(),
            revert_failures: Vec::new(),
            revert_cause: None,
            reverting: false,
            cancelled: None,
            done: false,
            ended: 0,
            revised,
            resumed: 0,
            late: Vec::new(),
            freed: Vec::new(),
            released: Vec::new(),
            held: Vec::new(),
            deadlines: Vec::new(),
            is_retry: false,
            attempt: 0,
            contenders: Vec::new(),
            give_back: Vec::new(),
            readbacks: Vec::new(),
        }
    }

    /// The work lists, emptied, for the next transaction; large ones are given back to the system.
    pub(crate) fn work_lists(&mut self) -> WorkLists {
        fn emptied<T>(list: &mut Vec<T>) -> Vec<T> {
            list.clear();
            if list.capacity() > 1024 { Vec::new() } else { std::mem::take(list) }
        }
        WorkLists {
            visits: emptied(&mut self.visits),
            ops: emptied(&mut self.ops),
            stack: emptied(&mut self.stack),
            queue: emptied(&mut self.queue),
            seen: emptied(&mut self.seen),
            revised: emptied(&mut self.revised),
            stirred: emptied(&mut self.stirred),
            leavings: emptied(&mut self.leavings),
        }
    }

    /// The visit of a vertex, begun if there is none.
    pub(crate) fn visit(&mut self, core: &mut Core, id: Id, rank: u32) -> u32 {
        if core.graph[id].visit != NO {
            return core.graph[id].visit;
        }
        let at = u32::try_from(self.visits.len()).expect("bounded by the number of vertices");
        let mut first = core.graph.side(id);
        if core.graph[id].has(Flags::OBSERVED)
            && let Some((_, state)) = core.graph.noticed.iter().find(|(other, _)| *other == id)
        {
            first.state = *state;
        }
        let was = first.state;
        core.graph[id].visit = at;
        self.visits.push(Visit {
            id,
            rank,
            down: NO,
            up: NO,
            choice: Choice::Nothing,
            how: How::Unknown,
            bounce: false,
            own: false,
            listed: false,
            was,
            told: first.clone(),
            first,
            flags: core.graph[id].flags,
            existed: core.graph[id].exists(),
            fresh: false,
            comes_back: false,
            saved: Saved::Nothing,
            note: None,
        });
        at
    }

    /// The visit of a vertex whose declaration is about to be written; remembers what was.
    pub(crate) fn stage(&mut self, core: &mut Core, id: Id, rank: u32) -> u32 {
        let at = self.visit(core, id, rank);
        self.remember(core, at);
        at
    }

    /// Remembers how the vertex of a visit stood, for the way back.
    pub(crate) fn remember(&mut self, core: &Core, at: u32) {
        let visit = &mut self.visits[at as usize];
        let id = visit.id;
        if let Saved::Nothing = visit.saved {
            let node = &core.graph[id];
            visit.saved =
                if visit.first.state == State::Nonexistent && node.rare.is_none() && node.revision == 0 {
                    Saved::Blank
                } else {
                    Saved::Known(Box::new(Before {
                        declared: node.declared.clone(),
                        actual: node.actual.clone(),
                        failure: node.failure().cloned(),
                        refused: node.refused().cloned(),
                        flags: node.flags,
                        revision: node.revision,
                        retry: node.retry,
                        labels: node.rare.as_ref().and_then(|rare| rare.labels.clone()),
                    }))
                };
        }
    }

    pub(crate) fn visit_of(&self, core: &Core, id: Id) -> Option<&Visit> {
        self.visits.get(core.graph[id].visit as usize)
    }

    /// Whether the vertex or its base is named by the transaction.
    pub(crate) fn is_own(&self, core: &Core, id: Id) -> bool {
        let base = core.graph.base_of(id);
        self.visit_of(core, base).is_some_and(|visit| visit.own)
    }

    /// The rank of the change that led to a vertex.
    pub(crate) fn rank_of(&self, core: &Core, id: Id) -> u32 {
        self.visit_of(core, id).map_or(0, |visit| visit.rank)
    }

    /// Moves what the graph reported as touched into the queue.
    pub(crate) fn enqueue_touched(&mut self, rank: u32) {
        self.queue.extend(self.touched.drain(..).map(|id| (id, rank)));
    }
}
