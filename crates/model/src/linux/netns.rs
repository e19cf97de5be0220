//! `netns`: a network namespace. A named one is created when it is missing; one given by path or process is only
//! opened.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::NetnsName;

/// A network namespace, and how it is found.
///
/// With neither `path` nor `pid` it is the one of that name below `/run/netns`: made if it is not there, adopted if
/// it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Netns {
    /// The name that other items use for the namespace. `host` is the agent's own and cannot be declared.
    pub name: NetnsName,
    /// The file of a namespace that somebody else made; it is opened, never created or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::absolute_path")]
    pub path: Option<String>,
    /// A process whose namespace is meant; it is opened, never created or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_194_304))]
    pub pid: Option<u32>,
}

impl Netns {
    /// Whether the namespace is ours to make and to remove.
    pub fn is_made_here(&self) -> bool {
        self.path.is_none() && self.pid.is_none()
    }
}
