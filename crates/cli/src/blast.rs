//! The blast radius of a plan: what exists and will be gone, for a moment or for good, before anything is done.
//!
//! Decided here: who counts as disturbed. What an item derives is told with the item: it is listed by itself only if
//! its base stays.

use std::collections::{BTreeMap, BTreeSet};

use kilter_api::v1::{BlastRadius, Disturbed};
use kilter_model::linux::keys;
use kilter_scheduler::{Action, Key, Note, State, Step};

/// What happens to one item over all its steps.
#[derive(Default)]
struct Fate<'a> {
    base: Option<&'a Key>,
    /// It exists, and is removed.
    removed: bool,
    /// It is made after it was removed.
    returns: bool,
    /// It is made, and waited for that before.
    gains: bool,
    recreated: Option<&'a str>,
    /// It stays declared, and waits for this.
    needs: Vec<String>,
    held: bool,
}

/// What these steps put at risk.
pub fn radius(steps: &[Step]) -> BlastRadius {
    let mut fates: BTreeMap<&Key, Fate<'_>> = BTreeMap::new();
    for step in steps {
        follow(fates.entry(&step.key).or_default(), step);
    }
    let removed: BTreeSet<&Key> =
        fates.iter().filter(|(_, fate)| fate.removed).map(|(key, _)| *key).collect();
    let mut radius = BlastRadius::default();
    for (key, fate) in &fates {
        if fate.gains {
            radius.gaining.push(key.to_string());
        }
        if !fate.removed {
            continue;
        }
        if keys::is_up(key.as_str()) {
            let link = fate.base.unwrap_or(key).to_string();
            radius.links_down.push(Disturbed { key: link, why: String::new(), returns: fate.returns });
            continue;
        }
        if fate.base.is_some_and(|base| removed.contains(base)) {
            continue;
        }
        match (fate.recreated, fate.returns || fate.held) {
            (Some(reason), _) => {
                let (key, why) = (key.to_string(), reason.to_owned());
                radius.recreated.push(Disturbed { key, why, returns: fate.returns });
            }
            (None, true) => {
                let why = if fate.needs.is_empty() {
                    String::new()
                } else {
                    format!("needs {}", fate.needs.join(", "))
                };
                radius.losing.push(Disturbed { key: key.to_string(), why, returns: fate.returns });
            }
            (None, false) => radius.removed.push(key.to_string()),
        }
    }
    radius
}

fn follow<'a>(fate: &mut Fate<'a>, step: &'a Step) {
    if let Some(base) = &step.base {
        fate.base = Some(base);
    }
    if let Some(Note::Recreate(reason)) = step.note.as_deref() {
        fate.recreated = Some(reason);
    }
    if step.action == Action::Delete {
        fate.removed = true;
        fate.returns = false;
        fate.held = step.after.state == State::Pending;
        if let Some(Note::Needs(needs)) = step.note.as_deref() {
            fate.needs = needs.iter().map(ToString::to_string).collect();
        }
    }
    if step.action == Action::Create {
        fate.returns = fate.removed;
        fate.gains = !fate.removed && step.before.state == State::Pending;
    }
}

#[cfg(test)]
mod tests {
    use kilter_model::document::{Source, read};
    use kilter_scheduler::{Change, Scheduler, Timestamp, Txn};

    use super::*;

    /// A scheduler to which everything is so as it was declared.
    fn settled(text: &str) -> Scheduler {
        let mut scheduler = crate::read::scheduler();
        scheduler.begin(Txn::changes(changes(text)), Timestamp(0));
        scheduler.execute();
        while let Some(operation) = scheduler.next() {
            scheduler.answer(operation.id, kilter_scheduler::Answer::Done { facts: None }, Timestamp(0));
        }
        scheduler.finish(Timestamp(0));
        scheduler
    }

    fn changes(text: &str) -> Vec<Change> {
        read(&[Source::new("test", text)]).unwrap().iter().map(|item| item.change()).collect()
    }

    fn radius_of(scheduler: &mut Scheduler, changes: Vec<Change>) -> BlastRadius {
        scheduler.begin(Txn::changes(changes), Timestamp(1));
        let radius = radius(&scheduler.plan().unwrap().steps);
        scheduler.abandon();
        radius
    }

    const SITE: &str = "kind: netns\nname: a\n---\nkind: bridge\nname: lan\nnetns: a\nstate: up\naddresses: [10.0.0.1/24]\n---\n\
                        kind: route\nnetns: a\ndestination: 10.9.0.0/16\nvia: 10.0.0.2\n";

    #[test]
    fn what_stands_on_a_removed_link_loses_it_for_good() {
        let mut scheduler = settled(SITE);
        let radius = radius_of(&mut scheduler, vec![Change::remove("linux/link/a/lan")]);
        assert_eq!(radius.removed, ["linux/link/a/lan"]);
        let down: Vec<_> = radius.links_down.iter().map(|link| (link.key.as_str(), link.returns)).collect();
        assert_eq!(down, [("linux/link/a/lan", false)]);
        assert_eq!(radius.losing.len(), 1, "{radius:?}");
        let route = &radius.losing[0];
        assert!(
            route.key.starts_with("linux/route/a/") && !route.returns && !route.why.is_empty(),
            "{route:?}"
        );
    }

    #[test]
    fn a_link_that_is_made_again_takes_the_route_down_for_a_moment() {
        let mut scheduler = settled(SITE);
        let other = SITE.replace("kind: bridge\nname: lan", "kind: ifb\nname: lan");
        let radius = radius_of(&mut scheduler, changes(&other));
        assert_eq!(radius.recreated.len(), 1, "{radius:?}");
        assert!(radius.recreated[0].key == "linux/link/a/lan" && !radius.recreated[0].why.is_empty());
        assert!(radius.links_down.iter().all(|link| link.returns) && !radius.links_down.is_empty());
        assert!(radius.losing.iter().all(|route| route.returns) && radius.losing.len() == 1, "{radius:?}");
        assert!(radius.removed.is_empty() && radius.gaining.is_empty());
    }

    #[test]
    fn what_is_new_disturbs_nothing_and_what_waited_gains() {
        let mut scheduler = settled("kind: bridge\nname: lan\nnetns: a\n");
        let radius = radius_of(&mut scheduler, changes("kind: netns\nname: a\n"));
        assert_eq!(
            radius,
            BlastRadius { gaining: vec!["linux/link/a/lan".to_owned()], ..BlastRadius::default() }
        );
    }
}
