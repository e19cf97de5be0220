//! The line to a process that makes kinds real: what it was asked and has not answered, and whether it is alive.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kilter_model::remote::{RemoteItem, prefix};
use kilter_scheduler::{Act, Answer, Facts, Failure, FieldError, Key, Origin, Retrieved, ValueRef};
use kilter_southbound::Assignment;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::silence::{Next, Silence};

/// What a process is asked.
#[derive(Debug)]
pub enum Ask {
    /// Operations that may run now.
    Operations(Vec<Numbered>),
    /// What is wrong with these items, if anything.
    Check(u64, Vec<Value>),
    /// Whether it is alive.
    Alive,
}

/// An operation with its number.
#[derive(Debug)]
pub struct Numbered {
    /// The number.
    pub id: u64,
    /// The kind.
    pub kind: Arc<str>,
    /// What is to be done.
    pub act: Act,
}

/// What a process says about an operation.
#[derive(Debug)]
pub enum Said {
    /// It is done, and taught this.
    Done(Option<String>),
    /// It failed.
    Failed(Failure),
    /// What was read.
    Found(Vec<FoundItem>),
}

/// An item that a process has read.
#[derive(Debug)]
pub struct FoundItem {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub value: Value,
    /// What reading it taught.
    pub facts: Option<String>,
    /// Whether somebody else made it.
    pub foreign: bool,
}

/// What is wrong with one of the items that a process was asked about.
pub type Wrong = (usize, FieldError);

/// The line to a process.
#[derive(Debug)]
pub struct Line {
    /// What the process is called.
    pub name: Arc<str>,
    within: Duration,
    asks: mpsc::UnboundedSender<Ask>,
    state: Mutex<State>,
    /// Its trouble is another one.
    stands: Notify,
    /// There may be something to do about a silence.
    stirs: Notify,
}

#[derive(Debug)]
struct State {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<Said>>,
    checking: HashMap<u64, oneshot::Sender<Vec<Wrong>>>,
    silence: Silence,
    is_closed: bool,
}

impl Line {
    /// A line, and what is to be sent over it.
    pub fn open(name: &str, within: Duration) -> (Arc<Self>, mpsc::UnboundedReceiver<Ask>) {
        let (asks, asked) = mpsc::unbounded_channel();
        let state = State {
            last: 0,
            waiting: HashMap::new(),
            checking: HashMap::new(),
            silence: Silence::new(within, Instant::now()),
            is_closed: false,
        };
        let (stands, stirs) = (Notify::new(), Notify::new());
        (Arc::new(Self { name: name.into(), within, asks, state: Mutex::new(state), stands, stirs }), asked)
    }

    /// Why nothing can be asked; `None` if the process is there.
    pub fn trouble(&self) -> Option<String> {
        let state = self.locked();
        if state.is_closed {
            Some(format!("the process `{}` is away", self.name))
        } else if state.silence.is_there() {
            Some(format!("the process `{}` does not answer", self.name))
        } else {
            None
        }
    }

    /// Whether the stream has ended.
    pub fn is_closed(&self) -> bool {
        self.locked().is_closed
    }

    /// Passes operations on, and their answers back.
    ///
    /// **Guarantees** that each is answered: by the process, or as failed when it is away or takes too long. One that
    /// takes too long is asked nothing more until it has answered something.
    pub async fn perform(&self, assignments: Vec<Assignment>, deadline: Duration) {
        let within = self.within.min(deadline);
        let (operations, waiting) = self.number(assignments);
        let _ = self.asks.send(Ask::Operations(operations));
        let answers = waiting.into_iter().map(|(assignment, said)| async move {
            let answer = match timeout(within, said).await {
                Ok(Ok(said)) => answer(&assignment, said),
                Ok(Err(_)) => self.failed(),
                Err(_) => {
                    self.leave_unanswered();
                    self.failed()
                }
            };
            assignment.answer(answer);
        });
        futures::future::join_all(answers).await;
    }

    fn number(
        &self,
        assignments: Vec<Assignment>,
    ) -> (Vec<Numbered>, Vec<(Assignment, oneshot::Receiver<Said>)>) {
        let mut state = self.locked();
        let numbered = assignments.into_iter().map(|assignment| {
            let (sender, said) = oneshot::channel();
            state.last += 1;
            let id = state.last;
            // What nobody will answer is not waited for.
            if !state.silence.is_there() && !state.is_closed {
                state.waiting.insert(id, sender);
            }
            let operation = Numbered { id, kind: Arc::clone(&assignment.kind), act: assignment.act.clone() };
            (operation, (assignment, said))
        });
        numbered.unzip()
    }

    /// Asks what is wrong with items.
    pub async fn check(&self, items: Vec<Value>) -> Result<Vec<Wrong>, String> {
        if let Some(trouble) = self.trouble() {
            return Err(trouble);
        }
        let (sender, wrong) = oneshot::channel();
        let id = {
            let mut state = self.locked();
            state.last += 1;
            let id = state.last;
            state.checking.insert(id, sender);
            id
        };
        let _ = self.asks.send(Ask::Check(id, items));
        match timeout(self.within, wrong).await {
            Ok(Ok(wrong)) => Ok(wrong),
            Ok(Err(_)) | Err(_) => {
                self.leave_unanswered();
                Err(self.trouble().unwrap_or_default())
            }
        }
    }

    /// Asks whether the process is alive; one that gave no sign of life for too long is silent.
    pub fn beat(&self, patience: Duration) {
        let _ = self.asks.send(Ask::Alive);
        let now = Instant::now();
        let mut state = self.locked();
        if !state.silence.is_late(patience, now) {
            return;
        }
        // What it was asked is left unanswered, also if it says something else later.
        let mut is_new = !state.waiting.is_empty() && state.silence.leave(now);
        is_new |= state.silence.fall_mute();
        state.give_up();
        drop(state);
        self.stirs.notify_one();
        if is_new {
            self.stands.notify_one();
        }
    }

    /// The process has said something.
    pub fn heard(&self) {
        if self.locked().silence.hear(Instant::now()) {
            self.stands.notify_one();
        }
    }

    /// Ends when the trouble of the line may be another one.
    pub async fn stands_otherwise(&self) {
        self.stands.notified().await;
    }

    /// Tries a process that left something unanswered, ever more rarely, until it answers; until the line is closed.
    ///
    /// It is asked to read everything of a kind. Nobody waits for that but this task, and what it reads is dropped. One
    /// of which nothing can be read is simply asked again.
    pub async fn recover(&self, readable: Option<Arc<str>>) {
        loop {
            let next = {
                let state = self.locked();
                if state.is_closed {
                    return;
                }
                state.silence.next(Instant::now())
            };
            match (next, &readable) {
                (Next::Nothing, _) => self.stirs.notified().await,
                (Next::Wait(until), _) => {
                    tokio::select! {
                        () = sleep_until(until) => {}
                        () = self.stirs.notified() => {}
                    }
                }
                (Next::Try, Some(kind)) => {
                    if !self.try_out(Arc::clone(kind)).await {
                        self.locked().silence.postpone(Instant::now());
                    }
                }
                (Next::Try, None) | (Next::GoOn, _) => {
                    if self.locked().silence.end(Instant::now()) {
                        self.stands.notify_one();
                    }
                }
            }
        }
    }

    /// Whether the process answers when it is asked to read.
    async fn try_out(&self, kind: Arc<str>) -> bool {
        let (sender, said) = oneshot::channel();
        let id = {
            let mut state = self.locked();
            state.last += 1;
            let id = state.last;
            state.waiting.insert(id, sender);
            id
        };
        let act = Act::RetrieveAll { expected: Vec::new(), since: None };
        let _ = self.asks.send(Ask::Operations(vec![Numbered { id, kind, act }]));
        let answered = timeout(self.within, said).await;
        self.locked().waiting.remove(&id);
        matches!(answered, Ok(Ok(_)))
    }

    /// The process has answered an operation; what nobody waits for any more only shows that it answers.
    pub fn answered(&self, id: u64, said: Said) {
        let waiting = {
            let mut state = self.locked();
            state.silence.answer();
            state.waiting.remove(&id)
        };
        if let Some(waiting) = waiting {
            let _ = waiting.send(said);
        }
    }

    /// The process has checked items.
    pub fn checked(&self, id: u64, wrong: Vec<Wrong>) {
        let checking = {
            let mut state = self.locked();
            state.silence.answer();
            state.checking.remove(&id)
        };
        if let Some(checking) = checking {
            let _ = checking.send(wrong);
        }
    }

    /// The stream has ended: what was asked has failed.
    pub fn close(&self) {
        {
            let mut state = self.locked();
            state.is_closed = true;
            state.give_up();
        }
        self.stands.notify_one();
        self.stirs.notify_one();
    }

    /// The process takes too long: what it was asked has failed, and nothing more is asked of it until it answers.
    fn leave_unanswered(&self) {
        let is_new = {
            let mut state = self.locked();
            state.give_up();
            state.silence.leave(Instant::now())
        };
        self.stirs.notify_one();
        if is_new {
            self.stands.notify_one();
        }
    }

    fn failed(&self) -> Answer {
        let trouble = self.trouble();
        Answer::Failed(Failure::retriable(
            trouble.unwrap_or_else(|| format!("the process `{}` did not answer", self.name)),
        ))
    }

    /// Nothing that can panic runs under this lock, so a poisoned one is as good as new.
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whatever was asked is not waited for any more.
    fn give_up(&mut self) {
        self.waiting.clear();
        self.checking.clear();
    }
}

/// What a process said, as the answer to what it was asked.
fn answer(assignment: &Assignment, said: Said) -> Answer {
    let reads = matches!(assignment.act, Act::Retrieve { .. } | Act::RetrieveAll { .. });
    match said {
        Said::Failed(failure) => Answer::Failed(hidden(&assignment.act, failure)),
        Said::Done(facts) if !reads => Answer::Done { facts: facts.map(Facts::new) },
        Said::Found(items) if reads => {
            let found = items.into_iter().map(|item| retrieved(&assignment.kind, item));
            let found: Result<Vec<Retrieved>, Failure> = found.collect();
            match (found, assignment.key()) {
                (Err(failure), _) => Answer::Failed(failure),
                (Ok(found), None) => Answer::Listed(found),
                (Ok(found), Some(key)) => {
                    found.into_iter().find(|one| one.key == *key).map_or(Answer::Absent, Answer::Found)
                }
            }
        }
        Said::Done(_) | Said::Found(_) => {
            Answer::Failed(Failure::lasting("the process answered something that it was not asked"))
        }
    }
}

/// A failure in the words of the process, without the secrets of what it was asked.
fn hidden(act: &Act, failure: Failure) -> Failure {
    let values: Vec<&ValueRef> = match act {
        Act::Create { value, .. } | Act::Delete { value, .. } => vec![value],
        Act::Update { old, new, .. } => vec![old, new],
        Act::Retrieve { expected, .. } => expected.iter().collect(),
        Act::RetrieveAll { expected, .. } => expected.iter().map(|expected| &expected.value).collect(),
    };
    let items = values.into_iter().filter_map(RemoteItem::from_value);
    let message = items.fold(failure.message, |said, item| match item.hide(&said) {
        Cow::Borrowed(_) => said,
        Cow::Owned(text) => text.into(),
    });
    Failure { message, ..failure }
}

fn retrieved(kind: &Arc<str>, item: FoundItem) -> Result<Retrieved, Failure> {
    let wrong =
        || Failure::lasting(format!("the process read `{}`, which is no item of `{kind}`", item.name));
    let Value::Object(fields) = &item.value else { return Err(wrong()) };
    let mut json = fields.clone();
    json.insert("kind".to_owned(), Value::from(&**kind));
    json.insert("name".to_owned(), Value::from(item.name.as_str()));
    let read = RemoteItem::of(&Value::Object(json)).ok_or_else(wrong)?;
    Ok(Retrieved {
        key: Key::from(format!("{}{}", prefix(kind), item.name)),
        value: ValueRef::new(read),
        facts: item.facts.map(Facts::new),
        origin: Some(if item.foreign { Origin::Observed } else { Origin::Declared }),
    })
}
