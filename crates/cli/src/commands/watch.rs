//! `watch`: where items stand, then every change.

use std::path::Path;

use clap::Args;
use kilter_api::v1::{StatusesChanged, WatchStatusesRequest};
use kilter_api::{CallError, render};

use crate::arguments::Form;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;

/// What `watch` takes.
#[derive(Clone, Debug, Args)]
pub struct Watch {
    /// A key, or the beginning of keys; every item if left out.
    #[arg(default_value = "", hide_default_value = true, value_name = "KEY|PREFIX")]
    prefix: String,
    /// Go on from here: the cursor that an earlier watch printed.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "CURSOR")]
    cursor: String,
    /// How changes are printed; `json` prints one line for each.
    #[arg(short, long, value_enum, default_value_t = Form::Table, value_name = "FORM")]
    output: Form,
}

pub(super) fn run(arguments: &Watch, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let mut request =
        WatchStatusesRequest { cursor: arguments.cursor.clone(), prefix: arguments.prefix.clone() };
    follow(&mut request, socket, arguments.output, output)?;
    // An agent that hands over ends the stream, and another one goes on with it; an agent that is gone does not.
    loop {
        match follow(&mut request, socket, arguments.output, output) {
            Ok(()) => {}
            Err(CommandError::Call(CallError::Unreachable { .. } | CallError::Gone(_))) => {
                return Ok(Exit::Applied);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Prints changes until the stream ends; the request goes on from there.
fn follow(
    request: &mut WatchStatusesRequest,
    socket: &Path,
    form: Form,
    output: &mut Output,
) -> Result<(), CommandError> {
    session::ask(socket, |mut client| async move {
        let mut told = client.watch_statuses(request.clone()).await.map_err(CallError::from)?.into_inner();
        while let Some(changed) = told.message().await.map_err(CallError::from)? {
            print(&changed, form, output)?;
            request.cursor.clone_from(&changed.cursor);
        }
        Ok(())
    })
}

fn print(changed: &StatusesChanged, form: Form, output: &mut Output) -> Result<(), CommandError> {
    let text = match form {
        Form::Json => serde_json::to_string(changed).map_err(std::io::Error::other)? + "\n",
        Form::Yaml => {
            output.print("---\n")?;
            return Ok(output.show(form, changed, String::new)?);
        }
        Form::Table if changed.snapshot => render::status::table(&changed.statuses, output.width()),
        Form::Table => {
            let line = |status: &kilter_api::v1::Status| {
                let why = if status.why.is_empty() { String::new() } else { format!(": {}", status.why) };
                format!("{} {}{}\n", render::one_line(&status.key), status.state(), render::one_line(&why))
            };
            changed.statuses.iter().map(line).collect()
        }
    };
    Ok(output.print(&text)?)
}
