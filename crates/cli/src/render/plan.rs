//! Steps as people read them: what is done to which item, where it stands afterwards, and why it waits.

use std::collections::BTreeMap;

use anstyle::{AnsiColor, Style};
use kilter_scheduler::render::one_line;
use kilter_scheduler::{Action, Note, State, Step};

use super::{count, paint, style_of};

/// A plan: its steps, and how many there are of each kind.
pub fn text(steps: &[Step]) -> String {
    let shown: Vec<&Step> = steps.iter().filter(|step| is_told(step)).collect();
    if shown.is_empty() {
        return "plan: nothing to do\n".to_owned();
    }
    format!("{}\n{}", summary(&shown), lines(&shown))
}

/// The steps that a person wants to see, one line each.
pub fn steps(steps: &[Step]) -> String {
    lines(&steps.iter().filter(|step| is_told(step)).collect::<Vec<_>>())
}

/// Whether a person who asks what is done wants to hear it: what is only seen or noted is left out.
fn is_told(step: &Step) -> bool {
    !step.is_quiet() && !matches!(step.action, Action::Observe | Action::Forget | Action::Retrieve)
}

fn summary(shown: &[&Step]) -> String {
    let mut actions: BTreeMap<Action, usize> = BTreeMap::new();
    for step in shown {
        *actions.entry(step.action).or_default() += 1;
    }
    let actions: Vec<String> =
        actions.iter().map(|(action, number)| format!("{} {number}", action.name())).collect();
    format!("plan: {} ({})", count(shown.len(), "step"), actions.join(", "))
}

fn lines(shown: &[&Step]) -> String {
    let width = shown.iter().map(|step| step.key.as_str().chars().count()).max().unwrap_or(0);
    shown.iter().map(|step| line(step, width)).collect()
}

fn line(step: &Step, width: usize) -> String {
    let action = paint(style(step.action), format_args!("{:<8}", step.action.name()));
    let mut text = format!("  {action} {:<width$}", one_line(&step.key));
    if let Some(error) = &step.error {
        text.push_str(&format!(" ✗ {}", paint(AnsiColor::Red.on_default(), one_line(error))));
    }
    let state = step.after.state;
    if !matches!(state, State::Removed | State::Nonexistent) {
        text.push_str(&format!(" → {}", paint(style_of(state), state)));
    }
    match step.note.as_deref() {
        Some(Note::Needs(unmet)) => {
            let unmet: Vec<String> = unmet.iter().map(one_line).collect();
            text.push_str(&format!(", needs {}", unmet.join(", ")));
        }
        Some(Note::Recreate(reason)) => text.push_str(&format!("  (recreate: {})", one_line(reason))),
        Some(Note::Refused(reason)) => text.push_str(&format!(", refused: {}", one_line(reason))),
        None => {}
    }
    if step.marks.revert {
        text.push_str("  (revert)");
    }
    if step.marks.derived {
        text.push_str("  (derived)");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn style(action: Action) -> Style {
    match action {
        Action::Create => AnsiColor::Green.on_default(),
        Action::Update => AnsiColor::Yellow.on_default(),
        Action::Delete | Action::Refuse | Action::Miss => AnsiColor::Red.on_default(),
        Action::Hold => AnsiColor::Cyan.on_default(),
        Action::Retrieve
        | Action::Observe
        | Action::Forget
        | Action::Adopt
        | Action::Release
        | Action::Drop
        | Action::Settle => Style::new().dimmed(),
    }
}
