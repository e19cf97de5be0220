//! `export`: what exists as a document.

use std::path::Path;

use clap::Args;
use kilter_api::CallError;
use kilter_api::v1::ExportRequest;

use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;

/// What `export` takes.
#[derive(Clone, Debug, Args)]
pub struct Export {
    /// Only items whose keys start with this.
    #[arg(default_value = "", hide_default_value = true, value_name = "PREFIX")]
    prefix: String,
    /// What is declared, instead of what exists.
    #[arg(long)]
    declared: bool,
}

pub(super) fn run(arguments: &Export, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let request = ExportRequest { prefix: arguments.prefix.clone(), declared: arguments.declared };
    let reply = session::ask(socket, |mut client| async move {
        Ok(client.export(request).await.map_err(CallError::from)?.into_inner())
    })?;
    output.print(&reply.document)?;
    Ok(Exit::Applied)
}
