//! Recording: everything the loop was told, line by line, so that the run can be replayed.
//!
//! Decided here: what has to be written down. Events come in, operations are answered, moments are named; everything
//! else follows from them. Facts are not written down: they are for actuators, and a replay has none. Where the lines
//! go is not decided here: [`crate::EventLoop::take_recording`] hands them out.

use std::time::Duration;

use kilter_scheduler::{
    Answer, Failure, Key, Listing, OpId, Origin, Plan, PlanHash, Record, Retrieved, Scheduler, Timestamp,
    Told,
};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::event::{Event, ReadValue, Written};
use crate::settings::Settings;

/// One line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// The loop began.
    Started {
        /// When.
        now: Timestamp,
        /// How it was set.
        settings: Settings,
        /// What an earlier loop left to it.
        #[serde(default, skip_serializing_if = "Heritage::is_empty")]
        heritage: Heritage,
        /// Which program it was part of; for people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
    /// A kind was added that the program does not bring along, described so.
    Kind(Json),
    /// An event was taken in.
    Taken(Written),
    /// The loop was asked what to do next.
    Next(Timestamp),
    /// The transaction that the loop asked for began.
    Begun(Timestamp),
    /// The scheduler was asked for an operation, and offered this one.
    Asked(Option<OpId>),
    /// An operation ended.
    Answered(OpId, WrittenAnswer, Timestamp),
    /// The plan was to be carried out.
    Executed,
    /// The plan was dropped.
    Abandoned,
    /// Nothing further was to be started.
    Cancelled(String),
    /// The transaction was ended.
    Finished(Timestamp),
    /// The loop was told that its transaction is done.
    Committed {
        /// When.
        now: Timestamp,
        /// The hash of its plan; `None` if it was dropped, or planning is switched off.
        plan: Option<String>,
        /// Why it was dropped, if somebody said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<String>,
    },
    /// The loop was told what its transaction would do.
    Planned {
        /// When.
        now: Timestamp,
        /// The hash of the plan.
        plan: Option<String>,
    },
    /// The run ended, with this graph.
    Ended {
        /// The hash of the graph.
        graph: String,
    },
}

/// What an earlier loop left to this one: where the numbers go on, and who has which place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Heritage {
    /// The last transaction.
    pub txn: u64,
    /// The next event.
    pub event: u64,
    /// The external sources, in their places.
    pub sources: Vec<String>,
}

impl Heritage {
    /// Numbers above this one cannot come out of a run.
    const LAST: u64 = u64::MAX >> 1;

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it can come out of a run.
    pub(crate) fn is_possible(&self) -> bool {
        self.txn <= Self::LAST && self.event <= Self::LAST
    }
}

/// An answer as it is written down: without facts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WrittenAnswer {
    /// It is done.
    Done,
    /// It was accepted.
    Accepted {
        /// How long the confirmation may take.
        within: Duration,
    },
    /// It failed.
    Failed {
        /// Why.
        message: String,
        /// Whether it may succeed later.
        retriable: bool,
    },
    /// The item was found.
    Found(WrittenItem),
    /// The item was not found.
    Absent,
    /// Everything of a kind.
    Listed(Vec<WrittenItem>),
    /// Everything of a kind, and what the listing is called.
    ListedAs(Listing, Vec<WrittenItem>),
    /// Everything of a kind is as it was listed.
    AsListed,
    /// A kind may not be as it was listed.
    NotAsListed,
}

/// An item that was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WrittenItem {
    key: Key,
    value: Json,
    origin: Option<Origin>,
}

impl From<&Retrieved> for WrittenItem {
    fn from(seen: &Retrieved) -> Self {
        Self { key: seen.key.clone(), value: seen.value.to_whole_json(), origin: seen.origin }
    }
}

impl WrittenItem {
    fn read(self, values: &dyn ReadValue) -> Result<Retrieved, String> {
        let value = values.read_value(&self.key, &self.value)?;
        Ok(Retrieved { key: self.key, value, facts: None, origin: self.origin })
    }
}

impl From<&Answer> for WrittenAnswer {
    fn from(answer: &Answer) -> Self {
        match answer {
            Answer::Done { .. } => Self::Done,
            Answer::Accepted { within } => Self::Accepted { within: *within },
            Answer::Failed(Failure { message, retriable }) => {
                Self::Failed { message: message.to_string(), retriable: *retriable }
            }
            Answer::Found(seen) => Self::Found(seen.into()),
            Answer::Absent => Self::Absent,
            Answer::Listed(list) => Self::Listed(list.iter().map(Into::into).collect()),
            Answer::ListedAs(listing, list) => {
                Self::ListedAs(*listing, list.iter().map(Into::into).collect())
            }
            Answer::AsListed => Self::AsListed,
            Answer::NotAsListed => Self::NotAsListed,
        }
    }
}

impl WrittenAnswer {
    pub(crate) fn read(self, values: &dyn ReadValue) -> Result<Answer, String> {
        Ok(match self {
            Self::Done => Answer::done(),
            Self::Accepted { within } => Answer::Accepted { within },
            Self::Failed { message, retriable } => {
                Answer::Failed(Failure { message: message.into(), retriable })
            }
            Self::Found(item) => Answer::Found(item.read(values)?),
            Self::Absent => Answer::Absent,
            Self::Listed(list) => {
                Answer::Listed(list.into_iter().map(|item| item.read(values)).collect::<Result<_, _>>()?)
            }
            Self::ListedAs(listing, list) => {
                let list = list.into_iter().map(|item| item.read(values)).collect::<Result<_, _>>()?;
                Answer::ListedAs(listing, list)
            }
            Self::AsListed => Answer::AsListed,
            Self::NotAsListed => Answer::NotAsListed,
        })
    }
}

impl From<Told> for Line {
    fn from(told: Told) -> Self {
        match told {
            Told::Begun { now } => Self::Begun(now),
            Told::Asked { offered } => Self::Asked(offered),
            Told::Answered { id, answer, now } => Self::Answered(id, (&answer).into(), now),
            Told::Executed => Self::Executed,
            Told::Abandoned => Self::Abandoned,
            Told::Finished { now } => Self::Finished(now),
            Told::Cancelled { reason } => Self::Cancelled(reason),
        }
    }
}

/// Writes down what the loop is told.
#[derive(Debug)]
pub(crate) struct Recorder(Vec<Line>);

impl Recorder {
    pub(crate) fn new(started: Line) -> Self {
        Self(vec![started])
    }

    pub(crate) fn take(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.0)
    }

    /// Everything that is left, and the end of the run.
    pub(crate) fn end(mut self, graph: String) -> Vec<Line> {
        self.0.push(Line::Ended { graph });
        self.0
    }

    /// A kind was added.
    pub(crate) fn kind(&mut self, description: Json) {
        self.0.push(Line::Kind(description));
    }

    /// The loop took these events and, if it matters, was asked what to do next.
    pub(crate) fn asked(&mut self, now: Timestamp, taken: &[Event], matters: bool) {
        self.0.extend(taken.iter().map(|event| Line::Taken(event.written())));
        self.0.extend(matters.then_some(Line::Next(now)));
    }

    pub(crate) fn told(&mut self, journal: Vec<Told>) {
        self.0.extend(journal.into_iter().map(Line::from));
    }

    pub(crate) fn committed(&mut self, record: Option<&Record>, refused: Option<&str>, now: Timestamp) {
        let plan = record.and_then(record_hash);
        self.0.push(Line::Committed { now, plan, refused: refused.map(ToOwned::to_owned) });
    }

    pub(crate) fn planned(&mut self, plan: Option<&Plan>, now: Timestamp) {
        self.0.push(Line::Planned { now, plan: plan.map(Plan::hash).as_ref().map(PlanHash::to_string) });
    }
}

/// The hash of the plan that a record remembers.
pub(crate) fn record_hash(record: &Record) -> Option<String> {
    let steps = record.planned.clone()?;
    Some(Plan { steps }.hash().to_string())
}

/// The hash of everything that a scheduler knows about its items.
pub fn graph_hash(scheduler: &Scheduler) -> String {
    let items = serde_json::to_vec(&scheduler.items()).unwrap_or_default();
    blake3::hash(&items).to_string()
}
