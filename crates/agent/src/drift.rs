//! Attention: what the kernel tells becomes events, so that drift walks in through the same queue as everything else.
//!
//! Decided here: which event follows from what was noticed. Not decided here: what drift is and when an item may be
//! healed ([`kilter_linux::drift`]), and what an event leads to.

use std::time::Duration;

use kilter_events::builtin::{Drifted, EventsLost, Observed};
use kilter_events::{Event, Producer, PushError};
use kilter_linux::drift::{Healing, Verdict, sort};
use kilter_linux::{Noticed, Watch};
use kilter_scheduler::{Key, Scheduler, Timestamp};
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
    /// Something could not be told: everything has to be read again.
    missed: bool,
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
        Self { watch: Some(watch), healing, producer, held: Vec::new(), until: Instant::now(), missed: false }
    }

    /// Pays attention to nothing: there is no kernel below.
    pub fn blind(producer: Producer) -> Self {
        Self {
            watch: None,
            healing: Healing::default(),
            producer,
            held: Vec::new(),
            until: Instant::now(),
            missed: false,
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
        if !sorted.observed.is_empty() {
            self.push(Event::new(Observed(sorted.observed)));
        }
        if sorted.lost {
            self.missed = true;
        }
        let known = self.healing.contested();
        let heals = |key: &Key| self.healing.drifted(key, now) == Verdict::Heal;
        let mut keys: Vec<Key> = sorted.drifted.into_iter().filter(heals).collect();
        if !keys.is_empty() {
            keys.extend(sorted.affected);
            self.push(Event::new(Drifted(keys)));
        }
        heeded.contested = self.healing.contested().into_iter().filter(|key| !known.contains(key)).collect();
        self.tell_missed();
        heeded
    }

    /// Pushes what is due by now; says whether there was anything.
    pub fn push_due(&mut self, now: Timestamp) -> bool {
        let due = self.healing.due(now);
        let any = !due.is_empty() || self.missed;
        if !due.is_empty() {
            self.push(Event::new(Drifted(due)));
        }
        self.tell_missed();
        any
    }

    /// Forgets who changed these items: they are declared anew.
    pub fn forgive<'a>(&mut self, keys: impl IntoIterator<Item = &'a Key>) {
        keys.into_iter().for_each(|key| self.healing.forgive(key));
    }

    /// Leaves items whose keys start with the prefix alone.
    pub fn pause(&mut self, prefix: &str) {
        self.healing.pause(prefix);
    }

    /// Heals items under this prefix again, beginning with those that are declared now: they may have drifted.
    pub fn resume(&mut self, prefix: &str, declared: Vec<Key>) {
        self.healing.resume(prefix);
        if !declared.is_empty() {
            self.push(Event::new(Drifted(declared)));
        }
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

    fn tell_missed(&mut self) {
        if self.missed {
            self.missed = false;
            self.push(Event::new(EventsLost));
        }
    }

    /// A full queue loses the event, not the fact: everything is read again when there is room.
    fn push(&mut self, event: Event) {
        if let Err(PushError::Full { .. }) = self.producer.push(event) {
            self.missed = true;
        }
    }
}
