//! The fault point of the crash tests: the agent kills itself behind an operation.
//!
//! Only in builds with debug assertions, and only if `KILTER_DIE_AFTER` names a number: a build for users has no such
//! point.

use rustix::process::{Signal, getpid, kill_process};

/// Kills the process, as `kill -9` does, when so many operations have been answered.
#[derive(Debug)]
pub(crate) struct DieAfter(Option<u64>);

impl DieAfter {
    /// What the environment asks for; nothing in a build for users.
    pub(crate) fn of_this_process() -> Self {
        let asked = std::env::var("KILTER_DIE_AFTER").ok().filter(|_| cfg!(debug_assertions));
        Self(asked.and_then(|count| count.parse().ok()))
    }

    /// An operation was answered.
    pub(crate) fn note_operation(&mut self) {
        let Some(left) = &mut self.0 else { return };
        *left = left.saturating_sub(1);
        if *left == 0 {
            // A process may always kill itself.
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }
}
