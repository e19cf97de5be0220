//! How a command may end: every exit code of the program, in one place.

use std::process::ExitCode;

use kilter_scheduler::State;

/// How a command ended. The numbers are public, see `docs/reference/exit-codes.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for is so.
    Applied = 0,
    /// Something of our own went wrong.
    Failed = 1,
    /// The arguments cannot be understood.
    Usage = 2,
    /// Nothing failed; some of it waits for what does not exist yet.
    Pending = 3,
    /// Some of it failed, the rest is applied.
    Incomplete = 4,
    /// Something failed, and everything is as before.
    Reverted = 5,
    /// Something failed, and so did the way back.
    RevertFailed = 6,
    /// The machine does not let us.
    Refused = 7,
    /// A document is wrong or cannot be read; nothing was done.
    Invalid = 8,
    /// The agent does not answer.
    Unreachable = 9,
    /// There is no such item, transaction, event or source.
    Unknown = 10,
    /// The replay of a run does something else than the run did.
    Differs = 11,
    /// The agent ended: one of its handlers says that it must.
    HandlerFatal = 70,
    /// The agent ended: healing has failed as many times as it may.
    HealingFailed = 71,
    /// The agent ended: what it should declare did not come in time.
    StartupLate = 72,
}

impl Exit {
    /// Every way to end, by number.
    pub const ALL: [Self; 15] = [
        Self::Applied,
        Self::Failed,
        Self::Usage,
        Self::Pending,
        Self::Incomplete,
        Self::Reverted,
        Self::RevertFailed,
        Self::Refused,
        Self::Invalid,
        Self::Unreachable,
        Self::Unknown,
        Self::Differs,
        Self::HandlerFatal,
        Self::HealingFailed,
        Self::StartupLate,
    ];

    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Pending => "pending",
            Self::Incomplete => "incomplete",
            Self::Reverted => "reverted",
            Self::RevertFailed => "revert failed",
            Self::Refused => "refused",
            Self::Invalid => "invalid",
            Self::Unreachable => "unreachable",
            Self::Unknown => "unknown",
            Self::Differs => "differs",
            Self::HandlerFatal => "handler fatal",
            Self::HealingFailed => "healing failed",
            Self::StartupLate => "startup late",
        }
    }

    /// How declared items in these states are told: what failed outweighs what waits.
    pub fn of_states(states: impl IntoIterator<Item = State>) -> Self {
        let one = |state| match state {
            State::Configured | State::Obtained | State::Discovered | State::Removed | State::Nonexistent => {
                Self::Applied
            }
            State::Pending | State::Applying | State::Removing => Self::Pending,
            State::Missing | State::Unimplemented | State::Invalid | State::Failed | State::Retrying => {
                Self::Incomplete
            }
        };
        states.into_iter().map(one).max().unwrap_or(Self::Applied)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_has_its_own_number_and_word_and_is_documented() {
        let page = include_str!("../../../docs/reference/exit-codes.md");
        assert!(Exit::ALL.is_sorted_by(|one, next| one.code() < next.code() && one.name() != next.name()));
        for exit in Exit::ALL {
            let row = format!("| {} | {} |", exit.code(), exit.name());
            assert!(page.contains(&row), "{row}");
        }
    }

    #[test]
    fn what_failed_outweighs_what_waits() {
        assert_eq!(Exit::of_states([]), Exit::Applied);
        assert_eq!(Exit::of_states([State::Pending, State::Configured]), Exit::Pending);
        assert_eq!(Exit::of_states([State::Failed, State::Pending]), Exit::Incomplete);
    }
}
