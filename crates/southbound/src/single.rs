//! Actuators that act on one item at a time: the easy way to make a kind real.

use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, StreamExt as _};
use kilter_scheduler::{Act, Answer, Expected, Facts, Key, Origin, Retrieved, Value, ValueRef};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::actuator::Actuator;
use crate::batch::{Assignment, Batch, Reply};
use crate::error::{ActError, OperationError};

/// An actuator of one kind that acts on one item at a time. [`each`] makes an [`Actuator`] of it.
///
/// The methods may be written as `async fn`. **Assumes** that a future may be dropped at any of its await points:
/// that is what happens to an operation that is overdue.
///
/// ```
/// # use std::collections::BTreeMap;
/// # use std::sync::{Arc, Mutex};
/// use kilter_scheduler::Key;
/// use kilter_southbound::{ActError, Actuators, Context, Made, ReadOne, Seen, SingleItem, Sought, each};
///
/// /// Notes on a board: key and text.
/// #[derive(Default)]
/// struct Board(Mutex<BTreeMap<Key, String>>);
///
/// impl SingleItem for Board {
///     type Value = String;
///
///     async fn create(&self, key: &Key, text: &String, _: &Context) -> Result<Made, ActError> {
///         self.0.lock().unwrap().insert(key.clone(), text.clone());
///         Ok(Made::Done)
///     }
///
///     async fn delete(&self, key: &Key, _: &String, _: &Context) -> Result<Made, ActError> {
///         let taken_off = self.0.lock().unwrap().remove(key);
///         taken_off.map(|_| Made::Done).ok_or_else(|| ActError::lasting("there is no such note"))
///     }
///
///     async fn retrieve_all(
///         &self,
///         _: &[Sought<'_, String>],
///         _: &Context,
///     ) -> Result<Vec<Seen<String>>, ActError> {
///         let notes = self.0.lock().unwrap();
///         Ok(notes.iter().map(|(key, text)| Seen::new(key.clone(), text.clone())).collect())
///     }
///
///     fn read_one(&self) -> ReadOne {
///         ReadOne::OutOfAll
///     }
/// }
///
/// let mut actuators = Actuators::new();
/// actuators.add("note", Arc::new(each(Board::default())))?;
/// # Ok::<(), kilter_southbound::AddActuatorError>(())
/// ```
pub trait SingleItem: Send + Sync + 'static {
    /// The type of the kind's values.
    type Value: Value;

    /// Makes the item.
    fn create(
        &self,
        key: &Key,
        value: &Self::Value,
        context: &Context,
    ) -> impl Future<Output = Result<Made, ActError>> + Send;

    /// Changes the item in place. Needed if the kind's descriptor ever says that an update does it.
    fn update(
        &self,
        key: &Key,
        _old: &Self::Value,
        _new: &Self::Value,
        context: &Context,
    ) -> impl Future<Output = Result<Made, ActError>> + Send {
        ready(Err(context.unsupported(key, "update")))
    }

    /// Removes the item.
    fn delete(
        &self,
        key: &Key,
        value: &Self::Value,
        context: &Context,
    ) -> impl Future<Output = Result<Made, ActError>> + Send;

    /// Reads the item, `None` if it does not exist. `expected` is what it should be, for systems that cannot name
    /// things. Needed unless [`SingleItem::read_one`] says otherwise.
    fn retrieve(
        &self,
        key: &Key,
        _expected: Option<&Self::Value>,
        context: &Context,
    ) -> impl Future<Output = Result<Option<Seen<Self::Value>>, ActError>> + Send {
        ready(Err(context.unsupported(key, "retrieve")))
    }

    /// Reads every item of the kind. `expected` is what should be there, for systems that cannot name things.
    fn retrieve_all(
        &self,
        expected: &[Sought<'_, Self::Value>],
        context: &Context,
    ) -> impl Future<Output = Result<Vec<Seen<Self::Value>>, ActError>> + Send;

    /// How one item is read.
    fn read_one(&self) -> ReadOne {
        ReadOne::ByKey
    }
}

/// How one item is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOne {
    /// [`SingleItem::retrieve`] does it.
    ByKey,
    /// [`SingleItem::retrieve_all`] is called, once for all the items that are to be read at that moment.
    OutOfAll,
}

/// What an operation has to know besides the value.
#[derive(Clone, Debug)]
pub struct Context {
    /// The name of the kind.
    pub kind: Arc<str>,
    /// The facts of the item itself.
    pub facts: Option<Facts>,
    /// The facts of what the item needs, and of its base.
    pub needs: Vec<(Key, Facts)>,
}

impl Context {
    /// The facts of the item itself, if they are of this type.
    pub fn own<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.facts.as_ref()?.downcast()
    }

    /// The facts of an item that this one needs, if they are of this type.
    pub fn of<T: Send + Sync + 'static>(&self, key: &str) -> Option<&T> {
        self.needs.iter().find(|(needed, _)| needed.as_str() == key)?.1.downcast()
    }

    fn unsupported(&self, key: &Key, operation: &'static str) -> ActError {
        OperationError::Unsupported { key: key.clone(), kind: Arc::clone(&self.kind), operation }.into()
    }
}

/// How a create, update or delete went well.
#[derive(Clone, Debug, Default)]
pub enum Made {
    /// The effect is there.
    #[default]
    Done,
    /// The effect is there, and something was learnt.
    With(Facts),
    /// The effect comes later; an observation will confirm it.
    Within(Duration),
}

impl From<Made> for Answer {
    fn from(made: Made) -> Self {
        match made {
            Made::Done => Self::Done { facts: None },
            Made::With(facts) => Self::Done { facts: Some(facts) },
            Made::Within(within) => Self::Accepted { within },
        }
    }
}

/// An item that should be there.
#[derive(Clone, Copy, Debug)]
pub struct Sought<'a, V> {
    /// The item.
    pub key: &'a Key,
    /// Its value.
    pub value: &'a V,
    /// What is known about it.
    pub facts: Option<&'a Facts>,
}

/// An item that was read.
#[derive(Clone, Debug)]
pub struct Seen<V> {
    /// The item.
    pub key: Key,
    /// What it is.
    pub value: V,
    /// What reading it taught.
    pub facts: Option<Facts>,
    /// Whose it is; `None` if the system does not tell.
    pub origin: Option<Origin>,
}

impl<V: Value> Seen<V> {
    /// An item with its value; nothing else is known.
    pub fn new(key: impl Into<Key>, value: V) -> Self {
        Self { key: key.into(), value, facts: None, origin: None }
    }

    /// Adds what reading it taught.
    #[must_use]
    pub fn with_facts(mut self, facts: Facts) -> Self {
        self.facts = Some(facts);
        self
    }

    /// Adds whose it is.
    #[must_use]
    pub fn with_origin(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    fn into_retrieved(self) -> Retrieved {
        let Self { key, value, facts, origin } = self;
        Retrieved { key, value: ValueRef::new(value), facts, origin }
    }
}

/// Makes an actuator that acts on one item after another.
pub fn each<S: SingleItem>(single: S) -> Each<S> {
    Each { single, turns: Semaphore::new(1) }
}

/// An actuator that acts on each item by itself; see [`each`].
///
/// **Guarantees**: an item that panics or is overdue fails alone, and the rest of the batch goes on. The limit on how
/// many items are acted on at the same time holds across batches.
#[derive(Debug)]
pub struct Each<S> {
    single: S,
    /// One for each item that may be acted on at the same time.
    turns: Semaphore,
}

impl<S: SingleItem> Each<S> {
    /// Acts on up to so many items at the same time.
    #[must_use]
    pub fn concurrently(mut self, at_once: NonZeroUsize) -> Self {
        self.turns = Semaphore::new(at_once.get().min(Semaphore::MAX_PERMITS));
        self
    }

    async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.acquire().await.expect("nobody closes the semaphore")
    }

    /// Takes the next item out of the batch when its turn comes: only then its deadline begins.
    async fn next_turn(&self, mut batch: Batch) -> Option<((Assignment, SemaphorePermit<'_>), Batch)> {
        let turn = self.turn().await;
        Some(((batch.next()?, turn), batch))
    }

    async fn attend(&self, assignment: Assignment, deadline: Duration) {
        let Assignment { kind, act, needs, reply } = assignment;
        if let Some(answer) = guarded(self.act(kind, act, needs), deadline).await {
            reply.send(answer);
        }
    }

    async fn act(&self, kind: Arc<str>, act: Act, needs: Vec<(Key, Facts)>) -> Result<Answer, ActError> {
        let context = |facts| Context { kind: Arc::clone(&kind), facts, needs };
        match act {
            Act::Create { key, value } => {
                let made = self.single.create(&key, typed(&key, &kind, &value)?, &context(None)).await?;
                Ok(made.into())
            }
            Act::Update { key, old, new, facts } => {
                let (old, new) = (typed(&key, &kind, &old)?, typed(&key, &kind, &new)?);
                Ok(self.single.update(&key, old, new, &context(facts)).await?.into())
            }
            Act::Delete { key, value, facts } => {
                let made = self.single.delete(&key, typed(&key, &kind, &value)?, &context(facts)).await?;
                Ok(made.into())
            }
            Act::Retrieve { key, expected, facts } => {
                // What is expected is a hint; one of another type says nothing.
                let expected = expected.as_ref().and_then(ValueRef::downcast);
                let seen = self.single.retrieve(&key, expected, &context(facts)).await?;
                Ok(seen.map_or(Answer::Absent, |seen| Answer::Found(seen.into_retrieved())))
            }
            Act::RetrieveAll { expected, .. } => {
                let seen = self.single.retrieve_all(&sought(&expected), &context(None)).await?;
                Ok(Answer::Listed(seen.into_iter().map(Seen::into_retrieved).collect()))
            }
        }
    }

    /// Reads each kind as a whole to answer for some of its items.
    async fn pick_out_of_all(&self, reads: Vec<Assignment>, deadline: Duration) {
        let mut by_kind: BTreeMap<Arc<str>, Reading> = BTreeMap::new();
        for Assignment { kind, act, reply, .. } in reads {
            let Act::Retrieve { key, expected, facts } = act else { continue };
            let Reading { expected: expecting, asked } = by_kind.entry(kind).or_default();
            expecting.extend(expected.map(|value| Expected { key: key.clone(), value, facts }));
            asked.push((key, reply));
        }
        for (kind, Reading { expected, asked }) in by_kind {
            let all = self.act(kind, Act::RetrieveAll { expected, since: None }, Vec::new());
            if let Some(answer) = guarded(all, deadline).await {
                answer_each(answer, asked);
            }
        }
    }
}

impl<S: SingleItem> Actuator for Each<S> {
    fn perform(&self, mut batch: Batch) -> BoxFuture<'_, ()> {
        let deadline = batch.deadline();
        async move {
            if batch.is_read() && self.single.read_one() == ReadOne::OutOfAll {
                let _turn = self.turn().await;
                let (ones, alls): (Vec<_>, Vec<_>) =
                    batch.take_all().into_iter().partition(|read| matches!(read.act, Act::Retrieve { .. }));
                self.pick_out_of_all(ones, deadline).await;
                for all in alls {
                    self.attend(all, deadline).await;
                }
                return;
            }
            stream::unfold(batch, |batch| self.next_turn(batch))
                .for_each_concurrent(None, |(assignment, turn)| async move {
                    self.attend(assignment, deadline).await;
                    drop(turn);
                })
                .await;
        }
        .boxed()
    }
}

/// A whole kind that is read for some of its items.
#[derive(Default)]
struct Reading {
    expected: Vec<Expected>,
    asked: Vec<(Key, Reply)>,
}

/// Gives each item that was asked for its part of a whole kind.
fn answer_each(all: Answer, asked: Vec<(Key, Reply)>) {
    let mut seen: BTreeMap<Key, Retrieved> = match all {
        Answer::Listed(list) | Answer::ListedAs(_, list) => {
            list.into_iter().map(|seen| (seen.key.clone(), seen)).collect()
        }
        failed @ (Answer::Failed(_)
        | Answer::Done { .. }
        | Answer::Accepted { .. }
        | Answer::Found(_)
        | Answer::Absent
        | Answer::AsListed
        | Answer::NotAsListed) => {
            asked.into_iter().for_each(|(_, reply)| reply.send(failed.clone()));
            return;
        }
    };
    for (key, reply) in asked {
        reply.send(seen.remove(&key).map_or(Answer::Absent, Answer::Found));
    }
}

/// The answer, a failure if the code panicked, or nothing if it is overdue: the driver says that by itself.
async fn guarded(
    acting: impl Future<Output = Result<Answer, ActError>>,
    deadline: Duration,
) -> Option<Answer> {
    let result = tokio::time::timeout(deadline, AssertUnwindSafe(acting).catch_unwind()).await.ok()?;
    Some(match result {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => Answer::Failed(error.into()),
        Err(payload) => OperationError::panicked(&*payload).into(),
    })
}

fn typed<'a, V: Value>(key: &Key, kind: &Arc<str>, value: &'a ValueRef) -> Result<&'a V, OperationError> {
    value.downcast().ok_or_else(|| OperationError::WrongType { key: key.clone(), kind: Arc::clone(kind) })
}

fn sought<V: Value>(expected: &[Expected]) -> Vec<Sought<'_, V>> {
    let typed = expected.iter().map(|Expected { key, value, facts }| {
        let facts = facts.as_ref();
        value.downcast().map(|value| Sought { key, value, facts })
    });
    typed.flatten().collect()
}
