//! `revert`: goes back to the state after a transaction; the plan is shown first.

use std::path::Path;

use clap::Args;
use kilter_api::v1::plan_request::What;
use kilter_api::v1::{ApplyRequest, PlanRequest};
use kilter_api::{CallError, render};

use super::apply;
use crate::arguments::Form;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;

/// What `revert` takes.
#[derive(Clone, Debug, Args)]
pub struct Revert {
    /// The transaction after which everything was as it shall be again.
    txn: u64,
    /// Only show the plan.
    #[arg(long)]
    plan: bool,
    /// Do not ask before anything is done.
    #[arg(short, long)]
    yes: bool,
    /// How the outcome is printed.
    #[arg(short, long, value_enum, default_value_t = Form::Table, value_name = "FORM")]
    output: Form,
}

pub(super) fn run(arguments: &Revert, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let Revert { txn, plan, yes, output: form } = *arguments;
    let asked = PlanRequest { what: Some(What::RevertTo(txn)), ..PlanRequest::default() };
    session::ask(socket, |mut client| async move {
        if plan {
            let reply = client.plan(asked).await.map_err(CallError::from)?.into_inner();
            let plan = reply.plan.unwrap_or_default();
            output.show(form, &plan, || render::plan::text(&plan))?;
            return Ok(Exit::Applied);
        }
        let description = format!("revert to txn #{txn}");
        let request = ApplyRequest { request: Some(asked), description, ..ApplyRequest::default() };
        apply::carry_out(client, request, yes, form, None, output).await
    })
}
