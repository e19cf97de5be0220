//! Remote kinds: their descriptor is data, and their actuator another process at the end of a stream.
//!
//! Decided here: which process makes a kind real, and what its absence costs: the operations of its own items fail with
//! the reason, at once, and are tried again; when it is back, its items are read again. Not decided here: how the stream
//! looks on the wire (`northbound`).
//!
//! Read next: [`Remotes::attach`], then [`line`] for what is under way, [`errands`] for who tells the desk, [`kind`] for
//! how data becomes a descriptor.

pub mod errands;
pub mod kind;
pub mod line;
pub mod rules;
mod silence;
pub mod written;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kilter_events::Level;
use kilter_model::remote::{RemoteItem, prefix};
use kilter_scheduler::{FieldError, RegisterError};
use kilter_southbound::AddActuatorError;
use serde_json::Value;

use self::kind::{DescribeError, Description, RemoteActuator, RemoteDescriptor, RemoteKind};
use self::line::Line;
use crate::desk::{Desk, Gone, NewKind, Put};

/// Why a process cannot make kinds real.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// It names none.
    #[error("the process `{name}` names no kind")]
    Nothing {
        /// The process.
        name: String,
    },
    /// A kind cannot be described so.
    #[error(transparent)]
    Describe(#[from] DescribeError),
    /// Another process makes it real.
    #[error("kind `{kind}` is made real by the process `{by}`")]
    Taken {
        /// The kind.
        kind: String,
        /// The other process.
        by: String,
    },
    /// The kind was described otherwise.
    #[error("kind `{kind}` was described otherwise, hint: restart the agent, which changes nothing")]
    Different {
        /// The kind.
        kind: String,
    },
    /// The scheduler does not take it.
    #[error("failed to register the kind")]
    Register(#[from] AddKindError),
    /// The agent has ended.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// Why a kind could not be added.
#[derive(Debug, thiserror::Error)]
pub enum AddKindError {
    /// The scheduler does not take it.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The driver does not take it.
    #[error(transparent)]
    Actuator(#[from] AddActuatorError),
}

/// Items that a process is asked about, and where they stand in what is declared.
struct Question {
    line: Arc<Line>,
    places: Vec<usize>,
    items: Vec<Value>,
}

/// Every remote kind that was registered since the agent began. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Remotes(Arc<Mutex<BTreeMap<String, Arc<RemoteKind>>>>);

impl Remotes {
    /// A process makes these kinds real.
    ///
    /// **Assumes** that [`Errands`](errands::Errands) follow, which let its items be read.
    pub async fn attach(
        &self,
        desk: &Desk,
        line: &Arc<Line>,
        kinds: Vec<Description>,
    ) -> Result<(), AttachError> {
        if kinds.is_empty() {
            return Err(AttachError::Nothing { name: line.name.to_string() });
        }
        let mut fresh = Vec::new();
        let mut again = Vec::new();
        for description in kinds {
            let known = self.locked().get(&*description.kind).cloned();
            match known {
                None => fresh.push(Arc::new(RemoteKind::new(description, Arc::clone(line))?)),
                Some(known) => {
                    let (kind, by) = (description.kind.to_string(), known.line().name.to_string());
                    if !known.line().is_closed() {
                        return Err(AttachError::Taken { kind, by });
                    }
                    if known.description != description {
                        return Err(AttachError::Different { kind });
                    }
                    again.push(known);
                }
            }
        }
        // All at once: the items of one may be read as soon as it is there, and the process answers when all are.
        let made = fresh.iter().map(|kind| -> NewKind {
            NewKind {
                descriptor: Box::new(RemoteDescriptor(Arc::clone(kind))),
                actuator: Arc::new(RemoteActuator(Arc::clone(kind))),
                written: written::written(&kind.description),
            }
        });
        let mut refused = None;
        for (kind, added) in fresh.iter().zip(desk.add_kinds(made.collect()).await?) {
            match added {
                Ok(()) => drop(self.locked().insert(kind.description.kind.to_string(), Arc::clone(kind))),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        if let Some(error) = refused {
            return Err(error.into());
        }
        for kind in again {
            kind.set_line(Arc::clone(line));
        }
        Ok(())
    }

    /// The process is there, away or silent: says so, and if it is back lets its items be read again.
    pub async fn stand(&self, desk: &Desk, line: &Arc<Line>) {
        let kinds: Vec<Arc<str>> = {
            let kinds = self.locked();
            let of_line = kinds.values().filter(|kind| Arc::ptr_eq(&kind.line(), line));
            of_line.map(|kind| Arc::clone(&kind.description.kind)).collect()
        };
        let trouble = line.trouble();
        for kind in kinds {
            let level = if trouble.is_some() { Level::OutOfSync } else { Level::Fine };
            desk.report(format!("kind {kind}"), level, trouble.clone().unwrap_or_default()).await;
            if trouble.is_none() {
                // An agent that has ended needs not be told.
                let _ = desk.read_again(vec![prefix(&kind)]).await;
            }
        }
    }

    /// What is known of every remote kind.
    pub fn descriptions(&self) -> Vec<Description> {
        self.locked().values().map(|kind| kind.description.clone()).collect()
    }

    /// Whether the kind is made real over this line.
    pub fn is_of(&self, kind: &str, line: &Line) -> bool {
        self.locked().get(kind).is_some_and(|kind| std::ptr::eq(&*kind.line(), line))
    }

    /// Lets the processes check what somebody is about to declare, each its own items; what is wrong with which item.
    ///
    /// What a process cannot check because it is away is checked by its schema alone.
    pub async fn check(&self, puts: &[Put]) -> Vec<(usize, FieldError)> {
        let mut asked: BTreeMap<String, Question> = BTreeMap::new();
        for (at, put) in puts.iter().enumerate() {
            let Some(item) = RemoteItem::from_value(&put.value) else { continue };
            let Some(kind) = self.locked().get(&*item.kind).cloned() else { continue };
            if kind.description.checks {
                let question = Question { line: kind.line(), places: Vec::new(), items: Vec::new() };
                let question = asked.entry(item.kind.to_string()).or_insert(question);
                question.places.push(at);
                question.items.push(Value::Object(item.to_json()));
            }
        }
        let mut wrong = Vec::new();
        for Question { line, places, items } in asked.into_values() {
            let found = line.check(items).await.unwrap_or_default();
            wrong.extend(found.into_iter().filter_map(|(at, error)| {
                let place = *places.get(at)?;
                let item = RemoteItem::from_value(&puts.get(place)?.value)?;
                Some((place, FieldError { message: item.hide(&error.message).into_owned(), ..error }))
            }));
        }
        wrong
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Arc<RemoteKind>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
