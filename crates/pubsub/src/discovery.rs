//! The discovery table: which distributors there are, and which of them are not any more.
//!
//! Decided here: when a row is written, and when somebody else's may be removed. Clocks of different machines are never
//! compared: a row is alive as long as its counter changes, seen on the observer's own clock, and it is removed only in
//! the version in which it was seen not to change. Where the table is kept, the driver knows.

use std::collections::{BTreeMap, VecDeque};

use crate::change::{LogId, Revision};
use crate::moment::Moment;
use crate::settings::Settings;

/// A distributor in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name: the same after every start.
    pub id: String,
    /// This start of it.
    pub instance: u128,
    /// Where it is.
    pub uri: String,
    /// The log it serves.
    pub log: LogId,
    /// How far it is.
    pub head: Revision,
    /// A counter that grows with every sign of life.
    pub beat: u64,
}

/// What is asked of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableRequest {
    /// To list all rows; answered by `listed`.
    List,
    /// To write a row, if its version is this one (nothing: if there is none); answered by `written`.
    Put {
        /// The row.
        row: Row,
        /// The version it must have.
        expected: Option<Revision>,
    },
    /// To remove a row, if its version is this one. Needs no answer.
    Delete {
        /// Its name.
        id: String,
        /// The version it must have.
        expected: Revision,
    },
}

#[derive(Debug)]
struct Seen {
    beat: u64,
    instance: u128,
    version: Revision,
    changed: Moment,
    uri: String,
}

/// A difference between two looks at the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// A distributor can be reached here.
    Appeared(String),
    /// No distributor can be reached here any more.
    Disappeared(String),
    /// A live distributor has the participant's own name, and its row; it can be reached here.
    Namesake(String),
}

/// One participant's part in the table: a distributor that keeps its row, or an onlooker.
#[derive(Debug)]
pub struct Discovery {
    settings: Settings,
    own: Option<Row>,
    own_version: Option<Revision>,
    /// What stands in the own row, if another start wrote it.
    namesake: Option<Seen>,
    started: Moment,
    next: Moment,
    seen: BTreeMap<String, Seen>,
    requests: VecDeque<TableRequest>,
    neighbours: VecDeque<Neighbour>,
}

impl Discovery {
    /// A distributor with its row, or an onlooker without one.
    pub fn new(settings: Settings, own: Option<Row>, now: Moment) -> Self {
        Self {
            settings,
            own,
            own_version: None,
            namesake: None,
            started: now,
            next: now,
            seen: BTreeMap::new(),
            requests: VecDeque::new(),
            neighbours: VecDeque::new(),
        }
    }

    /// What to ask of the table, in order.
    pub fn request(&mut self) -> Option<TableRequest> {
        self.requests.pop_front()
    }

    /// Who appeared and disappeared, in order.
    pub fn neighbour(&mut self) -> Option<Neighbour> {
        self.neighbours.pop_front()
    }

    /// Where others are.
    pub fn peers(&self) -> Vec<String> {
        self.seen.values().map(|seen| seen.uri.clone()).collect()
    }

    /// What the next sign of life says.
    pub fn set_position(&mut self, log: LogId, head: Revision) {
        if let Some(own) = &mut self.own {
            (own.log, own.head) = (log, head);
        }
    }

    /// The table was listed: rows with their versions.
    pub fn listed(&mut self, rows: Vec<(Row, Revision)>, now: Moment) {
        let mut before = std::mem::take(&mut self.seen);
        for (row, version) in rows {
            if self.own.as_ref().is_some_and(|own| own.id == row.id) {
                self.note_own(row, version, now);
                continue;
            }
            let earlier = before.remove(&row.id);
            let is_same = |seen: &&Seen| seen.beat == row.beat && seen.instance == row.instance;
            let changed = earlier.as_ref().filter(is_same).map_or(now, |seen| seen.changed);
            match &earlier {
                Some(seen) if seen.uri == row.uri => {}
                Some(seen) => {
                    self.neighbours.push_back(Neighbour::Disappeared(seen.uri.clone()));
                    self.neighbours.push_back(Neighbour::Appeared(row.uri.clone()));
                }
                None => self.neighbours.push_back(Neighbour::Appeared(row.uri.clone())),
            }
            let seen = Seen { beat: row.beat, instance: row.instance, version, changed, uri: row.uri };
            self.seen.insert(row.id, seen);
        }
        // The table does not tell the address of what is gone: it is remembered.
        for seen in before.into_values() {
            self.neighbours.push_back(Neighbour::Disappeared(seen.uri));
        }
        self.collect(now);
    }

    /// Looks at the row of the own name. **Why** it is not simply taken: whoever wrote it may be alive, and two that
    /// take it from each other would both seem to come and go. It is taken when it has not changed for a lease.
    fn note_own(&mut self, row: Row, version: Revision, now: Moment) {
        if self.own.as_ref().is_some_and(|own| own.instance == row.instance) {
            self.own_version = Some(version);
            self.namesake = None;
            return;
        }
        self.own_version = None;
        let mut changed = now;
        if let Some(seen) = &self.namesake {
            if (seen.beat, seen.instance) != (row.beat, row.instance) {
                self.neighbours.push_back(Neighbour::Namesake(row.uri.clone()));
            } else {
                changed = seen.changed;
            }
        }
        if now.since(changed) >= self.settings.lease {
            self.own_version = Some(version);
        }
        let Row { beat, instance, uri, .. } = row;
        self.namesake = Some(Seen { beat, instance, version, changed, uri });
    }

    /// Removes rows that have not changed for too long. **Why** not at once after a start: nothing has been seen to
    /// change yet.
    fn collect(&mut self, now: Moment) {
        let patience = self.settings.lease + self.settings.lease_grace;
        if self.own.is_none() || now.since(self.started) < patience {
            return;
        }
        for (id, seen) in &self.seen {
            if now.since(seen.changed) >= patience {
                self.requests.push_back(TableRequest::Delete { id: id.clone(), expected: seen.version });
            }
        }
    }

    /// The own row was written in this version, or not because it had another one: nothing then tells which.
    pub fn written(&mut self, version: Option<Revision>) {
        self.own_version = version;
    }

    /// When something is due.
    pub fn deadline(&self) -> Moment {
        self.next
    }

    /// Does what is due: a sign of life, and a look at the others.
    pub fn advance(&mut self, now: Moment) {
        if self.next > now {
            return;
        }
        self.next = now.after(self.settings.lease_renewal);
        if let Some(own) = &mut self.own {
            own.beat += 1;
            self.requests.push_back(TableRequest::Put { row: own.clone(), expected: self.own_version });
        }
        self.requests.push_back(TableRequest::List);
    }
}
