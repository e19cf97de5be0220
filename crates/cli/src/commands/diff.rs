//! `diff`: how documents differ from what is, or one moment from another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use kilter_api::v1::plan_request::What;
use kilter_api::v1::{DiffReply, DiffRequest, Difference, PlanRequest, Step};
use kilter_api::{CallError, render};

use crate::arguments::Listing;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::{declare, session};

/// What `diff` takes.
#[derive(Clone, Debug, Args)]
pub struct Diff {
    /// Documents to hold against what is; left out with `--from`.
    #[arg(value_name = "FILE", conflicts_with = "from", required_unless_present = "from")]
    files: Vec<PathBuf>,
    /// The source that would declare the documents.
    #[arg(long, default_value = super::apply::SOURCE, value_name = "NAME")]
    source: String,
    /// The documents are everything the source declares.
    #[arg(long)]
    prune: bool,
    /// The state after this transaction.
    #[arg(long, value_name = "TXN")]
    from: Option<u64>,
    /// The state after that transaction; as it is if left out.
    #[arg(long, value_name = "TXN", requires = "from")]
    to: Option<u64>,
    #[command(flatten)]
    listing: Listing,
}

pub(super) fn run(arguments: &Diff, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let reply = match arguments.from {
        Some(from) => {
            let request = DiffRequest { from, to: arguments.to, prefix: String::new() };
            session::ask(socket, |mut client| async move {
                Ok(client.diff(request).await.map_err(CallError::from)?.into_inner())
            })?
        }
        None => {
            let declaration = declare::declaration(&arguments.files, &arguments.source, arguments.prune)?;
            let what = Some(What::Declaration(declaration));
            let plan = session::ask(socket, |mut client| async move {
                let request = PlanRequest { what, ..PlanRequest::default() };
                Ok(client.plan(request).await.map_err(CallError::from)?.into_inner().plan.unwrap_or_default())
            })?;
            DiffReply { differences: differences(&plan.steps) }
        }
    };
    output.show(arguments.listing.output, &reply, || render::diff::text(&reply.differences))?;
    Ok(Exit::Applied)
}

/// Each item as it is before the first step about it, and after the last one; those that stay the same left out.
fn differences(steps: &[Step]) -> Vec<Difference> {
    let mut by_key: BTreeMap<&str, (&Step, &Step)> = BTreeMap::new();
    for step in steps {
        by_key.entry(&step.key).and_modify(|(_, last)| *last = step).or_insert((step, step));
    }
    let differences = by_key.into_iter().map(|(key, (first, last))| Difference {
        key: key.to_owned(),
        before: first.before.clone(),
        after: last.after.clone(),
    });
    differences.filter(|difference| difference.before != difference.after).collect()
}
