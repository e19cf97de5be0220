//! The scheduler: one transaction at a time, from what is asked to what is remembered.
//!
//! Numbered steps of a transaction: 1. [`Scheduler::begin`] stages it (a resync first yields what must be read);
//! 2. the plan is there ([`Scheduler::plan`]); 3. [`Scheduler::execute`] or [`Scheduler::abandon`];
//! 4. [`Scheduler::next`] or [`Scheduler::ready`] and [`Scheduler::answer`] until it has ended; 5. [`Scheduler::finish`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bounded::Limits;
use crate::descriptor::Descriptor;
use crate::graph::node::{Flags, Id};
use crate::history::History;
use crate::journal::Told;
use crate::key::Key;
use crate::operation::{Answer, OpId, Operation};
use crate::past::Past;
use crate::plan::{Plan, Stale};
use crate::record::{Argument, Cause, Executed, Record, TxnType};
use crate::refresh::{Read, Refresh};
use crate::registry::{KindId, RegisterError, Registry};
use crate::render::Opening;
use crate::staging::{
    Declared, Pending, arguments, in_order, is_retry_wanted, stage_changes, stage_late, stage_late_is_needed,
    stage_resync, stage_retry, txn_type,
};
use crate::state::{Seq, Timestamp};
use crate::txn::{Request, Resync, RetryOrder, Txn, Undeclared};
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
    /// The items as they were whenever it started over, each with the last transaction before that.
    pub(crate) before: Vec<(Seq, BTreeMap<Key, Past>)>,
    /// The work lists of the transaction before.
    spare: WorkLists,
    /// What it was told since the journal was last taken; `None` while none is kept.
    pub(crate) journal: Option<Vec<Told>>,
}

struct Current {
    walk: Walk,
    stage: Stage,
    refresh: Option<Refresh>,
    /// Items of a late kind, declared again when they have been read.
    late: Vec<Id>,
    /// What is left of a resync when its reads are over.
    pending: Option<Pending>,
    undeclared: Undeclared,
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
            before: Vec::new(),
            spare: WorkLists::default(),
            journal: None,
        }
    }

    /// The number of the newest transaction; 0 before the first one.
    pub fn last_seq(&self) -> Seq {
        self.last_seq
    }

    /// Goes on counting transactions after this one, which an earlier scheduler carried out.
    ///
    /// **Assumes** that no transaction was begun yet.
    pub fn continue_after(&mut self, seq: Seq) {
        assert!(
            self.current.is_none() && self.last_seq == 0,
            "numbers are settled before the first transaction"
        );
        self.last_seq = seq;
        self.history.continue_after(seq);
    }

    /// Starts over with an empty graph. Kinds stay, and numbers and the history go on. Returns the items of ours whose
    /// removal was asked for and that are still there: nobody declares them, so whoever declares everything anew has to
    /// name them.
    ///
    /// **Assumes** that no transaction is under way.
    pub fn start_over(&mut self) -> Vec<Key> {
        assert!(self.current.is_none(), "a transaction is under way");
        self.remember_items();
        let graph = std::mem::take(&mut self.core.graph);
        self.retries.clear();
        self.confirmations.clear();
        (self.timers, self.late_kind) = (0, false);
        self.spare = WorkLists::default();
        let doomed = |id: &Id| graph[*id].exists() && graph[*id].has(Flags::DOOMED);
        graph.ids().filter(doomed).map(|id| graph[id].key.clone()).collect()
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

    /// Whether the transaction under way failed and is on its way back.
    pub fn is_reverting(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.walk.reverting)
    }

    /// Begins a transaction.
    pub fn begin(&mut self, txn: Txn, now: Timestamp) -> Seq {
        assert!(self.current.is_none(), "one transaction at a time");
        self.note(|| Told::Begun { now });
        self.last_seq += 1;
        let seq = self.last_seq;
        let Txn { request, description, retry, undeclared } = txn;
        let spare = std::mem::take(&mut self.spare);
        let mut walk = Walk::new(seq, now, txn_type(&request), description, spare);
        walk.retry = retry;
        let mut current = Current {
            walk,
            stage: Stage::Refreshing,
            refresh: None,
            late: Vec::new(),
            pending: None,
            undeclared,
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
                let (refresh, pending) = match resync {
                    Resync::Full(changes) => {
                        let declared = Declared::new(&core.graph, changes);
                        // What is declared and there is expected anyway.
                        let news = (!declared.is_there).then(|| declared.placed());
                        let refresh = Refresh::everything(core, news.into_iter().flatten());
                        (Some(refresh), Pending::Declare(declared))
                    }
                    Resync::Upstream(changes) => {
                        (None, Pending::Declare(Declared::new(&core.graph, changes)))
                    }
                    Resync::Downstream => {
                        (Some(Refresh::everything(core, std::iter::empty())), Pending::Downstream)
                    }
                    Resync::Refresh(keys) => {
                        let ids: Vec<Id> =
                            keys.iter().map(|key| core.graph.intern_key(key, &core.registry)).collect();
                        walk.leavings.extend(&ids);
                        let refresh = Refresh::of_items(ids, std::collections::VecDeque::new());
                        (Some(refresh), Pending::Refresh)
                    }
                };
                current.refresh = refresh;
                current.pending = Some(pending);
            }
            Request::Notification(seen) => {
                for (rank, observation) in (0_u32..).zip(&seen) {
                    walk.stage_observation(core, observation, rank);
                }
                walk.arguments =
                    seen.into_iter().map(|seen| Argument { key: seen.key, value: seen.value }).collect();
            }
            Request::Retry(order) => stage_retry(walk, core, &order),
            Request::LateKind => {
                let late = stage_late(walk, core);
                if !late.is_empty() {
                    current.refresh =
                        Some(Refresh::of_items(late.clone(), std::collections::VecDeque::new()));
                    current.late = late;
                }
            }
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
        for (rank, id) in (0_u32..).zip(std::mem::take(&mut current.late)) {
            walk.stage_again(core, id, rank);
        }
        if let Some(resync) = current.pending.take() {
            stage_resync(walk, core, resync, &current.undeclared);
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
        self.note(|| Told::Abandoned);
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
        if let Some(journal) = &mut self.journal {
            journal.push(Told::Executed);
        }
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
        let stage = self.stage();
        let operation = self.next_operation();
        if operation.is_some() || self.stage() != stage {
            self.note(|| Told::Asked { offered: operation.as_ref().map(|operation| operation.id) });
        }
        operation
    }

    fn next_operation(&mut self) -> Option<Operation> {
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
        self.note(|| Told::Answered { id, answer: answer.clone(), now });
        let current = self.current.as_mut().expect("a transaction is under way");
        current.walk.now = current.walk.now.max(now);
        match current.stage {
            Stage::Refreshing => {
                let read = match answer {
                    Answer::Listed(list) => Read::Found(list),
                    Answer::ListedAs(listing, list) => Read::Listed(listing, list),
                    Answer::AsListed => Read::AsListed,
                    Answer::NotAsListed => Read::NotAsListed,
                    Answer::Found(found) => Read::Found(vec![found]),
                    Answer::Absent => Read::Found(Vec::new()),
                    Answer::Failed(failure) => {
                        if let Some(what) =
                            current.refresh.as_ref().and_then(|refresh| refresh.what(&self.core, id))
                        {
                            current.walk.failures.push(Cause { key: what, error: failure.message });
                        }
                        Read::Nothing
                    }
                    Answer::Done { .. } | Answer::Accepted { .. } => Read::Nothing,
                };
                if let Some(refresh) = &mut current.refresh {
                    refresh.answer(id, read);
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
        self.note(|| Told::Cancelled { reason: reason.to_owned() });
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
        self.note(|| Told::Finished { now });
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
            let at = now.after(retry.delay(attempt, walk.seq));
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
