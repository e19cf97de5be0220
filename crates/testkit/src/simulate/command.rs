//! The commands of a random history.

use std::fmt;

use kilter_scheduler::{Action, Key};

use crate::attrs::Attrs;
use crate::world::Effect;

/// One line of a history, in the language of the scenario scripts.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Adds a declaration to the transaction that is being written.
    Put(Key, Attrs),
    /// Adds a removal.
    Remove(Key),
    /// Carries the transaction out.
    Commit {
        /// All or nothing.
        revert: bool,
        /// Failed items are retried.
        retry: bool,
        /// Answers come in an order that this seed decides.
        order: Option<u64>,
    },
    /// Plans the transaction and drops it.
    Plan,
    /// A foreign item appears or changes.
    Observe(Key, Attrs),
    /// A foreign item disappears.
    Unobserve(Key),
    /// An operation will fail.
    Fail {
        /// Which.
        action: Action,
        /// On which item.
        key: Key,
        /// What really happens.
        effect: Effect,
        /// How often.
        times: u32,
        /// Whether it is worth trying again.
        lasting: bool,
    },
    /// An operation will be accepted and confirmed later.
    Accept {
        /// Which.
        action: Action,
        /// On which item.
        key: Key,
    },
    /// What was accepted comes true.
    Confirm(Key),
    /// Time passes.
    Advance(u64),
    /// Re-reads and re-declares.
    Resync(&'static str),
    /// Re-reads one item.
    Refresh(Key),
    /// An item vanishes behind the agent's back.
    Lose(Key),
    /// An item changes behind the agent's back.
    Alter(Key, String),
    /// The agent is started anew.
    Restart,
    /// The late kinds are registered.
    Register,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(key, attrs) => write!(f, "put {key}{}", Quoted(attrs)),
            Self::Remove(key) => write!(f, "remove {key}"),
            Self::Commit { revert, retry, order } => {
                f.write_str("commit")?;
                if *revert {
                    f.write_str(" on-failure=revert")?;
                }
                if *retry {
                    f.write_str(" retry=1s")?;
                }
                match order {
                    Some(seed) => write!(f, " order=any seed={seed}"),
                    None => Ok(()),
                }
            }
            Self::Plan => f.write_str("commit plan-only"),
            Self::Observe(key, attrs) => write!(f, "observe {key}{}", Quoted(attrs)),
            Self::Unobserve(key) => write!(f, "unobserve {key}"),
            Self::Fail { action, key, effect, times, lasting } => {
                let effect = format!("{effect:?}").to_lowercase();
                let lasting = if *lasting { " lasting" } else { "" };
                write!(f, "fail {} {key} \"planned\" effect={effect} times={times}{lasting}", action.name())
            }
            Self::Accept { action, key } => write!(f, "accept {} {key} within=5s", action.name()),
            Self::Confirm(key) => write!(f, "confirm {key}"),
            Self::Advance(seconds) => write!(f, "advance {seconds}s"),
            Self::Resync(scope) => write!(f, "resync {scope}"),
            Self::Refresh(key) => write!(f, "refresh {key}"),
            Self::Lose(key) => write!(f, "lose {key}"),
            Self::Alter(key, v) => write!(f, "alter {key} v={v}"),
            Self::Restart => f.write_str("restart"),
            Self::Register => f.write_str("register late"),
        }
    }
}

/// Attributes as a script has them: what is not a plain word stands in quotes.
struct Quoted<'a>(&'a Attrs);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        self.0.iter().try_for_each(|(name, text)| match is_plain(text) {
            true => write!(f, " {name}={text}"),
            false => write!(f, " {name}=\"{text}\""),
        })
    }
}
