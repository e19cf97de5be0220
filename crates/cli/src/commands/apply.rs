//! `apply`: declares documents to the agent, or carries out a stored plan.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use kilter_api::v1::plan_request::What;
use kilter_api::v1::probe::What as ProbeWhat;
use kilter_api::v1::{ApplyRequest, ConfirmWithin, OnFailure, PlanRequest, Probe};
use kilter_api::{CallError, Client, render};

use super::rollout::Together;
use super::wait;
use crate::arguments::Form;
use crate::daemon::SETTINGS;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::stored::StoredPlan;
use crate::{consent, declare, follow, session, span};

/// What the source is called unless somebody says otherwise.
pub(crate) const SOURCE: &str = "cli";

/// What `apply` takes.
#[derive(Clone, Debug, Args)]
#[command(override_usage = "kilter apply [OPTIONS] --file <FILE>...\n       kilter apply [OPTIONS] <PLAN>")]
pub struct Apply {
    /// A plan that `kilter plan -o FILE` stored: it is carried out exactly, or refused with what changed.
    #[arg(value_name = "PLAN", conflicts_with_all = ["files", "source", "prune", "on_failure"], required_unless_present = "files")]
    plan: Option<PathBuf>,
    /// Files, and directories whose `.yaml`, `.yml` and `.json` files are taken.
    #[arg(id = "files", short = 'f', long = "file", value_name = "FILE", num_args = 1..)]
    files: Vec<PathBuf>,
    /// Declare the documents to nodes of a cluster, through its store: `all`, a node, a label `NAME=VALUE`, or
    /// `tenant:NAME`. With `--prune`, the documents are everything that is declared to them in this way.
    #[arg(long, value_name = "WHO", requires = "files", conflicts_with = "message")]
    to: Option<String>,
    /// The settings whose `[cluster]` says where the store is, for `--to`.
    #[arg(long, env = "KILTER_SETTINGS", default_value = SETTINGS, value_name = "FILE", hide_env_values = true)]
    settings: PathBuf,
    /// The source that declares the documents and owns their items.
    #[arg(long, default_value = SOURCE, value_name = "NAME")]
    source: String,
    /// The documents are everything the source declares: the rest of it is removed.
    #[arg(long)]
    prune: bool,
    /// What a failure leads to.
    #[arg(long, value_enum, default_value_t = OnFailureWord::Revert, value_name = "WORD")]
    on_failure: OnFailureWord,
    /// Take it back by itself after this time unless `kilter confirm` comes first. With `--to`, all nodes try it together:
    /// it stays if it passes on each of them within this time, and is taken back everywhere if not.
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    confirm: Option<Duration>,
    /// Decides sooner: `ping:ADDRESS`, `tcp:HOST:PORT` or `cmd:COMMAND`, tried every second; three failures in a row
    /// take the change back, three rounds that all pass confirm it. May be given several times.
    #[arg(long, value_name = "PROBE", value_parser = probe, requires = "confirm")]
    probe: Vec<Probe>,
    /// With `--to` and `--confirm`: go on without nodes that are away; they get it when they come back.
    #[arg(long, requires_all = ["to", "confirm"])]
    without_away: bool,
    /// Wait until nothing is left to do, at most this long; with `--to`, until the nodes that are there have it.
    #[arg(long, value_name = "SPAN", value_parser = span::parse, num_args = 0..=1, default_missing_value = "1m")]
    wait: Option<Duration>,
    /// Do not ask before anything is done.
    #[arg(short, long)]
    yes: bool,
    /// Who asks, and why; for the history.
    #[arg(short, long, default_value = "", value_name = "TEXT")]
    message: String,
    /// How the outcome is printed.
    #[arg(short, long, value_enum, default_value_t = Form::Table, value_name = "FORM")]
    output: Form,
}

/// Documents that are declared to nodes of a cluster.
#[derive(Clone, Debug)]
pub struct ToNodes<'a> {
    /// To whom.
    pub to: &'a str,
    /// The settings that say where the store is.
    pub settings: &'a Path,
    /// The documents.
    pub files: &'a [PathBuf],
    /// Whether they are everything that is declared to them.
    pub prune: bool,
    /// How long to wait until the nodes have it.
    pub wait: Option<Duration>,
    /// How nodes try it together, if they do.
    pub together: Option<Together<'a>>,
    /// How the outcome is printed.
    pub output: Form,
}

impl Apply {
    /// What is declared to nodes, if it is not this machine's agent that is meant.
    pub fn to_nodes(&self) -> Option<ToNodes<'_>> {
        Some(ToNodes {
            to: self.to.as_deref()?,
            settings: &self.settings,
            files: &self.files,
            prune: self.prune,
            wait: self.wait,
            together: self.confirm.map(|within| Together {
                waves: &[],
                soak: Duration::ZERO,
                within,
                probes: &self.probe,
                without_away: self.without_away,
            }),
            output: self.output,
        })
    }
}

/// What a failure leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnFailureWord {
    /// Everything is as before.
    Revert,
    /// What succeeded is kept, the rest is tried again.
    Continue,
}

impl From<OnFailureWord> for OnFailure {
    fn from(word: OnFailureWord) -> Self {
        match word {
            OnFailureWord::Revert => Self::Revert,
            OnFailureWord::Continue => Self::Continue,
        }
    }
}

pub(super) fn probe(text: &str) -> Result<Probe, String> {
    let what = match text.split_once(':') {
        Some(("ping", address)) if !address.is_empty() => ProbeWhat::Ping(address.to_owned()),
        Some(("tcp", place)) if place.contains(':') => ProbeWhat::Tcp(place.to_owned()),
        Some(("cmd", command)) if !command.is_empty() => ProbeWhat::Command(command.to_owned()),
        _ => return Err("a probe is `ping:ADDRESS`, `tcp:HOST:PORT` or `cmd:COMMAND`".to_owned()),
    };
    Ok(Probe { what: Some(what) })
}

pub(super) fn run(arguments: &Apply, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let mut request = match &arguments.plan {
        Some(file) => {
            let StoredPlan { request, plan, .. } = StoredPlan::read(file)?;
            ApplyRequest {
                request: Some(request),
                expected_hash: plan.hash,
                expected_digests: plan.digests,
                ..ApplyRequest::default()
            }
        }
        None => ApplyRequest { request: Some(asked(arguments)?), ..ApplyRequest::default() },
    };
    request.description.clone_from(&arguments.message);
    request.confirm = arguments
        .confirm
        .map(|within| ConfirmWithin { within: Some(span::wire(within)), probes: arguments.probe.clone() });
    session::ask(socket, |client| {
        carry_out(client, request, arguments.yes, arguments.output, arguments.wait, output)
    })
}

fn asked(arguments: &Apply) -> Result<PlanRequest, CommandError> {
    let declaration = declare::declaration(&arguments.files, &arguments.source, arguments.prune)?;
    let on_failure = OnFailure::from(arguments.on_failure);
    Ok(PlanRequest { what: Some(What::Declaration(declaration)), on_failure: on_failure.into() })
}

/// Shows the plan and asks, if somebody can be asked; then does it, and tells how it went.
pub(super) async fn carry_out(
    mut client: Client,
    mut request: ApplyRequest,
    yes: bool,
    form: Form,
    wait: Option<Duration>,
    output: &mut Output,
) -> Result<Exit, CommandError> {
    let mut is_plan_known = false;
    if !yes && form == Form::Table && consent::can_be_asked(output) {
        let asked = request.request.clone().unwrap_or_default();
        let plan = client.plan(asked).await.map_err(CallError::from)?.into_inner().plan.unwrap_or_default();
        output.print(&render::plan::text(&plan))?;
        if plan.steps.iter().any(render::plan::is_told) && !consent::ask(output, "apply this?")? {
            output.print("nothing was done\n")?;
            return Ok(Exit::Refused);
        }
        if request.expected_hash.is_empty() {
            (request.expected_hash, request.expected_digests) = (plan.hash, plan.digests);
        }
        is_plan_known = true;
    }
    let confirms = request.confirm.is_some();
    let told = client.apply(request).await.map_err(CallError::from)?.into_inner();
    let exit = follow::follow(told, output, form, is_plan_known, confirms).await?;
    match wait {
        Some(timeout) if matches!(exit, Exit::Applied | Exit::Pending | Exit::Incomplete) => {
            Ok(wait::settle(&mut client, timeout, form, output).await?.max(exit))
        }
        _ => Ok(exit),
    }
}
