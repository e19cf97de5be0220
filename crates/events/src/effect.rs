//! Effects: I/O that a handler asks for. It is done off the loop and comes back as an event.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::event::{EventKind, Method, ReadValue, UpdateMode, from_json, to_json};

/// I/O that a handler asks for, as a value. Whoever drives the loop performs it and pushes its
/// [result](Effect::ended).
///
/// **Guarantees** that it is handed out only after the event that asked for it was committed: an event that is
/// reverted or aborted does no I/O.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Its number.
    pub id: u64,
    /// The event that asked.
    pub event: u64,
    /// The handler that asked.
    pub handler: Arc<str>,
    /// What is to be done; the performer knows the names.
    pub name: String,
    /// With what.
    pub argument: Json,
}

impl Effect {
    /// The event that tells how it ended.
    pub fn ended(self, result: Result<Json, String>) -> EffectEnded {
        EffectEnded { effect: self, result }
    }
}

/// An effect has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EffectEnded {
    /// What was asked.
    pub effect: Effect,
    /// What came of it.
    pub result: Result<Json, String>,
}

impl EventKind for EffectEnded {
    const KIND: &'static str = "effect-ended";

    fn name(&self) -> String {
        format!("Effect Ended {}", self.effect.name)
    }

    fn details(&self) -> Vec<String> {
        let result = match &self.result {
            Ok(value) => format!("* result: {value}"),
            Err(error) => format!("* error: {error}"),
        };
        vec![
            format!("* asked by: {} in event #{}", self.effect.handler, self.effect.event),
            format!("* argument: {}", self.effect.argument),
            result,
        ]
    }

    fn method(&self) -> Method {
        Method::update(UpdateMode::BestEffort)
    }

    fn encode(&self) -> Json {
        to_json(self)
    }

    fn decode(body: Json, _values: &dyn ReadValue) -> Result<Self, String> {
        from_json(body)
    }
}
