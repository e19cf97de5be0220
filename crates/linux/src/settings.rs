//! What can be set about the southbound.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The protocol number that marks addresses, routes, rules and neighbours as ours.
pub const PROTOCOL: u8 = 75;

/// Where namespaces are, and how what is ours is told from what is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// The folder in which named network namespaces are mounted. Default: `/run/netns`, where `ip netns` looks.
    pub netns_dir: PathBuf,
    /// The protocol number of our addresses, routes, rules and neighbours. Two agents on one machine need two.
    /// Default: 75.
    pub protocol: u8,
    /// How many namespaces are worked on at the same time. Default: 8.
    pub concurrency: usize,
    /// The receive buffer of a watching socket, in bytes: what the kernel may be ahead of us before events are lost.
    /// Default: 8 MiB.
    pub watch_buffer: usize,
    /// The file that remembers which kernel parameters were changed and what they were, so that a later run can give
    /// them back. Default: `None`, they are forgotten when the agent ends.
    pub parameters: Option<PathBuf>,
    /// The file that remembers what fields of links and ports were before they were changed, so that a later run can give
    /// them back. Default: `None`, they are forgotten when the agent ends.
    pub former_fields: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            netns_dir: PathBuf::from("/run/netns"),
            protocol: PROTOCOL,
            concurrency: 8,
            watch_buffer: 8 << 20,
            parameters: None,
            former_fields: None,
        }
    }
}
