//! Pauses: when an order that did not go on is tried again.
//!
//! Decided here: that it is tried at the pace of everything else ([`crate::patience`]), and earlier if what it is about has
//! changed meanwhile, unless somebody asked for the pause.

use std::collections::BTreeMap;
use std::time::Duration;

use kilter_scheduler::Timestamp;

use crate::budget::{Exhausted, REFILL, SPENT};
use crate::mirror::Mirror;
use crate::object::Id;
use crate::osb::objects::{activation_id, flow_id};
use crate::osb::record::Record;
use crate::patience::{Waits, pause};
use crate::request::{Class, Rejected};
use crate::standing::is_installed;

/// Why an operation did not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Hitch {
    /// It may later.
    #[error("{id}: {source}")]
    Later {
        /// The object that it is about.
        id: Id,
        /// Why.
        source: Rejected,
    },
    /// It was tried too often.
    #[error(transparent)]
    Spent(#[from] Exhausted),
    /// It never will.
    #[error("{0}")]
    Never(String),
}

impl Hitch {
    /// What a rejection means for an order.
    pub(crate) fn new(id: &Id, source: Rejected) -> Self {
        if source.class().is_retriable() {
            return Self::Later { id: id.clone(), source };
        }
        Self::Never(format!("{id}: {}", source.message))
    }

    /// How long it has to be left alone, if anybody says so.
    fn asked(&self) -> Option<Duration> {
        match self {
            Self::Later { source, .. } => pause(source),
            Self::Spent(_) => Some(REFILL),
            Self::Never(_) => None,
        }
    }

    /// Of which sort it is.
    fn word(&self) -> &'static str {
        match self {
            Self::Later { source, .. } => source.class().name(),
            Self::Spent(_) => SPENT,
            Self::Never(_) => Class::Invalid.name(),
        }
    }
}

/// What is seen of what an order is about: the versions of both objects, and whether their resources are installed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sight([(Option<String>, bool); 2]);

impl Sight {
    fn of(record: &Record, mirror: &Mirror) -> Self {
        Self([flow_id(record), activation_id(record)].map(|id| {
            let version = mirror.get(&id).map(|object| object.version().to_owned());
            (version, is_installed(id.resource, mirror))
        }))
    }
}

/// An order: an instance, and the operation that is under way. What was wrong with another one says nothing about it.
type Order = (String, String);

fn order(record: &Record) -> Order {
    (record.instance.clone(), record.operation.clone())
}

/// The orders that did not go on.
#[derive(Debug)]
pub(crate) struct Pauses {
    waits: Waits<Order>,
    /// What was seen of them when they did not.
    sights: BTreeMap<Order, Sight>,
}

impl Pauses {
    /// None of them waits. The seed decides by how much retries are later than they have to be.
    pub(crate) fn new(seed: u64) -> Self {
        Self { waits: Waits::new(seed), sights: BTreeMap::new() }
    }

    /// Takes note of an order that did not go on; whether it is for another sort of reason than the last time.
    pub(crate) fn note(&mut self, record: &Record, hitch: &Hitch, mirror: &Mirror, now: Timestamp) -> bool {
        self.sights.insert(order(record), Sight::of(record, mirror));
        self.waits.note(order(record), hitch.word(), hitch.asked(), now)
    }

    /// The order went on.
    pub(crate) fn forget(&mut self, record: &Record) {
        self.waits.forget(&order(record));
        self.sights.remove(&order(record));
    }

    /// Whether an order waits for its turn.
    pub(crate) fn is_resting(&self, record: &Record, mirror: &Mirror, now: Timestamp) -> bool {
        let order = order(record);
        let Some(wait) = self.waits.get(&order).filter(|wait| now < wait.due) else { return false };
        wait.is_firm || self.sights.get(&order) == Some(&Sight::of(record, mirror))
    }

    /// Forgets the orders whose turn it was at this moment.
    pub(crate) fn sweep(&mut self, now: Timestamp) {
        self.waits.retain(now, |_| false);
        self.sights.retain(|order, _| self.waits.get(order).is_some());
    }

    /// When the first of them is tried again, whatever happens.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.waits.due()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::{Object, Resource};
    use crate::osb::decide::tests::record;
    use crate::osb::record::Stage;

    fn rejected(code: u16) -> Hitch {
        let source = Rejected { code, reason: "Because".to_owned(), ..Rejected::default() };
        Hitch::Later { id: flow_id(&record(Stage::Provisioning)), source }
    }

    fn define(mirror: &mut Mirror, resource: Resource) {
        let established = json!([{"type": "Established", "status": "True"}]);
        let meta = json!({"name": resource.definition(), "uid": "u", "resourceVersion": "1"});
        let content = json!({"metadata": meta, "status": {"conditions": established}});
        mirror.see(Object::new(Resource::Definition, content));
    }

    #[test]
    fn what_changes_about_an_order_ends_its_pause_unless_somebody_asked_for_it() {
        let (mut mirror, now) = (Mirror::default(), Timestamp::default());
        let order = record(Stage::Provisioning);
        let (mut pauses, mut firm) = (Pauses::new(7), Pauses::new(7));
        assert!(pauses.note(&order, &rejected(503), &mirror, now), "it is news");
        assert!(firm.note(&order, &rejected(403), &mirror, now));
        let stirred = json!({"metadata": {"namespace": "shop", "name": "another", "resourceVersion": "1"}});
        mirror.see(Object::new(Resource::EventFlow, stirred));
        assert!(pauses.is_resting(&order, &mirror, now), "that is not about it");
        define(&mut mirror, Resource::EventActivation);
        assert!(!pauses.is_resting(&order, &mirror, now), "what it needs has come");
        assert!(firm.is_resting(&order, &mirror, now), "somebody has to change the rules first");
        assert!(!pauses.note(&order, &rejected(503), &mirror, now), "it is none any more");
        assert!(pauses.is_resting(&order, &mirror, now));
        let next = Record { operation: "deprovision-2".to_owned(), ..order.clone() };
        assert!(!firm.is_resting(&next, &mirror, now), "another operation is another order");
        let due = pauses.due().unwrap();
        assert!(!pauses.is_resting(&order, &mirror, due), "its turn has come");
        pauses.sweep(due);
        assert_eq!((pauses.due(), pauses.sights.len()), (None, 0), "nobody is kept busy by it");
    }
}
