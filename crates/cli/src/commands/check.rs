//! `check`: whether documents are right.

use std::collections::BTreeMap;

use clap::Args;
use kilter_api::render;

use crate::arguments::Documents;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::read;

/// What `check` takes.
#[derive(Clone, Debug, Args)]
pub struct Check {
    #[command(flatten)]
    documents: Documents,
}

pub(super) fn run(arguments: &Check, output: &mut Output) -> Result<Exit, CommandError> {
    let declared = read::documents(&arguments.documents.paths())?;
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for item in &declared {
        *kinds.entry(&*item.kind).or_default() += 1;
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    output.print(&format!("{}: {}\n", render::count(declared.len(), "item"), kinds.join(", ")))?;
    Ok(Exit::Applied)
}
