//! `netns`: a network namespace. A named one is created when it is missing; one given by path or process is only
//! opened.

use kilter_scheduler::{FieldError, Key, Kind, Transition};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::{Compared, error};
use super::keys;
use super::names::NetnsName;
use crate::declare::Declare;

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
    #[schemars(schema_with = "crate::linux::texts::absolute_path")]
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

/// Describes `linux.netns`.
pub struct NetnsKind;

impl Kind for NetnsKind {
    type Value = Netns;
    const NAME: &'static str = "linux.netns";
    const KEYS: &'static [&'static str] = &["linux/netns/*"];

    fn validate(&self, _key: &Key, netns: &Netns) -> Vec<FieldError> {
        netns.check()
    }

    /// Another namespace under the same name: everything in it goes and comes.
    fn transition(&self, _key: &Key, old: &Netns, new: &Netns) -> Transition {
        let mut compared = Compared::default();
        compared.fixed("path", &old.path, &new.path);
        compared.fixed("pid", &old.pid, &new.pid);
        compared.transition()
    }
}

impl Declare for Netns {
    const WORD: &'static str = "netns";
    const ABOUT: &'static str = "A network namespace: made, adopted, or opened by path or process.";

    fn key(&self) -> Key {
        keys::netns(&self.name)
    }

    fn check(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.name.is_host() {
            errors.push(error("name", "`host` is the namespace the agent runs in, and is there already"));
        }
        if self.path.is_some() && self.pid.is_some() {
            errors.push(error("pid", "a namespace is found by `path` or by `pid`, not by both"));
        }
        errors
    }
}
