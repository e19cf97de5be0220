//! The scheduler: one transaction at a time, from what is asked to what is remembered.
//!
//! Numbered steps of a transaction: 1. [`Scheduler::begin`] stages it (a resync first yields what must be read);
//! 2. the plan is there ([`Scheduler::plan`]); 3. [`Scheduler::execute`] or [`Scheduler::abandon`];
//! 4. [`Scheduler::next`] or [`Scheduler::ready`] and [`Scheduler::answer`] until it has ended; 5. [`Scheduler::finish`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::descriptor::Descriptor;
use crate::graph::node::{Flags, Id, NO};
use crate::history::{History, Limits};
use crate::key::Key;
use crate::operation::{Answer, OpId, Operation};
use crate::plan::{Plan, Stale};
use crate::record::{Argument, Cause, Executed, Outcome, Record, TxnType};
use crate::registry::{KindId, RegisterError, Registry};
use crate::render::Opening;
use crate::resync::Refresh;
use crate::state::{Seq, State, Timestamp};
use crate::txn::{Change, Request, Resync, RetryOrder, Txn};
use crate::walk::{Core, Walk, WorkLists};

/// The scheduler's own settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether each transaction is planned and the plan recorded before it is executed.
    pub plan: bool,
    /// The bounds of the history.
    pub history: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self { plan: true, history: Limits::default() }
    }
}

/// Where the transaction under way stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// There is none.
    Idle,
    /// The actual state is being read.
    Refreshing,
    /// The plan is there; nothing has been done.
    Planned,
    /// Operations are being carried out.
    Walking,
    /// Nothing is left to do.
    Ended,
}

/// Turns transactions into operations over a graph of items.
///
/// **Guarantees.** It does no I/O, knows no clock, starts no thread and never recurses over user data. What it yields
/// depends only on what it was told, in order.
pub struct Scheduler {
    pub(crate) core: Core,
    settings: Settings,
    current: Option<Box<Current>>,
    last_seq: Seq,
    history: History,
    retries: BTreeMap<(Timestamp, u64), RetryOrder>,
    confirmations: BTreeMap<(Timestamp, u64), Key>,
    timers: u64,
    late_kind: bool,
    /// The work lists of the transaction before.
    spare: WorkLists,
}

struct Current {
    walk: Walk,
    stage: Stage,
    refresh: Option<Refresh>,
    pending: Option<Resync>,
    /// Reads that have not been handed out.
    queued: std::collections::VecDeque<Operation>,
    plan: Option<Plan>,
}

impl Default for Scheduler {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl Scheduler {
    /// A scheduler over an empty graph.
    pub fn new(settings: Settings) -> Self {
        Self {
            core: Core::default(),
            history: History::new(settings.history.clone()),
            settings,
            current: None,
            last_seq: 0,
            retries: BTreeMap::new(),
            confirmations: BTreeMap::new(),
            timers: 0,
            late_kind: false,
            spare: WorkLists::default(),
        }
    }

    /// Adds a kind. Items that waited for it become real with the next transaction from [`Self::due`].
    pub fn register(&mut self, descriptor: Box<dyn Descriptor>) -> Result<KindId, RegisterError> {
        let kind = self.core.registry.register(descriptor)?;
        self.late_kind |= self.core.graph.vertex_count() > 0;
        Ok(kind)
    }

    /// The registered kinds.
    pub fn registry(&self) -> &Registry {
        &self.core.registry
    }

    /// What happened so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Where the transaction under way stands.
    pub fn stage(&self) -> Stage {
        self.current.as_ref().map_or(Stage::Idle, |current| current.stage)
    }

    /// Begins a transaction.
    pub fn begin(&mut self, txn: Txn, now: Timestamp) -> Seq {
        assert!(self.current.is_none(), "one transaction at a time");
        self.last_seq += 1;
        let seq = self.last_seq;
        let Txn { request, description, retry } = txn;
        let spare = std::mem::take(&mut self.spare);
        let mut walk = Walk::new(seq, now, txn_type(&request), description, spare);
        walk.retry = retry;
        let mut current = Current {
            walk,
            stage: Stage::Refreshing,
            refresh: None,
            pending: None,
            queued: [].into(),
            plan: None,
        };
        let walk = &mut current.walk;
        let core = &mut self.core;
        match request {
            Request::Changes { changes, on_failure } => {
                walk.on_failure = on_failure;
                let changes = in_order(changes);
                stage_changes(walk, core, &changes);
                walk.arguments = arguments(changes);
            }
            Request::Resync(resync) => {
                current.refresh = match &resync {
                    Resync::Full(changes) => Some(Refresh::everything(core, changes)),
                    Resync::Downstream => Some(Refresh::everything(core, &[])),
                    Resync::Refresh(keys) => {
                        let ids: Vec<Id> =
                            keys.iter().map(|key| core.graph.intern_key(key, &core.registry)).collect();
                        walk.leavings.extend(&ids);
                        Some(Refresh::of_items(ids, std::collections::VecDeque::new()))
                    }
                    Resync::Upstream(_) => None,
                };
                current.pending = Some(resync);
            }
            Request::Notification(seen) => {
                for (rank, observation) in (0_u32..).zip(&seen) {
                    walk.stage_observation(core, observation, rank);
                }
                walk.arguments =
                    seen.into_iter().map(|seen| Argument { key: seen.key, value: seen.value }).collect();
            }
            Request::Retry(order) => stage_retry(walk, core, &order),
            Request::LateKind => stage_late(walk, core),
            Request::Overdue(keys) => {
                for (rank, key) in (0_u32..).zip(keys) {
                    if let Some(id) = core.graph.find(key.as_str()) {
                        walk.stage_overdue(core, id, rank);
                    }
                }
            }
        }
        self.current = Some(Box::new(current));
        self.advance();
        seq
    }

    /// Begins a transaction only if it would do exactly what this plan says.
    pub fn begin_planned(&mut self, plan: &Plan, txn: Txn, now: Timestamp) -> Result<Seq, Stale> {
        let seq = self.begin(txn, now);
        assert_eq!(self.stage(), Stage::Planned, "a stored plan belongs to a transaction that reads nothing");
        let changed = self.plan().map(|current| plan.difference(current)).unwrap_or_default();
        if changed.is_empty() {
            return Ok(seq);
        }
        self.abandon();
        Err(Stale { changed })
    }

    /// Moves from reading to planning when everything has been read.
    fn advance(&mut self) {
        let Some(current) = self.current.as_mut() else { return };
        if current.stage != Stage::Refreshing {
            return;
        }
        let core = &mut self.core;
        if current.refresh.as_ref().is_some_and(|refresh| !refresh.is_complete()) {
            return;
        }
        let walk = &mut current.walk;
        if let Some(refresh) = current.refresh.take() {
            refresh.apply(walk, core);
        }
        if let Some(resync) = current.pending.take() {
            stage_resync(walk, core, resync);
        }
        walk.stage_contenders(core);
        walk.rank_own(core);
        walk.cascade(core);
        while !walk.order(core, self.settings.plan) {
            walk.cascade(core);
        }
        current.plan = walk.planned.take().map(|steps| Plan { steps });
        current.stage = Stage::Planned;
    }

    /// The plan of the transaction under way.
    pub fn plan(&self) -> Option<&Plan> {
        self.current.as_ref()?.plan.as_ref()
    }

    /// What the transaction text says before anything is done; while it is planned.
    pub fn opening(&self) -> Option<Opening<'_>> {
        let current = self.current.as_ref()?;
        let walk = &current.walk;
        Some(Opening {
            seq: walk.seq,
            txn_type: &walk.txn_type,
            description: &walk.description,
            arguments: &walk.arguments,
            planned: current.plan.as_ref().map(|plan| plan.steps.as_slice()),
        })
    }

    /// Drops the transaction before anything is done. What it declared is forgotten; what it read is kept.
    pub fn abandon(&mut self) {
        let mut current = self.current.take().expect("a transaction is under way");
        assert_eq!(current.stage, Stage::Planned, "only a planned transaction can be dropped");
        let walk = &mut current.walk;
        walk.reverting = true;
        walk.go_back(&mut self.core);
        self.clean_up(walk);
        self.last_seq -= 1;
    }

    /// Begins to carry out the plan.
    pub fn execute(&mut self) {
        let current = self.current.as_mut().expect("a transaction is under way");
        assert_eq!(current.stage, Stage::Planned, "a transaction is carried out once, after it was planned");
        current.stage = Stage::Walking;
        current.walk.planned = current.plan.take().map(|plan| plan.steps);
        current.walk.read_overdue(&mut self.core);
        current.walk.pump(&mut self.core);
        self.note_end();
    }

    fn note_end(&mut self) {
        if let Some(current) = self.current.as_mut()
            && current.stage == Stage::Walking
            && current.walk.done
        {
            current.stage = Stage::Ended;
        }
    }

    /// The next operation that may run, in plan order. A driver that answers each before it asks for the next one
    /// carries out exactly the planned order.
    #[expect(clippy::should_implement_trait, reason = "it is not an iterator: answers come in between")]
    pub fn next(&mut self) -> Option<Operation> {
        let current = self.current.as_mut()?;
        match current.stage {
            Stage::Refreshing => {
                if current.queued.is_empty() {
                    let refresh = current.refresh.as_mut()?;
                    current.queued = refresh.ready(&self.core).into();
                    if current.queued.is_empty() {
                        self.advance();
                        return None;
                    }
                }
                current.queued.pop_front()
            }
            Stage::Walking => {
                let operation = current.walk.next(&mut self.core);
                self.note_end();
                operation
            }
            Stage::Idle | Stage::Planned | Stage::Ended => None,
        }
    }

    /// Every operation that may run now and has not been handed out.
    pub fn ready(&mut self) -> Vec<Operation> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Takes the answer to an operation; answers come in any order.
    pub fn answer(&mut self, id: OpId, answer: Answer, now: Timestamp) {
        let current = self.current.as_mut().expect("a transaction is under way");
        current.walk.now = current.walk.now.max(now);
        match current.stage {
            Stage::Refreshing => {
                let found = match answer {
                    Answer::Listed(list) => Some(list),
                    Answer::Found(found) => Some(vec![found]),
                    Answer::Absent => Some(Vec::new()),
                    Answer::Failed(failure) => {
                        if let Some(what) =
                            current.refresh.as_ref().and_then(|refresh| refresh.what(&self.core, id))
                        {
                            current.walk.failures.push(Cause { key: what, error: failure.message });
                        }
                        None
                    }
                    Answer::Done { .. } | Answer::Accepted { .. } => None,
                };
                if let Some(refresh) = &mut current.refresh {
                    refresh.answer(id, found);
                    if current.queued.is_empty() {
                        current.queued = refresh.ready(&self.core).into();
                    }
                }
                self.advance();
            }
            Stage::Walking => {
                current.walk.answer(&mut self.core, id, answer);
                self.note_end();
            }
            Stage::Idle | Stage::Planned | Stage::Ended => panic!("no operation is under way"),
        }
    }

    /// Starts nothing further. What is under way must still be answered; an all-or-nothing transaction goes back.
    pub fn cancel(&mut self, reason: &str) {
        let Some(current) = self.current.as_mut() else { return };
        if current.stage == Stage::Walking {
            current.walk.cancel(&mut self.core, reason);
            self.note_end();
        }
    }

    /// Ends the transaction: remembers it, and plans the retries that follow from it.
    pub fn finish(&mut self, now: Timestamp) -> Arc<Record> {
        let mut current = self.current.take().expect("a transaction is under way");
        assert_eq!(current.stage, Stage::Ended, "a transaction is finished when nothing is left to do");
        let walk = &mut current.walk;
        self.plan_retries(walk, now);
        for (deadline, key) in std::mem::take(&mut walk.deadlines) {
            self.timers += 1;
            self.confirmations.insert((deadline, self.timers), key);
        }
        let outcome = walk.outcome(&self.core);
        let settled = walk.settle(&self.core);
        let stirred = walk.stirred_keys(&self.core);
        self.clean_up(walk);
        let executed = match walk.steps.take() {
            Some(steps) => Executed::Steps(steps),
            None => Executed::AsPlanned,
        };
        let failures: Vec<Cause> = walk.failures.drain(..).chain(walk.revert_failures.drain(..)).collect();
        let record = Arc::new(Record {
            seq: walk.seq,
            txn_type: walk.txn_type.clone(),
            description: std::mem::take(&mut walk.description),
            start: walk.start,
            stop: now.max(walk.now),
            arguments: std::mem::take(&mut walk.arguments),
            ignored: std::mem::take(&mut walk.ignored),
            planned: walk.planned.take(),
            executed,
            settled,
            stirred,
            outcome,
            failures,
        });
        self.history.push(record.clone(), now);
        record
    }

    /// Forgets the visits and drops what has become blank.
    fn clean_up(&mut self, walk: &mut Walk) {
        walk.unwind(&mut self.core);
        self.core.graph.sweep(&walk.leavings);
        self.spare = walk.work_lists();
    }

    /// Groups what failed by when it is tried again.
    fn plan_retries(&mut self, walk: &Walk, now: Timestamp) {
        let mut groups: BTreeMap<(Timestamp, Seq, u32), Vec<(Key, Seq)>> = BTreeMap::new();
        let graph = &self.core.graph;
        for visit in &walk.visits {
            let Some(failure) = graph[visit.id].failure().filter(|failure| failure.seq == walk.seq) else {
                continue;
            };
            let (Some(attempt), Some(retry)) = (failure.next_attempt, graph.retry_of(visit.id)) else {
                continue;
            };
            let base = graph.base_of(visit.id);
            let at = now.after(retry.delay(attempt));
            let list = groups.entry((at, walk.seq, attempt)).or_default();
            list.push((graph[base].key.clone(), graph[base].revision));
        }
        for ((at, seq, attempt), mut items) in groups {
            items.sort();
            items.dedup();
            self.timers += 1;
            let of = if let TxnType::Retry { of, .. } = walk.txn_type { of } else { seq };
            self.retries.insert((at, self.timers), RetryOrder { of, attempt, items });
        }
    }

    /// Retries that are planned.
    pub fn retries(&self) -> Vec<(Timestamp, RetryOrder)> {
        self.retries.iter().map(|((at, _), order)| (*at, order.clone())).collect()
    }

    /// When [`Self::due`] has to be asked next.
    pub fn deadline(&self) -> Option<Timestamp> {
        if self.late_kind {
            return Some(Timestamp(0));
        }
        let retry = self.retries.keys().next().map(|(at, _)| *at);
        let confirmation = self.confirmations.keys().next().map(|(at, _)| *at);
        retry.into_iter().chain(confirmation).min()
    }

    /// A transaction that is due by now: items of a late kind, overdue confirmations, retries.
    pub fn due(&mut self, now: Timestamp) -> Option<Txn> {
        if std::mem::take(&mut self.late_kind) && stage_late_is_needed(&self.core) {
            return Some(Txn::new(Request::LateKind));
        }
        let mut overdue: Vec<Key> = Vec::new();
        while let Some(entry) = self.confirmations.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            let waits = self.core.graph.find(key.as_str()).is_some_and(|id| {
                self.core.graph[id].awaited().is_some_and(|awaited| awaited.deadline <= now)
            });
            if waits && !overdue.contains(&key) {
                overdue.push(key);
            }
        }
        if !overdue.is_empty() {
            return Some(Txn::new(Request::Overdue(overdue)));
        }
        while let Some(entry) = self.retries.first_entry().filter(|entry| entry.key().0 <= now) {
            let mut order = entry.remove();
            order.items.retain(|(key, revision)| is_retry_wanted(&self.core, key, *revision));
            if !order.items.is_empty() {
                return Some(Txn::new(Request::Retry(order)));
            }
        }
        None
    }
}

fn txn_type(request: &Request) -> TxnType {
    match request {
        Request::Changes { on_failure, .. } => TxnType::Changes { on_failure: *on_failure },
        Request::Resync(Resync::Full(_)) => TxnType::FullResync,
        Request::Resync(Resync::Upstream(_)) => TxnType::UpstreamResync,
        Request::Resync(Resync::Downstream) => TxnType::DownstreamResync,
        Request::Resync(Resync::Refresh(_)) => TxnType::Refresh,
        Request::Notification(_) => TxnType::Notification,
        Request::Retry(order) => TxnType::Retry { of: order.of, attempt: order.attempt },
        Request::LateKind => TxnType::LateKind,
        Request::Overdue(_) => TxnType::Overdue,
    }
}

/// By key; of several changes of one key the last wins.
fn in_order(mut changes: Vec<Change>) -> Vec<Change> {
    if !changes.is_sorted_by(|a, b| a.key < b.key) {
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        let mut at = 0;
        changes.dedup_by(|later, earlier| {
            at += 1;
            let same = later.key == earlier.key;
            if same {
                std::mem::swap(later, earlier);
            }
            same
        });
    }
    changes
}

fn arguments(changes: Vec<Change>) -> Vec<Argument> {
    changes.into_iter().map(|change| Argument { key: change.key, value: change.value }).collect()
}

fn stage_changes(walk: &mut Walk, core: &mut Core, changes: &[Change]) {
    core.graph.reserve(changes.len());
    walk.visits.reserve(changes.len());
    for (rank, change) in (0_u32..).zip(changes) {
        match &change.value {
            Some(value) => walk.stage_put(core, change, value, rank),
            None => {
                if let Some(id) = core.graph.find(change.key.as_str()) {
                    walk.stage_remove(core, id, rank);
                }
            }
        }
    }
}

fn stage_resync(walk: &mut Walk, core: &mut Core, resync: Resync) {
    match resync {
        Resync::Full(changes) | Resync::Upstream(changes) => {
            let changes: Vec<Change> = in_order(changes);
            stage_changes(walk, core, &changes);
            core.graph.epoch += 1;
            let sweep = core.graph.epoch;
            for change in changes.iter().filter(|change| change.value.is_some()) {
                if let Some(id) = core.graph.find(change.key.as_str()) {
                    core.graph[id].seen = sweep;
                }
            }
            let rank = u32::try_from(changes.len()).unwrap_or(NO - 1);
            walk.stage_rest_as_removed(core, sweep, rank);
            walk.stage_unsettled(core);
            walk.arguments = arguments(changes);
        }
        Resync::Downstream => walk.stage_unsettled(core),
        Resync::Refresh(_) => {}
    }
}

/// Whether a failed item has not been declared anew since.
fn is_retry_wanted(core: &Core, key: &Key, revision: Seq) -> bool {
    let Some(id) = core.graph.find(key.as_str()) else { return false };
    let node = &core.graph[id];
    let failed = |id: Id| core.graph[id].failure().is_some_and(|failure| failure.next_attempt.is_some());
    node.revision <= revision && (failed(id) || node.derived.iter().any(|child| failed(*child)))
}

fn stage_retry(walk: &mut Walk, core: &mut Core, order: &RetryOrder) {
    walk.is_retry = true;
    walk.attempt = order.attempt;
    for (rank, (key, revision)) in (0_u32..).zip(&order.items) {
        if !is_retry_wanted(core, key, *revision) {
            continue;
        }
        let Some(id) = core.graph.find(key.as_str()) else { continue };
        walk.stage_again(core, id, rank);
        let at = core.graph[id].visit;
        walk.visits[at as usize].own = true;
        for at in 0..core.graph[id].derived.len() {
            let child = core.graph[id].derived[at];
            walk.stage(core, child, rank);
            walk.forgive(core, child);
        }
    }
}

fn stage_late_is_needed(core: &Core) -> bool {
    core.graph.ids().any(|id| is_late(core, id))
}

fn is_late(core: &Core, id: Id) -> bool {
    core.graph[id].kind.get().is_none() && core.registry.owner(core.graph[id].key.as_str()).is_some()
}

fn stage_late(walk: &mut Walk, core: &mut Core) {
    let mut late: Vec<Id> = core.graph.ids().filter(|id| is_late(core, *id)).collect();
    crate::graph::sort_by_key(&core.graph, &mut late, |id| *id);
    for (rank, id) in (0_u32..).zip(late) {
        let kind = core.registry.owner(core.graph[id].key.as_str()).unwrap_or(KindId::NONE);
        if core.graph[id].declared.is_none() {
            core.graph[id].kind = kind;
            continue;
        }
        walk.stage(core, id, rank);
        if core.graph[id].exists() {
            // It was a property, there with its base; from now on somebody makes it.
            walk.take_away(core, id);
        }
        core.graph[id].kind = kind;
        if core.graph[id].has(Flags::DERIVED) {
            let base = core.graph[id].base;
            walk.stage_derived(core, base, rank);
            crate::walk::put::restage_needs(core, id, crate::graph::node::EdgeBits::DECLARED);
        } else {
            walk.stage_again(core, id, rank);
        }
    }
}

impl Walk {
    /// How the transaction ended.
    fn outcome(&self, core: &Core) -> Outcome {
        if let Some(cause) = self.revert_cause.clone() {
            return match self.revert_failures.first() {
                None => Outcome::Reverted(cause),
                Some(revert) => Outcome::RevertFailed { cause, revert: revert.clone() },
            };
        }
        if let Some(cause) = self.failures.first() {
            return Outcome::Incomplete(cause.clone());
        }
        let waits = |id: Id| {
            matches!(
                core.graph.state(id),
                State::Pending | State::Unimplemented | State::Applying | State::Removing
            )
        };
        let visited = self.visits.iter().any(|visit| self.is_own(core, visit.id) && waits(visit.id));
        let asked = self
            .unchanged
            .iter()
            .any(|id| waits(*id) || core.graph[*id].derived.iter().any(|child| waits(*child)));
        if visited || asked { Outcome::AppliedWithPending } else { Outcome::Applied }
    }

    /// Orders the transaction's own changes for people: removals, re-creations, creations, updates, each by key.
    fn rank_own(&mut self, core: &Core) {
        let class = |walk: &Self, id: Id| {
            let node = &core.graph[id];
            let recreate = walk
                .visit_of(core, id)
                .is_some_and(|visit| matches!(visit.how, crate::walk::How::Recreate(_)));
            match (node.declared.is_some(), node.exists()) {
                (false, _) => 0_u8,
                (true, true) if recreate => 1,
                (true, false) => 2,
                (true, true) => 3,
            }
        };
        let mut classes: Vec<(u8, u32)> = Vec::new();
        for visit in &self.visits {
            let at = visit.rank as usize;
            if classes.len() <= at {
                classes.resize(at + 1, (u8::MAX, NO));
            }
            if core.graph[visit.id].base == NO || classes[at].0 == u8::MAX {
                classes[at] = (class(self, visit.id), visit.rank);
            }
        }
        let mut order: Vec<(u8, u32)> = classes.into_iter().filter(|(class, _)| *class != u8::MAX).collect();
        order.sort_by_key(|(class, _)| *class);
        let mut new_rank = vec![0_u32; order.iter().map(|(_, rank)| *rank as usize + 1).max().unwrap_or(0)];
        for (position, (_, rank)) in (0_u32..).zip(&order) {
            new_rank[*rank as usize] = position;
        }
        for visit in &mut self.visits {
            visit.rank = new_rank[visit.rank as usize];
        }
        for (_, rank) in &mut self.queue {
            if let Some(new) = new_rank.get(*rank as usize) {
                *rank = *new;
            }
        }
    }
}
