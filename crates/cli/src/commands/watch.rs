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
    let request = WatchStatusesRequest { cursor: arguments.cursor.clone(), prefix: arguments.prefix.clone() };
    let form = arguments.output;
    session::ask(socket, |mut client| async move {
        let mut told = client.watch_statuses(request).await.map_err(CallError::from)?.into_inner();
        while let Some(changed) = told.message().await.map_err(CallError::from)? {
            print(&changed, form, output)?;
        }
        Ok(Exit::Applied)
    })
}

fn print(changed: &StatusesChanged, form: Form, output: &mut Output) -> Result<(), CommandError> {
    let text = match form {
        Form::Json => serde_json::to_string(changed).map_err(std::io::Error::other)? + "\n",
        Form::Yaml => return Ok(output.show(form, changed, String::new)?),
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
