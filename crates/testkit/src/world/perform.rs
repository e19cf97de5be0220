//! Performing operations, with the faults that were planned for them.

use kilter_scheduler::{
    Act, Action, Answer, Facts, Failure, Key, Listing, Observation, OpId, Operation, Origin, Reads,
    Retrieved, ValueRef,
};

use super::{Doubt, Effect, Index, Logged, Mishap, Thing, Told, World};
use crate::attrs::Attrs;
use crate::kinds::TestKind;

fn action_of(act: &Act) -> Action {
    match act {
        Act::Create { .. } => Action::Create,
        Act::Update { .. } => Action::Update,
        Act::Delete { .. } => Action::Delete,
        Act::Retrieve { .. } | Act::RetrieveAll { .. } => Action::Retrieve,
    }
}

impl World {
    /// Performs an operation; `None` if it hangs until [`World::release`].
    pub fn perform(&mut self, operation: &Operation) -> Option<Answer> {
        let kind = *self.bound.get(&operation.kind).expect("the kind was registered through the world");
        let answer = self.perform_act(&kind, &operation.act);
        if answer.is_none() {
            self.hung.push(operation.clone());
        }
        answer
    }

    /// Performs what is asked of a kind; `None` if it hangs for ever.
    pub(crate) fn perform_act(&mut self, kind: &TestKind, act: &Act) -> Option<Answer> {
        let action = action_of(act);
        let key = act.key().cloned().unwrap_or_else(|| Key::new(kind.name()));
        self.check(kind, act);
        if action != Action::Retrieve {
            // A new operation takes the place of one that was accepted and never came true.
            self.accepted.remove(&key);
        }
        let answer = match self.take_fault(action, key.as_str()) {
            None => Some(self.act(kind, act)),
            Some(Mishap::Fail { failure, effect }) => Some(self.fail(act, failure, effect)),
            Some(Mishap::Hang) => None,
            Some(Mishap::Accept { within }) => {
                self.doubts.insert(key.clone(), Doubt::Accepted);
                self.accepted.insert(key.clone(), act.clone());
                Some(Answer::Accepted { within })
            }
        };
        let ok = answer.as_ref().is_some_and(|answer| !matches!(answer, Answer::Failed(_)));
        self.log.push(Logged { action, key, ok });
        answer
    }

    /// Lets the operations on this item that hang happen.
    pub fn release(&mut self, key: &Key) -> Vec<(OpId, Answer)> {
        let (released, hung) =
            self.hung.drain(..).partition(|operation: &Operation| operation.act.key() == Some(key));
        self.hung = hung;
        let mut answers = Vec::new();
        for operation in released {
            let kind = self.bound[&operation.kind];
            answers.push((operation.id, self.act(&kind, &operation.act)));
        }
        answers
    }

    /// Lets the operation that was accepted for this item happen; what a watcher would report.
    pub fn confirm(&mut self, key: &Key) -> Result<Observation, String> {
        let act = self.accepted.remove(key).ok_or_else(|| format!("nothing was accepted for `{key}`"))?;
        self.take_effect(&act);
        let seen = self.things.get(key);
        Ok(Observation {
            key: key.clone(),
            value: seen.map(|thing| thing.value.to_value()),
            facts: seen.map(|thing| Facts::new(Index(thing.index))),
            origin: Origin::Declared,
        })
    }

    pub(super) fn act(&mut self, kind: &TestKind, act: &Act) -> Answer {
        match act {
            Act::Create { key, .. } => {
                let base = crate::kinds::base_of(key).filter(|_| kind.reads() == Reads::WithBase);
                if base.is_some_and(|base| !self.things.contains_key(&base)) {
                    self.doubts.insert(key.clone(), Doubt::Unread);
                    return Answer::Failed(Failure::retriable("what it is part of does not exist"));
                }
                if self.things.contains_key(key) && kind.reads() != Reads::Never {
                    self.doubts.insert(key.clone(), Doubt::Unread);
                    return Answer::Failed(Failure::retriable("already exists"));
                }
                self.take_effect(act);
                self.told_after(key)
            }
            Act::Update { key, .. } => {
                if !self.things.contains_key(key) {
                    self.doubts.insert(key.clone(), Doubt::Unread);
                    return Answer::Failed(Failure::retriable("no such item"));
                }
                self.take_effect(act);
                self.told_after(key);
                Answer::done()
            }
            Act::Delete { key, .. } => {
                self.take_effect(act);
                self.told_after(key)
            }
            Act::Retrieve { key, .. } => {
                self.tell(key);
                self.retrieved(key).map_or(Answer::Absent, Answer::Found)
            }
            Act::RetrieveAll { since, .. } => {
                let answer = self.list(kind, *since);
                let how = match answer {
                    Answer::AsListed => "as listed",
                    Answer::NotAsListed => "not as listed",
                    Answer::Done { .. }
                    | Answer::Accepted { .. }
                    | Answer::Failed(_)
                    | Answer::Found(_)
                    | Answer::Absent
                    | Answer::Listed(_)
                    | Answer::ListedAs(..) => "listed",
                };
                self.readings.push((kind.name(), how));
                answer
            }
        }
    }

    /// Lists a kind, unless it is as the listing that is asked about.
    fn list(&mut self, kind: &TestKind, since: Option<Listing>) -> Answer {
        let mut keys: Vec<Key> = self.things.keys().chain(self.told.keys()).cloned().collect();
        keys.sort();
        keys.dedup();
        keys.retain(|key| kind.pattern().matches(key.as_str()));
        let there = |world: &Self, key: &Key| {
            let thing = world.things.get(key)?;
            Some((key.clone(), Thing { value: world.readable(key)?, ..thing.clone() }))
        };
        let now: Vec<(Key, Thing)> = keys.iter().filter_map(|key| there(self, key)).collect();
        if since.is_some() && self.listings.get(kind.name()).is_none_or(|(known, _)| Some(*known) != since) {
            return Answer::NotAsListed;
        }
        if since.is_some() {
            let (_, then) = &self.listings[kind.name()];
            if *then != now {
                return Answer::NotAsListed;
            }
            for key in &keys {
                self.check_believed(kind, key, there(self, key).as_ref().map(|(_, thing)| thing));
            }
        }
        for key in &keys {
            self.tell(key);
        }
        if since.is_some() {
            return Answer::AsListed;
        }
        let listed = keys.iter().filter_map(|key| self.retrieved(key)).collect();
        self.last_listing += 1;
        let listing = Listing(self.last_listing);
        self.listings.insert(kind.name(), (listing, now));
        Answer::ListedAs(listing, listed)
    }

    /// Panics if the agent asked about a listing although it was told something else since.
    fn check_believed(&self, kind: &TestKind, key: &Key, listed: Option<&Thing>) {
        if self.doubts.contains_key(key) {
            return;
        }
        let told = self.told.get(key);
        let agree = match (told, listed) {
            (Some(told), Some(listed)) => {
                let indexes_agree = told.index.is_none_or(|index| index == listed.index);
                kind.same(&told.value, &listed.value) && told.origin == listed.origin && indexes_agree
            }
            (told, listed) => told.is_none() && listed.is_none(),
        };
        assert!(
            agree,
            "`{key}` is listed as {listed:?}, and the agent, which knows {told:?}, asked only about that"
        );
    }

    fn retrieved(&self, key: &Key) -> Option<Retrieved> {
        let thing = self.things.get(key)?;
        Some(Retrieved {
            key: key.clone(),
            value: self.readable(key)?.to_value(),
            facts: Some(Facts::new(Index(thing.index))),
            origin: Some(thing.origin),
        })
    }

    fn fail(&mut self, act: &Act, failure: Failure, effect: Effect) -> Answer {
        if let Some(key) = act.key() {
            let doubt = if matches!(act, Act::Retrieve { .. }) { Doubt::ReadFailed } else { Doubt::Unread };
            self.doubts.insert(key.clone(), doubt);
        }
        let broken = |value: &ValueRef| -> Attrs {
            let rest = Attrs::of(value).filtered(|name| name != "v");
            std::iter::once(("v", "broken")).chain(rest.iter()).collect()
        };
        match (effect, act) {
            (Effect::After, _) => self.take_effect(act),
            (Effect::Partial, Act::Create { key, value }) => {
                self.put(key, broken(value), Origin::Declared);
            }
            (Effect::Partial, Act::Update { key, old, .. }) => {
                if let Some(thing) = self.things.get_mut(key) {
                    thing.value = broken(old);
                }
            }
            (Effect::Before | Effect::Partial, _) => {}
        }
        Answer::Failed(failure)
    }

    /// Changes what exists, and nothing else.
    fn take_effect(&mut self, act: &Act) {
        match act {
            Act::Create { key, value } => {
                self.put(key, Attrs::of(value).clone(), Origin::Declared);
            }
            Act::Update { key, new, .. } => {
                if let Some(thing) = self.things.get_mut(key) {
                    thing.value = Attrs::of(new).clone();
                }
            }
            Act::Delete { key, value, .. } => {
                self.things.remove(key);
                self.ghosts.insert(key.clone(), Attrs::of(value).clone());
            }
            Act::Retrieve { .. } | Act::RetrieveAll { .. } => {}
        }
    }

    /// The agent knows the effect of its own operation on this item, and only on this one.
    fn told_after(&mut self, key: &Key) -> Answer {
        self.doubts.remove(key);
        let Some(thing) = self.things.get(key) else {
            self.told.remove(key);
            return Answer::done();
        };
        let told = Told { value: thing.value.clone(), index: Some(thing.index), origin: thing.origin };
        self.told.insert(key.clone(), told);
        Answer::Done { facts: Some(Facts::new(Index(thing.index))) }
    }

    /// Panics if the operation contradicts what the agent was told.
    pub(super) fn check(&self, kind: &TestKind, act: &Act) {
        let Some(key) = act.key() else {
            assert!(kind.reads() == Reads::Itself, "read all of `{}`, which cannot be read", kind.name());
            return;
        };
        assert!(kind.pattern().matches(key.as_str()), "`{key}` was handed to kind `{}`", kind.name());
        let told = self.told.get(key);
        let foreign = self.things.get(key).is_some_and(|thing| thing.origin == Origin::Observed);
        match act {
            Act::Retrieve { .. } => {
                assert!(kind.reads() == Reads::Itself, "read `{key}`, which cannot be read by itself");
            }
            Act::Create { .. } => {
                let known = told.is_some() && !self.doubts.contains_key(key);
                assert!(!known, "create of `{key}`, of which the agent was told that it exists");
            }
            Act::Update { old, facts, .. } => self.check_known(kind, key, told, old, facts.as_ref()),
            Act::Delete { value, facts, .. } => {
                assert!(!foreign, "delete of `{key}`, which is foreign");
                self.check_known(kind, key, told, value, facts.as_ref());
            }
            Act::RetrieveAll { .. } => {}
        }
    }

    fn check_known(
        &self,
        kind: &TestKind,
        key: &Key,
        told: Option<&Told>,
        given: &ValueRef,
        facts: Option<&Facts>,
    ) {
        if self.doubts.contains_key(key) {
            return;
        }
        let Some(told) = told else {
            panic!("update or delete of `{key}`, of which the agent was not told that it exists");
        };
        let given = Attrs::of(given);
        assert!(
            kind.same(&told.value, given),
            "`{key}` is `{}`, not `{given}` as the agent says",
            told.value
        );
        let index =
            facts.map(|facts| facts.downcast::<Index>().expect("the facts of test kinds are an index").0);
        let fits = match (told.index, index) {
            (Some(told), Some(given)) => told == given,
            (Some(_), None) => kind.reads() == Reads::WithBase,
            (None, _) => true,
        };
        assert!(fits, "the index of `{key}` is {:?}, not {index:?} as the agent says", told.index);
    }
}
