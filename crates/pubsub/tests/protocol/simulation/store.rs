//! The source of truth, as simple as can be: every state it ever had is kept.

use std::collections::BTreeMap;

use kilter_pubsub::{
    Change, Commit, ItemKey, LogId, Revision, SourceRead, SourceState, SourceUnavailable, Topic,
};

pub(crate) type Items = BTreeMap<ItemKey, (Revision, Vec<u8>)>;

/// One life of the store, until it is restored from a backup.
pub(crate) struct Incarnation {
    pub(crate) commits: Vec<Commit>,
    /// The states of each topic, by the revision that made them.
    states: BTreeMap<Topic, BTreeMap<Revision, Items>>,
    pub(crate) rev: Revision,
    /// Where this life began.
    pub(crate) start: Revision,
}

impl Incarnation {
    /// A topic as it was at a revision.
    pub(crate) fn at(&self, topic: &Topic, rev: Revision) -> Items {
        let states = self.states.get(topic);
        states
            .and_then(|states| states.range(..=rev).next_back())
            .map(|(_, items)| items.clone())
            .unwrap_or_default()
    }

    /// A topic as it is.
    pub(crate) fn now(&self, topic: &Topic) -> Items {
        self.at(topic, self.rev)
    }
}

pub(crate) struct Store {
    pub(crate) log: LogId,
    pub(crate) lives: Vec<Incarnation>,
    pub(crate) available: bool,
    /// Commits up to this are forgotten.
    pub(crate) compacted: Revision,
    pub(crate) reads: u64,
}

impl Store {
    pub(crate) fn new() -> Self {
        let life = Incarnation { commits: Vec::new(), states: BTreeMap::new(), rev: 1, start: 1 };
        Self { log: LogId::of("life 0"), lives: vec![life], available: true, compacted: 0, reads: 0 }
    }

    pub(crate) fn life(&self) -> &Incarnation {
        self.lives.last().expect("a store lives")
    }

    pub(crate) fn rev(&self) -> Revision {
        self.life().rev
    }

    /// Where an item is now.
    pub(crate) fn home(&self, item: &ItemKey) -> Option<Topic> {
        let life = self.life();
        life.states.keys().find(|topic| life.now(topic).contains_key(item)).cloned()
    }

    /// Commits puts and deletes; a put of an item that lives elsewhere moves it.
    pub(crate) fn commit(&mut self, puts: &[(Topic, ItemKey, Vec<u8>)], deletes: &[ItemKey]) -> Revision {
        let rev = self.rev() + 1;
        let mut changes = Vec::new();
        for item in deletes {
            if let Some(home) = self.home(item) {
                changes.push((home, Change::delete(item.clone(), rev)));
            }
        }
        for (topic, item, value) in puts {
            if let Some(home) = self.home(item).filter(|home| home != topic) {
                changes.push((home, Change::delete(item.clone(), rev)));
            }
            changes.push((topic.clone(), Change::put(item.clone(), rev, value.clone())));
        }
        let life = self.lives.last_mut().expect("a store lives");
        for (topic, change) in &changes {
            let mut items = life.at(topic, rev);
            match &change.value {
                Some(value) => items.insert(change.item.clone(), (rev, value.to_vec())),
                None => items.remove(&change.item),
            };
            life.states.entry(topic.clone()).or_default().insert(rev, items);
        }
        life.rev = rev;
        life.commits.push(Commit { rev, changes });
        rev
    }

    /// Puts an item only if it is still in the version that its writer has read; nothing if it is not, or if the store is
    /// away.
    pub(crate) fn commit_if(
        &mut self,
        expected: Option<Revision>,
        put: (Topic, ItemKey, Vec<u8>),
    ) -> Option<Revision> {
        let home = self.home(&put.1);
        let version = home.and_then(|home| Some(self.life().now(&home).get(&put.1)?.0));
        (self.available && version == expected).then(|| self.commit(&[put], &[]))
    }

    /// Restores the state of an earlier revision: another life, in which numbers mean something else.
    pub(crate) fn restore(&mut self, rev: Revision, log: LogId) {
        let life = self.life();
        let states =
            life.states.keys().map(|topic| (topic.clone(), BTreeMap::from([(0, life.at(topic, rev))])));
        let states = states.collect();
        self.compacted = rev;
        self.log = log;
        self.lives.push(Incarnation { commits: Vec::new(), states, rev, start: rev });
    }

    pub(crate) fn read(&mut self) -> Result<SourceState, SourceUnavailable> {
        if !self.available {
            return Err(SourceUnavailable);
        }
        self.reads += 1;
        let life = self.life();
        let items = life.states.keys().flat_map(|topic| {
            life.now(topic)
                .into_iter()
                .map(|(item, (rev, value))| (topic.clone(), Change::put(item, rev, value)))
        });
        Ok(SourceState { log: self.log, rev: life.rev, items: items.collect() })
    }

    pub(crate) fn read_topic(&mut self, topic: &Topic) -> Result<SourceRead, SourceUnavailable> {
        if !self.available {
            return Err(SourceUnavailable);
        }
        self.reads += 1;
        let items =
            self.life().now(topic).into_iter().map(|(item, (rev, value))| Change::put(item, rev, value));
        Ok(SourceRead { log: self.log, rev: self.rev(), items: items.collect() })
    }

    /// The commits after a revision; nothing if they are forgotten, or have not been.
    pub(crate) fn after(&self, rev: Revision) -> Option<Vec<Commit>> {
        if rev < self.compacted || rev > self.rev() {
            return None;
        }
        Some(self.life().commits.iter().filter(|commit| commit.rev > rev).cloned().collect())
    }
}
