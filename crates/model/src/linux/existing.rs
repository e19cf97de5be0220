//! `existing`: a link that somebody else makes, hardware or another program, and that is only configured here.
//!
//! An item of its own, `linux/existing/NETNS/NAME`, which needs the link itself: it waits until the link is observed
//! and comes back with it. What it says is put on the link; the link is never made or removed.

use serde::Serialize;

use super::link::LinkFields;
use super::names::{Name, NetnsName};

/// What is configured on a link that somebody else makes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Existing {
    /// The name of the link in its namespace.
    pub name: Name,
    /// The namespace.
    #[serde(skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// What every link has. A field that is left out is left as it is.
    #[serde(flatten)]
    pub fields: LinkFields,
}
