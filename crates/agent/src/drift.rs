//! Attention: what the kernel tells becomes events, so that drift walks in through the same queue as everything else.
//!
//! Decided here: which event follows from what was noticed. Not decided here: what drift is and when an item may be
//! healed ([`kilter_linux::drift`]), and what an event leads to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kilter_events::builtin::{Drifted, Observed};
use kilter_events::{Event, EventKind, Producer, PushError};
use kilter_linux::drift::{Healing, sort, with_what_stands_on};
use kilter_linux::{Noticed, Watch};
use kilter_scheduler::{Item, Key, Observation, Scheduler, Timestamp};
use tokio::time::{Instant, timeout_at};

/// How long the kernel is listened to before anything follows: what goes together, as a link and all that stands on
/// it, is told in pieces and namespace by namespace.
const MOMENT: Duration = Duration::from_millis(25);

/// Watches the kernel and says what follows.
pub struct Attention {
    watch: Option<Watch>,
    healing: Healing,
    producer: Producer,
    /// What was noticed since the moment began, and when it is over.
    held: Vec<Noticed>,
    until: Instant,
    untold: Untold,
}

/// What the queue has not taken yet: told when there is room, the last word about each item. There is no more of it than
/// there are items.
#[derive(Debug, Default)]
struct Untold {
    observed: BTreeMap<Key, Observation>,
    drifted: BTreeSet<Key>,
}

/// What came of heeding the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heeded {
    /// Items that another writer has begun to fight over: they are left alone from now on.
    pub contested: Vec<Key>,
    /// Whether the kernel can no longer be watched.
    pub blind: bool,
}

impl Attention {
    /// Pays attention to what is watched; events go to the producer.
    pub fn new(watch: Watch, healing: Healing, producer: Producer) -> Self {
        Self { watch: Some(watch), healing, ..Self::blind(producer) }
    }

    /// Pays attention to nothing: there is no kernel below.
    pub fn blind(producer: Producer) -> Self {
        Self {
            watch: None,
            healing: Healing::default(),
            producer,
            held: Vec::new(),
            until: Instant::now(),
            untold: Untold::default(),
        }
    }

    /// What was noticed within a moment; `None` when nothing can come any more, and from then on it does not end.
    ///
    /// **Guarantees** that nothing is lost when it is dropped halfway.
    pub async fn noticed(&mut self) -> Option<Vec<Noticed>> {
        let Some(watch) = &mut self.watch else { return std::future::pending().await };
        if self.held.is_empty() {
            self.held = watch.next().await?;
            self.until = Instant::now() + MOMENT;
        }
        while let Ok(Some(more)) = timeout_at(self.until, watch.next()).await {
            self.held.extend(more);
        }
        Some(std::mem::take(&mut self.held))
    }

    /// Turns what was noticed into events.
    pub fn heed(&mut self, noticed: Option<Vec<Noticed>>, scheduler: &Scheduler, now: Timestamp) -> Heeded {
        let Some(noticed) = noticed else {
            self.watch = None;
            return Heeded { blind: true, ..Heeded::default() };
        };
        let mut heeded = Heeded::default();
        let sorted = sort(scheduler, noticed);
        let observed = sorted.observed.into_iter().map(|observation| (observation.key.clone(), observation));
        self.untold.observed.extend(observed);
        let known = self.healing.contested();
        let keys = self.healing.heal_now(sorted.drifted, sorted.affected, sorted.unclear, now);
        self.untold.drifted.extend(keys);
        heeded.contested = self.healing.contested().into_iter().filter(|key| !known.contains(key)).collect();
        self.tell();
        heeded
    }

    /// Pushes what is due by now, with what stands on it, and what there was no room for; says whether anything was pushed.
    pub fn push_due(&mut self, scheduler: &Scheduler, now: Timestamp) -> bool {
        let due = self.healing.due(now);
        self.untold.drifted.extend(with_what_stands_on(scheduler, due));
        self.tell()
    }

    /// Forgets who changed these items: they are declared anew.
    pub fn forgive<'a>(&mut self, keys: impl IntoIterator<Item = &'a Key>) {
        keys.into_iter().for_each(|key| self.healing.forgive(key));
    }

    /// Leaves items whose keys start with the prefix alone.
    pub fn pause(&mut self, prefix: &str) {
        self.healing.pause(prefix);
    }

    /// Heals items under this prefix again, beginning with those that are known now: they may have drifted, and what
    /// stands on them may have gone with them.
    pub fn resume(&mut self, prefix: &str, scheduler: &Scheduler) {
        self.healing.resume(prefix);
        let is_concerned = |item: &Item| {
            item.key.as_str().starts_with(prefix) && (item.declared.is_some() || item.base.is_some())
        };
        let concerned = scheduler.items().into_iter().filter(is_concerned).map(|item| item.key);
        self.untold.drifted.extend(with_what_stands_on(scheduler, concerned.collect()));
        self.tell();
    }

    /// The prefixes of keys that are left alone.
    pub fn paused(&self) -> Vec<String> {
        self.healing.paused().map(str::to_owned).collect()
    }

    /// Items that another writer fights over, by key.
    pub fn contested(&self) -> Vec<Key> {
        self.healing.contested()
    }

    /// When something is due next.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.healing.deadline()
    }

    /// Pushes what was not told yet, as far as there is room; what is paused or contested by then is left alone. Says whether
    /// anything was pushed.
    fn tell(&mut self) -> bool {
        let Self { healing, untold, producer, .. } = self;
        untold.drifted.retain(|key| !healing.leaves_alone(key));
        let mut any = false;
        if !untold.observed.is_empty() {
            let event = Observed(untold.observed.values().cloned().collect());
            if !push(producer, event) {
                return any;
            }
            untold.observed.clear();
            any = true;
        }
        if !untold.drifted.is_empty() && push(producer, Drifted(untold.drifted.iter().cloned().collect())) {
            untold.drifted.clear();
            any = true;
        }
        any
    }
}

/// Whether the queue has taken an event. One that has ended wants none.
fn push(producer: &Producer, event: impl EventKind) -> bool {
    !matches!(producer.push(Event::new(event)), Err(PushError::Full { .. }))
}

#[cfg(test)]
mod tests {
    use kilter_events::builtin::DatabaseResync;
    use kilter_events::{EventLoop, Parts, Settings, Step};
    use kilter_linux::drift;
    use kilter_model::document::{Declared, Source, read};
    use kilter_scheduler::{Act, Answer, Change, Origin, Stage, Txn, ValueRef};

    use super::*;

    const NOW: Timestamp = Timestamp(1);

    /// Performs a transaction in a world where everything succeeds and nothing is found.
    fn perform(scheduler: &mut Scheduler, txn: Txn) -> std::sync::Arc<kilter_scheduler::Record> {
        scheduler.begin(txn, NOW);
        while scheduler.stage() != Stage::Ended {
            if scheduler.stage() == Stage::Planned {
                scheduler.execute();
            }
            for operation in scheduler.ready() {
                let answer = match operation.act {
                    Act::RetrieveAll { .. } => Answer::Listed(Vec::new()),
                    Act::Retrieve { .. } => Answer::Absent,
                    Act::Create { .. } | Act::Update { .. } | Act::Delete { .. } => Answer::done(),
                };
                scheduler.answer(operation.id, answer, NOW);
            }
        }
        scheduler.finish(NOW)
    }

    /// Three rules that are declared and there.
    fn rules() -> (Scheduler, Vec<Change>) {
        let mut scheduler = Scheduler::default();
        for descriptor in kilter_model::kinds::descriptors().unwrap() {
            scheduler.register(descriptor).unwrap();
        }
        let rules = [1, 2, 3].map(|number| format!("{{kind: rule, priority: {number}, table: 7}}"));
        let items = read(&[Source::new("site.yaml", rules.join("\n---\n"))]).unwrap();
        let changes: Vec<Change> = items.iter().map(Declared::change).collect();
        perform(&mut scheduler, Txn::changes(changes.clone()));
        (scheduler, changes)
    }

    /// What comes out of the queue, until nothing does.
    fn drain(events: &mut EventLoop) -> Vec<String> {
        let mut told = Vec::new();
        loop {
            match events.next(NOW) {
                Step::Opened(opening) => told.push(opening.description.to_string()),
                Step::Commit(txn) => {
                    let record = perform(events.scheduler_mut(), txn);
                    events.committed(Some(record), NOW);
                }
                Step::Wait(_) => return told,
                Step::Closed(_) => {}
                other @ (Step::Plan(_) | Step::Perform(_) | Step::Fatal(_) | Step::Stopped) => {
                    panic!("{other:?}")
                }
            }
        }
    }

    fn item(key: &Key, value: Option<ValueRef>, origin: Origin) -> Noticed {
        Noticed::Item(Observation { key: key.clone(), value, facts: None, origin })
    }

    #[test]
    fn what_a_full_queue_does_not_take_is_told_when_there_is_room_without_what_is_left_alone_by_then() {
        let parts = Parts {
            scheduler: Scheduler::default(),
            handlers: Vec::new(),
            sources: Vec::new(),
            stopwatch: Box::new(|| Duration::ZERO),
        };
        let mut events = EventLoop::new(Settings { queue: 1, ..Settings::default() }, parts, NOW).unwrap();
        let producer = events.producer();
        producer.push(Event::new(DatabaseResync::default())).unwrap();
        drain(&mut events);
        producer.push(Event::new(Drifted(vec![Key::new("in/the/way")]))).unwrap();

        let (scheduler, changes) = rules();
        let mut attention = Attention::blind(producer);
        attention.healing = Healing::new(drift::Settings { fight: 2, ..drift::Settings::default() });
        let link = Key::new("linux/link/host/eth9");
        let seen = changes[0].value.clone();
        let gone = changes.iter().map(|change| item(&change.key, None, Origin::Declared));
        let first = gone.chain([item(&link, seen, Origin::Observed)]).collect();
        assert_eq!(attention.heed(Some(first), &scheduler, NOW), Heeded::default());
        let fought = &changes[1].key;
        let again = vec![item(&link, None, Origin::Observed), item(fought, None, Origin::Declared)];
        let contested = attention.heed(Some(again), &scheduler, NOW).contested;
        assert_eq!(contested.iter().collect::<Vec<_>>(), [fought]);
        attention.pause(changes[0].key.as_str());
        assert!(!attention.push_due(&scheduler, NOW), "there is no room");

        assert_eq!(drain(&mut events), ["Drifted\n* in/the/way"]);
        while attention.push_due(&scheduler, NOW) {
            let told = drain(&mut events).join("\n");
            let expected = match told.starts_with("Observed") {
                true => format!("Observed\n* {link} is gone"),
                false => format!("Drifted\n* {}", changes[2].key),
            };
            assert_eq!(told, expected);
        }
        assert!(attention.untold.observed.is_empty() && attention.untold.drifted.is_empty());

        // What was paused is looked at when it is not any more.
        attention.resume(changes[0].key.as_str(), &scheduler);
        assert_eq!(drain(&mut events), [format!("Drifted\n* {}", changes[0].key)]);
    }
}
