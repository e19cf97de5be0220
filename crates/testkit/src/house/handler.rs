//! The handlers of scripts: what they want is their inputs and what events told them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kilter_events::builtin::{InputChange, Shutdown};
use kilter_events::{Draft, EffectEnded, Event, Handler, HandlerError, Inputs, Method, Severity, from_json};
use kilter_scheduler::Key;
use serde_json::Value as Json;

use super::event::{Deed, Planned};
use crate::attrs::Attrs;

/// What a handler is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// Whether it is interested.
    Handles,
    /// A resync.
    Resync,
    /// An update.
    Update,
    /// The way back.
    Revert,
}

/// How a call goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// It answers with an error.
    Error(Severity, String),
    /// It panics.
    Panic(String),
}

/// What goes wrong, by the number of the call: the same calls go wrong in a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mishaps {
    planned: BTreeMap<(Call, usize), Mishap>,
    calls: BTreeMap<Call, usize>,
}

impl Mishaps {
    /// The next calls that nothing is planned for go wrong.
    pub fn plan(&mut self, call: Call, mishap: &Mishap, times: usize) {
        let made = self.calls.get(&call).copied().unwrap_or_default();
        let free = (made..).filter(|number| !self.planned.contains_key(&(call, *number)));
        let free: Vec<usize> = free.take(times).collect();
        self.planned.extend(free.into_iter().map(|number| ((call, number), mishap.clone())));
    }

    /// What was planned and has not happened.
    pub fn open(&self) -> usize {
        let made = |call: &Call| self.calls.get(call).copied().unwrap_or_default();
        self.planned.keys().filter(|(call, number)| *number >= made(call)).count()
    }

    /// Nothing goes wrong any more.
    pub fn clear(&mut self) {
        let made = |call: &Call| self.calls.get(call).copied().unwrap_or_default();
        let happened = |(call, number): &(Call, usize)| *number < made(call);
        let planned = std::mem::take(&mut self.planned);
        self.planned = planned.into_iter().filter(|(at, _)| happened(at)).collect();
    }

    /// The same plan for a fresh handler.
    #[must_use]
    pub fn afresh(&self) -> Self {
        Self { planned: self.planned.clone(), calls: BTreeMap::new() }
    }

    fn take(&mut self, call: Call) -> Option<Mishap> {
        let made = self.calls.entry(call).or_default();
        *made += 1;
        self.planned.get(&(call, *made - 1)).cloned()
    }
}

/// What a handler knows; shared with the test, which looks at it.
#[derive(Clone, Debug, Default)]
pub struct Mind {
    /// What its inputs want.
    pub inputs: BTreeMap<Key, Attrs>,
    /// What events want.
    pub told: BTreeMap<Key, Attrs>,
    /// What goes wrong.
    pub mishaps: Mishaps,
    /// How long the next call takes.
    pub slow: Duration,
    /// What it asks for with the startup resync.
    pub at_startup: Option<Planned>,
    /// What events wanted before the last update.
    before: Option<BTreeMap<Key, Attrs>>,
    /// An update has begun and not ended: a panic came in between.
    unfinished: bool,
}

impl Mind {
    /// Goes back to before the last update.
    fn go_back(&mut self) {
        self.unfinished = false;
        if let Some(before) = self.before.take() {
            self.told = before;
        }
    }

    /// What it wants, as text.
    pub fn text(&self) -> String {
        let all = self.inputs.iter().chain(&self.told);
        let lines: Vec<String> =
            all.map(|(key, attrs)| format!("{key} {attrs}").trim_end().to_owned()).collect();
        lines.join(", ")
    }
}

/// A handler of a script.
#[derive(Clone, Debug)]
pub struct Scripted {
    name: String,
    mind: Arc<Mutex<Mind>>,
    watch: Arc<Mutex<Duration>>,
}

impl Scripted {
    /// A handler that knows nothing yet; with the startup resync it asks for the event.
    pub fn new(
        name: &str,
        mishaps: Mishaps,
        at_startup: Option<Planned>,
        watch: Arc<Mutex<Duration>>,
    ) -> Self {
        let mind = Mind { mishaps, at_startup, ..Mind::default() };
        Self { name: name.to_owned(), mind: Arc::new(Mutex::new(mind)), watch }
    }

    /// Its name.
    pub fn title(&self) -> &str {
        &self.name
    }

    /// What it knows.
    pub fn mind(&self) -> MutexGuard<'_, Mind> {
        // A panic is planned while the lock is not held.
        self.mind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes its time, and goes wrong if that is planned.
    fn begin(&self, call: Call) -> Result<(), HandlerError> {
        let mut mind = self.mind();
        let mishap = mind.mishaps.take(call);
        let slow = if call == Call::Handles { Duration::ZERO } else { std::mem::take(&mut mind.slow) };
        drop(mind);
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) += slow;
        match mishap {
            None => Ok(()),
            Some(Mishap::Error(severity, text)) => Err(HandlerError { severity, source: text.into() }),
            Some(Mishap::Panic(text)) => std::panic::resume_unwind(Box::new(text)),
        }
    }

    fn deed(&self, deed: &Deed, draft: &mut Draft<'_>) -> Result<String, HandlerError> {
        let mut mind = self.mind();
        Ok(match deed {
            Deed::Put(key, attrs) => {
                mind.told.insert(key.clone(), attrs.clone());
                draft.put(key.clone(), attrs.clone());
                format!("put {key}")
            }
            Deed::Remove(key) => {
                mind.told.remove(key);
                draft.remove(key.clone());
                format!("remove {key}")
            }
            Deed::Keep(key, attrs) => {
                mind.told.insert(key.clone(), attrs.clone());
                String::new()
            }
            Deed::Forget(key) => {
                mind.inputs.remove(key);
                String::new()
            }
            Deed::Get(key) => match draft.get(key.as_str()) {
                Some(value) => format!("{key} is {}", Attrs::of(&value)),
                None => format!("{key} is not declared"),
            },
            Deed::Follow(event) => {
                draft.follow_up(event.event()).map_err(HandlerError::plain)?;
                String::new()
            }
            Deed::Ask(name) => {
                draft.ask(name.clone(), Json::Null);
                format!("ask {name}")
            }
            Deed::Say(words) => words.clone(),
        })
    }

    fn change_input(&self, change: &InputChange, draft: &mut Draft<'_>) -> Result<String, HandlerError> {
        let key = Key::new(&change.name);
        let mut mind = self.mind();
        match &change.new {
            Some(json) => {
                let attrs: Attrs = from_json(json.clone()).map_err(HandlerError::plain)?;
                mind.inputs.insert(key.clone(), attrs.clone());
                draft.put(key.clone(), attrs);
                Ok(format!("put {key}"))
            }
            None => {
                mind.inputs.remove(&key);
                draft.remove(key.clone());
                Ok(format!("remove {key}"))
            }
        }
    }

    fn clean_up(&self, draft: &mut Draft<'_>) -> String {
        let mind = self.mind();
        let leaves = mind.told.iter().filter(|(_, attrs)| attrs.get("until") == Some("shutdown"));
        let leaves: Vec<&Key> = leaves.map(|(key, _)| key).collect();
        leaves.iter().for_each(|key| draft.remove((*key).clone()));
        if leaves.is_empty() { String::new() } else { "clean up".to_owned() }
    }
}

impl Handler for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn handles(&self, event: &Event) -> bool {
        if let Err(error) = self.begin(Call::Handles) {
            std::panic::resume_unwind(Box::new(error.source.to_string()));
        }
        if let Some(planned) = event.body::<Planned>().filter(|_| event.method().mode().is_some()) {
            return planned.deeds.contains_key(&self.name);
        }
        if let Some(change) = event.body::<InputChange>() {
            return change.resource == self.name;
        }
        if let Some(ended) = event.body::<EffectEnded>() {
            return *ended.effect.handler == *self.name;
        }
        matches!(event.method(), Method::Resync(_)) || event.is::<Shutdown>()
    }

    fn resync(
        &mut self,
        event: &Event,
        inputs: &Inputs,
        count: u64,
        draft: &mut Draft<'_>,
    ) -> Result<(), HandlerError> {
        self.begin(Call::Resync)?;
        let mut mind = self.mind();
        if mind.unfinished {
            mind.go_back();
        }
        let wanted = inputs.of(&self.name);
        let wanted = wanted.map(|(name, json)| Ok((Key::new(name), from_json::<Attrs>(json.clone())?)));
        mind.inputs = wanted.collect::<Result<_, String>>().map_err(HandlerError::plain)?;
        for (key, attrs) in mind.inputs.iter().chain(&mind.told) {
            draft.put(key.clone(), attrs.clone());
        }
        if let Some(event) = mind.at_startup.as_ref().filter(|_| count == 1) {
            draft.follow_up(event.event()).map_err(HandlerError::plain)?;
        }
        drop(mind);
        let deeds = event.body::<Planned>().and_then(|planned| planned.deeds.get(&self.name));
        for deed in deeds.into_iter().flatten() {
            self.deed(deed, draft)?;
        }
        Ok(())
    }

    fn update(&mut self, event: &Event, draft: &mut Draft<'_>) -> Result<String, HandlerError> {
        let mut mind = self.mind();
        mind.before = Some(mind.told.clone());
        mind.unfinished = true;
        drop(mind);
        let mut changes = Vec::new();
        if let Some(planned) = event.body::<Planned>() {
            for deed in planned.deeds.get(&self.name).into_iter().flatten() {
                changes.push(self.deed(deed, draft)?);
            }
        } else if let Some(change) = event.body::<InputChange>() {
            changes.push(self.change_input(change, draft)?);
        } else if let Some(ended) = event.body::<EffectEnded>() {
            changes.push(format!("{}: {:?}", ended.effect.name, ended.result));
        } else if event.is::<Shutdown>() {
            changes.push(self.clean_up(draft));
        }
        // A handler that goes wrong has done something by then.
        if let Err(error) = self.begin(Call::Update) {
            self.mind().go_back();
            return Err(error);
        }
        self.mind().unfinished = false;
        changes.retain(|change| !change.is_empty());
        Ok(changes.join(", "))
    }

    fn revert(&mut self, _event: &Event) -> Result<(), HandlerError> {
        self.begin(Call::Revert)?;
        self.mind().go_back();
        Ok(())
    }

    fn own_state(&self) -> Option<String> {
        Some(self.mind().text())
    }
}
