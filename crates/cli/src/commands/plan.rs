//! `plan`: what documents would do, to the agent's machine or to an empty one; a plan can be stored for `apply`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum as _};
use kilter_api::v1::plan_request::What;
use kilter_api::v1::{Action, OnFailure, Plan as WirePlan, PlanRequest};
use kilter_api::{CallError, render};

use super::apply::OnFailureWord;
use crate::arguments::{Documents, Form};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::stored::StoredPlan;
use crate::{declare, read, session, wire};

/// What `plan` takes.
#[derive(Clone, Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    documents: Documents,
    /// Plan for an empty machine, without an agent.
    #[arg(long)]
    offline: bool,
    /// The source that declares the documents.
    #[arg(long, default_value = super::apply::SOURCE, value_name = "NAME")]
    source: String,
    /// The documents are everything the source declares: the rest of it is removed.
    #[arg(long)]
    prune: bool,
    /// What a failure leads to when the plan is carried out.
    #[arg(long, value_enum, default_value_t = OnFailureWord::Revert, value_name = "WORD")]
    on_failure: OnFailureWord,
    /// How the plan is printed (`table`, `json`, `yaml`), or the file in which it is stored for `apply`.
    #[arg(short, long, value_name = "FORM|FILE", default_value = "table", value_parser = destination)]
    output: Destination,
    /// The file in which the plan is stored for `apply`, whatever it is called.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Where a plan goes.
#[derive(Clone, Debug)]
enum Destination {
    Shown(Form),
    Stored(PathBuf),
}

fn destination(text: &str) -> Result<Destination, String> {
    match Form::from_str(text, false) {
        Ok(form) => Ok(Destination::Shown(form)),
        Err(_) if text.is_empty() => Err("a form or a file is needed".to_owned()),
        Err(_) => Ok(Destination::Stored(text.into())),
    }
}

pub(super) fn run(arguments: &Plan, said: Option<&Path>, output: &mut Output) -> Result<Exit, CommandError> {
    let (form, file) = match (&arguments.output, &arguments.out) {
        (Destination::Shown(form), file) => (*form, file.clone()),
        (Destination::Stored(file), _) => (Form::Table, Some(file.clone())),
    };
    let files = arguments.documents.paths();
    let declaration = declare::declaration(&files, &arguments.source, arguments.prune)?;
    let on_failure = OnFailure::from(arguments.on_failure);
    let request = PlanRequest { what: Some(What::Declaration(declaration)), on_failure: on_failure.into() };
    let plan = match arguments.offline {
        true => None,
        false => of_the_agent(&request, said, file.is_some())?,
    };
    let is_offline = plan.is_none();
    let plan = match plan {
        Some(plan) => plan,
        None => wire::plan(&read::plan(&read::documents(&files)?), 0),
    };
    output.show(form, &plan, || render::plan::text(&plan))?;
    if let Some(file) = file {
        StoredPlan::new(request, plan.clone()).write(&file)?;
        if form == Form::Table {
            output.print(&format!("stored in `{0}`: kilter apply {0}\n", file.display()))?;
        }
    } else if is_offline && !arguments.offline {
        // Also for programs: whoever reads the plan of a machine must not take this one for it.
        Output::stderr().print("no agent is there: this is the plan for an empty machine\n")?;
    }
    let is_refused = plan.steps.iter().any(|step| step.action() == Action::Refuse);
    Ok(if is_refused { Exit::Invalid } else { Exit::Applied })
}

/// The plan of the agent; `None` if there is none and nobody said that there is.
fn of_the_agent(
    request: &PlanRequest,
    said: Option<&Path>,
    is_stored: bool,
) -> Result<Option<WirePlan>, CommandError> {
    let socket = session::socket(said);
    let ask = |mut client: kilter_api::Client| async move {
        let reply = client.plan(request.clone()).await.map_err(CallError::from)?;
        Ok(reply.into_inner().plan.unwrap_or_default())
    };
    // A plan that is stored, or for which an agent was named, must be that agent's.
    match is_stored || said.is_some() {
        true => session::ask(&socket, ask).map(Some),
        false => session::ask_if_there(&socket, ask),
    }
}
