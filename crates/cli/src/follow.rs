//! Following a change: the plan, the progress, and how it ended.

use indicatif::{ProgressBar, ProgressStyle};
use kilter_api::render::{item, plan, status, transaction};
use kilter_api::v1::progress::What;
use kilter_api::v1::{Ended, Finished, Outcome, Plan, Progress};
use kilter_api::{CallError, render};
use tonic::Streaming;

use crate::arguments::Form;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;

/// From how many operations on a bar is shown.
const LONG: usize = 8;

/// Tells how a change goes until it has ended; also if it shall wait for a confirmation and there is nothing to wait for.
pub(crate) async fn follow(
    mut told: Streaming<Progress>,
    output: &mut Output,
    form: Form,
    is_plan_known: bool,
    confirms: bool,
) -> Result<Exit, CommandError> {
    let mut bar = None;
    while let Some(progress) = told.message().await.map_err(CallError::from)? {
        match progress.what {
            Some(What::Planned(planned)) => {
                if form == Form::Table && !is_plan_known {
                    output.print(&plan::text(&planned))?;
                }
                bar = bar_of(&planned, output, form);
            }
            Some(What::Finished(finished)) => advance(bar.as_ref(), &finished),
            Some(What::Ended(ended)) => {
                if let Some(bar) = &bar {
                    bar.finish_and_clear();
                }
                let exit = tell(&ended, output, form)?;
                let stands = !matches!(exit, Exit::Reverted | Exit::RevertFailed);
                if confirms && stands && ended.confirmation.is_none() && form == Form::Table {
                    output.print(
                        "nothing is declared otherwise than before: nothing waits for a confirmation\n",
                    )?;
                }
                return Ok(exit);
            }
            None => {}
        }
    }
    let attempt = "the agent stopped telling before it was done".to_owned();
    Err(CommandError::Broken { attempt, source: None })
}

/// Tells how a change ended.
pub(crate) fn tell(ended: &Ended, output: &mut Output, form: Form) -> Result<Exit, CommandError> {
    output.show(form, ended, || text(ended))?;
    Ok(exit(ended))
}

fn bar_of(planned: &Plan, output: &Output, form: Form) -> Option<ProgressBar> {
    let operations = planned.steps.iter().filter(|step| plan::is_operation(step)).count();
    if !output.is_terminal() || form != Form::Table || operations < LONG {
        return None;
    }
    let bar = ProgressBar::new(u64::try_from(operations).unwrap_or(u64::MAX));
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}");
    Some(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
}

fn advance(bar: Option<&ProgressBar>, finished: &Finished) {
    if let Some(bar) = bar {
        bar.inc(1);
        bar.set_message(format!("{} {}", finished.action().name(), render::one_line(&finished.key)));
    }
}

/// How it ended, for people: what was done otherwise than planned, the outcome, and where things stand.
fn text(ended: &Ended) -> String {
    let Some(summary) = &ended.transaction else { return "nothing to do\n".to_owned() };
    let mut text = String::new();
    if summary.failures > 0 {
        text.push_str(&plan::steps(&ended.executed));
    }
    text.push_str(&transaction::outcome(summary));
    let unsettled: Vec<_> =
        status::rows(&ended.statuses).into_iter().filter(|(status, _)| !status.why.is_empty()).collect();
    for (status, _) in unsettled {
        let (key, why) = (render::one_line(&status.key), render::one_line(&status.why));
        text.push_str(&format!("  {key} {}: {why}\n", status.state()));
    }
    if ended.confirmation.is_some() {
        text.push_str(&item::confirmation(ended.confirmation.as_ref()));
    }
    text
}

/// The code that tells how it ended.
fn exit(ended: &Ended) -> Exit {
    let Some(summary) = &ended.transaction else { return Exit::Applied };
    match summary.outcome() {
        Outcome::Applied | Outcome::Unspecified => Exit::Applied,
        Outcome::Pending => Exit::Pending,
        Outcome::Incomplete => Exit::Incomplete,
        Outcome::Reverted => Exit::Reverted,
        Outcome::RevertFailed => Exit::RevertFailed,
    }
}

#[cfg(test)]
mod tests {
    use kilter_api::v1::TransactionSummary;

    use super::*;

    #[test]
    fn every_outcome_has_its_own_code() {
        let ended = |outcome: Outcome| Ended {
            transaction: Some(TransactionSummary {
                outcome: outcome.into(),
                ..TransactionSummary::default()
            }),
            ..Ended::default()
        };
        let codes = [
            (Outcome::Applied, Exit::Applied),
            (Outcome::Unspecified, Exit::Applied),
            (Outcome::Pending, Exit::Pending),
            (Outcome::Incomplete, Exit::Incomplete),
            (Outcome::Reverted, Exit::Reverted),
            (Outcome::RevertFailed, Exit::RevertFailed),
        ];
        for (outcome, code) in codes {
            assert_eq!(exit(&ended(outcome)), code, "{outcome:?}");
        }
        assert_eq!(exit(&Ended::default()), Exit::Applied, "nothing had to be done");
    }
}
