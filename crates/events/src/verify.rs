//! Verification: whether a resync would change anything. It only looks.
//!
//! Decided here: what counts as a difference, and whose it is. What handlers say anew is compared with what is
//! declared; then the plan is looked at. Where the plan would try again something that failed before, it says nothing
//! about handlers and is left aside.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kilter_scheduler::{Key, Plan, State, ValueRef};

use crate::draft::Staged;
use crate::record::Difference;
use crate::turn::Core;

/// What a resync draft would change.
pub(crate) fn differences(core: &Core, anew: &Staged, plan: Option<&Plan>) -> Vec<Difference> {
    let name = |at: Option<usize>| at.map(|at| Arc::clone(&core.names[at]));
    let mut found: BTreeMap<Key, Difference> = BTreeMap::new();
    let known = core.internal.keys().filter(|key| !anew.contains_key(*key));
    for key in known.chain(anew.keys()) {
        let wanted = anew.get(key);
        let (declared, anew) =
            (core.internal.get(key.as_str()), wanted.and_then(|wanted| wanted.value.as_ref()));
        if declared != anew {
            let handler = name(wanted.map(|one| one.handler).or_else(|| core.internal.handler(key.as_str())));
            let (declared, anew) = (declared.cloned(), anew.cloned());
            found.insert(key.clone(), Difference::Declared { handler, key: key.clone(), declared, anew });
        }
    }
    let mut found: Vec<Difference> = found.into_values().collect();
    let steps = plan.map(|plan| plan.steps.as_slice()).unwrap_or_default();
    if found.is_empty() && !steps.iter().any(|step| is_unsettled(step.before.state)) {
        found.extend(steps.iter().filter(|step| !step.is_quiet()).map(|step| {
            let base = step.base.as_ref().unwrap_or(&step.key);
            let handler = name(core.internal.handler(base.as_str()));
            Difference::Planned { handler, key: step.key.clone(), action: step.action.name() }
        }));
    }
    found
}

fn is_unsettled(state: State) -> bool {
    matches!(
        state,
        State::Failed | State::Retrying | State::Missing | State::Applying | State::Removing | State::Invalid
    )
}

/// What a resync changed in a handler itself.
pub(crate) fn own_state(
    handler: &Arc<str>,
    before: Option<String>,
    after: Option<String>,
) -> Option<Difference> {
    let (before, after) = before.zip(after)?;
    (before != after).then(|| Difference::OwnState { handler: Arc::clone(handler), before, after })
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<ValueRef>| {
            value.as_ref().map_or_else(|| "nothing".to_owned(), |value| value.to_json().to_string())
        };
        let who = |handler: &Option<Arc<str>>| handler.clone().unwrap_or_else(|| "no handler".into());
        match self {
            Self::Declared { handler, key, declared, anew } => {
                write!(
                    f,
                    "{}: {key} is declared as {}, and anew as {}",
                    who(handler),
                    shown(declared),
                    shown(anew)
                )
            }
            Self::Planned { handler, key, action } => {
                write!(f, "{}: {key} would need {action}", who(handler))
            }
            Self::OwnState { handler, before, after } => {
                write!(f, "{handler}: its own state was {before}, and is {after} after a resync")
            }
        }
    }
}
