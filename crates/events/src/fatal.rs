//! The end that nobody asked for, and the exit code of each reason.

use std::fmt;

/// Why the agent must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FatalReason {
    /// A handler says so.
    Handler,
    /// Healing has failed as many times as it may.
    Healing,
    /// The startup resync did not come in time.
    StartupDeadline,
}

/// The loop cannot go on. The agent flushes its history and ends with the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fatal {
    /// Why.
    pub reason: FatalReason,
    /// What happened, for people.
    pub text: String,
}

impl Fatal {
    /// The exit code of the process: each reason has its own.
    pub fn exit_code(&self) -> u8 {
        match self.reason {
            FatalReason::Handler => 70,
            FatalReason::Healing => 71,
            FatalReason::StartupDeadline => 72,
        }
    }
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
