//! The graph: vertices by key, their edges in both directions, and the groups behind "any of".
//!
//! Decided here: identity, bookkeeping, and that counts agree with edges. Not decided here: what shall exist
//! ([`crate::walk`]) and what a person sees ([`view`]).

pub(crate) mod edges;
pub(crate) mod groups;
pub(crate) mod index;
pub(crate) mod listings;
pub(crate) mod node;
pub(crate) mod view;

use std::hash::BuildHasher as _;
use std::ops::{Index, IndexMut};

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::key::Key;
use crate::record::Side;
use crate::registry::{KindId, Registry};
use crate::state::State;
use crate::txn::Retry;
use crate::value::ValueRef;
use groups::GroupTable;
use index::{Entry, KeyIndex};
use listings::Listings;
use node::{Dependent, EdgeBits, Flags, Id, NO, Node};

#[derive(Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    generations: Vec<u32>,
    free: Vec<Id>,
    /// Vertices by the hash of their key, which is kept so that neither growing nor a miss has to look at keys.
    table: HashTable<(u32, Id)>,
    index: KeyIndex,
    groups: GroupTable,
    /// Groups that nobody asks for; dropped when the walk is over, since a walk remembers vertices by number.
    idle_groups: Vec<Id>,
    /// Vertices that nobody needs any more and that may be blank.
    orphans: Vec<Id>,
    /// Declared foreign items whose dependencies changed, each with its state before: theirs depends on it.
    pub(crate) noticed: Vec<(Id, State)>,
    retries: RetryTable,
    /// What the last resync declared; nothing if a vertex was dropped since.
    pub(crate) declared_last: DeclaredLast,
    /// The listings that are still believed to the letter.
    pub(crate) listings: Listings,
    /// The sweep under way; vertices remember the last one that saw them.
    pub(crate) epoch: u32,
}

/// What a resync declared, to recognise the same when it comes again.
#[derive(Default)]
pub(crate) struct DeclaredLast {
    /// The vertices by key.
    pub(crate) ids: Vec<Id>,
    /// For each of them, which of the changes it was as they were asked; empty if they were asked by key.
    pub(crate) by_key: Vec<u32>,
}

/// Retry options, each stored once.
#[derive(Default)]
struct RetryTable {
    list: Vec<Retry>,
}

impl Index<Id> for Graph {
    type Output = Node;

    fn index(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }
}

impl IndexMut<Id> for Graph {
    fn index_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id as usize]
    }
}

fn hash(key: &str) -> u32 {
    let hashed = FxBuildHasher.hash_one(key);
    (hashed ^ (hashed >> 32)) as u32
}

/// Spreads a kept hash over all bits that the table looks at.
fn spread(hashed: u32) -> u64 {
    u64::from(hashed).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Graph {
    /// The vertex of a key.
    pub(crate) fn find(&self, key: &str) -> Option<Id> {
        self.find_hashed(key, hash(key))
    }

    fn find_hashed(&self, key: &str, hashed: u32) -> Option<Id> {
        let is_it = |entry: &(u32, Id)| entry.0 == hashed && self.nodes[entry.1 as usize].key.as_str() == key;
        self.table.find(spread(hashed), is_it).map(|(_, id)| *id)
    }

    /// Makes room for this many more keys.
    pub(crate) fn reserve(&mut self, more: usize) {
        if more > self.table.len() / 8 {
            self.table.reserve(more, |(hashed, _)| spread(*hashed));
            self.nodes.reserve(more.saturating_sub(self.free.len()));
        }
    }

    /// The vertex of a key, made if there is none.
    pub(crate) fn intern(&mut self, key: &str, registry: &Registry) -> Id {
        let hashed = hash(key);
        match self.find_hashed(key, hashed) {
            Some(id) => id,
            None => self.insert(Key::new(key), hashed, registry),
        }
    }

    /// Like [`Self::intern`], sharing the caller's key.
    pub(crate) fn intern_key(&mut self, key: &Key, registry: &Registry) -> Id {
        let hashed = hash(key.as_str());
        match self.find_hashed(key.as_str(), hashed) {
            Some(id) => id,
            None => self.insert(key.clone(), hashed, registry),
        }
    }

    fn insert(&mut self, key: Key, hashed: u32, registry: &Registry) -> Id {
        let kind = registry.owner(key.as_str()).unwrap_or(KindId::NONE);
        let id = self.allocate(Node::new(key, kind));
        self.table.insert_unique(spread(hashed), (hashed, id), |(hashed, _)| spread(*hashed));
        self.index.note(Entry { id, generation: self.generations[id as usize] });
        self.join_groups(id);
        id
    }

    fn allocate(&mut self, node: Node) -> Id {
        match self.free.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                id
            }
            None => {
                let id = Id::try_from(self.nodes.len()).expect("fewer than four billion vertices");
                self.nodes.push(node);
                self.generations.push(0);
                id
            }
        }
    }

    /// Drops a vertex about which nothing is known, with its edges.
    pub(crate) fn drop_vertex(&mut self, id: Id) {
        debug_assert!(
            self[id].is_blank(),
            "{:?} is dropped although something is known about it",
            self[id].key
        );
        while !self[id].needs.is_empty() {
            self.remove_edge(id, 0);
        }
        self.leave_groups(id);
        let hashed = hash(self[id].key.as_str());
        if let Ok(entry) = self.table.find_entry(spread(hashed), |(_, other)| *other == id) {
            entry.remove();
        }
        self.release(id);
    }

    fn release(&mut self, id: Id) {
        self.declared_last = DeclaredLast::default();
        self.nodes[id as usize] = Node::new(Key::new(""), KindId::NONE);
        self.generations[id as usize] += 1;
        self.free.push(id);
    }

    /// Drops the vertices about which nothing is known any more, of these and of those that nobody needs any more.
    pub(crate) fn sweep(&mut self, candidates: &[Id]) {
        self.orphans.extend(candidates);
        while let Some(id) = self.orphans.pop() {
            if self.is_item(id) && self[id].is_blank() {
                self.drop_vertex(id);
            }
        }
        self.drop_idle_groups();
    }

    /// Every live vertex that is an item or a key, not a group, in the order in which they lie in memory.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> + '_ {
        self.ids_without(&[])
    }

    /// The same without those that are marked by their number, which are not looked at.
    pub(crate) fn ids_without<'a>(&'a self, marked: &'a [bool]) -> impl Iterator<Item = Id> + 'a {
        let live = |node: &Node| !node.has(Flags::GROUP) && !node.key.as_str().is_empty();
        let is_marked = |id: Id| marked.get(id as usize).copied().unwrap_or(false);
        (0_u32..).zip(&self.nodes).filter(move |(id, node)| !is_marked(*id) && live(node)).map(|(id, _)| id)
    }

    /// How many numbers there are, those that are free included.
    pub(crate) fn slots(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the number belongs to a live item or key.
    pub(crate) fn is_item(&self, id: Id) -> bool {
        let node = &self[id];
        !node.has(Flags::GROUP) && !node.key.as_str().is_empty()
    }

    /// How many live keys there are.
    pub(crate) fn vertex_count(&self) -> usize {
        self.table.len()
    }

    /// The live vertices whose keys start with a prefix.
    pub(crate) fn under(&mut self, prefix: &str) -> Vec<Id> {
        let Self { index, nodes, generations, .. } = self;
        let mut found = Vec::new();
        let key_of = |entry: Entry| {
            let at = entry.id as usize;
            (generations[at] == entry.generation).then(|| nodes[at].key.as_str())
        };
        index.find(prefix, key_of, |id| found.push(id));
        found
    }

    /// Whether dependents may count on the vertex.
    pub(crate) fn is_goal(&self, id: Id) -> bool {
        self[id].has(Flags::GOAL)
    }

    /// Sets what the item is, and tells in `touched` whose dependencies that met or broke.
    pub(crate) fn set_actual(
        &mut self,
        id: Id,
        actual: Option<ValueRef>,
        observed: bool,
        touched: &mut Vec<Id>,
    ) {
        self.disturb(id);
        self.set_actual_as_listed(id, actual, observed, touched);
    }

    /// Something was learnt about the item, so that its kind is not believed as it was listed. What is read with its
    /// base is told by the listing of that.
    pub(crate) fn disturb(&mut self, id: Id) {
        let (kind, base) = (self[id].kind, self[id].base);
        self.listings.forget(kind);
        if base != NO {
            self.listings.forget(self[base].kind);
        }
    }

    /// The same as [`Self::set_actual`] for a value that the listing of the kind stands for.
    pub(crate) fn set_actual_as_listed(
        &mut self,
        id: Id,
        actual: Option<ValueRef>,
        observed: bool,
        touched: &mut Vec<Id>,
    ) {
        let was_observed = self[id].is_observed();
        let existed = self[id].exists();
        let node = &mut self[id];
        node.actual = actual;
        node.flags.set(Flags::OBSERVED, observed && node.exists());
        let (exists, is_observed) = (node.exists(), node.is_observed());
        if existed != exists {
            self.count_in_groups(id, |group| {
                group.present = if exists { group.present + 1 } else { group.present - 1 };
            });
        }
        if was_observed != is_observed {
            for at in 0..self[id].dependents.len() {
                let Dependent { source, edge } = self[id].dependents[at];
                let bits = self[source].needs[edge as usize].bits;
                if bits.has(EdgeBits::ABSENT) && bits.has(EdgeBits::DECLARED) {
                    self.count_unmet(source, bits, is_observed);
                    touched.push(source);
                }
            }
        }
    }

    /// Adds the vertex to the set that shall exist, or takes it out, and tells in `touched` whose dependencies that
    /// met or broke.
    pub(crate) fn set_goal(&mut self, id: Id, goal: bool, touched: &mut Vec<Id>) {
        debug_assert_ne!(self.is_goal(id), goal);
        self[id].flags.set(Flags::GOAL, goal);
        for at in 0..self[id].dependents.len() {
            let Dependent { source, edge } = self[id].dependents[at];
            let bits = self[source].needs[edge as usize].bits;
            if bits.has(EdgeBits::DECLARED) && !bits.has(EdgeBits::ABSENT) {
                self.count_unmet(source, bits, !goal);
                touched.push(source);
            }
        }
        for at in 0..self[id].member_of().len() {
            let (group, _) = self[id].member_of()[at];
            let counts = self.group_mut(group);
            counts.goal = if goal { counts.goal + 1 } else { counts.goal - 1 };
            let any = counts.goal > 0;
            if any != self.is_goal(group) {
                self.set_goal(group, any, touched);
            }
        }
    }

    fn count_unmet(&mut self, source: Id, bits: EdgeBits, one_more: bool) {
        if self[source].has(Flags::OBSERVED) && self[source].declared.is_some() {
            self.noticed.push((source, self.state(source)));
        }
        let node = &mut self[source];
        let count = if bits.has(EdgeBits::CREATE) { &mut node.unmet_create } else { &mut node.unmet };
        *count = if one_more { *count + 1 } else { *count - 1 };
    }

    /// Where an item stands. What an absent base would derive does not exist either.
    pub(crate) fn state(&self, id: Id) -> State {
        let node = &self[id];
        let state = node.state();
        if state == State::Pending && node.has(Flags::DERIVED) && !self.is_goal(node.base) {
            return State::Nonexistent;
        }
        state
    }

    /// An item as a record tells it: its state, and what it is, or was to be if it does not exist.
    pub(crate) fn side(&self, id: Id) -> Side {
        let node = &self[id];
        let state = self.state(id);
        let to_be = || node.refused().map(|refused| &refused.value).or(node.declared.as_ref());
        let value = node.actual.as_ref().or_else(to_be).filter(|_| state != State::Nonexistent).cloned();
        Side { state, value }
    }

    /// Whether an item has not reached its declared value for a reason other than a dependency.
    pub(crate) fn is_unfinished(&self, id: Id) -> bool {
        let node = &self[id];
        node.failure().is_some() || node.awaited().is_some() || node.has(Flags::HELD)
    }

    /// The retry options of a vertex.
    pub(crate) fn retry_of(&self, id: Id) -> Option<Retry> {
        let at = (self[id].retry as usize).checked_sub(1)?;
        self.retries.list.get(at).copied()
    }

    /// The number under which retry options are stored.
    pub(crate) fn retry_number(&mut self, retry: Option<Retry>) -> u16 {
        let Some(retry) = retry else { return 0 };
        let at = match self.retries.list.iter().position(|known| *known == retry) {
            Some(at) => at,
            None if self.retries.list.len() < usize::from(u16::MAX) - 1 => {
                self.retries.list.push(retry);
                self.retries.list.len() - 1
            }
            // Callers with ever-changing options reuse the last slot rather than grow without bound.
            None => {
                let last = self.retries.list.len() - 1;
                self.retries.list[last] = retry;
                last
            }
        };
        u16::try_from(at + 1).expect("the table is bounded")
    }

    /// The base item a vertex belongs to: its base if it is derived, else itself.
    pub(crate) fn base_of(&self, id: Id) -> Id {
        if self[id].base == NO { id } else { self[id].base }
    }
}

/// Sorts vertices by key. Keys share long beginnings, so the part behind the common one is compared first, as a number.
pub(crate) fn sort_by_key<T: Copy>(graph: &Graph, list: &mut Vec<T>, id_of: impl Fn(&T) -> Id) {
    let key_of = |entry: &T| graph[id_of(entry)].key.as_str();
    if list.len() < 24 || list.is_sorted_by_key(key_of) {
        list.sort_by(|a, b| key_of(a).cmp(key_of(b)));
        return;
    }
    let first = key_of(&list[0]).as_bytes();
    let mut common = first.len();
    for entry in list.iter() {
        common = first.iter().zip(key_of(entry).as_bytes()).take(common).take_while(|(a, b)| a == b).count();
    }
    let head = |entry: &T| {
        let mut bytes = [0_u8; 16];
        for (byte, from) in bytes.iter_mut().zip(&key_of(entry).as_bytes()[common..]) {
            *byte = *from;
        }
        u128::from_be_bytes(bytes)
    };
    let mut decorated: Vec<(u128, T)> = list.iter().map(|entry| (head(entry), *entry)).collect();
    decorated.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| key_of(one).cmp(key_of(other))));
    list.clear();
    list.extend(decorated.into_iter().map(|(_, entry)| entry));
}
