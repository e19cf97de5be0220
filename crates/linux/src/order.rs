//! Orders: what one operation asks of the kernel, and what its answer means.

use std::sync::Arc;

use kilter_model::linux::{Name, NetnsName, Rule};
use kilter_scheduler::{Answer, Facts, Key};
use rustix::io::Errno;

use crate::former::GivenBack;
use crate::link::read::read_index;
use crate::netlink::{KernelError, Message, Refusal};
use crate::rule;
use crate::shared::Shared;
use crate::space::Space;

/// What is known about a link besides its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFacts {
    /// The index of the link in its namespace.
    pub index: u32,
}

/// The mark of something that we did not make. It keeps it when it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Maker {
    /// The protocol number.
    pub(crate) protocol: u8,
}

impl Maker {
    /// The protocol number that a change leaves: that of others, or ours.
    pub(crate) fn protocol(shared: &Shared, facts: Option<&Facts>) -> u8 {
        facts.and_then(|facts| facts.downcast::<Self>()).map_or(shared.protocol(), |maker| maker.protocol)
    }

    /// What is known about something with this protocol number: nothing if it is ours.
    pub(crate) fn facts(shared: &Shared, protocol: u8) -> Option<Facts> {
        (protocol != shared.protocol()).then(|| Facts::new(Self { protocol }))
    }
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
    /// The same for an option that is asked for.
    pub(crate) option: Option<&'static str>,
    /// What must stay open until the messages are sent.
    pub(crate) keep: Option<Arc<Space>>,
    /// What it gives back.
    pub(crate) given_back: Option<GivenBack>,
}

impl Order {
    /// Changes that must succeed.
    pub(crate) fn new(operation: &'static str, messages: Vec<Message>) -> Self {
        Self {
            messages,
            operation,
            tolerated: &[],
            facts: None,
            feature: None,
            option: None,
            keep: None,
            given_back: None,
        }
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

    /// What is known of something that others made.
    #[must_use]
    pub(crate) fn of_others(mut self, facts: Option<Facts>) -> Self {
        self.facts = facts;
        self
    }

    /// What it gives back, to be forgotten once it is done.
    #[must_use]
    pub(crate) fn giving_back(mut self, given_back: GivenBack) -> Self {
        self.given_back = Some(given_back);
        self
    }

    /// What the kernel lacks if it says that it does not support this.
    #[must_use]
    pub(crate) fn of_feature(mut self, feature: Option<&'static str>) -> Self {
        self.feature = feature;
        self
    }

    /// What the kernel lacks if it knows the kind and still does not support this.
    #[must_use]
    pub(crate) fn of_option(mut self, option: Option<&'static str>) -> Self {
        self.option = option;
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
            Some(feature) if is_unknown_kind(&refusal) || is_unknown_qdisc(&refusal) => {
                KernelError::Unimplemented { operation: self.operation, subject, feature: feature.to_owned() }
            }
            _ => match self.option.filter(|_| refusal.is_unsupported()) {
                Some(option) => KernelError::Unimplemented {
                    operation: self.operation,
                    subject,
                    feature: option.to_owned(),
                },
                None => KernelError::refused(self.operation, subject, refusal),
            },
        }
    }
}

/// Whether the kernel does not know the kind of link at all, and not only one of its options.
pub(crate) fn is_unknown_kind(refusal: &Refusal) -> bool {
    refusal.is_unsupported() && refusal.text.as_ref().is_some_and(|text| text.contains("Unknown device type"))
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
    /// The rules that there were before the batch, once they were asked for.
    rules: Option<Vec<(Rule, u8)>>,
}

impl<'a> Site<'a> {
    pub(crate) fn open(shared: &'a Shared, netns: NetnsName) -> Result<Self, KernelError> {
        let space = shared.spaces.get(netns.as_str())?;
        Ok(Self { shared, netns, space, memo: Vec::new(), rules: None })
    }

    /// The rules that there were before the batch, each with its protocol.
    pub(crate) fn rules(&mut self) -> Result<&[(Rule, u8)], KernelError> {
        let refused = |refusal| KernelError::refused("read rules", &self.netns, refusal);
        let rules = match self.rules.take() {
            Some(rules) => rules,
            None => rule::read_all(&mut self.space.requests(), &self.netns).map_err(refused)?,
        };
        Ok(self.rules.insert(rules))
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
