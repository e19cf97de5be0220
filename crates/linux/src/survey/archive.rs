//! What was read of the kernel before, to see at little cost that it still is so.
//!
//! Decided here: whether a table says what it said, and whether a kind would be listed as it was. A table that comes byte
//! by byte as it came is not decoded; of one that does not, only the rows that differ are, and one that then means the
//! same (a timer has run on) is the same. Nothing is believed because it was written by us: every answer rests on a read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kilter_model::linux::{NetnsName, Rule};
use kilter_scheduler::Listing;

use crate::netlink::message::Messages;
use crate::netlink::rows::{Rows, compared, read_against};
use crate::netlink::rtnl;
use crate::netlink::{Message, Received, Refusal, Requests};
use crate::space::{Space, locked};
use crate::{address, fdb, link, neighbour, qdisc};

/// What tells one content of a table from every other one.
pub(super) type Number = u64;

/// The tables of a namespace, read by one at a time.
type Shelf = Arc<Mutex<Known>>;

/// What was read before, by namespace, and what kinds were listed as.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    /// The number of the namespace, and what is known of it.
    spaces: Mutex<HashMap<NetnsName, (u64, Shelf)>>,
    /// The last listing of each kind, and a digest of all that it depended on.
    listings: Mutex<HashMap<String, (Listing, blake3::Hash)>>,
    last: AtomicU64,
}

impl Archive {
    /// What is known of a namespace; nothing of one that only has the same name.
    pub(super) fn of(&self, netns: &NetnsName, space: &Space) -> Shelf {
        let mut spaces = locked(&self.spaces);
        let known = spaces.entry(netns.clone()).or_insert_with(|| (space.cookie, Arc::default()));
        if known.0 != space.cookie {
            *known = (space.cookie, Arc::default());
        }
        Arc::clone(&known.1)
    }

    /// Forgets the namespaces that are not there.
    pub(super) fn keep(&self, spaces: &[(NetnsName, Arc<Space>)]) {
        locked(&self.spaces).retain(|netns, _| spaces.iter().any(|(there, _)| there == netns));
    }

    /// Whether the kind would be listed as it was then.
    pub(super) fn is_as_listed(&self, room: &str, since: Listing, digest: blake3::Hash) -> bool {
        locked(&self.listings).get(room) == Some(&(since, digest))
    }

    /// Remembers what a listing depended on.
    pub(super) fn list(&self, room: &str, digest: blake3::Hash) -> Listing {
        let listing = Listing(self.number());
        locked(&self.listings).insert(room.to_owned(), (listing, digest));
        listing
    }

    /// A number that was not given out before.
    fn number(&self) -> Number {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The tables of one namespace, as they were last read.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) links: Table<link::read::Seen>,
    pub(super) addresses: Table<address::Seen>,
    /// By family.
    pub(super) rules: [Table<(Rule, u8)>; 2],
    /// Neighbours, and addresses that are answered for.
    pub(super) neighbours: [Table<neighbour::Seen>; 2],
    pub(super) fdb: Table<fdb::Seen>,
    pub(super) qdiscs: Table<qdisc::Seen>,
    /// Our own routes, by family.
    pub(super) routes: [RouteRows; 2],
}

/// What a table says, and the number of that.
#[derive(Debug)]
pub(super) struct Content<T> {
    pub(super) seen: Arc<Vec<T>>,
    pub(super) number: Number,
}

impl<T> Clone for Content<T> {
    fn clone(&self) -> Self {
        Self { seen: Arc::clone(&self.seen), number: self.number }
    }
}

/// A table of which all rows are decoded.
#[derive(Debug)]
pub(super) struct Table<T> {
    rows: Rows,
    /// For each row, where it stands in the content, if it means anything.
    places: Vec<Option<u32>>,
    content: Content<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            rows: Rows::default(),
            places: Vec::new(),
            content: Content { seen: Arc::default(), number: 0 },
        }
    }
}

impl<T: PartialEq + Clone> Table<T> {
    /// Reads the table.
    pub(super) fn read(
        &mut self,
        archive: &Archive,
        requests: &mut Requests,
        (request, kind): (&Message, u16),
        decode: impl Fn(&Received<'_>) -> Option<T>,
    ) -> Result<Content<T>, Refusal> {
        let read = match read_against(requests, request, kind, &self.rows) {
            // A kernel without the family has nothing of it.
            Err(refusal) if refusal.is_unsupported() => Some(Rows::default()),
            read => read?,
        };
        if let Some(rows) = read {
            self.take(archive, rows, |row| {
                decode(&Received { kind, flags: 0, seq: 0, port: 0, payload: row })
            });
        }
        Ok(self.content.clone())
    }

    /// Takes in rows that are not as they were.
    fn take(&mut self, archive: &Archive, rows: Rows, decode: impl Fn(&[u8]) -> Option<T>) {
        let before: Vec<&[u8]> = self.rows.iter().collect();
        let old = |at: usize| self.places[at].map(|place| &self.content.seen[place as usize]);
        let mut seen: Vec<T> = Vec::with_capacity(self.content.seen.len());
        let mut places = Vec::with_capacity(before.len());
        let mut next = 0_usize;
        for row in rows.iter() {
            // A row stands where it stood, or one further up or down for each that came or went.
            let known =
                [next, next + 1, next.wrapping_sub(1)].into_iter().find(|at| before.get(*at) == Some(&row));
            let meaning = match known {
                Some(at) => old(at).cloned(),
                None => decode(row),
            };
            next = known.unwrap_or(next) + 1;
            let place = u32::try_from(seen.len()).expect("a table has fewer rows than that");
            places.push(meaning.is_some().then_some(place));
            seen.extend(meaning);
        }
        if *self.content.seen != seen {
            self.content = Content { seen: Arc::new(seen), number: archive.number() };
        }
        self.places = places;
        self.rows = rows;
    }
}

/// Fuzzed: two reads of one table, one after the other; whether the second says what it would say by itself.
#[doc(hidden)]
pub fn read_after(before: &[u8], after: &[u8]) -> bool {
    let archive = Archive::default();
    let decode = |row: &[u8]| {
        link::read::decode(&Received { kind: rtnl::NEWLINK, flags: 0, seq: 0, port: 0, payload: row })
    };
    let take = |table: &mut Table<link::read::Seen>, bytes: &[u8]| {
        let rows: Vec<&[u8]> = Messages(bytes).map(|received| received.payload).collect();
        if let Some(rows) = compared(&table.rows, rows.into_iter()) {
            table.take(&archive, rows, decode);
        }
    };
    let (mut table, mut alone) = (Table::default(), Table::default());
    take(&mut table, before);
    let then = table.content.clone();
    take(&mut table, after);
    take(&mut alone, after);
    let numbered = (table.content.number == then.number) == (table.content.seen == then.seen);
    table.content.seen == alone.content.seen && table.rows == alone.rows && numbered
}

/// The rows of our routes, which are decoded only when they have to be listed.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteRows {
    pub(super) rows: Arc<Rows>,
    pub(super) number: Number,
}

impl RouteRows {
    /// Reads the rows.
    pub(super) fn read(
        &mut self,
        archive: &Archive,
        requests: &mut Requests,
        family: u8,
        protocol: u8,
    ) -> Result<Self, Refusal> {
        if let Some(rows) = crate::route::read_rows_against(requests, family, protocol, &self.rows)? {
            *self = Self { rows: Arc::new(rows), number: archive.number() };
        }
        Ok(self.clone())
    }
}
