//! `unnumbered`: a link borrows any address of another one. Derived, so that the link itself never waits for it.

use serde::Serialize;

use super::names::{Name, NetnsName};

/// A link that borrows an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unnumbered {
    /// The namespace of both links.
    #[serde(skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The link that borrows.
    pub link: Name,
    /// The link that lends.
    pub lender: Name,
    /// The VRF that the link is bound to first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vrf: Option<Name>,
}
