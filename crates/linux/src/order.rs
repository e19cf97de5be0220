//! Orders: what one operation asks of the kernel, and what its answer means.

use std::sync::Arc;

use kilter_model::linux::{Name, NetnsName};
use kilter_scheduler::{Answer, Facts, Key};
use rustix::io::Errno;

use crate::link::read::read_index;
use crate::netlink::{KernelError, Message, Refusal};
use crate::shared::Shared;
use crate::space::Space;

/// What is known about a link besides its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFacts {
    /// The index of the link in its namespace.
    pub index: u32,
}

/// What one operation asks of the kernel: changes that are sent in order, in the namespace of the item.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) messages: Vec<Message>,
    /// What is tried, for the error: `add route`.
    pub(crate) operation: &'static str,
    /// Refusals that mean that there was nothing to do.
    pub(crate) tolerated: &'static [Errno],
    /// What is learnt if it succeeds.
    pub(crate) facts: Option<Facts>,
    /// What the kernel lacks if it says that it does not support this.
    pub(crate) feature: Option<&'static str>,
    /// What must stay open until the messages are sent.
    pub(crate) keep: Option<Arc<Space>>,
}

impl Order {
    /// Changes that must succeed.
    pub(crate) fn new(operation: &'static str, messages: Vec<Message>) -> Self {
        Self { messages, operation, tolerated: &[], facts: None, feature: None, keep: None }
    }

    /// Nothing has to be done.
    pub(crate) fn nothing() -> Self {
        Self::new("leave", Vec::new())
    }

    /// These refusals mean that it is done already.
    #[must_use]
    pub(crate) fn tolerating(mut self, errnos: &'static [Errno]) -> Self {
        self.tolerated = errnos;
        self
    }

    /// What is learnt.
    #[must_use]
    pub(crate) fn teaching(mut self, facts: LinkFacts) -> Self {
        self.facts = Some(Facts::new(facts));
        self
    }

    /// What the kernel lacks if it says that it does not support this.
    #[must_use]
    pub(crate) fn of_feature(mut self, feature: Option<&'static str>) -> Self {
        self.feature = feature;
        self
    }

    /// The answer to the operation, from what became of its messages.
    pub(crate) fn answer(self, results: &[Result<(), Refusal>], key: &Key) -> Answer {
        let refused = results.iter().filter_map(|result| result.as_ref().err());
        match refused.into_iter().find(|refusal| !refusal.is_any(self.tolerated)) {
            None => Answer::Done { facts: self.facts },
            Some(refusal) => self.error(refusal.clone(), key).into(),
        }
    }

    fn error(&self, refusal: Refusal, key: &Key) -> KernelError {
        let subject = key.as_str().strip_prefix("linux/").unwrap_or(key.as_str()).to_owned();
        match self.feature {
            Some(feature) if refusal.is_unsupported() || is_unknown_qdisc(&refusal) => {
                KernelError::Unimplemented { operation: self.operation, subject, feature: feature.to_owned() }
            }
            _ => KernelError::refused(self.operation, subject, refusal),
        }
    }
}

/// For a discipline that it does not have, the kernel says that there is no such entry.
fn is_unknown_qdisc(refusal: &Refusal) -> bool {
    refusal.is(Errno::NOENT)
        && refusal.text.as_ref().is_some_and(|text| text.contains("qdisc kind is unknown"))
}

/// Where an operation takes place: a namespace, and what is known about links in it.
pub(crate) struct Site<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) netns: NetnsName,
    pub(crate) space: Arc<Space>,
    /// Indexes that were looked up for the batch under way.
    memo: Vec<(Name, u32)>,
}

impl<'a> Site<'a> {
    pub(crate) fn open(shared: &'a Shared, netns: NetnsName) -> Result<Self, KernelError> {
        let space = shared.spaces.get(netns.as_str())?;
        Ok(Self { shared, netns, space, memo: Vec::new() })
    }

    /// The index of a link in this namespace: from what the walk knows, or by asking the kernel.
    pub(crate) fn index(&mut self, link: &str, needs: &[(Key, Facts)]) -> Result<u32, KernelError> {
        if let Some(index) = known_index(self.netns.as_str(), link, needs) {
            return Ok(index);
        }
        if let Some((_, index)) = self.memo.iter().find(|(name, _)| name == link) {
            return Ok(*index);
        }
        let index = self.shared.ask_index(&self.space, link)?;
        self.memo.push((Name::new(link), index));
        Ok(index)
    }
}

impl Shared {
    /// The index of a link, asked of the kernel.
    pub(crate) fn ask_index(&self, space: &Space, link: &str) -> Result<u32, KernelError> {
        let asked = read_index(&mut space.requests(), link);
        let refused = |refusal| KernelError::refused("look up link", link, refusal);
        let missing = || KernelError::NoLink { link: link.to_owned(), netns: space.name.clone() };
        asked.map_err(refused)?.ok_or_else(missing)
    }
}

/// The index of a link out of the facts of what an item needs.
pub(crate) fn known_index(netns: &str, link: &str, needs: &[(Key, Facts)]) -> Option<u32> {
    let is_it = |key: &Key| {
        let mut parts = key.as_str().split('/').skip(1);
        matches!(parts.next(), Some("link" | "up"))
            && parts.next() == Some(netns)
            && parts.next() == Some(link)
    };
    let (_, facts) = needs.iter().find(|(key, _)| is_it(key))?;
    facts.downcast::<LinkFacts>().map(|facts| facts.index)
}
