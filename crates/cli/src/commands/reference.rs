//! `schema` and `completions`: what the program knows by heart.

use clap::CommandFactory as _;
use kilter_model::schema;

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;

pub(super) fn schema(output: &mut Output) -> Result<Exit, CommandError> {
    output.print(&format!("{:#}\n", schema::schema()))?;
    Ok(Exit::Applied)
}

pub(super) fn completions(shell: clap_complete::Shell, output: &mut Output) -> Result<Exit, CommandError> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "kilter", &mut text);
    output.print(&String::from_utf8_lossy(&text))?;
    Ok(Exit::Applied)
}
