//! Steps as people read them: what is done to which item, where it stands afterwards, why it waits, and what the plan
//! puts at risk.

use std::collections::BTreeMap;

use anstyle::{AnsiColor, Style};

use super::{count, one_line, paint, style_of};
use crate::v1::{Action, BlastRadius, Conflict, Disturbed, Plan, State, Step};

/// A plan: how many steps there are of each kind, the steps, and what they put at risk.
pub fn text(plan: &Plan) -> String {
    let shown: Vec<&Step> = plan.steps.iter().filter(|step| is_told(step)).collect();
    let steps = match shown.is_empty() {
        true => "plan: nothing to do\n".to_owned(),
        false => format!("{}\n{}", summary(&shown), lines(&shown)),
    };
    let radius = plan.blast_radius.as_ref().map(blast_radius).unwrap_or_default();
    format!("{steps}{radius}{}", conflicts(&plan.conflicts))
}

/// The steps that a person wants to see, one line each.
pub fn steps(steps: &[Step]) -> String {
    lines(&steps.iter().filter(|step| is_told(step)).collect::<Vec<_>>())
}

/// Whether a person who asks what is done wants to hear it: what is only seen or noted is left out.
pub fn is_told(step: &Step) -> bool {
    !step.quiet && !matches!(step.action(), Action::Observe | Action::Forget | Action::Retrieve)
}

/// Whether a step changes the world.
pub fn is_operation(step: &Step) -> bool {
    matches!(step.action(), Action::Create | Action::Update | Action::Delete)
}

/// What a plan puts at risk; nothing if nothing that exists is touched.
pub fn blast_radius(radius: &BlastRadius) -> String {
    let BlastRadius { recreated, removed, links_down, losing, gaining } = radius;
    let removed: Vec<Disturbed> =
        removed.iter().map(|key| Disturbed { key: key.clone(), ..Disturbed::default() }).collect();
    let gaining: Vec<Disturbed> =
        gaining.iter().map(|key| Disturbed { key: key.clone(), ..Disturbed::default() }).collect();
    let parts = [
        disturbed("is created again", "are created again", recreated, false),
        disturbed("is removed for good", "are removed for good", &removed, false),
        disturbed("goes down", "go down", links_down, true),
        disturbed("loses what it stands on", "lose what they stand on", losing, true),
        disturbed("gets what it waits for", "get what they wait for", &gaining, false),
    ];
    let parts: String = parts.into_iter().flatten().collect();
    if parts.is_empty() { parts } else { format!("blast radius:\n{parts}") }
}

/// One part of the blast radius: how many, then each with why and for how long.
fn disturbed(one: &str, many: &str, items: &[Disturbed], timed: bool) -> Option<String> {
    if items.is_empty() {
        return None;
    }
    let noun = if one == "goes down" { "link" } else { "item" };
    let verb = if items.len() == 1 { one } else { many };
    let mut text = format!("  {} {verb}\n", count(items.len(), noun));
    for item in items {
        let time = match (timed, item.returns) {
            (false, _) => "",
            (true, true) => ", for a moment",
            (true, false) => ", and stays so",
        };
        let why = if item.why.is_empty() { String::new() } else { format!(": {}", one_line(&item.why)) };
        text.push_str(&format!(
            "    {}{time}{why}\n",
            paint(AnsiColor::Yellow.on_default(), one_line(&item.key))
        ));
    }
    Some(text)
}

/// What several sources say about one item, one line each.
pub fn conflicts(conflicts: &[Conflict]) -> String {
    let line = |conflict: &Conflict| {
        let Conflict { key, heard, unheard, place, fields } = conflict;
        let place = place.as_ref().map(|place| format!(" at {place}")).unwrap_or_default();
        let word = paint(AnsiColor::Yellow.on_default(), "conflict:");
        let key = one_line(key);
        let fields: Vec<&str> = fields.iter().map(String::as_str).filter(|field| !field.is_empty()).collect();
        let fields = if fields.is_empty() { String::new() } else { format!(" about {}", fields.join(", ")) };
        format!(
            "{word} {key} is declared by `{heard}`; what `{unheard}` declares{place}{fields} is not heard\n"
        )
    };
    conflicts.iter().map(line).collect()
}

fn summary(shown: &[&Step]) -> String {
    let mut actions: BTreeMap<i32, usize> = BTreeMap::new();
    for step in shown {
        *actions.entry(step.action).or_default() += 1;
    }
    let word = |action: i32| Action::try_from(action).unwrap_or_default().name();
    let actions: Vec<String> =
        actions.iter().map(|(action, number)| format!("{} {number}", word(*action))).collect();
    format!("plan: {} ({})", count(shown.len(), "step"), actions.join(", "))
}

fn lines(shown: &[&Step]) -> String {
    let width = shown.iter().map(|step| step.key.chars().count()).max().unwrap_or(0);
    shown.iter().map(|step| line(step, width)).collect()
}

fn line(step: &Step, width: usize) -> String {
    let action = paint(style(step.action()), format_args!("{:<8}", step.action().name()));
    let mut text = format!("  {action} {:<width$}", one_line(&step.key));
    if !step.error.is_empty() {
        text.push_str(&format!(" ✗ {}", paint(AnsiColor::Red.on_default(), one_line(&step.error))));
    }
    let state = step.after.as_ref().map_or(State::Unspecified, |after| after.state());
    if !matches!(state, State::Removed | State::Nonexistent | State::Unspecified) {
        text.push_str(&format!(" → {}", paint(style_of(state), state)));
    }
    if !step.needs.is_empty() {
        let needs: Vec<String> = step.needs.iter().map(|need| one_line(need)).collect();
        text.push_str(&format!(", needs {}", needs.join(", ")));
    }
    if !step.recreate_reason.is_empty() {
        text.push_str(&format!("  (recreate: {})", one_line(&step.recreate_reason)));
    }
    if !step.refused.is_empty() {
        text.push_str(&format!(", refused: {}", one_line(&step.refused)));
    }
    if step.revert {
        text.push_str("  (revert)");
    }
    if step.derived {
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
        | Action::Settle
        | Action::Unspecified => Style::new().dimmed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_at_risk_is_told_after_the_steps() {
        let item =
            |key: &str, why: &str, returns| Disturbed { key: key.to_owned(), why: why.to_owned(), returns };
        let radius = BlastRadius {
            recreated: vec![item("link/a", "mtu 1500 → 9000", true)],
            links_down: vec![item("link/a", "", true)],
            losing: vec![
                item("route/b", "stands on link/a", false),
                item("route/c", "stands on link/a", true),
            ],
            ..BlastRadius::default()
        };
        let shown = anstream::adapter::strip_str(&blast_radius(&radius)).to_string();
        let expected = "blast radius:\n  1 item is created again\n    link/a: mtu 1500 → 9000\n  \
                        1 link goes down\n    link/a, for a moment\n  2 items lose what they stand on\n    \
                        route/b, and stays so: stands on link/a\n    route/c, for a moment: stands on link/a\n";
        assert_eq!(shown, expected);
        assert_eq!(blast_radius(&BlastRadius::default()), "");
    }
}
