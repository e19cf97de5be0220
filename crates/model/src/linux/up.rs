//! `up`: a link is up. An item of its own, because a link is made, bound and addressed first, and because routes
//! need it and not the link alone.

use kilter_scheduler::{Key, Kind, Needs, Transition};
use serde::{Deserialize, Serialize};

use super::names::{LinkRef, Name, NetnsName};

/// A link that is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Up {
    /// The namespace of the link.
    #[serde(default, skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The link.
    pub link: Name,
    /// The link below that must be up first; says nothing about the link itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<LinkRef>,
}

/// Describes `linux.up`.
pub struct UpKind;

impl Kind for UpKind {
    type Value = Up;
    const NAME: &'static str = "linux.up";
    const KEYS: &'static [&'static str] = &["linux/up/*/*"];

    fn needs(&self, _key: &Key, up: &Up, needs: &mut Needs) {
        needs.on(format_args!("linux/link/{}/{}", up.netns, up.link));
        if let Some(lower) = &up.lower {
            needs.on(format_args!("linux/up/{}/{}", lower.netns(&up.netns), lower.name));
        }
    }

    /// Up is up; what it needed to become so says nothing about it.
    fn transition(&self, _key: &Key, _old: &Up, _new: &Up) -> Transition {
        Transition::Same
    }

    fn reads_after(&self) -> &[&str] {
        &["linux.link"]
    }
}
