//! Transactions: the list, one of them, and how one ended.

use anstyle::{AnsiColor, Style};

use super::table::{Cell, table};
use super::{count, one_line, paint, plan, short_moment, span};
use crate::v1::{Outcome, Transaction, TransactionSummary};

/// Transactions as a table, oldest first.
pub fn list(transactions: &[TransactionSummary], width: Option<usize>) -> String {
    if transactions.is_empty() {
        return "no transactions\n".to_owned();
    }
    let rows = transactions.iter().map(|txn| -> Vec<Cell> {
        let cause = txn.cause.as_ref().map(|cause| format!("{}: {}", cause.key, cause.error));
        vec![
            format!("#{}", txn.seq).into(),
            short_moment(txn.start.as_ref()).into(),
            span(txn.start.as_ref(), txn.stop.as_ref()).into(),
            txn.operations.to_string().into(),
            Cell::painted(style(txn.outcome()), txn.outcome().name()),
            txn.txn_type.as_str().into(),
            one_line(&cause.unwrap_or_else(|| first_line(&txn.description))).into(),
        ]
    });
    table(&["TXN", "START (UTC)", "TOOK", "OPS", "OUTCOME", "TYPE", "WHAT"], rows.collect(), width)
}

/// One transaction: what it was, what was planned, what was carried out, and how it ended.
pub fn show(transaction: &Transaction) -> String {
    let Some(summary) = &transaction.summary else { return String::new() };
    let mut text = format!("txn #{}: {}\n", summary.seq, summary.txn_type);
    for line in summary.description.lines() {
        text.push_str(&format!("  {}\n", one_line(line)));
    }
    let took = span(summary.start.as_ref(), summary.stop.as_ref());
    text.push_str(&format!("  began {} UTC, took {took}\n", short_moment(summary.start.as_ref())));
    let part = |name: &str, steps: &str| match steps.is_empty() {
        true => format!("{name}: nothing\n"),
        false => format!("{name}:\n{steps}"),
    };
    text.push_str(&part("planned", &plan::steps(&transaction.planned)));
    match transaction.as_planned {
        true => text.push_str("executed: as planned\n"),
        false => text.push_str(&part("executed", &plan::steps(&transaction.executed))),
    }
    text.push_str(&outcome(summary));
    text
}

/// How a transaction ended, on one line, and a line for each cause.
pub fn outcome(summary: &TransactionSummary) -> String {
    let took = span(summary.start.as_ref(), summary.stop.as_ref());
    let operations = count(usize::try_from(summary.operations).unwrap_or(usize::MAX), "operation");
    let failed = if summary.failures == 0 { String::new() } else { format!(", {} failed", summary.failures) };
    let word = paint(style(summary.outcome()), summary.outcome().name());
    let mut text = format!("txn #{} {word}: {operations}{failed} in {took}\n", summary.seq);
    for (name, cause) in [("cause", &summary.cause), ("revert failed", &summary.revert_cause)] {
        if let Some(cause) = cause {
            let name = paint(AnsiColor::Red.on_default(), name);
            text.push_str(&format!("  {name}: {}: {}\n", one_line(&cause.key), one_line(&cause.error)));
        }
    }
    text
}

/// What a list has room for.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn style(outcome: Outcome) -> Style {
    match outcome {
        Outcome::Applied => AnsiColor::Green.on_default(),
        Outcome::Pending => AnsiColor::Yellow.on_default(),
        Outcome::Incomplete | Outcome::Reverted | Outcome::RevertFailed => AnsiColor::Red.on_default(),
        Outcome::Unspecified => Style::new().dimmed(),
    }
}
