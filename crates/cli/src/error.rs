//! Why a command could not do what it was asked, and how that is told.

use std::error::Error;
use std::io;

use anstyle::{AnsiColor, Style};
use kilter_api::CallError;
use kilter_api::render::paint;
use kilter_api::v1::{Problem, Reason};
use kilter_model::document::{GatherError, Problems};

use crate::chain::chain;
use crate::exit::Exit;
use crate::output::Output;
use crate::stored::StoredPlanError;

const WRONG: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();

/// Why a command could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A file cannot be read.
    #[error("the documents cannot be read")]
    Unreadable(#[source] GatherError),
    /// There is nothing in the files.
    #[error("there is no document in {0}, hint: documents end in `.yaml`, `.yml` or `.json`")]
    Empty(String),
    /// A document is wrong.
    #[error("the documents are wrong")]
    Invalid(#[source] Problems),
    /// The agent did not do what it was asked.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A stored plan cannot be used.
    #[error(transparent)]
    StoredPlan(#[from] StoredPlanError),
    /// A recording cannot be read, or is none.
    #[error("the recording cannot be replayed")]
    Recording(#[source] Box<dyn Error + Send + Sync>),
    /// The machine does not let us.
    #[error("{attempt}")]
    Refused {
        /// What was tried.
        attempt: String,
        /// Why it was refused.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// Something of our own went wrong.
    #[error("{attempt}")]
    Broken {
        /// What was tried.
        attempt: String,
        /// Why it failed.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// What is to be said cannot be written.
    #[error("failed to write the output")]
    Output(#[from] io::Error),
}

impl CommandError {
    /// How the command ends.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Unreadable(_)
            | Self::Empty(_)
            | Self::Invalid(_)
            | Self::StoredPlan(_)
            | Self::Recording(_) => Exit::Invalid,
            Self::Call(CallError::Unreachable { .. } | CallError::Gone(_)) => Exit::Unreachable,
            Self::Call(CallError::Answered(problem)) => match problem.reason() {
                Reason::Invalid => Exit::Invalid,
                Reason::Unknown => Exit::Unknown,
                Reason::Stale | Reason::Refused | Reason::Forbidden => Exit::Refused,
                Reason::Unavailable => Exit::Unreachable,
                Reason::Broken | Reason::Unspecified => Exit::Failed,
            },
            Self::Refused { .. } | Self::Call(CallError::Closed { .. }) => Exit::Refused,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Applied,
            Self::Broken { .. } | Self::Output(_) => Exit::Failed,
        }
    }
}

/// Tells an error, once, at the edge; a reader who went away is told nothing.
pub fn report(error: &CommandError, output: &mut Output) {
    let text = match error {
        CommandError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return,
        CommandError::Invalid(problems) => told(problems),
        CommandError::Call(CallError::Answered(problem)) => answered(problem),
        CommandError::Call(_)
        | CommandError::StoredPlan(_)
        | CommandError::Recording(_)
        | CommandError::Unreadable(_)
        | CommandError::Empty(_)
        | CommandError::Refused { .. }
        | CommandError::Broken { .. }
        | CommandError::Output(_) => one(&chain(error)),
    };
    // Whoever does not hear that either cannot be told.
    let _ = output.print(&text);
}

/// An error on one line, and its hint on the next.
fn one(text: &str) -> String {
    let (what, hint) = match text.split_once(", hint: ") {
        Some((what, hint)) => (what, format!("  {} {hint}\n", paint(HINT, "hint:"))),
        None => (text, String::new()),
    };
    format!("{} {what}\n{hint}", paint(WRONG, "error:"))
}

/// What the agent says, at its places, with its hint.
fn answered(problem: &Problem) -> String {
    let mut text = String::new();
    for one in &problem.misplaced {
        let place = one.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        text.push_str(&format!("{place}{} {}\n", paint(WRONG, "error:"), one.message));
        if !one.hint.is_empty() {
            text.push_str(&format!("  {} {}\n", paint(HINT, "hint:"), one.hint));
        }
    }
    text.push_str(&format!("{} {problem}\n", paint(WRONG, "error:")));
    if !problem.hint.is_empty() {
        text.push_str(&format!("  {} {}\n", paint(HINT, "hint:"), problem.hint));
    }
    text
}

/// Every problem at its place, as compilers write them, and how many there are.
fn told(problems: &Problems) -> String {
    let mut text = String::new();
    for problem in &problems.0 {
        let other = problem.other.as_ref().map(|place| format!(" {place}")).unwrap_or_default();
        text.push_str(&format!("{}: {} {}{other}\n", problem.place, paint(WRONG, "error:"), problem.message));
        if let Some(hint) = &problem.hint {
            text.push_str(&format!("  {} {hint}\n", paint(HINT, "hint:")));
        }
    }
    let count = problems.0.len();
    text.push_str(&format!("{count} problem{}, nothing was done\n", if count == 1 { "" } else { "s" }));
    text
}
