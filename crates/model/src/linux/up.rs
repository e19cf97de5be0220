//! `up`: a link is up. An item of its own, because a link is made, bound and addressed first, and because routes
//! need it and not the link alone.

use serde::Serialize;

use super::names::{LinkRef, Name, NetnsName};

/// A link that is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Up {
    /// The namespace of the link.
    #[serde(skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The link.
    pub link: Name,
    /// The link below that must be up first; says nothing about the link itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower: Option<LinkRef>,
}
