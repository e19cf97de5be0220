//! The scheduler's types as wire types: what an offline plan and the agent both say.
//!
//! Decided here: how steps and plans are spelt on the wire. What only the agent knows is converted in its northbound.

use kilter_api::v1;
use kilter_scheduler::{Action, Note, Plan, Side, State, Step, Timestamp, Unmet, ValueRef};

use crate::blast;

/// Where an item stands.
pub fn state(state: State) -> v1::State {
    match state {
        State::Nonexistent => v1::State::Nonexistent,
        State::Missing => v1::State::Missing,
        State::Unimplemented => v1::State::Unimplemented,
        State::Removed => v1::State::Removed,
        State::Configured => v1::State::Configured,
        State::Obtained => v1::State::Obtained,
        State::Discovered => v1::State::Discovered,
        State::Pending => v1::State::Pending,
        State::Invalid => v1::State::Invalid,
        State::Failed => v1::State::Failed,
        State::Retrying => v1::State::Retrying,
        State::Applying => v1::State::Applying,
        State::Removing => v1::State::Removing,
    }
}

/// What a step does.
pub fn action(action: Action) -> v1::Action {
    match action {
        Action::Create => v1::Action::Create,
        Action::Update => v1::Action::Update,
        Action::Delete => v1::Action::Delete,
        Action::Retrieve => v1::Action::Retrieve,
        Action::Hold => v1::Action::Hold,
        Action::Observe => v1::Action::Observe,
        Action::Forget => v1::Action::Forget,
        Action::Adopt => v1::Action::Adopt,
        Action::Release => v1::Action::Release,
        Action::Refuse => v1::Action::Refuse,
        Action::Drop => v1::Action::Drop,
        Action::Miss => v1::Action::Miss,
        Action::Settle => v1::Action::Settle,
    }
}

/// A value as JSON; empty if there is none.
pub fn value(value: Option<&ValueRef>) -> String {
    value.map(|value| value.to_json().to_string()).unwrap_or_default()
}

/// A moment.
pub fn moment(at: Timestamp) -> prost_types::Timestamp {
    let (seconds, nanos) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000);
    prost_types::Timestamp {
        seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
        nanos: i32::try_from(nanos).unwrap_or_default(),
    }
}

/// What an item waits for, in words.
pub fn unmet(unmet: &[Unmet]) -> Vec<String> {
    unmet.iter().map(ToString::to_string).collect()
}

/// An item at one side of a step.
pub fn side(side: &Side) -> v1::Side {
    v1::Side { state: state(side.state).into(), value: value(side.value.as_ref()) }
}

/// One step.
pub fn step(step: &Step) -> v1::Step {
    let mut wire = v1::Step {
        key: step.key.to_string(),
        base: step.base.as_ref().map(ToString::to_string).unwrap_or_default(),
        action: action(step.action).into(),
        before: Some(side(&step.before)),
        after: Some(side(&step.after)),
        error: step.error.as_deref().unwrap_or_default().to_owned(),
        derived: step.marks.derived,
        revert: step.marks.revert,
        retry: step.marks.retry,
        recreate: step.marks.recreate,
        quiet: step.is_quiet(),
        ..v1::Step::default()
    };
    match step.note.as_deref() {
        Some(Note::Needs(needs)) => wire.needs = unmet(needs),
        Some(Note::Recreate(reason)) => wire.recreate_reason.clone_from(reason),
        Some(Note::Refused(reason)) => wire.refused.clone_from(reason),
        None => {}
    }
    wire
}

/// Steps in order.
pub fn steps(list: &[Step]) -> Vec<v1::Step> {
    list.iter().map(step).collect()
}

/// A plan with its identity and what it puts at risk.
pub fn plan(plan: &Plan, after_txn: u64) -> v1::Plan {
    v1::Plan {
        hash: plan.hash().to_string(),
        steps: steps(&plan.steps),
        blast_radius: Some(blast::radius(&plan.steps)),
        after_txn,
        ..v1::Plan::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_actions_keep_their_words() {
        let states =
            [State::Nonexistent, State::Configured, State::Removing, State::Retrying, State::Obtained];
        assert!(states.into_iter().all(|one| state(one).name() == one.name()));
        let actions = [Action::Create, Action::Refuse, Action::Settle, Action::Drop, Action::Miss];
        assert!(actions.into_iter().all(|one| self::action(one).name() == one.name()));
        let at = Timestamp(1_548_070_167_794_325_984);
        assert_eq!(kilter_api::render::moment(&moment(at)), at.to_string());
    }
}
