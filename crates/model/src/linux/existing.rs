//! `existing`: a link that somebody else makes, hardware or another program, and that is only configured here.
//!
//! An item of its own, `linux/existing/NETNS/NAME`, which needs the link itself: it waits until the link is observed
//! and comes back with it. What it says is put on the link; the link is never made or removed.

use kilter_scheduler::{Derived, FieldError, Key, Kind, Needs, Transition};
use serde::Serialize;

use super::compare::Compared;
use super::keys;
use super::link::{AdminState, LinkFields};
use super::names::{Name, NetnsName};
use super::up::Up;
use crate::declare::Declare;

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

/// Describes `linux.existing`.
pub struct ExistingKind;

impl Kind for ExistingKind {
    type Value = Existing;
    const NAME: &'static str = "linux.existing";
    const KEYS: &'static [&'static str] = &["linux/existing/*/*"];

    fn validate(&self, _key: &Key, existing: &Existing) -> Vec<FieldError> {
        existing.check()
    }

    /// The link itself, whoever makes it.
    fn needs(&self, _key: &Key, existing: &Existing, needs: &mut Needs) {
        needs.on(format_args!("linux/link/{}/{}", existing.netns, existing.name));
    }

    fn derive(&self, _key: &Key, existing: &Existing, derived: &mut Derived) {
        let Existing { name, netns, fields } = existing;
        let is_up = fields.state == Some(AdminState::Up);
        let up = is_up.then(|| Up { netns: netns.clone(), link: name.clone(), lower: None });
        fields.derive(netns, name, up, derived);
    }

    fn transition(&self, _key: &Key, old: &Existing, new: &Existing) -> Transition {
        let mut compared = Compared::giving_back(old.fields.reading.as_ref());
        old.fields.compare(&new.fields, &mut compared);
        // To be up is an item of its own.
        let down = |state: Option<AdminState>| state.filter(|state| *state == AdminState::Down);
        compared.optional("state", &down(old.fields.state), &down(new.fields.state));
        compared.transition()
    }

    fn reads_after(&self) -> &[&str] {
        &["linux.link"]
    }

    /// Only what is declared tells which links are meant.
    fn correlates(&self) -> bool {
        true
    }
}

impl Declare for Existing {
    const WORD: &'static str = "existing";
    const ABOUT: &'static str = "A link that somebody else makes, and that is only configured here.";

    fn key(&self) -> Key {
        keys::existing(&self.netns, &self.name)
    }

    fn normalise(&mut self) {
        self.fields.normalise();
    }

    fn check(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.fields.check(&self.name, &mut errors);
        errors
    }
}
