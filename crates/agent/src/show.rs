//! What `up` shows: the plan, the progress, the statuses, and from then on whatever is healed.

use std::collections::BTreeMap;
use std::io;

use kilter_cli::render::status::{Row, rows, summary, table};
use kilter_cli::render::{count, plan};
use kilter_cli::{CommandError, Exit, Output, report};
use kilter_events::{EventRecord, Fatal};
use kilter_model::document::{Declared, Place};
use kilter_model::kinds::is_only_derived;
use kilter_scheduler::render::one_line;
use kilter_scheduler::{Action, Key, Plan, Record, Scheduler, Seq, State, Step, TxnType};
use kilter_southbound::{Decision, Finished};

use crate::drift::Heeded;
use crate::drive::{Audience, Pursuit};
use crate::ending;

/// Shows a run to whoever looks on.
pub(crate) struct Show {
    output: Output,
    places: BTreeMap<Key, Place>,
    once: bool,
    /// How many operations are planned, and how many were answered.
    planned: usize,
    answered: usize,
    /// Whether what is under way changes what is declared: its plan is shown, and how it went.
    declares: bool,
    /// Whether the first statuses were shown.
    ready: bool,
    /// The statuses as they were last shown.
    shown: Vec<Row>,
    fatal: Option<Exit>,
    /// Why nothing can be shown any more.
    broken: Option<io::Error>,
}

impl Show {
    pub(crate) fn new(output: Output, declared: &[Declared], once: bool) -> Self {
        Self {
            output,
            places: places(declared),
            once,
            planned: 0,
            answered: 0,
            declares: false,
            ready: false,
            shown: Vec::new(),
            fatal: None,
            broken: None,
        }
    }

    pub(crate) fn print(&mut self, text: &str) {
        if self.broken.is_none() {
            self.broken = self.output.print(text).err();
        }
    }

    /// How the run ended; an error if it could not be shown. Without a scheduler, what was shown last counts.
    pub(crate) fn end(mut self, scheduler: Option<&Scheduler>, words: &str) -> io::Result<Exit> {
        let rows = scheduler.map_or_else(|| self.shown.clone(), |scheduler| self.rows(scheduler));
        if rows != self.shown {
            self.print(&table(&rows));
        }
        self.print(&format!("{words}\n"));
        let exit = Exit::of_states(rows.iter().map(|row| row.state));
        match self.broken {
            Some(error) => Err(error),
            None => Ok(self.fatal.unwrap_or(exit)),
        }
    }

    /// The statuses, each problem with the place of its declaration.
    fn rows(&self, scheduler: &Scheduler) -> Vec<Row> {
        let mut rows = rows(scheduler);
        for row in rows.iter_mut().filter(|row| !row.why.is_empty()) {
            let item = scheduler.item(&row.key);
            let base = item.and_then(|item| item.base).unwrap_or_else(|| Key::new(&row.key));
            if let Some(place) = self.places.get(&base) {
                row.why.push_str(&format!(" ({place})"));
            }
        }
        rows
    }

    /// Items of an earlier run that nothing declares are told once, and left alone.
    fn tell_left_alone(&mut self, scheduler: &Scheduler) {
        let statuses = scheduler.statuses("");
        let left = statuses
            .iter()
            .filter(|status| status.state == State::Discovered && !is_only_derived(status.key.as_str()))
            .count();
        if left > 0 {
            let items = count(left, "item");
            self.print(&format!(
                "left alone: an earlier run made {items} that nothing declares now, hint: `--prune` removes them\n"
            ));
        }
    }

    fn progress(&mut self, text: &str) {
        if self.output.is_terminal() && !self.ready {
            self.print(&format!("\r\x1b[K{text}"));
        }
    }
}

impl Audience for Show {
    fn planned(&mut self, plan: &Plan, declares: bool) -> Decision {
        self.declares = declares;
        self.answered = 0;
        self.planned = plan.steps.iter().filter(|step| step.is_operation()).count();
        if declares {
            self.print(&plan::text(&plan.steps));
        }
        Decision::Execute
    }

    fn finished(&mut self, operation: Finished<'_>) {
        let is_change = matches!(operation.action, Action::Create | Action::Update | Action::Delete);
        if let (Some(key), true) = (operation.key, is_change) {
            self.answered += 1;
            let (answered, planned) = (self.answered, self.planned);
            self.progress(&format!("{answered}/{planned} {} {}", operation.action.name(), one_line(key)));
        }
    }

    fn committed(&mut self, record: &Record) {
        self.progress("");
        let done = record.steps().iter().filter(|step| step.is_operation()).count();
        let failed = record.failures.len();
        let heading = match &record.txn_type {
            TxnType::Refresh | TxnType::DownstreamResync => "drift",
            TxnType::Retry { .. } => "retry",
            TxnType::Changes { .. }
            | TxnType::FullResync
            | TxnType::UpstreamResync
            | TxnType::Notification
            | TxnType::LateKind
            | TxnType::Overdue => "changed",
        };
        if self.declares {
            let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
            let millis = record.duration().as_millis();
            self.print(&format!("done: {}{failed} in {millis} ms\n", count(done, "operation")));
        } else if done > 0 {
            let steps: Vec<Step> =
                record.steps().iter().filter(|step| step.is_operation()).cloned().collect();
            self.print(&format!("{heading}: txn #{}\n{}", record.seq, plan::steps(&steps)));
        }
    }

    fn closed(&mut self, record: &EventRecord) {
        let failures: String =
            record.handler_failures().map(|failure| format!("error: {}\n", one_line(failure))).collect();
        self.print(&failures);
    }

    fn waiting(&mut self, scheduler: &Scheduler, settled: bool) -> Pursuit {
        let rows = self.rows(scheduler);
        if !self.ready {
            self.ready = true;
            self.print(&table(&rows));
            self.tell_left_alone(scheduler);
            if !self.once {
                self.print("healing until stopped, Ctrl-C stops\n");
            }
        } else if rows != self.shown {
            self.print(&format!("{}\n", summary(&rows)));
            let changed: String = rows
                .iter()
                .filter(|row| !row.why.is_empty() && !self.shown.contains(row))
                .map(|row| format!("  {} {}: {}\n", row.key, row.state, row.why))
                .collect();
            self.print(&changed);
        }
        self.shown = rows;
        let is_done = (self.once && settled) || self.broken.is_some();
        if is_done { Pursuit::End } else { Pursuit::GoOn }
    }

    fn unrecorded(&mut self, text: &str) {
        self.print(&format!("{text}\n"));
    }

    fn gone_back(&mut self, id: Seq, record: Option<&Record>) {
        self.print(&match record {
            None => format!("warning: change #{id} was not confirmed and could not go back\n"),
            Some(record) => {
                let steps: Vec<Step> =
                    record.steps().iter().filter(|step| step.is_operation()).cloned().collect();
                format!("goes back: change #{id} was not confirmed\n{}", plan::steps(&steps))
            }
        });
    }

    fn heeded(&mut self, heeded: &Heeded) {
        self.print(&ending::heeded(heeded));
    }

    fn declared(&mut self, declared: Result<&[Declared], &CommandError>) {
        match declared {
            Ok(declared) => {
                self.places = places(declared);
                self.print("the directory has changed\n");
            }
            Err(error) => {
                self.print("the directory has changed, and cannot be used: what was declared stays\n");
                report(error, &mut Output::stderr());
            }
        }
    }

    fn fatal(&mut self, fatal: &Fatal) {
        self.fatal = Some(ending::exit_of(fatal));
        self.print(&format!("error: {fatal}\n"));
    }
}

/// Where each item is declared.
fn places(declared: &[Declared]) -> BTreeMap<Key, Place> {
    declared.iter().map(|item| (item.key.clone(), item.place.clone())).collect()
}
