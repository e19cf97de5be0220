//! `unnumbered`: a link borrows any address of another one. Derived, so that the link itself never waits for it.

use kilter_scheduler::{Key, Kind, Needs, Transition};
use serde::{Deserialize, Serialize};

use super::compare::Compared;
use super::keys;
use super::names::{Name, NetnsName};

/// A link that borrows an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unnumbered {
    /// The namespace of both links.
    #[serde(default, skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The link that borrows.
    pub link: Name,
    /// The link that lends.
    pub lender: Name,
    /// The VRF that the link is bound to first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrf: Option<Name>,
}

/// Describes `linux.unnumbered`.
pub struct UnnumberedKind;

impl Kind for UnnumberedKind {
    type Value = Unnumbered;
    const NAME: &'static str = "linux.unnumbered";
    const KEYS: &'static [&'static str] = &["linux/unnumbered/*/*"];

    fn needs(&self, _key: &Key, unnumbered: &Unnumbered, needs: &mut Needs) {
        let Unnumbered { netns, link, lender, vrf } = unnumbered;
        needs.on(format_args!("linux/link/{netns}/{link}"));
        if vrf.is_some() {
            needs.on(format_args!("linux/port/{netns}/{link}"));
        }
        needs.any_of([keys::addresses(netns, lender)], None);
    }

    /// Another lender means another address: the old one is given back first.
    fn transition(&self, _key: &Key, old: &Unnumbered, new: &Unnumbered) -> Transition {
        let mut compared = Compared::default();
        compared.fixed("lender", &old.lender, &new.lender);
        compared.transition()
    }

    fn reads_after(&self) -> &[&str] {
        &["linux.link", "linux.address"]
    }
}
