//! What all actuators and the watcher share: settings, namespaces, the marks that are given out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::mark::{self, Indexes};
use crate::netlink::{Message, Refusal};
use crate::parameters::Parameters;
use crate::settings::Settings;
use crate::space::{Spaces, locked};

/// How many generations of packet filters are kept in mind. While nobody watches, nobody takes them out; one that is
/// forgotten counts as somebody else's, which costs a look.
const GENERATIONS: usize = 1024;

/// What all actuators and the watcher share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) spaces: Spaces,
    pub(crate) indexes: Indexes,
    pub(crate) parameters: Parameters,
    /// Kernel parameters that are as declared.
    pub(crate) declared: crate::sysctl::Declared,
    /// What links and ports were before.
    pub(crate) formers: crate::former::Formers,
    /// What was read before.
    pub(crate) archive: crate::survey::Archive,
    /// Ends of pairs that came with the creation of the other end: namespace and name, and the index.
    peers: Mutex<HashMap<(String, String), u32>>,
    /// Links of ours by their index: namespace and name.
    made: Mutex<HashMap<u32, (String, String)>>,
    /// The same the other way round.
    indexes_made: Mutex<HashMap<(String, String), u32>>,
    /// What was put off, by namespace; see `act`.
    put_off: Mutex<HashMap<String, PutOff>>,
    /// How many batches of changes are under way, and how many there have been.
    under_way: AtomicU64,
    begun: AtomicU64,
    /// The generations of packet filters that are ours: namespace and number.
    generations: Mutex<HashSet<(String, u32)>>,
    /// How nftables tables were listed after we wrote them: namespace, family, name.
    tables: Mutex<HashMap<(String, String, String), String>>,
}

/// Work that is spared if what it is about goes first.
#[derive(Debug, Default)]
pub(crate) struct PutOff {
    /// By the index of a link: switching it off, loosing it from its bridge.
    pub(crate) messages: BTreeMap<u32, Vec<Message>>,
    /// Links that are to be removed.
    pub(crate) doomed: Vec<u32>,
}

impl Shared {
    pub(crate) fn new(settings: Settings) -> Result<Self, Refusal> {
        let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let seed = seed.as_micros() ^ (u128::from(std::process::id()) << 16);
        Ok(Self {
            parameters: Parameters::open(settings.parameters.clone())?,
            declared: Default::default(),
            formers: crate::former::Formers::open(settings.former_fields.clone())?,
            spaces: Spaces::new(settings)?,
            indexes: Indexes::starting(u64::try_from(seed & u128::from(u64::MAX)).unwrap_or(0)),
            archive: crate::survey::Archive::default(),
            peers: Mutex::default(),
            made: Mutex::default(),
            indexes_made: Mutex::default(),
            put_off: Mutex::default(),
            under_way: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            generations: Mutex::default(),
            tables: Mutex::default(),
        })
    }

    pub(crate) fn protocol(&self) -> u8 {
        self.spaces.settings().protocol
    }

    /// The protocol number of addresses that a link borrows.
    pub(crate) fn borrowed_protocol(&self) -> u8 {
        self.protocol().wrapping_add(1)
    }

    /// The other end of a pair will come with this index.
    pub(crate) fn promise_peer(&self, netns: &str, name: &str, index: u32) {
        locked(&self.peers).insert((netns.to_owned(), name.to_owned()), index);
    }

    /// The index of an end that came with the other end.
    pub(crate) fn take_peer(&self, netns: &str, name: &str) -> Option<u32> {
        locked(&self.peers).remove(&(netns.to_owned(), name.to_owned()))
    }

    /// A link of ours is there under this name. One that was made under another name keeps that: somebody renamed it.
    pub(crate) fn note_link(&self, netns: &str, name: &str, index: u32) {
        if !mark::is_ours(index) || locked(&self.made).contains_key(&index) {
            return;
        }
        self.indexes.seen(index);
        let place = (netns.to_owned(), name.to_owned());
        locked(&self.indexes_made).insert(place.clone(), index);
        locked(&self.made).insert(index, place);
    }

    /// A link of ours is gone, or is to be.
    pub(crate) fn forget_link(&self, netns: &str, name: &str) {
        let place = (netns.to_owned(), name.to_owned());
        let index = locked(&self.indexes_made).remove(&place);
        if let Some(index) = index {
            locked(&self.made).remove(&index);
        }
        locked(&self.peers).remove(&place);
    }

    /// The index that a link of this name was made with.
    pub(crate) fn index_made_as(&self, netns: &str, name: &str) -> Option<u32> {
        locked(&self.indexes_made).get(&(netns.to_owned(), name.to_owned())).copied()
    }

    /// The namespace and the name of a link of ours.
    pub(crate) fn link_made_with(&self, index: u32) -> Option<(String, String)> {
        locked(&self.made).get(&index).cloned()
    }

    /// Changes what was put off in a namespace.
    pub(crate) fn put_off<T>(&self, netns: &str, change: impl FnOnce(&mut PutOff) -> T) -> T {
        change(locked(&self.put_off).entry(netns.to_owned()).or_default())
    }

    /// What was put off in a namespace; whoever takes it carries it out, or knows that it happens anyway.
    pub(crate) fn take_put_off(&self, netns: &str) -> PutOff {
        locked(&self.put_off).remove(netns).unwrap_or_default()
    }

    /// A batch of changes begins.
    pub(crate) fn begin_change(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// A batch of changes has ended.
    pub(crate) fn end_change(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many batches of changes there have been.
    pub(crate) fn changes(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Whether nothing is being changed, and nothing was since there were so many.
    pub(crate) fn is_quiet_since(&self, changes: u64) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0 && self.changes() == changes
    }

    /// The namespaces in which something was put off.
    pub(crate) fn put_off_in(&self) -> Vec<String> {
        locked(&self.put_off).keys().cloned().collect()
    }

    /// A generation of packet filters will be ours.
    pub(crate) fn expect_generation(&self, netns: &str, number: u32) {
        let mut generations = locked(&self.generations);
        if generations.len() >= GENERATIONS {
            generations.clear();
        }
        generations.insert((netns.to_owned(), number));
    }

    /// Whether a generation is ours; asked once for each.
    pub(crate) fn take_generation(&self, netns: &str, number: u32) -> bool {
        locked(&self.generations).remove(&(netns.to_owned(), number))
    }

    /// How a table was listed after we wrote it.
    pub(crate) fn table(&self, netns: &str, family: &str, name: &str) -> Option<String> {
        locked(&self.tables).get(&(netns.to_owned(), family.to_owned(), name.to_owned())).cloned()
    }

    /// Remembers how a table is listed.
    pub(crate) fn remember_table(&self, netns: &str, family: &str, name: &str, listed: String) {
        locked(&self.tables).insert((netns.to_owned(), family.to_owned(), name.to_owned()), listed);
    }

    /// Forgets a table.
    pub(crate) fn forget_table(&self, netns: &str, family: &str, name: &str) {
        locked(&self.tables).remove(&(netns.to_owned(), family.to_owned(), name.to_owned()));
    }
}
