//! `schema`, `kinds` and `completions`: what the program knows by heart.

use clap::CommandFactory as _;
use kilter_model::{KINDS, schema};

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;

pub(super) fn schema(output: &mut Output) -> Result<Exit, CommandError> {
    output.print(&format!("{:#}\n", schema::schema()))?;
    Ok(Exit::Applied)
}

pub(super) fn kinds(output: &mut Output) -> Result<Exit, CommandError> {
    let width = KINDS.iter().map(|kind| kind.word.len()).max().unwrap_or(0);
    let lines = KINDS.iter().map(|kind| format!("{:width$}  {}\n", kind.word, kind.about));
    output.print(&lines.collect::<String>())?;
    Ok(Exit::Applied)
}

pub(super) fn completions(shell: clap_complete::Shell, output: &mut Output) -> Result<Exit, CommandError> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "kilter", &mut text);
    output.print(&String::from_utf8_lossy(&text))?;
    Ok(Exit::Applied)
}
