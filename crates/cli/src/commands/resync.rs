//! `resync`: recomputes and re-reads.

use std::path::Path;

use clap::{Args, ValueEnum};
use kilter_api::CallError;
use kilter_api::v1::{ResyncRequest, Scope};

use crate::arguments::Form;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::{follow, session};

/// What `resync` takes.
#[derive(Clone, Debug, Args)]
pub struct Resync {
    /// How much of it.
    #[arg(long, value_enum, default_value_t = ScopeWord::Full)]
    scope: ScopeWord,
    /// Also remove what is ours and nobody declares.
    #[arg(long)]
    prune: bool,
    /// Try what fails again as the settings say, also what was declared without that.
    #[arg(long)]
    retry: bool,
    /// How the outcome is printed.
    #[arg(short, long, value_enum, default_value_t = Form::Table, value_name = "FORM")]
    output: Form,
}

/// What is recomputed and re-read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScopeWord {
    /// What is declared is recomputed and what is, re-read.
    Full,
    /// What is declared is recomputed.
    Upstream,
    /// What is, is re-read.
    Downstream,
}

pub(super) fn run(arguments: &Resync, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let scope = match arguments.scope {
        ScopeWord::Full => Scope::Full,
        ScopeWord::Upstream => Scope::Upstream,
        ScopeWord::Downstream => Scope::Downstream,
    };
    let request = ResyncRequest { scope: scope.into(), prune: arguments.prune, retry: arguments.retry };
    let form = arguments.output;
    session::ask(socket, |mut client| async move {
        let told = client.resync(request).await.map_err(CallError::from)?.into_inner();
        follow::follow(told, output, form, false, false).await
    })
}
