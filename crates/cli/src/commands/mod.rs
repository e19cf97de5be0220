//! The verbs that need no agent.

mod documents;
mod reference;

use crate::arguments::Verb;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;

/// Does what a verb says, if it needs no agent; `None` for the others.
pub fn offline(verb: &Verb, output: &mut Output) -> Option<Result<Exit, CommandError>> {
    Some(match verb {
        Verb::Check(arguments) => documents::check(arguments, output),
        Verb::Plan(arguments) => documents::plan(arguments, output),
        Verb::Schema => reference::schema(output),
        Verb::Kinds => reference::kinds(output),
        Verb::Completions { shell } => reference::completions(*shell, output),
        Verb::Up(_) | Verb::Agent(_) => return None,
    })
}
