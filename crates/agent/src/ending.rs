//! How a run of the agent ends, and the words that `up` and the daemon share.

use std::error::Error;

use kilter_cli::{CommandError, Exit};
use kilter_events::{Fatal, FatalReason};

use crate::drift::Heeded;

/// The machine does not let us.
pub(crate) fn refused(attempt: &str, source: impl Error + Send + Sync + 'static) -> CommandError {
    CommandError::Refused { attempt: attempt.to_owned(), source: Some(Box::new(source)) }
}

/// Something of our own went wrong.
pub(crate) fn broken(attempt: &str, source: impl Error + Send + Sync + 'static) -> CommandError {
    CommandError::Broken { attempt: attempt.to_owned(), source: Some(Box::new(source)) }
}

/// How the program ends when the loop cannot go on.
pub(crate) fn exit_of(fatal: &Fatal) -> Exit {
    match fatal.reason {
        FatalReason::Handler => Exit::HandlerFatal,
        FatalReason::Healing => Exit::HealingFailed,
        FatalReason::StartupDeadline => Exit::StartupLate,
    }
}

/// What a person should know about what came of heeding the kernel, a line for each thing.
pub(crate) fn heeded(heeded: &Heeded) -> String {
    let contested = |key| format!("contested: {key}: another writer keeps changing it, it is left alone\n");
    let mut text: String = heeded.contested.iter().map(contested).collect();
    if heeded.blind {
        text.push_str("warning: the kernel can no longer be watched, drift is not noticed\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_ends_with_the_code_that_the_loop_gives_its_reason() {
        for reason in [FatalReason::Handler, FatalReason::Healing, FatalReason::StartupDeadline] {
            let fatal = Fatal { reason, text: String::new() };
            assert_eq!(exit_of(&fatal) as u8, fatal.exit_code());
        }
    }
}
