//! Inputs: what handlers compute from, as the loop was last told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// What the outside says, by resource and name. Handlers get it with every resync, read-only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Inputs(BTreeMap<String, BTreeMap<String, Json>>);

impl Inputs {
    /// One input.
    pub fn get(&self, resource: &str, name: &str) -> Option<&Json> {
        self.0.get(resource)?.get(name)
    }

    /// Every input of a resource, by name.
    pub fn of<'a>(&'a self, resource: &str) -> impl Iterator<Item = (&'a str, &'a Json)> {
        self.0.get(resource).into_iter().flatten().map(|(name, input)| (name.as_str(), input))
    }

    /// Every resource with how many inputs it has.
    pub fn resources(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().map(|(resource, inputs)| (resource.as_str(), inputs.len()))
    }

    /// Sets an input; `None` takes it away.
    pub fn set(&mut self, resource: &str, name: &str, input: Option<Json>) {
        match input {
            Some(input) => {
                self.0.entry(resource.to_owned()).or_default().insert(name.to_owned(), input);
            }
            None => {
                if let Some(inputs) = self.0.get_mut(resource) {
                    inputs.remove(name);
                }
            }
        }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(BTreeMap::is_empty)
    }
}
