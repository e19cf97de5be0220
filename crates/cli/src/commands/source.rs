//! `source`: removes a source and everything it declares.

use std::path::Path;

use clap::{Args, Subcommand};
use kilter_api::v1::plan_request::What as Asked;
use kilter_api::v1::{ApplyRequest, PlanRequest};

use super::apply;
use crate::arguments::Form;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;

/// What `source` takes.
#[derive(Clone, Debug, Args)]
pub struct Source {
    #[command(subcommand)]
    what: What,
}

/// What is done with a source.
#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Remove a source and everything it declares; the plan is shown first.
    Remove {
        /// The name of the source.
        name: String,
        /// Do not ask before anything is done.
        #[arg(short, long)]
        yes: bool,
        /// How the outcome is printed.
        #[arg(short, long, value_enum, default_value_t = Form::Table, value_name = "FORM")]
        output: Form,
    },
}

pub(super) fn run(arguments: &Source, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let What::Remove { name, yes, output: form } = arguments.what.clone();
    let asked = PlanRequest { what: Some(Asked::RemoveSource(name.clone())), ..PlanRequest::default() };
    let description = format!("source `{name}` is removed");
    let request = ApplyRequest { request: Some(asked), description, ..ApplyRequest::default() };
    session::ask(socket, |client| apply::carry_out(client, request, yes, form, None, output))
}
