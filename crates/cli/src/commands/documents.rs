//! `check` and `plan`: what documents say, and what they would do.

use std::collections::BTreeMap;

use kilter_scheduler::Action;
use serde_json::json;

use crate::arguments::{Documents, Form, Plan};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::{read, render};

pub(super) fn check(arguments: &Documents, output: &mut Output) -> Result<Exit, CommandError> {
    let declared = read::documents(&arguments.files)?;
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for item in &declared {
        *kinds.entry(item.kind).or_default() += 1;
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    output.print(&format!("{}: {}\n", render::count(declared.len(), "item"), kinds.join(", ")))?;
    Ok(Exit::Applied)
}

pub(super) fn plan(arguments: &Plan, output: &mut Output) -> Result<Exit, CommandError> {
    let plan = read::plan(&read::documents(&arguments.documents.files)?);
    match arguments.output {
        Form::Text => output.print(&render::plan::text(&plan.steps))?,
        Form::Json => {
            let document = json!({ "hash": plan.hash().to_string(), "steps": plan.steps });
            output.print(&format!("{document:#}\n"))?;
        }
    }
    let is_refused = plan.steps.iter().any(|step| step.action == Action::Refuse);
    Ok(if is_refused { Exit::Invalid } else { Exit::Applied })
}
